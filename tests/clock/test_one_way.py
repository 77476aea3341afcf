"""Federations in which one way counts: whose model got through to whom, by hand and beside pairs that need both."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import sparse
from typing_extensions import override

from fedroam.clock import Timetable
from fedroam.federation import Exchanged, Meeting, Round, SendsOneWay, Traffic
from fedroam.federation.decentralized import Decentralized
from fedroam.simulation import begin, play_round
from support.timed import meeting, timed, timed_scene

REACH = 10.0
# One stands; the other passes 6 m away at 1 m/s: within 10 m from second 12 to 28.
PASSING = meeting([[0, 0], [-20, 6]], [[0, 0], [20, 6]])
MODEL = 4 * (64 * 10 + 10)
TEN = {"kind": "fixed", "throughput": 8e-6 * MODEL / 10}  # a model in ten seconds
STAY = {"mobility": {"kind": "static"}, "contacts": {"kind": "radius", "radius": float("inf")}}


class Megaphone(Decentralized):
    """Lower clients send to higher ones: client j sends 1 + j models to each; who gets any remembers whose."""

    kind: ClassVar[str] = "megaphone"

    def sends(self, round: Round, meeting: Meeting) -> sparse.csr_array:
        """Downwards only."""
        down = sparse.tril(meeting.graph.astype(np.int64), k=-1)
        times = sparse.diags_array(1 + np.arange(round.context.clients), dtype=np.int64)
        return sparse.csr_array(down @ times * round.models.bytes_each).astype(np.int64)

    @override
    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        got = self.sends(round, after) > 0 if round.received is None else round.received
        state = {"got": got.toarray()}
        return Exchanged(after, Traffic.nothing(), round.models, state)


def scene_of(work: tuple[float, ...], **settings: Any) -> Any:
    return timed_scene(work, **{"federation": Megaphone(), "link": TEN, **settings})


def of(found: Timetable) -> list[list[bool]]:
    assert found.graph is None
    assert found.received is not None
    told: list[list[bool]] = found.received.toarray().tolist()
    return told


def test_the_kind_says_that_one_way_counts() -> None:
    assert isinstance(Megaphone(), SendsOneWay)
    assert not isinstance(Decentralized(), SendsOneWay)


@pytest.mark.parametrize(
    ("training", "gets"), [((0.0, 0.0), True), ((17.0, 60.0), True), ((19.0, 0.0), False)]
)
def test_a_passage_by_hand(training: tuple[float, float], gets: bool) -> None:
    """Client 0 sends its one model in seconds 12 to 28, if it has trained by 18; client 1 may train for ever."""
    found = timed(scene_of(training, clock={"kind": "seconds", "length": 40.0}), PASSING, reach=REACH)
    assert of(found) == [[False, False], [gets, False]]
    assert found.facts == {
        "late": float(training[1] > 40),
        "transfers": 1,
        "through": gets,
        "broken": not gets,
        "contacts": 1,
        "fit": gets,
    }
    sent = dict(zip(found.traffic.sender.tolist(), found.traffic.bytes.tolist(), strict=True))
    assert sent == ({} if gets else {0: round(0.9 * MODEL)})


@pytest.mark.parametrize(
    ("length", "through"), [(9.0, 0), (10.0, 1), (19.0, 1), (20.0, 2), (39.0, 2), (40.0, 3)]
)
def test_sizes_are_the_senders(length: float, through: int) -> None:
    """Three in one place, half duplex. 0 sends to 1 until second 10, then to 2 until 20, as it comes before 1, which
    then sends its two models to 2 until 40."""
    still = meeting([[0, 0]] * 3, [[0, 0]] * 3)
    clock = {"kind": "seconds", "length": length}
    found = timed(scene_of((0.0, 0.0, 0.0), clock=clock, link={**TEN, "simultaneous": 1}), still, reach=REACH)
    order = [[1, 0], [2, 0], [2, 1]][:through]
    assert np.argwhere(of(found)).tolist() == order


def test_who_goes_on_training_takes_nothing_in() -> None:
    """Client 1 trains for 70 s: in rounds of 30 s it is free in the third only. Dropped, it begins anew each round, and
    listens meanwhile."""
    for late, gets in (("carried", [False, False, True]), ("dropped", [True, True, True])):
        clock = {"kind": "seconds", "length": 30.0, "late": late}
        scene = scene_of((5.0, 70.0), clock=clock, **STAY)
        state, found = begin(scene), []
        for _ in range(3):
            state, _done = play_round(scene, state)
            found.append(bool(state.federation["got"][1, 0]))
        assert found == gets
        # What came in vain was sent all the same.
        assert state.account.bytes_up.tolist() == [MODEL * gets.count(False), 0]


def test_pairs_that_need_both_are_those_of_which_both_ways_count() -> None:
    """The same passage, each way by itself: a pair meets exactly where both ways count."""
    for training in ((0.0, 0.0), (19.0, 5.0), (5.0, 19.0), (19.0, 19.0)):
        clock = {"kind": "seconds", "length": 40.0}
        both = timed(scene_of(training, clock=clock, federation="decentralized"), PASSING, reach=REACH)
        ways = []
        for order in (slice(None), slice(None, None, -1)):
            paths = [PASSING.paths.start[order].tolist(), PASSING.paths.end[order].tolist()]
            found = timed(scene_of(training[order], clock=clock), meeting(*paths), reach=REACH)
            ways.append(bool(np.any(of(found))))
        assert both.graph is not None
        assert (both.graph.nnz == 2) is all(ways)
