"""What trackers are told, and that none of them can cost a run."""

from __future__ import annotations

import _thread
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import fedroam
from fedroam.errors import FedroamError, InputError
from fedroam.terminal.interrupts import Interrupted
from fedroam.tracking import End, TrackedRun, check_trackers, trackers_named
from support.commands import Commands
from support.tiny import tiny
from support.waiting import eventually


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


class Noted:
    """Notes what it is told; raises where it is asked to."""

    def __init__(self, bad: str = "") -> None:
        self.bad = bad
        self.runs: list[TrackedRun] = []
        self.rounds: dict[int, Mapping[str, float]] = {}
        self.ends: list[End] = []

    def start(self, run: TrackedRun) -> None:
        self.runs.append(run)
        self._fail("start")

    def log(self, round: int, values: Mapping[str, float]) -> None:
        self.rounds[round] = values
        self._fail("log")

    def end(self, state: End) -> None:
        self.ends.append(state)
        self._fail("end")

    def _fail(self, what: str) -> None:
        if what == self.bad:
            raise ConnectionError("nobody answers")


def test_a_tracker_is_told_every_number_of_the_table(tmp_path: Path) -> None:
    noted = Noted()
    run = fedroam.run(tiny(), tmp_path / "run", trackers=[noted], variant="mine")
    rows = run.rounds.set_index("round")
    assert list(noted.rounds) == list(rows.index)
    for round, values in noted.rounds.items():
        known = rows.loc[round].dropna().drop("seconds")
        assert {name: values[name] for name in known.index} == {k: float(v) for k, v in known.items()}
        assert not np.isnan(list(values.values())).any()
    assert noted.ends == ["done"]
    assert noted.runs[0].name == f"mine/seed-{tiny().seed}"
    assert noted.runs[0].settings()["mobility.kind"] == tiny().mobility.kind


def test_a_finished_run_is_told_to_nobody(tmp_path: Path) -> None:
    fedroam.run(tiny(), tmp_path / "run")
    noted = Noted()
    fedroam.run(tiny(), tmp_path / "run", trackers=[noted])
    assert not noted.runs


@pytest.mark.parametrize("bad", ["log", "end"])
def test_a_tracker_that_fails_costs_no_number(bad: str, tmp_path: Path) -> None:
    plain = fedroam.run(tiny(), tmp_path / "plain")
    failing, other = Noted(bad), Noted()
    with pytest.warns(
        UserWarning, match="Noted is told no more of this run: ConnectionError: nobody answers"
    ):
        told = fedroam.run(tiny(), tmp_path / "told", trackers=[failing, other])
    columns = [name for name in plain.rounds if name != "seconds"]
    assert told.rounds[columns].equals(plain.rounds[columns])
    assert list(other.rounds) == list(plain.rounds["round"])
    assert other.ends == ["done"]


def test_one_that_cannot_begin_stops_the_run_before_anything_is_written(tmp_path: Path) -> None:
    begun = Noted()
    with pytest.raises(InputError, match="Noted cannot begin: ConnectionError: nobody answers"):
        fedroam.run(tiny(), tmp_path / "run", trackers=[begun, Noted("start")])
    assert not (tmp_path / "run").exists()
    assert begun.ends == ["failed"]


def test_how_a_run_ended_is_told(tmp_path: Path) -> None:
    def fail(round: int, rounds: int, measurement: object) -> None:
        raise FedroamError("enough")

    noted = Noted()
    with pytest.raises(FedroamError, match="enough"):
        fedroam.run(tiny(), tmp_path / "run", trackers=[noted], observer=fail)
    assert noted.ends == ["failed"]


def test_ctrl_c_and_going_on(tmp_path: Path) -> None:
    def press(round: int, rounds: int, measurement: object) -> None:
        if round == 1:
            _thread.interrupt_main()

    first, second = Noted(), Noted()
    with pytest.raises(Interrupted):
        fedroam.run(tiny(), tmp_path / "run", trackers=[first], observer=press)
    whole = fedroam.run(tiny(), tmp_path / "run", trackers=[second])
    assert (first.ends, second.ends) == (["interrupted"], ["done"])
    assert {**first.rounds, **second.rounds}.keys() == set(whole.rounds["round"])


def test_names() -> None:
    with pytest.raises(InputError, match=r"unknown tracker 'tensorbord': .*did you mean 'tensorboard'"):
        trackers_named(["tensorbord"])
    assert len(trackers_named(["tensorboard", "tensorboard"])) == 1


@pytest.mark.parametrize(
    ("name", "module"),
    [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow.tracking"), ("wandb", "wandb")],
)
def test_one_that_is_not_installed_names_its_command(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        InputError, match=rf"--track {name} needs an optional package: .*pip install .*tracking"
    ):
        check_trackers([name])


def test_tensorboard_shows_the_runs_of_a_folder(call: Commands, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert call.run("--out", "runs", "--track", "tensorboard").code == 0
    run = fedroam.open_run("runs/seed-0")
    events = accumulator.EventAccumulator(str(Path("runs/seed-0/tensorboard")))
    events.Reload()
    told = events.Scalars("accuracy")
    assert [each.step for each in told] == list(run.rounds["round"])
    assert [each.value for each in told] == list(run.rounds["accuracy"].astype(np.float32))
    assert "rounds = " in events.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert call("verify", "runs").code == 0  # what a tracker leaves there does no harm


def test_mlflow_has_the_run_once_and_goes_on_with_it(
    call: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/kept.db")

    def press(round: int, rounds: int, measurement: object) -> None:
        if round == 1:
            _thread.interrupt_main()

    with pytest.raises(Interrupted):
        fedroam.run(tiny(), tmp_path / "run", trackers=trackers_named(["mlflow"]), observer=press)
    run = fedroam.run(tiny(), tmp_path / "run", trackers=trackers_named(["mlflow"]))
    client = tracking.MlflowClient()
    found = client.search_runs([client.get_experiment_by_name(tiny().name).experiment_id])
    assert [each.info.status for each in found] == ["FINISHED"]
    history = {m.step: m.value for m in client.get_metric_history(found[0].info.run_id, "accuracy")}
    assert history == dict(zip(run.rounds["round"], run.rounds["accuracy"], strict=True))
    assert found[0].data.params["mobility.kind"] == tiny().mobility.kind


def test_wandb_is_told_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    fedroam.run(tiny(), tmp_path / "run", trackers=trackers_named(["wandb"]))
    kept = list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert len(kept) == 1
    eventually(lambda: kept[0].stat().st_size > 1000, "wandb's own process writes it")


def test_a_sweep_tells_of_every_run(call: Commands) -> None:
    pytest.importorskip("tensorboard")
    assert call("sweep", "tiny.toml", "--seeds", "2", "--out", "sweep", "--track", "tensorboard").code == 0
    assert len(list(Path("sweep/runs").glob("*/tensorboard/events.*"))) == 2
