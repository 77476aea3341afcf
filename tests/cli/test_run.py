"""`fedroam run`: results, reuse, progress, Ctrl-C, failures."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fedroam import open_run, plan
from fedroam.recording import NOT_REPEATABLE
from support.commands import TINY, Commands, contents
from support.waiting import HANGS, eventually
from support.warm import python

SLOW = """\
import time
from pathlib import Path
from fedroam import field, register
from fedroam.mobility.grid import Random
@register("mobility", "slow")
class Slow(Random):
    "Waits until it may go on, so that nobody has to hurry."
    at: int = field(5, "the round that waits", unit="rounds", ge=1)
    def step(self, state, world, round):
        if round == self.at:
            Path("waits").touch()
            while not Path("go").exists():
                time.sleep(0.02)
        return super().step(state, world, round)
"""


@pytest.fixture
def fr(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rough_pictures: None,
) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def same_results(one: Path, other: Path) -> None:
    for name in ("rounds", "clients", "positions", "contacts"):
        a, b = (
            open_run(folder).table(name).drop(columns=list(NOT_REPEATABLE), errors="ignore")
            for folder in (one, other)
        )
        pd.testing.assert_frame_equal(a, b, check_exact=True, obj=name)


def test_a_run_ends_with_a_table_and_a_report(fr: Commands) -> None:
    answer = fr("run", "tiny.toml", "--seeds", "2")
    assert answer.code == 0
    home = next((fr.folder / "runs").glob("tiny-*"))
    assert f"report: runs/{home.name}/report.html" in answer.out
    assert (home / "report.html").stat().st_size > 1000
    finals = [open_run(home / f"seed-{k}").rounds["accuracy"].iloc[-1] for k in (0, 1)]
    mean, error = 50 * sum(finals), 50 * abs(finals[0] - finals[1])  # s / sqrt(2) of two is half their gap
    assert f"{mean:.1f} ± {error:.1f}" in answer.out


def test_a_single_run_has_its_report_in_its_own_folder(fr: Commands) -> None:
    answer = fr("run", "tiny.toml", "--out", "out", "--quiet")
    assert answer.code == 0
    assert "report: out/seed-0/report.html" in answer.out
    assert answer.err == ""


def test_no_report(fr: Commands) -> None:
    answer = fr.run("--out", "out")
    assert answer.code == 0
    assert "report" not in answer.out
    assert not list(fr.folder.rglob("report.html"))


def test_finished_runs_are_reused_and_it_says_so(fr: Commands) -> None:
    assert fr.run("--out", "out").code == 0
    before = contents(fr.folder / "out")
    answer = fr.run("--out", "out", "--seeds", "2")
    assert answer.code == 0
    assert "seed-0: finished already, reused" in answer.err
    assert "seed-1: round 3/3" in answer.err
    after = contents(fr.folder / "out")
    assert {name: after[name] for name in before} == before
    quiet = fr.run("--out", "out", "--seeds", "2", "--quiet")
    assert "reused: seed-0, seed-1" in quiet.out


def test_fresh_begins_anew(fr: Commands) -> None:
    assert fr.run("--out", "out").code == 0
    answer = fr.run("--out", "out", "--fresh", "--set", "rounds=2")
    assert answer.code == 0
    assert open_run(fr.folder / "out" / "seed-0").status["rounds"] == 2


def test_fresh_repairs_a_damaged_folder(fr: Commands) -> None:
    assert fr.run("--out", "out").code == 0
    (fr.folder / "out" / "seed-0" / "run.json").write_text("{")
    assert fr.run("--out", "out", "--fresh").code == 0
    assert open_run(fr.folder / "out" / "seed-0").done


def test_set_reaches_the_variants_that_know_the_setting(fr: Commands) -> None:
    fr.write("v.toml", TINY + '[variants.static]\nmobility.kind = "static"\n[variants.random]\n')
    answer = fr("run", "v.toml", "--set", "mobility.mobile=3", "--out", "out", "--no-report")
    assert answer.code == 0
    assert "note: mobility kind 'static' has no mobile: left out" in answer.out
    assert open_run("out/random/seed-0").settings["mobility"]["mobile"] == 3
    assert "mobile" not in open_run("out/static/seed-0").settings["mobility"]


def test_a_misspelt_set_is_not_taken_for_another_variants(fr: Commands) -> None:
    fr.write("v.toml", TINY + '[variants.static]\nmobility.kind = "static"\n')
    answer = fr("run", "v.toml", "--set", "mobility.mobil=3")
    assert answer.code == 2
    assert "did you mean 'mobile'?" in answer.err


def test_set_has_the_last_word_over_a_variants_own_setting(fr: Commands) -> None:
    fr.write("v.toml", TINY + "[variants.fast]\ntraining.lr = 1.0\n")
    runs = plan("v.toml", assignments=["training.lr=0.5"]).runs
    assert [run.experiment.training.lr for run in runs] == [0.5]  # type: ignore[attr-defined]


def test_workers_are_the_engines(fr: Commands) -> None:
    assert fr.run("--set", "engine=cpu", "--workers", "1", "--out", "out").code == 0
    assert open_run("out/seed-0").settings["engine"] == {"kind": "cpu", "workers": 1, "native": True}


def test_a_failed_run_is_one_line_and_exit_1(fr: Commands) -> None:
    fr.write(
        "broken.py",
        SLOW.replace('"slow"', '"broken"').replace("return super", "raise OSError('no fuel')  # "),
    )
    command = ["--use", "broken.py", "--set", "mobility.kind=broken", "--out", "out"]
    answer = fr.run(*command)
    assert answer.code == 1
    line = next(
        k for k, text in enumerate(Path("broken.py").read_text().splitlines(), 1) if "no fuel" in text
    )
    told = f"OSError: no fuel (broken.py, line {line})"
    assert answer.err.splitlines()[-1] == f"error: the run failed: out/seed-0: {told}"
    assert "Traceback" not in answer.err
    assert open_run("out/seed-0").status["reason"] == told
    told = fr.run(*command, "--resume", "--debug")
    assert told.code == 1
    assert "Traceback" in told.err
    assert "broken.py" in told.err


def program(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*python(), "-m", "fedroam", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"the program ended without {text!r}")


def test_ctrl_c_then_the_command_it_names_gives_the_uninterrupted_numbers(fr: Commands) -> None:
    fr.write("slow.py", SLOW)
    long = ["--use", "slow.py", "--set", "mobility.kind=slow", "--set", "rounds=40", "--no-report"]
    more = [*long, "--set", "checkpoint_every=1000"]
    running = program(fr.folder, "run", "tiny.toml", *more, "--out", "two words")
    wait_for(running, "round 4/40")
    eventually((fr.folder / "waits").exists, "the fifth round")
    running.send_signal(signal.SIGINT)
    wait_for(running, "stopping after this round (Ctrl-C again stops at once)")
    (fr.folder / "go").touch()
    _, err = running.communicate(timeout=HANGS)
    assert running.returncode == 130
    assert "Traceback" not in err
    there = open_run(fr.folder / "two words" / "seed-0")
    assert there.status["state"] == "interrupted"
    assert there.status["round"] == 5
    assert f"stopped after round {there.status['round']} of 40" in err
    command = next(line for line in err.splitlines() if line.startswith("go on with: "))
    words = shlex.split(command.removeprefix("go on with: "))
    assert words[0] == "fedroam"
    assert "--resume" in words
    assert fr(*words[1:]).code == 0
    assert fr("run", "tiny.toml", *long, "--out", "whole").code == 0
    same_results(fr.folder / "two words" / "seed-0", fr.folder / "whole" / "seed-0")


def test_a_second_ctrl_c_stops_at_once(fr: Commands) -> None:
    fr.write("slow.py", SLOW)
    running = program(
        fr.folder,
        "run",
        "tiny.toml",
        "--use",
        "slow.py",
        "--set",
        "mobility={kind='slow',at=1,mobile=2}",
    )
    wait_for(running, "round 0/3")
    eventually((fr.folder / "waits").exists, "the first round")
    running.send_signal(signal.SIGINT)
    wait_for(running, "Ctrl-C again stops at once")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=HANGS)  # the round itself would never end
    assert running.returncode == 130
    assert "Traceback" not in err
    assert "go on with: fedroam run tiny.toml" in err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_there_is_a_live_bar(fr: Commands) -> None:
    import pty

    controller, terminal = pty.openpty()
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "140"}
    command = [sys.executable, "-m", "fedroam", "run", "tiny.toml", "--no-report", "--seeds", "2"]
    done = subprocess.Popen(command, cwd=fr.folder, stdout=subprocess.DEVNULL, stderr=terminal, env=env)
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    assert done.wait(timeout=HANGS) == 0
    text = shown.decode()
    for wanted in ("seed-1, run 2/2", "round 3/3", "accuracy 0.", "rounds/s", "left", "━━━", "\x1b["):
        assert wanted in text, text


def test_a_pattern_that_puts_clients_nowhere_is_told_with_its_round(fr: Commands) -> None:
    begin, _ = SLOW.replace('"slow"', '"astray"').split("        if round == self.at:")
    step = (
        "        after, paths = super().step(state, world, round)\n"
        "        after['position'][0] += 0 if round < 2 else float('nan')\n"
        "        return after, paths\n"
    )
    fr.write("astray.py", begin + step)
    answer = fr.run("--use", "astray.py", "--set", "mobility.kind=astray", "--out", "out")
    assert answer.code == 2
    assert answer.err.splitlines()[-1] == (
        "error: mobility kind 'astray', round 2: client 0 is at (nan, nan), allowed are finite numbers, m"
    )


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_warning_is_a_line_once_a_process(command: str, fr: Commands) -> None:
    fr.write(
        "drawing.py",
        "import numpy as np\n"
        "from fedroam import register\n"
        "from fedroam.mobility.grid import Random\n"
        "@register('mobility', 'drawing')\n"
        "class Drawing(Random):\n"
        "    def step(self, state, world, round):\n"
        "        np.random.rand()\n"
        "        return super().step(state, world, round)\n",
    )
    given = ["--use", "drawing.py", "--set", "mobility.kind=drawing", "--seeds", "3"]
    given += ["--workers", "1"] if command == "sweep" else []
    running = program(fr.folder, command, "tiny.toml", *given)
    _, err = running.communicate(timeout=HANGS)
    assert running.returncode == 0, err
    assert err.count("global generator of numpy.random, which the seed does not reach") == 1
    assert next(line for line in err.splitlines() if "numpy.random" in line).startswith("warning: ")
    assert "warnings.warn" not in err
    assert "runner.py" not in err
