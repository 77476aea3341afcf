"""Churn: how many take part, who, and that it is the same for everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedroam.components import build
from fedroam.errors import InputError
from fedroam.mobility import active_after, active_at_start
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from support.tiny import play, tiny


def history(seed: int = 0, clients: int = 10, rounds: int = 50, **settings: Any) -> np.ndarray:
    """Who is active before round 1 and after each round, bool [rounds + 1, clients]."""
    part: Any = build("activity", settings)
    state = part.start(seed, clients)
    found = [state["active"]]
    for t in range(1, rounds + 1):
        state = part.step(state, seed, clients, t)
        found.append(state["active"])
    return np.array(found)


@pytest.mark.parametrize(("rate", "count"), [(1.0, 10), (0.9, 9), (0.7, 7), (0.5, 5), (0.01, 1)])
def test_the_rate_counts_exactly(rate: float, count: int) -> None:
    active = history(kind="rate", rate=rate)
    assert (active.sum(1) == count).all()
    if 1 < count < 10:
        assert len(np.unique(active, axis=0)) >= 10  # drawn anew
        assert active.any(0).all()


def test_who_is_active_at_a_low_rate_is_at_a_higher_one_too() -> None:
    low, high = (history(kind="rate", rate=rate) for rate in (0.5, 0.7))
    assert (high | ~low).all()


def test_independent_draws_have_the_rate_on_average() -> None:
    active = history(kind="rate", rate=0.7, independent=True, clients=200)
    assert abs(active.mean() - 0.7) < 0.01
    assert len(set(active.sum(1))) > 10


def test_the_chain_has_its_mean_times() -> None:
    active = history(kind="on_off", mean_on=8.0, mean_off=2.0, clients=300, rounds=400)
    assert abs(active[0].mean() - 0.8) < 0.08  # steady from the start
    assert abs(active.mean() - 0.8) < 0.01
    left = (active[:-1] & ~active[1:]).sum() / active[:-1].sum()
    back = (~active[:-1] & active[1:]).sum() / (~active[:-1]).sum()
    assert left == pytest.approx(1 / 8, rel=0.05)
    assert back == pytest.approx(1 / 2, rel=0.05)


@pytest.mark.parametrize("kind", ["always", "rate", "on_off"])
def test_late_clients_join_by_their_round(kind: str) -> None:
    settings = {"rate": {"rate": 1.0}, "on_off": {"mean_on": 1e9, "mean_off": 1.0}}.get(kind, {})
    active = history(kind=kind, clients=40, rounds=12, late_share=0.5, late_by=10, **settings)
    assert active[0].sum() == 20
    assert active[10].all()
    assert (active[1:] | ~active[:-1]).all()  # who has joined stays
    assert len(set(active.sum(1))) > 4


def test_the_rate_is_of_those_who_have_joined() -> None:
    settings = {"late_share": 0.5, "late_by": 5}
    active = history(kind="rate", clients=20, rounds=12, rate=0.5, **settings)
    joined = history(kind="always", clients=20, rounds=12, **settings)
    assert (active <= joined).all()
    assert active.sum(1).tolist() == (joined.sum(1) // 2).tolist()
    assert (active.sum(1)[0], active.sum(1)[-1]) == (5, 10)


def test_nobody_inactive_trains_or_meets() -> None:
    scene = prepare(tiny(activity={"kind": "rate", "rate": 0.5}, rounds=6))
    state = begin(scene)
    for _ in range(6):
        before = state.meeting.paths.present
        models = state.models.parameters.clone()
        state, done = play_round(scene, state)
        present = done.meeting.paths.present
        assert before.sum() == present.sum() == 2
        assert not (set(done.learners) - set(np.flatnonzero(before)))
        assert not done.meeting.graph.toarray()[~present].any()
        idle = ~before & ~present
        assert bool((state.models.parameters == models)[idle].all())
    scene.learner.close()


def test_two_federations_see_the_same_churn() -> None:
    one, two = (
        play(
            tiny(activity={"kind": "rate", "rate": 0.6}, federation={"kind": "decentralized", "order": order})
        )
        for order in ("move_then_mix", "mix_then_move")
    )
    assert list(one.rounds["active"]) == list(two.rounds["active"]) == [0, 3, 3, 3, 3]


class Given:
    """An activity whose state is what it is told."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def start(self, seed: int, clients: int) -> Any:
        return self.state

    def step(self, state: Any, seed: int, clients: int, round: int) -> Any:
        return self.state


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (None, "its state is NoneType, expected is a mapping with `active`"),
        (np.ones(3, dtype=bool), "its state is ndarray, expected is a mapping with `active`"),
        ({"on": np.ones(3, dtype=bool)}, "its state needs active [3], found None"),
        ({"active": np.array([0, 2])}, "its state needs active [3], found (2,)"),
        ({"active": np.arange(3)}, "active of client 2 is 2, allowed are truth values, or 0 and 1"),
        ({"active": np.full(3, 0.5)}, "active of client 0 is 0.5, allowed are truth values, or 0 and 1"),
        ({"active": [1.0, np.nan, 1.0]}, "active of client 1 is nan, allowed are truth values, or 0 and 1"),
        ({"active": ["yes"] * 3}, "the state's 'active' is <U3, allowed are arrays of numbers"),
        (
            {"active": np.ones(3), "x": [[1], [1, 2]]},
            "the state's 'x' is object, allowed are arrays of numbers",
        ),
    ],
)
def test_what_an_activity_of_ones_own_gives_is_held_against_what_it_promises(state: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        active_at_start(Given(state), 0, 3)
    assert str(raised.value) == f"activity kind 'Given', round 0: {told}"
    with pytest.raises(InputError) as raised:
        active_after(Given(state), {}, 0, 3, 5)
    assert str(raised.value) == f"activity kind 'Given', round 5: {told}"


@pytest.mark.parametrize("active", [[True, False, True], [1, 0, 1], np.array([1.0, 0.0, 1.0])])
def test_truth_values_may_be_written_as_0_and_1(active: Any) -> None:
    assert active_at_start(Given({"active": active}), 0, 3)["active"].astype(bool).tolist() == [
        True,
        False,
        True,
    ]
