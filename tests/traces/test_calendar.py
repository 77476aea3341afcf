"""A movement trace and an availability log that go by the same hours, or do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.runner import run
from fedroam.scene import advice, prepare
from fedroam.traces import import_trace, write_trace
from support.tiny import tiny

MORNING = 1714550400.0  # 2024-05-01T08:00:00Z
NIGHT = "2024-05-01T00:00:00Z"


@pytest.fixture
def day(tmp_path: Path) -> dict[str, str]:
    """Three cars that drive from 8 o'clock on, a fix each ten minutes, and are charged from 0 to 6 o'clock and from 22
    to 6; the same once more by clocks of their own."""
    fixes = [(f"{car}", 600 * k, 48.1 + 0.001 * n, 11.5) for n, car in enumerate("abc") for k in range(60)]
    on = [
        (car, *stretch)
        for car in "abc"
        for stretch in ((NIGHT, "2024-05-01T06:00:00Z"), ("2024-05-01T22:00:00Z", "2024-05-02T06:00:00Z"))
    ]
    own = [(car, 0, 20 * 3600) for car in "abc"]
    tables: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
        "drives": ("device,time,lat,lon", [(car, MORNING + at, *place) for car, at, *place in fixes]),
        "metric": ("device,time,x,y", [(car, at, 0, 0) for car, at, *_ in fixes]),
        "charged": ("device,begin,end", on),
        "own": ("device,begin,end", own),
    }
    found = {}
    for name, (head, rows) in tables.items():
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
        found[name] = str(path)
        if name in ("drives", "metric"):
            found[name] = str(tmp_path / f"{name}.parquet")
            write_trace(import_trace(path), found[name])
    return found


def told(
    drives: str, charged: str, moving: dict[str, Any], on: dict[str, Any], **settings: Any
) -> Experiment:
    """Nothing is said but what stands here; hours are the default of both."""
    own: dict[str, Any] = {
        "clients": 3,
        "contacts": {"kind": "radius", "radius": 1000.0},
        "mobility": {"kind": "trace", "file": drives, **moving},
        "activity": {"kind": "trace", "file": charged, **on},
    }
    return tiny(**{**own, **settings})


APART = (
    "round 0 begins at 2024-05-01T08:00:00Z for movement and at 2024-05-01T00:00:00Z for availability: mobility.begin "
    "and activity.begin say when"
)


def test_begins_that_differ_are_told(day: dict[str, str], tmp_path: Path) -> None:
    """Who is charged from 0 to 6 is active in rounds in which cars drive from 8 on."""
    experiment = told(day["drives"], day["charged"], {}, {})
    assert APART in advice(experiment)
    done = run(experiment, tmp_path / "run")
    assert done.world["matching"] == [
        "clients are matched by the names of devices in mobility and activity",
        APART,
    ]
    assert done.rounds["active"].tolist()[1:] == [3, 3]  # as before: neither begins anew


@pytest.mark.parametrize("begin", [MORNING, "2024-05-01T10:00:00+02:00"])
def test_begins_that_are_one_moment_are_not_told(day: dict[str, str], begin: str | float) -> None:
    experiment = told(day["drives"], day["charged"], {}, {"begin": begin})
    assert advice(experiment) == []
    scene = prepare(experiment)
    scene.learner.close()
    assert scene.matching.notes == ("clients are matched by the names of devices in mobility and activity",)
    assert not scene.parts.activity.start(0, 3)["active"].any()  # at 8 they are off their chargers


@pytest.mark.parametrize("mode", ["first_fix", "interpolate"])
@pytest.mark.parametrize("clock", ["rounds", {"kind": "seconds", "length": 600.0}])
def test_intervals_that_differ_are_refused(
    day: dict[str, str], tmp_path: Path, mode: str, clock: Any
) -> None:
    experiment = told(day["drives"], day["charged"], {"mode": mode, "interval": 600.0}, {}, clock=clock)
    with pytest.raises(
        InputError, match=r"mobility\.interval = 600 and activity\.interval = 3600: .* the same"
    ):
        run(experiment, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("moving", "on"), [("drives", "own"), ("metric", "charged"), ("metric", "own")])
def test_clocks_of_their_own_are_not_compared(day: dict[str, str], moving: str, on: str) -> None:
    experiment = told(day[moving], day[on], {"interval": 600.0}, {})
    assert not any("round 0 begins" in text for text in advice(experiment))
    scene = prepare(experiment)
    scene.learner.close()
    assert len(scene.matching.notes) == 1


def test_a_begin_of_no_year_is_told_in_seconds(day: dict[str, str]) -> None:
    experiment = told(day["drives"], day["charged"], {}, {"begin": -1e12})
    assert any("at -1000000000000 s since 1970 for availability" in text for text in advice(experiment))
