"""What is attacked: every reader of fedroam with small valid files, made here and nowhere kept, that it accepts."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import math
import os
import re
import struct
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
import torch
from safetensors.numpy import save as save_tensors

from attack import deployed, meters, mutations
from attack.mutations import TEXT, Mutation, in_json, in_npz, in_parquet, in_tensors
from fedroam.analysis import compare_runs
from fedroam.analysis.agreement import (
    AGREEMENT,
    Agreement,
    Compared,
    read_agreement,
    write_agreement,
)
from fedroam.components import FAMILIES, build, kinds
from fedroam.contacts import in_round
from fedroam.data.dataset import Dataset
from fedroam.data.sources.mnist import read_idx
from fedroam.deploy import messages as network
from fedroam.deploy.site.file import read_site
from fedroam.devices.meters.streams import numbers, said
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.handover import export_model, final_model, predict
from fedroam.handover.predictions import array_in
from fedroam.measurement import evaluate
from fedroam.mobility import Paths
from fedroam.models.network import Network
from fedroam.models.weights import load_weights
from fedroam.planning import Plan, SweepPlan, plan, sweep_plan
from fedroam.recording import checkpoint, open_run, recorded_experiment
from fedroam.recording.models import read_models
from fedroam.recording.round_times import TOOK, note_round, read_times
from fedroam.recording.run import TABLES, Run
from fedroam.runner import run
from fedroam.scene import describe, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State
from fedroam.study.kept import FILE as FILE_OF_RECORDS
from fedroam.study.kept import Records, RunRecord, merged, read_records, write_records
from fedroam.study.planned_looks import FILE as FILE_OF_LOOKS
from fedroam.study.planned_looks import plan_looks, planned_looks
from fedroam.sweep import messages, open_sweep
from fedroam.sweep.running import run_sweep
from fedroam.terminal.interrupts import Interrupted
from fedroam.traces import Trace, import_trace, read_trace, write_trace
from fedroam.traces.log import read_log
from support.commands import TINY
from support.run_folders import of_before_there_was_a_manifest
from support.sweeps import settings as small_sweep
from support.tiny import EXAMPLES, example, tiny


class Silent(Exception):
    """What was read is not what was written, or no number at all, and nobody said so."""


@dataclass(frozen=True)
class Target:
    """One reader. samples: makes the valid contents that are damaged (the same each time it is called); enter: reads
    the content that it is given, in an empty folder of its own, raising whatever comes; ways: mutations that suit the
    format, beside those of bytes.
    """

    samples: Callable[[], Sequence[bytes]]
    enter: Callable[[Path, bytes], None]
    ways: tuple[Mutation, ...] = ()

    def content(self, draws: np.random.Generator) -> bytes:
        """The content of a case."""
        samples = self.samples()
        data = samples[int(draws.integers(0, len(samples)))]
        return mutations.mutate(draws, data, self.ways, samples)


TARGETS: dict[str, Target] = {}


def target(
    name: str, samples: Callable[[], Sequence[bytes]], ways: tuple[Mutation, ...] = ()
) -> Callable[[Callable[[Path, bytes], None]], Callable[[Path, bytes], None]]:
    """Put a reader among `TARGETS`."""

    def add(enter: Callable[[Path, bytes], None]) -> Callable[[Path, bytes], None]:
        TARGETS[name] = Target(functools.cache(samples), enter, ways)
        return enter

    return add


def _texts(*texts: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [text.encode() for text in texts]


def _put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


# Settings

FILE = (
    TINY
    + 'contacts = { kind = "radius", radius = 1.5 }\nmixing = "metropolis"\n'
    + 'access_points = { kind = "grid", columns = 2, rows = 2 }\n'
)
VARIANTS = FILE + 'seeds = 2\n[variants.static]\nmobility.kind = "static"\n[variants.random]\nseed = 3\n'
SWEEP = FILE + "[sweep.grid]\n" + '"training.lr" = [0.1, 0.2]\n"mobility.mobile" = [0, 2]\n'
CLOUD = FILE.replace("mixing", "#") + 'federation = { kind = "hierarchical", k2 = 2 }\nradio = "lte_wifi"\n'


def _repeatable(made: Plan | SweepPlan) -> None:
    """What an experiment's settings say when written down is the same experiment."""
    for planned in made.runs[:2]:
        written = planned.experiment.toml()
        if type(planned.experiment)(**tomllib.loads(written)).digest != planned.experiment.digest:
            raise Silent("an experiment written down and read again is another experiment")


@target("experiment file", _texts(FILE, VARIANTS, CLOUD), TEXT)
def _experiment_file(folder: Path, data: bytes) -> None:
    _repeatable(plan(_put(folder, "case.toml", data)))


