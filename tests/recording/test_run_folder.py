from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.recording import (
    Recorder,
    checkpoint,
    files,
    open_run,
    open_runs,
    pieces,
    robbed_below,
    runs_below,
)
from fedroam.recording import recorder as recorder_module
from fedroam.runner import run
from fedroam.terminal.interrupts import Interrupted
from support.run_folders import of_before_there_was_a_manifest
from support.tiny import own_data, tiny

_spec = importlib.util.spec_from_file_location(
    "kill_and_resume", Path(__file__).parents[2] / "benchmarks" / "kill_and_resume.py"
)
assert _spec is not None
assert _spec.loader is not None
kill_and_resume = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kill_and_resume)
differences: Callable[[Path, Path], list[str]] = kill_and_resume.differences


def small(**settings: Any) -> Experiment:
    """Three rounds, each evaluated and saved, on few samples: what is learnt does not matter here."""
    return tiny(**{"clients": 3, "rounds": 3, "evaluate_every": 1, "data": own_data(), **settings})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of `small()`."""
    return run(small(), tmp_path_factory.mktemp("whole") / "run").folder


# --- kills between any two changes of the disk --------------------------------------------------------------------


class Kill(BaseException):
    """Stands for SIGKILL: nothing in fedroam catches it."""


class Disk:
    """Counts changes of files and folders, and tells of each before it happens.

    before: gets its number, and the file that a rename would put into its place. Threads change it one at a time, or
    a copy could hold what one of them did while it was made.
    """

    def __init__(self, before: Callable[[int, Path | None], None]) -> None:
        self.count, self.before, self.telling = 0, before, False
        self.one = threading.RLock()

    def change(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            with self.one:
                if not self.telling:
                    self.count, self.telling = self.count + 1, True
                    try:
                        self.before(
                            self.count, Path(args[0]) if real.__name__ in ("replace", "rename") else None
                        )
                    finally:
                        self.telling = False
                return real(*args, **kwargs)

        return changed

    @contextmanager
    def watched(self) -> Iterator[Disk]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("replace", "rename", "unlink", "remove", "rmdir", "mkdir"):
                patch.setattr(os, name, self.change(getattr(os, name)))
            yield self


def halve(path: Path) -> None:
    """A process died while it wrote this file."""
    half = path.read_bytes()
    path.write_bytes(half[: len(half) // 2])


def kill_at(change: int) -> Callable[[int, Path | None], None]:
    """Die in the place of this change."""

    def kill(count: int, source: Path | None) -> None:
        if count == change:
            if source is not None:
                halve(source)
            raise Kill

    return kill


def killed(change: int, *args: Any, **kwargs: Any) -> bool:
    """Run until this change of the disk; False where the run finished before it."""
    try:
        with Disk(kill_at(change)).watched():
            run(*args, **kwargs)
    except Kill:
        return True
    return False


def kept_before(
    changes: Callable[[int], bool], folder: Path, copies: Path
) -> Callable[[int, Path | None], None]:
    """Copies of a folder as SIGKILL before some of the changes of the disk would leave it, named by their numbers."""

    def keep(count: int, source: Path | None) -> None:
        if changes(count) and folder.exists():
            copy = copies / str(count)
            shutil.copytree(folder, copy)
            if source is not None:
                halve(copy / source.relative_to(folder))

    return keep


def kills(
    changes: Callable[[int], bool], experiment: Experiment, folder: Path, copies: Path, **options: Any
) -> list[Path]:
    """Run once: what kills before some of the changes of the disk would leave behind."""
    with Disk(kept_before(changes, folder, copies)).watched() as disk:
        run(experiment, folder, **options)
    return [copies / str(k) for k in range(1, disk.count + 1) if changes(k)]


def test_a_kill_between_any_two_writes_loses_nothing(whole: Path, tmp_path: Path) -> None:
    left = kills(lambda k: True, small(), tmp_path / "run", tmp_path / "left")
    assert differences(whole, tmp_path / "run") == []
    assert len(left) > 50
    for folder in left:
        assert run(small(), folder).done
        assert differences(whole, folder) == [], f"killed at change {folder.name} of {len(left)}"
        shutil.rmtree(folder)


@pytest.mark.parametrize("life", [31, 37])
def test_many_kills_of_one_run_lose_nothing(life: int, whole: Path, tmp_path: Path) -> None:
    folder, lives = tmp_path / "run", 1
    while killed(life, small(), folder):
        lives += 1
        assert lives < 40
    assert lives >= 3
    assert differences(whole, folder) == []


class Power:
    """A disk of the worst kind: deletions are safe at once, renames only once their folder has been flushed."""

    def __init__(self) -> None:
        self.pending: list[tuple[Path, bytes | None]] = []
        self.reached = -1

    def renaming(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def renamed(source: Any, target: Any, **kwargs: Any) -> Any:
            path = Path(target)
            before = path.read_bytes() if path.exists() else None
            done = real(source, target, **kwargs)
            self.pending.append((path, before))
            return done

        return renamed

    def settle(self, folder: Path) -> None:
        for one in [one for one in self.pending if one[0].parent == folder]:
            self.pending.remove(one)

    def told(self, make_safe: Callable[..., None]) -> Callable[..., None]:
        """Makes checkpoints safe, and keeps which one was said to be."""

        def made_safe(recorder: Recorder, round: int, *what: Any) -> None:
            make_safe(recorder, round, *what)
            self.reached = round

        return made_safe

    def fail(self, lost: str, folder: Path, copy: Path) -> None:
        """Undo in a copy of the folder what was not flushed, everywhere or in folders of this name."""
        for path, before in reversed(self.pending):
            there = copy / path.relative_to(folder)
            if there.exists() and lost in ("everywhere", path.parent.name):
                there.unlink()
                if before is not None:
                    there.write_bytes(before)


def test_a_power_failure_loses_no_checkpoint(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every second change. Every rename is undone that was not flushed, or those in one folder."""
    folder, copies, power = tmp_path / "run", tmp_path / "left", Power()
    keep = kept_before(lambda k: k % 2 == 1, folder, copies)
    reached: dict[Path, int] = {}  # the round that was said to be safe, by what is left

    def fail(k: int, source: Path | None) -> None:
        keep(k, source)
        copy = copies / str(k)
        if copy.exists():
            power.fail(("everywhere", "unfinished", "checkpoints")[k % 3], folder, copy)
        if k % 2 == 1:
            reached[copy] = power.reached

    with Disk(fail).watched(), monkeypatch.context() as patch:
        patch.setattr(Recorder, "_make_safe", power.told(Recorder._make_safe))
        for module in (recorder_module, checkpoint, pieces):
            patch.setattr(module, "settle", power.settle)
        for name in ("replace", "rename"):
            patch.setattr(os, name, power.renaming(getattr(os, name)))
        run(small(), folder)
    for left, round in reached.items():
        where = f"failed at change {left.name}, after round {round}"
        if round > 0:  # what was said to be safe is
            newest = checkpoint.newest(left / "checkpoints")
            assert newest is not None, where
            assert int(newest.stem.rpartition("-")[2]) >= round, where
            run(small(), left)
        else:
            with suppress(InputError):  # nothing was lost but the start
                run(small(), left)
            run(small(), left, existing="resume" if (left / "rounds.parquet").exists() else "replace")
        assert differences(whole, left) == [], where
    assert sum(round > 0 for round in reached.values()) > len(reached) / 2


