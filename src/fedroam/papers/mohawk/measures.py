"""What the study of Farcas et al. measures of a run: devices, distances, rounds and energy to a threshold."""

from __future__ import annotations

import json
import math
from functools import lru_cache

import numpy as np

from fedroam.cost import DistanceDistribution
from fedroam.experiment import Experiment
from fedroam.federation import TellsDistances, Traffic
from fedroam.federation.protocol import access_point
from fedroam.mobility import World
from fedroam.parts import Parts
from fedroam.recording import Run
from fedroam.scene import movement
from fedroam.study.measures import column, rounds_to, spent_to
from fedroam.study.values import Measure

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


def _per_client(run: Run, name: str) -> float:
    return _end(run, name) / int(run.settings["clients"])


def overwritten_energy(run: Run) -> float:
    """Joules of updates that an access point aggregated and the cloud never saw, as far as they are known.

    They are counted, not weighed: each stands for the mean of all aggregated updates, their training, way there and
    way back. These have cost what is neither wasted nor still pending.
    """
    settled = _end(run, "energy") - _end(run, "energy_wasted") - _end(run, "energy_pending")
    number = _end(run, "total_aggregated")
    return settled * _end(run, "total_overwritten") / number if number else 0.0


def _with_overwritten(run: Run) -> float:
    return _end(run, "energy_wasted") + overwritten_energy(run)


def full_exchange(run: Run) -> float:
    """Joules of a model fetched and sent back, averaged over all hours of the run in which a device is present.

    The movement is played again, without training. Raises InputError where the trace is missing.
    """
    settings = run.settings
    names = ("seed", "clients", "rounds", "mobility", "activity", "access_points", "radio", "federation")
    known = {name: settings[name] for name in names}
    # These change nothing of who is where; so runs that differ in them share the result.
    known["federation"] = {k: v for k, v in known["federation"].items() if k not in ("k2", "carry_over")}
    return _exchange(json.dumps(known, sort_keys=True), int(run.world["bytes_per_model"]))


@lru_cache(maxsize=256)
def _exchange(settings: str, size: int) -> float:
    experiment = Experiment(**json.loads(settings))
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


last_day = Measure("accuracy averaged over the last day", "%", _last_day, digits=2)
rounds_needed = Measure(
    "rounds to the threshold", "rounds", lambda run: rounds_to(threshold(run)).number(run), digits=0
)
energy_as_printed = Measure(
    "rounds to the threshold x joules of one full exchange",
    "J",
    lambda run: rounds_needed.number(run) * full_exchange(run),
)
energy_true = Measure(
    "energy spent by a device until the threshold",
    "J",
    lambda run: spent_to(threshold(run), "energy", "J").number(run) / int(run.settings["clients"]),
)
exchange = Measure("energy of one full exchange", "J", lambda run: full_exchange(run), digits=2)
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
consumed_all = Measure("energy consumed", "J", lambda run: _end(run, "energy"), digits=0)
wasted_all = Measure("energy wasted", "J", lambda run: _end(run, "energy_wasted"), digits=0)
consumed = Measure("energy consumed per device", "J", lambda run: _per_client(run, "energy"))
wasted = Measure("energy wasted per device", "J", lambda run: _per_client(run, "energy_wasted"))
consumed_hourly = Measure("energy consumed a round", "J", lambda run: _hourly(run, "energy"))
wasted_hourly = Measure("energy wasted a round", "J", lambda run: _hourly(run, "energy_wasted"))
# The paper's Table 10 can be read so that what the cloud never sees is wasted, too (see `overwritten_energy`).
wasted_more_all = Measure("energy wasted, or spent on overwritten updates", "J", _with_overwritten, digits=0)
wasted_more = Measure(
    "energy wasted, or spent on overwritten updates, per device",
    "J",
    lambda run: _with_overwritten(run) / int(run.settings["clients"]),
)
wasted_more_hourly = Measure(
    "energy wasted, or spent on overwritten updates, a round",
    "J",
    lambda run: _with_overwritten(run) / float(column(run).index[-1]),
)
