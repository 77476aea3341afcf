"""Rounds whose times can be told with pencil and paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedroam.clock import TOTALS, Timetable, first_state
from fedroam.clock.plan import PlannedTransfers
from fedroam.clock.sending import Sent
from fedroam.clock.timetable import told_of
from fedroam.federation import SERVER, Meeting
from fedroam.federation.server.loop import weighted_mean
from fedroam.simulation import begin, play_round
from support.timed import meeting, timed, timed_scene

REACH = 10.0
# One stands; the other passes 6 m away at 1 m/s: within 10 m for 2 sqrt(100 - 36) = 16 s, from second 12 to 28.
PASSING = meeting([[0, 0], [-20, 6]], [[0, 0], [20, 6]])
MODEL = 4 * (64 * 10 + 10)  # bytes of softmax regression on digits
TEN = {"kind": "fixed", "throughput": 8e-6 * MODEL / 10}  # a model in ten seconds


def passing(training: tuple[float, float], **link: Any) -> Timetable:
    """The pass, in a round of 40 s, with training for so many seconds."""
    clock = {"kind": "seconds", "length": 40.0}
    scene = timed_scene(training, clock=clock, link={**TEN, **link})
    return timed(scene, PASSING, reach=REACH)


def met(found: Timetable) -> bool:
    if found.pieces is not None:
        return len(found.pieces.whole(MODEL)) == 2 and bool(found.pieces.whole(MODEL).all())
    assert found.graph is not None
    return bool(found.graph[[0], [1]])


def vain(found: Timetable) -> dict[tuple[int, int], int]:
    """Bytes that were sent in vain, by sender and receiver."""
    traffic = found.traffic
    return {
        (int(i), int(j)): int(b)
        for i, j, b in zip(traffic.sender, traffic.receiver, traffic.bytes, strict=True)
    }


def test_a_model_fits_into_a_passage() -> None:
    found = passing((0.0, 0.0))
    assert met(found)
    np.testing.assert_allclose(found.done, [22.0, 22.0])
    assert found.seconds == 40.0
    assert vain(found) == {}
    assert found.facts == {"late": 0, "transfers": 2, "through": 2, "broken": 0, "contacts": 1, "fit": 1}
    told = [found.state[name].tolist() for name in TOTALS]
    np.testing.assert_allclose(told, [[0, 0], [10, 10], [30, 30], [0, 0]])


def test_who_trains_too_long_misses_it() -> None:
    found = passing((17.0, 5.0))
    assert met(found)
    np.testing.assert_allclose(found.done, [27.0, 27.0])
    # 27 is when the later model has arrived; a second more of training and it does not.
    found = passing((19.0, 5.0))
    assert not met(found)
    assert vain(found) == {(0, 1): round(0.9 * MODEL), (1, 0): MODEL}
    assert found.facts == {"late": 0, "transfers": 2, "through": 1, "broken": 1, "contacts": 1, "fit": 0}
    told = [found.state[name].tolist() for name in TOTALS]
    # The one receives from 12 on, but trains until 19: it sends and receives from then to 28.
    np.testing.assert_allclose(told, [[19, 5], [9, 16], [12, 19], [0, 0]])


def test_half_duplex_needs_twice_the_time() -> None:
    found = passing((0.0, 0.0), simultaneous=1)
    assert not met(found)
    assert vain(found) == {(0, 1): MODEL, (1, 0): round(0.6 * MODEL)}
    assert met(passing((0.0, 0.0), simultaneous=2))


def test_shared_air_gives_each_half() -> None:
    found = passing((0.0, 0.0), shared=True)
    assert not met(found)
    assert vain(found) == {(0, 1): round(0.8 * MODEL), (1, 0): round(0.8 * MODEL)}


def test_set_up_and_loss_take_their_time() -> None:
    assert met(passing((0.0, 0.0), setup=5.9))
    assert not met(passing((0.0, 0.0), setup=6.1))
    found = passing((0.0, 0.0), loss=0.3)
    assert met(found)
    np.testing.assert_allclose(found.done, [12 + 10 / 0.7] * 2)
    assert vain(found) == {(0, 1): round(MODEL / 0.7) - MODEL, (1, 0): round(MODEL / 0.7) - MODEL}
    assert not met(passing((0.0, 0.0), loss=0.4))


@pytest.mark.parametrize("simultaneous", [None, 2])  # all at once, or event by event
@pytest.mark.parametrize(("broken", "through"), [("lost", False), ("resumed", True)])
def test_a_second_contact_resumes_what_broke(broken: str, through: bool, simultaneous: int | None) -> None:
    """There and back: two contacts of 8 s, at seconds 6 to 14 and 26 to 34."""
    clock = {"kind": "seconds", "length": 40.0}
    settings = {**TEN, "broken": broken, **({} if simultaneous is None else {"simultaneous": simultaneous})}
    scene = timed_scene((0.0, 0.0), clock=clock, link=settings)
    there = PASSING.paths
    back = replace(
        there,
        first=np.array([0, 2, 5]),
        time=np.array([0.0, 1.0, 0.0, 0.5, 1.0]),
        point=np.array([[0, 0], [0, 0], [-20, 6], [20, 6], [-20, 6]], dtype=float),
    )
    found = timed(scene, Meeting(back, PASSING.graph), reach=REACH)
    assert met(found) is through
    if through:
        np.testing.assert_allclose(found.done, [28.0, 28.0])
        assert vain(found) == {(0, 1): MODEL, (1, 0): MODEL}, "all that was sent"
    else:
        assert vain(found) == {(0, 1): round(1.6 * MODEL), (1, 0): round(1.6 * MODEL)}
    assert found.facts["broken"] == (2 if through else 4)


@pytest.mark.parametrize(("wait", "seconds"), [("deadline", 20.0), ("all", 22.0)])
def test_waiting_for_all_lets_those_who_stay_finish(wait: str, seconds: float) -> None:
    """Half of the pass: when the round's way ends, the two are 6 m apart, and stay so."""
    half = meeting([[0, 0], [-20, 6]], [[0, 0], [0, 6]])
    clock = {"kind": "seconds", "length": 20.0, "wait": wait}
    found = timed(timed_scene((0.0, 1.0), clock=clock, link=TEN), half, reach=REACH)
    assert found.seconds == pytest.approx(seconds)
    assert met(found) is (wait == "all")


