"""No number of a run folder changes unseen: flips, exchanges, deletions and planted links are noticed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedroam.errors import FedroamError, InputError
from fedroam.experiment import Experiment
from fedroam.recording import checkpoint, damage, files, held, lasting, open_run, pieces, take_lock
from fedroam.runner import run
from fedroam.terminal.interrupts import Interrupted
from fedroam.writing import write_aside
from support.commands import Commands, contents
from support.run_folders import of_before_there_was_a_manifest
from support.tiny import tiny


def small(**changes: Any) -> Experiment:
    return tiny(**{"clients": 3, "rounds": 6, "evaluate_every": 1, "checkpoint_every": 1, **changes})


@pytest.fixture
def fr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(tmp_path, capsys)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(small(), tmp_path_factory.mktemp("whole") / "run").folder


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose newest checkpoint is that of round 3."""
    folder = tmp_path_factory.mktemp("half") / "run"

    def stop(round: int, *_: object) -> None:
        if round == 4:
            raise Interrupted("here")

    with pytest.raises(Interrupted):
        run(small(), folder, observer=stop)
    return folder


def copy(folder: Path, to: Path) -> Path:
    if to.exists():
        shutil.rmtree(to)
    shutil.copytree(folder, to)
    return to


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(bytes(data))


def written(folder: Path) -> list[str]:
    """Every file that a run has written, by its path in the folder."""
    names = [str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if p.is_file()]
    return [name for name in names if name != ".lock"]


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_verify_notices_any_flipped_bit_of_a_finished_run(
    data: st.DataObject, whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = copy(whole, tmp_path_factory.getbasetemp() / "flipped")
    name = data.draw(st.sampled_from(written(folder)))
    flip(folder / name, data.draw(st.integers(0, 8 * (folder / name).stat().st_size - 1)))
    found = damage(folder)
    assert found, name
    assert all("\n" not in line for line in found)


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_flipped_bit_of_what_it_goes_on_from_changes_a_number(
    data: st.DataObject, half: Path, whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A flip in the newest checkpoint, a piece or its sums is an error; a flip elsewhere changes no table."""
    folder = copy(half, tmp_path_factory.getbasetemp() / "flipped-half")
    newest = checkpoint.newest(folder / "checkpoints")
    assert newest is not None
    names = [str(newest.relative_to(folder)), *(n for n in written(folder) if n.startswith("unfinished/"))]
    name = data.draw(st.sampled_from(names))
    flip(folder / name, data.draw(st.integers(0, 8 * (folder / name).stat().st_size - 1)))
    needed = not name.startswith("unfinished/sums-") or name.endswith(f"{newest.stem.partition('-')[2]}.json")
    if needed:
        assert damage(folder), name
        with pytest.raises(InputError, match=r"^[^\n]*$"):
            run(small(), folder)
    else:
        resumed = run(small(), folder)
        pd.testing.assert_frame_equal(resumed.clients, open_run(whole).clients, check_exact=True)


def test_verify_is_content_with_what_was_written(whole: Path, half: Path, tmp_path: Path) -> None:
    assert damage(whole) == []
    assert damage(half) == []
    folder = copy(half, tmp_path / "run")
    run(small(), folder)
    assert damage(folder) == []


def test_a_file_that_cannot_be_read_is_told(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of another user, which root does not meet."""
    name = next(iter(open_run(whole).manifest()))
    real = files.FileFacts.on_disk

    def on_disk(path: Path) -> files.FileFacts:
        if path == whole / name:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(files.FileFacts, "on_disk", on_disk)
    assert damage(whole) == [f"{whole / name}: cannot be read: Permission denied"]


def test_a_checkpoint_of_another_round_than_its_name_says(half: Path, tmp_path: Path) -> None:
    folder = copy(half, tmp_path / "run") / "checkpoints"
    (folder / "round-00000003.safetensors").rename(folder / "round-00000005.safetensors")
    with pytest.raises(InputError, match=r"round-00000005.*it is of round 3"):
        run(small(), folder.parent)


def test_a_piece_altered_with_as_many_rows(half: Path, tmp_path: Path) -> None:
    folder = copy(half, tmp_path / "run")
    piece = folder / "unfinished" / "rounds-00000002.parquet"
    files.write_table(piece, pd.read_parquet(piece).assign(accuracy=0.99))
    with pytest.raises(InputError, match=r"not those that sums-00000003\.json vouches for"):
        run(small(), folder)


def test_sums_of_a_version_with_fewer_tables(half: Path, whole: Path, tmp_path: Path) -> None:
    """They vouch for the tables of then: the run goes on, but not where another table has a piece."""
    folder = copy(half, tmp_path / "run")
    newest = folder / "unfinished" / "sums-00000003.json"
    sums = json.loads(newest.read_text())
    assert sums["chains"].pop("schedule") == ""
    newest.write_text(json.dumps(sums))
    pd.testing.assert_frame_equal(run(small(), folder).clients, open_run(whole).clients, check_exact=True)

    folder = copy(half, tmp_path / "missing")
    newest = folder / "unfinished" / "sums-00000003.json"
    sums = json.loads(newest.read_text())
    del sums["chains"]["clients"]
    newest.write_text(json.dumps(sums))
    with pytest.raises(InputError, match=r"not those that sums-00000003\.json vouches for"):
        run(small(), folder)


def test_settings_told_otherwise_break_no_promise_where_it_cannot_go_on(half: Path, tmp_path: Path) -> None:
    """Names may differ from those of the run that was left: then experiment.toml is written anew, before the rest."""
    folder = copy(half, tmp_path / "run")
    piece = folder / "unfinished" / "rounds-00000002.parquet"
    files.write_table(piece, pd.read_parquet(piece).assign(accuracy=0.99))
    with pytest.raises(InputError, match="vouches for"):
        run(small().replace(name="otherwise"), folder)
    assert not open_run(folder).done
    assert all("vouches for" in line for line in damage(folder))  # of the pieces alone


@pytest.mark.parametrize("how", ["all", "one", "altered"])
def test_pieces_that_go_while_the_run_computes(how: str, tmp_path: Path) -> None:
    def meddle(round: int, *_: object) -> None:
        unfinished = tmp_path / "run" / "unfinished"
        if round == 4:
            piece = unfinished / "rounds-00000002.parquet"
            if how == "all":
                unfinished.rename(
                    tmp_path / "gone"
                )  # at once: a piece may be written while files are deleted
            elif how == "one":
                piece.unlink()
            else:
                files.write_table(piece, pd.read_parquet(piece).assign(accuracy=0.99))

    with pytest.raises(FedroamError, match="while the run was computing"):
        run(small(), tmp_path / "run", observer=meddle)
    assert open_run(tmp_path / "run").status["state"] == "failed"
    with pytest.raises(InputError):  # and it is not gone on with
        run(small(), tmp_path / "run")


@pytest.mark.parametrize("what", ["write_table", "write_json"])
def test_a_folder_that_goes_just_when_a_piece_is_put_into_it(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for the folder and the writing, as it may happen to a thread that writes beside the rounds."""
    write, unfinished = vars(pieces)[what], tmp_path / "run" / "unfinished"

    def late(path: Path, *given: Any) -> Any:
        if path.parent == unfinished and "00000004" in path.name and unfinished.is_dir():
            unfinished.rename(tmp_path / "gone")
        return write(path, *given)

    monkeypatch.setattr(pieces, what, late)
    with pytest.raises(
        FedroamError, match="unfinished: was deleted or moved while the run was computing: begin anew"
    ):
        run(small(), tmp_path / "run")
    assert open_run(tmp_path / "run").status["state"] == "failed"


def test_nothing_is_written_through_a_planted_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    for name in ("run.json.tmp", "run.json", "experiment.toml", ".lock", "movement", "unfinished"):
        precious.write_text("precious")
        (tmp_path / "away").mkdir(exist_ok=True)
        folder = tmp_path / f"run-{name}"
        folder.mkdir()
        target = tmp_path / "away" if name in ("movement", "unfinished") else precious
        (folder / name).symlink_to(target)
        with pytest.raises(InputError, match="is a link"):
            run(small(), folder)
        with pytest.raises(InputError, match="is a link"):
            run(small(), folder, existing="replace")
        assert precious.read_text() == "precious"
        assert list((tmp_path / "away").iterdir()) == []


def test_a_file_aside_is_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    (tmp_path / "facts.json.000000000000.tmp").symlink_to(precious)
    with pytest.raises(FileExistsError):
        files.write_json(tmp_path / "facts.json", {"a": 1})
    assert precious.read_text() == "precious"
    (tmp_path / "linked.json").symlink_to(precious)
    with pytest.raises(InputError, match="is a link"):
        files.write_json(tmp_path / "linked.json", {"a": 1})


def test_a_full_disk_leaves_the_old_file_and_no_half_one(tmp_path: Path) -> None:
    files.write_json(tmp_path / "facts.json", {"a": 1})

    def full(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_aside(tmp_path / "facts.json", full)
    assert [p.name for p in tmp_path.iterdir()] == ["facts.json"]
    assert json.loads((tmp_path / "facts.json").read_text()) == {"a": 1}


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_a_large_checkpoint_that_finds_no_room_is_told_with_its_file(tmp_path: Path) -> None:
    """It is written by a library of its own, which names none."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = {"models": np.arange(files.SHORT, dtype=np.float32)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (files.SHORT, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: .*round-00000003\.safetensors'"):
            checkpoint.save(tmp_path, 3, "d", large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_that_are_gone_are_told_and_nothing_takes_the_place_of_recorded_rounds(
    half: Path, tmp_path: Path, fr: Commands
) -> None:
    folder = copy(half, tmp_path / "run")
    shutil.rmtree(folder / "checkpoints")
    before = contents(folder)
    gone = f"{folder / 'checkpoints'}: the checkpoint of round 3, which run.json tells of, is missing; there is none"
    assert damage(folder) == [gone]
    answer = fr("verify", str(folder))
    assert (answer.code, gone in answer.err) == (2, True)
    with pytest.raises(InputError, match="there is none: bring it back, or delete the run's folder to begin"):
        run(small(), folder)
    assert contents(folder).items() >= before.items()
    assert run(small(), folder, existing="replace").done


def test_the_newest_checkpoint_that_is_gone_is_told_and_the_one_before_gives_the_same(
    half: Path, whole: Path, tmp_path: Path
) -> None:
    folder = copy(half, tmp_path / "run")
    (folder / "checkpoints" / "round-00000003.safetensors").unlink()
    (told,) = damage(folder)
    assert told.endswith("is missing; the newest is round-00000002.safetensors")
    resumed = run(small(), folder)
    pd.testing.assert_frame_equal(resumed.clients, open_run(whole).clients, check_exact=True)


def test_a_run_that_ended_before_its_first_checkpoint_begins_again(whole: Path, tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise Interrupted("here")

    with pytest.raises(Interrupted):
        run(small(), tmp_path / "run", observer=stop, checkpoint_pause=3600.0)
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert damage(tmp_path / "run") == []
    resumed = run(small(), tmp_path / "run")
    pd.testing.assert_frame_equal(resumed.clients, open_run(whole).clients, check_exact=True)


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Changes `run.json` and gives it the sum that goes with it."""

    def edit(folder: Path) -> None:
        from fedroam.recording.run import write_status

        status = json.loads((folder / "run.json").read_text())
        change(status)
        write_status(folder, status)

    return edit


OUTSIDE = {"bytes": 1, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (lambda f: (f / "clients.parquet").unlink(), "clients.parquet: missing"),
        (lambda f: (f / "world.json").write_text("{}"), "world.json: damaged: it has 2 bytes"),
        (
            lambda f: shutil.copy(f / "partition.parquet", f / "matrices.parquet"),
            "was not written by this run",
        ),
        (edited(lambda s: s.update(seed="0")), "run.json: damaged: seed = '0'"),
        (edited(lambda s: s.update(rounds=-1)), "run.json: damaged: rounds = -1"),
        (edited(lambda s: s.pop("diverged_at")), "run.json: damaged"),
        (edited(lambda s: s["files"].update({"../x": OUTSIDE})), "lies outside the folder"),
        (edited(lambda s: s["files"].update({"/etc/hostname": OUTSIDE})), "lies outside the folder"),
    ],
)
def test_a_damaged_folder_is_not_opened(
    do: Callable[[Path], None], says: str, whole: Path, tmp_path: Path
) -> None:
    folder = copy(whole, tmp_path / "run")
    do(folder)
    with pytest.raises(InputError) as caught:
        open_run(folder)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "table", "says"),
    [
        ("rounds", lambda t: t.drop(columns="accuracy"), "column 'accuracy' is missing"),
        ("clients", lambda t: t.assign(x="here"), "column 'x' holds"),
        ("rounds", lambda t: t.assign(active=[[n] for n in t["active"]]), "column 'active' holds object"),
        ("contacts", lambda t: t.assign(i=t["i"] + 0.5), "column 'i' holds float64"),
        ("partition", lambda t: t.rename(columns={"class": "k"}), "column 'class' is missing"),
    ],
)
def test_tables_of_another_shape(
    name: str, table: Callable[[pd.DataFrame], pd.DataFrame], says: str, whole: Path, tmp_path: Path
) -> None:
    folder = copy(whole, tmp_path / "run")
    of_before_there_was_a_manifest(folder)
    path = folder / ("movement" if name == "contacts" else "") / f"{name}.parquet"
    files.write_table(path, table(pd.read_parquet(path)))
    with pytest.raises(InputError, match=name) as caught:
        getattr(open_run(folder), name)
    assert says in str(caught.value)


def test_the_sums_of_pages_are_written_and_read(whole: Path) -> None:
    path = whole / "clients.parquet"
    data = bytearray(path.read_bytes())
    noticed = 0
    for k in range(4, 400, 7):  # the first pages
        data[k] ^= 16
        try:
            table = files.table_of(bytes(data), path)
        except InputError as error:
            noticed += 1
            assert "damaged" in str(error)  # noqa: PT017 (both ways out are allowed, silence is not)
        else:
            pd.testing.assert_frame_equal(table, files.read_table(path), check_exact=True)
        data[k] ^= 16
    assert noticed > 30


def test_the_command(whole: Path, tmp_path: Path, fr: Commands) -> None:
    copy(whole, tmp_path / "runs" / "a")
    copy(whole, tmp_path / "runs" / "b")
    good = fr("verify", str(tmp_path / "runs"))
    assert good.code == 0
    assert "2 of 2 runs are what was written" in good.out
    flip(tmp_path / "runs" / "b" / "partition.parquet", 99)
    bad = fr("verify", str(tmp_path / "runs"))
    assert bad.code == 2
    assert "partition.parquet: damaged: its SHA-256 is not the one that run.json lists" in bad.err
    assert "1 of 2 runs" in bad.err
    of_before_there_was_a_manifest(tmp_path / "runs" / "a")
    old = fr("verify", str(tmp_path / "runs" / "a"))
    assert old.code == 2
    assert "kept no check sums" in old.err


def test_a_run_that_is_being_written_is_not_called_damaged(tmp_path: Path, fr: Commands) -> None:
    """Its checkpoint may go, and the sums of its pieces, between a look at which there are and one into them."""
    answers = []

    def look(round: int, *_: object) -> None:
        if round == 5:
            for path in (tmp_path / "run" / "unfinished").glob("sums-*.json"):
                path.unlink()
            answers.append(fr("verify", str(tmp_path / "run")))
            whole = (tmp_path / "run" / "partition.parquet").read_bytes()
            (tmp_path / "run" / "partition.parquet").write_bytes(whole[::-1])
            answers.append(fr("verify", str(tmp_path / "run")))
            (tmp_path / "run" / "partition.parquet").write_bytes(whole)

    run(small(), tmp_path / "run", observer=look)
    good, bad = answers
    assert (good.code, good.err) == (0, "")
    assert "run: is being written; what does not change meanwhile is as written" in good.out
    assert "0 of 1 runs are what was written; being written: 1 of the runs" in good.out
    assert bad.code == 2
    assert "partition.parquet: damaged: its SHA-256" in bad.err
    assert held(tmp_path / "run") is False
    assert held(tmp_path) is None


def test_what_changes_during_a_look_is_no_damage(half: Path, tmp_path: Path) -> None:
    folder = copy(half, tmp_path / "run")
    looks = iter([["gone meanwhile", "damaged"], ["another one gone", "damaged"]])
    with take_lock(folder / ".lock") or pytest.fail("the lock is free"):
        assert lasting(folder, lambda: next(looks)) == ["damaged"]
    assert lasting(folder, lambda: ["damaged"]) == ["damaged"]


def test_a_run_that_has_lost_its_description_is_told(whole: Path, tmp_path: Path, fr: Commands) -> None:
    lost = copy(whole, tmp_path / "runs" / "lost")
    (lost / "run.json").unlink()
    for more in ("", "beside it are whole ones"):
        answer = fr("verify", str(tmp_path / "runs"))
        assert answer.code == 2, more
        assert f"{lost / 'run.json'}: missing; the folder holds the other files of a run" in answer.err
        copy(whole, tmp_path / "runs" / "whole")
    assert "error: 1 of 2 runs are not what was written" in answer.err


def test_a_lock_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match="is a link"):
        take_lock(tmp_path / ".lock")
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_checkpoint_of_the_first_version_is_read(tmp_path: Path) -> None:
    """Written by hand as fedroam 0.1.0 did: a CRC-32 of the arrays alone, and no sums of pieces."""
    from safetensors.numpy import save_file

    arrays = {"a": np.arange(3.0), "b": np.array([True])}
    path = tmp_path / "round-00000002.safetensors"
    facts = {"round": "2", "digest": "abc", "crc32": checkpoint._crc32(arrays)}
    save_file(arrays, path, metadata={"fedroam": json.dumps(facts, sort_keys=True)})
    found = checkpoint.load(path, "abc")
    assert (found.round, found.summed) == (2, False)
    np.testing.assert_array_equal(found.arrays["a"], arrays["a"])
    facts["round"] = "3"
    save_file(arrays, path, metadata={"fedroam": json.dumps(facts, sort_keys=True)})
    with pytest.raises(InputError, match="it is of round 3"):
        checkpoint.load(path, "abc")


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("models.parameters", lambda a: a[:, :-1], "is float32"),
        ("models.parameters", lambda a: a.astype(np.float64), "is float64"),
        ("models.momentum", lambda a: a[:-1], "'models.momentum' is float32"),
        ("meeting.present", lambda a: a.astype(np.int8), "is int8"),
        ("meeting.first", lambda a: a[::-1].copy(), "damaged"),
        ("meeting.indptr", lambda a: a - 1, "damaged"),
        ("meeting.indices", lambda a: a + 100, "name clients that there are not"),
        ("account.energy", lambda a: a[:-1], "'account.energy' is float64 [2], expected float64 [3]"),
        ("mobility.position", lambda a: a.astype(np.float32), "'mobility.position' is float32"),
        ("activity.active", lambda a: None, "'activity.active' is missing"),
        ("bytes_sent", lambda a: np.zeros(2, np.int64), "'bytes_sent' is int64 [2]"),
    ],
)
def test_a_checkpoint_with_a_valid_sum_and_other_arrays(
    name: str, change: Callable[[np.ndarray], np.ndarray | None], says: str, half: Path, tmp_path: Path
) -> None:
    folder = copy(half, tmp_path / "run")
    newest = checkpoint.newest(folder / "checkpoints")
    assert newest is not None
    found = checkpoint.load(newest, small().digest)
    arrays = {k: change(v) if k == name else v for k, v in found.arrays.items()}
    checkpoint.save(
        folder / "checkpoints",
        found.round,
        small().digest,
        {k: v for k, v in arrays.items() if v is not None},
    )
    with pytest.raises(InputError) as caught:
        run(small(), folder)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