@target("sweep file", _texts(SWEEP), TEXT)
def _sweep_file(folder: Path, data: bytes) -> None:
    _repeatable(sweep_plan(_put(folder, "case.toml", data)))


SETS = (
    "clients=4", "seed=1", "name=other", "rounds=3", "mobility.mobile=1", "mobility={kind='random',mobile=2}",
    "training.lr=0.5", "training.batch_size=4", "model={kind='mlp',hidden=[4]}", "contacts.radius=2.5",
    "federation={kind='hierarchical',k2=2}", "engine='cpu'", "device=cpu", "partition={kind='dirichlet',alpha=1}",
    "access_points={kind='grid',columns=3,rows=1}", "mobility={kind='random',grid=4,max_step=2}",
)  # fmt: skip


def _argument(data: bytes) -> str:
    """What a shell may hand over: no NUL, and bytes that are no UTF-8 as Python takes them in."""
    return data.replace(b"\0", b"").decode("utf-8", "surrogateescape")


@target("--set", _texts(*SETS), TEXT)
def _set(folder: Path, data: bytes) -> None:
    _repeatable(plan(_put(folder, "tiny.toml", FILE.encode()), assignments=[_argument(data)]))


@target("--set, and the scene prepared", _texts(*SETS), TEXT)
def _scene(folder: Path, data: bytes) -> None:
    made = plan(_put(folder, "tiny.toml", FILE.encode()), assignments=[_argument(data)])
    prepare(made.runs[0].experiment).learner.close()


@target("--over", _texts("training.lr=0.1,0.2", "mobility.kind=static,random", "clients=3,4,5"), TEXT)
def _over(folder: Path, data: bytes) -> None:
    _repeatable(sweep_plan(_put(folder, "tiny.toml", FILE.encode()), over=[_argument(data)]))


@functools.cache
def _numeric() -> dict[str, list[tuple[str, str]]]:
    """Every setting that takes a number: its kind and name, by family; of no part, by "experiment"."""
    classes = [("experiment", "", Experiment)]
    classes += [
        (family, kind, cls) for family in FAMILIES for kind, cls in kinds(family).items() if kind not in LARGE
    ]
    found: dict[str, list[tuple[str, str]]] = {}
    for family, kind, cls in classes:
        for name, info in cls.model_fields.items():
            if re.search(r"\b(int|float)\b", repr(info.annotation)):
                found.setdefault(family, []).append((kind, name))
    return found


ABSURD = (
    0, 1, -1, 2, 63, 1000, 10**5, 2**31, 10**9, 2**53 + 1, 2**62, 2**63 - 1, 10**30, 0.0, -1.0, 1e-300, 1e-9, 0.5,
    1 - 1e-16, 1e3, 1e6, 1e9, 1e18, 1e150, 1e300, math.inf, -math.inf, math.nan,
)  # fmt: skip
# Long computations, or many threads, where they are much: such a setting is looked at, and no round is played.
WORK = ("steps", "epochs", "server_epochs", "max_tries", "samples", "workers")
# What needs files, or by right more memory than a case may take.
LARGE = ("mnist", "fashion_mnist", "cifar10", "unsw_nb15", "conv5", "resnet18", "resnet50")


class _Absurd(Target):
    def content(self, draws: np.random.Generator) -> bytes:
        families = sorted(_numeric())
        family = families[int(draws.integers(len(families)))]
        kind, name = _numeric()[family][int(draws.integers(len(_numeric()[family])))]
        value: Any = ABSURD[int(draws.integers(len(ABSURD)))]
        of = Experiment if family == "experiment" else kinds(family)[kind]
        if "tuple" in repr(of.model_fields[name].annotation):
            value = [value, value]
        return json.dumps([family, kind, name, value]).encode()


def _absurd(folder: Path, data: bytes) -> None:
    """A round with a setting that nobody would choose: what is played has numbers."""
    family, kind, name, value = json.loads(data)
    # What most federations need.
    settings: dict[str, Any] = {"model": {"kind": "mlp", "hidden": [4]}, "validation_share": 0.2}
    if family == "experiment":
        settings[name] = value
    else:
        settings[family] = {**example(family, kind).settings(), name: value}
    scene = prepare(tiny(**settings))
    try:
        state = begin(scene)
        if name not in WORK or not isinstance(value, int) or value <= 8:
            state, done = play_round(scene, state)
            evaluate(scene, state, done, 0.0)
            for column, total in state.account.totals().items():
                if not 0 <= total < math.inf:
                    raise Silent(f"{column} = {total} and nothing is said of it")
            paths = done.meeting.paths
            if not np.isfinite(paths.end[paths.present]).all():
                raise Silent("places that are no finite numbers")
        describe(scene)
    finally:
        scene.learner.close()


