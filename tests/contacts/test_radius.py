from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedroam.components import build
from fedroam.contacts import degrees, graph_of, pairs_of
from fedroam.contacts.radius import Radius
from fedroam.errors import InputError
from fedroam.mobility import Paths
from fedroam.randomness import stream


def meet(
    radius: float, places: list[tuple[float, float]], present: list[bool] | None = None
) -> list[list[int]]:
    here = None if present is None else np.array(present)
    graph = Radius(radius=radius).meet(Paths.still(np.array(places, dtype=float), here))
    return [[int(i), int(j)] for i, j in pairs_of(graph)]


def test_contacts_by_hand() -> None:
    places = [(1, 1), (4, 1), (4, 5), (1, 1), (18, 18)]
    assert meet(3, places) == [[0, 1], [0, 3], [1, 3]]
    assert meet(2.999, places) == [[0, 3]]
    assert meet(4, places) == [[0, 1], [0, 3], [1, 2], [1, 3]]
    assert meet(5, places) == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert meet(0, places) == [[0, 3]]
    assert len(meet(math.inf, places)) == 10


def test_those_away_have_no_contacts() -> None:
    places = [(0, 0), (0, 1), (0, 2)]
    assert meet(1, places, [True, False, True]) == []
    assert meet(math.inf, places, [True, False, True]) == [[0, 2]]
    assert meet(math.inf, places, [False, False, False]) == []
    assert meet(1, places, [False, False, False]) == []
    assert meet(1, [(0, 0), (math.nan, math.nan), (0, 1)], [True, False, True]) == [[0, 2]]


coordinate = st.floats(-1e5, 1e5).map(lambda v: v if abs(v) > 1e-100 else 0.0)


@given(coordinate, coordinate, coordinate, coordinate)
def test_the_radius_is_inclusive_to_the_last_bit(ax: float, ay: float, bx: float, by: float) -> None:
    apart = float(np.hypot(ax - bx, ay - by))
    assert meet(apart, [(ax, ay), (bx, by)]) == [[0, 1]]
    if apart > 0:
        assert meet(math.nextafter(apart, 0), [(ax, ay), (bx, by)]) == []


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=25), st.floats(0, 45))
def test_contacts_are_those_of_the_definition(places: list[tuple[int, int]], radius: float) -> None:
    slow = [
        [i, j]
        for i in range(len(places))
        for j in range(i + 1, len(places))
        if math.hypot(places[i][0] - places[j][0], places[i][1] - places[j][1]) <= radius
    ]
    assert meet(radius, places) == slow


def test_few_and_many_meet_alike() -> None:
    """Ninety are compared pair by pair; with ten more, far away, an index finds who meets."""
    places = stream(3, "places").integers(0, 30, (90, 2)).astype(float)
    away = 1000.0 + 100.0 * np.arange(10)[:, None] * np.ones(2)
    ends = np.concatenate([places, away])
    starts = ends[::-1]
    few = Radius(radius=5.0).meet(Paths.straight(starts[:90], places))
    many = Radius(radius=5.0).meet(Paths.straight(starts, ends))
    assert few.nnz > 500
    assert pairs_of(few).tolist() == pairs_of(many).tolist()


@pytest.mark.parametrize("crowd", ["square", "grid", "row", "column", "point", "towns", "one far away"])
@pytest.mark.parametrize("radius", [0.0, 1.0, 5.0, 1e4])
def test_many_meet_as_the_definition_says(crowd: str, radius: float) -> None:
    draws = stream(5, "crowd")
    places = draws.uniform(-30, 50, (250, 2))
    match crowd:
        case "grid":  # distances of exactly the radius, and two at one place
            places = draws.integers(0, 40, (250, 2)).astype(float)
        case "row":
            places[:, 1] = 7.25
        case "column":
            places[:, 0] = 7.25
        case "point":
            places[:] = 0.1, -3e5
        case "towns":
            places[::2] += 1e7
        case "one far away":
            places[77] = -1e12, 1e9
    i, j = np.triu_indices(len(places), k=1)
    apart = np.hypot(*(places[i] - places[j]).T)
    met = apart <= radius
    assert meet(radius, places.tolist()) == np.stack([i, j], axis=1)[met].tolist()
    if radius == 5.0 and crowd != "point":
        assert 0 < met.sum() < len(met)


def test_contact_is_judged_at_the_end_of_the_round() -> None:
    # they cross in the middle of the round and are 10 m apart at both its ends
    crossing = Paths.straight(np.array([[0.0, 0.0], [10.0, 0.0]]), np.array([[10.0, 0.0], [0.0, 0.0]]))
    assert Radius(radius=3.0).meet(crossing).nnz == 0
    meeting = Paths.straight(np.array([[0.0, 0.0], [10.0, 0.0]]), np.array([[5.0, 0.0], [5.0, 3.0]]))
    assert Radius(radius=3.0).meet(meeting).nnz == 2


def test_many_clients_cost_contacts_not_pairs() -> None:
    side = 200  # 40,000 clients, 4 neighbours each inside
    x, y = np.meshgrid(np.arange(side), np.arange(side))
    places = np.stack([x.ravel(), y.ravel()], axis=1).astype(float)
    graph = Radius(radius=1.0).meet(Paths.still(places))
    assert graph.nnz == 4 * side * (side - 1)


def test_degrees_and_pairs() -> None:
    graph = graph_of(np.array([[2, 0], [1, 2]]), 4)
    assert list(degrees(graph)) == [1, 1, 2, 0]
    assert pairs_of(graph).tolist() == [[0, 2], [1, 2]]
    assert pairs_of(graph).dtype == np.int32
    assert graph_of(np.zeros((0, 2), dtype=np.int64), 3).nnz == 0


def test_a_negative_radius_is_refused() -> None:
    with pytest.raises(InputError, match=r"contacts.radius = -1"):
        build("contacts", {"kind": "radius", "radius": -1.0})
    assert Radius(radius=math.inf).reach() == math.inf
    assert Radius(radius=2.5).reach() == 2.5


@given(
    met=st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda pair: pair[0] < pair[1])),
    order=st.randoms(use_true_random=False),
)
def test_pairs_of_a_graph_whose_rows_are_in_no_order(met: set[tuple[int, int]], order: Random) -> None:
    rows: list[list[int]] = [[] for _ in range(9)]
    for i, j in met:
        rows[i].append(j)
        rows[j].append(i)
    for row in rows:
        order.shuffle(row)
    indices = np.array([j for row in rows for j in row], np.int32)
    indptr = np.cumsum([0, *map(len, rows)])
    graph = sparse.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(9, 9))
    assert pairs_of(graph).tolist() == sorted(map(list, met))
