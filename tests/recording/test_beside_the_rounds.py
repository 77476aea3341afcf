"""Checkpoints are made safe by a thread of their own, while the next rounds are computed."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedroam.experiment import Experiment
from fedroam.recording import Recorder, Run, checkpoint, open_run
from fedroam.runner import run
from fedroam.terminal.interrupts import Interrupted
from support.scripts import benchmark
from support.tiny import own_data, tiny
from support.waiting import HANGS


def small(**settings: Any) -> Experiment:
    """Four rounds, each evaluated and saved."""
    return tiny(**{"clients": 3, "rounds": 4, "evaluate_every": 1, "data": own_data(), **settings})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing held up."""
    return run(small(), tmp_path_factory.mktemp("whole") / "run").folder


def differences(one: Path, other: Path) -> list[str]:
    """In what two finished runs differ."""
    found: list[str] = benchmark("kill_and_resume").differences(one, other)
    return found


class SlowDisk:
    """Flushes nothing of the checkpoint of one round until it is let go."""

    def __init__(self, patch: pytest.MonkeyPatch, round: int) -> None:
        self.waiting, self.go_on, self.under_way = threading.Event(), threading.Event(), 0
        self.threads: set[int] = set()
        make_safe = Recorder._make_safe

        def made_safe(recorder: Recorder, of: int, *what: Any) -> None:
            self.threads.add(threading.get_ident())
            self.under_way += 1
            assert self.under_way == 1  # never two
            if of == round:
                self.waiting.set()
                assert self.go_on.wait(HANGS)
            make_safe(recorder, of, *what)
            self.under_way -= 1

        patch.setattr(Recorder, "_make_safe", made_safe)


def test_rounds_go_on_while_the_disk_is_slow(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(monkeypatch, round=1)
    newest: dict[int, Path | None] = {}
    checkpoints = tmp_path / "run" / "checkpoints"

    def watch(round: int, rounds: int, measurement: Any) -> None:
        if round == 2:  # which is over, and the checkpoint of the round before it is not
            assert disk.waiting.wait(HANGS)
        newest[round] = checkpoint.newest(checkpoints)
        if round == 2:
            disk.go_on.set()

    run(small(), tmp_path / "run", observer=watch)
    assert newest[2] == checkpoints / "round-00000000.safetensors"
    # The third round began after the checkpoint of the second had waited for that of the first.
    assert newest[3] in [checkpoints / f"round-0000000{k}.safetensors" for k in (1, 2)]
    assert threading.get_ident() not in disk.threads
    assert differences(whole, tmp_path / "run") == []


def test_a_checkpoint_holds_the_models_of_its_round_though_they_are_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of one round ends with what the checkpoint of round 1 must hold."""
    disk = SlowDisk(monkeypatch, round=1)
    kept: dict[str, np.ndarray] = {}

    def watch(round: int, rounds: int, measurement: Any) -> None:
        if round == 2:
            disk.go_on.set()
        if round == 3:
            path = tmp_path / "run" / "checkpoints" / "round-00000001.safetensors"
            kept.update(checkpoint.load(path, small().digest).arrays)

    run(small(), tmp_path / "run", observer=watch)
    monkeypatch.undo()
    one = small(rounds=1)
    ended = checkpoint.newest(run(one, tmp_path / "one").folder / "checkpoints")
    assert ended is not None
    there = checkpoint.load(ended, one.digest).arrays
    assert sorted(there) == sorted(kept)
    for name, array in there.items():
        np.testing.assert_array_equal(array, kept[name], err_msg=name)


def test_a_full_disk_is_told_though_another_thread_met_it(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the checkpoint after it, or at the end of the run; the one before it is gone on from."""
    fsync, main = os.fsync, threading.get_ident()
    met: list[int] = []

    def full(handle: int) -> None:
        if threading.get_ident() != main and len(list((tmp_path / "run" / "checkpoints").glob("*[!p]"))) == 2:
            met.append(threading.get_ident())
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        run(small(), tmp_path / "run")
    assert met
    monkeypatch.undo()
    failed = open_run(tmp_path / "run")
    assert failed.status["state"] == "failed"
    assert "No space left on device" in failed.status["reason"]
    assert not list((tmp_path / "run" / "checkpoints").glob("*.tmp"))
    assert run(small(), tmp_path / "run").done
    assert differences(whole, tmp_path / "run") == []


def test_who_stops_a_run_finds_its_last_checkpoint(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(monkeypatch, round=2)

    def stop(round: int, rounds: int, measurement: Any) -> None:
        if round == 2:
            os.kill(os.getpid(), 2)
            threading.Thread(target=lambda: disk.waiting.wait(HANGS) and disk.go_on.set()).start()

    with pytest.raises(Interrupted, match="after round 2 of 4"):
        run(small(), tmp_path / "run", observer=stop)
    left = Run(tmp_path / "run")
    assert (left.status["state"], left.status["round"]) == ("interrupted", 2)
    newest = checkpoint.newest(tmp_path / "run" / "checkpoints")
    assert newest is not None
    assert newest.stem == "round-00000002"
    assert run(small(), tmp_path / "run").done
    assert differences(whole, tmp_path / "run") == []


def test_two_kills_and_other_facts_of_the_machine_leave_a_folder_that_is_gone_on_with(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes while files that the manifest lists are written anew, and say something else."""

    class Kill(BaseException):
        pass

    def stop(round: int, rounds: int, measurement: Any) -> None:
        if round == 2:
            raise Kill

    with pytest.raises(Kill):
        run(small(), tmp_path / "run", observer=stop)

    def die(*_: Any, **__: Any) -> None:
        raise Kill

    before = (tmp_path / "run" / "environment.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("fedroam.runner.describe", die)  # after environment.json, before all is noted again
        with pytest.raises(Kill):
            run(small(), tmp_path / "run", facts={"where": "on another machine"})
    assert (tmp_path / "run" / "environment.json").read_bytes() != before
    assert run(small(), tmp_path / "run").done
    assert differences(whole, tmp_path / "run") == []
