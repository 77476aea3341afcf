"""`fedroam clock`: the times of a run, without training."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedroam.analysis import planned_time
from fedroam.analysis.planned_time import Foreseen, planned_rounds, summary
from fedroam.clock import COLUMNS, TIME, TOTALS
from fedroam.components import kinds
from support.commands import Commands, contents
from support.tiny import example, play, tiny

TIMED = ["--set", "clock={kind='seconds',length=20}", "--set", "link={kind='fixed',throughput=0.004}"]


@pytest.fixture
def fedroam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def test_it_says_what_takes_how_long(fedroam: Commands) -> None:
    answer = fedroam("clock", "tiny.toml", *TIMED, "--seeds", "2", "--out", "rounds.csv")
    assert answer.code == 0
    assert "2 rounds" not in answer.out
    assert "3 rounds each" in answer.out
    for head in ("Round", "Training", "Waiting"):
        assert head in answer.out
    table = pd.read_csv(fedroam.folder / "rounds.csv")
    assert table["seed"].tolist() == [0, 0, 0, 1, 1, 1]
    assert (table["seconds"] == 20).all()
    assert (table["fit"] <= table["contacts"]).all()


def test_it_writes_over_nothing_that_it_reads(fedroam: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    fedroam.write("own.csv", "x,class\n" + "".join(f"{k},{k % 2}\n" for k in range(40)))
    own = ["--set", "data={kind='csv',path='own.csv',label='class'}", *TIMED]
    fedroam.write("other.csv", "of before")
    before = contents(fedroam.folder)
    for option, name, told in (
        ("--out", "tiny.toml", "--out tiny.toml: is read by this command; allowed is another file"),
        ("--devices", "own.csv", "--devices own.csv: is read by this command; allowed is another file"),
        ("--devices", "./other.csv", "--devices ./other.csv: is the file of --out; allowed is another file"),
    ):
        answer = fedroam("clock", "tiny.toml", *own, "--out", "other.csv", option, name)
        assert (answer.code, answer.err) == (2, f"error: {told}\n")
    monkeypatch.setattr(pd.DataFrame, "to_csv", lambda _, path, **__: (Path(path).write_text("hal"), 1 / 0))
    assert fedroam("clock", "tiny.toml", *own, "--out", "other.csv").code == 1  # it ended in the midst of it
    assert contents(fedroam.folder) == before


def test_without_a_clock_it_says_what_is_missing(fedroam: Commands) -> None:
    answer = fedroam("clock", "tiny.toml")
    assert answer.code == 2
    assert "clock.kind = 'seconds'" in answer.err
    assert fedroam("clock", "tiny.toml", *TIMED, "--rounds", "0").code == 2


@pytest.mark.parametrize("kind", ["decentralized", "scaffold", "mohawk"])
def test_its_rounds_are_those_of_the_run(kind: str) -> None:
    experiment = tiny(
        federation=example("federation", kind),
        clock={"kind": "seconds", "length": 9.0, "wait": "all"},
        link={"kind": "fixed", "throughput": 8e-6 * 2600 / 5, "shared": True},
    )
    planned, run = (
        pd.DataFrame(planned_rounds(experiment)),
        play(experiment).rounds[1:].reset_index(drop=True),
    )
    for name in (TIME, *COLUMNS):
        assert planned[name].tolist() == run[name].tolist(), name
    each = run[list(TOTALS)].diff().fillna(run[list(TOTALS)].iloc[:1]) / experiment.clients
    for name in TOTALS:
        assert (planned[name] * planned["seconds"]).tolist() == pytest.approx(each[name].tolist())
    found = summary(planned)
    assert sum(found[name] for name in TOTALS) == pytest.approx(1.0)
    assert found["seconds"] == run[TIME].iloc[-1]


@pytest.mark.parametrize("kind", kinds("mobility"))
def test_movement_that_is_foreseen_is_that_of_the_run(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread moves everybody, ahead of the plan; with some away, too."""
    monkeypatch.setattr(planned_time, "cores", lambda: 2)
    settings: dict[str, Any] = {
        "mobility": example("mobility", kind),
        "contacts": {"kind": "closest_approach", "radius": 2.0},
        "clock": {"kind": "seconds", "length": 9.0},
        "link": {"kind": "fixed", "throughput": 8e-6 * 2600 / 2, "shared": True},
        "rounds": 5,
    }
    for activity in ("always", {"kind": "rate", "rate": 0.6}):
        experiment = tiny(**settings, activity=activity, evaluate_every=1)
        ahead: list[int] = []
        look = Foreseen._look

        def noted(own: Foreseen, state: Any, round: int, ahead: list[int] = ahead, look: Any = look) -> Any:
            assert threading.current_thread() is not threading.main_thread()
            ahead.append(round)
            return look(own, state, round)

        monkeypatch.setattr(Foreseen, "_look", noted)
        planned = pd.DataFrame(planned_rounds(experiment))
        monkeypatch.setattr(Foreseen, "_look", look)
        run = play(experiment).rounds[1:].reset_index(drop=True)
        for name in (TIME, *COLUMNS):
            assert planned[name].tolist() == run[name].tolist(), name
        assert ahead == [2, 3, 4, 5]


def test_every_federation_can_be_planned() -> None:
    for kind in kinds("federation"):
        settings: dict[str, Any] = {"federation": example("federation", kind), "validation_share": 0.2}
        model = {"kind": "mlp", "hidden": (6,)}
        rows = list(planned_rounds(tiny(**settings, model=model, clock="seconds", rounds=1)))
        assert [row["seconds"] for row in rows] == [60.0], kind


def test_it_says_how_long_devices_last(fedroam: Commands) -> None:
    """A battery of 30 J under 1 W of idling, of who sends nothing, is empty after 30 s, within round 2 of 20 s."""
    battery = "battery={kind='battery',capacity=0.0083333333333333,idle=1.0,training=0.0}"
    alone = ["--set", "federation=local", "--set", battery]
    answer = fedroam("clock", "tiny.toml", *TIMED, *alone, "--devices", "devices.csv")
    assert answer.code == 0
    for said in ("Ran empty", "Half empty after", "Drawn", "first to run empty, seed 0: Client 0 after 30 s"):
        assert said in answer.out
    devices = pd.read_csv(fedroam.folder / "devices.csv")
    assert devices["battery_died"].tolist() == pytest.approx([30.0] * len(devices))
    assert devices["client"].tolist() == list(range(len(devices)))


def test_its_devices_are_those_of_the_run() -> None:
    """Energy, time and batteries as in the last row of the table of clients."""
    experiment = tiny(
        clock={"kind": "seconds", "length": 9.0},
        link={"kind": "fixed", "throughput": 8e-6 * 2600 / 5, "shared": True},
        battery={"kind": "battery", "capacity": 0.004, "start_lowest": 0.3},
        radio={"kind": "lte_wifi", "training_energy": 0.001},
    )
    found: list[pd.DataFrame] = []
    assert len(list(planned_rounds(experiment, at_end=found.append))) == experiment.rounds
    (planned,), run = found, play(experiment).clients
    last = run[run["round"] == experiment.rounds].reset_index(drop=True)
    assert {"energy", "battery_died", *TOTALS} <= set(planned)
    for name in planned:
        assert planned[name].tolist() == pytest.approx(last[name].tolist(), nan_ok=True), name
