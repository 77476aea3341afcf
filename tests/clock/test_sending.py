"""What must hold of transfers, whatever moves how: none outside its contact, none before its time, the air not
overdrawn, and the two ways to compute them agree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.clock import sending
from fedroam.clock.cells import cells
from fedroam.clock.plan import FIRST, PlannedTransfers
from fedroam.clock.sending import Sent, send
from fedroam.clock.windows import Way, Windows
from fedroam.components import build
from fedroam.contacts import Intervals, Legs, contact_intervals, distance_at
from fedroam.links import Events, Link, Steps, play
from fedroam.links.air import Air
from fedroam.mobility import Paths
from fedroam.native import target
from fedroam.randomness import stream

LENGTH, REACH, SIZE = 50.0, 4.0, 1000.0


@dataclass(frozen=True)
class Case:
    """Walkers who send to each other, and one who gets first what it sends then."""

    link: Link
    way: Way
    plan: PlannedTransfers
    windows: Windows
    hearing: Intervals

    @classmethod
    def drawn(cls, seed: int, link: dict[str, Any]) -> Case:
        draws = stream(seed, "transfers of a test")
        n = int(draws.integers(2, 7))
        points = 2 + draws.integers(0, 3, n)
        first = np.concatenate([[0], np.cumsum(points)])
        time = np.concatenate([np.concatenate([[0.0], np.sort(draws.random(k - 2)), [1.0]]) for k in points])
        paths = Paths(first, time, draws.random((int(first[-1]), 2)) * 10, np.ones(n, dtype=bool))
        part: Any = build("link", {"kind": "fixed", "throughput": 8e-6 * SIZE / 5, **link})
        way = Way(paths, LENGTH, part, seed)
        pairs = np.stack(np.triu_indices(n, k=1), axis=1)
        both = np.concatenate([pairs, pairs[:, ::-1]])
        ready = draws.random(len(both)) * LENGTH
        ready[draws.random(len(both)) < 0.1] = np.inf
        after = np.full(len(both), FIRST)
        half = len(pairs)
        after[half:] = np.where(draws.random(half) < 0.3, np.arange(half), FIRST)
        plan = PlannedTransfers(*both.T, np.full(len(both), SIZE), ready, after)
        heard = contact_intervals(paths, REACH)
        hearing = Intervals(
            heard.i, heard.j, heard.open * LENGTH, np.where(heard.close == 1, np.inf, heard.close * LENGTH)
        )
        return cls(part, way, plan, way.windows(both, REACH), hearing)

    def sent(self, until: float, link: Link | None = None) -> Sent:
        return send(link or self.link, self.plan, self.windows, until, LENGTH, self.hearing, ())


LINKS = st.fixed_dictionaries(
    {
        "setup": st.sampled_from([0.0, 1.5]),
        "loss": st.sampled_from([0.0, 0.25]),
        "simultaneous": st.sampled_from([None, 1, 2]),
        "shared": st.booleans(),
        "broken": st.sampled_from(["lost", "resumed"]),
    }
)
UNTIL = st.sampled_from([LENGTH / 2, LENGTH, 2 * LENGTH, np.inf])


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), link=LINKS, until=UNTIL)
def test_transfers_keep_to_their_contacts_and_times(seed: int, link: dict[str, Any], until: float) -> None:
    case = Case.drawn(seed, link)
    sent, plan, windows = case.sent(until), case.plan, case.windows
    whole = np.isfinite(sent.end)
    ready = np.where(
        plan.after == FIRST,
        plan.ready,
        np.where(whole[plan.after], sent.end[plan.after] + plan.ready, np.inf),
    )
    rate = SIZE / 5 * (1 - case.link.loss)
    legs = Legs(case.way.paths)
    for k in range(len(plan)):
        own = np.flatnonzero(windows.transfer == k)
        if not sent.tries[k]:
            assert np.isnan(sent.begun[k])
            assert not whole[k]
            assert sent.arrived[k] == sent.air[k] == 0
            continue
        close = np.where(windows.stays[own], until, np.minimum(windows.close[own], until))
        inside = (windows.open[own] <= sent.begun[k]) & (sent.stopped[k] <= close)
        assert inside.any(), "a transfer outside its contact"
        assert sent.begun[k] >= ready[k], "a transfer before it is ready"
        moments = np.linspace(sent.begun[k], min(sent.stopped[k], 1e6), 7)
        shares = np.minimum(moments / LENGTH, 1.0)
        ends = (np.full(7, plan.sender[k]), np.full(7, plan.receiver[k]))
        assert (distance_at(legs, *ends, shares) <= REACH + 1e-9).all()
        assert sent.arrived[k] >= SIZE - 1e-6 if whole[k] else sent.arrived[k] >= 0
        assert sent.arrived[k] <= sent.air[k] * rate * (1 + 1e-9) + 1e-6, "more arrived than was sent"
        assert not whole[k] or sent.end[k] == sent.stopped[k] >= sent.begun[k] + case.link.setup
        assert case.link.broken == "lost" or sent.arrived[k] <= SIZE * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), link=LINKS, until=UNTIL)
def test_all_at_once_is_event_by_event(seed: int, link: dict[str, Any], until: float) -> None:
    """With room for any number of transfers, and air that nobody shares."""
    case = Case.drawn(seed, {**link, "shared": False, "simultaneous": None})
    roomy: Any = build("link", {**case.link.settings(), "simultaneous": 10**6})  # type: ignore[attr-defined]
    one, other = case.sent(until), case.sent(until, roomy)
    for name in ("begun", "end", "stopped", "arrived", "air", "tries"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-7, err_msg=name
        )


def on_air(
    case: Case,
    link: Link,
    until: float,
    events: Events | None,
    in_groups: bool,
) -> Sent:
    """By the kernel, compiled or not, cut into groups or not."""
    found = np.array([np.nan, np.inf, np.nan, 0.0, 0.0, 0.0]) * np.ones((len(case.plan), 1))
    each = np.empty((len(case.windows.transfer), 4))
    most = link.simultaneous
    laid = cells(link, case.plan, case.windows, until, LENGTH, case.hearing, (0,), most, in_groups=in_groups)
    told = play(laid, found, each, events)
    begun, end, stopped, arrived, air_time, tries = found.T
    return Sent(begun, end, stopped, arrived, air_time, tries, [each[:told]])


needs_llvmlite = pytest.mark.skipif(target() is None, reason="needs llvmlite")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), link=LINKS, until=UNTIL, rates=st.booleans())
def test_the_kernel_is_the_air_bit_for_bit(
    seed: int, link: dict[str, Any], until: float, rates: bool
) -> None:
    """Client 0 is wired, and rates may pause."""
    case = Case.drawn(seed, link)
    if rates:
        steps, draws = case.windows.steps, stream(seed, "rates of a test")
        cut = [np.sort(draws.random(3)) * LENGTH for _ in range(len(steps.first) - 1)]
        speed = draws.choice([0.0, 100.0, 300.0, np.inf], (len(cut), 3), p=[0.3, 0.3, 0.3, 0.1])
        first = 3 * np.arange(len(steps.first))
        case = replace(
            case,
            windows=replace(case.windows, steps=Steps(first, np.array(cut).reshape(-1), speed.reshape(-1))),
        )
    air, plan = Air(case.link.shared, case.link.simultaneous, case.link.setup, (0,)), case.plan
    pairs = np.stack([plan.sender, plan.receiver], axis=1).tolist()
    slow = sending._on_air(case.link, air, case.plan, case.windows, until, LENGTH, case.hearing)
    fast = sending.compiled()
    for events, in_groups in product((None, *([] if fast is None else [fast])), (True, False)):
        found = on_air(case, case.link, until, events, in_groups)
        for name in ("begun", "end", "stopped", "arrived", "air", "tries"):
            np.testing.assert_array_equal(getattr(found, name), getattr(slow, name), err_msg=name)
        for device in np.unique(plan.sender):  # the tries of each in one order, as a battery adds them up
            one, other = (
                [row for row in sent.every().tolist() if device in pairs[int(row[0])]]
                for sent in (found, slow)
            )
            assert one == other


@needs_llvmlite
def test_rounds_of_many_transfers_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case.drawn(5, {"shared": True, "simultaneous": 2})
    slow = case.sent(LENGTH)
    asked: list[int] = []
    monkeypatch.setattr(sending, "MANY", len(case.plan))
    fast = sending.compiled()
    monkeypatch.setattr(sending, "compiled", lambda: asked.append(1) or fast)
    found = case.sent(LENGTH)
    assert asked == [1]
    for name in ("begun", "end", "stopped", "arrived", "air", "tries"):
        np.testing.assert_array_equal(getattr(found, name), getattr(slow, name), err_msg=name)


@needs_llvmlite
@pytest.mark.parametrize("few", [0, 1000])
def test_those_who_all_hear_each_other_are_compiled(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Where the radius is infinite, pairs are columns of one array."""
    case = Case.drawn(7, {"shared": True})
    paths = case.way.paths
    whole = contact_intervals(paths, np.inf)
    hearing = Intervals(whole.i, whole.j, whole.open, np.full(len(whole), np.inf))
    case = replace(
        case,
        hearing=hearing,
        windows=case.way.windows(np.stack([case.plan.sender, case.plan.receiver], axis=1), np.inf),
    )
    slow = case.sent(LENGTH)
    monkeypatch.setattr(sending, "MANY", 0)
    monkeypatch.setattr(sending, "FEW", few)
    fast = case.sent(LENGTH)
    for name in ("begun", "end", "stopped", "arrived", "air", "tries"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), err_msg=name)


