"""What the study of Farcas et al. measures of a run: devices, distances, rounds and energy to a threshold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedroam.cost import DistanceDistribution
from fedroam.experiment import Experiment
from fedroam.federation import TellsDistances, Traffic
from fedroam.federation.protocol import access_point
from fedroam.mobility import World
from fedroam.papers.mohawk.runs import BASELINES, main, on_trace
from fedroam.parts import Parts
from fedroam.recording import Run
from fedroam.scene import movement
from fedroam.study.measures import column, final, last_round, rounds_to, spent_to
from fedroam.study.values import Measure, Quotient, Value, average, product

# Accuracy to reach (%), by data and model: the paper's for its network, ours for the small one of scale quick.
THRESHOLDS = {("mnist", "conv5"): 97.0, ("cifar10", "conv5"): 60.0, ("mnist", "mlp"): 85.0}
DAY = 24  # rounds


def threshold(run: Run) -> float:
    """The accuracy (%) that a run has to reach."""
    return THRESHOLDS[run.settings["data"]["kind"], run.settings["model"]["kind"]]


def _end(run: Run, name: str) -> float:
    return float(column(run, name).iloc[-1])


def _hourly(run: Run, name: str) -> float:
    return _end(run, name) / float(column(run, name).index[-1])


def _share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else (math.nan if not part else math.inf)


def at_once(run: Run) -> float:
    """Devices an hour that are aggregated an hour after their training: those that a baseline has."""
    return _hourly(run, "total_aggregated") - _hourly(run, "total_returned")


def _last_day(run: Run) -> float:
    series = column(run)
    return 100 * float(series[series.index > series.index[-1] - DAY].mean(skipna=False))


def overwritten_energy(run: Run) -> float:
    """Joules of updates that an access point aggregated and the cloud never saw, as far as they are known.

    They are counted, not weighed: each stands for the mean of all aggregated updates, their training, way there and
    way back. These have cost what is neither wasted nor still pending.
    """
    settled = _end(run, "energy") - _end(run, "energy_wasted") - _end(run, "energy_pending")
    number = _end(run, "total_aggregated")
    return settled * _end(run, "total_overwritten") / number if number else 0.0


def _energies(name: str, link: str, joules: Callable[[Run], float]) -> tuple[Measure, Measure, Measure]:
    """Joules of all devices at the end of a run: together, per device, and a round."""
    return (
        Measure(name, "J", joules, digits=0),
        Measure(f"{name}{link}per device", "J", lambda run: joules(run) / int(run.settings["clients"])),
        Measure(f"{name}{link}a round", "J", lambda run: joules(run) / float(column(run).index[-1])),
    )


def movement_of(run: Run) -> str:
    """The settings that say who is where, and the size of the model: runs that agree in them exchange at one cost."""
    return json.dumps([_movement(run.settings), int(run.world["bytes_per_model"])], sort_keys=True)


def _movement(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say who is where."""
    names = ("seed", "clients", "rounds", "mobility", "activity", "access_points", "radio", "federation")
    known = {name: settings[name] for name in names}
    # These two change nothing of who is where.
    known["federation"] = {k: v for k, v in known["federation"].items() if k not in ("k2", "carry_over")}
    return known


def full_exchange(run: Run) -> float:
    """Joules of a model fetched and sent back, averaged over all hours of the run in which a device is present.

    The movement is played again, without training. Raises InputError where the trace is missing.
    """
    experiment, size = Experiment(**_movement(run.settings)), int(run.world["bytes_per_model"])
    parts, n = Parts.of(experiment), experiment.clients
    world = World(experiment.seed, n, np.zeros((n, 1), dtype=np.int64), 0.0, experiment.rounds)
    access_points = parts.access_points.places(parts.mobility, experiment.seed)
    federation, radio = parts.federation, parts.radio
    assert isinstance(federation, TellsDistances)  # those of the study do
    paths = movement(experiment, world)
    every = np.concatenate(list(federation.link_distances(experiment.seed, n, access_points, paths)))
    spread = radio.spread() or DistanceDistribution.of([every])
    fetched = radio.cost(Traffic.of(access_point(0), 0, size, every), spread)
    sent = radio.cost(Traffic.of(0, access_point(0), size, every), spread)
    return float(fetched.energy_down.mean() + sent.energy_up.mean())


