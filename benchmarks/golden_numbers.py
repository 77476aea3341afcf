"""Golden numbers: what fedroam computes and says, recorded, so that two versions can be compared bit for bit.

    python golden_numbers.py record OUT     computes everything anew with the fedroam that is imported
    python golden_numbers.py compare A B    names each difference between two records; exit code 1 if there is any
    python golden_numbers.py open OUT       opens and resumes the run folders in a record with the present fedroam

Record before a change, then after it on the same machine, and compare. Left out is what differs from time to time
anyway: seconds, and facts about the machine. Data sets that need a download are used where FEDROAM_DATA is set.

This file takes only names that a user has: `import fedroam as fr`, `fedroam.components`, the command line, and the
run folder as docs/concepts.md describes it. So it runs with either side of a restructuring.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import inspect
import io
import json
import math
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

Settings = dict[str, Any]

SECONDS = ("seconds",)  # columns that a repetition does not give again, as docs/concepts.md says
DOWNLOADS = ("mnist", "fashion_mnist", "cifar10", "unsw_nb15")
NAMED = ("heredia", "jahani-mnist", "mnist-random", "mocfl", "mohawk", "quickstart")
STUDIES = ("quickstart", "heredia", "reza", "jahani", "mohawk", "mocfl")
SCALES = ("quick", "medium", "full")  # every scale that some study has
# Scales that are judged and drawn, too, from made-up runs.
JUDGED = ("quick", "full")
SEEDS = 2
# One thread: nothing depends on how many there are, but several would wait for each other on a busy machine.
QUIET = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SHOWN = 12  # lines of a difference between two texts


# --- what is kept ----------------------------------------------------------------------------------------------


def digest_of(*parts: bytes | str) -> str:
    """SHA-256 (hex) over texts and bytes."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
        found.update(b"\0")
    return found.hexdigest()


def digest_of_array(array: np.ndarray) -> str:
    """SHA-256 over type, shape and bytes of an array; texts and objects by their representation."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind in "OUST":
        return digest_of("text", json.dumps([None if v is None else str(v) for v in array.ravel().tolist()]))
    return digest_of(str(array.dtype), str(array.shape), array.tobytes())


def digest_of_column(column: pd.Series) -> str:
    """SHA-256 over the type and the values of a column."""
    kind = str(column.dtype)
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind != "O":
        return digest_of(kind, digest_of_array(column.to_numpy()))
    values = [None if pd.isna(value) else repr(value) for value in column.tolist()]
    return digest_of(kind, json.dumps(values))


@dataclass
class Record:
    """Facts by name: short values, texts, and numbers that tell how large a difference is."""

    out: Path
    facts: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fact(self, name: str, value: Any) -> None:
        """Keep a JSON value."""
        if name in self.facts or name in self.texts:
            raise ValueError(f"{name} is recorded twice")
        self.facts[name] = json.loads(json.dumps(value, default=str))

    def text(self, name: str, value: str) -> None:
        """Keep a text, without the paths of this machine."""
        if name in self.facts or name in self.texts:
            raise ValueError(f"{name} is recorded twice")
        self.texts[name] = self.masked(value)

    def masked(self, text: str) -> str:
        """A text without paths of this machine."""
        roots = {
            str(Path.home()): "<home>",
            str(self.out.resolve()): "<out>",
            str(self.out): "<out>",
            tempfile.gettempdir(): "<tmp>",
        }
        roots[str(Path(_fedroam().__file__).resolve().parent)] = "<fedroam>"
        data = os.environ.get("FEDROAM_DATA")
        if data:
            roots[data.rstrip("/")] = "<data>"
        for root in sorted(roots, key=len, reverse=True):
            text = text.replace(root, roots[root])
        return text

    def table(self, name: str, table: pd.DataFrame) -> None:
        """Keep a hash of each column but the wall clock's, and the numbers of short tables."""
        self.fact(f"{name}/columns", [str(c) for c in table.columns if c not in SECONDS])
        self.fact(f"{name}/rows", len(table))
        for column in table.columns:
            if column in SECONDS:
                continue
            self.fact(f"{name}/{column}", digest_of_column(table[column]))
            if len(table) <= 64 and table[column].dtype.kind == "f":
                self.numbers[f"{name}/{column}"] = table[column].to_numpy()

    def arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a hash of each array."""
        self.fact(f"{name}/names", sorted(arrays))
        for key, array in arrays.items():
            self.fact(f"{name}/{key}", digest_of_array(array))
            if array.dtype.kind == "f" and array.size <= 4096:
                self.numbers[f"{name}/{key}"] = array

    def picture(self, name: str, path: Path) -> None:
        """Keep a hash of the pixels of a PNG file."""
        from matplotlib.image import imread

        pixels = imread(path)
        self.fact(f"{name}/size", list(pixels.shape))
        self.fact(f"{name}/pixels", digest_of_array(pixels))

    def pictures(self, name: str, folder: Path) -> None:
        """Keep the pixels of all PNG files of a folder, and which other files there are."""
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        self.fact(f"{name}/files", [str(path.relative_to(folder)) for path in found])
        for path in found:
            if path.suffix == ".png":
                self.picture(f"{name}/{path.relative_to(folder)}", path)

    def note(self, line: str) -> None:
        """Something that a reader should know; no part of a comparison."""
        self.notes.append(line)
        tell(f"note: {line}")

    def save(self, name: str = "record") -> None:
        """Write it all into the folder `out`."""
        whole = {
            "format": 1,
            "about": _machine(),
            "notes": self.notes,
            "facts": self.facts,
            "texts": self.texts,
        }
        (self.out / f"{name}.json").write_text(json.dumps(whole, indent=1, sort_keys=True), encoding="utf-8")
        numbers: dict[str, Any] = {key.replace("/", "|"): value for key, value in self.numbers.items()}
        np.savez_compressed(self.out / f"{name}.npz", **numbers)


def _fedroam() -> Any:
    """The package, with warnings of its libraries kept quiet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import fedroam

        return fedroam


def _machine() -> Settings:
    """What a comparison takes for granted: told, not compared."""
    packages = ("torch", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "matplotlib")
    return {
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in packages},
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "data": "FEDROAM_DATA" in os.environ,
    }


def tell(line: str) -> None:
    """A line about the work itself."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


# --- the command line ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a command said, its exit code, and the experiments (digest, TOML) whose digest it asked for."""

    code: int
    out: str
    err: str
    asked: tuple[tuple[str, str], ...]


def call(commands: Sequence[Sequence[str]], folder: Path, *, digests: bool = False) -> list[Answer]:
    """Run `python -m fedroam ...` for each of the commands, one after the other, in one process in a folder.

    One process for all, because loading the libraries takes longer than most commands. digests: also gather the
    experiments whose digest the command asks for, which are those that a study consists of.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        asked, told = Path(place) / "asked.json", Path(place) / "told.json"
        asked.write_text(json.dumps({"commands": [list(each) for each in commands], "digests": digests}))
        words = [sys.executable, str(Path(__file__).resolve()), "_commands", str(asked), str(told)]
        done = subprocess.run(
            words, cwd=folder, env=_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{commands}: {done.stderr}")
        found = json.loads(told.read_text(encoding="utf-8"))
    return [
        Answer(each["code"], each["out"], each["err"], tuple(map(tuple, each["asked"]))) for each in found
    ]


def _environment() -> dict[str, str]:
    """The present one, and what makes texts the same everywhere."""
    package = str(Path(_fedroam().__file__).resolve().parents[1])
    before = os.environ.get("PYTHONPATH")
    paths = package if not before else os.pathsep.join([package, before])
    plain = {
        "COLUMNS": "110",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONPATH": paths,
        "PYTHONWARNINGS": "ignore",
    }
    return {**os.environ, **plain, **QUIET}


def _answer_commands(asked: Path, told: Path) -> None:
    """The other side of `call`: runs in a process of its own."""
    work = json.loads(asked.read_text(encoding="utf-8"))
    fr = _fedroam()
    seen: list[tuple[str, str]] = []
    if work["digests"]:
        ask = fr.Experiment.digest.fget

        def digest(self: Any) -> str:
            found: str = ask(self)
            seen.append((found, self.toml()))
            return found

        fr.Experiment.digest = property(digest)
    answers = []
    for words in work["commands"]:
        out, err, code = io.StringIO(), io.StringIO(), 0
        seen.clear()
        sys.argv = ["fedroam", *words]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                runpy.run_module("fedroam", run_name="__main__", alter_sys=True)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
        distinct = list(dict.fromkeys(seen))
        answers.append({"code": code, "out": out.getvalue(), "err": err.getvalue(), "asked": distinct})
    told.write_text(json.dumps(answers), encoding="utf-8")


def keep_answers(
    record: Record, name: str, commands: Mapping[str, Sequence[str]], folder: Path, *, timed: bool = True
) -> None:
    """Run commands, by name, and keep what they say. timed: some tell how long something took."""
    answers = call(list(commands.values()), folder)
    mask = without_times if timed else str
    for key, answer in zip(commands, answers, strict=True):
        record.fact(f"{name}/{key}/code", answer.code)
        record.text(f"{name}/{key}/out", mask(answer.out))
        record.text(f"{name}/{key}/err", mask(answer.err))


def without_times(text: str) -> str:
    """A text in which durations, versions and the size of the machine stand as signs."""
    for pattern, sign in (
        (r"(?<![\w.])\d+(\.\d+)? ?(ms|s|min|h)(?![\w/²])", "<time>"),
        (r"\b\d+:\d\d(:\d\d)?\b", "<time>"),
        (r"(?<=fedroam )\d+\.\d+\.\d+\S*", "<version>"),
    ):
        text = re.sub(pattern, sign, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


# --- inputs, made without fedroam ------------------------------------------------------------------------------


def draws(purpose: str) -> np.random.Generator:
    """A generator that depends on a text alone."""
    return np.random.Generator(np.random.Philox(int(digest_of(purpose)[:16], 16)))


OWN_NETWORK = '''
"""A user's own network, for `torch_module`."""