def test_groups_have_nothing_in_common() -> None:
    """Two pairs far apart, a third who hears one of the first, and a chain of waiting: two groups, by hand."""
    link: Any = build("link", {"kind": "fixed", "throughput": 8e-6 * SIZE, "shared": True})
    places = np.array([[0.0, 0.0], [1.0, 0.0], [90.0, 0.0], [91.0, 0.0], [4.5, 0.0], [5.5, 0.0]])
    way = Way(Paths.still(places), LENGTH, link, 0)
    pairs = np.array([[0, 1], [2, 3], [4, 5]])
    plan = PlannedTransfers(*pairs.T, np.full(3, SIZE), np.zeros(3), np.full(3, FIRST))
    heard = contact_intervals(way.paths, REACH)
    hearing = Intervals(heard.i, heard.j, heard.open, np.full(len(heard), np.inf))
    found = cells(link, plan, way.windows(pairs, REACH), LENGTH, LENGTH, hearing, (), None)
    groups = [
        found.group[a:b].tolist() for a, b in zip(found.group_first, found.group_first[1:], strict=False)
    ]
    assert groups == [[0, 2], [1]]
    ends = np.array([np.nan, np.inf, np.nan, 0.0, 0.0, 0.0]) * np.ones((3, 1))
    play(found, ends, np.empty((0, 4)))
    assert ends[:, 1].tolist() == [2.0, 1.0, 2.0]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), link=LINKS)