end = replace(final, digits=2)
last_day = Measure("accuracy averaged over the last day", "%", _last_day, digits=2)
rounds_needed = Measure(
    "rounds to the threshold",
    "rounds",
    lambda run: rounds_to(threshold(run)).number(run),
    digits=0,
    horizon=last_round,
)
energy_true = Measure(
    "energy spent by a device until the threshold",
    "J",
    lambda run: spent_to(threshold(run), "energy", "J").number(run) / int(run.settings["clients"]),
    horizon=lambda run: _end(run, "energy") / int(run.settings["clients"]),
)
exchange = Measure(
    "energy of one full exchange", "J", lambda run: full_exchange(run), digits=2, alike=movement_of
)
energy_as_printed = product(
    "rounds to the threshold x joules of one full exchange", "J", rounds_needed, exchange
)
there = Measure(
    "devices present an hour",
    "devices",
    lambda run: _end(run, "total_present") / (column(run).index[-1] + 1),
    digits=1,
)
aggregated = Measure("devices aggregated an hour", "devices", lambda run: _hourly(run, "total_aggregated"))
aggregated_at_once = Measure("devices aggregated an hour after training", "devices", at_once)
# The paper's percentages are the first of these two.
more_of_all = Measure(
    "share of returning devices in those aggregated, 1 - B / M",
    "%",
    lambda run: _share(_end(run, "total_returned"), _end(run, "total_aggregated")),
)
more_than_before = Measure(
    "returning devices over the others, M / B - 1",
    "%",
    lambda run: _share(
        _end(run, "total_returned"), _end(run, "total_aggregated") - _end(run, "total_returned")
    ),
)
overwritten = Measure(
    "share of aggregated updates that never reach the cloud",
    "%",
    lambda run: _share(_end(run, "total_overwritten"), _end(run, "total_aggregated")),
)
distance = Measure(
    "distance to the access point", "km", lambda run: float(run.world["distance_mean"]) / 1000, digits=2
)
distance_std = Measure(
    "standard deviation of that distance",
    "km",
    lambda run: float(run.world["distance_std"]) / 1000,
    digits=2,
)
consumed_all, consumed, consumed_hourly = _energies("energy consumed", " ", lambda run: _end(run, "energy"))
wasted_all, wasted, wasted_hourly = _energies("energy wasted", " ", lambda run: _end(run, "energy_wasted"))
# The paper's Table 10 can be read so that what the cloud never sees is wasted, too (see `overwritten_energy`).
wasted_more_all, wasted_more, wasted_more_hourly = _energies(
    "energy wasted, or spent on overwritten updates",
    ", ",
    lambda run: _end(run, "energy_wasted") + overwritten_energy(run),
)


def of(measure: Measure, data: str, split: str, method: str, k2: int) -> Value:
    """A measure of a variant of tables 3, 4 and 6."""
    return measure.of(main(data, split, method, k2))


def gain(measure: Measure, data: str, split: str, k2: int) -> Quotient:
    """How many times as much the baselines need as MOHAWK, averaged over both."""
    rivals = average(of(measure, data, split, method, k2) for method in BASELINES)
    return Quotient(rivals, of(measure, data, split, "mohawk", k2))


def trace_gain(trace: str) -> Quotient:
    """How many times as many rounds the baselines need as MOHAWK, on a trace."""
    rivals = average(rounds_needed.of(on_trace(trace, method)) for method in BASELINES)
    return Quotient(rivals, rounds_needed.of(on_trace(trace, "mohawk")))