def test_a_kill_while_the_same_run_is_replaced(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    for left in kills(lambda k: k % 4 == 1, small(), folder, tmp_path / "left", existing="replace"):
        run(small(), left)
        assert differences(whole, left) == [], f"killed at change {left.name}"


def test_a_kill_while_another_run_is_replaced(whole: Path, tmp_path: Path) -> None:
    other = small(seed=8)
    run(other, tmp_path / "other")
    shutil.copytree(tmp_path / "other", tmp_path / "run")
    left = kills(
        lambda k: k % 2 == 1 and k < 30, small(), tmp_path / "run", tmp_path / "left", existing="replace"
    )
    assert len(left) == 15
    for folder in left:
        try:
            run(small(), folder)
        except InputError as error:  # the old run is whole yet
            assert "holds another experiment (seed = 8 there, 0 here)" in str(error)  # noqa: PT017
            (folder / "run.json.tmp").unlink(missing_ok=True)
            assert differences(tmp_path / "other", folder) == []
        else:
            assert differences(whole, folder) == [], f"killed at change {folder.name}"


def test_what_was_being_written_when_a_kill_came_goes(whole: Path, tmp_path: Path) -> None:
    """Under our own names, and under those by which safetensors writes."""
    left = kills(lambda k: k >= 14 and k % 8 == 6, small(), tmp_path / "run", tmp_path / "left")
    folder = next(folder for folder in left if (folder / "checkpoints").is_dir())
    for name in ("checkpoints/.tmpYv76gV", "checkpoints/0001.safetensors.0123456789ab.tmp", ".tmpAbC123"):
        (folder / name).write_bytes(b"half")
    kept = folder / "checkpoints" / ".tmp-notes"
    kept.write_text("of somebody's own")
    run(small(), folder)
    assert kept.exists()
    kept.unlink()
    assert differences(whole, folder) == []


def test_a_kill_after_divergence_does_not_forget_it(tmp_path: Path) -> None:
    training = {"kind": "sgd", "lr": 3e3, "batch_size": 8, "steps": 3}
    wild = small(training=training)
    left = kills(lambda k: k >= 14 and k % 8 == 6, wild, tmp_path / "whole", tmp_path / "left")
    assert open_run(tmp_path / "whole").status["diverged_at"] == 1
    assert len(left) > 5
    for folder in left:
        assert run(wild, folder).status["diverged_at"] == 1, f"killed at change {folder.name}"


@pytest.mark.parametrize("reached", [0, 1, 2, 3, 4, 5])
def test_ctrl_c_after_any_round(reached: int, tmp_path: Path) -> None:
    experiment = small(rounds=5, checkpoint_every=2)
    one = run(experiment, tmp_path / "whole")

    def press(round: int, rounds: int, measurement: Any) -> None:
        if round == reached:
            import signal

            signal.raise_signal(signal.SIGINT)

    pressed = []
    if reached < 5:
        # pressed after round 0 it takes effect after round 1
        with pytest.raises(Interrupted, match=f"stopped after round {max(reached, 1)} of 5"):
            run(experiment, tmp_path / "run", observer=press, on_interrupt=lambda: pressed.append(1))
        assert open_run(tmp_path / "run").status["state"] == "interrupted"
        assert open_run(tmp_path / "run").rounds["round"].tolist() == list(range(max(reached, 1) + 1))
    else:
        run(experiment, tmp_path / "run", observer=press, on_interrupt=lambda: pressed.append(1))
    assert pressed == [1]
    two = run(experiment, tmp_path / "run")
    assert two.done
    for name in ("rounds", "clients", "positions", "contacts"):
        drop = {"columns": ["seconds"], "errors": "ignore"}
        pd.testing.assert_frame_equal(
            one.table(name).drop(**drop), two.table(name).drop(**drop), check_exact=True
        )


def test_seconds_go_on_after_a_pause(tmp_path: Path) -> None:
    experiment = small(rounds=4)
    with Disk(lambda count, source: None).watched() as disk:
        run(experiment, tmp_path / "count")
    assert killed(disk.count // 2, experiment, tmp_path / "run")
    before = open_run(tmp_path / "run").rounds["seconds"].to_numpy()
    after = run(experiment, tmp_path / "run").rounds["seconds"].to_numpy()
    np.testing.assert_array_equal(before[: len(before) - 1], after[: len(before) - 1])
    assert (np.diff(after) > 0).all()


# --- what a folder may hold -----------------------------------------------------------------------------------------


def half_done(folder: Path, experiment: Experiment | None = None) -> Path:
    """A run that was killed after its third checkpoint or so."""
    experiment = experiment or small()

    def stop(round: int, rounds: int, measurement: Any) -> None:
        if round == 2:
            raise Kill

    with pytest.raises(Kill):
        run(experiment, folder, observer=stop)
    return folder


def test_a_finished_run_is_returned_as_it_is(whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")}
    for existing in ("resume", "refuse"):
        again = run(small(), whole, existing=existing)  # type: ignore[arg-type]
        assert again.done
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")} == before


@pytest.mark.parametrize("wrong", ["fresh", "", 3, None])
def test_what_becomes_of_a_run_that_is_there_is_one_of_three(wrong: Any, tmp_path: Path) -> None:
    said = r"run: existing: found .*, allowed is 'refuse', 'resume' or 'replace'"
    with pytest.raises(InputError, match=said):
        run(small(), tmp_path / "run", existing=wrong)
    assert not (tmp_path / "run").exists()


def test_replace_begins_anew(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("of the old run")
    old = (tmp_path / "run" / "rounds.parquet").stat().st_mtime_ns
    run(small(), tmp_path / "run", existing="replace")
    assert (tmp_path / "run" / "rounds.parquet").stat().st_mtime_ns > old
    assert differences(whole, tmp_path / "run") == []


def test_refuse_leaves_an_unfinished_run_alone(tmp_path: Path) -> None:
    folder = half_done(tmp_path / "run")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"holds an unfinished run \(round 1 of 3\); add --resume"):
        run(small(), folder, existing="refuse")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_another_experiment_is_refused_by_its_first_difference(tmp_path: Path) -> None:
    folder = half_done(tmp_path / "run")
    with pytest.raises(InputError, match=r"holds another experiment \(training.lr = 0.1 there, 0.2 here\)"):
        run(small(training={"kind": "sgd", "lr": 0.2, "momentum": 0.5, "batch_size": 8, "steps": 2}), folder)


def test_settings_that_cannot_change_results_may_change(whole: Path, tmp_path: Path) -> None:
    folder = half_done(tmp_path / "run")
    resumed = run(small(checkpoint_every=3, name="renamed"), folder)
    assert resumed.settings["name"] == "renamed"
    pd.testing.assert_frame_equal(resumed.clients, open_run(whole).clients, check_exact=True)


def test_foreign_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    for existing in ("resume", "refuse", "replace"):
        with pytest.raises(InputError, match="not empty and not a run folder"):
            run(small(), tmp_path, existing=existing)  # type: ignore[arg-type]
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(InputError, match="is a file; --out needs a folder"):
        run(small(), tmp_path / "mine.txt")


def test_two_writers_of_one_folder(whole: Path, tmp_path: Path) -> None:
    folder = half_done(tmp_path / "run")
    status = {"digest": small().digest, "state": "running"}
    first = Recorder(folder, dict(status))
    first.open(small().toml(), "resume")
    try:
        with pytest.raises(InputError, match="another process is writing this run; wait for it"):
            run(small(), folder)
    finally:
        first.close()
    run(small(), folder)
    assert differences(whole, folder) == []


# --- damage -----------------------------------------------------------------------------------------------------


def one_line(error: pytest.ExceptionInfo[InputError], *words: str) -> None:
    text = str(error.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize("how", ["cut", "flip", "empty", "text"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_works(
    how: str, whole: Path, tmp_path: Path
) -> None:
    folder = half_done(tmp_path / "run")
    newest = checkpoint.newest(folder / "checkpoints")
    assert newest is not None
    assert newest.name == "round-00000001.safetensors"
    whole_bytes = newest.read_bytes()
    flipped = bytearray(whole_bytes)
    flipped[-100] ^= 1
    newest.write_bytes(
        {"cut": whole_bytes[:-50], "flip": bytes(flipped), "empty": b"", "text": b"not a checkpoint"}[how]
    )
    with pytest.raises(InputError) as caught:
        run(small(), folder)
    one_line(caught, str(newest), "damaged checkpoint", "delete it to go on from round-00000000.safetensors")
    newest.unlink()
    run(small(), folder)
    assert differences(whole, folder) == []


@pytest.mark.parametrize("piece", ["rounds-00000000", "contacts-00000001", "clients-00000001"])
def test_a_lost_piece_of_a_table_is_noticed(piece: str, tmp_path: Path) -> None:
    folder = half_done(tmp_path / "run")
    (folder / "unfinished" / f"{piece}.parquet").unlink()
    with pytest.raises(InputError) as caught:
        run(small(), folder)
    one_line(caught, f"rows of {piece.partition('-')[0]}, the checkpoint says", "--fresh")


def test_a_checkpoint_of_another_experiment(tmp_path: Path) -> None:
    folder = half_done(tmp_path / "run")
    foreign = half_done(tmp_path / "foreign", small(seed=5))
    shutil.copy(foreign / "checkpoints" / "round-00000001.safetensors", folder / "checkpoints")
    with pytest.raises(InputError) as caught:
        run(small(), folder)
    one_line(caught, "checkpoint of another experiment")


@pytest.mark.parametrize(
    ("text", "says"), [("{", "damaged"), ("[1]", "found list"), ("{}", "another version")]
)
def test_a_damaged_run_json(text: str, says: str, tmp_path: Path) -> None:
    folder = half_done(tmp_path / "run")
    (folder / "run.json").write_text(text)
    for act in (lambda: run(small(), folder), lambda: open_run(folder)):
        with pytest.raises(InputError) as caught:
            act()
        one_line(caught, "run.json", says)


def test_damaged_and_missing_tables(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    of_before_there_was_a_manifest(tmp_path / "run")
    (tmp_path / "run" / "rounds.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "run" / "clients.parquet").unlink()
    (tmp_path / "run" / "world.json").unlink()
    (tmp_path / "run" / "experiment.toml").write_text("= 1")
    broken = open_run(tmp_path / "run")
    for name, words in (
        ("rounds", ("rounds.parquet", "damaged")),
        ("clients", ("clients.parquet", "missing")),
        ("world", ("world.json", "missing")),
        ("settings", ("experiment.toml", "damaged")),
    ):
        with pytest.raises(InputError) as caught:
            getattr(broken, name)
        one_line(caught, *words)


def test_a_checkpoint_holds_every_array(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.zeros(0, dtype=np.int64),
        "c": np.array([True, False]),
        "d": np.arange(6, dtype=np.float64).reshape(2, 3).T,
        "e": np.array([np.nan, np.inf, -0.0]),
    }
    path = checkpoint.save(tmp_path, 3, "abc", arrays)
    found = checkpoint.load(path, "abc")
    assert found.round == 3
    assert sorted(found.arrays) == sorted(arrays)
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)
    again = checkpoint.save(tmp_path / "again", 3, "abc", dict(reversed(arrays.items())))
    assert again.read_bytes() == path.read_bytes()


made = pytest.mark.parametrize("short", [checkpoint.SHORT, 0], ids=["in memory", "beside its place"])


@made
def test_a_checkpoint_is_what_its_writer_makes_of_a_sum_found_before(
    short: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.numpy import save_file

    monkeypatch.setattr(checkpoint, "SHORT", short)
    arrays = {"a": np.arange(6, dtype=np.float32), "????": np.arange(3), "sha256": np.zeros((2, 0))}
    facts = {"round": 3, "digest": 64 * "f"}
    own = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        own.update(f"{name}{array.dtype}{array.shape}".encode() + array.tobytes())
    told = json.dumps({**facts, "sha256": own.hexdigest()}, sort_keys=True)
    save_file(arrays, tmp_path / "wanted", metadata={"fedroam": told})
    path = checkpoint.save(tmp_path / "found", 3, 64 * "f", arrays)
    assert path.read_bytes() == (tmp_path / "wanted").read_bytes()


@made
@pytest.mark.parametrize("fails", ["save", "_sum_of"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before_it(
    fails: str, short: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHORT", short)
    if fails == "save":
        fails = "save_tensors" if short == 0 else "write_bytes"
    kept = checkpoint.save(tmp_path, 3, "abc", {"a": np.ones(4)})
    before = kept.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, fails, full)
    for round in (3, 4):
        with pytest.raises(OSError, match="No space left"):
            checkpoint.save(tmp_path, round, "abc", {"a": np.zeros(4)})
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]
    assert kept.read_bytes() == before


def test_rows_that_are_all_the_same_are_written_once(tmp_path: Path) -> None:
    row = np.random.default_rng(0).standard_normal((1, 3, 20_000), dtype=np.float32)
    row[0, 0, :3] = np.nan, -0.0, np.inf
    same = np.repeat(row, 7, axis=0)
    other = same.copy()
    other[6, 0, 1] = 0.0  # equal as a number, not as bits
    arrays = {
        "same": same,
        "other": other,
        "one": np.repeat(row[:, 0].T, 30, axis=1),
        "small": np.zeros((9, 2)),
    }
    assert all(arrays[name].nbytes >= checkpoint.LARGE for name in ("same", "other", "one"))
    path = checkpoint.save(tmp_path, 0, "abc", arrays)
    found = checkpoint.load(path, "abc").arrays
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
        found[name][...] = 1  # whose rows are each its own
    whole = sum(array.nbytes for array in arrays.values())
    assert whole - 6 * row.nbytes < path.stat().st_size < whole - 6 * row.nbytes + 1000
    damaged = path.read_bytes().replace(b'\\"same\\": 7', b'\\"same\\": 8')
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    with pytest.raises(InputError, match="check sum does not match"):
        checkpoint.load(path, "abc")


@pytest.mark.parametrize(
    "rows", [{"a": 0}, {"a": 2**40}, {"a": 2.0}, {"a": True}, {"b": 2}, {"c": 2}, [1], "a", 7]
)
def test_rows_that_there_cannot_be_are_told(rows: object, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    arrays = {"a": np.ones((1, 4)), "c": np.ones((2, 4))}
    facts = {"round": 2, "digest": "abc", "rows": rows}
    facts["sha256"] = checkpoint._sum(facts, arrays)
    path = tmp_path / "round-00000002.safetensors"
    save_file(arrays, path, metadata={"fedroam": json.dumps(facts, sort_keys=True)})
    with pytest.raises(InputError, match="damaged checkpoint"):
        checkpoint.load(path, "abc")


def test_a_run_goes_on_from_models_that_were_all_the_same(tmp_path: Path) -> None:
    experiment = small(model={"kind": "mlp", "hidden": (2_000,)})
    whole = run(experiment, tmp_path / "whole")

    def stop(round: int, rounds: int, measurement: Any) -> None:
        if round == 1:
            raise Kill

    with pytest.raises(Kill):
        run(experiment, tmp_path / "half", observer=stop)
    (first,) = (tmp_path / "half" / "checkpoints").glob("*")
    models = checkpoint.load(first, experiment.digest).arrays["models.parameters"]
    assert len(models) == 3
    size = first.stat().st_size  # one of three models, and one of their momenta
    assert 2 * models[0].nbytes < size < 2.1 * models[0].nbytes
    resumed = run(experiment, tmp_path / "half")
    ends = [checkpoint.newest(each.folder / "checkpoints") for each in (whole, resumed)]
    assert ends[0] is not None and ends[1] is not None  # noqa: PT018
    assert ends[0].read_bytes() == ends[1].read_bytes()


# --- reading ------------------------------------------------------------------------------------------------------


def test_an_unfinished_run_can_be_read(tmp_path: Path) -> None:
    found = open_run(half_done(tmp_path / "run"))
    assert not found.done
    assert found.rounds["round"].tolist() == [0, 1]
    assert found.positions["round"].tolist() == [0, 0, 0, 1, 1, 1]


def test_a_run_tells_what_it_is(whole: Path) -> None:
    found = open_run(whole)
    assert found.done
    assert found.name == "experiment"
    assert found.status["digest"] == small().digest
    assert found.settings["training"]["lr"] == 0.1
    assert Experiment(**found.settings).digest == small().digest
    assert found.world["bounds"] == [1.0, 1.0, 4.0, 4.0]
    assert found.world["reach"] == 1.5
    assert found.world["groups"] == ["mobile", "mobile", "static"]
    assert found.world["parameters"] == 650
    assert found.world["bytes_per_model"] == 2600
    assert found.partition["samples"].sum() == found.environment["data"]["training_samples"]
    assert set(found.partition["part"]) == {"train"}
    assert found.environment["packages"]["torch"]


def test_tables_open_elsewhere(whole: Path) -> None:
    import pyarrow.parquet as pq

    for path in whole.rglob("*.parquet"):
        names = pq.read_schema(path).names
        assert not any(name.startswith("__") for name in names), f"{path.name} carries an index column"
        assert pq.read_table(path).num_rows == len(pd.read_parquet(path))


def test_a_folder_of_runs_is_no_run(tmp_path: Path) -> None:
    run(tiny(rounds=1), tmp_path / "a" / "seed-0")
    for folder in (tmp_path, tmp_path / "a"):
        with pytest.raises(InputError, match=r"holds runs, and is none itself; open_runs opens"):
            open_run(folder)


def test_runs_below_a_folder_in_their_order(tmp_path: Path) -> None:
    for order, seed in ((1, 4), (0, 5)):
        run(small(seed=seed, rounds=1), tmp_path / f"seed-{seed}", order=order, variant=f"v{seed}")
    found = open_runs(tmp_path)
    assert [r.status["seed"] for r in found] == [5, 4]
    assert [r.name for r in found] == ["experiment/v5", "experiment/v4"]
    assert [r.folder for r in open_runs(tmp_path / "seed-4")] == [tmp_path / "seed-4"]
    with pytest.raises(InputError, match="no such folder"):
        open_runs(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no run folder here or below"):
        open_runs(tmp_path / "empty")


def test_folders_that_vanish_meanwhile_are_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that a run was written in and that is then put into place."""
    run(tiny(rounds=1), tmp_path / "b")
    (tmp_path / "a").mkdir()
    scan = os.scandir

    def scanned(place: str | Path) -> Any:
        if Path(place).name == "a":
            Path(place).rmdir()
        return scan(place)

    monkeypatch.setattr(os, "scandir", scanned)
    assert runs_below(tmp_path) == [tmp_path / "b"]
    assert not (tmp_path / "a").exists()
    assert robbed_below(tmp_path) == []


def test_writing_aside_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    files.write_json(path, {"a": 1})
    with Disk(kill_at(1)).watched(), pytest.raises(Kill):
        files.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    files.write_json(path, {"a": 3})
    assert json.loads(path.read_text()) == {"a": 3}
    left = [p.name for p in tmp_path.iterdir() if p.name != "facts.json"]
    assert len(left) == 1, "a kill leaves what it was writing, under a name of its own"
    assert re.fullmatch(r"facts\.json\.[0-9a-f]{12}\.tmp", left[0])
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(path, {"a": float("nan")})
