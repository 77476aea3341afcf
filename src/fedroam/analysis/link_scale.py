"""By which distances runs measure LTE, where that decides what their energy can tell."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fedroam.recording import Run


def link_scale_note(runs: Sequence[Run]) -> str:
    """What a reader must know of runs whose access points differ; '' where there is nothing to know."""
    told = [run for run in runs if run.world.get("distance_mean") is not None]
    places = {json.dumps(run.settings.get("access_points"), sort_keys=True) for run in told}
    if len(places) < 2:
        return ""
    found = {(run.world["distance_mean"], run.world["distance_std"]) for run in told}
    if len(found) == 1:
        mean, std = found.pop()
        return (
            "access points vary; LTE is measured by one scale in all runs: distances between clients and access points "
            f"of {mean:.4g} m on average, standard deviation {std:.4g} m"
        )
    return (
        "access points vary, and each run measures LTE by its own distances: what counts as far away is farther where "
        "there are fewer of them, so energy hardly shows how many there are (radio.distance_mean and "
        "radio.distance_std set one scale for all)"
    )
