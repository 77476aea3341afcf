"""What a run costs, from a few of its rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fedroam import runner
from fedroam.experiment import Experiment
from fedroam.sweep.limits import peak_memory

# Seconds between two checkpoints of a run in a sweep, at least. A checkpoint waits for the disk (about 20 ms), which
# for runs of few seconds would leave cores idle; a kill loses so much of each run in hand.
CHECKPOINT_PAUSE = 5.0
FEW = 2  # rounds of the first, short run, which tells how many more the time allows


@dataclass(frozen=True)
class UnitCosts:
    """Seconds of a run's pieces: start (up to the first measurement), a plain round, what an evaluation on all test
    samples and a checkpoint add to it, and the end, for each checkpoint.

    memory: bytes at the peak, shared data not counted, or None where the system does not tell.
    """

    start: float
    round: float
    evaluation: float
    checkpoint: float
    end: float
    memory: int | None = None

    def seconds(self, experiment: Experiment) -> float:
        """A whole run."""
        rounds = experiment.rounds * self.round
        evaluations = _count(experiment.rounds, experiment.evaluate_every)
        whole = min(experiment.evaluate_whole, evaluations)
        rounds += (whole + experiment.evaluate_share * (evaluations - whole)) * self.evaluation
        # Besides those of rounds 0 and the last: so many as are due, but no more than the pause between them allows.
        due = _count(experiment.rounds, experiment.checkpoint_every) - 1
        between = min(due, int(rounds / CHECKPOINT_PAUSE))
        return self.start + rounds + (2 + between) * (self.checkpoint + self.end)


def _count(rounds: int, every: int) -> int:
    """How many of the rounds 1 .. rounds are multiples of `every` or the last."""
    return -(-rounds // every)


def unit_costs(experiment: Experiment, budget: float, below: Path) -> UnitCosts:
    """Run `FEW` rounds, then as many as `budget` seconds allow, in folders that are thrown away; fit the pieces."""
    experiment = experiment.replace(evaluate_share=1.0)  # of few rounds, all evaluations are on all samples
    short = _timed(experiment.replace(rounds=min(FEW, experiment.rounds)), below)
    pace = (short[-1] - short[1]) / (len(short) - 2)
    rounds = int(np.clip(budget / max(pace, 1e-6), min(2 * FEW, experiment.rounds), experiment.rounds))
    return fit(_timed(experiment.replace(rounds=rounds), below), experiment)


def _timed(experiment: Experiment, below: Path) -> list[float]:
    """The moments (s) at which a run began, had come to each round from 0 on, and was over."""
    moments = [time.perf_counter()]
    with TemporaryDirectory(dir=below, prefix="measure-") as folder:
        runner.run(experiment, folder, observer=lambda *_: moments.append(time.perf_counter()))
        moments.append(time.perf_counter())
    return moments


def fit(moments: list[float], experiment: Experiment) -> UnitCosts:
    """Unit costs by non-negative least squares over the rounds; `moments` as `_timed` gives them."""
    from scipy.optimize import nnls

    steps, rounds = np.diff(moments), len(moments) - 3
    t = np.arange(1, rounds + 1)
    evaluated = (t % experiment.evaluate_every == 0) | (t == rounds)
    # A checkpoint comes after a round was reported: it falls into the time of the next round.
    after_checkpoint = (t - 1) % experiment.checkpoint_every == 0
    facts = np.stack([np.ones(rounds), evaluated, after_checkpoint], axis=1).astype(np.float64)
    (plain, evaluation, checkpoint), _ = nnls(facts, steps[1 : rounds + 1])
    pieces = _count(rounds, experiment.checkpoint_every) + 1
    end = max(float(steps[-1]) - checkpoint, 0.0) / pieces
    return UnitCosts(float(steps[0]), float(plain), float(evaluation), float(checkpoint), end, peak_memory())
