"""`fedroam watch` and `fedroam serve` as commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from support.commands import Commands
from support.made_runs import made_run
from support.waiting import HANGS
from support.warm import python


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def test_watch_tells_each_run_and_ends_when_all_are_over(call: Commands) -> None:
    made_run(call.folder / "runs", "a", 0, [0.1, 0.5])
    answer = call("watch", "runs")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "made/a, seed 0: done, round 10/10, accuracy 0.5000\n"


def test_watch_once_shows_what_is_running(call: Commands) -> None:
    made_run(call.folder / "runs", "a", 0, [0.1, 0.5])
    made_run(call.folder / "runs", "b", 3, [0.1, 0.25], done=False, planned=40)
    answer = call("watch", "runs", "--once")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[1].split()[:3] == ["made/b", "3", "running"]  # what is in hand comes first
    assert "10/40" in lines[1]
    assert "0.250" in lines[1]
    assert lines[-1] == "1 done, 1 running"


def test_watch_ends_when_nobody_computes_a_run_any_more(call: Commands) -> None:
    made_run(call.folder / "runs", "a", 0, [0.1, 0.5])
    killed = made_run(call.folder / "runs", "b", 3, [0.1, 0.25], done=False, planned=40)
    (killed.folder / ".lock").touch()
    answer = call("watch", "runs")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[1:] == [
        "made/b, seed 3: stopped, round 10/40, accuracy 0.2500",
        "1 of 2 runs are not finished, and nobody computes them: the command that began them goes on (fedroam run with "
        "--resume, fedroam sweep as it was)",
    ]


def test_names_never_act_on_the_terminal(call: Commands) -> None:
    made_run(call.folder / "runs", "a", 0, [0.1, 0.5], name="[red]x[/red]\x1b[2J")
    for more in ((), ("--once",)):
        answer = call("watch", "runs", *more)
        assert answer.code == 0
        assert "\x1b" not in answer.out
        assert "[red]x" in answer.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("watch", "nowhere"), "nowhere: no such folder"),
        (("watch", "."), "no run folder here or below"),
        (("watch", ".", "--every", "0"), "--every 0: allowed are 0.2 to 3600 seconds"),
        (("serve", "nowhere"), "nowhere: no such folder"),
        (("serve", ".", "--port", "70000"), "70000"),
    ],
)
def test_wrong_input(call: Commands, words: tuple[str, ...], told: str) -> None:
    answer = call(*words)
    assert answer.code == 2
    assert told in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_serve_answers_and_ends_quietly_with_ctrl_c(tmp_path: Path) -> None:
    made_run(tmp_path / "runs", "a", 0, [0.1, 0.5])
    words = [*python(), "-m", "fedroam", "serve", "runs", "--port", "0"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = line.split(" at ")[1].split()[0]
            with urllib.request.urlopen(f"{url}api/runs", timeout=HANGS) as answer:
                assert b'"made/a"' in answer.read()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=HANGS)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")
