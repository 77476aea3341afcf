"""Deaths that are certain at once are those that are found one by one, a plan of the round for each: the same, at the
same moments, in the same timetable, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import fedroam as fr
from clock.test_deaths import powered
from fedroam import simulation
from fedroam.analysis.planned_time import planned_rounds
from fedroam.clock import Supply, Timetable, Timing, deaths, schedule, timetable
from fedroam.clock.batteries import use_of
from fedroam.clock.deaths import Couplings, Slice
from fedroam.federation import Distributed, Meeting, Round
from support.timed import meeting, timed

MODEL = 4 * (4 * 2 + 2)  # bytes: softmax regression of 4 inputs and 2 classes


def one_by_one(
    timing: Timing,
    round: Round,
    given: Distributed,
    after: Meeting,
    state: Mapping[str, np.ndarray],
    supply: Supply | None = None,
) -> Timetable:
    """The slow and obvious version of `timetable`: of those whose times depend on each other, the first to die is
    certain; then the round is planned again."""
    handed = replace(round, models=given.models, state=given.state)
    planned = schedule._planner(timing, handed, given, after, state)
    dies = np.full(round.context.clients, np.inf)
    found = planned(dies)
    while supply is not None and found.doings is not None:
        doings = found.doings()
        use = use_of(supply, doings, found.seconds, np.where(dies <= found.seconds, dies, np.inf))
        empty = np.where(np.isfinite(dies), np.inf, supply.battery.empty(supply.state, use))
        if np.isinf(empty).all():
            return replace(found, use=use)
        group = np.arange(max(len(dies), int(doings.linked.max(initial=-1)) + 1))
        for _ in group:  # the least number of a group goes round in it
            for end, other in ((0, 1), (1, 0)):
                np.minimum.at(group, doings.linked[:, end], group[doings.linked[:, other]])
        for i, own in enumerate(group[: len(dies)]):
            if empty[i] == empty[group[: len(dies)] == own].min():
                dies[i] = min(dies[i], empty[i])
        found = planned(dies)
    return found


def same(found: Any, expected: Any, what: str) -> None:
    """Arrays of the same bits, and what is made of arrays."""
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected, err_msg=what, strict=True)
    elif sparse.issparse(expected):
        assert (found != expected).nnz == 0, what
    elif isinstance(expected, Mapping):
        assert found.keys() == expected.keys(), what
        for name in expected:
            same(found[name], expected[name], f"{what}.{name}")
    elif expected is None or isinstance(expected, float | int):
        assert found == expected, what
    else:
        same(vars(found), vars(expected), what)


def same_timetable(found: Timetable, expected: Timetable) -> None:
    for each, other in ((found.jobs, expected.jobs), (found.paid.jobs, expected.paid.jobs)):
        assert [job.client for job in each] == [job.client for job in other]
    paid = ({k: v for k, v in vars(one.paid).items() if k != "jobs"} for one in (found, expected))
    same(*paid, "paid")
    told = {"jobs", "paid", "spans", "doings"}
    same(*({k: v for k, v in vars(one).items() if k not in told} for one in (found, expected)), "timetable")


def plans(counted: list[int]) -> Any:
    """Counts the plans that a round takes."""
    planner = schedule._planner

    def counting(*told: Any) -> Callable[[np.ndarray], Timetable]:
        planned = planner(*told)

        def once(dies: np.ndarray) -> Timetable:
            counted.append(1)
            return planned(dies)

        return once

    return patch.object(schedule, "_planner", counting)


def both(*told: Any) -> Timetable:
    found = timetable(*told)
    same_timetable(found, one_by_one(*told))
    return found


def by_distance(seconds: float) -> dict[str, Any]:
    """A link near by of a model in so many seconds, and farther away of less and less."""
    rate = 8e-6 * MODEL / seconds
    found = {
        "wifi_up": 2 * rate,
        "wifi_down": 3 * rate,
        "lte_up_max": rate,
        "lte_down_max": 1.5 * rate,
        "d2d_max": rate,
    }
    found |= dict.fromkeys(("lte_up_min", "lte_down_min", "d2d_min"), rate / 8)
    return {"kind": "lte_wifi", "wifi_range": 0.5, "lte_near": 0.5, "lte_far": 4.0, "d2d_far": 1.5, **found}


@st.composite
def fleets(draw: st.DrawFn) -> fr.Experiment:
    """A fleet whose batteries run empty in few rounds: who federates how, over which link, charged where and when."""
    clients, side = draw(st.integers(4, 9)), draw(st.sampled_from([3.0, 6.0]))
    neighbours = ["decentralized", "epidemic", "push_sum", "cached", "ad_psgd"]
    kind = draw(st.sampled_from([*neighbours, "ad_psgd", "decentralized", "fedavg", "fedbuff", "mohawk"]))
    broken = ["lost", "resumed", *(["partial"] if kind in ("decentralized", "epidemic") else [])]
    wait = draw(st.sampled_from(["deadline", "deadline", "deadline", "all", "minimum"]))
    seconds = draw(st.sampled_from([0.3, 1.0, 5.0]))
    rate: dict[str, Any] = {"kind": "fixed", "throughput": 8e-6 * MODEL / seconds}
    if draw(st.booleans()):
        rate = by_distance(seconds)
    link = rate | {
        "shared": draw(st.booleans()),
        "simultaneous": draw(st.sampled_from([None, None, 1, 2])),
        "setup": draw(st.sampled_from([0.0, 0.2])),
        "broken": draw(st.sampled_from(broken)),
        "chunk": 4,
    }
    ways = [
        (f"{way}_{end}", joules)
        for way in ("d2d", "lte", "wifi")
        for end, joules in (("alpha_up", 3e3), ("beta", 100.0))
    ]
    battery: dict[str, Any] = {
        "capacity": draw(st.floats(10, 120)) / 3600,
        "start_lowest": 0.05,
        "idle": 1.0,
        "training": 0.5,
        "restart": 0.1,
        "charger": draw(st.sampled_from([0.0, 0.5, 2.0])),
        "day_start": 12.0,
    }
    if draw(st.booleans()):
        battery["places"] = ((side / 2, side / 2, side / 3),)
    if draw(st.booleans()):
        battery |= {"charge_from": 12.003, "charge_until": 12.01}
    x, y = np.zeros((2 * clients, 4), dtype=np.float32), np.arange(2 * clients) % 2
    return fr.Experiment(
        clients=clients,
        rounds=2,
        seed=draw(st.integers(0, 1000)),
        data=fr.data.memory(x, y, x[:4], y[:4]),
        partition="iid",
        model="softmax_regression",
        mobility={"kind": "random_walk", "width": side, "height": side},
        contacts={"kind": "closest_approach", "radius": 1.5},
        access_points={"kind": "grid", "columns": 2, "rows": 1},
        federation={"kind": kind, **({"k2": 2} if kind == "mohawk" else {})},
        clock={
            "kind": "seconds",
            "length": draw(st.sampled_from([10.0, 30.0])),
            "wait": wait,
            "late": "dropped" if kind == "mohawk" else draw(st.sampled_from(["dropped", "carried"])),
            **({"minimum": 3} if wait == "minimum" else {}),
        },
        compute={"kind": "flops", "speeds": (1e-7, 4e-8), "shares": (0.5, 0.5)},
        link=link,
        radio={"kind": "lte_wifi", **{name: each / (8e-6 * MODEL) for name, each in ways}},
        battery={"kind": "battery", **battery},
    )


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(run=fleets())
def test_deaths_of_slices_are_those_one_by_one(run: fr.Experiment) -> None:
    with patch.object(simulation, "timetable", both), patch.object(deaths, "ENOUGH", 1):
        assert len(list(planned_rounds(run))) == run.rounds


def test_deaths_before_and_after_all_transfers_are_certain_at_once() -> None:
    """Ten who all hear each other, drawing 1 W, train until second 10 and send until 20. Four die before, four after:
    three plans are enough, one by one it were nine; with one who dies in second 15, four."""
    joules = (1.0, 2.0, 3.0, 4.0, 3600.0, 21.0, 22.0, 23.0, 24.0, 3600.0)
    for die, enough in ((3600.0, 3), (15.0, 4)):
        own = {"battery": {"training": 0.0}, "link": {"kind": "fixed", "throughput": 8e-6 * 2600 / 10}}
        scene, state = powered((10.0,) * 10, (*joules[:-1], die), **own)
        parts, timing, still = (
            scene.parts,
            scene.timing,
            meeting([[k, 0] for k in range(10)], [[k, 0] for k in range(10)]),
        )
        assert timing is not None
        told = (parts.battery, parts.motion, scene.tariff, state.battery, 0.0, still.paths, timing.length)
        counted: list[int] = []
        with plans(counted):
            found = timed(scene, still, supply=Supply(*told, np.zeros((0, 2))))
        assert found.use is not None
        np.testing.assert_allclose(
            found.use.dies, np.where(np.array([*joules[:-1], die]) < 40, [*joules[:-1], die], np.inf)
        )
        assert len(counted) == enough


def couplings(
    tries: list[tuple[int, int, float, float]], between: list[tuple[int, int, float, float, float]]
) -> Couplings:
    """By hand: tries (ends, from, to); couplings (ends, from, to, done)."""
    one, other = np.array(tries).reshape(-1, 4), np.array(between).reshape(-1, 5)
    return Couplings(
        one[:, :2].astype(np.int64), *one[:, 2:].T, other[:, :2].astype(np.int64), *other[:, 2:].T
    )


def test_a_slice_by_hand() -> None:
    """0 dies in second 2 while it sends to 1, who sends to 2 before that is over; 3 dies in 4.5 while it sends to 4,
    far from them; 5 dies in 4, when what it sent to 2 is over; 2 would meet 4 later."""
    told = couplings([(0, 1, 1, 4), (1, 2, 3, 6), (3, 4, 2, 5), (5, 2, 0, 1), (2, 4, 5, 7)], [])
    empty, soonest = np.array([2.0, np.inf, np.inf, 4.5, np.inf, 4.0]), np.zeros(6)
    alive = np.full(6, np.inf)
    found = Slice.up_to(4.5, told, empty, soonest, alive)
    assert found.group[0] == found.group[1] == found.group[2]
    assert found.group[3] == found.group[4] != found.group[0]
    assert found.group[5] not in found.group[:5]
    assert found.horizon == 6.0
    np.testing.assert_array_equal(found.first(empty), empty)
    longer = Slice.up_to(5.0, told, empty, soonest, alive)
    np.testing.assert_array_equal(longer.first(empty), [2.0, *[np.inf] * 4, 4.0])
    # With a battery that lasts until 5.5 whatever happens, 2 ties nobody to anybody.
    soonest[2] = 5.5
    lasting = Slice.up_to(5.0, told, empty, soonest, alive)
    assert not lasting.mortal[2]
    np.testing.assert_array_equal(lasting.first(empty), empty)


def test_what_air_and_radios_couple_by_hand() -> None:
    """0 dies in second 2 and sends nothing then. It may send to 1 from 3 on, who may disturb 2 from 1 to 8, but is done
    with that in 2.5, and 3 from 9 on, beyond the horizon."""
    told = couplings(
        [(4, 5, 1, 3)], [(0, 1, 3, 9, np.inf), (1, 2, 1, 8, 2.5), (1, 3, 9, 9.5, np.inf), (4, 5, 0, 9, 6)]
    )
    empty = np.array([2.0, np.inf, 4.0, 4.0, 5.0, 3.0])
    found = Slice.up_to(5.0, told, empty, np.zeros(6), np.full(6, np.inf))
    assert found.horizon == 7.0, "a try may begin in second 5, and take as long as that from 1 to 3"
    assert found.group[0] == found.group[1]
    np.testing.assert_array_equal(found.first(empty), [2.0, np.inf, 4.0, 4.0, np.inf, 3.0])
    never = replace(told, over=np.full(4, np.inf))
    found = Slice.up_to(5.0, never, empty, np.zeros(6), np.full(6, np.inf))
    np.testing.assert_array_equal(found.first(empty), [2.0, np.inf, np.inf, 4.0, np.inf, 3.0])


def test_a_slice_holds_while_nothing_outlasts_it_by_hand() -> None:
    """0 dies in second 3 while it sends to 1; 2 has nothing to do with either."""
    told, alive = couplings([(0, 1, 1, 6)], [(0, 1, 0, 9, np.inf)]), np.full(3, np.inf)
    found = Slice.up_to(3.0, told, np.array([3.0, np.inf, np.inf]), np.zeros(3), alive)
    assert found.horizon == 8.0

    def holds(empty: np.ndarray, *tries: tuple[int, int, float, float]) -> bool:
        return found.holds(lambda: couplings(list(tries), []), empty)

    assert holds(alive, (0, 1, 1, 8), (2, 2, 1, 9))
    assert not holds(alive, (0, 1, 1, 8.5))
    assert holds(alive, (0, 1, 3.5, 8.5))
    assert holds(np.array([np.inf, 3.0, 3.5]), (0, 1, 1, 8))
    assert not holds(np.array([np.inf, np.inf, 2.5]), (0, 1, 1, 8)), "who could not die by then"
    assert Slice.whole(told.ends, alive).holds(lambda: told, alive)
