"""Who is at what when: by hand, and against the totals of time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedroam as fr
from clock.test_by_hand import passing
from clock.test_runs import RUNS
from fedroam.clock import STATES, TOTALS, Spans
from support.tiny import tiny

NO_BATTERY: dict[str, np.ndarray] = {}


def told(found: pd.DataFrame, client: int) -> list[tuple[str, float, float]]:
    """The rows of a client, rounded to what a hand reckons."""
    own = found[found["client"] == client]
    return [
        (str(state), round(float(low), 9), round(float(high), 9))
        for state, low, high in zip(own["state"], own["begin"], own["end"], strict=True)
    ]


def test_the_pass_by_hand() -> None:
    """In reach from second 12 to 28; a model takes 10 s. The one trains until 19 and receives meanwhile: its own model
    breaks off at 28. The other trains until 5, and sends from 12 on. The round begins at second 100."""
    tell = passing((19.0, 5.0)).spans
    assert tell is not None
    found = tell().rows(3, 2, 100.0, NO_BATTERY, NO_BATTERY)
    assert found["round"].tolist() == [3] * len(found)
    assert told(found, 0) == [("training", 100.0, 119.0), ("sending", 119.0, 128.0)]
    assert told(found, 1) == [("training", 100.0, 105.0), ("sending", 112.0, 128.0)]


def test_only_the_first_clients_are_told() -> None:
    tell = passing((19.0, 5.0)).spans
    assert tell is not None
    assert set(tell().rows(1, 1, 0.0, NO_BATTERY, NO_BATTERY)["client"]) == {0}
    assert set(tell().rows(1, 24, 0.0, NO_BATTERY, NO_BATTERY)["client"]) == {0, 1}


def test_who_is_gone_is_dead_charged_or_not() -> None:
    """Five clients in a round of 10 s: one trains for 4 s and charges besides; one waits; one is gone, one gone and
    charged, one not there."""
    trains = np.zeros((5, 2))
    trains[0] = 0.0, 4.0
    present = np.array([True, True, False, False, False])
    spans = Spans(10.0, trains, present, np.zeros(0, np.int64), np.zeros((0, 2)), np.full(5, np.inf))
    before = {
        "gone": np.array([False, False, True, True, False]),
        "charge": np.array([50.0, 50.0, 0.0, 0.0, 50.0]),
        "drawn": np.zeros(5),
    }
    after = {
        "charge": np.array([58.0, 49.0, 0.0, 10.0, 50.0]),
        "drawn": np.array([2.0, 1.0, 0.0, 0.0, 0.0]),
    }
    found = spans.rows(1, 5, 0.0, before, after)
    assert [told(found, i) for i in range(5)] == [
        [("training", 0.0, 4.0), ("charging", 4.0, 10.0)],
        [],
        [("dead", 0.0, 10.0)],
        [("dead", 0.0, 10.0)],
        [("away", 0.0, 10.0)],
    ]
    dying = replace(spans, dies=np.array([7.0, np.inf, np.inf, np.inf, np.inf]))
    found = dying.rows(1, 1, 0.0, before, after)
    assert told(found, 0) == [("training", 0.0, 4.0), ("charging", 4.0, 7.0), ("dead", 7.0, 10.0)]


def test_who_runs_empty_is_dead_from_then_on() -> None:
    """One runs empty as it trains, in second 4, the other in second 7, after it has trained and waited."""
    trains, dies = np.array([[0.0, 4.0], [1.0, 3.0]]), np.array([4.0, 7.0])
    here, nobody = np.ones(2, dtype=bool), np.zeros(0, np.int64)
    spans = Spans(10.0, trains, here, nobody, np.zeros((0, 2)), dies)
    found = spans.rows(1, 2, 100.0, NO_BATTERY, NO_BATTERY)
    assert told(found, 0) == [("training", 100.0, 104.0), ("dead", 104.0, 110.0)]
    assert told(found, 1) == [("training", 101.0, 103.0), ("dead", 107.0, 110.0)]


@pytest.mark.parametrize("name", RUNS)
def test_rows_add_up_to_the_totals(name: str, tmp_path: Path) -> None:
    """Of each client the rows do not overlap, lie in the time of the run, and last as long as its totals say."""
    experiment = RUNS[name]
    run = fr.run(experiment, tmp_path / "run")
    found, last = run.schedule, run.clients[run.clients["round"] == experiment.rounds].set_index("client")
    assert set(found["state"]) <= set(STATES)
    assert (found["end"] > found["begin"]).all()
    lasts = (
        (found["end"] - found["begin"]).groupby([found["client"], found["state"]]).sum().unstack(fill_value=0)
    )
    for total, state in (("training", "training"), ("sending", "sending"), ("idle", "away")):
        spent = lasts.get(state, pd.Series(0.0, lasts.index)).reindex(last.index, fill_value=0.0)
        np.testing.assert_allclose(spent, last[f"time_{total}"], atol=1e-6)
    for _, own in found.groupby("client"):
        order = own.sort_values("begin")
        assert (order["begin"].to_numpy()[1:] >= order["end"].to_numpy()[:-1] - 1e-9).all()
    assert found["end"].max() <= run.rounds["time"].iloc[-1] + 1e-9


def test_a_run_with_batteries_says_who_is_dead(tmp_path: Path) -> None:
    """A battery of 10 J under 1 W of idling lasts half of the first round of 20 s; who is dead then stays so without a
    charger."""
    battery = {"kind": "battery", "capacity": 10 / 3600, "idle": 1.0, "training": 0.0}
    clock = {"kind": "seconds", "length": 20.0}
    run = fr.run(tiny(clock=clock, battery=battery, rounds=3), tmp_path / "run")
    dead = run.schedule[run.schedule["state"] == "dead"]
    assert dead.groupby("round")["client"].nunique().to_dict() == {
        1: run.settings["clients"],
        2: run.settings["clients"],
        3: run.settings["clients"],
    }
    lasts = (dead["end"] - dead["begin"]).to_numpy()
    first = (dead["round"] == 1).to_numpy()
    assert lasts[~first].tolist() == [20.0] * int((~first).sum())
    assert (lasts[first] >= 10.0).all(), "what the radio takes shortens the 10 s"
    assert (lasts[first] < 10.1).all()
    last = run.clients[run.clients["round"] == 3]
    assert sum(last[name].sum() for name in TOTALS) == pytest.approx(60.0 * run.settings["clients"])


def test_how_many_are_kept_is_a_setting(tmp_path: Path) -> None:
    experiment = RUNS["neighbours"]
    none = fr.run(experiment.replace(record_schedule=0), tmp_path / "none")
    assert none.schedule.empty
    assert not (none.folder / "schedule.parquet").exists()
    two = fr.run(experiment.replace(record_schedule=2), tmp_path / "two")
    assert set(two.schedule["client"]) <= {0, 1}
    assert experiment.digest == experiment.replace(record_schedule=2).digest
    assert fr.run(tiny(rounds=1), tmp_path / "rounds").schedule.empty


def test_a_resumed_run_tells_the_same(tmp_path: Path) -> None:
    experiment = RUNS["pairs, carried"].replace(checkpoint_every=1)
    whole = fr.run(experiment, tmp_path / "whole").schedule

    class Stop(Exception):
        pass

    def stop(round: int, rounds: int, measurement: object) -> None:
        if round == 3:
            raise Stop

    with pytest.raises(Stop):
        fr.run(experiment, tmp_path / "part", observer=stop)
    pd.testing.assert_frame_equal(fr.run(experiment, tmp_path / "part").schedule, whole)
