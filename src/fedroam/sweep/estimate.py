"""What a sweep will cost: a rough order of its runs at once, seconds and memory from measured rounds."""

from __future__ import annotations

import heapq
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fedroam.components import identity_settings
from fedroam.data import forget, load_dataset
from fedroam.experiment import Experiment
from fedroam.learning import Layout, make_network
from fedroam.models import as_batch
from fedroam.planning import SweepRun
from fedroam.randomness import stream
from fedroam.sweep.fork_server import warm_up
from fedroam.sweep.local import WorkerPool
from fedroam.sweep.measuring import UnitCosts
from fedroam.sweep.messages import Failed, MeasureTask, Message
from fedroam.sweep.sharing import offer_shared, write_shared
from fedroam.sweep.worker import Setup

BUDGET = 2.0  # seconds of rounds that a measurement may take
MOST = 8  # variants that are measured; the others are placed between them by their rough costs
# Rough speeds of one core, for the order of runs only: operations per second, seconds per optimiser step and client.
SPEED, STEP = 5e9, 2e-4
BACKWARD = 3.0  # a training step costs about three forward passes
# Vectors of the size of a model that a client keeps at the peak (model, momentum, checkpoint, mixing). Of these the
# model and its checkpoint are half as large where models at rest are held in 16 bits.
COPIES, AT_REST = 6, 2


@dataclass(frozen=True)
class RoughCost:
    """A run's cost without running it: seconds of one core (for comparison only) and bytes of its models."""

    seconds: float
    memory: float


def rough_costs(runs: Mapping[str, SweepRun]) -> dict[str, RoughCost]:
    """RoughCost costs by digest. Runs that differ in the seed alone cost the same."""
    known: dict[str, RoughCost] = {}
    costs = {}
    for digest, run in runs.items():
        family = family_of(run.experiment)
        if family not in known:
            known[family] = rough_cost(run.experiment)
        costs[digest] = known[family]
    return costs


def family_of(experiment: Experiment) -> str:
    """What runs that differ in the seed alone have in common."""
    return experiment.digests([0])[0]


def groups_of(experiment: Experiment) -> tuple[str, ...]:
    """Groups for which `rough_cost` errs alike, the narrowest first: all but the seed in common, or the main parts."""
    parts = (experiment.federation, experiment.model, experiment.data, experiment.mobility)
    return family_of(experiment), " ".join(part.kind for part in parts)


def rough_cost(experiment: Experiment) -> RoughCost:
    """From the number of rounds, steps and samples, and the operations of one forward pass.

    A run that cannot be judged so, because a part of it fails or is out of the ordinary, counts by its rounds.
    """
    clients, rounds = experiment.clients, experiment.rounds
    try:
        dataset = load_dataset(experiment.data)
        part: Any = experiment.model
        network = make_network(
            partial(part.build, dataset.input_shape, dataset.classes), experiment.seed
        ).eval()
        layout = Layout.of(network)
        forward = forward_flops(network, as_batch(torch.from_numpy(dataset.x_train[:1])))
        kept = 1 - experiment.validation_share - experiment.test_share
        held = max(int(kept * len(dataset.y_train) / clients), 1)
        training: Any = experiment.training
        batches = [len(batch) for batch in training.batches(held, stream(experiment.seed, "cost"))]
        tested = float(len(dataset.y_test) or held)
        evaluations = math.ceil(rounds / experiment.evaluate_every) + 1
        whole = min(experiment.evaluate_whole, evaluations)
        tested *= whole + experiment.evaluate_share * (evaluations - whole)
        work = rounds * sum(batches) * BACKWARD + tested
        seconds = clients * (work * forward / SPEED + rounds * len(batches) * STEP)
        halves = AT_REST / 2 if experiment.models_at_rest == "float16" else 0.0
        memory = 4.0 * clients * ((COPIES - halves) * layout.size + COPIES * layout.buffer_size)
        return RoughCost(seconds, memory)
    except Exception:  # whatever is wrong with this run, the run itself will say
        return RoughCost(rounds * clients * STEP, 0.0)


