"""Access points on the map: who is served by which, by hand and against a slow search."""

from __future__ import annotations

import base64
import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.analysis import variants
from fedroam.analysis.report.movement import playback
from fedroam.analysis.report.serving import AccessPointsOfRun, access_points, serving_points
from fedroam.errors import InputError
from fedroam.recording import Run, open_run, write_json
from support.made_runs import made_run


def with_points(run: Run, points: list[list[float]], ranges: list[float | None] | None) -> Run:
    """The run with access points; ranges: None for a world that knows none."""
    path = run.folder / "world.json"
    more = {} if ranges is None else {"access_point_ranges": ranges}
    write_json(path, {**json.loads(path.read_text()), "access_points": points, **more})
    return open_run(run.folder)


def test_the_nearest_in_range_serves(tmp_path: Path) -> None:
    federation = {"federation": {"kind": "mohawk", "access": "nearest"}}
    run = with_points(
        made_run(tmp_path, "", 0, [0.1, 0.5], settings=federation), [[0.0, 1.0], [9.0, 1.0]], [4.0, None]
    )
    (entry,) = playback(variants([run]))["runs"]
    assert entry["access_points"] == [[0, 1], [9, 1]]
    assert entry["ranges"] == [4, None]
    assert entry["linked"]
    raw = np.frombuffer(zlib.decompress(base64.b64decode(entry["packed"])), dtype="<u2")
    frames, clients = len(entry["rounds"]), 4
    load = raw[-frames * 2 :].reshape(frames, 2)
    serving = raw[-frames * (2 + clients) : -frames * 2].reshape(frames, clients)
    # Client 0 walks east from x = 1; from x = 5 on the second is nearer than 4.5 m, or the first out of reach.
    assert serving[:, 0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0]
    # Client 3 stands at (1, 4): sqrt(10) m from the first, in reach.
    assert set(serving[:, 3].tolist()) == {0}
    assert load.tolist() == [[(row == 0).sum(), (row == 1).sum()] for row in serving]


def test_places_alone_tell_no_links(tmp_path: Path) -> None:
    run = with_points(made_run(tmp_path, "", 0, [0.1, 0.5]), [[0.0, 1.0]], None)
    (entry,) = playback(variants([run]))["runs"]
    assert (entry["access_points"], entry["ranges"], entry["linked"]) == ([[0, 1]], [None], False)


def test_ranges_that_do_not_fit_are_damage(tmp_path: Path) -> None:
    run = with_points(made_run(tmp_path, "", 0, [0.1, 0.5]), [[0.0, 1.0]], [1.0, 2.0])
    with pytest.raises(InputError, match=r"world\.json: damaged"):
        access_points(run)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**31))
def test_against_a_slow_search(points: int, clients: int, seed: int) -> None:
    draws = np.random.default_rng(seed)
    where = AccessPointsOfRun(
        draws.uniform(0, 10, (points, 2)), draws.choice([2.0, 4.0, math.inf], points), True
    )
    places = draws.uniform(0, 10, (2, clients, 2))
    places[0, 0] = np.nan
    found = serving_points(places, where)
    for frame, client in np.ndindex(*found.shape):
        gaps = [math.dist(places[frame, client], point) for point in where.places]
        reached = [k for k, gap in enumerate(gaps) if gap <= where.ranges[k]]
        assert found[frame, client] == min(reached, key=lambda k: gaps[k], default=-1)
