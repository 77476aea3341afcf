"""What of a study is run at no scale that is kept: the hours it would take, on a GPU where it trains on colour images.

Nothing of it has been run. Hours are estimates of what was measured (`Measured`), which somebody hands over, and, on
images in colour, of numbers of images, which are counted; without it none are told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedroam.components import Part
from fedroam.data.dirichlet import ClientDirichlet
from fedroam.data.sources.cifar10 import Cifar10
from fedroam.devices.arithmetic import training_flops
from fedroam.experiment import Experiment
from fedroam.federation.hierarchical import Hierarchical
from fedroam.learning.training import sample_passes
from fedroam.models import ModelBuilder
from fedroam.parts import Parts
from fedroam.study.study import Study
from fedroam.study.values import Item

CORES = 2
_SHAPE, _CLASSES, _TRAIN_SAMPLES, _TEST_SAMPLES = (3, 32, 32), 10, 50_000, 10_000  # of CIFAR-10


@dataclass(frozen=True)
class Measured:
    """What was measured of networks for images in colour, of a GPU with others, and of runs at larger scales.

    processor: where; load: processes that were at work there; seconds: by the kind of a network, those of one core for
    training on an image (`train`) and for judging one (`evaluate`), in batches of so many (`batch`); trained: by study,
    how many clients train in a round where devices come and go; gpu: its name; rates: floating-point operations a
    second that it reached, the least and the most; runs: core-seconds of a run, by a few of its rounds, by study, scale
    and variant, where no scale that is kept has it.
    """

    processor: str
    load: float
    seconds: Mapping[str, Mapping[str, float]]
    trained: Mapping[str, float]
    gpu: str
    rates: tuple[float, float]
    runs: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    _flops: dict[Part, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def flops(self, model: Part) -> float:
        """The operations of training a model on one image, which are counted once: each item of a page asks for the
        same few models."""
        if model not in self._flops:
            assert isinstance(model, ModelBuilder)
            self._flops[model] = training_flops(model.build(_SHAPE, _CLASSES), _SHAPE)
        return self._flops[model]

    @classmethod
    def of(
        cls, cost: Mapping[str, Any], gpu: Mapping[str, Any], larger: Mapping[str, Any] | None = None
    ) -> Measured:
        """From the records of `benchmarks/cifar_cost.py`, `benchmarks/gpu.py` and `benchmarks/larger_scales.py`."""
        rates = [1e9 * row["gflops"] for row in gpu["rows"]]
        return cls(
            cost["processor"],
            cost["load"],
            cost["seconds"],
            cost["trained"],
            gpu["machine"]["device"],
            (min(rates), max(rates)),
            {study: found["seconds"] for study, found in (larger or {}).items()},
        )

    def core_hours(self, study: Study, item: Item, scale: str, seeds: int) -> float:
        """Of the runs of an item at a scale, with so many seeds; NaN where that of a variant was not measured."""
        took = self.runs.get(study.name, {}).get(scale, {})
        return seeds * math.fsum(took.get(variant, math.nan) for variant in item.variants) / 3600


@dataclass(frozen=True)
class Hours:
    """What runs would take. cores: hours of one core; gpu: hours of a GPU, the least and the most; training,
    evaluation: floating-point operations.
    """

    runs: int
    cores: float
    gpu: tuple[float, float]
    training: float
    evaluation: float


def hours(study: Study, variants: Iterable[str], measured: Measured) -> Hours:
    """What all seeds of those of the variants take at scale full that need a GPU."""
    runs = [study.experiment(variant, "full") for variant in variants if needs_gpu(study, variant)]
    if not runs:
        return Hours(0, 0.0, (0.0, 0.0), 0.0, 0.0)
    flops = {run.model: measured.flops(run.model) for run in runs}
    seconds, training, evaluation = 0.0, 0.0, 0.0
    for run in runs:
        trained, judged = _images(run, measured.trained.get(study.name, float(run.clients)))
        known = measured.seconds[run.model.kind]
        seconds += trained * known["train"] + judged * known["evaluate"]
        training += trained * flops[run.model]
        evaluation += judged * flops[run.model] / 3
    seeds = study.scales["full"].seeds
    least, most = (seeds * (training + evaluation) / rate / 3600 for rate in reversed(measured.rates))
    return Hours(
        len(runs) * seeds, seeds * seconds / 3600, (least, most), seeds * training, seeds * evaluation
    )


def gpu_words(study: Study, measured: Measured) -> str:
    """What needs a GPU, the hours that it would take, and what they rest on; empty where nothing does."""
    needing = [variant for variant in study.needs("full") if needs_gpu(study, variant)]
    if not needing:
        return ""
    found = hours(study, needing, measured)
    kinds = dict.fromkeys(study.experiment(variant, "full").model.kind for variant in needing)
    images = ", ".join(_an_image(kind, measured.seconds[kind]) for kind in kinds)
    least, most = (f"{rate / 1e12:.1f}" for rate in measured.rates)
    clients = study.experiment(needing[0], "full").clients
    who = (
        f" Of {clients:,} clients {measured.trained[study.name]:.0f} train in a round, as the trace has them there."
        if study.name in measured.trained
        else ""
    )
    seeds, every = study.scales["full"].seeds, len(study.needs("full"))
    training, evaluation = (f"{part / found.runs / 1e15:,.1f}" for part in (found.training, found.evaluation))
    return (
        f"Needs a GPU, and was not run: {len(needing)} of the {every} variants of scale full train on CIFAR-10. "
        f"{seeds} seeds of all of them would take {_text(found, f'one {measured.gpu}')}, of training and evaluation "
        "alone. Hours of cores are of images, which are counted, and of the time that a core was measured to compute "
        f"for training on one and for judging one ({images}; {measured.processor}, with a load of {measured.load:.0f})."
        f"{who} Those of the GPU are of floating-point operations, which are counted, too: a run has {training} x "
        f"10^15 of training and {evaluation} x 10^15 of evaluation. There, other work, with a network for MNIST, was "
        f"measured to do {least} to {most} x 10^12 of them a second: none of these networks was timed on a GPU."
    )


def _an_image(kind: str, seconds: Mapping[str, float]) -> str:
    """`resnet50 75 and 25 ms, in batches of 32`."""
    train, evaluate = (_rounded(1000 * seconds[name]) for name in ("train", "evaluate"))
    return f"{kind} {train} and {evaluate} ms, in batches of {seconds['batch']:g}"


def needs_words(study: Study, item: Item, measured: Measured) -> str:
    """What an item's runs that need a GPU would take: `30 runs, an estimated 84 to 240 hours of it, or 3,200 of 2
    cores`; empty where none does."""
    found = hours(study, item.variants, measured)
    return f"{found.runs} runs, {_text(found, 'it')}" if found.runs else ""


def _text(found: Hours, gpu: str) -> str:
    """`an estimated 84 to 240 hours of it, or 3,200 of 2 cores`."""
    least, most = map(_rounded, found.gpu)
    return (
        f"an estimated {least} to {most} hours of {gpu}, or {_rounded(found.cores / CORES)} of {CORES} cores"
    )


def _rounded(number: float) -> str:
    """Two digits of a number, as an estimate has them."""
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 10 else f"{number:.2g}"


def needs_gpu(study: Study, variant: str) -> bool:
    """Whether a variant is of no scale but the full one, and trains on images in colour there."""
    of = [name for name, scale in study.scales.items() if variant not in scale.without]
    return of == ["full"] and isinstance(study.experiment(variant, "full").data, Cifar10)


def come_and_go(run: Experiment) -> bool:
    """Whether a hierarchy's devices train only where they are there."""
    return isinstance(Parts.of(run).federation, Hierarchical)


def _images(run: Experiment, training: float) -> tuple[float, float]:
    """How many images are trained on, and how many judged, each as often as it is. training: clients that train in a
    round.
    """
    parts = Parts.of(run)
    evenly = _TRAIN_SAMPLES // run.clients
    held = parts.partition.samples_per_client if isinstance(parts.partition, ClientDirichlet) else evenly
    models = 1 if come_and_go(run) else run.clients
    evaluated = {*range(0, run.rounds, run.evaluate_every), run.rounds}
    evaluations = sum(1.0 if t >= run.whole_from else run.evaluate_share for t in evaluated)
    return run.rounds * training * sample_passes(parts.training, held), evaluations * models * _TEST_SAMPLES
