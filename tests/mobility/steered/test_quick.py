"""Steered movement of many is quick, and flies as the slow way does: the same destinations, draw for draw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.mobility import World
from fedroam.mobility.steered import grid as steered_grid
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.mobility.steered.policy import Steered
from fedroam.mobility.steered.sketches.certainty import Laid, rounding
from fedroam.mobility.steered.sketches.distances import Distances, Rounded
from fedroam.mobility.steered.sketches.grid_sketch import Sketch
from fedroam.mobility.steered.sketches.point_sketch import PointSketch
from fedroam.mobility.steered.spread import Spread, SpreadContinuous
from fedroam.mobility.steered.targets import OtherTargets, Targets, Unserved
from fedroam.mobility.steered.unserved import UnservedGrid, UnservedPoints
from fedroam.randomness import stream
from support.effort import calls
from support.slow_steering import slow_centres, slow_distances, slow_round

KINDS: list[dict[str, Any]] = [
    {"kind": "dam"},
    {"kind": "dcm"},
    {"kind": "dcm", "ties": "random", "centres": "clients"},
    {"kind": "spread", "base": "dam"},
    {"kind": "spread", "base": "dam", "discount": 0.6},
    {"kind": "spread", "base": "dcm"},
    {"kind": "dam_continuous"},
    {"kind": "dam_continuous", "candidates": "clients"},
    {"kind": "dcm_continuous", "candidates": "intersections"},
    {"kind": "spread_continuous", "base": "dam"},
    {"kind": "spread_continuous", "base": "dcm", "discount": 0.3},
]
# Those whose targets are not all points of a grid.
TO_POINTS = [
    kind for kind in KINDS if "continuous" in kind["kind"] or "dam" not in (kind["kind"], kind.get("base"))
]


def settings_of(kind: dict[str, Any], side: int, **others: Any) -> dict[str, Any]:
    """A kind's settings in a square world."""
    plane = {"width": float(side), "height": float(side)}
    return {**kind, **(plane if "continuous" in kind["kind"] else {"grid": side}), **others}


def fly_alike(part: Any, world: World, rounds: int) -> None:
    """Fly by the part and by the slow way, side by side."""
    state = part.start(world)
    for t in range(1, rounds + 1):
        (quick, ways), (slow, slow_ways) = part.step(state, world, t), slow_round(part, state, world, t)
        assert sorted(quick) == sorted(slow)
        for name, array in slow.items():
            np.testing.assert_array_equal(quick[name], array, err_msg=f"{name}, round {t}")
            assert quick[name].dtype == array.dtype
        np.testing.assert_array_equal(ways.point, slow_ways.point)
        state = quick


