"""What the runs on images in colour would cost that no scale but the full one has: measured, not run.

    python benchmarks/cifar_cost.py        # a few minutes of one core; docs/records/cifar-cost.json

Measured are processor seconds of one core: for each network that studies train on CIFAR-10 at scale full alone, those
of training on an image and of judging one, by the engine, in batches of at most 32; the least of several times, since
what else a machine does makes them more. And where devices come and go, how many train in a round: the movement of one
seed is played with a model of a few numbers. From that and from gpu.json `make docs` reckons hours.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedroam.bench.workloads import Ours, Workload
from fedroam.experiment import Experiment
from fedroam.papers.library import studies
from fedroam.recording import environment
from fedroam.runner import run
from fedroam.study import Study
from fedroam.study.files import make_files
from fedroam.study.presentation.gpu import come_and_go, needs_gpu
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "cifar-cost.json"
BATCH = 32  # at most so many images at once
CLIENTS, IMAGES = 2, 64  # models, and the images of each
# What is learnt says nothing of who is there.
TINY: dict[str, Any] = {
    "data": {"kind": "digits"},
    "partition": {"kind": "client_dirichlet", "alpha": 100.0, "samples_per_client": 1},
    "model": {"kind": "mlp", "hidden": [1]},
    "training": {"epochs": 1, "batch_size": 8},
    "checkpoint_every": 1000,
    "record_movement": "none",
}


def in_colour(study: Study) -> list[Experiment]:
    """The runs of a study that need a GPU."""
    if "full" not in study.scales:
        return []
    return [study.experiment(v, "full") for v in study.needs("full") if needs_gpu(study, v)]


def seconds_an_image(model: dict[str, Any], batch: int, repeats: int) -> dict[str, float]:
    """Processor seconds of one core for training on an image, and for judging one: the least over repeats."""
    workload = Workload(
        *("measured", model, (32, 32, 3), CLIENTS, batch, IMAGES // batch, 0.0, 0.0, 0.0, nn.Identity)
    )
    engine = Ours(workload, kind="cpu", workers=1)
    try:
        return {
            "train": _least(engine.round, repeats) / (CLIENTS * IMAGES),
            "evaluate": _least(engine.evaluate, repeats) / (CLIENTS * len(engine.test[1])),
        }
    finally:
        engine.learner.close()


def _least(work: Callable[[], object], repeats: int) -> float:
    work()  # compiles, and takes memory
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def train_a_round(experiment: Experiment) -> float:
    """How many clients train in a round, on average over a run, where devices come and go."""
    with tempfile.TemporaryDirectory() as folder:
        played = run(experiment.replace(**TINY, evaluate_every=experiment.rounds), Path(folder) / "run")
        return float(played.by_round["total_trained"].iloc[-1]) / experiment.rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--record", type=Path, default=RECORD)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    seconds: dict[str, dict[str, float]] = {}
    trained: dict[str, float] = {}
    for study in studies().values():
        runs = in_colour(study)
        for each in runs:
            settings = each.settings()
            model, batch = settings["model"], min(settings["training"]["batch_size"], BATCH)
            if model["kind"] not in seconds:
                found = seconds_an_image(model, batch, chosen.repeats)
                seconds[model["kind"]] = {"batch": batch, **found}
                print(f"{model['kind']}: {found}", flush=True)
        if runs and come_and_go(runs[0]):
            for line in make_files(study, runs):
                print(line)
            trained[study.name] = train_a_round(runs[0])
            print(
                f"{study.name}: {trained[study.name]:.1f} of {runs[0].clients} clients train in a round",
                flush=True,
            )
    there = environment()
    record = {
        "processor": there["processor"],
        "torch": torch.__version__,
        "load": os.getloadavg()[1],
        "seconds": seconds,
        "trained": trained,
    }
    write_text(chosen.record, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
