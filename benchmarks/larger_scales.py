"""What the runs would take that no kept scale has, and that need no GPU: measured by a few rounds, not run.

    python benchmarks/larger_scales.py [STUDY ...]     # minutes of one core; docs/records/larger-scales.json

Of each claim that no scale in `results/` can tell anything of, the variants at the smallest scale that can. Those that
differ in who reaches whom, how many move or how far take the same time but for little, so one of each kind of movement,
network, data and number of clients is played for a few rounds, with one worker, in processor seconds: what else the
machine does makes them only a little more. From that pages of results tell hours. Needs the studies' data
(FEDROAM_DATA); of studies that are not named the record stays as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import torch

from fedroam.experiment import Experiment
from fedroam.papers.library import studies
from fedroam.recording import environment
from fedroam.runner import run
from fedroam.study import Study
from fedroam.study.files import make_files
from fedroam.study.kept import FILE
from fedroam.study.presentation.gpu import needs_gpu
from fedroam.sweep.estimate import single_worker
from fedroam.sweep.measuring import fit
from fedroam.writing import write_text

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "records" / "larger-scales.json"
ROUNDS = 4  # that are played: the last is evaluated, the others tell what a plain one takes


def beyond(study: Study, kept: set[str]) -> Iterator[tuple[str, str]]:
    """Scale and variant of runs of claims that none of the kept scales can tell anything of, and that need no GPU."""
    for claim in study.claims:
        scales = [name for name in study.scales if study.can(claim, name)]
        if scales and not set(scales) & kept and not any(needs_gpu(study, v) for v in claim.variants):
            yield from ((scales[0], variant) for variant in claim.variants)


def alike(experiment: Experiment) -> tuple[Any, ...]:
    """What runs have in common that take the same time but for little."""
    told = experiment.settings()
    parts = (json.dumps(told[name], sort_keys=True) for name in ("data", "model", "training"))
    return experiment.clients, experiment.rounds, experiment.mobility.kind, *parts


def core_seconds(experiment: Experiment, rounds: int = ROUNDS) -> float:
    """What a whole run takes of one core, by the first few of its rounds."""
    short = single_worker(experiment.replace(rounds=min(rounds, experiment.rounds), evaluate_share=1.0))
    moments = [time.process_time()]
    with tempfile.TemporaryDirectory() as folder:
        run(short, Path(folder) / "run", observer=lambda *_: moments.append(time.process_time()))
        moments.append(time.process_time())
    return fit(moments, short).seconds(experiment)


def measured(study: Study, kept: set[str]) -> dict[str, dict[str, float]]:
    """Core-seconds of a run by scale and variant."""
    known: dict[tuple[Any, ...], float] = {}
    found: dict[str, dict[str, float]] = {}
    for scale, variant in dict.fromkeys(beyond(study, kept)):
        experiment = study.experiment(variant, scale)
        list(make_files(study, [experiment]))
        which = alike(experiment)
        if which not in known:
            known[which] = round(core_seconds(experiment), 1)
            print(f"{study.name}, {scale}, {variant}: {known[which]:.0f} s", flush=True)
        found.setdefault(scale, {})[variant] = known[which]
    return found


def kept_scales(name: str) -> set[str]:
    """The scales of a study of which runs are kept."""
    return {path.parent.name for path in (ROOT / "results" / name).glob(f"*/{FILE}")}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("studies", nargs="*", help="their names; all by default")
    chosen = parser.parse_args().studies or [*studies()]
    torch.set_num_threads(1)
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for name in chosen:
        load = os.getloadavg()[1]
        if found := measured(studies()[name], kept_scales(name)):
            there = environment()
            record[name] = {
                "measured": date.today().isoformat(),
                "processor": there["processor"],
                "torch": torch.__version__,
                "load": round(load, 1),
                "rounds": ROUNDS,
                "seconds": found,
            }
        else:
            record.pop(name, None)
    write_text(RECORD, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
