"""The end of a run that wrote no checkpoint before its last round, as the tiny runs of a sweep are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.recording import checkpoint, damage, models, open_run, pieces
from fedroam.runner import run
from fedroam.writing import linked
from support.scripts import benchmark
from support.tiny import own_data, tiny

LATER = 1e6  # seconds before a checkpoint that is not the last


def short() -> Experiment:
    """Three rounds, each evaluated."""
    return tiny(clients=3, rounds=3, evaluate_every=1, data=own_data())


def differences(one: Path, other: Path) -> list[str]:
    """In what two finished runs differ."""
    found: list[str] = benchmark("kill_and_resume").differences(one, other)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing held up."""
    return run(short(), tmp_path_factory.mktemp("whole") / "run", checkpoint_pause=LATER).folder


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that were given another name instead of being written again."""
    found: list[str] = []
    link = os.link

    def named(source: Any, target: Any, **options: Any) -> None:
        found.append(Path(source).name)
        link(source, target, **options)

    monkeypatch.setattr(os, "link", named)
    return found


def no_links(*_: object, **__: object) -> None:
    """A file system that knows one name of a file."""
    raise PermissionError("Operation not permitted")


def test_tables_of_one_piece_are_that_piece(tmp_path: Path, links: list[str]) -> None:
    done = run(short(), tmp_path / "run", checkpoint_pause=LATER)
    assert links == [f"{name}-00000003.parquet" for name in ("rounds", "clients", "positions", "contacts")]
    files = [path for path in done.folder.rglob("*") if path.is_file()]
    assert all(path.stat().st_nlink == 1 for path in files)  # pieces are gone
    assert not any(path.name.endswith(".tmp") for path in files)
    assert damage(done.folder) == []


def test_tables_of_several_pieces_are_joined(tmp_path: Path, links: list[str]) -> None:
    run(short(), tmp_path / "run")
    assert links == []


@pytest.mark.parametrize("held", [0, pieces.HELD])
def test_how_a_file_is_written_changes_no_byte_of_it(
    held: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several names of a file or without, in memory or beside its place, with pieces at hand or read back."""
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(pieces, "HELD", held)
    monkeypatch.setattr(checkpoint, "SHORT", 0)
    monkeypatch.setattr(models, "SHORT", 0)
    done = run(short(), tmp_path / "run", checkpoint_pause=LATER)
    assert differences(whole, done.folder) == []
    for name in ("clients.parquet", "movement/positions.parquet", "movement/contacts.parquet"):
        assert (done.folder / name).read_bytes() == (whole / name).read_bytes()


def test_a_kill_at_any_moment_of_the_end_loses_nothing(whole: Path, tmp_path: Path) -> None:
    left, copying = list[Path](), [False]

    def kept(real: Any) -> Any:
        def changed(*given: Any, **named: Any) -> Any:
            if not copying[0] and list((tmp_path / "run" / "unfinished").glob("rounds-*.parquet")):
                copying[0] = True  # which changes folders, too
                left.append(tmp_path / f"left-{len(left)}")
                shutil.copytree(tmp_path / "run", left[-1])
                copying[0] = False
            return real(*given, **named)

        return changed

    with pytest.MonkeyPatch.context() as patch:
        for name in ("link", "replace", "rename", "unlink", "rmdir", "mkdir"):
            patch.setattr(os, name, kept(getattr(os, name)))
        run(short(), tmp_path / "run", checkpoint_pause=LATER)
    assert len(left) > 15
    for folder in left:
        assert run(short(), folder, checkpoint_pause=LATER).done
        assert differences(whole, folder) == [], folder.name


def test_the_last_round_is_told_with_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int]] = []
    from fedroam.recording import recorder

    write = recorder.write_status

    def noted(folder: Path, status: dict[str, Any]) -> None:
        told.append((status["state"], status["round"]))
        write(folder, status)

    monkeypatch.setattr(recorder, "write_status", noted)
    done = run(short(), tmp_path / "run", checkpoint_pause=LATER)
    assert told == [("running", 0), ("running", 0), ("done", 3)]
    assert open_run(done.folder).status["round"] == 3


def test_a_run_that_fails_at_its_end_says_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pieces.TablePieces, "write_whole", full)
        with pytest.raises(OSError, match="No space left"):
            run(short(), tmp_path / "run", checkpoint_pause=LATER)
    failed = open_run(tmp_path / "run").status
    assert (failed["state"], failed["round"]) == ("failed", 3)
    assert run(short(), tmp_path / "run").done


def test_another_name_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piece, path = tmp_path / "piece", tmp_path / "table"
    piece.write_text("new")
    path.write_text("old")
    assert linked(path, piece)
    assert path.read_text() == "new"
    assert linked(path, piece)  # it is the same file already
    assert sorted(each.name for each in tmp_path.iterdir()) == ["piece", "table"]
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "away").symlink_to(precious)
    with pytest.raises(InputError, match="is a link"):
        linked(tmp_path / "away", piece)
    assert not linked(path, tmp_path / "away")  # nor is a link a file of ours
    assert (precious.read_text(), path.read_text()) == ("precious", "new")
    monkeypatch.setattr(os, "link", no_links)
    assert not linked(tmp_path / "another", piece)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["away", "piece", "precious", "table"]
