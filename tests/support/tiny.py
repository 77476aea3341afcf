"""Experiments small enough to run hundreds of times, and how to run and compare them."""

from __future__ import annotations

import atexit
import functools
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import load, save
from torch import nn

from fedroam.components import Part, build, kinds
from fedroam.data import Dataset, memory
from fedroam.experiment import Experiment
from fedroam.measurement import RoundResult, evaluate
from fedroam.randomness import stream
from fedroam.recording import NOT_REPEATABLE
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State
from fedroam.traces import Trace, write_trace


def tiny(**settings: Any) -> Experiment:
    """Five clients on a 4x4 grid learn digits from few samples; any setting may be another."""
    own: dict[str, Any] = {
        "clients": 5,
        "rounds": 4,
        "evaluate_every": 2,
        "checkpoint_every": 1,
        "data": {"kind": "digits", "test_share": 0.9},
        "partition": {"kind": "dirichlet", "alpha": 1.0},
        "model": "softmax_regression",
        "training": {"kind": "sgd", "lr": 0.1, "momentum": 0.5, "batch_size": 8, "steps": 2},
        "engine": "reference",
        "mobility": {"kind": "random", "grid": 4, "mobile": 2},
        "access_points": {"kind": "grid", "columns": 2, "rows": 2},
        "contacts": {"kind": "radius", "radius": 1.5},
        "mixing": "metropolis",
        "federation": "decentralized",
    }
    return Experiment(**{**own, **settings})


# What an imported trace says of itself, for one that was made here.
TRACE_FACTS: dict[str, Any] = {
    "source": "",
    "sha256": "",
    "epoch": None,
    "projection": None,
    "origin": None,
    "rows": 0,
    "dropped": {},
}