TARGETS["settings that nobody would choose"] = _Absurd(lambda: [b"[]"], _absurd)


# Data


def _sound_data(dataset: Dataset) -> None:
    for part in (dataset.x_train, dataset.x_test):
        if not np.isfinite(part).all():
            raise Silent("samples that are no finite numbers were accepted")


def _tables() -> list[bytes]:
    rows = [f"{i * 0.5},{-i},{'ab'[i % 2]},{i % 3}" for i in range(24)]
    text = "\n".join(["a,b,kind,label", *rows]) + "\n"
    return [text.encode(), text.replace("\n", "\r\n").encode(), gzip.compress(text.encode(), mtime=0)]


@target("csv data", _tables, TEXT)
def _csv(folder: Path, data: bytes) -> None:
    path = _put(folder, "case.csv", data)
    _sound_data(build("data", {"kind": "csv", "path": str(path), "categorical": ["kind"]}).load())  # type: ignore[attr-defined]


def _arrays() -> list[bytes]:
    x, y = np.arange(96, dtype=np.float32).reshape(24, 4), np.arange(24) % 3
    found = []
    for save in (np.savez, np.savez_compressed):
        target = io.BytesIO()
        save(target, x_train=x, y_train=y, x_test=x[:6], y_test=y[:6], column_writer=y // 2)
        found.append(target.getvalue())
    return found


@target("npz data", _arrays, (in_npz,))
def _npz(folder: Path, data: bytes) -> None:
    path = _put(folder, "case.npz", data)
    _sound_data(build("data", {"kind": "arrays", "path": str(path)}).load())  # type: ignore[attr-defined]


def _idx() -> list[bytes]:
    data = bytes([0, 0, 8, 3]) + struct.pack(">3I", 4, 3, 2) + bytes(range(24))
    return [data, gzip.compress(data, mtime=0)]


@target("idx images", _idx)
def _idx_images(folder: Path, data: bytes) -> None:
    read_idx(_put(folder, "train-images-idx3-ubyte", data), 3)


def _network() -> Network:
    """A network with the names that files of weights have."""
    made = torch.nn.Module()
    made.extractor = torch.nn.Module()
    made.extractor.conv1 = torch.nn.Conv2d(3, 4, 3, bias=False)
    made.extractor.bn1 = torch.nn.BatchNorm2d(4)
    made.head = torch.nn.Linear(4, 2)
    return made  # type: ignore[return-value]  # what is asked of it here is all there


def _weights() -> list[bytes]:
    state = {
        "conv1.weight": np.full((4, 3, 3, 3), 0.5, np.float32),
        "bn1.weight": np.ones(4, np.float32),
        "bn1.bias": np.zeros(4, np.float32),
        "bn1.running_mean": np.zeros(4, np.float32),
        "bn1.running_var": np.ones(4, np.float32),
        "bn1.num_batches_tracked": np.array(3, np.int64),
        "fc.weight": np.full((2, 4), 0.25, np.float32),
        "fc.bias": np.zeros(2, np.float32),
    }
    doubled = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in state.items()}
    return [bytes(save_tensors(state)), bytes(save_tensors(doubled))]


@target("weights", _weights, (in_tensors,))
def _load_weights(folder: Path, data: bytes) -> None:
    network = _network()
    load_weights(network, _put(folder, "case.safetensors", data), "model")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in network.state_dict().values()):
        raise Silent("weights that are no finite numbers were accepted")


@target("places of access points", _texts("x,y\n0.5,0.5\n3.5,0.5\n2.0,3.0\n"), TEXT)
def _places(folder: Path, data: bytes) -> None:
    part = build("access_points", {"kind": "file", "path": str(_put(folder, "case.csv", data))})
    points = part.places(build("mobility", {"kind": "random", "grid": 4}), 0)  # type: ignore[attr-defined]
    if not np.isfinite(points).all():
        raise Silent("places that are no finite numbers were accepted")


@target(
    "speeds of devices", _texts("client,seconds\n0,0.5\n1,0.25\n2,1\n", "share,seconds\n3,0.5\n1,2\n"), TEXT
)
def _speeds(folder: Path, data: bytes) -> None:
    part = build("compute", {"kind": "table", "path": str(_put(folder, "case.csv", data))})
    seconds = part.seconds(0, np.arange(3), np.full(3, 10), 1e6)  # type: ignore[attr-defined]
    if not (np.isfinite(seconds).all() and (seconds >= 0).all()):
        raise Silent("seconds that are no finite numbers were accepted")


# Traces


