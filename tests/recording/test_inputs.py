"""Files that a run reads: recorded, and compared before its results are used again or gone on with."""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedroam import Interrupted
from fedroam.access_points.given import FromFile
from fedroam.components import Part, build
from fedroam.data import Dataset
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.planning import sweep_plan
from fedroam.recording import inputs
from fedroam.runner import run
from fedroam.sweep.folder import run_folder
from fedroam.sweep.running import run_sweep
from support.commands import Commands
from support.run_folders import of_before_there_was_a_manifest
from support.tiny import tiny


def samples(path: Path, seed: int = 0, count: int = 60) -> Path:
    """Two classes of random points, as an .npz file; another seed gives a file of the same size."""
    draw = np.random.default_rng(seed)
    y = np.arange(count) % 2
    np.savez(path, x_train=draw.normal(size=(count, 3)).astype(np.float32), y_train=y)
    return path


def learning(path: Path, **settings: Any) -> Experiment:
    data = {"kind": "arrays", "path": str(path), "test_share": 0.4}
    return tiny(data=data, model="softmax_regression", clients=3, rounds=3, **settings)


def stop_after(round: int) -> Any:
    def observe(now: int, rounds: int, measurement: object) -> None:
        if now == round:
            signal.raise_signal(signal.SIGINT)

    return observe


