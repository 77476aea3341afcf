"""Access points: where they stand, and which one is nearest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedroam.access_points import choose_nearest, distances, in_service, places_of, ranges_of
from fedroam.components import build
from fedroam.errors import InputError
from fedroam.randomness import stream
from fedroam.traces import Trace, import_trace, write_trace
from support.tiny import TRACE_FACTS, example

WORLD: Any = build("mobility", {"kind": "random_walk", "width": 400.0, "height": 200.0})


def points(kind: str, mobility: Any = WORLD, seed: int = 1, **settings: Any) -> np.ndarray:
    part: Any = build("access_points", {"kind": kind, **settings})
    found: np.ndarray = part.places(mobility, seed)
    return found


# --- where they stand -----------------------------------------------------------------------------------------------


def test_there_are_none_by_default() -> None:
    assert points("none").shape == (0, 2)


def test_a_grid_stands_in_the_middle_of_its_cells() -> None:
    assert points("grid", columns=2, rows=2).tolist() == [[100, 50], [300, 50], [100, 150], [300, 150]]


def test_uniform_ones_fill_the_world() -> None:
    found = points("uniform", number=4000)
    assert np.abs(found.mean(axis=0) - [200, 100]).max() < 5
    assert found.std(axis=0) == pytest.approx([400 / 12**0.5, 200 / 12**0.5], rel=0.03)
    assert (points("uniform", seed=2, number=3) != points("uniform", number=3)).all()


def venues(tmp_path: Path, named: bool = True) -> Any:
    """A trace of two devices whose fixes are at four places, one of them visited twice and one out of the box."""
    place = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 0.0], [10.0, 10.0], [500.0, 0.0]])
    names = ("home", "work", "park", "far")
    code = np.array([0, 1, 0, 2, 3], np.int32)
    trace = Trace(
        ("a", "b"),
        np.array([0, 3, 5]),
        np.array([0.0, 1.0, 2.0, 0.0, 1.0]),
        place,
        TRACE_FACTS,
        names if named else (),
        code if named else None,
    )
    file = write_trace(trace, tmp_path / "trace.parquet")
    return build("mobility", {"kind": "trace", "file": str(file), "box": 100.0, "interval": 1.0})


@pytest.mark.parametrize("named", [True, False])
def test_points_of_interest_are_the_trace_s_within_its_box_each_once(tmp_path: Path, named: bool) -> None:
    mobility = venues(tmp_path, named)
    assert sorted(mobility.points_of_interest().tolist()) == [[0, 0], [10, 0], [10, 10]]
    found = points("points_of_interest", mobility, number=3)
    assert sorted(found.tolist()) == [[0, 0], [10, 0], [10, 10]]
    orders = {tuple(map(tuple, points("points_of_interest", mobility, seed, number=2))) for seed in range(40)}
    assert len(orders) == 6, "each pair in each order"
    with pytest.raises(InputError, match=r"^access_points.number = 4: allowed is up to 3, as many as the"):
        points("points_of_interest", mobility, number=4)


def test_a_venue_that_is_not_visited_in_the_selected_time_is_one_of_them(tmp_path: Path) -> None:
    place = np.array([[0.0, 0.0], [10.0, 10.0], [5.0, 5.0]])
    trace = Trace(
        ("a",),
        np.array([0, 3]),
        np.array([0.0, 1.0, 9.0]),
        place,
        TRACE_FACTS,
        ("x", "y", "z"),
        np.arange(3, dtype=np.int32),
    )
    file = str(write_trace(trace, tmp_path / "trace.parquet"))
    mobility: Any = build(
        "mobility", {"kind": "trace", "file": file, "begin": 0.0, "length": 2.0, "interval": 1.0}
    )
    assert sorted(mobility.points_of_interest().tolist()) == [[0, 0], [5, 5], [10, 10]]


def test_a_world_without_points_of_interest_says_what_is_allowed() -> None:
    with pytest.raises(
        InputError, match=r"mobility 'random_walk' knows no points of interest; allowed .*'grid'"
    ):
        points("points_of_interest")


# --- from a file ----------------------------------------------------------------------------------------------------


def file_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "points.csv"
    path.write_text(text)
    return str(path)


def test_a_file_gives_its_rows_in_order(tmp_path: Path) -> None:
    file = file_of(tmp_path, "name,x,y\na,1,2\nb,900,0\nc,-3.5,4\nd,400,200\n")
    assert points("file", path=file).tolist() == [[1, 2], [900, 0], [-3.5, 4], [400, 200]]
    assert points("file", path=file, inside=True).tolist() == [[1, 2], [400, 200]]
    assert sorted(points("file", path=file, inside=True, number=2).tolist()) == [[1, 2], [400, 200]]
    drawn = {tuple(points("file", path=file, seed=s, number=1)[0]) for s in range(40)}
    assert len(drawn) == 4
    with pytest.raises(InputError, match="holds within the world's bounds"):
        points("file", path=file, inside=True, number=3)


def test_degrees_are_projected_like_the_trace(tmp_path: Path) -> None:
    pytest.importorskip("pyproj")
    (tmp_path / "fixes.csv").write_text(
        "user,utc,lat,lon\n1,2010-09-17T12:00:00Z,40.75,-73.98\n1,2010-09-17T14:00:00Z,40.76,-73.98\n"
    )
    trace = import_trace(tmp_path / "fixes.csv")
    mobility = build(
        "mobility", {"kind": "trace", "file": str(write_trace(trace, tmp_path / "trace.parquet"))}
    )
    file = file_of(tmp_path, "lat,lon\n40.75,-73.98\n40.76,-73.98\n40.755,-73.98\n")
    found = points("file", mobility, path=file)
    np.testing.assert_allclose(found[:2], trace.point, atol=1e-6)
    assert found[2] == pytest.approx(trace.point.mean(axis=0), abs=0.01)
    assert np.hypot(*(found[1] - found[0])) == pytest.approx(1110.5, abs=1), "0.01 degree of latitude"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a,b\n1,2\n", "found the columns a, b; wanted are x and y, or lat and lon"),
        ("x,y\n", "a header but no rows"),
        ("x,y\n1,2\n3,east\n", "line 3, column 'y': found 'east'"),
        ("lat,lon\n95,3\n", "row 1: latitude 95, longitude 3 is not on the globe"),
        ("lat,lon\n40,3\n", "mobility 'random_walk' has no projection for lat and lon"),
        ("x,y\n-1,-1\n", "no place of"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path: Path, text: str, wanted: str) -> None:
    with pytest.raises(InputError) as caught:
        points("file", path=file_of(tmp_path, text), inside=True)
    assert wanted in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InputError, match=r"access_points.path = 'nowhere.csv': no such file"):
        points("file", path="nowhere.csv")


def test_a_metric_trace_cannot_place_degrees(tmp_path: Path) -> None:
    file = file_of(tmp_path, "lat,lon\n40,3\n")
    with pytest.raises(InputError, match="a trace in metres without projection"):
        points("file", example("mobility", "trace"), path=file)


# --- the nearest one ------------------------------------------------------------------------------------------------

POINT = arrays(np.float64, 2, elements=st.integers(0, 4).map(float))


@given(st.lists(POINT, min_size=1, max_size=9), st.lists(POINT, max_size=9), st.integers(0, 99))
def test_it_is_the_nearest_by_brute_force(stands: list[Any], at: list[Any], seed: int) -> None:
    access_points, places = np.array(stands), np.array(at).reshape(-1, 2)
    gaps = np.linalg.norm(places[:, None] - access_points[None], axis=2)
    lowest = choose_nearest(places, access_points)
    assert lowest.dtype == np.int64
    draws = stream(seed, "test ties").random(len(places))
    drawn = choose_nearest(places, access_points, draws)
    for i in range(len(places)):
        equal = np.flatnonzero(gaps[i] <= gaps[i].min() + 1e-9)
        assert lowest[i] == equal[0]
        assert drawn[i] == equal[int(draws[i] * len(equal))]
    np.testing.assert_allclose(distances(places, access_points, drawn), gaps.min(axis=1, initial=np.inf))


def test_ties_are_drawn_evenly() -> None:
    access_points = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [5.0, 5.0]])
    places = np.zeros((6000, 2))
    chosen = choose_nearest(places, access_points, stream(1, "test ties").random(6000))
    assert np.bincount(chosen, minlength=4) / 6000 == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=0.02)


@pytest.mark.data
def test_the_points_of_interest_of_new_york(tmp_path: Path) -> None:
    folder = Path(os.environ["FEDROAM_DATA"]) / "gowalla_nyc"
    if not folder.is_dir():
        pytest.skip("FEDROAM_DATA lacks gowalla_nyc")
    pytest.importorskip("pyproj")
    trace = import_trace(folder / "checkins.csv.gz")
    month = {"begin": "2010-09-17", "length": 31 * 86_400.0, "box": 17_500.0}
    mobility: Any = build(
        "mobility", {"kind": "trace", "file": str(write_trace(trace, tmp_path / "ny.parquet")), **month}
    )
    known = mobility.points_of_interest()
    assert 15_000 < len(known) < 21_509
    assert len(points("points_of_interest", mobility)) == 100
    listed = points("file", mobility, path=str(folder / "venues.csv.gz"), inside=True)
    assert len(known) < len(listed) < 34_584
    assert (known[:, None] == points("points_of_interest", mobility)[None]).all(axis=2).any(axis=0).all()


# --- how far they reach ---------------------------------------------------------------------------------------------


def ranges(kind: str, mobility: Any = WORLD, seed: int = 1, **settings: Any) -> np.ndarray | None:
    return ranges_of(build("access_points", {"kind": kind, **settings}), mobility, seed)  # type: ignore[arg-type]


def test_without_a_range_they_reach_everywhere(tmp_path: Path) -> None:
    for kind in ("none", "grid", "uniform"):
        assert ranges(kind) is None
    assert ranges("file", path=file_of(tmp_path, "x,y\n1,2\n")) is None
    found = ranges("grid", columns=2, rows=3, range=50.0)
    assert found is not None
    assert found.tolist() == [50.0] * 6
    with pytest.raises(InputError, match=r"access_points.range = 0.0: .*greater than 0"):
        build("access_points", {"kind": "grid", "range": 0.0})


def test_a_file_may_tell_the_range_of_each(tmp_path: Path) -> None:
    file = file_of(tmp_path, "x,y,range\n1,2,30\n500,2,40\n3,4,50\n5,6,60\n")
    assert ranges("file", path=file).tolist() == [30, 40, 50, 60]  # type: ignore[union-attr]
    # inside and number choose places and ranges alike, and the column goes before the setting
    assert ranges("file", path=file, inside=True, range=7.0).tolist() == [30, 50, 60]  # type: ignore[union-attr]
    of_x = {1.0: 30.0, 500.0: 40.0, 3.0: 50.0, 5.0: 60.0}
    for seed in range(5):
        drawn = points("file", seed=seed, path=file, number=2)
        found = ranges("file", seed=seed, path=file, number=2)
        assert found is not None
        assert found.tolist() == [of_x[x] for x in drawn[:, 0].tolist()]
    with pytest.raises(InputError, match="row 2, column 'range': 0, allowed is more than 0 m"):
        points("file", path=file_of(tmp_path, "x,y,range\n1,2,30\n3,4,0\n"))


@given(
    st.lists(POINT, min_size=1, max_size=9),
    st.lists(st.sampled_from([0.5, 1.0, 2.0, np.inf]), min_size=9, max_size=9),
    st.lists(POINT, max_size=9),
)
def test_the_nearest_that_reaches_by_brute_force(
    stands: list[Any], reach: list[float], at: list[Any]
) -> None:
    access_points, places = np.array(stands), np.array(at).reshape(-1, 2)
    far = np.array(reach[: len(stands)])
    gaps = np.linalg.norm(places[:, None] - access_points[None], axis=2)
    reached = np.where(gaps <= far, gaps, np.inf)
    chosen = choose_nearest(places, access_points, None, far)
    present = np.arange(len(places)) % 2 == 0
    served = in_service(present, places, access_points, chosen, far)
    for i in range(len(places)):
        if np.isinf(reached[i]).all():
            assert chosen[i] == -1
            assert not served[i]
        else:
            assert gaps[i, chosen[i]] == pytest.approx(reached[i].min())
            assert gaps[i, chosen[i]] <= far[chosen[i]]
            assert served[i] == present[i]
    # a nearer one that does not reach serves nobody, whoever belongs to it
    fixed = np.zeros(len(places), dtype=np.int64)
    everybody = np.ones(len(places), dtype=bool)
    assert (
        in_service(everybody, places, access_points, fixed, far).tolist() == (gaps[:, 0] <= far[0]).tolist()
    )


# --- of one's own ---------------------------------------------------------------------------------------------------


class Given:
    """Access points where, and as far as, it is told."""

    def __init__(self, places: Any, ranges: Any = None) -> None:
        self._places, self._ranges = places, ranges

    def places(self, mobility: Any, seed: int) -> Any:
        return self._places

    def ranges(self, mobility: Any, seed: int) -> Any:
        return self._ranges


TWO = [[0.0, 0.0], [9.0, 2.0]]


@pytest.mark.parametrize(
    ("places", "told"),
    [
        (None, "places gave NoneType; allowed is an x and a y of each, float64 [any number, 2]"),
        ([0.0, 1.0], "places gave list of shape [2], float64; allowed is an x and a y of each, float64"),
        (np.zeros((2, 3)), "places gave ndarray of shape [2, 3], float64; allowed is an x and a y of each"),
        ([[0, 1], [2]], "places gave list; allowed is an x and a y of each, float64 [any number, 2]"),
        ([[0, 1], [np.nan, 2]], "access point 1 is at (nan, 2), allowed are finite numbers, m"),
    ],
)
def test_places_of_ones_own_are_held_against_what_they_promise(places: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        places_of(Given(places), WORLD, 0)
    assert str(raised.value).startswith(f"access_points kind 'Given': {told}")


@pytest.mark.parametrize(
    ("ranges", "told"),
    [
        ([5.0], "ranges gave list of shape [1], float64; allowed is one of each access point, float64 [2]"),
        ([5.0, 0.0], "access point 1 reaches 0 m, allowed is more than 0 m, or inf"),
        ([np.nan, 5.0], "access point 0 reaches nan m, allowed is more than 0 m, or inf"),
    ],
)
def test_so_are_their_ranges(ranges: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        ranges_of(Given(TWO, ranges), WORLD, 0)
    assert str(raised.value) == f"access_points kind 'Given': {told}"


def test_whole_metres_are_places_and_nobody_needs_ranges() -> None:
    found = places_of(Given([[0, 0], [9, 2]]), WORLD, 0)
    assert found.tolist() == TWO
    assert found.dtype == np.float64
    assert ranges_of(Given(TWO), WORLD, 0) is None
    assert ranges_of(Given(TWO, [3, np.inf]), WORLD, 0) == pytest.approx([3.0, np.inf])