@pytest.fixture
def always_sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few points are sketched, too."""
    monkeypatch.setattr(steered_grid, "FEW", 0)


# --- as the slow way --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("always_sketched")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: " ".join(map(str, kind.values())))
@settings(max_examples=12, deadline=None, suppress_health_check=list(settings().suppress_health_check))
@given(
    seed=st.integers(0, 10_000),
    knowledge=st.sampled_from(["oracle", "warm_up", "contacts"]),
    max_step=st.sampled_from([0.0, 1.5, 4.0, math.inf]),
    reach=st.sampled_from([0.0, 2.0, 3.0, math.inf]),
    held=st.sampled_from([0, 1, 5]),
    mobile=st.sampled_from([1, 6, 18]),
)
def test_destinations_are_those_of_the_slow_way(kind, seed, knowledge, max_step, reach, held, mobile) -> None:
    """Also where some hold no samples, where all hold the same (held = 0: one of each class), and where many meet."""
    counts = stream(seed, "test counts").integers(0, held + 1, size=(24, 4)) + (held == 0)
    counts[:: 7 if held == 1 else 25] = 0
    chosen = settings_of(kind, 14, mobile=mobile, max_step=max_step, knowledge=knowledge, warm_up=2)
    if "grid" in chosen:
        chosen["approach"] = "on_line" if seed % 2 else "nearest"
    elif "points" not in chosen:
        chosen["points"] = 60
    fly_alike(build("mobility", chosen), World(seed, 24, counts, reach), 6)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if "discount" not in kind], ids=lambda k: str([*k.values()])
)
@pytest.mark.parametrize("knowledge", ["oracle", "contacts"])
@pytest.mark.parametrize("max_step", [8.0, math.inf])
def test_many_fly_as_the_slow_way(kind, knowledge, max_step) -> None:
    """Over points enough to be sketched: 300 clients on 70 x 70."""
    counts = stream(3, "test counts").integers(0, 6, size=(300, 10))
    part = build("mobility", settings_of(kind, 70, mobile=60, max_step=max_step, knowledge=knowledge))
    fly_alike(part, World(3, 300, counts, 6.0), 4 if knowledge == "oracle" else 3)


@pytest.mark.parametrize(
    "kind", [{"kind": "dam"}, {"kind": "spread", "base": "dam"}], ids=lambda k: k["kind"]
)
@pytest.mark.parametrize("knowledge", ["oracle", "contacts"])
def test_many_fly_as_the_slow_way_where_nothing_is_compiled(kind, knowledge, monkeypatch) -> None:
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    counts = stream(5, "test counts").integers(0, 6, size=(200, 10))
    part = build("mobility", settings_of(kind, 70, mobile=50, knowledge=knowledge))
    fly_alike(part, World(5, 200, counts, 6.0), 2)


def test_many_who_leave_little_fly_as_the_slow_way() -> None:
    """In the end some twenty others take their shares of a point: it keeps a small part of its weight."""
    counts = stream(4, "test counts").integers(0, 6, size=(160, 10))
    part = build("mobility", {"kind": "spread", "base": "dam", "grid": 70, "mobile": 110})
    fly_alike(part, World(4, 160, counts, 9.0), 1)


def test_sketches_decide_nearly_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, decided = [], []
    plain = Sketch.draw

    def noted(self: Sketch, value: float, kept: Unserved | None) -> np.ndarray | None:
        found = plain(self, value, kept)
        asked.append(1)
        decided.append(found is not None)
        return found

    monkeypatch.setattr(Sketch, "draw", noted)
    counts = stream(1, "test counts").integers(0, 6, size=(400, 10))
    for kind in ({"kind": "dam"}, {"kind": "spread", "base": "dam"}):
        part = build("mobility", settings_of(kind, 100, mobile=200))
        part.step(part.start(w := World(1, 400, counts, 6.0)), w, 1)
    assert len(asked) == 400
    assert sum(decided) > 396
    # The others leave so little of most points that what sketches are off by there must not count in full.
    counts = stream(1, "test counts").integers(0, 6, size=(600, 10))
    part = build("mobility", settings_of({"kind": "spread", "base": "dam"}, 80, mobile=500))
    part.step(part.start(w := World(1, 600, counts, 9.0)), w, 1)
    assert len(asked) == 900
    assert sum(decided) > 892


@pytest.mark.parametrize("kind", TO_POINTS, ids=lambda kind: " ".join(map(str, kind.values())))
def test_point_sketches_decide_nearly_all_draws(kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the others have taken all there is, with ten flyers for each point."""
    decided = []
    plain = PointSketch.draw

    def noted(self: PointSketch, value: float, kept: Unserved | None) -> np.ndarray | None:
        found = plain(self, value, kept)
        decided.append(found is not None)
        return found

    monkeypatch.setattr(PointSketch, "draw", noted)
    counts = stream(1, "test counts").integers(0, 6, size=(400, 10))
    few = {"points": 30} if "continuous" in kind["kind"] else {}
    part = build("mobility", settings_of(kind, 100, mobile=300, **few))
    part.step(part.start(w := World(1, 400, counts, 12.0)), w, 1)
    assert len(decided) == 300
    assert sum(decided) > 296


