"""A sweep over access points measures LTE by one scale, unless it is asked not to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedroam.analysis import compare_runs
from fedroam.analysis.report.report import write_report
from fedroam.components import build
from fedroam.errors import InputError
from fedroam.planning import sweep_plan
from fedroam.recording import open_runs
from fedroam.scene import own_distances, prepare
from fedroam.sweep.running import run_sweep
from fedroam.sweep.scale import one_scale
from support.tiny import tiny

pytestmark = pytest.mark.usefixtures("rough_pictures")
WORLD: dict[str, Any] = {
    "clients": 12,
    "rounds": 4,
    "mobility": {"kind": "random_walk", "width": 4000.0, "height": 4000.0, "max_speed": 300.0},
    "access_points": {"kind": "uniform", "number": 4},
    "federation": {"kind": "mohawk", "k2": 2},
}
DENSITY = ("access_points.number=2,20",)


def settings(**further: Any) -> dict[str, Any]:
    return tiny(**{**WORLD, **further}).settings()


def scales(plan: Any) -> set[tuple[float | None, float | None]]:
    return {(r.experiment.radio.distance_mean, r.experiment.radio.distance_std) for r in plan.runs}


def test_all_runs_take_the_scale_of_the_first() -> None:
    plan = sweep_plan(settings(), over=DENSITY, seeds=2)
    found = one_scale(plan)
    own = own_distances(plan.runs[0].experiment)
    assert scales(found) == {(float(f"{own.mean:.4g}"), float(f"{own.std:.4g}"))}
    # what is found without a run is what the run itself finds
    scene = prepare(plan.runs[0].experiment)
    assert (scene.tariff.distances.mean, scene.tariff.distances.std) == (own.mean, own.std)
    scene.learner.close()
    (note,) = set(found.notes) - set(plan.notes)
    assert "access_points.number=2, seed 0" in note
    assert 'radio.scale = "own"' in note
    assert one_scale(found) == found  # what has a scale keeps it
    # everything else is as it was
    for run, before in zip(found.runs, plan.runs, strict=True):
        assert run.experiment.replace(radio=before.experiment.radio) == before.experiment
        assert run.keys == before.keys


@pytest.mark.parametrize(
    ("further", "over"),
    [
        ({}, ("federation.k2=2,3",)),  # access points do not vary
        ({"radio": {"kind": "lte_wifi", "scale": "own"}}, DENSITY),
        ({"radio": {"kind": "lte_wifi", "distance_mean": 100.0, "distance_std": 10.0}}, DENSITY),
        ({"federation": "decentralized"}, DENSITY),  # uses none
    ],
)
def test_left_as_they_are(further: dict[str, Any], over: tuple[str, ...]) -> None:
    plan = sweep_plan(settings(**further), over=over)
    assert one_scale(plan) is plan


def test_what_is_asked_for_is_no_other_run() -> None:
    """`scale` changes nothing of a run by itself, so it is no part of its digest."""
    assert tiny(**WORLD).digest == tiny(**WORLD, radio={"kind": "lte_wifi", "scale": "own"}).digest
    with pytest.raises(InputError, match="scale and distance_mean: allowed is one of the two"):
        build("radio", {"kind": "lte_wifi", "scale": "own", "distance_mean": 1.0, "distance_std": 1.0})


def test_energy_falls_with_density_and_the_page_says_why(tmp_path: Path) -> None:
    """Ten times as many access points are nearer: with one scale a transfer becomes cheaper, with each run's own it
    stays near what it was."""

    def energy_per_byte(where: str, *, own: bool) -> list[float]:
        radio = {"kind": "lte_wifi", "scale": "own"} if own else "lte_wifi"
        swept = run_sweep(sweep_plan(settings(radio=radio), over=DENSITY), tmp_path / where, workers=1)
        runs = [row.run for row in swept.runs]
        assert all(run is not None for run in runs)
        last = [run.rounds.iloc[-1] for run in runs if run is not None]
        return [row["energy"] / (row["bytes_up"] + row["bytes_down"]) for row in last]

    few, many = energy_per_byte("one", own=False)
    few_own, many_own = energy_per_byte("own", own=True)
    assert few == pytest.approx(few_own, rel=1e-3)  # the first run is as it was
    assert few - many > 2 * abs(few_own - many_own)
    for where, told in (
        ("one", "LTE is measured by one scale in all runs"),
        ("own", "each run measures LTE by its own"),
    ):
        runs = open_runs(tmp_path / where)
        (note,) = (note for note in compare_runs(runs).notes if "LTE" in note)
        assert told in note
        assert note in write_report(runs, tmp_path / where).read_text(encoding="utf-8")
    # access points alike: nothing to know
    assert not any("LTE" in note for note in compare_runs(open_runs(tmp_path / "own")[:1]).notes)