import math

from torch import nn


class OwnNetwork(nn.Module):
    """One hidden layer of four."""

    def __init__(self, shape, classes):
        super().__init__()
        self.extractor = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 4), nn.Tanh())
        self.head = nn.Linear(4, classes)

    def forward(self, x):
        return self.head(self.extractor(x))
'''


def make_inputs(folder: Path) -> None:
    """Files of a user's own, below a folder: samples, a network, traces, a log, access points."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own_network.py").write_text(OWN_NETWORK)
    y = np.arange(120) % 10
    for name, shape in {
        "small": (1, 8, 8),
        "larger": (1, 16, 16),
        "colour": (3, 32, 32),
        "flat": (12,),
    }.items():
        noise = draws(f"samples {name}").standard_normal((len(y), *shape)).astype(np.float32)
        x = noise + np.float32(0.2) * (y.reshape(-1, *(1,) * len(shape)) - 4.5).astype(np.float32)
        np.savez(
            folder / f"{name}.npz",
            x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:], column_writer=np.arange(80) // 8,
        )  # fmt: skip
        if name == "flat":
            table = pd.DataFrame(x, columns=[f"f{k}" for k in range(12)]).assign(label=y, site=y % 3)
            table.to_csv(folder / "own.csv", index=False)
    (folder / "points.csv").write_text("x,y\n0.5,0.5\n3.5,0.5\n2.0,3.0\n")
    _checkins(folder / "checkins.csv", "own trace", 30, 12, 26, "2010-09-17T00:00:00Z", 4.0)
    rows, source = [], draws("own log")
    for i in range(12):
        at = 3600.0 * float(source.integers(0, 3))
        while at < 86400:
            end = at + 3600 * float(source.integers(1, 4))
            rows.append(f"phone {i},{at:g},{end:g}")
            at = end + 3600 * float(source.integers(1, 3))
    (folder / "log.csv").write_text("\n".join(["device,begin,end", *rows]) + "\n")


def _checkins(
    path: Path, purpose: str, devices: int, hours: int, fixes: int, begin: str, side: float
) -> None:
    """A CSV file of devices that were seen at venues within a square, at times that differ."""
    source = draws(purpose)
    venues = np.round(source.random((200, 2)) * side, 3)
    start, rows = pd.Timestamp(begin), []
    for device in range(devices):
        seconds = np.sort(
            source.choice(hours * 3600, size=fixes - (device % 3 if device else 0), replace=False)
        )
        seconds = np.concatenate([[0], seconds, [hours * 3600 - 1]]) if device < 2 else seconds
        for second in dict.fromkeys(int(each) for each in seconds):
            venue = int(source.integers(len(venues)))
            when = (start + pd.Timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")
            rows.append(f"device {device},{when},{venues[venue, 0]},{venues[venue, 1]},venue {venue}")
    path.write_text("\n".join(["device,time,x,y,venue", *rows]) + "\n")


# --- experiments -----------------------------------------------------------------------------------------------

TINY: Settings = {
    "clients": 5,
    "rounds": 4,
    "evaluate_every": 2,
    "checkpoint_every": 2,
    "data": {"kind": "digits", "test_share": 0.9},
    "partition": {"kind": "dirichlet", "alpha": 1.0},
    "model": "softmax_regression",
    "training": {"kind": "sgd", "lr": 0.1, "momentum": 0.5, "batch_size": 8, "steps": 2},
    "engine": "auto",
    "mobility": {"kind": "random", "grid": 4, "mobile": 2},
    "access_points": {"kind": "grid", "columns": 2, "rows": 2},
    "contacts": {"kind": "radius", "radius": 1.5},
    "mixing": "metropolis",
    "federation": "decentralized",
}
# What some federations need: an extractor with parameters, and validation samples.
SPLIT: Settings = {"model": {"kind": "mlp", "hidden": (6,)}, "validation_share": 0.2}
TRACE: Settings = {"kind": "trace", "file": "inputs/own.parquet"}
# Settings of kinds that their defaults do not suffice for, or that would have nothing to do in a few rounds.
EXAMPLES: dict[tuple[str, str], Settings] = {
    ("model", "torch_module"): {"target": "own_network:OwnNetwork"},
    ("data", "arrays"): {"path": "inputs/small.npz", "layout": "channels_first"},
    ("data", "csv"): {"path": "inputs/own.csv", "categorical": ("site",)},
    ("access_points", "file"): {"path": "inputs/points.csv"},
    ("access_points", "grid"): {"columns": 2, "rows": 2},
    ("access_points", "uniform"): {"number": 3},
    ("access_points", "points_of_interest"): {"number": 3},
    ("mobility", "trace"): {"file": "inputs/own.parquet"},
    ("mobility", "random_walk"): {"width": 5.0, "height": 5.0, "max_speed": 1.0},
    ("activity", "trace"): {"file": "inputs/log.csv"},
    ("activity", "on_off"): {"mean_on": 3.0, "mean_off": 2.0},
    ("activity", "rate"): {"rate": 0.6},
    ("partition", "column"): {"column": "writer"},
    ("partition", "client_dirichlet"): {"samples_per_client": 5},
    **{
        ("federation", kind): {"k2": 2}
        for kind in ("hierarchical", "hierfavg", "macfl", "mohawk", "delayed_mohawk", "hierarchical_fedasync")
    },
    ("federation", "hierarchical_fedbuff"): {"k2": 2, "size": 2},
}
# Samples of a shape that the model takes; others see images of 8 x 8.
SHAPES = {
    "conv5": "small",
    "cnn1d": "flat",
    "lenet_gn": "larger",
    "mnist_cnn": "larger",
    "resnet18": "small",
    "resnet50": "small",
}
HEAVY = ("resnet18", "resnet50")  # models of which one round with one client is enough
CONTINUOUS: Settings = {"width": 5.0, "height": 5.0, "points": 40}


def known_kinds() -> list[tuple[str, str, Any]]:
    """Every kind of every family, with its class."""
    from fedroam.components import FAMILIES, kinds

    return [(family, kind, cls) for family in FAMILIES for kind, cls in kinds(family).items()]


def example(family: str, kind: str, cls: Any) -> Settings:
    """Settings with which a kind can be built, and does something within a few rounds."""
    found = dict(EXAMPLES.get((family, kind), {}))
    fields = cls.model_fields
    if family == "mobility":
        small = {"grid": 4, "mobile": 2, "warm_up": 2, **CONTINUOUS}
        found = {**{k: v for k, v in small.items() if k in fields and kind != "random_walk"}, **found}
    if family == "federation" and kind in ("fedfomo", "mocfl"):
        found.setdefault("neighbours" if "neighbours" in fields else "models", 3)
    return {"kind": kind, **found}


def varied(cls: Any) -> Iterator[tuple[str, Any]]:
    """Every other value of each setting that has only a few: words and switches."""
    for name, info in cls.model_fields.items():
        if info.annotation is bool:
            yield name, not info.default
            continue
        for option in _words(info.annotation):
            if option != info.default:
                yield name, option


def _words(annotation: Any) -> list[Any]:
    """The words that a type allows."""
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [word for each in typing.get_args(annotation) for word in _words(each)]


def surroundings(family: str, kind: str) -> Settings:
    """What else an experiment needs for a kind to be at home."""
    if family == "model":
        data = {
            "kind": "arrays",
            "path": f"inputs/{SHAPES.get(kind, 'small')}.npz",
            "layout": "channels_first",
        }
        less = {"kind": "sgd", "lr": 0.05, "momentum": 0.5, "batch_size": 2, "steps": 1}
        few = {"clients": 3, "rounds": 2, "data": data, "training": less}
        return {**few, "clients": 1, "rounds": 1, "mobility": "static"} if kind in HEAVY else few
    if family == "partition":
        return {"data": {"kind": "arrays", "path": "inputs/small.npz", "layout": "channels_first"}}
    if family == "federation":
        return SPLIT
    if family == "access_points":
        return {"mobility": TRACE, "contacts": {"kind": "radius", "radius": 2.0}, "federation": "mohawk"}
    if family == "radio":
        return {"federation": {"kind": "mohawk", "k2": 2}}
    return {}


def experiments() -> dict[str, Settings]:
    """Every experiment that is run, by name."""
    found: dict[str, Settings] = {}

    def add(name: str, **settings: Any) -> None:
        found[name] = {**TINY, **settings}

    for family, kind, cls in known_kinds():
        if family == "data" and kind in DOWNLOADS:
            if "FEDROAM_DATA" not in os.environ:
                continue
            few = {"kind": kind, "train_samples": 300, "test_samples": 200}
            flat = {"kind": "mlp", "hidden": (8,)} if kind != "unsw_nb15" else "cnn1d"
            add(
                f"data/{kind}",
                data={k: v for k, v in few.items() if k == "kind" or k in cls.model_fields},
                model=flat,
            )
            continue
        if (family, kind) == ("data", "memory"):
            continue
        own, near = example(family, kind, cls), surroundings(family, kind)
        add(f"{family}/{kind}", **{**near, family: own})
        if family in ("federation", "model", "training", "objective", "mixing") and kind not in HEAVY:
            add(f"{family}/{kind}/reference", **{**near, family: own, "engine": "reference"})
        if family == "model" or (family, kind) == ("data", "memory"):
            continue
        for name, option in varied(cls):
            add(f"{family}/{kind}/{name}={option}", **{**near, family: {**own, name: option}})
    federations = {
        kind: example(family, kind, cls) for family, kind, cls in known_kinds() if family == "federation"
    }
    home = {"evaluate_on": "own", "test_share": 0.3}
    for kind, own in federations.items():
        away = {"activity": {"kind": "rate", "rate": 0.6, "late_share": 0.4, "late_by": 2}}
        add(f"churn/{kind}", **{**SPLIT, **away, **home, "federation": own})
        add(
            f"on-a-trace/{kind}", **{**SPLIT, "federation": own, "mobility": TRACE, "rounds": 6, "clients": 7}
        )
    for order in ("move_then_mix", "mix_then_move"):
        for mixing in ("data_size", "metropolis", "mobility_aware", "plain"):
            federation = {"kind": "decentralized", "order": order}
            add(
                f"order/{order}/{mixing}",
                **home, mixing=mixing, federation=federation, start_models="independent",
                mobility=example_of("mobility", "random_walk"),
            )  # fmt: skip
    add("mixing/mobility_aware/alpha=auto", mixing={"kind": "mobility_aware", "alpha": "auto"},
        mobility=example_of("mobility", "random_walk"))  # fmt: skip
    trainings: dict[str, Settings] = {
        "full-batch": {"lr": 0.3},
        "full-batch-momentum": {"lr": 0.3, "momentum": 0.9, "weight_decay": 5e-4},
        "epochs": {"lr": 0.1, "batch_size": 16, "epochs": 2},
        "steps": {"lr": 0.1, "batch_size": 4, "steps": 5, "momentum": 0.9, "momentum_state": "reset"},
        "drop-last": {"lr": 0.1, "batch_size": 16, "epochs": 2, "drop_last": True, "lr_decay": 0.9},
    }
    models: dict[str, Any] = {"softmax": "softmax_regression", "mlp": {"kind": "mlp", "hidden": (6, 5)}}
    for name, training in trainings.items():
        for label, model in models.items():
            for engine in ("auto", "reference"):
                add(f"train/{name}/{label}/{engine}", training=training, model=model, engine=engine)
        wide = {"kind": "arrays", "path": "inputs/larger.npz", "layout": "channels_first"}
        gentle = {**training, "lr": training["lr"] / 10}
        large = {"training": gentle, "model": "lenet_gn", "data": wide, "rounds": 2}
        for engine in ("auto", "reference"):
            add(f"train/{name}/lenet_gn/{engine}", engine=engine, **large)
    add("train/smoothing", objective={"kind": "cross_entropy", "label_smoothing": 0.1})
    add("train/kaiming", model={"kind": "mlp", "hidden": (6,), "init": "kaiming_normal"})
    add("world/one-client", clients=1, mobility="static")
    add("world/evaluated-movement", record_movement="evaluated", seed=7)
    add("world/no-movement", record_movement="none", seed=2**40 + 1)
    add("world/diverged", training={"lr": 5e5, "steps": 3, "batch_size": 8})
    add("world/flight", mobility={"kind": "dcm", "grid": 6, "mobile": 2, "max_step": 1.5}, rounds=8)
    add("world/continuous-flight", rounds=8,
        mobility={**example_of("mobility", "dcm_continuous"), "max_step": 1.5})  # fmt: skip
    hierarchies: dict[str, Settings] = {
        "at-most": {"at_most": 1, "by_distance": 1.0, "by_data": 0.5},
        "hops": {"hop_reach": 3.0, "gateways": 1},
        "ring-shuffled": {"access": "ring", "assignment": "random", "move": 0.9},
        "samples-arrived": {"weights": "samples", "cloud_samples": "arrived", "cloud": "all"},
        "per-tensor-similar": {"cosine": "per_tensor", "favour": "similar", "sigma": 2.0},
        "judged-at-home": {"judge": "access_point"},
    }
    for name, own in hierarchies.items():
        add(
            f"hierarchy/{name}",
            **{**SPLIT, "rounds": 8, "clients": 8, "mobility": TRACE, "access_points": {"kind": "points_of_interest",
               "number": 4}, "federation": {"kind": "hierarchical", "k2": 3, **own}},
        )  # fmt: skip
    return found


def example_of(family: str, kind: str) -> Settings:
    """Example settings of a kind by its name."""
    from fedroam.components import kinds

    return example(family, kind, kinds(family)[kind])


STATEFUL = (
    "ditto", "fedavg", "fedavgdbe", "fedfomo", "fedgh", "fedproto", "fedprox", "gpfl", "mocfl", "mohawk", "macfl",
    "moon", "scaffold",
)  # fmt: skip
# Runs that are kept as folders, finished and as a kill would leave them.
KEPT = (
    "order/mix_then_move/metropolis",
    "mobility/dcm",
    "mobility/trace",
    "activity/on_off",
    "train/steps/mlp/auto",
    *(f"federation/{kind}" for kind in STATEFUL),
)


# --- what is recorded ------------------------------------------------------------------------------------------


def keep_run(record: Record, name: str, folder: Path, *, whole: bool = True) -> None:
    """Keep a run folder: its tables, its last checkpoint, its small files."""
    fr = _fedroam()
    run = fr.open_run(folder)
    for table in ("rounds", "clients", "positions", "contacts", "matrices", "partition"):
        try:
            record.table(f"{name}/{table}", getattr(run, table))
        except fr.InputError:
            record.fact(f"{name}/{table}", "not there")
    record.fact(f"{name}/world.json", run.world)
    # Sums cover wall-clock readings; what they are made over is recorded by itself.
    status = {key: value for key, value in run.status.items() if key not in ("files", "sha256")}
    record.fact(f"{name}/run.json", status)
    record.text(f"{name}/experiment.toml", (folder / "experiment.toml").read_text(encoding="utf-8"))
    if not whole:
        return
    facts = run.environment
    record.fact(f"{name}/environment.json/data", facts.get("data"))
    files = {
        key: {k: v for k, v in each.items() if k != "sha256"} for key, each in facts.get("files", {}).items()
    }
    record.fact(f"{name}/environment.json/files", {k: v.get("file") for k, v in files.items()})
    computed = [re.sub(r"\d+", "N", str(line)) for line in facts.get("computed", [])]
    record.text(f"{name}/environment.json/computed", "\n".join(computed))
    record.fact(f"{name}/files", sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()))
    newest = sorted((folder / "checkpoints").glob("*.safetensors"))
    if newest:
        keep_checkpoint(record, f"{name}/checkpoint", newest[-1])


def keep_checkpoint(record: Record, name: str, path: Path) -> None:
    """Keep the arrays of a checkpoint and what its head says."""
    from safetensors import safe_open

    with safe_open(path, framework="np") as held:
        head = json.loads((held.metadata() or {}).get("fedroam", "{}"))
        record.fact(f"{name}/head", {key: str(head.get(key)) for key in ("round", "digest")})
        record.arrays(name, {key: held.get_tensor(key) for key in held.keys()})  # noqa: SIM118


def plain_type(annotation: Any) -> str:
    """A type in words, without the modules that its names live in."""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", text)


def keep_names(record: Record) -> None:
    """The promises: public names, every setting of an experiment and of every kind, digests."""
    fr = _fedroam()
    record.fact("api/names", sorted(fr.__all__))
    for name in fr.__all__:
        if name.startswith("_"):
            continue
        value = getattr(fr, name)
        if inspect.isfunction(value):
            record.fact(f"api/{name}", plain_type(inspect.signature(value)))
        elif inspect.isclass(value):
            inherited = set(dir(fr.Part.__mro__[1])) if issubclass(value, fr.Part.__mro__[1]) else set()
            own = {*dir(value), *getattr(value, "__annotations__", {})} - inherited
            record.fact(f"api/{name}/attributes", sorted(key for key in own if not key.startswith("_")))
            record.fact(f"api/{name}/bases", [base.__name__ for base in value.__mro__])
    keep_fields(record, "experiment", fr.Experiment)
    for family, kind, cls in known_kinds():
        name = f"kinds/{family}/{kind}"
        keep_fields(record, name, cls)
        record.text(f"{name}/source", cls.source)
        record.text(f"{name}/doc", inspect.getdoc(cls) or "")
        try:
            whole = fr.Experiment(**{family: kind})
            record.fact(f"{name}/digest", whole.digest)
            record.text(f"{name}/toml", whole.toml())
        except fr.InputError as error:
            record.text(f"{name}/digest", str(error))
    from fedroam.components import FAMILIES

    for family, facts in FAMILIES.items():
        record.fact(f"families/{family}", [facts.about, facts.default, list(facts.methods)])
    for name in NAMED:
        plan = fr.plan(name)
        record.fact(f"named/{name}/digest", plan.digest)
        record.fact(f"named/{name}/notes", list(plan.notes))
        for run in plan.runs:
            record.fact(f"named/{name}/{run.folder}/digest", run.experiment.digest)
            record.text(f"named/{name}/{run.folder}/toml", run.experiment.toml())


def keep_fields(record: Record, name: str, cls: Any) -> None:
    """Every setting: its type, default, meaning, unit, limits, whether it is part of the identity."""
    record.fact(f"{name}/fields", list(cls.model_fields))
    for key, info in cls.model_fields.items():
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        facts = {
            "type": plain_type(info.annotation),
            "default": "required" if info.is_required() else repr(info.default),
            "meaning": info.description,
            "limits": sorted(plain_type(str(each)) for each in info.metadata),
            **{str(k): str(v) for k, v in extra.items()},
        }
        record.fact(f"{name}/fields/{key}", facts)


def keep_runs(record: Record, folder: Path) -> None:
    """Run every experiment, and keep some of the folders."""
    fr = _fedroam()
    kept = record.out / "folders"
    for name, settings in experiments().items():
        safe = re.sub(r"[^A-Za-z0-9=._-]+", "_", name)
        out = folder / "runs" / safe
        try:
            experiment = fr.Experiment(**settings)
            record.fact(f"runs/{name}/digest", experiment.digest)
            watch = _copier(out, kept / "killed" / safe, experiment.rounds) if name in KEPT else None
            fr.run(experiment, out, observer=watch)
        except fr.FedroamError as error:
            record.text(f"runs/{name}/refused", f"{type(error).__name__}: {error}")
            continue
        keep_run(record, f"runs/{name}", out)
        if name in KEPT:
            shutil.copytree(out, kept / "finished" / safe)
        shutil.rmtree(out)


def _copier(out: Path, target: Path, rounds: int) -> Callable[[int, int, Any], None]:
    """An observer that copies the run folder as a kill after the last round but one would leave it."""

    def watch(round: int, _: int, __: Any) -> None:
        if round == rounds - 1:
            shutil.copytree(out, target)

    return watch


def keep_memory(record: Record, folder: Path) -> None:
    """Samples handed over in Python, as docs/bring-your-own-data-and-model.md does it."""
    fr = _fedroam()
    from fedroam.data import memory

    held = np.load("inputs/flat.npz")
    data = memory(held["x_train"], held["y_train"], test_share=0.25, normalise="standardise")
    experiment = fr.Experiment(**{**TINY, "data": data})
    record.fact("runs/data/memory/digest", experiment.digest)
    fr.run(experiment, folder / "runs" / "memory")
    keep_run(record, "runs/data/memory", folder / "runs" / "memory")


def keep_mistakes(record: Record) -> None:
    """What wrong settings are told."""
    fr = _fedroam()
    still: Settings = {"clients": 4, "rounds": 1, "mobility": "static"}
    wrong: dict[str, Settings] = {
        "key": {"mobility": {"kind": "random", "mobil": 3}},
        "kind": {"federation": "fedavgg"},
        "limit": {"training": {"lr": -1.0}},
        "type": {"clients": "many"},
        "top": {"client": 3},
        "word": {"federation": {"kind": "hierarchical", "access": "near"}},
        "shares": {"validation_share": 0.6, "test_share": 0.5},
        "own": {"evaluate_on": "own"},
        "missing": {"mobility": "trace"},
        "file": {"mobility": {"kind": "trace", "file": "nowhere.parquet"}},
        "mobile": {"clients": 2, "mobility": {"kind": "random", "mobile": 5}},
        "validation": {"federation": "fedfomo"},
        "extractor": {"federation": "gpfl", "model": "torch_module"},
        "samples": {"clients": 400, "partition": {"kind": "shards", "shards_per_client": 9}},
        "model": {"model": {"kind": "torch_module", "target": "nowhere:Net"}},
        "steps": {"training": {"steps": 2, "epochs": 2}},
        "engine": {"engine": "cpu", "device": "cuda:7"},
        "name": {"name": "a name"},
        "seed": {"seed": -1},
    }
    for name, settings in wrong.items():
        try:
            with tempfile.TemporaryDirectory() as place:
                fr.run(fr.Experiment(**{**still, **settings}), Path(place) / "run")
            record.fact(f"mistakes/{name}", "none")
        except fr.FedroamError as error:
            record.text(f"mistakes/{name}", f"{type(error).__name__}: {error}")


PLAN = """
name = "golden"
clients = 6
rounds = 6
evaluate_every = 2
seeds = 2
validation_share = 0.2
[data]
kind = "digits"
test_share = 0.8
[partition]
alpha = 0.3
[model]
kind = "mlp"
hidden = [6]
[training]
lr = 0.1
batch_size = 16
[mobility]
kind = "random"
grid = 5
mobile = 2
[contacts]
radius = 1.5
[variants.static]
mobility = "static"
[variants.random]
[variants.dcm]
mobility = "dcm"
[variants.mocfl]
federation = "mocfl"
[variants.mohawk]
federation.kind = "mohawk"
federation.k2 = 2
access_points = {kind = "grid", columns = 2, rows = 2}
[variants.wild]
training.lr = 9e5
"""
SWEEP = """
name = "swept"
seeds = 2
clients = 5
rounds = 4
evaluate_every = 1
[data]
kind = "digits"
test_share = 0.9
[model]
kind = "softmax_regression"
[mobility]
kind = "random"
grid = 5
[sweep.grid]
mobility.mobile = [0, 2, 4]
contacts.radius = [1.5, 2.5]
[sweep.zip]
training.lr = [0.1, 0.2]
training.batch_size = [8, 0]
"""
CONVEX = """
name = "convex"
clients = 6
rounds = 10
[data]
kind = "digits"
test_share = 0.9
[model]
kind = "softmax_regression"
[mobility]
kind = "random"
grid = 5
mobile = 3
[contacts]
radius = 2.0
[variants.static]
mobility = "static"
[variants.random]
"""


def keep_plan(record: Record, folder: Path) -> None:
    """A plan of several variants: its runs, report, comparison, connectivity."""
    (folder / "plan.toml").write_text(PLAN)
    (folder / "convex.toml").write_text(CONVEX)
    fr = _fedroam()
    plan = fr.plan(folder / "plan.toml")
    record.fact("plan/digest", plan.digest)
    for run in fr.run_plan(plan, folder / "plan"):
        keep_run(record, f"plan/{run.folder.relative_to(folder / 'plan')}", run.folder)
    seven = ["plan/random/seed-0", "plan/dcm/seed-1", "plan/mohawk/seed-0", "plan/mocfl/seed-0"]
    commands: dict[str, list[str]] = {
        "run-again": ["run", "plan.toml", "--out", "plan", "--quiet", "--no-report"],
        "compare": ["compare", "plan", "--csv", "compare.csv"],
        "compare-last": ["compare", "plan", "--last", "2", "--threshold", "0.3"],
        "compare-one": ["compare", "plan/random/seed-0"],
        "report": ["report", "plan", "--out", "report"],
        **{f"report-{k}": ["report", each, "--out", f"report-{k}"] for k, each in enumerate(seven)},
        "connectivity": ["connectivity", "convex.toml", "--seeds", "2", "--windows", "2,3", "--out", "connectivity"],
        "connectivity-refused": ["connectivity", "plan.toml"],
        "connectivity-run": ["connectivity", "plan/random/seed-0", "--keep-last", "--windows", "2"],
        "connectivity-sliding": ["connectivity", "plan/dcm/seed-0", "--sliding", "--windows", "4"],
        "connectivity-over": [
            "connectivity", "convex.toml", "--over", "mobility.mobile=0,2", "--rounds", "30", "--seeds", "2",
        ],
        "convergence": ["connectivity", "convex.toml", "--convergence", "--windows", "2,5", "--out", "convergence"],
        "convergence-batches": [
            "connectivity", "convex.toml", "--convergence", "--set", "training.batch_size=8", "--set",
            "training.steps=1", "--set", "training.weight_decay=0.01", "--windows", "2,5",
        ],
        "data-info": ["data", "info", "plan.toml", "--out", "data"],
        "data-info-own": ["data", "info", "mohawk", "--out", "data-mohawk"],
    }  # fmt: skip
    keep_answers(record, "commands/plan", commands, folder)
    for name in ("report", *(f"report-{k}" for k in range(len(seven)))):
        keep_page(record, f"pages/{name}", folder / name / "report.html")
    for name in ("report", *(f"report-{k}" for k in range(len(seven))), "connectivity", "convergence", "data",
                 "data-mohawk"):  # fmt: skip
        record.pictures(f"pictures/{name}", folder / name)
        for path in sorted((folder / name).rglob("*.csv")):
            record.text(f"tables/{name}/{path.name}", path.read_text(encoding="utf-8"))
    table = pd.read_csv(folder / "compare.csv")
    record.table("tables/compare", table.drop(columns=[c for c in table.columns if c.startswith("seconds")]))
    shutil.copytree(folder / "plan", record.out / "folders" / "plan")


def keep_page(record: Record, name: str, path: Path) -> None:
    """Keep an HTML page without the times and versions in it; drawings and data inside it by their hash."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    drawn = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    text = re.sub(r"<svg.*?</svg>", "<svg/>", text, flags=re.DOTALL)
    scripts = re.findall(r"<script[^>]*>.*?</script>", text, flags=re.DOTALL)
    text = re.sub(r"<script[^>]*>.*?</script>", "<script/>", text, flags=re.DOTALL)
    styles = re.findall(r"<style>.*?</style>", text, flags=re.DOTALL)
    text = re.sub(r"<style>.*?</style>", "<style/>", text, flags=re.DOTALL)
    for kind, parts in (("svg", drawn), ("script", scripts), ("style", styles)):
        record.fact(f"{name}/{kind}", [digest_of(re.sub(r"\s+", " ", part)) for part in parts])
    text = re.sub(r'<section id="environment">.*?</section>', "<environment/>", text, flags=re.DOTALL)
    text = re.sub(r"(<td>\d+ of \d+</td>\s*)<td>[\d.]+</td>", r"\1<td>(time)</td>", text)
    text = re.sub(r"(>)(?=<(?:p|h\d|tr|td|li|details|section|div)\b)", r"\1\n", text)
    record.text(f"{name}/text", without_times(text))


STATISTICS = (
    "best",
    "mean_model",
    "energy",
    "wasted",
    "last:2",
    "rounds_to:20",
    "energy_to:20",
    "bytes_to:20",
)


def keep_sweep(record: Record, folder: Path) -> None:
    """A sweep: its runs in workers, its tables, its report, and going on with it."""
    (folder / "sweep.toml").write_text(SWEEP)
    fr = _fedroam()
    plan = fr.sweep_plan(folder / "sweep.toml")
    record.fact("sweep/varied", list(plan.varied))
    record.fact("sweep/digests", [run.experiment.digest for run in plan.runs])
    words = [
        sys.executable,
        "-m",
        "fedroam",
        "sweep",
        "sweep.toml",
        "--out",
        "sweep",
        "--workers",
        "2",
        "--quiet",
    ]
    done = subprocess.run(words, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    record.fact("sweep/code", done.returncode)
    record.text("sweep/out", without_times(done.stdout))
    keep_swept(record, "sweep", folder / "sweep")
    by = ["compare", "sweep", "--by", "mobility.mobile"]
    commands: dict[str, list[str]] = {
        "compare": ["compare", "sweep"],
        "by": by,
        "by-two": [*by, "--by", "contacts.radius", "--statistic", "mean"],
        **{f"by-{word}": [*by, "--statistic", word] for word in STATISTICS},
        "reach": ["compare", "sweep", "--by", "mobility.mobile", "--reach", "20"],
        "report": ["report", "sweep", "--out", "sweep-report"],
        "again": ["sweep", "sweep.toml", "--out", "sweep", "--quiet"],
    }
    keep_answers(record, "commands/sweep", commands, folder)
    keep_page(record, "pages/sweep", folder / "sweep-report" / "report.html")
    record.pictures("pictures/sweep", folder / "sweep-report")
    shutil.copytree(folder / "sweep", record.out / "folders" / "sweep")


def keep_swept(record: Record, name: str, folder: Path) -> None:
    """Keep the two tables of a sweep."""
    sweep = _fedroam().open_sweep(folder)
    record.table(f"{name}/table", sweep.table)
    record.table(f"{name}/rounds", sweep.rounds)
    record.fact(f"{name}/failed", [[dict(row.keys), row.seed, row.reason] for row in sweep.failed])


def keep_words(record: Record, folder: Path) -> None:
    """What the command line tells of itself, of every kind and of every command; imports of traces."""
    families = list(dict.fromkeys(family for family, _, _ in known_kinds()))
    shown = [f"{family}.{kind}" for family, kind, _ in known_kinds()]
    helped = ("run", "sweep", "init", "list", "show", "compare", "report", "connectivity", "reproduce", "bench", "data",
              "data info", "data fetch", "trace", "trace import", "trace info")  # fmt: skip
    commands: dict[str, list[str]] = {
        "help": ["--help"],
        **{f"help/{name}": [*name.split(), "--help"] for name in helped},
        "list": ["list"],
        **{f"list/{family}": ["list", family] for family in families},
        **{f"show/{name}": ["show", name] for name in (*families, *shown, *NAMED, "experiment")},
        "init": ["init", "starter.toml"],
        "wrong/command": ["reprot"],
        "wrong/option": ["run", "quickstart", "--sed", "3"],
        "wrong/experiment": ["run", "quickstar"],
        "wrong/set": ["run", "quickstart", "--set", "mobility.mobil=3"],
        "wrong/study": ["reproduce", "heredai"],
        "wrong/item": ["reproduce", "heredia", "table-33"],
        "wrong/scale": ["reproduce", "heredia", "--scale", "huge"],
        "wrong/show": ["show", "metropoli"],
        "wrong/folder": ["compare", "nowhere"],
        "trace/import": ["trace", "import", "inputs/checkins.csv", "again.parquet"],
        "trace/info": ["trace", "info", "again.parquet", "--out", "trace"],
        **_simulated(folder),
    }
    keep_answers(record, "commands", commands, folder, timed=False)
    record.text("commands/init/file", (folder / "starter.toml").read_text(encoding="utf-8"))
    record.pictures("pictures/trace", folder / "trace")
    for path in sorted(folder.glob("*.parquet")):
        record.table(f"traces/{path.stem}", pd.read_parquet(path))


def _simulated(folder: Path) -> dict[str, list[str]]:
    """Files as simulators of movement write them, and the commands that read them."""
    steps = [
        f'<timestep time="{second}.00"><vehicle id="car" x="{10 * second}.00" y="0.00" speed="10.00"/>'
        f'<person id="walker" x="{300 - second}.00" y="5.00"/></timestep>'
        for second in range(0, 61, 5)
    ]
    files = {
        "crossing.xml": "<fcd-export>\n" + "\n".join(steps) + "\n</fcd-export>\n",
        "nodes.tcl": "$node_(0) set X_ 1.0\n$node_(0) set Y_ 2.0\n$node_(1) set X_ 5.0\n$node_(1) set Y_ 5.0\n"
        '$ns_ at 3.0 "$node_(0) setdest 10.0 2.0 1.5"\n$ns_ at 6.0 "$node_(1) setdest 1.0 1.0 2.0"\n'
        '$ns_ at 8.0 "$node_(1) setdest 9.0 1.0 2.0"\n$ns_ at 40.0 "stop"\n',
        "walk.movements": "0.0 1.0 1.0 10.0 4.0 5.0\n0.0 2.0 2.0 5.0 2.0 9.0 12.0 3.0 3.0\n",
        "moves.one": "0 60 0 100 0 100\n0 a 1 1\n0 b 5 5\n30 a 20 1\n60 a 40 1\n60 b 9 9\n",
        "track.gpx": '<?xml version="1.0"?>\n<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk>'
        "<name>ann</name><trkseg>"
        + "".join(
            f'<trkpt lat="{46.2 + k / 1000}" lon="{6.1 + k / 900}"><time>2020-05-01T10:0{k}:00Z</time></trkpt>'
            for k in range(8)
        )
        + "</trkseg></trk></gpx>\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return {f"trace/{name}": ["trace", "import", name, f"{Path(name).suffix[1:]}.parquet"] for name in files}


# --- studies ---------------------------------------------------------------------------------------------------

MONTHS = {  # what stands in for the traces of a study: file, devices, hours, begin
    "gowalla-new-york": (1100, 744, "2010-09-17T00:00:00Z"),
    "foursquare-new-york": (900, 744, "2012-05-01T00:00:00Z"),
    "san-francisco-taxis": (600, 575, "2008-05-17T10:00:00Z"),
}


def make_study_traces(folder: Path) -> None:
    """Traces where the study of MOHAWK looks for them, so that it needs no real ones and is quick to replay."""
    (folder / "studies" / "traces").mkdir(parents=True)
    commands = []
    for name, (devices, hours, begin) in MONTHS.items():
        _checkins(folder / f"{name}.csv", name, devices, hours, 9, begin, 14_000.0)
        commands.append(["trace", "import", f"{name}.csv", f"studies/traces/{name}.parquet"])
    for words, answer in zip(commands, call(commands, folder), strict=True):
        if answer.code:
            raise RuntimeError(f"{words}: {answer.err}")


def keep_studies(record: Record, folder: Path) -> None:
    """Every study: what its variants are, and what is made of made-up runs of all of them."""
    make_study_traces(folder)
    listed = call(
        [["reproduce", "--scale", scale, "--seeds", str(SEEDS)] for scale in SCALES], folder, digests=True
    )
    for scale, answer in zip(SCALES, listed, strict=True):
        if answer.code:
            raise RuntimeError(answer.err)
        record.text(f"studies/{scale}/listed", answer.out)
        for digest, toml in answer.asked:
            settings = tomllib.loads(toml)
            study = str(settings["name"])
            record.fact(f"studies/{study}/{scale}/experiments/{digest}", digest_of(toml))
            if scale in JUDGED:
                make_run(folder / f"{study}-{scale}" / "sweep" / "runs" / digest[:16], digest, settings)
    tell("  runs are made up")
    for study in STUDIES:
        begun = time.monotonic()
        words = [
            [
                "reproduce",
                study,
                "--scale",
                scale,
                "--judge-only",
                "--seeds",
                str(SEEDS),
                "--out",
                f"{study}-{scale}",
            ]
            for scale in JUDGED
        ]
        for scale, judged in zip(JUDGED, call(words, folder), strict=True):
            name, place = f"studies/{study}/{scale}", folder / f"{study}-{scale}"
            record.fact(f"{name}/code", judged.code)
            record.text(f"{name}/out", judged.out)
            record.text(f"{name}/err", judged.err)
            keep_study(record, name, place)
            if (study, scale) == ("quickstart", "quick"):
                shutil.copytree(place, record.out / "folders" / "study")
            shutil.rmtree(place)
        tell(f"  {study}: {time.monotonic() - begun:.0f} s")


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def keep_study(record: Record, name: str, folder: Path) -> None:
    """Keep what a study wrote."""
    whole = _json(folder / "study.json")
    for key, part in whole.items():
        if key in ("tables", "claims", "findings", "searches") and isinstance(part, dict):
            for item, value in part.items():
                record.fact(f"{name}/{key}/{item}", value)
        elif key == "claims":
            for value in part:
                record.fact(f"{name}/claims/{next(iter(value.values()))}", value)
        else:
            record.fact(f"{name}/{key}", part)
    for file in ("cells.csv", "claims.csv"):
        record.text(f"{name}/{file}", (folder / file).read_text(encoding="utf-8"))
    keep_page(record, f"{name}/study.html", folder / "study.html")
    if (folder / "figures").is_dir():
        record.pictures(f"{name}/figures", folder / "figures")


def make_run(folder: Path, digest: str, settings: Mapping[str, Any]) -> None:
    """A finished run folder with made-up numbers, as docs/concepts.md describes one.

    Levels depend on the settings, seeds differ a little from each other: so some claims hold, and some do not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    source = draws(f"run {digest}")
    shared = draws(f"variant {json.dumps({**settings, 'seed': 0}, sort_keys=True)}")
    clients, last, every = (int(settings[key]) for key in ("clients", "rounds", "evaluate_every"))
    rounds = np.unique(np.append(np.arange(0, last + 1, every), last))
    classes = [f"class {k}" for k in range(10)]
    groups = _groups(settings["mobility"], clients)
    status = {
        "format": 1, "name": settings["name"], "variant": "", "order": 0, "seed": settings["seed"], "digest": digest,
        "state": "done", "round": last, "rounds": last, "reason": "", "judged": ["own"],
        "diverged_at": last if source.random() < 0.01 else None,
    }  # fmt: skip
    world = {
        "bounds": [0.0, 0.0, 20.0, 20.0], "reach": 3.0, "groups": groups, "classes": classes, "parameters": 1000,
        "bytes_per_model": 4000, "access_points": [[5.0, 5.0]], "distance_mean": 500 + 4000 * source.random(),
        "distance_std": 300 + 500 * source.random(),
    }  # fmt: skip
    _toml(folder / "experiment.toml", settings)
    for name, content in (
        ("run", status),
        ("world", world),
        ("environment", {"python": "3", "packages": {}}),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content))
    table = _made_rounds(shared, source, rounds, clients)
    table.to_parquet(folder / "rounds.parquet")
    _made_clients(source, table, groups).to_parquet(folder / "clients.parquet")
    held = source.integers(0, 40, (clients, len(classes)))
    parts = [
        (i, part, classes[k], int(held[i, k]) // share)
        for i in range(min(clients, 100)) for k in range(len(classes)) for part, share in (("train", 1), ("test", 4))
        if held[i, k] >= share
    ]  # fmt: skip
    pd.DataFrame(parts, columns=["client", "part", "class", "samples"]).to_parquet(
        folder / "partition.parquet"
    )
    (folder / "movement").mkdir(exist_ok=True)
    if settings.get("record_movement") == "all":
        _made_contacts(source, last, clients, groups).to_parquet(folder / "movement" / "contacts.parquet")
    if str(settings["federation"]["kind"]) in ("mocfl", "fedfomo"):
        shown = rounds[:: max(len(rounds) // 4, 1)]
        n = len(shown) * clients**2
        matrices = {
            "round": np.repeat(shown, clients**2).astype(np.int32),
            "name": "affinity",
            "i": np.tile(np.repeat(np.arange(clients), clients), len(shown)).astype(np.int32),
            "j": np.tile(np.arange(clients), len(shown) * clients).astype(np.int32),
            "value": source.standard_normal(n),
        }
        pd.DataFrame(matrices).to_parquet(folder / "matrices.parquet")


def _toml(path: Path, settings: Mapping[str, Any]) -> None:
    """Plain settings as TOML, section by section."""

    def value(held: Any) -> str:
        if isinstance(held, list):
            return f"[{', '.join(map(value, held))}]"
        if isinstance(held, float):
            return repr(held) if math.isfinite(held) else str(held)
        return json.dumps(held, ensure_ascii=False)

    own = [f"{key} = {value(held)}" for key, held in settings.items() if not isinstance(held, Mapping)]
    for name, section in settings.items():
        if isinstance(section, Mapping):
            own += [f"\n[{name}]", *(f"{key} = {value(held)}" for key, held in section.items())]
    path.write_text("\n".join(own) + "\n", encoding="utf-8")


def _groups(mobility: Mapping[str, Any], clients: int) -> list[str]:
    if "high_share" in mobility:
        fast = math.ceil(float(mobility["high_share"]) * clients - 1e-9)
        return ["high"] * fast + ["low"] * (clients - fast)
    mobile = min(int(mobility.get("mobile", 0)), clients)
    return ["mobile"] * mobile + ["static"] * (clients - mobile)


def _made_rounds(
    shared: np.random.Generator, source: np.random.Generator, rounds: np.ndarray, clients: int
) -> pd.DataFrame:
    """Curves that rise to a level of the variant's own, more or less alike for all seeds."""
    share = rounds / rounds[-1]
    level, speed, n = 0.5 + 0.5 * shared.random(), 2 + 10 * shared.random(), len(rounds)
    noise = 0.0003 * 10 ** int(shared.integers(0, 3))

    def curve(to: float) -> np.ndarray:
        found: np.ndarray = (
            0.1 + (to - 0.1) * (1 - np.exp(-speed * share)) + noise * source.standard_normal(n)
        )
        return np.clip(found, 0.0, 1.0)

    joules, devices = (500 + noise * source.random()) * shared.random(), clients * shared.random() / 3
    late, lost, gone = 0.5 * shared.random(3) + noise * source.random(3)
    accuracy = curve(level)
    columns: dict[str, Any] = {
        "accuracy": accuracy,
        "accuracy_std": 0.05 * source.random(n),
        "accuracy_pooled": curve(level),
        "balanced_accuracy": curve(level - 0.1),
        "macro_f1": curve(level - 0.15),
        "accuracy_own_head": curve(level - 0.05),
        "loss": 2.3 - 2 * accuracy,
        "accuracy_mean_model": curve(min(level + 0.05, 1.0)),
        "loss_mean_model": 2.2 - 2 * accuracy,
        "consensus_distance": source.random(n),
        "degree_mean": 2 * source.random(n),
        "isolated": source.integers(0, clients, n),
        "active": source.integers(1, clients + 1, n),
        "bytes": (rounds * 4000 * max(int(devices), 1)).astype(np.int64),
        "energy": rounds * joules,
        "energy_training": rounds * joules * 0.1,
        "energy_wasted": rounds * joules * lost,
        "energy_pending": rounds * joules * 0.01,
        "air_time": rounds * 0.5,
        "train_loss": 2.0 - 1.9 * accuracy,
        "seconds": rounds * (0.1 + source.random()),
        "total_present": np.cumsum(source.random(n)) * devices * 3,
        "total_trained": rounds * devices * 2,
        "total_aggregated": np.cumsum(np.diff(rounds, prepend=0) * source.random(n) * devices),
        "waiting": source.integers(0, clients, n),
        "ap_distance": 1000 * source.random(n),
    }
    columns["total_returned"] = columns["total_aggregated"] * late
    columns["total_overwritten"] = columns["total_aggregated"] * gone
    columns["total_discarded"] = columns["total_trained"] - columns["total_aggregated"]
    return pd.DataFrame({"round": rounds.astype(np.int32), **columns})


def _made_clients(source: np.random.Generator, table: pd.DataFrame, groups: Sequence[str]) -> pd.DataFrame:
    """A row for each of the first clients and evaluated rounds; who moves is a little ahead."""
    n = np.arange(min(len(groups), 50))
    chosen = table if len(table) <= 120 and "high" in groups else table.iloc[[0, -1]]
    ahead = np.array(
        [0.03 + 0.001 * source.random() if groups[i] in ("high", "mobile") else 0.0 for i in n.tolist()]
    )
    rows = len(chosen) * len(n)
    level = np.repeat(chosen["accuracy"].to_numpy(), len(n)) + np.tile(ahead, len(chosen))
    return pd.DataFrame(
        {
            "round": np.repeat(chosen["round"].to_numpy(), len(n)),
            "client": np.tile(n, len(chosen)),
            "group": np.tile(np.array([groups[i] for i in n.tolist()]), len(chosen)),
            "accuracy": np.clip(level + 0.01 * source.standard_normal(rows), 0, 1),
            "loss": 1.0,
            "samples": 50,
            "degree": source.integers(0, 4, rows),
            "x": 20 * source.random(rows),
            "y": 20 * source.random(rows),
        }
    )


def _made_contacts(
    source: np.random.Generator, rounds: int, clients: int, groups: Sequence[str]
) -> pd.DataFrame:
    """A few pairs a round; the more clients move, the more of them."""
    moving = sum(group in ("high", "mobile") for group in groups)
    count = (rounds + 1) * max(clients // 4 + moving // 2, 1)
    i, j = source.integers(0, max(clients, 2), (2, count))
    round = np.repeat(np.arange(rounds + 1), count // (rounds + 1))
    met = pd.DataFrame({"round": round, "i": np.minimum(i, j), "j": np.maximum(i, j)})
    return met[met["i"] < met["j"]].drop_duplicates().astype(np.int32).reset_index(drop=True)


# --- the three verbs -------------------------------------------------------------------------------------------


def record_all(out: Path, only: Sequence[str] = ()) -> int:
    """Record everything into a folder."""
    if out.exists() and any(out.iterdir()):
        tell(f"error: {out} is not empty")
        return 2
    out.mkdir(parents=True, exist_ok=True)
    out = out.resolve()
    record = Record(out)
    package = Path(_fedroam().__file__).resolve().parent
    tell(f"fedroam of {package}")
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="golden-", dir=out) as place:
        folder = Path(place)
        os.chdir(folder)
        sys.path.insert(0, str(folder / "inputs"))
        try:
            with mock.patch("os.fsync"):  # nothing depends on when a disk has written
                _record_into(record, folder, only)
        finally:
            os.chdir(before)
            sys.path.remove(str(folder / "inputs"))
    record.save()
    tell(
        f"{len(record.facts)} facts, {len(record.texts)} texts, {len(record.numbers)} columns of numbers in {out}"
    )
    broken = [name for name, text in record.texts.items() if name.startswith("parts/") and text != "recorded"]
    for name in broken:
        tell(f"error: {name} broke off: {record.texts[name]}")
    return int(bool(broken))


def _record_into(record: Record, folder: Path, only: Sequence[str]) -> None:
    make_inputs(folder / "inputs")
    made = call([["trace", "import", "inputs/checkins.csv", "inputs/own.parquet"]], folder)[0]
    if made.code:
        raise RuntimeError(made.err)
    if "FEDROAM_DATA" not in os.environ:
        record.note(f"FEDROAM_DATA is not set: no runs with {', '.join(DOWNLOADS)}")
    record.table("traces/own", pd.read_parquet(folder / "inputs" / "own.parquet"))
    shutil.copytree(folder / "inputs", record.out / "folders" / "inputs")
    parts: dict[str, Callable[[], None]] = {
        "names": lambda: keep_names(record),
        "words": lambda: keep_words(record, folder),
        "mistakes": lambda: keep_mistakes(record),
        "runs": lambda: keep_runs(record, folder),
        "memory": lambda: keep_memory(record, folder),
        "plan": lambda: keep_plan(record, folder),
        "sweep": lambda: keep_sweep(record, folder),
        "studies": lambda: keep_studies(record, folder),
        "opened": lambda: keep_opened(record, record.out / "folders"),
    }
    for name, part in parts.items():
        if only and name not in only:
            continue
        begun = time.monotonic()
        try:
            part()
        except Exception as error:  # the others are worth having; a comparison names this one
            traceback.print_exc()
            record.text(f"parts/{name}", f"{type(error).__name__}: {error}")
        else:
            record.text(f"parts/{name}", "recorded")
        tell(f"{name}: {time.monotonic() - begun:.0f} s")


def keep_opened(record: Record, folders: Path) -> None:
    """Open kept folders, resume those that a kill stopped, and compare and report them."""
    fr = _fedroam()
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        folder = Path(place)
        shutil.copytree(folders, folder, dirs_exist_ok=True)
        before = Path.cwd()
        os.chdir(folder)
        sys.path.insert(0, str(folder / "inputs"))
        try:
            for path in sorted((folder / "finished").iterdir()):
                keep_run(record, f"opened/finished/{path.name}", path, whole=False)
            for path in sorted((folder / "killed").iterdir()):
                keep_run(record, f"opened/killed/{path.name}", path, whole=False)
                settings = tomllib.loads((path / "experiment.toml").read_text(encoding="utf-8"))
                fr.run(fr.Experiment(**settings), path)
                keep_run(record, f"opened/resumed/{path.name}", path, whole=False)
                newest = sorted((path / "checkpoints").glob("*.safetensors"))[-1]
                keep_checkpoint(record, f"opened/resumed/{path.name}/checkpoint", newest)
            record.fact("opened/plan", [f"{run.name} {run.done}" for run in fr.open_runs("plan")])
            keep_swept(record, "opened/sweep", Path("sweep"))
            (folder / "plan.toml").write_text(PLAN)
            (folder / "sweep.toml").write_text(SWEEP)
            commands = {
                "compare": ["compare", "plan"],
                "report": ["report", "plan", "--out", "report"],
                "run": ["run", "plan.toml", "--out", "plan", "--no-report", "--quiet"],
                "compare-sweep": ["compare", "sweep", "--by", "mobility.mobile"],
                "sweep": ["sweep", "sweep.toml", "--out", "sweep", "--quiet"],
                "finished": ["compare", "finished"],
                "study": ["reproduce", "quickstart", "--judge-only", "--seeds", str(SEEDS), "--out", "study"],
            }
            keep_answers(record, "opened/commands", commands, folder)
            keep_page(record, "opened/pages/report", folder / "report" / "report.html")
            keep_study(record, "opened/study", folder / "study")
        finally:
            os.chdir(before)
            sys.path.remove(str(folder / "inputs"))


def open_all(out: Path) -> int:
    """Open the folders of a record with the present fedroam: is all as it was when they were recorded?"""
    was = load(out)
    record = Record(out)
    tell(f"fedroam of {Path(_fedroam().__file__).resolve().parent}")
    keep_opened(record, (out / "folders").resolve())
    chosen = {"facts": record.facts, "texts": record.texts}
    known = {part: {k: v for k, v in was[part].items() if k.startswith("opened/")} for part in chosen}
    lines = differences(known, chosen, was["numbers"], record.numbers)
    for status in ("resumed",):  # and the resumed ones as if they had never been stopped
        for name, value in record.facts.items():
            whole = name.replace(f"opened/{status}/", "opened/finished/")
            if whole != name and whole in record.facts and record.facts[whole] != value:
                lines.append(f"{name}: is not what the run that was never stopped has")
    return _told(lines, f"{sum(map(len, chosen.values()))} facts of opened folders")


def load(folder: Path) -> dict[str, Any]:
    """A record as it was written."""
    if not (folder / "record.json").is_file():
        raise SystemExit(f"error: {folder}: no record.json there")
    found: dict[str, Any] = _json(folder / "record.json")
    with np.load(folder / "record.npz") as held:
        found["numbers"] = {name.replace("|", "/"): held[name] for name in held.files}
    return found


def compare_all(first: Path, second: Path) -> int:
    """Name every difference between two records."""
    a, b = load(first), load(second)
    if a["about"] != b["about"]:
        tell(f"note: recorded under different conditions: {a['about']} and {b['about']}")
    lines = differences(a, b, a["numbers"], b["numbers"])
    return _told(lines, f"{len(a['facts'])} facts and {len(a['texts'])} texts")


def _told(lines: Sequence[str], what: str) -> int:
    for line in lines:
        print(line)
    print(f"{len(lines)} differences" if lines else f"equal: {what}")
    return int(bool(lines))


def differences(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    numbers_a: Mapping[str, np.ndarray],
    numbers_b: Mapping[str, np.ndarray],
) -> list[str]:
    """A line for each fact or text that differs, or that only one of them has."""
    lines = []
    for part in ("facts", "texts"):
        one, other = a[part], b[part]
        for name in sorted({*one, *other}):
            if name not in other:
                lines.append(f"{name}: only in the first")
            elif name not in one:
                lines.append(f"{name}: only in the second")
            elif json.dumps(one[name], sort_keys=True) != json.dumps(
                other[name], sort_keys=True
            ):  # NaN is NaN
                lines.append(f"{name}: {_difference(name, one[name], other[name], numbers_a, numbers_b)}")
    return lines


def _difference(
    name: str, one: Any, other: Any, a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]
) -> str:
    """How two values differ, in words."""
    if name in a and name in b:
        if a[name].shape != b[name].shape:
            return f"shape {a[name].shape}, now {b[name].shape}"
        apart = np.abs(a[name].astype(np.float64) - b[name].astype(np.float64))
        return f"differs by at most {np.nanmax(apart) if apart.size else 0:.3g}"
    if isinstance(one, str) and isinstance(other, str) and ("\n" in one or "\n" in other):
        changes = difflib.unified_diff(
            one.splitlines(), other.splitlines(), "first", "second", lineterm="", n=0
        )
        told = [line[:200] for line in changes if not line.startswith(("---", "+++", "@@"))]
        more = [f"... and {len(told) - SHOWN} more lines"] if len(told) > SHOWN else []
        return "\n    ".join(["", *told[:SHOWN], *more])
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [key for key in sorted({*one, *other}) if one.get(key) != other.get(key)]
        shown = [f"{key}: {str(one.get(key))[:80]} -> {str(other.get(key))[:80]}" for key in keys[:SHOWN]]
        return "; ".join(shown) + ("; ..." if len(keys) > SHOWN else "")
    return f"{str(one)[:160]} -> {str(other)[:160]}"


def main(words: Sequence[str] | None = None) -> int:
    """The command line of this file."""
    given = list(sys.argv[1:] if words is None else words)
    if given[:1] == ["_commands"]:
        _answer_commands(Path(given[1]), Path(given[2]))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    recorded = verbs.add_parser("record", help="compute everything anew and record it")
    recorded.add_argument("out", type=Path)
    recorded.add_argument("--only", nargs="*", default=[], help="only these parts (for trying this file out)")
    compared = verbs.add_parser("compare", help="name every difference between two records")
    compared.add_argument("first", type=Path)
    compared.add_argument("second", type=Path)
    opened = verbs.add_parser("open", help="open the folders of a record with the present fedroam")
    opened.add_argument("out", type=Path)
    chosen = parser.parse_args(given)
    if chosen.verb != "compare" and any(os.environ.get(name) != value for name, value in QUIET.items()):
        os.execve(sys.executable, [sys.executable, __file__, *given], {**os.environ, **QUIET})
    if chosen.verb == "record":
        return record_all(chosen.out, chosen.only)
    if chosen.verb == "open":
        return open_all(chosen.out)
    return compare_all(chosen.first, chosen.second)


if __name__ == "__main__":
    raise SystemExit(main())