def test_what_is_kept_of_others_decides_nearly_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody has a sketch, as where nobody knows everybody."""
    weighed = []
    plain = Targets.discounted
    for kind in (Spread, SpreadContinuous):
        monkeypatch.setattr(kind, "sketches", Steered.sketches)
    monkeypatch.setattr(Targets, "discounted", lambda *given: weighed.append(1) or plain(*given))
    counts = stream(1, "test counts").integers(0, 6, size=(400, 10))
    for kind in ({"kind": "spread", "base": "dcm"}, {"kind": "spread_continuous", "base": "dam"}):
        part = build("mobility", settings_of(kind, 100, mobile=200))
        part.step(part.start(w := World(1, 400, counts, 6.0)), w, 1)
    assert len(weighed) < 4


# --- what it is made of -----------------------------------------------------------------------------------------


def test_a_draw_is_certain_but_near_the_end_of_a_weight() -> None:
    laid = Laid.of(np.array([0.0, 2.0, 0.0, 1.0]))  # ends: 0, 2, 2, 3
    assert laid.total == 3.0
    assert [laid.falls_on(at, 0.0) for at in (0.5, 1.9, 2.5)] == [1, 1, 3]
    assert [laid.falls_on(at, 0.01) for at in (0.02, 0.04, 1.96, 1.98, 2.02, 2.04, 2.98)] == [
        None, 1, 1, None, None, 3, None,
    ]  # fmt: skip
    assert laid.falls_on(3.0, 0.0) is None
    assert laid.falls_on(1.0, math.inf) is None
    assert Laid.of(np.zeros(0)).falls_on(0.0, 0.0) is None


@pytest.mark.parametrize("number", [1, 511, 512, 513, 5000])
def test_certain_draws_are_those_of_weights_laid_end_to_end(number: int) -> None:
    draws = stream(number, "test")
    weights = np.where(draws.random(number) < 0.3, 0.0, draws.random(number))
    weights[-1] = 1.0
    laid, ends = Laid.of(weights), np.cumsum(weights)
    doubt = rounding(laid.total, number)
    assert laid.total == pytest.approx(ends[-1], abs=doubt)
    targets = draws.random(500) * weights.sum()
    found = [laid.falls_on(target, doubt) for target in targets]
    assert found.count(None) < 3
    expected = np.searchsorted(ends, targets, side="right")
    assert all(at in (None, right) for at, right in zip(found, expected, strict=True))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000), classes=st.sampled_from([1, 2, 10]), most=st.sampled_from([0, 1, 50, 10**6])
)
def test_distances_by_products_are_off_by_no_more_than_they_say(seed: int, classes: int, most: int) -> None:
    draws = stream(seed, "test")
    places = draws.integers(1, 21, size=(30, 2)).astype(float)
    counts, own = draws.integers(0, most + 1, (30, classes)), draws.integers(0, most + 1, (5, classes))
    coverage = CoverageMap.of_grid(places, counts, 3.0, 20)
    flyers = [Flyer(places[k], own[k], np.ones(30, dtype=bool)) for k in range(5)]
    here = np.array([coverage.mix_here(flyer) for flyer in flyers])
    shares = draws.random(len(coverage.points))
    for flyer, mix, found in zip(flyers, here, Distances(coverage.sums).of(own, here), strict=True):
        values, exact = found.values[coverage.faces.of], slow_distances(coverage, flyer, mix)
        if flyer.own.sum() == 0:
            assert found.off == np.inf
            continue
        off = np.full(len(found.values), found.off)
        off[found.close] = found.close_off
        assert (np.abs(values - exact) <= off[coverage.faces.of]).all()
        at_points = Rounded(values, found.off, coverage.faces.points(found.close), found.close_off)
        assert np.abs(values - exact).sum() <= at_points.doubt() < 1e-4
        assert (np.abs(values - exact) * shares).sum() <= at_points.doubt(shares) <= at_points.doubt()


def test_the_doubt_of_distances_is_needed() -> None:
    """Near 0 they are off by far more than a unit in the last place."""
    sums = np.array([[7, 11, 13], [14, 22, 26], [3, 0, 0]])
    own = np.array([[7, 11, 13]])
    (found,) = Distances(sums).of(own, own / 31)
    assert found.close.tolist() == [0, 1]
    assert 0 <= found.values[:2].max() <= found.close_off
    np.testing.assert_allclose(
        found.values[2], np.linalg.norm(np.array([10, 11, 13]) / 34 - own[0] / 31), atol=1e-13
    )


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    reach=st.sampled_from([0.0, 1.0, 2.5, 30.0]),
    discount=st.sampled_from([0.4, 1.0]),
    others=st.integers(1, 12),
)
def test_what_is_kept_of_others_is_what_they_leave(
    seed: int, reach: float, discount: float, others: int
) -> None:
    """On a grid to the last bit, where they are added in their order."""
    draws, grid = stream(seed, "test"), 12
    statics = draws.integers(1, grid + 1, size=(9, 2)).astype(float)
    coverage = CoverageMap.of_grid(statics, np.ones((9, 2), int), reach, grid)
    cells = ((coverage.points[:, 0] - 1) * grid + coverage.points[:, 1] - 1).astype(int)
    avoided = OtherTargets(draws.integers(1, grid + 1, size=(others, 2)).astype(float), reach, discount)
    kept, rows = UnservedGrid.of(grid, cells, avoided), np.arange(len(cells))
    assert kept is not None
    np.testing.assert_array_equal(kept.at(rows), avoided.unserved(coverage.points))
    every = np.array([[x, y] for x in range(1, grid + 1) for y in range(1, grid + 1)], dtype=float)
    np.testing.assert_array_equal(kept.at_cells(np.arange(grid**2)), avoided.unserved(every))
    gap = every[:, None] - avoided.places
    near = np.hypot(gap[..., 0], gap[..., 1]).min(axis=1) <= 2 * reach
    np.testing.assert_array_equal(kept.all_near(), np.flatnonzero(near))
    points = UnservedPoints(coverage, discount)
    points.add(avoided.places[::-1])
    np.testing.assert_allclose(points.at(rows), kept.at(rows), rtol=1e-13, atol=0)
    at_another = (gap[cells] == 0).all(axis=2).any(axis=1)
    np.testing.assert_array_equal(points.taken(rows), at_another & (discount == 1))
    np.testing.assert_array_equal(kept.taken(rows), at_another & (discount == 1))


def test_others_off_the_grid_are_not_kept() -> None:
    for place in ([1.5, 2.0], [0.0, 2.0], [2.0, 9.0]):
        assert UnservedGrid.of(8, np.arange(64), OtherTargets(np.array([place]), 2.0, 1.0)) is None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    reach=st.sampled_from([0.0, 1.0, 2.5, math.inf]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    most_of_all=st.booleans(),
    seated=st.booleans(),
)
def test_centres_are_those_of_the_slow_way(seed, reach, share, most_of_all, seated) -> None:
    draws, grid = stream(seed, "test"), 10
    places = draws.integers(1, grid + 1, size=(25, 2)).astype(float)
    coverage = CoverageMap.of_grid(places, np.ones((25, 2), int), reach, grid)
    known = draws.random(25) < share
    cells = (coverage.points[:, 0] - 1) * grid + coverage.points[:, 1] - 1
    seats = np.searchsorted(cells, (places[:, 0] - 1) * grid + places[:, 1] - 1) if seated else None
    found = coverage.centres(known, most_of_all, stream(seed, "clusters"), seats)
    expected = slow_centres(coverage, known, most_of_all, stream(seed, "clusters"), seats)
    np.testing.assert_array_equal(found, expected)


# --- quick ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS[:2] + KINDS[3:4] + KINDS[6:7], ids=lambda kind: kind["kind"])
def test_those_under_way_are_not_flown_one_by_one(kind: dict[str, Any]) -> None:
    """Of whom nobody has got to a destination yet, four times as many cost no more calls."""
    effort = []
    for clients in (100, 400):
        w = World(0, clients, np.ones((clients, 3), dtype=np.int64), 5.0)
        part = build("mobility", settings_of(kind, 300, mobile=clients // 2, max_step=2.0))
        start = part.start(w)
        away = np.where(start["position"][: clients // 2] < 150, 290.0, 10.0)
        state, _ = part.step({**start, "destination": away}, w, 1)
        effort.append(calls(lambda part=part, state=state, w=w: part.step(state, w, 2)))
    assert effort[1] < effort[0] + 40


def test_what_clients_with_full_knowledge_know_is_not_copied() -> None:
    w = World(0, 20, np.ones((20, 3), dtype=np.int64), 3.0)
    part = build("mobility", {"kind": "dcm", "mobile": 5})
    state = part.start(w)
    assert part.step(state, w, 1)[0]["known"] is state["known"]
