"""What must hold of every round under the clock, whatever its settings: one training at a time, air that is not
overdrawn, and the same run for any number of workers and after any interruption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedroam import simulation
from fedroam.clock import BUSY, TOTALS, Supply, Timetable, timetable
from fedroam.experiment import Experiment
from fedroam.federation import AveragesInPairs, SendsToServers
from fedroam.scene import prepare
from support.tiny import play, tiny

MODEL = 4 * (64 * 10 + 10)
NEIGHBOURS = ["decentralized", "epidemic", "push_sum", "cached", "ad_psgd", "gossip_learning"]
SERVERS = ["fedavg", "fedasync", "fedbuff", "scaffold"]
HIERARCHIES = ["mohawk", "delayed_mohawk", "hierarchical_fedasync", "hierarchical_fedbuff"]


@st.composite
def runs(draw: st.DrawFn, kinds: list[str], *, all_hear: bool = False) -> Experiment:
    """A small run: who federates how, who waits for whom, over which link, on which batteries."""
    kind = draw(st.sampled_from(kinds))
    wait = draw(st.sampled_from(["deadline", "all", "minimum"]))
    late = "dropped" if kind in HIERARCHIES else draw(st.sampled_from(["dropped", "carried"]))
    broken = ["lost", "resumed", *(["partial"] if kind in ("decentralized", "epidemic") else [])]
    battery: Any = "none"
    if draw(st.booleans()):
        battery = {
            "kind": "battery",
            "capacity": draw(st.floats(0.002, 0.05)),
            "start_lowest": 0.1,
            "charger": draw(st.sampled_from([0.0, 1.5])),
            "restart": 0.1,
        }
    world: dict[str, Any] = {
        "mobility": {"kind": "random", "grid": 4, "mobile": 4},
        "contacts": {"kind": "closest_approach", "radius": 1.5},
        "activity": {"kind": "rate", "rate": 0.8},
    }
    if all_hear:
        world = {"mobility": {"kind": "static"}, "contacts": {"kind": "radius", "radius": float("inf")}}
    return tiny(
        seed=draw(st.integers(0, 1000)),
        rounds=4,
        federation={"kind": kind, **({"k2": 2} if kind in HIERARCHIES else {})},
        clock={
            "kind": "seconds",
            "length": draw(st.sampled_from([3.0, 10.0])),
            "wait": wait,
            "late": late,
            **({"minimum": 2} if wait == "minimum" else {}),
        },
        compute={"kind": "flops", "speeds": (1e-5, 4e-6), "shares": (0.5, 0.5)},
        link={
            "kind": "fixed",
            "throughput": 8e-6 * MODEL / draw(st.sampled_from([0.5, 4.0])),
            "simultaneous": draw(st.sampled_from([None, 1, 2])),
            "shared": True if all_hear else draw(st.booleans()),
            "setup": draw(st.sampled_from([0.0, 0.3])),
            "broken": draw(st.sampled_from(broken)),
            "chunk": 100,
        },
        battery=battery,
        **world,
    )


def watched(run: Experiment) -> list[tuple[Mapping[str, np.ndarray], Timetable]]:
    """Of each round, what the clock kept before it, and its timetable; every round has batteries' eyes on it."""
    found = []

    def watching(*told: Any) -> Timetable:
        *rest, state, supply = told
        assert supply is None or isinstance(supply, Supply)
        found.append((state, timetable(*rest, state, supply)))
        return found[-1][1]

    scene = prepare(run)
    try:
        with patch.object(simulation, "timetable", watching):
            state = simulation.begin(scene)
            for _ in range(run.rounds):
                state, _ = simulation.play_round(scene, state)
    finally:
        scene.learner.close()
    return found


SOME = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FEW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SOME
@given(run=runs([*NEIGHBOURS, *SERVERS, *HIERARCHIES]))
def test_no_device_does_two_trainings_at_once(run: Experiment) -> None:
    federation: Any = prepare(run).parts.federation
    for state, found in watched(run):
        off = [job for job, ends in zip(found.paid.jobs, found.paid.broken_off, strict=True) if ends]
        begun = [job.client for job in (*found.jobs, *off)]
        assert len(set(begun)) == len(begun), "two pieces of work in a round"
        if isinstance(federation, SendsToServers | AveragesInPairs):
            assert not state[BUSY][begun].any(), "new work for who has not done the old"
        assert found.doings is not None
        doings = found.doings()
        dies = np.full(len(state[BUSY]), np.inf) if found.use is None else found.use.dies
        assert (doings.trains >= 0).all()
        assert (doings.trains <= doings.trained).all()
        worked = doings.trained > doings.trains
        assert (doings.trained[worked] <= np.minimum(found.seconds, dies)[worked] + 1e-9).all()
        spent = found.state["time_training"] - state["time_training"]
        np.testing.assert_allclose(spent, (doings.trained - doings.trains) * worked, atol=1e-9)
        total = sum(found.state[name] - state[name] for name in TOTALS)
        np.testing.assert_allclose(total, found.seconds, rtol=1e-9)


@SOME
@given(run=runs(NEIGHBOURS, all_hear=True))
def test_a_cell_is_on_the_air_for_no_longer_than_the_round_is(run: Experiment) -> None:
    """Where all hear each other: the seconds that all bytes take, one after the other."""
    run = run.replace(battery={"kind": "battery", "capacity": 1e6})  # tries are told
    rate = run.link.throughput * 1e6 / 8
    for _, found in watched(run):
        assert found.doings is not None
        tries = found.doings().tries
        assert (
            tries.traffic.bytes.sum() / rate <= found.seconds * (1 + 1e-9) + len(tries.begun) / rate
        )  # bytes are whole numbers


@FEW
@given(run=runs([*NEIGHBOURS, *SERVERS, *HIERARCHIES]), after=st.integers(1, 3))
def test_any_run_resumed_is_the_run(run: Experiment, after: int) -> None:
    whole = play(run)
    rest = play(run, (after, whole.states[after]))
    assert rest.states == whole.states[after + 1 :]


@FEW
@given(run=runs([*NEIGHBOURS, *SERVERS, *HIERARCHIES]))
def test_any_run_is_the_same_with_any_number_of_workers(run: Experiment) -> None:
    one, three = (play(run.replace(engine={"kind": "cpu", "workers": k})) for k in (1, 3))
    assert one.states == three.states
