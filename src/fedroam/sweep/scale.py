"""One scale of LTE for the runs of a sweep over access points, so that their energy can be compared."""

from __future__ import annotations

from dataclasses import replace

from fedroam.components import build
from fedroam.cost.lte_wifi import LteWifi
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation import TellsDistances
from fedroam.planning import SweepPlan, title
from fedroam.scene import own_distances


def one_scale(plan: SweepPlan) -> SweepPlan:
    """The plan in which all runs measure LTE by the distances of the first, where access points vary.

    By its own distances (Farcas et al., Eq. 2) every run has its throughput fall between its own mean - std and mean +
    std, so that it hardly matters how far away access points are. Left as they are: a sweep that does not vary access
    points, runs that say otherwise (`radio.scale`, `radio.distance_mean`), and those that use no access points. The
    distances of the first run are found by a pass over its movement, rounded to four digits.
    """
    own = [run for run in plan.runs if _by_own_distances(run.experiment)]
    if len({str(run.experiment.access_points.settings()) for run in own}) < 2:
        return plan
    try:
        found = own_distances(own[0].experiment)
    except InputError:  # the run itself will say so
        return plan
    if not found.known:
        return plan
    mean, std = float(f"{found.mean:.4g}"), float(f"{found.std:.4g}")

    def scaled(experiment: Experiment) -> Experiment:
        if not _by_own_distances(experiment):
            return experiment
        settings = {**experiment.radio.settings(), "distance_mean": mean, "distance_std": std}
        return experiment.replace(radio=build("radio", settings))

    first = title(own[0].keys, own[0].experiment.seed)
    note = (
        f"access points vary: LTE is measured by one scale in all runs, {mean:g} m on average (standard deviation "
        f'{std:g} m), the distances of the run with {first}; radio.scale = "own" takes each run\'s own'
    )
    runs = tuple(replace(run, experiment=scaled(run.experiment)) for run in plan.runs)
    return replace(plan, runs=runs, notes=(*plan.notes, note))


def _by_own_distances(experiment: Experiment) -> bool:
    """Whether a run measures LTE by its own distances, and nobody asked for it."""
    radio = experiment.radio
    if not isinstance(radio, LteWifi) or not isinstance(experiment.federation, TellsDistances):
        return False
    return radio.scale is None and radio.spread() is None
