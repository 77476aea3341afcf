"""Sweeps as a whole: the same table however they are computed, interrupted, killed, or partly fail."""

from __future__ import annotations

import math
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pandas as pd
import pytest
import tomli_w

import fedroam
from fedroam.cli import main
from fedroam.errors import InputError
from fedroam.planning import SweepPlan, label, sweep_plan
from fedroam.sweep import Event, Progress, Sweep, open_sweep, running
from fedroam.sweep.estimate import estimate
from fedroam.sweep.folder import Ledger, run_folder
from fedroam.sweep.running import run_sweep
from support.sweeps import OVER, SEEDS, bad_parts, same, settings
from support.waiting import HANGS, eventually


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    return sweep_plan(settings(), over=OVER, seeds=SEEDS)


@pytest.fixture(scope="module")
def one_worker(plan: SweepPlan, tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """The 24 runs, one after the other."""
    return run_sweep(plan, tmp_path_factory.mktemp("sweep") / "one", workers=1)


def test_the_table_says_what_was_run(plan: SweepPlan, one_worker: Sweep) -> None:
    table, rounds = one_worker.table, one_worker.rounds
    assert len(table) == len(plan.runs) == 24
    assert (table["state"] == "done").all()
    assert one_worker.done
    assert list(table.columns[:5]) == ["mobility.kind", "training.lr", "contacts.radius", "seed", "digest"]
    assert list(rounds.columns[:5]) == ["mobility.kind", "training.lr", "contacts.radius", "seed", "round"]
    assert len(rounds) == 24 * 4  # rounds 0 to 3
    for row, swept, planned in zip(table.itertuples(), one_worker.runs, plan.runs, strict=True):
        assert swept.run is not None
        assert swept.digest == planned.experiment.digest == row.digest == swept.run.status["digest"]
        assert swept.keys == planned.keys
        assert row.accuracy == swept.run.rounds["accuracy"].iloc[-1]
        assert swept.run.settings["mobility"]["kind"] == swept.keys["mobility.kind"]
        assert swept.run.settings["engine"]["workers"] == 1
        assert (row.round, row.rounds) == (3, 3)
    assert table["accuracy"].nunique() > 12  # the runs are no copies of each other
    assert fedroam.open_sweep(one_worker.folder).table.equals(table)
    assert not (one_worker.folder / ".data").exists()
    # The folder's own description is the sweep.
    again = sweep_plan(one_worker.folder / "sweep.toml")
    assert list(again.distinct) == list(plan.distinct)


def test_a_finished_sweep_is_not_computed_again_and_grows_by_seeds(
    plan: SweepPlan, one_worker: Sweep, tmp_path: Path
) -> None:
    began: list[str] = []

    def observe(progress: Progress, event: Event) -> None:
        if event.what == "begun":
            began.append(event.digest)

    before = {path: path.stat().st_mtime_ns for path in one_worker.folder.glob("runs/*/*.parquet")}
    same(run_sweep(plan, one_worker.folder, observer=observe), one_worker)
    assert began == []
    assert before == {path: path.stat().st_mtime_ns for path in one_worker.folder.glob("runs/*/*.parquet")}
    other = sweep_plan(settings(rounds=2))
    with pytest.raises(InputError, match="holds another sweep"):
        run_sweep(other, one_worker.folder)
    assert open_sweep(one_worker.folder).done


def kill_a_worker() -> None:
    workers = [p for p in multiprocessing.active_children() if p.name == "fedroam-worker"]
    assert workers
    assert workers[0].pid is not None
    os.kill(workers[0].pid, signal.SIGKILL)


def test_two_workers_and_one_of_them_killed_twice_give_the_same_table(
    plan: SweepPlan, one_worker: Sweep, tmp_path: Path
) -> None:
    again: list[str] = []
    rounds = 0

    def observe(progress: Progress, event: Event) -> None:
        nonlocal rounds
        rounds += event.what == "round"
        if event.what == "round" and rounds in (20, 50):
            kill_a_worker()
        if event.what == "again":
            again.append(event.text)

    sweep = run_sweep(plan, tmp_path / "two", workers=2, observer=observe)
    same(sweep, one_worker)
    assert again  # a worker was in the middle of a run (it may also have been between two)
    assert all("killed by SIGKILL" in text for text in again)
    assert not [p for p in multiprocessing.active_children() if p.name == "fedroam-worker"]


def start(file: Path, out: Path) -> subprocess.Popen[str]:
    words = ["sweep", str(file), "--out", str(out), "--workers", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "fedroam", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def descendants(pid: int) -> list[int]:
    """All processes below one, as Linux tells."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(words[1]), []).append(int(path.parent.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def done_runs(out: Path) -> int:
    return sum('"state": "done"' in path.read_text() for path in out.glob("runs/*/run.json"))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc")
def test_ctrl_c_and_then_sigkill_of_the_whole_sweep_lose_nothing(tmp_path: Path) -> None:
    """Stopped by Ctrl-C, begun again, killed outright, begun again: the same table as without all that."""
    long = settings(rounds=120, checkpoint_every=3, sweep={"grid": {"training.lr": [0.1, 0.2]}}, seeds=3)
    file, out = tmp_path / "long.toml", tmp_path / "out"
    file.write_text(tomli_w.dumps(long))

    first = start(file, out)
    eventually(
        lambda: '"state": "running"' in "".join(p.read_text() for p in out.glob("runs/*/run.json")),
        "a run begins",
    )
    first.send_signal(signal.SIGINT)
    _, told = first.communicate(timeout=HANGS)
    assert first.returncode == 130
    assert f"go on with: fedroam sweep {file} --out {out} --workers 2" in told
    stopped = open_sweep(out)
    assert "interrupted" in {row.state for row in stopped.runs}
    assert not stopped.done
    reached = {
        row.digest: row.run.status["round"] for row in stopped.runs if row.run and row.state == "interrupted"
    }

    spent = {
        digest: seconds
        for digest, record in stopped.info["records"].items()
        if (seconds := record.get("cpu_seconds_before"))
    }
    assert spent.keys() == reached.keys()

    second = start(file, out)
    before = done_runs(out)
    eventually(lambda: done_runs(out) > before, "another run is done")
    below = descendants(second.pid)
    assert len(below) >= 3  # the fork server and two workers, at least
    second.kill()
    second.wait()
    eventually(lambda: not any(alive(pid) for pid in below), "the workers notice and end")
    assert second.stderr is not None
    second.stderr.close()

    first_rounds: dict[str, int] = {}

    def observe(progress: Progress, event: Event) -> None:
        if event.what == "round":
            first_rounds.setdefault(event.digest, progress.running[event.digest].round)

    plan = sweep_plan(file)
    sweep = run_sweep(plan, out, workers=2, observer=observe)
    assert sweep.done
    assert 0 < len(first_rounds) < 6  # those that were finished are not among them
    for digest, round in first_rounds.items():
        assert round > reached.get(digest, -1)  # interrupted ones went on from their checkpoint
    for (
        digest,
        seconds,
    ) in spent.items():  # of a run that ended as its sweep was killed nobody knows what it took
        assert sweep.info["records"][digest].get("cpu_seconds", math.inf) > seconds
    same(sweep, run_sweep(plan, tmp_path / "calm", workers=2))


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    """A sweep of five variants, four of which are wrong."""
    kinds = ("static", "raising", "hungry", "deadly")
    variants: dict[str, object] = {kind: {"mobility": {"kind": kind}} for kind in kinds}
    variants["misspelt"] = {"mobility": {"kind": "static", "gird": 3}}
    path = tmp_path / "failing.toml"
    path.write_text(tomli_w.dumps(settings(use=[bad_parts(tmp_path)], variants=variants)))
    return path


def test_failures_are_told_in_a_line_each_and_do_not_stop_the_others(
    failing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["sweep", str(failing), "--out", str(out), "--workers", "2", "--memory", "4"]
    assert main(words) == 1
    captured = capsys.readouterr()
    reasons = {
        "raising": "ValueError: lost in round 2 (bad_parts.py, line 23)",
        "hungry": "out of memory, a worker may take 2 GiB: fewer --workers or more --memory",
        "deadly": "killed by SIGKILL (by hand, or by the system for want of memory), 3 times",
        "misspelt": "did you mean 'grid'",
    }
    lines = [line for line in captured.out.splitlines() if line.startswith(("failed: ", "refused: "))]
    assert len(lines) == 4
    for name, reason in reasons.items():
        what = "refused" if name == "misspelt" else "failed"
        assert sum(line.startswith(f"{what}: {name}, seed 0: ") and reason in line for line in lines) == 1
    assert "refused: misspelt, seed 0: mobility" in captured.err
    assert "error: 1 refused: there is no run of such settings" in captured.err
    assert "error: 3 of the runs failed; after mending what is wrong: --retry-failed" in captured.err
    table = open_sweep(out).table.set_index("variant")
    assert table["state"].to_dict() == {**dict.fromkeys(reasons, "failed"), "static": "done"}
    assert table.loc["static", "accuracy"] > 0

    # Not tried again unless asked for; the ending says so again.
    began: list[str] = []

    def observe(progress: Progress, event: Event) -> None:
        if event.what == "begun":
            began.append(event.title)

    plan = sweep_plan(failing)
    run_sweep(plan, out, observer=observe)
    assert began == []
    assert main([*words, "--quiet"]) == 1
    sweep = run_sweep(plan, out, memory_gib=4, workers=2, observer=observe, retry_failed=True)
    assert {title.partition(",")[0] for title in began} == {"raising", "hungry", "deadly"}
    assert [row.state for row in sweep.runs].count("failed") == 4


def test_two_sweeps_do_not_share_a_folder_and_fresh_begins_anew(tmp_path: Path) -> None:
    plan = sweep_plan(settings(), over=["training.lr=0.1,0.2"])
    refused: list[str] = []

    def observe(progress: Progress, event: Event) -> None:
        if event.what == "begun" and not refused:
            with pytest.raises(InputError, match="another process is working on this sweep") as error:
                run_sweep(plan, tmp_path / "out")
            refused.append(str(error.value))

    first = run_sweep(plan, tmp_path / "out", observer=observe, workers=1)
    assert refused
    assert first.done
    stamps = {path: path.stat().st_mtime_ns for path in first.folder.glob("runs/*/rounds.parquet")}
    anew = run_sweep(plan, tmp_path / "out", fresh=True, workers=2)
    same(first, anew)
    for path, stamp in stamps.items():
        assert path.stat().st_mtime_ns > stamp


def test_what_was_spent_on_a_run_that_was_killed_is_what_it_has_recorded(tmp_path: Path) -> None:
    """A sitting that was killed notes nothing; what Ctrl-C noted counts, and what cannot be read counts nothing."""
    plan = sweep_plan(settings(rounds=6, checkpoint_every=2))
    (digest,) = plan.distinct
    folder = run_folder(tmp_path, digest)

    def broken_off(round: int, rounds: int, measurement: object) -> None:
        if round == 4:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        fedroam.run(plan.distinct[digest].experiment, folder, observer=broken_off)
    took = fedroam.open_run(folder).rounds["seconds"].iloc[-1]
    assert took > 0

    def spent(**noted: float) -> float:
        ledger = Ledger(tmp_path, plan, {digest: dict(noted)})
        assert list(running.unfinished(plan, tmp_path, ledger, False)) == [digest]
        return ledger.spent(digest)

    assert spent() == took
    assert spent(cpu_seconds_before=5.0) == 5.0
    for path in folder.rglob("*"):
        if path.suffix not in {".json", ""}:
            path.write_bytes(b"")
    assert spent() == 0.0


def test_a_run_in_the_folder_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    plan = sweep_plan(settings(rounds=1, sweep={"grid": {"training.lr": [0.1, 0.2]}}))
    out = tmp_path / "out"
    run_sweep(plan, out, workers=1)
    one, other = (run_folder(out, digest) for digest in plan.distinct)
    shutil.rmtree(one)
    shutil.copytree(other, one)
    said = r"run.json: digest = \w{16}, of other settings; this folder of the sweep is that of \w{16}. Move it away"
    for use in (lambda: run_sweep(plan, out, workers=1), lambda: open_sweep(out).runs):
        with pytest.raises(InputError, match=said):
            use()
    shutil.rmtree(one)
    assert run_sweep(plan, out, workers=1).done


def test_what_another_process_noted_until_the_folder_was_locked_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = sweep_plan(settings())
    (digest,) = plan.distinct
    really = running.lock_folder

    def another_was_sooner(folder: Path, busy: str) -> IO[str]:
        lock = really(folder, busy)
        Ledger(
            folder, plan, {digest: {"state": "failed", "reason": "lost", "cpu_seconds_before": 5.0}}
        ).write()
        return lock

    monkeypatch.setattr(running, "lock_folder", another_was_sooner)
    sweep = run_sweep(plan, tmp_path / "out")
    assert [row.reason for row in sweep.failed] == ["lost"]
    assert sweep.info["records"][digest]["cpu_seconds_before"] == 5.0


def test_what_was_to_be_replaced_is_not_taken_for_the_new_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--fresh` where one of two files can no longer be read: it has failed, whatever lies in its runs' folders."""
    monkeypatch.chdir(tmp_path)
    good = "a,b,y\n" + "".join(f"{k % 7},{k % 5},{k % 2}\n" for k in range(60))
    for name in ("d.csv", "d2.csv"):
        Path(name).write_text(good)
    data = {"kind": "csv", "path": "d.csv", "label": "y", "test_share": 0.5}
    Path("t.toml").write_text(tomli_w.dumps(settings(data=data)))
    words = ["sweep", "t.toml", "--over", "data.path=d.csv,d2.csv", "--out", "out", "--quiet"]
    assert main(words) == 0
    before = open_sweep(tmp_path / "out").table.set_index("data.path")["accuracy"]

    Path("d2.csv").write_text("nothing\n")
    assert main([*words, "--fresh"]) == 1
    for asked in ((), ("--fresh",)):  # the next call tries them no more, unless it begins all anew again
        assert main([*words, *asked]) == 1
        sweep = open_sweep(tmp_path / "out")
        assert not sweep.done
        assert [row.keys["data.path"] for row in sweep.failed] == ["d2.csv"]
        assert "d2.csv" in sweep.failed[0].reason
        assert sweep.table.set_index("data.path")["accuracy"].notna().to_dict() == {
            "d.csv": True,
            "d2.csv": False,
        }

    Path("d2.csv").write_text(good)
    assert main(words) == 1
    assert main([*words, "--retry-failed"]) == 0
    assert open_sweep(tmp_path / "out").table.set_index("data.path")["accuracy"].equals(before)


def test_a_sweep_that_was_to_begin_anew_and_was_stopped_before_is_not_done(tmp_path: Path) -> None:
    plan = sweep_plan(settings(), over=["training.lr=0.1,0.2"])
    first = run_sweep(plan, tmp_path / "out", workers=1)
    Ledger(first.folder, plan, {digest: {"anew": True} for digest in plan.distinct}).write()
    stopped = open_sweep(first.folder)
    assert not stopped.done
    assert [(row.state, row.run) for row in stopped.runs] == [("waiting", None)] * 2
    same(run_sweep(plan, first.folder, workers=1), first)


def test_equal_runs_are_computed_once_and_stand_for_every_combination(tmp_path: Path) -> None:
    over = ["mobility.kind=static,random", "mobility.mobile=1,2"]
    plan = sweep_plan(settings(clients=5), over=over, seeds=2)
    done: list[str] = []

    def observe(progress: Progress, event: Event) -> None:
        if event.what == "done":
            done.append(event.digest)

    sweep = run_sweep(plan, tmp_path / "out", observer=observe)
    assert len(done) == len(set(done)) == 6
    assert len(sweep.table) == 8
    table = sweep.table.set_index(["mobility.kind", "mobility.mobile", "seed"])["accuracy"]
    for seed in (0, 1):
        assert table["static", 1, seed] == table["static", 2, seed]
    assert len(sweep.rounds) == 8 * 4
    # What other commands see of the folder: the runs, each once.
    assert len(fedroam.open_runs(sweep.folder)) == 6


def test_a_dry_run_lists_and_estimates_and_writes_nothing(
    plan: SweepPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "e.toml", tmp_path / "out"
    file.write_text(tomli_w.dumps(settings(rounds=6)))
    words = ["sweep", str(file), "--over", "mobility.kind=static,random", "--seeds", "2", "--out", str(out)]
    assert main([*words, "--dry-run"]) == 0
    assert not out.exists()
    told = capsys.readouterr().out
    planned = sweep_plan(file, over=["mobility.kind=static,random"], seeds=2)
    assert all(digest[:16] in told for digest in planned.distinct)
    assert told.count("to be computed") == 4 + 1
    assert re.search(r"time: about \d+:\d\d:\d\d", told)
    assert "measured on 2 variants" in told
    assert "memory: about 0." in told


def test_estimates_of_what_fails_and_what_was_not_measured(tmp_path: Path) -> None:
    from fedroam.components import use

    use(bad_parts(tmp_path))
    plan = sweep_plan(settings(), over=["mobility.kind=static,raising"])
    found = estimate(plan.distinct, 2, use=plan.use, budget=0.1, below=tmp_path)
    assert list(found.failed.values()) == ["ValueError: lost in round 2 (bad_parts.py, line 23)"]
    assert found.measured == 1
    assert len(found.by_run) == 2
    assert found.seconds >= max(found.by_run.values()) > 0
    assert found.data == 1797 * (64 * 4 + 8)
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"bad_parts.py"}


def test_keys_of_any_kind_make_good_columns(tmp_path: Path) -> None:
    parts = [{"kind": "mlp", "hidden": [8]}, "softmax_regression"]
    plan = sweep_plan(settings(rounds=1, sweep={"grid": {"model": parts, "clients": [3, 4]}}))
    sweep = run_sweep(plan, tmp_path / "out")
    assert list(sweep.table["model"].unique()) == [label(parts[0]), "softmax_regression"]
    pd.testing.assert_series_equal(
        sweep.rounds.groupby(["model", "clients"], sort=False)["round"].max().reset_index(drop=True),
        pd.Series([1, 1, 1, 1], name="round"),
    )


@pytest.mark.parametrize(
    "words", [["--ray"], ["--ray", "--quiet"], ["--ray", "auto"], ["--ray", "ray://head:10001"]]
)
@pytest.mark.parametrize("before", [True, False])
def test_ray_may_stand_alone_and_names_the_extra_where_it_is_missing(
    words: list[str],
    before: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    file = tmp_path / "e.toml"
    file.write_text(tomli_w.dumps(settings()))
    rest = [str(file), "--out", str(tmp_path / "out")]
    assert main(["sweep", *words, *rest] if before else ["sweep", *rest, *words]) == 2
    assert "pip install -c constraints.txt '.[ray]'" in capsys.readouterr().err