def forward_flops(network: nn.Module, x: torch.Tensor) -> int:
    """Operations of products in a forward pass of samples x, an addition and a multiplication each.

    Those of linear layers and convolutions are reckoned here: torch's own counter gives the same, but loads its
    compiler, which takes more than a second. It counts where other layers have matrices of weights.
    """
    known = [m for m in network.modules() if type(m) in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)]
    weights = {id(m.weight) for m in known}
    if any(p.dim() > 1 and id(p) not in weights for p in network.parameters()):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            network(x)
        return int(counter.get_total_flops())
    found: list[int] = []

    def told(layer: nn.Module, _: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        weight = layer.get_parameter("weight")
        found.append(2 * weight.numel() * (output.numel() // len(weight)))

    handles = [layer.register_forward_hook(told) for layer in known]
    try:
        with torch.no_grad():
            network(x)
    finally:
        for handle in handles:
            handle.remove()
    return sum(found)


@dataclass(frozen=True)
class Estimate:
    """What a sweep will take.

    seconds: wall clock with this number of workers; by_run: seconds of each run, by digest; memory: bytes of the
    largest worker without the data, None where the system does not tell; data: bytes of the data, held once; measured:
    how many variants were measured; failed: reasons by digest of those that could not be; factor: by how much the
    others may be wrong: the root mean square of what the measured ones would have been wrong by, had each been placed
    by the others; None where all were measured, or fewer than three.
    """

    seconds: float
    by_run: Mapping[str, float]
    workers: int
    memory: int | None
    data: int
    measured: int
    failed: Mapping[str, str]
    factor: float | None = None


def estimate(
    runs: Mapping[str, SweepRun],
    workers: int,
    *,
    use: Sequence[str] = (),
    modules: Sequence[str] = (),
    below: Path | None = None,
    budget: float = BUDGET,
    stop: Callable[[], bool] = lambda: False,
) -> Estimate:
    """Measure a few rounds of representative runs, as many at a time as there will be workers.

    runs: those to be computed, by digest. Of more than `MOST` variants, those are measured that are spread evenly
    over the rough costs. `below` is the folder to write in (the system's temporary one by default).
    """
    families: dict[str, list[str]] = {}
    for digest, run in runs.items():
        families.setdefault(family_of(run.experiment), []).append(digest)
    with tempfile.TemporaryDirectory(dir=below, prefix="fedroam-") as name:
        folder = Path(name)
        warm_up()
        data, _ = write_shared(folder / "data", [run.experiment.data for run in runs.values()])
        offer_shared(folder / "data")
        costs = rough_costs(runs)
        forget()
        ordered = sorted(families, key=lambda family: costs[families[family][0]].seconds)
        picks = np.unique(np.linspace(0, len(ordered) - 1, min(MOST, len(ordered))).round().astype(int))
        chosen = [ordered[k] for k in picks]
        found: dict[str, list[UnitCosts]] = {family: [] for family in chosen}
        failed: dict[str, str] = {}
        tasks = [
            _task(runs, families[f], k, folder, budget)
            # As often as it takes for all workers to be busy as they will be.
            for k in range(max(1, math.ceil(workers / len(chosen))) if chosen else 0)
            for f in chosen
        ]

        begun, first_ready = time.perf_counter(), 0.0

        def on_message(task: MeasureTask, message: Message) -> None:
            nonlocal first_ready
            first_ready = first_ready or time.perf_counter() - begun
            if isinstance(message, UnitCosts):
                found[task.family].append(message)
            elif isinstance(message, Failed):
                failed[task.of] = message.reason

        WorkerPool[MeasureTask](workers, Setup(tuple(use), tuple(modules), str(folder / "data"))).run(
            tasks, on_message, stop
        )
    ratios, memory = [], []
    by_family: dict[str, float] = {}
    for family in chosen:
        experiment = runs[families[family][0]].experiment
        if found[family]:
            seconds = float(np.mean([costs_.seconds(experiment) for costs_ in found[family]]))
            by_family[family] = seconds
            ratios.append((costs[families[family][0]].seconds, seconds))
            memory += [one.memory for one in found[family] if one.memory is not None]
    for family in ordered:
        if family not in by_family:
            by_family[family] = _in_proportion(costs[families[family][0]].seconds, ratios)
    by_run = {digest: by_family[family] for family, digests in families.items() for digest in digests}
    total = first_ready + makespan(by_run.values(), workers)
    factor = _factor(ratios) if len(ratios) < len(families) else None
    return Estimate(total, by_run, workers, max(memory, default=None), data, len(ratios), failed, factor)


def _task(
    runs: Mapping[str, SweepRun], digests: Sequence[str], copy: int, folder: Path, budget: float
) -> MeasureTask:
    """Measure one run of a family, another seed for each copy as far as there are."""
    digest = digests[copy % len(digests)]
    experiment = single_worker(runs[digest].experiment)
    return MeasureTask(
        digest=f"{digest} {copy}",
        of=digest,
        family=family_of(experiment),
        toml=experiment.toml(),
        budget=budget,
        folder=str(folder),
    )


def single_worker(experiment: Experiment) -> Experiment:
    """The same run (the same digest) with one thread of its engine, if the engine has threads."""
    engine = experiment.engine
    if "workers" not in type(engine).model_fields:
        return experiment
    alone = experiment.replace(engine={**engine.settings(), "workers": 1})
    same = identity_settings(alone.engine) == identity_settings(engine)
    return alone if same else experiment


def _in_proportion(cost: float, ratios: Sequence[tuple[float, float]]) -> float:
    """Seconds of a run that was not measured: as the measured one of the nearest rough cost, in proportion."""
    if not ratios:
        return cost
    near, seconds = min(ratios, key=lambda pair: abs(math.log((pair[0] or 1e-9) / (cost or 1e-9))))
    return seconds * cost / near if near else seconds


def _factor(ratios: Sequence[tuple[float, float]]) -> float | None:
    """How wrong `_in_proportion` is of each measured run that the others are asked about: see `Estimate.factor`."""
    if len(ratios) < 3:
        return None
    errors = [
        math.log(_in_proportion(cost, [*ratios[:k], *ratios[k + 1 :]]) / seconds)
        for k, (cost, seconds) in enumerate(ratios)
    ]
    return math.exp(float(np.sqrt(np.mean(np.square(errors)))))


def makespan(seconds: Iterable[float], workers: int) -> float:
    """When the last of the runs ends, if each worker that is free takes the longest that is left."""
    free = [0.0] * max(workers, 1)
    for one in sorted(seconds, reverse=True):
        heapq.heapreplace(free, free[0] + one)
    return max(free)