def _sound_trace(trace: Trace, folder: Path) -> None:
    """A trace has finite numbers in order, and is the same when written and read again."""
    if not (np.isfinite(trace.time).all() and np.isfinite(trace.point).all()):
        raise Silent("times or places that are no finite numbers were accepted")
    again = read_trace(write_trace(trace, folder / "again.parquet"))
    same = (
        again.names == trace.names
        and again.venues == trace.venues
        and np.array_equal(again.time, trace.time)
        and np.array_equal(again.point, trace.point)
    )
    if not same:
        raise Silent("a trace written and read again is another trace")


CHECK_INS = "user,time,lat,lon,venue\n" + "".join(
    f"{'ab'[k // 5]},2012-04-0{1 + k % 5}T0{k % 9}:00:00Z,40.{700 + k},-73.{900 + k},cafe {k % 3}\n"
    for k in range(10)
)
METRIC = "device,time,x,y\n" + "".join(f"{k // 5},{60 * k},{k * 1.5},{-k}\n" for k in range(10))
SUMO = """<?xml version="1.0" encoding="UTF-8"?>
<fcd-export>
    <timestep time="0.00"><vehicle id="a" x="200" y="-10" angle="90.00" type="car" speed="10.00"/>
        <person id="p" x="0" y="0"/></timestep>
    <timestep time="00:00:01.50"><vehicle id="a" x="205" y="-10"/><container id="c" x="1" y="1"/></timestep>
    <timestep time="3.00"><vehicle id="b" x="7.5" y="1e1"/></timestep>
</fcd-export>
"""
NS2 = """# nodes: 4, max x: 500.00, max y: 500.00
$node_(0) set X_ 0.0
$node_(0) set Y_ 0.0
$node_(1) set X_ 50
$node_(1) set Y_ 60;# where it stays
$ns_ at 2.0 "$node_(0) setdest 100.0 0.0 10.0"
$ns_ at 7.0 "$node_(0) setdest 50.0 40.0 4.0"
"""
BONNMOTION = "0.0 0 0 10.0 30 40 15 30 40 20 30 90\n4 1 1 8 5 1\n"
ONE = "0 100 0.0 500 -10 10 0 0\n# comment\n0 p1 0 -10\n0 7 500 10\n50.5 p1 100 10\n100 7 0 0\n"
GPX = """<?xml version="1.0"?>
<gpx version="1.1" creator="t" xmlns="http://www.topografix.com/GPX/1/1">
  <trk><name>Ann &amp; Bo</name><trkseg>
    <trkpt lat="44.5" lon="11.3"><ele>5</ele><time>2020-05-01T08:00:00Z</time></trkpt>
    <trkpt lat="44.501" lon="11.3"><time>2020-05-01T08:00:10.5Z</time></trkpt>
  </trkseg></trk>
  <trk><trkseg><trkpt lat="44.5" lon="11.31"><time>2020-05-01T08:00:00Z</time></trkpt></trkseg></trk>
</gpx>
"""


def _imported(name: str, format: str, *texts: str) -> None:
    def enter(folder: Path, data: bytes) -> None:
        _sound_trace(import_trace(_put(folder, name, data), format=format), folder)

    TARGETS[f"trace, {format}"] = Target(_texts(*texts), enter, TEXT)


_imported("case.csv", "csv", CHECK_INS, METRIC)
_imported("case.xml", "sumo", SUMO, SUMO.replace('<?xml version="1.0" encoding="UTF-8"?>\n', ""))
_imported("case.tcl", "ns2", NS2)
_imported("case.movements", "bonnmotion", BONNMOTION)
_imported("case.txt", "one", ONE)
_imported("case.gpx", "gpx", GPX)


@target("trace, told by its content", _texts(CHECK_INS, SUMO, NS2, ONE, GPX), TEXT)
def _any_trace(folder: Path, data: bytes) -> None:
    _sound_trace(import_trace(_put(folder, "case", data)), folder)


def _trace_files() -> list[bytes]:
    return [Path(EXAMPLES["mobility", "trace"]()["file"]).read_bytes()]


@target("trace, as written", _trace_files, (in_parquet,))
def _read_trace(folder: Path, data: bytes) -> None:
    _sound_trace(read_trace(_put(folder, "case.parquet", data)), folder)


@target("trace, parquet of fixes", lambda: [_parquet(METRIC)], (in_parquet,))
def _fixes(folder: Path, data: bytes) -> None:
    _sound_trace(import_trace(_put(folder, "case.parquet", data), format="parquet"), folder)


LOG = "device,begin,end\n" + "".join(f"phone {k % 3},{3600 * k},{3600 * k + 1800}\n" for k in range(9))


