"""A run on a network held against the simulated one: models, who took part when, bytes, air time and energy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedroam.errors import InputError
from fedroam.recording import NOT_REPEATABLE, Run
from fedroam.recording.checkpoint import kept, load

MODELS = 1e-5  # by which values of models, and what is measured of them, may differ
COSTS = 1e-9  # share by which sums of joules and seconds may differ
# What a column tells of; all others are of learning.
TAKE_PART = (
    "active",
    "degree",
    "isolated",
    "total_",
    "present",
    "waiting",
    "out_of_service",
    "samples",
    "x",
    "y",
)
BYTES, TIME, ENERGY = ("bytes",), ("air_time",), ("energy",)
KEYS = ("round", "client")


@dataclass(frozen=True)
class Compared:
    """What was compared: how many values of how many rounds, by how much they differ at most, and by how much they may.

    relative: whether as a share of the value. identical: whether they are the same bits.
    """

    what: str
    rounds: int
    values: int
    difference: float
    allowed: float
    relative: bool
    identical: bool

    @property
    def agrees(self) -> bool:
        """Whether that is allowed."""
        return self.identical or self.difference <= self.allowed


def agreement(network: Run, simulated: Run) -> list[Compared]:
    """How far a run on a network and a simulated one are the same.

    Models are those of the rounds whose checkpoints are kept. Raises InputError where the two are runs of different
    experiments, or not finished.
    """
    for run in (network, simulated):
        if not run.done:
            raise InputError(f"{run.folder}: is not finished")
    if network.status["digest"] != simulated.status["digest"]:
        raise InputError(f"{network.folder} and {simulated.folder}: are runs of different experiments")
    return [
        _models(network, simulated),
        _columns("who takes part", network, simulated, _of(TAKE_PART), 0.0),
        _columns("bytes", network, simulated, _of(BYTES), 0.0),
        _columns("air time", network, simulated, _of(TIME), COSTS, relative=True),
        _columns("energy by the model", network, simulated, _of(ENERGY), COSTS, relative=True),
        _columns("accuracies, losses", network, simulated, _learning, MODELS),
    ]


def _of(beginnings: Sequence[str]) -> Callable[[str], bool]:
    return lambda name: any(name == each or (len(each) > 1 and name.startswith(each)) for each in beginnings)


def _learning(name: str) -> bool:
    return name not in KEYS and not _of((*TAKE_PART, *BYTES, *TIME, *ENERGY))(name)


def _models(network: Run, simulated: Run) -> Compared:
    one, other = (
        {path.name: load(path, run.status["digest"]).arrays for path in kept(run.folder / "checkpoints")}
        for run in (network, simulated)
    )
    both = sorted(one.keys() & other.keys())
    pairs = [(one[t][name], other[t].get(name)) for t in both for name in one[t]]
    return _compared("models and state", len(both), pairs, MODELS, relative=False)


def _columns(
    what: str,
    network: Run,
    simulated: Run,
    wanted: Callable[[str], bool],
    allowed: float,
    *,
    relative: bool = False,
) -> Compared:
    """Of the tables of rounds and clients, and of positions where they are kept."""
    pairs: list[tuple[np.ndarray, np.ndarray | None]] = []
    for table in ("rounds", "clients", "positions"):
        one, other = network.table(table), simulated.table(table)
        pairs += [
            (one[name].to_numpy(), _column(other, name))
            for name in one.columns
            if wanted(name) and name not in NOT_REPEATABLE and pd.api.types.is_numeric_dtype(one[name])
        ]
    return _compared(what, len(network.rounds), pairs, allowed, relative=relative)


def _column(table: pd.DataFrame, name: str) -> np.ndarray | None:
    return table[name].to_numpy() if name in table.columns else None


def _compared(
    what: str,
    rounds: int,
    pairs: Sequence[tuple[np.ndarray, np.ndarray | None]],
    allowed: float,
    *,
    relative: bool,
) -> Compared:
    most, identical = 0.0, bool(pairs)
    for one, other in pairs:
        if other is None or other.shape != one.shape:
            return Compared(what, rounds, 0, np.inf, allowed, relative, False)
        identical &= one.dtype == other.dtype and one.tobytes() == other.tobytes()
        a, b = one.astype(np.float64), other.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.abs(a - b) / (np.maximum(np.abs(a), np.abs(b)) if relative else 1.0)
        # What is a number in one and none in the other differs by more than any number.
        apart = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
        most = max(most, float(apart.max(initial=0.0)))
    count = sum(one.size for one, _ in pairs)
    return Compared(what, rounds, count, most, allowed, relative, identical)
