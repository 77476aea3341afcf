"""Side by side with others: the work is the same, the plain loops compute what fedroam does, and the page says what the
records say."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.waiting import HANGS

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "benchmarks" / "peers"


class Scripts:
    """The scripts of the folder, by name."""

    def __getattr__(self, name: str) -> Any:
        return importlib.import_module(name)


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripts]:
    """Scripts import each other by name, as if one of them were run; nobody else sees those names."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(PEERS.parent))
    monkeypatch.syspath_prepend(str(PEERS))
    yield Scripts()
    scripts = [*PEERS.glob("*.py"), PEERS.parent / "scaling.py", PEERS.parent / "kept_points.py"]
    for name in {path.stem for path in scripts} - before:
        sys.modules.pop(name, None)


def played(script: Any, work: Any, rounds: int) -> tuple[list[float], np.ndarray]:
    """The accuracies that a peer tells, and the models it ends with."""
    values: list[float] = []
    models = script.play(work, rounds, lambda value, moment=None: values.append(value))
    return values, models


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "loops"),
    [
        ("A", ["loop", "loop_without_loader"]),
        ("E-gossip", ["loop_of_neighbours"]),
    ],
)
def test_plain_loops_compute_what_fedroam_does(
    peers: Scripts, name: str, loops: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDROAM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # MNIST may lie in the user's
    facts = peers.work.write(name, peers.work.tiny(peers.work.WORKLOADS[name]), 2, tmp_path / "work")
    assert facts["clients"] == 6
    work = peers.interface.Work(tmp_path / "work")
    accuracies, models = played(peers.ours, work, 2)
    assert models.shape == (6 if "gossip" in name else 1, facts["parameters"])
    for loop in loops:
        theirs, others = played(getattr(peers, loop), work, 2)
        np.testing.assert_allclose(others, models, atol=peers.measure.NEAR, rtol=0)
        assert np.abs(models - work.start).max() > 10 * peers.measure.NEAR, "nothing was learnt"
        # One sample of the 360 may fall on the other side.
        np.testing.assert_allclose(theirs, accuracies, atol=1.5 / facts["test"])


TIMED = """\
import json, sys
from pathlib import Path
import measure
taken, take = [], measure.take
measure.take = lambda command, *rest: taken.append(command[1:4]) or take(command, *rest)
bench = measure.Bench(Path("record.json"), Path.cwd(), Path(), 2, small=True)
_, told, models = bench.play("E", "fedroam", 2)
print(json.dumps({"taken": taken, "told": told, "models": models.tolist()}))
"""


def test_of_fedroam_the_command_alone_is_timed(
    peers: Scripts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has recorded is read afterwards, and is what the same gives within a process.

    In a process of its own, since who takes the time of a command ends all that is below it.
    """
    monkeypatch.delenv("FEDROAM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(PEERS))
    done = subprocess.run(
        [sys.executable, "-c", TIMED], cwd=tmp_path, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["taken"] == [["-m", "fedroam", "run"]]
    at, values = found["told"]["at"], found["told"]["values"]
    assert len(at) == len(values) == 3
    assert sorted(at) == at
    assert set(found["told"]["versions"]) == {"fedroam", "torch", "numpy", "python"}
    (work,) = (path.parent for path in tmp_path.rglob("facts.json"))
    own, within = played(peers.ours, peers.interface.Work(work), 2)
    assert values == own
    np.testing.assert_array_equal(np.array(found["models"], np.float32), within)


def test_batches_are_those_that_the_work_says(peers: Scripts, tmp_path: Path) -> None:
    facts = {"kind": "fedavg", "clients": 2, "lr": 0.1, "model": {"kind": "mlp"}}
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    np.save(
        tmp_path / "lengths.npy", np.array([[[2, 1], [1, 1]], [[1, 2], [2, 1]]])
    )  # rounds, clients, steps
    np.save(tmp_path / "batches.npy", np.arange(11))
    work = peers.interface.Work(tmp_path)
    assert [batch.tolist() for batch in work.batches(1, 0)] == [[0, 1], [2]]
    assert [batch.tolist() for batch in work.batches(1, 1)] == [[3], [4]]
    assert [batch.tolist() for batch in work.batches(2, 0)] == [[5], [6, 7]]
    assert [batch.tolist() for batch in work.batches(2, 1)] == [[8, 9], [10]]


def test_the_schedule_that_others_read_is_that_of_fedroam(peers: Scripts, tmp_path: Path) -> None:
    few = dataclasses.replace(peers.work.WORKLOADS["S"], clients=60)
    peers.work.write("S", few, 3, tmp_path)
    work = peers.interface.Work(tmp_path)
    values: list[float] = []
    peers.ours.play(work, 3, values.append)
    rows, contacts = work.array("rows"), work.array("contacts")
    assert values[0] == 0.0
    for through, (a, b) in zip(values[1:], itertools.pairwise(rows), strict=True):
        long = {(i, j) for i, j, opens, closes in contacts[a:b].tolist() if closes - opens >= 2.0}
        assert through == 2 * len(long), "both ways, once however often they meet"
        assert 0 < len(long) < b - a, "each contact lasts long enough, or none does"


@pytest.mark.slow
@pytest.mark.parametrize(("peer", "workload"), [("flower", "E"), ("blazefl", "E"), ("simpy", "S")])
def test_others_compute_the_same(peers: Scripts, peer: str, workload: str, tmp_path: Path) -> None:
    environment = peers.measure.PEERS[peer].environment
    if peers.environments.python(peers.environments.DEFAULT, environment) is None:
        pytest.skip(f"no environment of {peer}: python benchmarks/peers/environments.py makes it")
    command = [sys.executable, str(PEERS / "measure.py"), "--small", "--check", "--rounds", "1"]
    command += ["--workloads", workload, "--peers", peer, "--folder", str(tmp_path)]
    command += ["--record", str(tmp_path / "record.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = json.loads((tmp_path / "record.json").read_text()).values()
    assert f"{workload} {peer}" in record["checks"]


def test_every_measurement_has_its_turn_once_and_the_main_ones_come_first(peers: Scripts) -> None:
    measure = peers.measure
    turns = list(measure.order(5))
    assert len(turns) == len(set(turns))
    assert set(turns) == {
        (r, w, p)
        for r in range(5)
        for w, workload in peers.work.WORKLOADS.items()
        for p, peer in measure.PEERS.items()
        if workload.kind in peer.kinds
    }
    assert [turn[0] for turn in turns[:27]] == [0] * 9 + [1] * 9 + [2] * 9
    assert {turn[1:] for turn in turns[:9]} == {(w, p) for w in "ADE" for p in ("fedroam", "flower", "loop")}
    assert list(measure.order(1))[:9] == turns[:9]


def test_how_far_apart_by_hand(peers: Scripts) -> None:
    measure, start = peers.measure, np.zeros(2, np.float32)
    ours, theirs = (np.array([each], np.float32) for each in ([3.0, 4.0], [3.0, 4.5]))
    assert measure.apart(theirs, ours, start) == {"apart": 0.5, "share": 0.1}
    assert measure.apart(ours, ours, start) == {"apart": 0.0, "share": 0.0}
    assert not measure.same(measure.apart(ours[:, :1], ours, start))
    assert measure.same({"apart": 1.0, "share": measure.CLOSE})
    assert not measure.same({"apart": 0.0, "share": 1.1 * measure.CLOSE})
    # Kept before there were shares.
    assert measure.same({"apart": measure.NEAR})
    assert not measure.same({"apart": 1.1 * measure.NEAR})


def run_of(peer: str, repeat: int, **took: Any) -> dict[str, Any]:
    return {"workload": "A", "peer": peer, "rounds": 3, "repeat": repeat, **took}


def test_the_table_by_hand(peers: Scripts) -> None:
    common = {"cpu_s": 3.0, "peak_bytes": 2**30, "value": 0.5}
    runs = [
        run_of("fedroam", 0, rounds_s=[9.0, 1.0, 3.0], command_s=10.0, **common),
        run_of("fedroam", 1, rounds_s=[9.0, 4.0, 4.0], command_s=20.0, **common),
        run_of("fedroam", 2, rounds_s=[8.0, 1.0, 1.0], command_s=11.0, **common),
        run_of("loop", 0, rounds_s=[5.0, 5.0, 5.0], command_s=5.5, **common),
    ]
    record = {
        "machine": {"processor": "P", "cores": 2, "instructions": "AVX2"},
        "last": "2026-02-03",
        "versions": {"loop": {"torch": "2"}},
        "checks": {"A loop": {"apart": 2e-8}},
        "runs": {str(k): run for k, run in enumerate(runs)},
    }
    told = [line.split(" | ") for line in peers.measure.table(record).splitlines() if line.startswith("| A")]
    # The median round of the first command is 2 s, the first left out; 2 s again over the three commands.
    assert told[0][2:8] == ["3", "2.000 (1.000 to 4.000)", "", "9.00 s", "11.0 (10.0 to 20.0) s", ""]
    assert told[1][2:8] == ["1", "5.000", "2.5", "5.00 s", "5.5 s", "**0.5**"]
    assert told[1][8:] == ["3 s", "1.00 GiB", "50.0 %", "2e-08 |"]
    assert peers.measure.table(record).endswith("On 2 cores of P (AVX2), 2026-02-03; torch 2.")


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads memory from /proc")
def test_what_a_command_took_counts_all_its_processes_and_ends_them(tmp_path: Path) -> None:
    """A command that leaves a process behind; watched from a process of its own, which takes it over. What it held is
    held until a whole look has been taken at it."""
    busy, looked = tmp_path / "busy", tmp_path / "looked"
    command = f"""
import json, os, subprocess, sys
busy = '''held = bytearray(60_000_000)
import time
from pathlib import Path
while time.process_time() < 0.4: pass
Path({str(busy)!r}).touch()
while not Path({str(looked)!r}).exists(): time.sleep(0.02)'''
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
subprocess.run([sys.executable, "-c", busy], check=True)
print("left", left.pid, flush=True)
sys.exit(3)
"""
    watching = f"""
import json, os, sys
from pathlib import Path
sys.path.insert(0, {str(PEERS)!r})
import watch
looks, below = [], watch._below
def look():
    looks.extend([1] * Path({str(busy)!r}).exists())
    if len(looks) > 1:  # the one before is over
        Path({str(looked)!r}).touch()
    return below()
watch._below = look
found = watch.take([sys.executable, "-c", {command!r}], dict(os.environ), Path({str(tmp_path / "log")!r}), 500.0)
print(json.dumps([found.code, found.cpu, found.memory, found.processes, found.words]))
"""
    done = subprocess.run([sys.executable, "-c", watching], capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    code, cpu, memory, processes, words = json.loads(done.stdout)
    assert code == 3
    assert cpu >= 0.3
    assert memory > 60_000_000
    assert processes >= 3
    left = int(re.findall(r"left (\d+)", words)[0])
    assert not Path(f"/proc/{left}").exists()


def test_the_page_tells_what_the_records_say(peers: Scripts) -> None:
    page = peers.page
    text = page.PAGE.read_text(encoding="utf-8")
    for part in page.PARTS:
        figures = part.figures()
        assert part.text(figures) in text, "python benchmarks/peers/page.py rewrites the page"
        kept = {path.stem for path in page.IMAGES.glob(f"{part.name}*.svg")}
        assert kept == set(figures), part.name


def test_what_is_kept_agrees_with_fedroam(peers: Scripts) -> None:
    measure = peers.measure
    for kind, record in json.loads(measure.RECORD.read_text(encoding="utf-8")).items():
        checked = set(record["checks"])
        assert checked >= {f"{run['workload']} {run['peer']}" for run in record["runs"].values()}
        narrow = kind.removesuffix("-only")
        if narrow == kind:
            assert record["machine"]["instructions"] == kind
            assert checked == {f"{w} {p}" for _, w, p in measure.order(1)}
        else:
            assert narrow in measure.KEPT_TO
            assert record["machine"]["instructions"].startswith(f"{narrow}; ")
        for key, check in record["checks"].items():
            assert measure.same(check), key
            assert check["sha256"] == record["works"][key.split()[0]]["sha256"], key
        ours = {run["workload"]: run["value"] for run in record["runs"].values() if run["peer"] == "fedroam"}
        for key, run in record["runs"].items():
            # Accuracy after all rounds, in which small differences have grown; a schedule's are none.
            room = 0.0 if run["workload"] == "S" else 0.01
            assert abs(run["value"] - ours[run["workload"]]) <= room, key


def test_vectors_are_narrowed_for_all_or_left_as_they_are(
    peers: Scripts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the environment of the measurement says of them."""
    measure = peers.measure
    monkeypatch.setenv("FEDROAM_VECTOR", "4")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    for peer in measure.PEERS.values():
        found = measure.surroundings(peer, tmp_path)
        assert not found.keys() & measure.KEPT_TO["AVX2"].keys()
        assert found.items() <= measure.surroundings(peer, tmp_path, "AVX2").items()
        assert measure.KEPT_TO["AVX2"].items() <= measure.surroundings(peer, tmp_path, "AVX2").items()


@pytest.mark.parametrize("only", ["", "AVX2"])
def test_a_second_call_goes_on_with_the_first_ones_record(only: str, peers: Scripts, tmp_path: Path) -> None:
    def bench() -> Any:
        return peers.measure.Bench(tmp_path / "record.json", tmp_path, tmp_path, 2, True, only)

    first = bench()
    first.record["runs"]["A fedroam 2 0"] = run_of("fedroam", 0)
    first.keep()
    assert bench().measure(["A"], [], 1, 60.0) == 0
    other = json.loads((tmp_path / "record.json").read_text())
    other[first.part]["machine"]["cores"] += 1
    (tmp_path / "record.json").write_text(json.dumps(other))
    with pytest.raises(SystemExit, match=f"{first.part} was measured on another machine"):
        bench().measure(["A"], [], 1, 60.0)


def test_a_figure_has_colours_for_light_and_dark(peers: Scripts) -> None:
    svg = '<svg width="9"><path style="fill: #ffffff; stroke: #1F2328"/><text style="fill: #d55e00">x</text></svg>'
    found = peers.page.both(svg)
    assert "#ffffff;" in found.split("</style>")[0]
    assert "prefers-color-scheme:dark" in found
    drawn = found.split("</style>")[1]
    assert "#ffffff" not in drawn
    assert "#1F2328" not in drawn
    assert "#d55e00" in drawn


def test_a_point_of_scaling_is_what_it_says(peers: Scripts) -> None:
    found = peers.scaling.play("hidden", clients=12, degree=4, hidden=2, workers=1)
    assert found["axis"] == "parameters"
    assert found["parameters"] == 784 * 2 + 2 + 2 * 10 + 10
    assert (found["clients"], found["workers"]) == (12, 1)
    assert 0 < found["degree"] < 11
    assert len(found["rounds_s"]) == peers.scaling.ROUNDS
    point = found | {"round_s": 0.006, "cpu_s": 0.25, "peak_bytes": 2**29, "measured": "2026-02-03"}
    machine = {"processor": "P", "target": "znver9", "vectors": "AVX512", "cores": 3}
    told = peers.scaling.table({"machine": machine, "points": {"a": point}}).splitlines()
    assert told[-3].endswith("| 1,600 | 1 | 6 ms | 500 ms | 0.25 s | 0.50 GiB |")
    assert told[-1] == "P (znver9, AVX512), 3 cores; 2026-02-03."