def test_a_device_has_no_more_transfers_than_it_can(seed: int, link: dict[str, Any]) -> None:
    case = Case.drawn(seed, {**link, "simultaneous": 1, "broken": "lost"})
    sent, plan = case.sent(LENGTH), case.plan
    tried = np.flatnonzero(sent.tries == 1)  # of others only the last try is told
    for device in range(case.way.paths.clients):
        own = tried[(plan.sender[tried] == device) | (plan.receiver[tried] == device)]
        order = own[np.lexsort((sent.stopped[own], sent.begun[own]))]
        assert (sent.begun[order][1:] >= sent.stopped[order][:-1] - 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), link=LINKS, until=UNTIL)
def test_what_comes_later_changes_nothing_before(seed: int, link: dict[str, Any], until: float) -> None:
    """A round that is over earlier has the same transfers up to then."""
    case = Case.drawn(seed, link)
    whole, cut = case.sent(np.inf), case.sent(until)
    np.testing.assert_array_equal(cut.end, np.where(whole.end <= until, whole.end, np.inf))


@pytest.mark.parametrize("simultaneous", [None, 5])
def test_of_what_takes_no_time_nothing_is_sent_before_the_set_up_is_over(simultaneous: int | None) -> None:
    """Two who stay together, over a link of any rate whose set-up takes longer than the round."""
    told = {"kind": "fixed", "throughput": float("inf"), "setup": 2 * LENGTH, "simultaneous": simultaneous}
    link: Any = build("link", told)
    windows = Way(Paths.still(np.zeros((2, 2))), LENGTH, link, 0).windows(np.array([[0, 1]]), REACH)
    plan = PlannedTransfers(np.array([0]), np.array([1]), np.array([SIZE]), np.zeros(1), np.array([FIRST]))
    found = send(link, plan, windows, LENGTH, LENGTH, Intervals(*np.zeros((4, 0))), ())
    assert (found.begun.tolist(), found.end.tolist(), found.stopped.tolist()) == ([0.0], [np.inf], [LENGTH])
    assert (found.arrived.tolist(), found.air.tolist(), found.tries.tolist()) == ([0.0], [0.0], [1.0])


def test_a_rate_of_nothing_never_arrives() -> None:
    case = Case.drawn(3, {})
    still = Way(Paths.still(np.zeros((2, 2))), LENGTH, case.link, 0).windows(np.array([[0, 1]]), REACH)
    dead = Windows(
        still.transfer,
        still.open,
        still.close,
        still.stays,
        type(still.steps)(still.steps.first, still.steps.time, still.steps.rate * 0),
        still.rate * 0,
    )
    plan = PlannedTransfers(np.array([0]), np.array([1]), np.array([SIZE]), np.zeros(1), np.array([FIRST]))
    found = send(case.link, plan, dead, np.inf, LENGTH, case.hearing, ())
    assert found.end.tolist() == [np.inf]
    assert found.arrived.tolist() == [0.0]


@pytest.mark.parametrize("simultaneous", [None, 5])
def test_what_takes_no_time_needs_no_duration(simultaneous: int | None) -> None:
    """Two who only touch, at second 25, exchange models over a link of any rate."""
    link: Any = build("link", {"kind": "fixed", "throughput": float("inf"), "simultaneous": simultaneous})
    paths = Paths.straight(np.array([[0.0, 0.0], [-8.0, 4.0]]), np.array([[0.0, 0.0], [8.0, 4.0]]))
    windows = Way(paths, LENGTH, link, 0).windows(np.array([[0, 1]]), REACH)
    plan = PlannedTransfers(np.array([0]), np.array([1]), np.array([SIZE]), np.zeros(1), np.array([FIRST]))
    found = send(link, plan, windows, LENGTH, LENGTH, Intervals(*np.zeros((4, 0))), ())
    assert found.end.tolist() == [25.0]
    assert found.arrived.tolist() == [SIZE]