def served(training: tuple[float, ...], **clock: Any) -> Any:
    return timed_scene(
        training,
        clock={"kind": "seconds", "length": 30.0, **clock},
        link=TEN,
        federation="fedavg",
        training={"kind": "sgd", "lr": 0.1},
    )


def test_a_server_waits_for_nobody_for_all_or_for_a_minimum() -> None:
    """Ten seconds down, training, ten seconds up."""
    still = meeting([[0, 0]] * 3, [[0, 0]] * 3)
    training = (5.0, 15.0, 60.0)
    found = timed(served(training), still)
    np.testing.assert_allclose(found.done, [25.0, np.inf, np.inf])
    assert found.arrived is not None
    assert found.arrived.tolist() == [0]
    assert found.dropped.tolist() == [1, 2]
    # The second has trained, and sends in vain for 5 s; the third is broken off after 20 s of its 60.
    assert [job.client for job in found.jobs] == [0, 1]
    assert [job.client for job in found.paid.jobs] == [0, 1, 2]
    assert found.paid.broken_off.tolist() == [False, False, True]
    np.testing.assert_allclose(found.paid.shares, [1, 1, 1 / 3])
    assert vain(found) == {(-1, 0): MODEL, (-1, 1): MODEL, (-1, 2): MODEL, (1, SERVER): MODEL // 2}
    told = [found.state[name].tolist() for name in TOTALS]
    np.testing.assert_allclose(told, [[5, 15, 20], [20, 15, 10], [5, 0, 0], [0, 0, 0]])
    for clock, seconds, arrived in (
        ({"wait": "all"}, 80.0, [0, 1, 2]),
        ({"wait": "minimum", "minimum": 1}, 30.0, [0]),
        ({"wait": "minimum", "minimum": 2}, 35.0, [0, 1]),
        ({"wait": "minimum", "minimum": 9}, 80.0, [0, 1, 2]),
    ):
        found = timed(served(training, **clock), still)
        assert found.seconds == pytest.approx(seconds)
        assert found.arrived is not None
        assert found.arrived.tolist() == arrived


@pytest.mark.parametrize("training", [0.0, 5.0])
def test_nobody_trains_a_model_that_has_not_come(training: float) -> None:
    """Also where training takes no time: a model takes ten seconds of a round of nine."""
    scene, still = served((training,) * 2, length=9.0), meeting([[0, 0]] * 2, [[0, 0]] * 2)
    found = timed(scene, still)
    assert list(found.jobs) == []
    assert [job.client for job in found.paid.jobs] == [0, 1]
    assert found.paid.broken_off.all()
    assert found.paid.shares.tolist() == [0, 0]
    assert found.dropped.tolist() == [0, 1]
    after, result = play_round(scene, begin(scene))
    assert result.learners.tolist() == []
    assert not after.account.energy_training.any()


def test_the_server_averages_what_arrived_in_time() -> None:
    scene = served((5.0, 15.0, 60.0))
    state = begin(scene)
    after, done = play_round(scene, state)
    rows, shares = np.array([0]), np.array([1.0])
    expected = weighted_mean(after.models.parameters, rows, shares)
    np.testing.assert_array_equal(after.federation["global"], expected)
    assert done.learners.tolist() == [0, 1]  # the third was broken off, and has the server's model
    np.testing.assert_array_equal(after.models.parameters[2].numpy(), state.federation["global"])
    assert after.account.bytes_up.tolist() == [MODEL, MODEL // 2, 0]
    assert after.account.bytes_down.tolist() == [MODEL] * 3
    assert (after.account.energy_wasted > 0).tolist() == [False, True, True]


def test_carried_over_work_arrives_later_and_holds_its_client() -> None:
    """The second needs 10 + 15 + 10 s: its upload breaks at 30 and begins anew in round 2. The third trains for 20 s of
    its 60 in round 1, for 30 in round 2 and for 10 in round 3, and has then sent its model by second 20."""
    scene = served((5.0, 15.0, 60.0), late="carried")
    state, trained, global_of = begin(scene), [], []
    for _ in range(4):
        state, done = play_round(scene, state)
        trained.append(done.learners.tolist())
        global_of.append(state.federation["global"])
    assert trained == [[0, 1, 2], [0], [0, 1], [0, 2]]
    assert state.clock["time"].tolist() == [120.0]
    # In round 4 the second's second model arrived, and the third began anew.
    assert state.clock["busy"].tolist() == [False, False, True]
    assert state.clock["left_training"].tolist() == [0.0, 0.0, 40.0]


def test_a_neighbour_that_trains_for_rounds_is_away_meanwhile() -> None:
    still = {"mobility": {"kind": "static"}, "contacts": {"kind": "radius", "radius": float("inf")}}
    for late, learnt in (("dropped", [[0], [0], [0]]), ("carried", [[0], [0], [0, 1]])):
        clock = {"kind": "seconds", "length": 30.0, "late": late}
        scene = timed_scene((5.0, 70.0), clock=clock, link=TEN, **still)
        state, found = begin(scene), []
        first = state.models.parameters[1].clone()
        for number in range(3):
            state, done = play_round(scene, state)
            found.append(done.learners.tolist())
            if number < 2:
                assert bool((state.models.parameters[1] == first).all())
                assert done.meeting.graph.nnz == 0
        assert found == learnt
        assert (done.meeting.graph.nnz == 2) is (late == "carried")


def test_the_clock_state_before_the_first_round_is_nothing() -> None:
    timing = timed_scene((1.0,) * 3, clock={"kind": "seconds"}, link="fixed", federation="fedavg").timing
    assert timing is not None
    state = first_state(3, timing)
    assert all(not array.any() for array in state.values())


def test_a_contact_fits_where_all_that_is_sent_in_it_gets_through() -> None:
    """Four pairs: both models of the first get through, not the only one of the second, one of two of the third, and
    the only one of the fourth, which goes against the order of clients."""
    plan = PlannedTransfers(
        np.array([0, 1, 2, 2, 3, 7]),
        np.array([1, 0, 0, 3, 2, 4]),
        *(np.ones(6) for _ in range(2)),
        np.full(6, -1),
    )
    end = np.array([1.0, 2.0, np.inf, 3.0, np.inf, 4.0])
    found = told_of(np.zeros(8, bool), plan, Sent.nothing(6), end)
    assert (found["contacts"], found["fit"], found["transfers"], found["through"]) == (4, 2, 6, 4)
    assert told_of(np.zeros(1, bool), *_nothing())["contacts"] == 0


def _nothing() -> tuple[PlannedTransfers, Sent, np.ndarray]:
    nobody = np.zeros(0, np.int64)
    return PlannedTransfers(nobody, nobody, np.zeros(0), np.zeros(0), nobody), Sent.nothing(0), np.zeros(0)


def rates(**seconds: float) -> dict[str, float]:
    """Of `link.lte_wifi`: how long a model takes by each."""
    return {name: 8e-6 * MODEL / each for name, each in seconds.items()}


# Half way between near and far LTE takes 3 s to get a model, and 6 s to send it: the mean of the rates.
PHONES = {
    "kind": "lte_wifi",
    "wifi_range": 100.0,
    "lte_near": 100.0,
    "lte_far": 500.0,
    **rates(lte_down_max=2, lte_down_min=6, lte_up_max=4, lte_up_min=12, wifi_down=1, wifi_up=0.5),
    **rates(d2d_max=100, d2d_min=100),
}
LONG: dict[str, Any] = {"clock": {"kind": "seconds", "length": 60.0}, "link": PHONES}


def test_a_link_knows_a_server_from_a_client_and_up_from_down() -> None:
    """A server stands nowhere: LTE, half way between its throughputs."""
    scene = timed_scene((5.0, 7.0), federation="fedavg", **LONG)
    found = timed(scene, meeting([[0, 0], [9, 9]], [[0, 0], [9, 9]]))
    np.testing.assert_allclose(found.done, [3 + 5 + 6, 3 + 7 + 6])
    told = [found.state[name].tolist() for name in TOTALS]
    np.testing.assert_allclose(told, [[5, 7], [9, 9], [46, 44], [0, 0]])


@pytest.mark.parametrize("kind", ["mohawk", "hierfavg"])
def test_a_link_knows_an_access_point_from_a_client_and_up_from_down(kind: str, tmp_path: Path) -> None:
    """Wi-Fi near by, then LTE by the distance; that to the second access point is the nearer one."""
    (tmp_path / "points.csv").write_text("x,y\n0,0\n2000,0\n", encoding="utf-8")
    places = {"kind": "file", "path": str(tmp_path / "points.csv")}
    scene = timed_scene((5.0,) * 4, access_points=places, federation={"kind": kind, "k2": 9}, **LONG)
    stand = [[50, 0], [300, 0], [500, 0], [1950, 0]]
    found = timed(scene, meeting(stand, stand))
    np.testing.assert_allclose(found.done, [1 + 5 + 0.5, 3 + 5 + 6, 6 + 5 + 12, 1 + 5 + 0.5])


def test_clients_have_their_direct_link() -> None:
    scene = timed_scene(
        (5.0, 5.0),
        clock={"kind": "seconds", "length": 200.0},
        link={**PHONES, **rates(d2d_max=7, d2d_min=14)},
    )
    still = meeting([[0, 0], [50, 0]], [[0, 0], [50, 0]])
    found = timed(scene, still, reach=60.0)
    np.testing.assert_allclose(found.done, 5 + 1 / ((1 / 7 + 1 / 14) / 2))
