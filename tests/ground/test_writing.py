"""Files that are written whole or not at all, whatever the disk does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedroam as fr
from fedroam.analysis.figures.drawing import new_figure, save, style
from fedroam.bench import _write
from fedroam.errors import InputError
from fedroam.recording import write_csv, write_named_csv
from fedroam.sweep import open_sweep
from fedroam.traces import Trace, read_trace, write_trace
from fedroam.writing import write_aside, write_named, write_text

TABLE = pd.DataFrame({"a": [1, 2], "b": [0.5, 0.25]})
TRACE = Trace(
    ("a", "b"),
    np.array([0, 2, 4]),
    np.array([0.0, 1.0, 0.0, 1.0]),
    np.arange(8.0).reshape(4, 2),
    {"epoch": None, "dropped": {}},
)


def _figure(path: Path) -> None:
    with style():
        figure, ax = new_figure()
        ax.plot([0, 1], label="one")
    save(figure, path.parent, path.stem)


WRITERS: dict[str, Callable[[Path], object]] = {
    "table.csv": lambda path: write_csv(path, TABLE),
    "named.csv": lambda path: write_named_csv(path, TABLE),
    "packed.csv.gz": lambda path: write_named_csv(path, TABLE),
    "trace.parquet": lambda path: write_trace(TRACE, path),
    "bench.json": lambda path: _write(path, [], 1),
    "figure.png": _figure,
    "figure.svg": _figure,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_what_stood_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text("what stood there")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((OSError, InputError), match="No space"):
        WRITERS[name](tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "what stood there"


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_is_whole_and_alone(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    assert (tmp_path / name).stat().st_size > 0
    assert not list(tmp_path.glob("*.tmp"))
    if ".csv" in name:
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / name), TABLE)


def test_what_the_user_named_may_be_a_link_or_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_named(tmp_path / "link.csv", lambda path: path.write_text("new"))
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"
    write_named(Path("/dev/null"), lambda path: path.write_text("gone"))
    assert Path("/dev/null").is_char_device()
    with pytest.raises(InputError, match="is a link"):
        write_aside(tmp_path / "link.csv", lambda path: path.write_text("new"))


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_aside(tmp_path / "none" / "a.txt", lambda path: path.write_text("a"))
    assert caught.value.filename == str(tmp_path / "none" / "a.txt")


def test_a_full_disk_is_told_with_the_file_that_it_was_full_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system names none while a file is written; as the user has called it, where the user has."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: 'facts\.json'"):
        write_text(Path("facts.json"), "{}")
    with pytest.raises(OSError, match=r"No space left on device: 'own\.csv'"):
        write_named_csv(Path("own.csv"), TABLE)
    with pytest.raises(OSError, match=r"No such file or directory: 'none/own\.csv'"):
        write_named_csv(Path("none/own.csv"), TABLE)


@pytest.mark.parametrize("name", ["", "x" * 256, "a/" * 3000, "a\0b"], ids=["none", "part", "whole", "NUL"])
@pytest.mark.parametrize(
    "read",
    [fr.open_run, fr.open_runs, open_sweep, read_trace, fr.use, lambda name: fr.run(fr.Experiment(), name)],
    ids=["run", "runs", "sweep", "trace", "use", "out"],
)
def test_a_name_that_the_system_does_not_take(name: str, read: Callable[[str], object]) -> None:
    with pytest.raises(InputError, match=r"a name (that is too long|with NUL)|'': allowed is"):
        read(name)
