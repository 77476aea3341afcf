"""What of a study is run at no scale but the full one, because it trains on images in colour: its arithmetic."""

from __future__ import annotations

from fedroam.data.dirichlet import ClientDirichlet
from fedroam.data.sources.cifar10 import Cifar10
from fedroam.devices.arithmetic import training_flops
from fedroam.experiment import Experiment
from fedroam.federation.hierarchical import Hierarchical
from fedroam.learning.training import sample_passes
from fedroam.parts import Parts
from fedroam.study.study import Study

GPU = 10e12  # floating-point operations a second: some tenth of what a large GPU does at best, with small batches
_SHAPE, _CLASSES, _TRAIN_SAMPLES, _TEST_SAMPLES = (3, 32, 32), 10, 50_000, 10_000  # of CIFAR-10


def gpu_words(study: Study) -> str:
    """What needs a GPU, and the hours that it would take, reckoned by counting; empty where nothing does."""
    runs = [study.experiment(variant, "full") for variant in study.needs("full") if needs_gpu(study, variant)]
    if not runs:
        return ""
    models = {run.model: Parts.of(run).model for run in runs}
    flops = {part: training_flops(model.build(_SHAPE, _CLASSES), _SHAPE) for part, model in models.items()}
    counted = (_arithmetic(run, flops[run.model]) for run in runs)
    training, evaluation = (sum(part) for part in zip(*counted, strict=True))
    seeds = study.scales["full"].seeds
    hours = (training + evaluation) * seeds / GPU / 3600
    return (
        f"Needs a GPU, and was not run: {len(runs)} of the {len(study.needs('full'))} variants of scale full train "
        f"on CIFAR-10. A run has {training / len(runs) / 1e15:,.1f} x 10^15 floating-point operations of training and "
        f"{evaluation / len(runs) / 1e15:,.1f} x 10^15 of evaluation, if every client trains in every round; {seeds} "
        f"seeds of all of them are {hours:,.0f} hours of a GPU that does 10 x 10^12 a second. That is reckoned by "
        "counting, not measured."
    )


def needs_gpu(study: Study, variant: str) -> bool:
    """Whether a variant is of no scale but the full one, and trains on images in colour there."""
    of = [name for name, scale in study.scales.items() if variant not in scale.without]
    return of == ["full"] and isinstance(study.experiment(variant, "full").data, Cifar10)


def _arithmetic(run: Experiment, flops: float) -> tuple[float, float]:
    """Operations of training and of evaluation, by those of training on a sample, if every client trains in every
    round.
    """
    parts = Parts.of(run)
    evenly = _TRAIN_SAMPLES // run.clients
    held = parts.partition.samples_per_client if isinstance(parts.partition, ClientDirichlet) else evenly
    models = 1 if isinstance(parts.federation, Hierarchical) else run.clients
    evaluated = {*range(0, run.rounds, run.evaluate_every), run.rounds}
    evaluations = sum(1.0 if t >= run.whole_from else run.evaluate_share for t in evaluated)
    trained = run.rounds * run.clients * sample_passes(parts.training, held)
    return trained * flops, evaluations * models * _TEST_SAMPLES * flops / 3
