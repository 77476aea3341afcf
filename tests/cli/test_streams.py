"""A terminal, a log or a reader that cannot be written to ends no work; results that were not told are no success."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedroam.recording import open_run
from fedroam.sweep import open_sweep
from fedroam.terminal.streams import Unfailing, output_lost, unfailing, unfailing_streams
from support.commands import TINY

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and a POSIX shell")
SWEPT = TINY + '[sweep.grid]\n"training.lr" = [0.1, 0.2]\n'


def shell(folder: Path, words: str, where: str) -> subprocess.CompletedProcess[str]:
    """`fedroam WORDS` by a shell that sets its streams."""
    (folder / "tiny.toml").write_text(TINY, encoding="utf-8")
    (folder / "swept.toml").write_text(SWEPT, encoding="utf-8")
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m fedroam {words} {where}', sys.executable],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
def test_progress_that_cannot_be_written_is_dropped(where: str, tmp_path: Path) -> None:
    done = shell(tmp_path, "run tiny.toml --no-report --out run", where)
    assert (done.returncode, done.stderr) == (0, "")
    assert "runs: run" in done.stdout
    assert open_run(tmp_path / "run" / "seed-0").done


def test_a_sweep_goes_on_where_its_progress_cannot_be_written(tmp_path: Path) -> None:
    done = shell(tmp_path, "sweep swept.toml --workers 1 --out swept", "2>/dev/full")
    assert done.returncode == 0, done.stdout
    assert open_sweep(tmp_path / "swept").done


@pytest.mark.parametrize(("where", "why"), [(">/dev/full", "No space left"), (">&-", "Bad file descriptor")])
def test_a_run_whose_results_cannot_be_told_is_done_all_the_same(
    where: str, why: str, tmp_path: Path
) -> None:
    done = shell(tmp_path, "run tiny.toml --quiet --out run", where)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: fedroam run: standard output cannot be written (" + why)
    assert line.endswith("what it was to compute is computed")
    assert open_run(tmp_path / "run" / "seed-0").done
    assert (tmp_path / "run" / "seed-0" / "report.html").exists()


def test_wrong_input_is_that_whether_or_not_it_can_be_told(tmp_path: Path) -> None:
    assert shell(tmp_path, "run nonsense", ">&- 2>&- <&-").returncode == 2


def test_no_file_takes_the_number_of_a_stream_that_was_closed(tmp_path: Path) -> None:
    """What a library writes to descriptor 2 would stand in it."""
    (tmp_path / "own.py").write_text(
        "import os\n\nfile = open('own.txt', 'w')\nos.write(2, b'of a library')\nassert file.fileno() > 2\n"
    )
    done = shell(tmp_path, "run tiny.toml --use own.py --quiet --no-report --out run", "2>&-")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "own.txt").read_text() == ""


def test_what_is_lost_is_known_and_streams_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", encoding="ascii") as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stderr", None)
        with unfailing_streams():
            assert output_lost() is None
            sys.stdout.write("−\n")
            sys.stderr.write("lost\n")
            assert isinstance(sys.stdout, Unfailing)
            found = output_lost()
        assert found is not None
        assert found.strerror == "No space left on device"
        assert (sys.stdout, sys.stderr) == (full, None)
        monkeypatch.undo()


def test_a_stream_that_is_not_the_systems_stays_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert unfailing(sys.stdout) is sys.stdout
