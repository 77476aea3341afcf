"""What a sweep shows while it runs, and sweeps started from scripts."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

import fedroam
from fedroam.cli.sweep_progress import SweepLines, SweepProgress, by_reason, headline, render
from fedroam.sweep import Progress
from support.sweeps import settings
from support.warm import python

SCRIPT = """
import fedroam
from fedroam.mobility.grid import Static

@fedroam.register("mobility", "hermit")
class Hermit(Static):
    "A part of a script."

def sweep():
    plan = fedroam.sweep_plan({base!r}, over=["mobility.kind=static,hermit"])
    fedroam.run_sweep(plan, {out!r}, workers=1)
"""


def midway() -> tuple[Progress, list[float]]:
    """One of four runs was there, one is half done."""
    now = [0.0]
    progress = Progress(4, 1, {"a": 1.0, "b": 1.0, "c": 1.0}, clock=lambda: now[0])
    progress.begin("a", "lr=[0.1], seed 0", rounds=10)
    progress.advance("a", 0, 0.25)
    now[0] = 30.0
    progress.advance("a", 5, None)
    return progress, now


def test_the_live_table_shows_runs_rounds_accuracy_and_time_left() -> None:
    progress, _ = midway()
    assert headline(progress) == "1 of 4 runs done, 1 running, 0:02:30 left"
    console = Console(file=io.StringIO(), width=80)
    console.print(render(progress))
    assert isinstance(console.file, io.StringIO)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert lines[1] == ["running", "round", "accuracy"]
    assert lines[2] == ["lr=[0.1],", "seed", "0", "5/10", "0.250"]  # brackets are no markup
    for k in range(40):
        progress.begin(f"more {k}", f"more {k}", rounds=1)
    console.print(render(progress))
    assert "and 9 more" in console.file.getvalue()


def test_plain_lines_tell_ends_failures_and_new_beginnings(capsys: pytest.CaptureFixture[str]) -> None:
    progress, _ = midway()
    lines, quiet = SweepLines(), SweepProgress()
    for show in (lines, quiet):
        with show:
            show.follow(progress, progress.advance("a", 6, 0.5))
    assert capsys.readouterr().err == ""
    done = progress.end("a", "done")
    lines.follow(progress, done)
    quiet.follow(progress, done)
    assert capsys.readouterr().err == (
        "lr=[0.1], seed 0: done, accuracy 0.5000; 2 of 4 runs done, 0 running, 0:01:40 left\n"
    )
    progress.begin("b", "b", rounds=2)
    again = progress.end("b", "again", "its worker was killed by SIGKILL")
    progress.begin("b", "b", rounds=2)
    failed = progress.end("b", "failed", "out of luck")
    for show in (lines, quiet):
        show.follow(progress, again)
        show.follow(progress, failed)
        assert capsys.readouterr().err == (
            "b: its worker was killed by SIGKILL; it begins again at its last checkpoint\nb: failed: out of luck\n"
        )


def run_script(path: Path, ending: str) -> subprocess.CompletedProcess[str]:
    text = SCRIPT.format(base=settings(rounds=1), out=str(path.parent / "out"))
    path.write_text(text + ending)
    return subprocess.run([*python(), str(path)], capture_output=True, text=True, check=False)


def test_a_script_may_define_parts_for_its_sweep(tmp_path: Path) -> None:
    done = run_script(tmp_path / "script.py", "\nif __name__ == '__main__':\n    sweep()\n")
    assert done.returncode == 0, done.stderr
    table = fedroam.open_sweep(tmp_path / "out").table
    assert list(table["state"]) == ["done", "done"]
    assert table["accuracy"].nunique() == 1  # a hermit is static


def test_a_script_without_the_main_line_is_told_of_it(tmp_path: Path) -> None:
    failed = run_script(tmp_path / "script.py", "\nsweep()\n")
    assert failed.returncode == 1
    last = failed.stderr.strip().splitlines()[-1]
    assert "worker processes cannot start" in last
    assert "if __name__ == '__main__':" in last


def test_failures_are_told_by_reason() -> None:
    failed = [("a, seed 0", "no such file"), ("b, seed 0", "lost"), ("a, seed 1", "no such file")]
    assert by_reason(failed) == ["a, seed 0 and 1 more: no such file", "b, seed 0: lost"]
    assert by_reason([]) == []