def test_a_run_tells_the_files_it_read(tmp_path: Path) -> None:
    path = samples(tmp_path / "mine.npz")
    there = run(learning(path), tmp_path / "run").environment
    assert there["files"] == {
        "data.path": {
            "file": str(path),
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
    }
    assert run(tiny(rounds=1), tmp_path / "plain").environment["files"] == {}


@pytest.mark.parametrize(("count", "what"), [(60, "SHA-256 was"), (62, "bytes, now")])
def test_a_finished_run_is_not_used_again_with_another_file(tmp_path: Path, count: int, what: str) -> None:
    path = samples(tmp_path / "mine.npz")
    first = run(learning(path), tmp_path / "run").rounds
    before = path.read_bytes()
    samples(path, seed=1, count=count)
    with pytest.raises(InputError, match=what) as error:
        run(learning(path), tmp_path / "run")
    assert f"data.path = {path}: has changed since {tmp_path / 'run'} was computed" in str(error.value)
    assert "--fresh" in str(error.value)
    path.write_bytes(before)  # with another time of modification
    assert run(learning(path), tmp_path / "run").rounds.equals(first)
    path.unlink()  # no change: the results are what they were
    assert run(learning(path), tmp_path / "run").done
    samples(path, seed=1)
    assert not run(learning(path), tmp_path / "run", existing="replace").rounds.equals(first)


def test_an_unfinished_run_is_not_gone_on_with(tmp_path: Path) -> None:
    path = samples(tmp_path / "mine.npz")
    with pytest.raises(Interrupted):
        run(learning(path), tmp_path / "run", observer=stop_after(1))
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*.*") if p.is_file()}
    kept = path.read_bytes()
    samples(path, seed=1)
    with pytest.raises(InputError, match="has changed since"):
        run(learning(path), tmp_path / "run")
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*.*") if p.is_file()} == before
    path.write_bytes(kept)
    assert run(learning(path), tmp_path / "run").done


def test_an_unfinished_run_is_not_gone_on_with_other_data_of_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data sets that are known by name: their samples are compared, wherever they come from."""
    with pytest.raises(Interrupted):
        run(tiny(), tmp_path / "run", observer=stop_after(1))
    run(tiny(), tmp_path / "whole")
    monkeypatch.setattr(Dataset, "fingerprint", property(lambda _: "f" * 64))
    with pytest.raises(InputError, match=r"run: was begun with other data \(SHA-256 .* now ffffffffffff\)"):
        run(tiny(), tmp_path / "run")
    assert run(tiny(), tmp_path / "whole").done  # nothing is computed, so nothing is read
    monkeypatch.undo()
    assert run(tiny(), tmp_path / "run").done


def test_a_run_without_a_checkpoint_begins_with_what_there_is(tmp_path: Path) -> None:
    """It was ended before its first one."""
    path = samples(tmp_path / "mine.npz")

    def stop(*_: object) -> None:
        raise Interrupted("here")

    with pytest.raises(Interrupted):
        run(learning(path), tmp_path / "run", observer=stop, checkpoint_pause=3600.0)
    samples(path, seed=1)
    assert run(learning(path), tmp_path / "run").done


def test_a_folder_of_before_there_was_a_record_is_used_as_it_is(tmp_path: Path) -> None:
    path = samples(tmp_path / "mine.npz")
    run(learning(path), tmp_path / "run")
    of_before_there_was_a_manifest(tmp_path / "run")
    (tmp_path / "run" / "environment.json").write_text("{}")
    samples(path, seed=1)
    assert run(learning(path), tmp_path / "run").done


def test_a_sweep_refuses_its_finished_runs(tmp_path: Path) -> None:
    path = samples(tmp_path / "mine.npz")
    plan = sweep_plan(learning(path), seeds=1)
    run(learning(path), run_folder(tmp_path / "sweep", learning(path).digest))
    assert all(row.state == "done" for row in run_sweep(plan, tmp_path / "sweep").runs)
    samples(path, seed=1)
    with pytest.raises(InputError, match="has changed since"):
        run_sweep(plan, tmp_path / "sweep")


def test_the_command_line_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    call = Commands(tmp_path, capsys)
    samples(tmp_path / "mine.npz")
    (tmp_path / "own.toml").write_text(learning(Path("mine.npz")).toml())
    words = ("run", "own.toml", "--out", "out", "--no-report", "--quiet")
    assert call(*words).code == 0
    samples(tmp_path / "mine.npz", seed=1)
    answer = call(*words)
    assert answer.code == 2
    assert answer.err.startswith("error: data.path = mine.npz: has changed since out/seed-0 was computed")
    assert len(answer.err.splitlines()) == 1
    assert call(*words, "--fresh").code == 0


def test_every_part_tells_its_files(tmp_path: Path) -> None:
    """Parts with a setting that is a file of the user's."""
    for name in ("a.npz", "a.csv", "b.csv", "t.trace", "w.safetensors"):
        (tmp_path / name).write_text(name)
    given = str(tmp_path) + "/"
    parts: dict[str, tuple[str, dict[str, Any]]] = {
        "arrays": ("data", {"path": given + "a.npz"}),
        "csv": ("data", {"path": given + "a.csv", "test_path": given + "b.csv"}),
        "file": ("access_points", {"path": given + "b.csv"}),
        "trace": ("mobility", {"file": given + "t.trace"}),
        "resnet18": ("model", {"weights": given + "w.safetensors"}),
    }
    for kind, (family, settings) in parts.items():
        part = build(family, {"kind": kind, **settings})
        assert {name: str(path) for name, path in part.reads().items()} == settings
    assert build("model", {"kind": "resnet18"}).reads() == {}
    assert FromFile(path=given + "b.csv").reads() == {"path": tmp_path / "b.csv"}


def test_a_file_is_read_once_while_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert inputs.sha256(path) == hashlib.sha256(b"one").hexdigest()
    real, asked = hashlib.file_digest, []
    monkeypatch.setattr(hashlib, "file_digest", lambda *args: asked.append(1) or real(*args))
    inputs.sha256(path)
    assert asked == []
    path.write_bytes(b"two!")
    assert inputs.sha256(path) == hashlib.sha256(b"two!").hexdigest()
    assert asked == [1]


def test_parts_within_parts_are_asked(tmp_path: Path) -> None:
    class Inner(Part):
        def reads(self) -> dict[str, Path]:
            return {"map": tmp_path / "map", "lost": tmp_path / "nowhere"}

    class Outer(Part):
        inner: Part

    class Whole(Part):
        mobility: Part

    (tmp_path / "map").write_text("here")
    experiment: Any = Whole(mobility=Outer(inner=Inner()))
    assert inputs.files_read(experiment) == {"mobility.inner.map": tmp_path / "map"}
