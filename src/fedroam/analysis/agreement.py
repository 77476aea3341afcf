"""A run on a network held against the simulated one: models, who took part when, bytes, energy, and time per round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_facts
from fedroam.recording import NOT_REPEATABLE, Run, read_json, write_json
from fedroam.recording.checkpoint import kept, load
from fedroam.recording.round_times import TOOK, read_times

MODELS = 1e-5  # by which values of models, and what is measured of them, may differ
COSTS = 1e-9  # share by which sums of joules and seconds may differ
SECONDS = 0.1  # share of the simulated time by which a round on a network may take longer, or be shorter
AGREEMENT = "agreement.json"  # in the folder of a run on a network
PER_ROUND = "time per round"
# What a column tells of; all others are of learning.
TAKE_PART = (
    "active",
    "degree",
    "isolated",
    "total_",
    "present",
    "waiting",
    "out_of_service",
    "late",
    "transfers",
    "through",
    "broken",
    "contacts",
    "fit",
    "samples",
    "x",
    "y",
)
BYTES, TIME, ENERGY = ("bytes",), ("air_time", "time"), ("energy", "battery")
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

    Models are those of the rounds whose checkpoints are kept. Where the simulation has a clock of seconds, and the
    network was paced by it, the time that rounds took is held against the simulated time. Raises InputError where the
    two are runs of different experiments, or not finished.
    """
    for run in (network, simulated):
        if not run.done:
            raise InputError(f"{run.folder}: is not finished")
    if network.status["digest"] != simulated.status["digest"]:
        raise InputError(f"{network.folder} and {simulated.folder}: are runs of different experiments")
    found = [
        _models(network, simulated),
        _columns("who takes part", network, simulated, _of(TAKE_PART), 0.0),
        _columns("bytes", network, simulated, _of(BYTES), 0.0),
        _columns("times by the model", network, simulated, _of(TIME), COSTS, relative=True),
        _columns("energy by the model", network, simulated, _of(ENERGY), COSTS, relative=True),
        _columns("accuracies, losses", network, simulated, _learning, MODELS),
    ]
    times = round_times(network, simulated)
    return found if times is None else [*found, _per_round(times)]


def round_times(network: Run, simulated: Run) -> pd.DataFrame | None:
    """How long rounds took, s, by evaluated round, since the one before: `network` and `simulated`, and what the
    network spent on each kind of work; None where the network was not paced by a clock."""
    if "time" not in simulated.rounds or not (network.folder / TOOK).exists():
        return None
    took = read_times(network.folder / TOOK)
    ends = simulated.rounds["round"].to_numpy()
    missing = sorted(set(range(1, int(ends[-1]) + 1)) - took.keys())
    if missing:
        raise InputError(f"{network.folder / TOOK}: round {missing[0]} is missing")
    works = sorted({work for each in took.values() for work in each.work})
    rows = []
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        within = [took[t] for t in range(first + 1, last + 1)]
        spent = {work: sum(each.work.get(work, 0.0) for each in within) for work in works}
        rows.append({"network": sum(each.seconds for each in within), **spent})
    simulated_seconds = np.diff(simulated.rounds["time"].to_numpy(float))
    table = pd.DataFrame(rows, index=ends[1:], columns=["network", *works])
    table.insert(1, "simulated", simulated_seconds)
    return table


class _Compared(JsonObject):
    what: str
    rounds: int = Field(ge=0)
    values: int = Field(ge=0)
    difference: Annotated[float, Field(ge=0)] | Literal["inf"]
    allowed: float = Field(ge=0)
    relative: bool
    identical: bool


class _Agreement(JsonObject):
    format: Literal[1]
    digest: str
    compared: list[_Compared]
    seconds: dict[str, Annotated[float, Field(ge=0)]] = {}


@dataclass(frozen=True)
class Agreement:
    """What was kept of a comparison: all that was compared, by name; seconds: how long a round took on average, on the
    network and simulated, and each kind of work in it, where that is known."""

    compared: Mapping[str, Compared]
    seconds: Mapping[str, float]


def keep_agreement(network: Run, simulated: Run) -> Agreement:
    """Compare, and write what was found into the folder of the run on a network. Raises what `agreement` does."""
    compared, times = agreement(network, simulated), round_times(network, simulated)
    found = Agreement(
        {each.what: each for each in compared},
        {} if times is None else {str(name): float(times[name].sum() / times.index[-1]) for name in times},
    )
    write_agreement(network.folder, network.status["digest"], found)
    return found


def write_agreement(folder: Path, digest: str, found: Agreement) -> None:
    """Write what was found into a folder."""
    rows = [asdict(each) for each in found.compared.values()]
    for row in rows:
        row["difference"] = "inf" if np.isinf(row["difference"]) else row["difference"]
    facts = {"format": 1, "digest": digest, "compared": rows, "seconds": dict(found.seconds)}
    write_json(folder / AGREEMENT, facts)


def read_agreement(folder: Path, digest: str) -> Agreement:
    """What was kept of a comparison in the folder of a run on a network, of the experiment of this digest. Raises
    InputError where it is missing, damaged, or of another run."""
    path = folder / AGREEMENT
    if not path.exists():
        raise InputError(f"{path}: missing; fedroam emulate --check writes it")
    facts = read_json(path)
    found = checked_facts(facts, _Agreement, path)
    if found.digest != digest:
        raise InputError(f"{path}: is of another run")
    rows = [
        Compared(**{**each.model_dump(), "difference": float(each.difference)}) for each in found.compared
    ]
    return Agreement({each.what: each for each in rows}, found.seconds)


def _per_round(times: pd.DataFrame) -> Compared:
    """By how much a round's time is another than the simulated one, as a share of that, at most."""
    network, simulated = (times[name].to_numpy(float) for name in ("network", "simulated"))
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(network == simulated, 0.0, np.abs(network - simulated) / simulated)
    return Compared(PER_ROUND, len(times), len(times), float(apart.max(initial=0.0)), SECONDS, True, False)


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
            (one[name].to_numpy(), other[name].to_numpy() if name in other else None)
            for name in one.columns
            if wanted(name) and name not in NOT_REPEATABLE and pd.api.types.is_numeric_dtype(one[name])
        ]
    return _compared(what, len(network.rounds), pairs, allowed, relative=relative)


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