MET = "round,i,j\n0,0,1\n0,4,2\n1,3,1\n1,1,3\n2,0,4\n"


def _parquet(text: str) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(pd.read_csv(io.StringIO(text))), target)
    return target.getvalue()


def _sound_log(path: Path) -> None:
    log = read_log(path)
    if not (np.isfinite(log.begin).all() and np.isfinite(log.end).all()):
        raise Silent("times that are no finite numbers were accepted")


@target("availability log, csv", _texts(LOG), TEXT)
def _log(folder: Path, data: bytes) -> None:
    _sound_log(_put(folder, "case.csv", data))


@target("contacts, csv", _texts(MET), TEXT)
def _met(folder: Path, data: bytes) -> None:
    path = str(_put(folder, "case.csv", data))
    rule = build("contacts", {"kind": "recorded", "file": path})
    rule.check_limits(5, 3)  # type: ignore[attr-defined]
    for t in range(3):
        graph = in_round(rule, t).meet(Paths.still(np.zeros((5, 2))))  # type: ignore[arg-type]
        if graph.diagonal().any() or (graph != graph.T).nnz:
            raise Silent("somebody meets itself, or is met and does not meet")


@target("availability log, parquet", lambda: [_parquet(LOG)], (in_parquet,))
def _log_parquet(folder: Path, data: bytes) -> None:
    _sound_log(_put(folder, "case.parquet", data))


# Run folders and sweeps


@functools.cache
def finished() -> dict[str, bytes]:
    """A finished run: every file but the lock, by its path within the folder."""
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    run(tiny(rounds=2, evaluate_every=1, federation={"kind": "hierarchical", "k2": 2}), home / "run")
    return held(home / "run")


@functools.cache
def unfinished() -> dict[str, bytes]:
    """A run of four rounds that was left after the third."""
    home = Path(tempfile.mkdtemp(prefix="attack-"))

    def stop(round: int, *_: object) -> None:
        if round == 3:
            raise Interrupted

    try:
        run(tiny(evaluate_every=1), home / "run", observer=stop)
    except Interrupted:
        return held(home / "run")
    raise AssertionError("was not left")


