"""Whole runs under a clock of seconds: resumed, with other numbers of workers, and what their tables say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load, save

from fedroam.analysis.planned_time import planned_rounds
from fedroam.clock import COLUMNS, SO_FAR, TIME, TOTALS
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.runner import run
from fedroam.scene import prepare
from support.tiny import example, frozen, play, same_tables, steps, thawed, tiny

LINK = {"kind": "fixed", "throughput": 8e-6 * 2600 / 4}  # a model of softmax regression in four seconds
PARTIAL = {"kind": "fixed", "broken": "partial"}
WALK = {"kind": "random", "grid": 4, "mobile": 4}


def timed_run(kind: str, **clock: Any) -> Experiment:
    federation = {"kind": kind, **({"k2": 2} if kind == "mohawk" else {})}
    return tiny(
        clock={"kind": "seconds", "length": 10.0, **clock},
        link={**LINK, "simultaneous": 2, "shared": True},
        federation=federation,
        mobility=WALK,
        activity={"kind": "rate", "rate": 0.8},
        contacts={"kind": "closest_approach", "radius": 1.5},
        rounds=5,
    )


def slow_run(kind: str, **clock: Any) -> Experiment:
    """The same, with training of 6 seconds or 16, and models of one second."""
    return timed_run(kind, **clock).replace(
        compute={"kind": "flops", "speeds": (1e-5, 4e-6), "shares": (0.5, 0.5)},
        link={"kind": "fixed", "throughput": 8e-6 * 2600, "simultaneous": 2, "shared": True},
    )


def broken_run(kind: str, broken: str, **clock: Any) -> Experiment:
    """With models that take so long that few get through in one contact."""
    run = timed_run(kind, **clock)
    return run.replace(
        link={**run.link.settings(), "throughput": 8e-6 * 2600 / 9, "broken": broken, "chunk": 100}
    )


RUNS = {
    "neighbours": timed_run("decentralized"),
    "neighbours, carried": timed_run("decentralized", late="carried"),
    "neighbours, all": timed_run("decentralized", wait="all"),
    "server, carried": timed_run("scaffold", late="carried", length=7.0),
    "server, minimum": timed_run("ditto", wait="minimum", minimum=2, length=7.0),
    "access points": timed_run("mohawk"),
    "one way": slow_run("push_sum"),
    "one way, carried": slow_run("cached", late="carried"),
    "merged one by one, carried": slow_run("gossip_learning", late="carried"),
    "merged when trained": slow_run("gossip_learning").replace(
        federation={"kind": "gossip_learning", "create": "update_merge"}
    ),
    "drawn": slow_run("epidemic", wait="minimum", minimum=3),
    "pairs": slow_run("ad_psgd"),
    "pairs, carried": slow_run("ad_psgd", late="carried", length=7.0),
    "neighbours, resumed": broken_run("decentralized", "resumed"),
    "neighbours, in part": broken_run("decentralized", "partial"),
    "drawn, resumed": broken_run("epidemic", "resumed", late="carried"),
    "drawn, in part": broken_run("epidemic", "partial"),
    "server, resumed": broken_run("fedavg", "resumed", late="carried", length=7.0),
    "access points, resumed": broken_run("mohawk", "resumed", length=7.0),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_is_an_uninterrupted_one(name: str) -> None:
    whole = play(RUNS[name])
    for k in (1, 3):
        rest = play(RUNS[name], (k, whole.states[k]))
        assert rest.states == whole.states[k + 1 :]
        tables = {
            each: table[table["round"] > k].reset_index(drop=True) for each, table in whole.tables().items()
        }
        same_tables(tables, rest.tables())


@pytest.mark.parametrize("name", ["neighbours, carried", "pairs", "one way", "access points"])
def test_totals_are_of_all_rounds_and_not_only_of_evaluated_ones(name: str, tmp_path: Path) -> None:
    every = play(RUNS[name]).rounds.set_index("round")
    some = run(RUNS[name].replace(evaluate_every=3), tmp_path / "run").rounds.set_index("round")
    assert some.index.tolist() == [0, 3, 5]
    for column in COLUMNS:
        sums = every[column].fillna(0.0).cumsum()
        assert every[f"total_{column}"].tolist() == sums.tolist()
        assert some[f"total_{column}"].tolist() == sums[[0, 3, 5]].tolist()
    assert some["total_transfers"].iloc[-1] > 0


def test_a_run_that_an_older_version_began_goes_on_without_totals() -> None:
    experiment = RUNS["neighbours"]
    scene, states = prepare(experiment), play(experiment).states
    older = load(states[2])
    del older[f"clock.{SO_FAR}"]
    *_, (last, _) = steps(scene, thawed(scene, 2, save(older)))
    whole = thawed(scene, experiment.rounds, states[experiment.rounds])
    assert np.isnan(last.clock[SO_FAR]).all()
    assert frozen(replace(last, clock=last.clock | {SO_FAR: whole.clock[SO_FAR]})) == frozen(whole)


@pytest.mark.parametrize(
    "name",
    [
        "neighbours",
        "access points",
        "one way",
        "pairs, carried",
        "neighbours, resumed",
        "neighbours, in part",
    ],
)
def test_the_number_of_workers_changes_nothing(name: str) -> None:
    one, two = (play(RUNS[name].replace(engine={"kind": "cpu", "workers": k})) for k in (1, 2))
    assert one.states == two.states
    same_tables(one.tables(), two.tables())


@pytest.mark.parametrize("name", RUNS)
def test_what_clients_do_adds_up_to_the_time(name: str) -> None:
    found = play(RUNS[name])
    assert (np.diff(found.rounds[TIME]) >= 7.0).all()
    times = found.rounds.set_index("round")[TIME]
    spent = found.clients[list(TOTALS)]
    assert (spent >= 0).to_numpy().all()
    np.testing.assert_allclose(spent.sum(axis=1), found.clients["round"].map(times), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(
        found.rounds["time_sending"], found.clients.groupby("round")["time_sending"].sum()
    )
    assert found.rounds["time_sending"].iloc[-1] > 0
    assert (found.rounds["through"] <= found.rounds["transfers"])[1:].all()


@pytest.mark.parametrize("name", [name for name in RUNS if "resumed" in name or "part" in name])
def test_a_plan_says_what_the_run_does(name: str) -> None:
    """Without learning, and where possible without models."""
    planned, found = (
        pd.DataFrame(planned_rounds(RUNS[name])),
        play(RUNS[name].replace(evaluate_every=1)).rounds,
    )
    for column in COLUMNS:
        np.testing.assert_array_equal(planned[column], found[column].iloc[1:], err_msg=column)
    assert found["broken"].sum() > 0


@pytest.mark.parametrize("kind", ["decentralized", "epidemic"])
def test_more_gets_through_where_broken_transfers_go_on(kind: str) -> None:
    lost, resumed = (play(broken_run(kind, broken)).rounds["through"].sum() for broken in ("lost", "resumed"))
    assert resumed > lost


def test_fewer_models_get_through_a_slow_link() -> None:
    through = []
    for seconds in (0.5, 4.0, 30.0):
        link = {"kind": "fixed", "throughput": 8e-6 * 2600 / seconds}
        through.append(play(RUNS["neighbours"].replace(link=link)).rounds["through"].sum())
    assert through[0] > through[1] > through[2] == 0


def test_bytes_are_what_was_sent() -> None:
    """Each model in four seconds: nobody can send more than that, and the account holds all of it."""
    found = play(RUNS["neighbours"])
    rounds, clients = found.rounds.iloc[-1], found.clients[found.clients["round"] == 5]
    assert rounds["bytes"] == clients["bytes_up"].sum() == clients["bytes_down"].sum()
    assert rounds["bytes"] >= 2600 * found.rounds["through"].sum()
    assert (clients["bytes_up"] <= clients["time_sending"] * 2600 / 4 * 2 + 50).all()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"federation": "mohawk", "clock": {"kind": "seconds", "late": "carried"}}, "carry_over"),
        *(
            (
                {"clock": "seconds", "link": PARTIAL, "federation": kind},
                "cannot use a part of what is sent; allowed are 'lost', 'resumed'",
            )
            for kind in ("fedavg", "mohawk", "push_sum", "cached", "ad_psgd", "gossip_learning", "fedbuff")
        ),
        ({"clock": "seconds", "link": PARTIAL, "attack": "sign_flip"}, "with attackers, allowed"),
        (
            {"clock": "seconds", "link": PARTIAL, "aggregation": "median"},
            "an aggregation rule that sees whole",
        ),
        ({"clock": "seconds", "link": {**PARTIAL, "chunk": 10}}, "chunk"),
        ({"clock": {"kind": "seconds", "late": "carried"}, "attack": "sign_flip"}, "with attackers"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        prepare(tiny(**settings))


def test_a_trace_moves_in_its_own_seconds() -> None:
    """Rounds as long as the trace's interval; without rounds' lengths, or of first fixes alone, any will do."""
    replay = {**example("mobility", "trace").settings(), "mode": "interpolate", "interval": 1200.0}
    length = {"kind": "seconds", "length": 1200.0}
    for settings in (
        {"clock": length, "mobility": replay},
        {"clock": "rounds", "mobility": replay},
        {"clock": "seconds", "mobility": {**replay, "mode": "first_fix"}},
    ):
        prepare(tiny(rounds=3, **settings)).learner.close()
    with pytest.raises(InputError, match=r"clock\.length = 60: .* mobility\.interval = 1200 s"):
        prepare(tiny(rounds=3, clock="seconds", mobility=replay))


def test_a_log_of_who_is_on_goes_by_its_own_seconds() -> None:
    log = example("activity", "trace").settings()
    for clock in ("rounds", {"kind": "seconds", "length": 3600.0}):
        prepare(tiny(rounds=3, clock=clock, activity=log)).learner.close()
    with pytest.raises(InputError, match=r"clock\.length = 60: .* activity\.interval = 3600 s"):
        prepare(tiny(rounds=3, clock="seconds", activity=log))
