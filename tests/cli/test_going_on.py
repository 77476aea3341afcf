"""The command that goes on after Ctrl-C, made in one place for run, sweep and reproduce."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer

from fedroam.cli.going_on import command, going_on
from fedroam.terminal.interrupts import STOPPED, Interrupted
from support.commands import Commands


def test_only_what_was_given_is_said_again_and_a_shell_reads_it_back() -> None:
    told = command(
        "sweep",
        "my file.toml",
        options={"--over": ["a=1,2", "b='x y'"], "--set": None, "--seeds": 0, "--memory": 2.0, "--quiet": True,
                 "--resume": False, "--use": []},
    )  # fmt: skip
    assert shlex.split(told) == [
        *("fedroam", "sweep", "my file.toml", "--over", "a=1,2", "--over", "b='x y'"),
        *("--seeds", "0", "--memory", "2", "--quiet"),
    ]


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        (Interrupted("stopped after\nround 3"), "stopped after round 3"),
        (KeyboardInterrupt(), "stopped at once; all is lost"),
    ],
)
def test_ctrl_c_ends_in_the_command(
    stop: BaseException, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, going_on("fedroam run x", "all is lost"):
        raise stop
    assert ended.value.exit_code == STOPPED
    assert capsys.readouterr().err == f"{words}\ngo on with: fedroam run x\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "tiny.toml"], "stopped; the same command goes on\n"),
        (["sweep", "tiny.toml", "--seeds", "2"], "stopped; the same command goes on\n"),
        (["connectivity", "tiny.toml"], "stopped\n"),
    ],
)
def test_ctrl_c_before_anything_has_begun(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    fr = Commands(tmp_path, capsys)
    fr.write("pressed.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    answer = fr(*words, "--use", "pressed.py")
    assert (answer.code, answer.err) == (STOPPED, said)
    assert not {path.name for path in fr.folder.iterdir()} & {"runs", "sweeps"}