def held(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def laid(files: dict[str, bytes], folder: Path) -> Path:
    """The files in a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def _read_all(found: Run) -> None:
    """All that a run folder tells, and what analyses make of it."""
    _ = found.settings, found.environment, found.world, found.partition, found.name, found.done
    for name in TABLES:
        getattr(found, name)
    recorded_experiment(found)
    compare_runs([found])


def _kind(name: str) -> tuple[Mutation, ...]:
    return (in_json,) if name.endswith(".json") else TEXT if name.endswith(".toml") else (in_parquet,)


def _file_of_a_run(name: str) -> None:
    """Without sums, as a run of 0.1.0 or one whose sums a stranger has made to fit: what is read must be checked."""

    def enter(folder: Path, data: bytes) -> None:
        home = laid(finished(), folder / "run")
        of_before_there_was_a_manifest(home)
        (home / name).write_bytes(data)
        _read_all(open_run(home))

    def samples() -> Sequence[bytes]:
        if name != "run.json":
            return [finished()[name]]
        facts = json.loads(finished()[name])
        return [json.dumps({k: v for k, v in facts.items() if k not in ("files", "sha256")}).encode()]

    TARGETS[f"run folder, {name}"] = Target(functools.cache(samples), enter, _kind(name))


FILES = (
    "run.json", "world.json", "environment.json", "experiment.toml", "rounds.parquet", "clients.parquet",
    "partition.parquet", "movement/positions.parquet", "movement/contacts.parquet",
)  # fmt: skip
for _name in FILES:
    _file_of_a_run(_name)


# Models that are handed over


@functools.cache
def exported() -> dict[str, bytes]:
    """What `fedroam export` writes of a run on a table, and rows to predict."""
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    table = "a,b,label\n" + "".join(f"{k % 7},{'xyz'[k % 3]},{k % 2}\n" for k in range(60))
    data = {"kind": "csv", "path": str(_put(home, "rows.csv", table.encode())), "categorical": ("b",)}
    made = run(tiny(data=data, model="mlp", rounds=1, partition="iid"), home / "run")
    export_model(final_model(made, "mean"), "safetensors", home / "model")
    files = {path.name: path.read_bytes() for path in (home / "model").iterdir()}
    return {**files, "rows.csv": table.encode(), "models": (home / "run" / "models.safetensors").read_bytes()}


def _predicted(folder: Path, name: str, data: bytes) -> None:
    files = {**{k: v for k, v in exported().items() if k != "models"}, name: data}
    if name == "model.safetensors":  # by somebody who makes the sum fit
        facts = json.loads(files["model.json"])
        files["model.json"] = json.dumps({**facts, "sha256": hashlib.sha256(data).hexdigest()}).encode()
    home = laid(files, folder / "model")
    found = predict(home, home / "rows.csv").probabilities
    if found.shape[0] < 1 or found.shape[1] < 1:
        raise Silent("no prediction, and nobody said so")


for _name, _ways in {
    "model.json": (in_json,), "preprocessing.json": (in_json,), "model.safetensors": (in_tensors,), "rows.csv": TEXT,
}.items():  # fmt: skip
    TARGETS[f"handed over, {_name}"] = Target(
        lambda name=_name: [exported()[name]],  # type: ignore[misc]
        lambda folder, data, name=_name: _predicted(folder, name, data),  # type: ignore[misc]
        _ways,
    )


@target("handed over, models of a run", lambda: [exported()["models"]], (in_tensors,))
def _models_of_a_run(folder: Path, data: bytes) -> None:
    read_models(_put(folder, "models.safetensors", data)).values("mean")


def _rows() -> Sequence[bytes]:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(12.0).reshape(3, 4))
    return [buffer.getvalue()]


@target("handed over, samples as .npy", _rows)
def _samples_as_npy(folder: Path, data: bytes) -> None:
    array_in(_put(folder, "rows.npy", data))


# What comes over a network

SITE = """format = 1
name = "lab"
digest = "{digest}"
address = "[::1]:50061"

[limits]
chunk = 262144
answer = 600.0

[[nodes]]
name = "server"
role = "server"
serial = "7f00"

[[nodes]]
name = "client-00"
role = "client"
client = 0
serial = "7f01"
revoked = true
""".format(digest="a1" * 32)


@target("site.toml", _texts(SITE), TEXT)
def _site(folder: Path, data: bytes) -> None:
    site = read_site(_put(folder, "site.toml", data))
    site.write(folder)
    if read_site(folder / "site.toml") != site:
        raise Silent("a site written down and read again is another site")


def _database(
    name: str, files: Callable[..., deployed.Files], enter: Callable[[Path, deployed.Files], None]
) -> None:
    """What a peer, or the server, finds when it begins anew: its file, or what SQLite keeps beside it after a kill."""

    def attacked(end: str, *, killed: bool) -> Callable[[Path, bytes], None]:
        def begin_anew(folder: Path, data: bytes) -> None:
            try:
                enter(folder, {**files(killed=killed), end: data})
            except deployed.Another as error:
                raise Silent(str(error)) from None

        return begin_anew

    target(name, lambda: [files()[""]], (deployed.in_sqlite,))(attacked("", killed=False))
    target(f"{name}-wal", lambda: [files(killed=True)["-wal"]])(attacked("-wal", killed=True))


_database("memory.sqlite", deployed.remembered, deployed.remember_again)
_database("arrived.sqlite", deployed.arrived, deployed.go_on)


def _enrolling(
    name: str, sample: int, enter: Callable[[Path, bytes], None], ways: tuple[Mutation, ...]
) -> None:
    @target(name, lambda: [bytes(deployed.awaiting()[sample])], ways)
    def _asked(folder: Path, data: bytes) -> None:
        try:
            enter(folder, data)
        except deployed.Another as error:
            raise Silent(str(error)) from None


_enrolling("ticket of a node", 1, deployed.ask, TEXT)
_enrolling("request of a node", 2, deployed.sign, TEXT)

ANSWER: network.Expected = {"loss": ("float64", (1,)), "0.parameters": ("float32", (3, 2))}


def _answer() -> Sequence[bytes]:
    arrays = {name: np.ones(shape, kind) for name, (kind, shape) in ANSWER.items()}
    body = network.packed(arrays)
    put = network.Put(order="0" * 16 + "-1", size=len(body), sha256=network.sum_of(body))
    return [network.encode(put, body)]


@target("message of a node", _answer)
def _message_of_a_node(folder: Path, data: bytes) -> None:
    try:
        put, body = network.decode(data, network.Put)
        arrays = network.unpacked(bytes(body), ANSWER)
    except network.Refused as error:
        raise InputError(str(error)) from None
    if put.offset < 0 or {name: (a.dtype.name, a.shape) for name, a in arrays.items()} != ANSWER:
        raise Silent("an answer that is not what was asked for")


# --------------------------------------------------------------------------------------------------------------------
# A run on a network beside the simulated one


def _beside(name: str, digest: str = "0" * 64) -> Callable[[], Sequence[bytes]]:
    """A file that a run on a network has beside its own."""

    def made() -> Sequence[bytes]:
        folder = Path(tempfile.mkdtemp(prefix="attack-"))
        for t in (1, 2):
            note_round(folder, t, 1.5, {"train": 1.0})
        found = Compared("bytes", 2, 4, float("inf"), 0.0, relative=False, identical=False)
        write_agreement(folder, digest, Agreement({found.what: found}, {"network": 1.5, "simulated": 1.4}))
        return [(folder / name).read_bytes()]

    return made


@target("times of a network", _beside(TOOK), (in_json,))
def _times_of_a_network(folder: Path, data: bytes) -> None:
    (folder / TOOK).write_bytes(data)
    for number, each in read_times(folder / TOOK).items():
        if number < 1 or not all(0 <= s < math.inf for s in (each.seconds, *each.work.values())):
            raise Silent("a time that is none")


@target("agreement", _beside(AGREEMENT), (in_json,))
def _agreement(folder: Path, data: bytes) -> None:
    (folder / AGREEMENT).write_bytes(data)
    found = read_agreement(folder, "0" * 64)
    if any(math.isnan(each.difference) or each.difference < 0 for each in found.compared.values()):
        raise Silent("a difference that is none")


@functools.cache
def _wanted() -> dict[str, pd.DataFrame]:
    """The tables of the run of `unfinished`, had nobody stopped it."""
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    whole = run(tiny(evaluate_every=1), home / "run")
    return _numbers(whole)


def _numbers(found: Run) -> dict[str, pd.DataFrame]:
    tables = {name: getattr(found, name) for name in ("rounds", "clients", "positions", "contacts")}
    return {name: table.drop(columns="seconds", errors="ignore") for name, table in tables.items()}


def _newest() -> str:
    return max(name for name in unfinished() if name.startswith("checkpoints/"))


def _resumed(name: str, folder: Path, data: bytes) -> None:
    home = laid({**unfinished(), name: data}, folder / "run")
    numbers = _numbers(run(tiny(evaluate_every=1), home))
    for table, wanted in _wanted().items():
        if not numbers[table].equals(wanted):
            raise Silent(f"resumed over a damaged {name}, and {table} holds other numbers")


@target("resume, checkpoint", lambda: [unfinished()[_newest()]], (in_tensors,))
def _resume_checkpoint(folder: Path, data: bytes) -> None:
    _resumed(_newest(), folder, data)


def _piece() -> str:
    return min(name for name in unfinished() if name.startswith("unfinished/clients"))


@target("resume, piece of a table", lambda: [unfinished()[_piece()]], (in_parquet,))
def _resume_piece(folder: Path, data: bytes) -> None:
    _resumed(_piece(), folder, data)


def _sums() -> str:
    return max(name for name in unfinished() if name.startswith("unfinished/sums"))


@target("resume, sums of pieces", lambda: [unfinished()[_sums()]], (in_json,))
def _resume_sums(folder: Path, data: bytes) -> None:
    _resumed(_sums(), folder, data)


@target("resume, run.json", lambda: [unfinished()["run.json"]], (in_json,))
def _resume_status(folder: Path, data: bytes) -> None:
    _resumed("run.json", folder, data)


@functools.cache
def _prepared() -> Any:
    return prepare(tiny(evaluate_every=1))


@target("checkpoint, its sum made to fit", lambda: [unfinished()[_newest()]], (in_tensors,))
def _summed_anew(folder: Path, data: bytes) -> None:
    """A checkpoint whose sum is right and whose arrays are not what the run needs."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise InputError("no safetensors file: not what is asked here") from None
    digest = tiny(evaluate_every=1).digest
    path = checkpoint.save(folder / "checkpoints", 3, digest, arrays)
    found = checkpoint.load(path, digest)
    play_round(_prepared(), State.of(found.round, found.arrays, _prepared()))


@functools.cache
def swept() -> dict[str, bytes]:
    """A finished sweep of two runs."""
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    sweep = small_sweep(rounds=1, sweep={"grid": {"training.lr": [0.1, 0.2]}})
    (home / "sweep.toml").write_text(tomli_w.dumps(sweep))
    run_sweep(sweep_plan(home / "sweep.toml"), home / "sweep", workers=1)
    return held(home / "sweep")


def _without_sums() -> list[bytes]:
    """As a stranger would make them fit, so that what is read must be checked."""
    facts = json.loads(swept()["sweep.json"])
    return [json.dumps({k: v for k, v in facts.items() if k not in ("files", "sha256")}).encode()]


@target("sweep folder, sweep.json", _without_sums, (in_json,))
def _sweep_folder(folder: Path, data: bytes) -> None:
    found = open_sweep(laid({**swept(), "sweep.json": data}, folder / "sweep"))
    _ = found.name, found.varied, found.failed, found.done, found.table, found.rounds


def _kept_runs() -> list[bytes]:
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    numbers = {"final accuracy": (61.5, 61.5), "rounds to 58 %": (20.0, math.inf)}
    curves = {"accuracy": pd.Series([0.1, 0.25, math.nan], [0, 10, 20])}
    runs = [
        RunRecord(v, s, f"{v}{s}" * 8, None, 3.5, numbers, curves, code=("0" * 64,) * s)
        for v in ("a", "b")
        for s in (0, 1)
    ]
    records = merged(
        Records("made", "quick"), runs, {"command": "fedroam reproduce", "runs": 4, "hours": 0.1}
    )
    return [write_records(home, records.judged_by(4, (4, 6))).read_bytes()]


@target("kept runs of a study", _kept_runs, TEXT)
def _kept(folder: Path, data: bytes) -> None:
    found = read_records(_put(folder, FILE_OF_RECORDS, data).parent, "made", "quick")
    _ = found.hours
    write_records(folder / "again", found)
    again = read_records(folder / "again", "made", "quick")
    write_records(folder / "third", again)
    same = [(folder / place / FILE_OF_RECORDS).read_bytes() for place in ("again", "third")]
    if same[0] != same[1] or len(again.runs) != len(found.runs):
        raise Silent("what is kept of runs is another when it is written and read again")


def _planned() -> list[bytes]:
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    plan_looks(home, "made", "quick", (4, 6, 9))
    return [(home / FILE_OF_LOOKS).read_bytes()]


@target("planned looks of a study", _planned, (in_json,))
def _planned_looks(folder: Path, data: bytes) -> None:
    home = _put(folder, FILE_OF_LOOKS, data).parent
    found = planned_looks(home, "made", "quick")
    plan_looks(home, "made", "full", (4, 6))
    if planned_looks(home, "made", "quick") != found or planned_looks(home, "made", "full") != (4, 6):
        raise Silent("planned looks are others when they are written and read again")


def _said() -> list[bytes]:
    task = messages.RunTask("0" * 64, FILE, "runs/x", "resume", "lr=0.1", 0, 3, 0, "digits")
    return [
        messages.encode(one)
        for one in (task, messages.RoundDone(3, 0.5), messages.Done(1.0, 0.9), messages.Failed("lost"))
    ]


@target("message of a worker", _said, (in_json,))
def _message(folder: Path, data: bytes) -> None:
    messages.decode(data)


def _trap(do: Callable[[], object]) -> Target:
    return Target(lambda: [b"x"], lambda folder, data: (do(), None)[1])


def _raise(error: Exception) -> None:
    raise error


# Readers that fall, by which the attack itself is tested.
# Meters


def _of_meters(name: str, ways: tuple[Mutation, ...]) -> None:
    files = functools.cache(meters.measured)

    @target(f"meters, {name}", lambda: [files()[name]], ways)
    def _read_meters(folder: Path, data: bytes) -> None:
        if not meters.energy_is_sound(laid({**files(), name: data}, folder)):
            raise Silent("energy that is no number")


_of_meters(meters.READINGS, (in_parquet,))
_of_meters(meters.WORK, (in_parquet,))
_of_meters(meters.LINES, (in_json,))


@target("meters, lines", _texts("5.1,0.4,2.04,0.1\n5.1,0.5,2.55,0.1\n"), TEXT)
def _meter_lines(folder: Path, data: bytes) -> None:
    for line in data.split(b"\n"):
        found = numbers(said(line))
        if found is not None and not all(0 <= number < 1e9 for number in found):
            raise Silent("a power that is no number")


TRAPS: dict[str, Target] = {
    "raises": _trap(lambda: {}["x"]),
    "dies": _trap(lambda: os._exit(3)),
    "hangs": _trap(lambda: time.sleep(600)),
    "eats": _trap(lambda: bytearray(3 * 2**30)),
    "is silent": _trap(lambda: _raise(Silent("0.5 for 0.25"))),
    "refuses": _trap(lambda: _raise(InputError("no"))),
    "accepts": _trap(lambda: None),
}


def made_ready(names: Sequence[str]) -> None:
    """Make the samples of targets now, so that the time and memory they take is not a case's."""
    for name in names:
        (TARGETS | TRAPS)[name].samples()
        if name.startswith("resume"):
            _wanted()
        if name.startswith("run folder"):
            finished()
        if name.startswith(("resume", "checkpoint")):
            _prepared()


__all__ = [
    "TARGETS",
    "TRAPS",
    "Silent",
    "Target",
    "finished",
    "held",
    "laid",
    "made_ready",
    "swept",
    "unfinished",
]
