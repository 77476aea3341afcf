"""What the tests of sweeps share: a sweep of 24 tiny runs, and parts that go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from fedroam.recording import NOT_REPEATABLE
from fedroam.sweep import Sweep

OVER = ("mobility.kind=static,random", "training.lr=0.1,0.2", "contacts.radius=1.5,3")
SEEDS = 3

# Parts of one's own, each wrong in its own way. They behave in round 1, so that a run folder is there.
BAD_PARTS = '''
import os
import signal

import numpy as np

from fedroam.components import field, register
from fedroam.mobility.grid import Static


class Late(Static):
    def step(self, state, world, round):
        if round > 1:
            self.go_wrong()
        return super().step(state, world, round)


@register("mobility", "raising")
class Raising(Late):
    """Raises in round 2."""

    def go_wrong(self):
        raise ValueError("lost in\\nround 2")


@register("mobility", "hungry")
class Hungry(Late):
    """Takes 64 GiB in round 2."""

    def go_wrong(self):
        np.ones(8 * 1024**3)


@register("mobility", "deadly_once")
class DeadlyOnce(Late):
    """Kills its process in round 2, unless the marker file says that it has done so."""

    marker: str = field("", "a file", identity=False)

    def go_wrong(self):
        if not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)


@register("mobility", "deadly")
class Deadly(Late):
    """Kills its process in round 2."""

    def go_wrong(self):
        os.kill(os.getpid(), signal.SIGKILL)
'''


def settings(**more: Any) -> dict[str, Any]:
    """Four clients learn softmax regression on few digits, three rounds."""
    own: dict[str, Any] = {
        "name": "tiny",
        "clients": 4,
        "rounds": 3,
        "evaluate_every": 1,
        "checkpoint_every": 1,
        "data": {"kind": "digits", "test_share": 0.9},
        "partition": {"kind": "dirichlet", "alpha": 1.0},
        "model": {"kind": "softmax_regression"},
        "training": {"kind": "sgd", "lr": 0.1, "batch_size": 8, "steps": 2},
        "mobility": {"kind": "random", "grid": 4, "mobile": 2},
        "contacts": {"kind": "radius", "radius": 1.5},
    }
    return {**own, **more}


def numbers(sweep: Sweep) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables of a sweep without wall-clock columns."""
    assert set(NOT_REPEATABLE) <= set(sweep.table), f"no run is done: {[*sweep.table['reason']]}"
    table, rounds = (frame.drop(columns=list(NOT_REPEATABLE)) for frame in (sweep.table, sweep.rounds))
    return table, rounds


def same(one: Sweep, other: Sweep) -> None:
    """Fail where two sweeps differ in a single bit."""
    for a, b in zip(numbers(one), numbers(other), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)


def bad_parts(folder: Path) -> str:
    """The file of parts that go wrong."""
    path = folder / "bad_parts.py"
    path.write_text(BAD_PARTS)
    return str(path)
