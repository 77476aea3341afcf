"""What a folder's runs say now: states, changes, sweeps, and folders that came from elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fedroam.errors import InputError
from fedroam.live import Watcher
from fedroam.recording import take_lock, write_json
from support.made_runs import made_run


def test_finished_and_unfinished_runs(tmp_path: Path) -> None:
    made_run(tmp_path, "a", 0, [0.1, 0.5])
    made_run(tmp_path, "b", 1, [0.1, 0.3], done=False, planned=40)
    first, second = Watcher(tmp_path).look()
    assert (first.name, first.seed, first.state, first.round, first.rounds) == ("made/a", 0, "done", 10, 10)
    assert first.accuracy == pytest.approx(0.5)
    assert first.over
    assert (second.state, second.round, second.rounds, second.over) == ("running", 10, 40, False)
    assert second.accuracy == pytest.approx(0.3)


def test_a_run_that_moves_on_is_read_again_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_run(tmp_path, "a", 0, [0.1, 0.5])
    still = made_run(tmp_path, "b", 0, [0.1], done=False, planned=40)
    watcher = Watcher(tmp_path)
    watcher.look()
    status = json.loads((still.folder / "run.json").read_text())
    write_json(still.folder / "run.json", {**status, "round": 30})
    read = []
    monkeypatch.setattr(
        "fedroam.live.glance.open_run", lambda folder: (read.append(folder.parent.name), _open(folder))[1]
    )
    assert [glance.round for glance in watcher.look()] == [10, 30]
    assert read == ["b"]


def _open(folder: Path) -> object:
    from fedroam.recording import open_run

    return open_run(folder)


def test_a_damaged_run_is_told_and_hides_no_other(tmp_path: Path) -> None:
    made_run(tmp_path, "a", 0, [0.1, 0.5])
    (made_run(tmp_path, "b", 0, [0.1, 0.5]).folder / "run.json").write_text('{"format": 1')
    found = {glance.place: glance for glance in Watcher(tmp_path).look()}
    assert found["a/seed-0"].state == "done"
    assert found["b/seed-0"].state == "unreadable"
    assert "run.json" in found["b/seed-0"].reason


@pytest.mark.parametrize("bait", ["link", "folder", "pipe"])
def test_links_and_pipes_of_a_hostile_folder_are_not_read(tmp_path: Path, bait: str) -> None:
    secret = made_run(tmp_path / "outside", "secret", 0, [0.1, 0.9])
    root = tmp_path / "root"
    run = made_run(root, "a", 0, [0.1, 0.5])
    table = run.folder / "rounds.parquet"
    if bait == "folder":
        (root / "b").symlink_to(secret.folder.parent)
        assert [glance.place for glance in Watcher(root).look()] == ["a/seed-0"]
        return
    table.unlink()
    if bait == "link":
        table.symlink_to(secret.folder / "rounds.parquet")
    else:
        os.mkfifo(table)  # a reader would wait for ever
    (glance,) = Watcher(root).look()
    assert glance.state == "unreadable"
    assert glance.accuracy is None
    with pytest.raises(InputError, match="link or no file"):
        Watcher(root).open(glance.id)


def test_an_id_opens_its_run_and_nothing_else(tmp_path: Path) -> None:
    made_run(tmp_path, "a", 0, [0.1, 0.5])
    made_run(tmp_path, "b", 0, [0.1, 0.5])
    watcher = Watcher(tmp_path)
    for glance in watcher.look():
        assert watcher.open(glance.id).folder == tmp_path / glance.place
    for wrong in ("a/seed-0", "../root", "", "0" * 16):
        with pytest.raises(InputError, match="no run"):
            watcher.open(wrong)


def test_a_sweep_names_its_runs_by_what_varies_and_tells_of_those_that_wait(tmp_path: Path) -> None:
    run = made_run(tmp_path / "elsewhere", "", 0, [0.1, 0.5])
    digest = str(run.status["digest"])
    (tmp_path / "sweep/runs").mkdir(parents=True)
    run.folder.rename(tmp_path / "sweep/runs" / digest[:16])
    rows = [
        {"keys": {"contacts.radius": radius, "mobility.kind": "static"}, "seed": 0, "digest": one}
        for radius, one in ((3.0, digest), (5.0, "a" * 64), (9.0, "b" * 64))
    ]
    facts = {"format": 1, "name": "s", "varied": ["contacts.radius", "mobility.kind"], "runs": rows}
    write_json(
        tmp_path / "sweep/sweep.json", {**facts, "records": {"b" * 64: {"state": "failed", "reason": "boo"}}}
    )
    found = [(glance.name, glance.state, glance.reason) for glance in Watcher(tmp_path / "sweep").look()]
    assert found == [
        ("radius=3.0, static", "done", ""),
        ("radius=5.0, static", "waiting", ""),
        ("radius=9.0, static", "failed", "boo"),
    ]


def test_a_run_that_nobody_writes_any_more_is_stopped(tmp_path: Path) -> None:
    for name in ("running", "killed"):
        made_run(tmp_path, name, 0, [0.1, 0.3], done=False, planned=40)
        (tmp_path / name / "seed-0" / ".lock").touch()
    with take_lock(tmp_path / "running" / "seed-0" / ".lock") or pytest.fail("the lock is free"):
        killed, running = Watcher(tmp_path).look()
    assert (running.state, running.over) == ("running", False)
    assert (killed.state, killed.over, killed.round) == ("stopped", True, 10)
    (tmp_path / "killed" / "seed-0" / "run.json").write_text("half")
    assert [(glance.state, glance.over) for glance in Watcher(tmp_path / "killed").look()] == [
        ("unreadable", True)
    ]


def test_runs_of_a_sweep_wait_while_somebody_computes_it(tmp_path: Path) -> None:
    run = made_run(tmp_path / "elsewhere", "", 0, [0.1, 0.5], done=False, planned=40)
    digest = str(run.status["digest"])
    root = tmp_path / "sweep"
    (root / "runs").mkdir(parents=True)
    run.folder.rename(root / "runs" / digest[:16])
    (root / "runs" / digest[:16] / ".lock").touch()  # of a worker that died, in whose place another one comes
    rows = [{"keys": {"contacts.radius": 3.0}, "seed": 0, "digest": one} for one in (digest, "a" * 64)]
    facts = {"format": 1, "name": "s", "varied": ["contacts.radius"], "runs": rows, "records": {}}
    write_json(root / "sweep.json", facts)
    with take_lock(root / ".lock") or pytest.fail("the lock is free"):
        assert [(one.state, one.over) for one in Watcher(root).look()] == [
            ("running", False),
            ("waiting", False),
        ]
    assert [(one.state, one.over) for one in Watcher(root).look()] == [("stopped", True), ("waiting", True)]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        Watcher(tmp_path / "nothing")