class OwnNetwork(nn.Module):
    """A user's own network, for `torch_module`."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.extractor = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 4), nn.Tanh())
        self.head = nn.Linear(4, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.extractor(x))
        return logits


@functools.cache
def own_data(shape: tuple[int, ...] = (1, 8, 8)) -> Part:
    """60 samples of ten classes, of a shape as networks see it, with 30 test samples and a column `writer`."""
    x, y = _own_arrays(shape)
    return memory(
        x[:60], y[:60], x[60:], y[60:], layout="channels_first", columns={"writer": np.arange(60) // 6}
    )


def own_samples() -> Dataset:
    """The samples of `own_data`."""
    dataset: Dataset = own_data().load()  # type: ignore[attr-defined]
    return dataset


def _own_arrays(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(90) % 10
    noise = stream(9, "own samples").standard_normal((90, math.prod(shape))).astype(np.float32)
    return (noise + np.float32(0.2) * (y[:, None] - 4.5).astype(np.float32)).reshape(90, *shape), y


@functools.cache
def _own_files() -> Path:
    """A folder with samples of four features as own.npz and own.csv."""
    folder = Path(tempfile.mkdtemp(prefix="fedroam-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    x, y = _own_arrays((4,))
    np.savez(folder / "own.npz", x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])
    table = pd.DataFrame(x, columns=list("abcd")).assign(label=y)
    table.to_csv(folder / "own.csv", index=False)
    (folder / "points.csv").write_text("x,y\n0.5,0.5\n3.5,0.5\n2.0,3.0\n")
    (folder / "speeds.csv").write_text("share,seconds\n3,0.001\n1,0.02\n")
    (folder / "met.csv").write_text("round,i,j\n0,0,1\n0,2,1\n1,3,4\n2,0,2\n2,2,0\n")
    return folder


@functools.cache
def _own_trace() -> Path:
    """Thirty devices that come and go for twelve hours, with a fix about every twenty minutes while they are there."""
    draws = stream(9, "own trace")
    time = np.arange(0.0, 12 * 3600, 1200)
    fixes = [time[(draws.random(len(time)) < 0.7) & ((time // 7200 + i) % 3 < 2)] for i in range(30)]
    counts = [len(own) for own in fixes]
    trace = Trace(
        tuple(f"device {i}" for i in range(30)),
        np.cumsum([0, *counts]),
        np.concatenate(fixes),
        draws.random((sum(counts), 2)) * 4,
        TRACE_FACTS,
    )
    return write_trace(trace, _own_files() / "own.parquet")


@functools.cache
def _own_log() -> Path:
    """Twelve devices that are on for one to three hours and off for one or two, all day."""
    draws, rows = stream(9, "own log"), []
    for i in range(12):
        time = 3600.0 * float(draws.integers(0, 3))
        while time < 86400:
            end = time + 3600 * float(draws.integers(1, 4))
            rows.append(f"phone {i},{time:g},{end:g}")
            time = end + 3600 * float(draws.integers(1, 3))
    path = _own_files() / "own-log.csv"
    path.write_text("\n".join(["device,begin,end", *rows]) + "\n")
    return path


# Settings for kinds that cannot be built from their defaults alone. A part with a required field needs an entry
# here, by (family, kind), for the contract suite.
EXAMPLES: dict[tuple[str, str], Callable[[], dict[str, Any]]] = {
    ("model", "torch_module"): lambda: {"target": "support.tiny:OwnNetwork"},
    ("data", "memory"): lambda: own_data().settings(),
    ("data", "arrays"): lambda: {"path": str(_own_files() / "own.npz")},
    ("data", "csv"): lambda: {"path": str(_own_files() / "own.csv")},
    ("link", "lte_wifi"): lambda: {"lte_near": 100.0, "lte_far": 400.0},
    ("compute", "table"): lambda: {"path": str(_own_files() / "speeds.csv")},
    ("meter", "csv"): lambda: {"path": str(_own_files() / "speeds.csv")},
    ("meter", "model"): lambda: {"idle": 1.0, "training": 5.0, "communication": 3.0},
    ("meter", "serial"): lambda: {"path": "/dev/ttyUSB0"},
    ("meter", "smartpower2"): lambda: {"host": "127.0.0.1"},
    ("access_points", "file"): lambda: {"path": str(_own_files() / "points.csv")},
    ("contacts", "recorded"): lambda: {"file": str(_own_files() / "met.csv")},
    ("mobility", "trace"): lambda: {"file": str(_own_trace())},
    ("activity", "trace"): lambda: {"file": str(_own_log())},
    # a global aggregation within a few rounds
    **{
        ("federation", kind): lambda: {"k2": 2}
        for kind in ("hierarchical", "hierfavg", "macfl", "mohawk", "delayed_mohawk", "hierarchical_fedasync")
    },
    ("federation", "hierarchical_fedbuff"): lambda: {"k2": 2, "size": 2},
    # ten clients' samples must fit into the 60 of `own_data`
    ("partition", "client_dirichlet"): lambda: {"samples_per_client": 5},
}


def example(family: str, kind: str, clients: int = 5) -> Part:
    """A part of this kind: its defaults, its example settings, and no more mobile clients than there are."""
    settings = EXAMPLES[family, kind]() if (family, kind) in EXAMPLES else {}
    fields = kinds(family)[kind].model_fields
    if "mobile" in fields and "mobile" not in settings:
        settings["mobile"] = min(2, clients)
    return build(family, {**settings, "kind": kind})


@dataclass(frozen=True)
class Played:
    """A run held in memory: its tables (without wall-clock columns) and its state after each round, as bytes."""

    rounds: pd.DataFrame
    clients: pd.DataFrame
    positions: pd.DataFrame
    contacts: pd.DataFrame
    states: tuple[bytes, ...]

    def tables(self) -> dict[str, pd.DataFrame]:
        return {name: getattr(self, name) for name in ("rounds", "clients", "positions", "contacts")}


def frozen(state: State) -> bytes:
    """A state as a checkpoint would hold it."""
    return save({name: np.ascontiguousarray(array) for name, array in state.arrays().items()})


def thawed(scene: Scene, round: int, held: bytes) -> State:
    """The state of a round, from `frozen`."""
    return State.of(round, load(held), scene)


def steps(scene: Scene, state: State, last: int | None = None) -> Iterator[tuple[State, RoundResult]]:
    """All rounds that are left, or those up to `last`."""
    while state.round < (scene.experiment.rounds if last is None else last):
        state, done = play_round(scene, state)
        yield state, done


def play(experiment: Experiment, start: tuple[int, bytes] | None = None, last: int | None = None) -> Played:
    """Run in memory, from the beginning or from a state of `Played.states`, to the end or the round `last`; every
    round is measured."""
    scene = prepare(experiment)
    try:
        state = begin(scene) if start is None else thawed(scene, *start)
        rows: dict[str, list[pd.DataFrame]] = {"rounds": [], "clients": [], "positions": [], "contacts": []}
        states = []

        def note(state: State, done: RoundResult) -> None:
            found = evaluate(scene, state, done, 0.0)
            positions, contacts = scene.movement_rows(state.round, done.meeting)
            rows["rounds"].append(found.round_row.drop(columns=list(NOT_REPEATABLE)))
            rows["clients"].append(found.client_rows)
            rows["positions"].append(pd.DataFrame(positions))
            rows["contacts"].append(pd.DataFrame(contacts))
            states.append(frozen(state))

        if start is None:
            note(state, RoundResult.nothing(state.meeting))
        for step in steps(scene, state, last):
            note(*step)
    finally:
        scene.learner.close()
    tables = {name: pd.concat(parts, ignore_index=True) for name, parts in rows.items() if parts}
    return Played(**tables, states=tuple(states))


def same_tables(a: Mapping[str, pd.DataFrame], b: Mapping[str, pd.DataFrame]) -> None:
    """Fail where two runs' tables differ in a single bit (wall-clock columns aside)."""
    assert sorted(a) == sorted(b)
    for name in a:
        if not a[name].equals(b[name]):  # in a moment; what differs takes longer to tell
            one, other = (t[name].drop(columns=list(NOT_REPEATABLE), errors="ignore") for t in (a, b))
            pd.testing.assert_frame_equal(one, other, check_exact=True, obj=name)


def convex(radius: float, **settings: object) -> Experiment:
    """Five clients on a 4x4 grid who learn a strongly convex problem; radius 5 connects everybody, 3 nearly all, 1
    few."""
    own = {
        "training": {"kind": "sgd", "lr": 0.01, "weight_decay": 0.01},
        "rounds": 25,
        "contacts": {"kind": "radius", "radius": radius},
    }
    return tiny(**{**own, **settings})
