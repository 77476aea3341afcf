"""Ctrl-C at the worst moments: each is pinned by a part of one's own that sends the signals itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedroam.terminal.interrupts import Interrupted, StoppedAtOnce, WholeProgram, interrupts
from support.commands import TINY, Commands
from support.waiting import HANGS
from support.warm import python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")

# A mobility pattern that does something in a round of a run.
PART = """\
import atexit, os, signal
from fedroam import field, register
from fedroam.mobility.grid import Random

def press(times=1):
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)

@register("mobility", "pressed")
class Pressed(Random):
    "Ctrl-C in a round."
    at: int = field(1, "in this round", unit="rounds", ge=1)
    def step(self, state, world, round):
        if round == self.at and not os.path.exists("pressed"):
            open("pressed", "w").close()
{do}
        return super().step(state, world, round)
"""

# What the import of a library does all the time: functions of data classes and named tuples are made by such texts.
# And more of it while the interpreter shuts down.
IN_TEXT = "atexit.register(press, 3); exec('press(2)', {'press': press})"
# Two at once; then one for every line that is said from then on.
WHILE_SPEAKING = """\
import sys
class Pressing:
    def __init__(self, stream): self.stream = stream
    def write(self, text): press(); self.stream.write(text)
    def flush(self): press(); self.stream.flush()
sys.stderr = Pressing(sys.stderr)
press(2)
"""


def call(folder: Path, do: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own, with a part that does `do`."""
    (folder / "pressed.py").write_text(PART.format(do=textwrap.indent(textwrap.dedent(do), " " * 12)))
    (folder / "tiny.toml").write_text(TINY)
    own = ["--use", "pressed.py", "--set", "mobility.kind=pressed"]
    return subprocess.run(
        [*python(), "-m", "fedroam", *arguments, *own],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("do", [IN_TEXT, WHILE_SPEAKING], ids=["in_text", "while_speaking"])
def test_a_stop_at_once_ends_with_its_words_and_130(tmp_path: Path, do: str) -> None:
    done = call(tmp_path, do, "run", "tiny.toml", "--out", "out")
    assert done.returncode == 130, done.stderr  # -2 would be the signal itself
    assert "stopped at once; the rounds since the last checkpoint are lost" in done.stderr
    assert "go on with: fedroam run tiny.toml" in done.stderr
    for word in ("Traceback", "KeyboardInterrupt", "ignored"):
        assert word not in done.stderr


def test_a_stop_after_the_round_is_told_whole_however_often_it_is_pressed_then(tmp_path: Path) -> None:
    done = call(tmp_path, WHILE_SPEAKING.replace("press(2)", "press()"), "run", "tiny.toml", "--quiet")
    assert done.returncode == 130, done.stderr
    assert "stopped after round 1 of 3" in done.stderr
    assert "go on with: fedroam run tiny.toml" in done.stderr


@pytest.mark.parametrize("times", [1, 2])
def test_a_sweep_ends_with_its_words_and_130(tmp_path: Path, times: int) -> None:
    """The sweep itself is pressed (its workers are out of Ctrl-C's reach), and again while it speaks."""
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "sweeping.py").write_text(
        textwrap.dedent(f"""\
        import os, signal, sys
        from fedroam.cli import main, sweep_progress
        from fedroam.sweep import running
        def press():
            os.kill(os.getpid(), signal.SIGINT)
        class Pressing:
            def __init__(self, stream): self.stream = stream
            def write(self, text): press(); self.stream.write(text)
            def flush(self): press(); self.stream.flush()
        def stopped(*_):
            for _ in range({times}):
                exec("press()", {{"press": press}})
            sys.stderr = Pressing(sys.stderr)
            raise running.Interrupted("stopped with 2 of 2 runs unfinished")
        running.pool_size = stopped
        running.warm_up = lambda: None
        if __name__ == "__main__":
            sys.argv = ["fedroam", "sweep", "tiny.toml", "--seeds", "2", "--out", "out"]
            raise SystemExit(main())
        """)
    )
    done = subprocess.run(
        [*python(), "-m", "sweeping"], cwd=tmp_path, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 130, done.stderr
    assert ("stopped at once" if times == 2 else "stopped with 2 of 2 runs") in done.stderr
    assert "go on with: fedroam sweep tiny.toml" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_in_the_last_round_of_a_run_stops_before_the_next(tmp_path: Path) -> None:
    words = ["run", "tiny.toml", "--seeds", "2", "--out", "out", "--set", "mobility.at=3", "--no-report"]
    done = call(tmp_path, "press()", *words)
    assert done.returncode == 130, done.stderr
    assert "stopped after 1 of 2 runs" in done.stderr
    assert (tmp_path / "out" / "seed-0" / "run.json").exists()
    assert not (tmp_path / "out" / "seed-1").exists()
    again = call(tmp_path, "press()", *words, "--resume")
    assert again.returncode == 0, again.stderr


def test_an_end_that_hangs_can_still_be_stopped(tmp_path: Path) -> None:
    script = """\
        import os, signal, time
        from fedroam.terminal import interrupts
        interrupts.PATIENCE = 0.2
        def press(): os.kill(os.getpid(), signal.SIGINT)
        with interrupts.WholeProgram(for_good=True) as program:
            program.ending()
            press()
            print("still here", flush=True)
            time.sleep(0.3)
            press()
            time.sleep(60)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=HANGS
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "still here\n", "")


@pytest.fixture
def handled() -> Iterator[None]:
    """Whatever a test does, the next one has pytest's own Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("handled")
class TestHandlers:
    def test_the_first_is_noted_the_second_and_third_raise(self) -> None:
        told: list[int] = []
        before = signal.getsignal(signal.SIGINT)
        with interrupts(lambda: told.append(1)) as interrupted:
            assert not interrupted()
            press()
            assert interrupted()
            for _ in range(2):  # a library may have swallowed the second one
                with pytest.raises(StoppedAtOnce):
                    press()
        assert told == [1]
        assert signal.getsignal(signal.SIGINT) is before

    def test_in_a_program_they_raise_until_one_has_left(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        with WholeProgram(for_good=False):
            with contextlib.suppress(StoppedAtOnce), interrupts(lambda: None):
                press()
                with pytest.raises(StoppedAtOnce):
                    press()
                press()
                pytest.fail("the third one did nothing")
            press()  # its last words
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_stop_at_the_safe_point_is_an_end_too(self) -> None:
        with WholeProgram(for_good=True):
            with contextlib.suppress(Interrupted), interrupts(lambda: None):
                press()
                raise Interrupted("stopped")
            press()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def test_an_error_is_no_end(self) -> None:
        with WholeProgram(for_good=False):
            with pytest.raises(ValueError, match="wrong"), interrupts(lambda: None):
                raise ValueError("wrong")
            with pytest.raises(StoppedAtOnce):
                press()


def test_no_flood_of_ctrl_c_gets_past_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: `main` gives 130 and the handler back."""
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    from fedroam.cli import entry

    def pressed(*_: object, **__: object) -> None:
        press()

    monkeypatch.setattr(entry, "whole", pressed)
    assert Commands(tmp_path, capsys)("list").code == 130
    assert signal.getsignal(signal.SIGINT) is before
