"""A worker that is lost in the middle is replaced, and nothing changes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from execution.test_equality import same
from fedroam.errors import FedroamError
from fedroam.experiment import Experiment
from fedroam.measurement import Measurement
from fedroam.recording import Run
from fedroam.runner import run
from fedroam.terminal.interrupts import Interrupted
from support.spreading import InProcess, crew_of, spread_out
from support.tiny import tiny

KINDS: dict[str, dict[str, Any]] = {
    "decentralized": {},
    "mohawk": {"federation": {"kind": "mohawk", "k2": 2}},
    "fedavg": {"federation": "fedavg"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_worker_changes_nothing(kind: str, tmp_path: Path) -> None:
    """Whenever it is lost: before the first round, within each that follows, or at the end."""
    experiment = tiny(**{"rounds": 6, "checkpoint_every": 4, **KINDS[kind]})
    alone = run(experiment, tmp_path / "alone")
    counted = InProcess(3)
    run(experiment, tmp_path / "counted", stage=lambda e: spread_out(e, counted))
    for share in (0.02, 0.3, 0.55, 0.8, 0.97):
        _lost_after(share, experiment, alone, len(counted.calls), tmp_path / f"lost {share}")


def _lost_after(share: float, experiment: Experiment, alone: Run, calls: int, folder: Path) -> None:
    """A worker is lost after this share of the calls that a run makes."""
    told: list[tuple[int, bool]] = []

    def observe(round: int, rounds: int, found: Measurement | None) -> None:
        told.append((round, found is not None))

    dying = InProcess(3, [int(share * calls)])
    scenes: list[Any] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        lost = run(
            experiment,
            folder,
            stage=lambda e: scenes.append(spread_out(e, dying)) or scenes[0],
            observer=observe,
        )
    same(alone, lost)
    if share > 0.1:  # else it is lost before the first round
        assert crew_of(scenes[0]).told["renewals"] == 1
        assert any("a worker is lost" in str(each.message) for each in warned)
    assert None not in dying.workers
    assert told == [(t, t % 2 == 0) for t in range(7)]  # each round once, though some were played twice


def test_workers_that_die_again_and_again_end_the_run(tmp_path: Path) -> None:
    experiment = tiny(rounds=4, checkpoint_every=4)
    dying = InProcess(2, range(30, 10_000, 13))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(FedroamError, match="3 times without a checkpoint"):
            run(experiment, tmp_path, stage=lambda e: spread_out(e, dying))


def test_a_run_goes_on_elsewhere(tmp_path: Path) -> None:
    """Begun on three workers, gone on with on two, and ended in one process."""
    experiment = tiny(rounds=6)
    alone = run(experiment, tmp_path / "alone")
    out = tmp_path / "moved"

    class Enough(Exception):
        pass

    def until(last: int) -> Any:
        def observe(round: int, rounds: int, found: Measurement | None) -> None:
            if round == last:
                raise Enough

        return observe

    for last, count in ((2, 3), (4, 2)):
        workers = InProcess(count)
        with pytest.raises(Enough):
            run(experiment, out, observer=until(last), stage=lambda e, w=workers: spread_out(e, w))
    same(alone, run(experiment, out))


def test_ctrl_c_writes_a_checkpoint(tmp_path: Path) -> None:
    import os
    import signal

    experiment = tiny(rounds=6, checkpoint_every=2)
    alone = run(experiment, tmp_path / "alone")

    def observe(round: int, rounds: int, found: Measurement | None) -> None:
        if round == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        run(
            experiment,
            tmp_path / "out",
            observer=observe,
            stage=lambda e: spread_out(e, InProcess(2)),
        )
    found = run(experiment, tmp_path / "out", stage=lambda e: spread_out(e, InProcess(2)))
    same(alone, found)
    assert np.isfinite(found.rounds["loss"]).all()
