"""Who is at what when: by hand, and against the totals of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedroam as fr
from clock.test_by_hand import passing
from clock.test_runs import RUNS
from fedroam.clock import STATES, TOTALS, Spans
from support.tiny import tiny

NO_BATTERY: dict[str, np.ndarray] = {}


def told(rows: Mapping[str, np.ndarray] | pd.DataFrame, client: int) -> list[tuple[str, float, float]]:
    """The rows of a client, rounded to what a hand reckons."""
    found = pd.DataFrame(rows)
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
    assert found["round"].tolist() == [3] * len(found["client"])
    assert told(found, 0) == [("training", 100.0, 119.0), ("sending", 119.0, 128.0)]
    assert told(found, 1) == [("training", 100.0, 105.0), ("sending", 112.0, 128.0)]


Row = tuple[float, float, str]


def one_by_one(spans: Spans, clients: int, gone: np.ndarray, charging: np.ndarray) -> list[tuple[int, Row]]:
    """The rows of each client by itself, interval by interval: the slow and obvious version of `Spans.rows`."""
    found: list[tuple[int, Row]] = []
    for i in range(min(clients, len(spans.trains))):
        begin, end = spans.trains[i].tolist()
        rows: list[Row] = [(begin, end, "training")]
        joined: list[list[float]] = []
        for low, high in sorted(spans.sends[spans.who == i].tolist()):
            if joined and low <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], high)
            else:
                joined.append([low, high])
        for low, high in joined:
            parts = [(low, min(high, begin)), (max(low, end), high)] if end > begin else [(low, high)]
            rows += [(*part, "sending") for part in parts]
        rows = sorted(row for row in rows if row[1] > row[0])
        if (dies := 0.0 if gone[i] else float(spans.dies[i])) < spans.seconds:
            rows.append((dies, spans.seconds, "dead"))
        if charging[i] or not spans.present[i]:
            at, rest, gaps = 0.0, "charging" if charging[i] else "away", []
            for low, high, _ in [*rows, (spans.seconds, spans.seconds, "")]:
                if low > at:
                    gaps.append((at, low, rest))
                at = max(at, high)
            rows = sorted([*rows, *gaps])
        found += [(i, row) for row in rows]
    return found


@st.composite
def any_spans(draw: st.DrawFn) -> Spans:
    """What up to six clients do in ten seconds; few moments, so that many are the same."""
    clients, parts = draw(st.integers(1, 6)), draw(st.integers(0, 12))
    moment = st.sampled_from([0.0, 1.0, 2.0, 3.5, 5.0, 7.25, 9.0, 10.0])

    def intervals(count: int) -> np.ndarray:
        return np.sort(
            np.array(draw(st.lists(st.tuples(moment, moment), min_size=count, max_size=count))).reshape(-1, 2)
        )

    def each(of: st.SearchStrategy[Any]) -> np.ndarray:
        return np.array(draw(st.lists(of, min_size=clients, max_size=clients)))

    who = np.array(
        draw(st.lists(st.integers(0, clients - 1), min_size=parts, max_size=parts)), dtype=np.int64
    )
    dies = each(st.one_of(st.just(np.inf), moment))
    return Spans(10.0, intervals(clients), each(st.booleans()), who, intervals(parts), dies)


@given(spans=any_spans(), data=st.data(), told=st.integers(0, 8))
def test_rows_are_those_of_each_client_by_itself(spans: Spans, data: st.DataObject, told: int) -> None:
    clients = len(spans.trains)
    gone, charging = (
        np.array(data.draw(st.lists(st.booleans(), min_size=clients, max_size=clients))) for _ in range(2)
    )
    before = {"gone": gone, "charge": np.full(clients, 5.0), "drawn": np.zeros(clients)}
    after = before | {"charge": 5.0 + charging}
    found = spans.rows(7, told, 100.0, before, after)
    expected = one_by_one(spans, told, gone, charging)
    assert found["round"].tolist() == [7] * len(expected)
    columns = (found[name].tolist() for name in ("client", "begin", "end", "state"))
    assert list(zip(*columns, strict=True)) == [
        (i, 100.0 + low, 100.0 + high, state) for i, (low, high, state) in expected
    ]


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
