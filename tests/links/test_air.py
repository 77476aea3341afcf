"""Transfers that share the air: by hand, in closed form, and against small steps of time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.links.air import Air, Ended, Transfer
from fedroam.links.steps import Steps
from fedroam.randomness import stream

MB = 1e6


def played(air: Air, transfers: Sequence[Transfer]) -> dict[int, Ended]:
    """How transfers that are all known beforehand end."""
    for transfer in transfers:
        air.offer(transfer)
    found = {}
    while (ended := air.advance()) is not None:
        found[ended.number] = ended
    return found


def one_cell(ends: Sequence[int]) -> Air:
    air = Air()
    for i, j in itertools.combinations(ends, 2):
        air.hear(i, j, 0.0, math.inf)
    return air


# --- by hand -------------------------------------------------------------------------------------------------------


def test_a_transfer_alone_takes_its_bytes_over_its_rate() -> None:
    found = played(Air(setup=0.5), [Transfer(0, 1, 10 * MB, time=2.0, rates=(2 * MB,))])[0]
    assert found == Ended(0, begun=2.0, time=7.5, bytes=10 * MB, air_time=5.0, whole=True)


@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_k_equal_transfers_all_end_after_k_times_one(k: int) -> None:
    ends = list(range(2 * k))
    found = played(one_cell(ends), [Transfer(2 * i, 2 * i + 1, 4 * MB, rates=(MB,)) for i in range(k)])
    assert len(found) == k
    for ended in found.values():
        assert ended.whole
        assert ended.time == pytest.approx(4.0 * k, rel=1e-12)
        assert ended.air_time == pytest.approx(4.0, rel=1e-12)


def test_staggered_arrivals_share_while_both_are_there() -> None:
    # Two of 10 s of air each; the second comes 4 s later. The first has 6 s left and half the air: it ends at 16 s.
    # The second has then had 6 s of air and needs 4 more alone: 20 s.
    found = played(
        one_cell(range(4)),
        [Transfer(0, 1, 10 * MB, rates=(MB,)), Transfer(2, 3, 10 * MB, time=4.0, rates=(MB,))],
    )
    assert [found[0].time, found[1].time] == pytest.approx([16.0, 20.0])


def test_air_time_is_shared_not_bytes() -> None:
    # A slow one (1 MB/s, 4 MB: 4 s of air) and a fast one (8 MB/s, 8 MB: 1 s of air): the fast one ends at 2 s, when
    # the slow one has had 1 s of air; that ends at 5 s. Fair shares of bytes would have made the fast one wait.
    found = played(
        one_cell(range(4)), [Transfer(0, 1, 4 * MB, rates=(MB,)), Transfer(2, 3, 8 * MB, rates=(8 * MB,))]
    )
    assert [found[0].time, found[1].time] == pytest.approx([5.0, 2.0])


def test_processor_sharing_of_three_by_hand() -> None:
    # 1, 2 and 3 s of air at once: 3 s (three thirds of the first), then 2 s for one more second of two, then 1 s.
    transfers = [Transfer(2 * i, 2 * i + 1, (i + 1) * MB, rates=(MB,)) for i in range(3)]
    found = played(one_cell(range(6)), transfers)
    assert [found[i].time for i in range(3)] == pytest.approx([3.0, 5.0, 6.0])


def test_who_does_not_hear_the_other_does_not_share() -> None:
    # 0-1 and 4-5 are far apart, 2-3 hears both: it has a third, they have halves.
    air = Air()
    air.hear(1, 2, 0.0, math.inf)
    air.hear(3, 4, 0.0, math.inf)
    for i in (0, 2, 4):
        air.offer(Transfer(i, i + 1, 100 * MB, rates=(MB,)))
    assert air.advance(1.0) is None
    shares = {number: share for number, (share, _) in air.shares().items()}
    assert shares == {0: 1 / 2, 1: 1 / 3, 2: 1 / 2}


def test_who_comes_into_hearing_shares_from_then_on() -> None:
    # Two of 10 s of air hear each other from 2 s to 6 s: each has had 2 + 2 s then, and ends at 12 s.
    air = Air()
    air.hear(1, 2, 2.0, 6.0)
    found = played(air, [Transfer(0, 1, 10 * MB, rates=(MB,)), Transfer(2, 3, 10 * MB, rates=(MB,))])
    assert [found[0].time, found[1].time] == pytest.approx([12.0, 12.0])


def test_a_contact_at_the_seam_of_two_rounds_is_one() -> None:
    air = Air()
    air.hear(1, 2, 0.0, 5.0)
    air.hear(1, 2, 5.0, 100.0)
    found = played(air, [Transfer(0, 1, 10 * MB, rates=(MB,)), Transfer(2, 3, 10 * MB, rates=(MB,))])
    assert [found[0].time, found[1].time] == pytest.approx([20.0, 20.0])


def test_both_ways_between_two_share() -> None:
    found = played(Air(), [Transfer(0, 1, MB, rates=(MB,)), Transfer(1, 0, MB, rates=(MB,))])
    assert [found[0].time, found[1].time] == pytest.approx([2.0, 2.0])
    alone = played(Air(shared=False), [Transfer(0, 1, MB, rates=(MB,)), Transfer(1, 0, MB, rates=(MB,))])
    assert [alone[0].time, alone[1].time] == [1.0, 1.0]


def test_half_duplex_is_first_come_first_served() -> None:
    # 1 sends to 0 and then to 2, and 3 to 4 is not held up; 5 to 3 waits for 3.
    air = Air(shared=False, simultaneous=1, setup=0.25)
    found = played(
        air,
        [
            Transfer(1, 0, MB, rates=(MB,)),
            Transfer(1, 2, MB, rates=(MB,)),
            Transfer(3, 4, 3 * MB, rates=(MB,)),
            Transfer(5, 3, MB, time=1.0, rates=(MB,)),
        ],
    )
    assert [(found[k].begun, found[k].time) for k in range(4)] == [
        (0.0, 1.25),
        (1.25, 2.5),
        (0.0, 3.25),
        (3.25, 4.5),
    ]


def test_a_server_has_as_many_links_as_are_asked_for_and_no_air() -> None:
    transfers = [Transfer(i, -1, MB, rates=(MB,)) for i in range(3)]
    found = played(Air(simultaneous=1, wired=(-1,)), transfers)
    assert [found[k].time for k in range(3)] == [1.0, 1.0, 1.0]
    found = played(Air(simultaneous=1), transfers)
    assert [found[k].time for k in range(3)] == [1.0, 2.0, 3.0]


def test_a_contact_that_closes_breaks_the_transfer_and_frees_its_ends() -> None:
    air = Air(shared=False, simultaneous=1)
    found = played(
        air,
        [
            Transfer(0, 1, 10 * MB, until=4.0, rates=(MB,)),
            Transfer(0, 2, MB, until=3.0, rates=(MB,)),
            Transfer(0, 3, MB, until=9.0, rates=(MB,)),
        ],
    )
    assert found[0] == Ended(0, begun=0.0, time=4.0, bytes=4 * MB, air_time=4.0, whole=False)
    assert math.isnan(found[1].begun)
    assert found[1][2:] == (3.0, 0.0, 0.0, False)
    assert found[2][1:] == (4.0, 5.0, MB, 1.0, True)


def test_what_takes_no_time_gets_through_a_contact_that_only_touches() -> None:
    air = Air(simultaneous=1)
    found = played(air, [Transfer(0, k, MB, time=3.0, until=3.0) for k in (1, 2)])
    assert [(found[k].time, found[k].whole, found[k].air_time) for k in (0, 1)] == [(3.0, True, 0.0)] * 2


def test_a_rate_that_changes_and_pauses() -> None:
    # 2 MB in 1 s, nothing for 3 s (and no air taken: the other has it all), then 1 MB/s.
    transfers = [
        Transfer(0, 1, 5 * MB, times=(0.0, 2.0, 5.0), rates=(2 * MB, 0.0, MB)),
        Transfer(2, 3, 4 * MB, rates=(MB,)),
    ]
    found = played(one_cell(range(4)), transfers)
    # To 2 s each has 1 s of air (2 MB and 1 MB); the second ends at 5 s; the first needs 3 s from 5 s on.
    assert [found[0].time, found[1].time] == pytest.approx([8.0, 5.0])
    assert [found[0].air_time, found[1].air_time] == pytest.approx([4.0, 4.0])


def test_who_offers_on_what_ended_goes_on_from_there() -> None:
    """A model there and back: the second is offered when the first has ended."""
    air = Air()
    air.offer(Transfer(0, 1, MB, rates=(MB,)))
    air.offer(Transfer(2, 3, 10 * MB, rates=(MB,)))
    first = air.advance()
    assert first is not None
    assert (first.time, air.time) == (1.0, 1.0)
    air.offer(Transfer(1, 0, MB, time=air.time + 2.0, rates=(MB,)))
    assert air.advance(3.5) is None
    assert air.time == 3.5
    second = air.advance()
    assert second is not None
    assert (second.number, second.begun, second.time) == (2, 3.0, 4.0)


# --- laws ----------------------------------------------------------------------------------------------------------


def drawn(seed: int, count: int, ends: int) -> tuple[list[Transfer], list[tuple[int, int, float, float]]]:
    """Transfers with rates that change, and who hears whom when; moments are multiples of 1/8 s."""
    draws = stream(seed, "air")
    transfers = []
    for _ in range(count):
        sender, receiver = draws.choice(ends, 2, replace=False).tolist()
        start = float(draws.integers(0, 40)) / 8
        times = np.sort(draws.choice(80, 3, replace=False)) / 8
        rates = draws.choice([0.0, 1.0, 2.0, 5.0], 3)
        size, lasts = float(draws.integers(0, 12)), float(draws.integers(0, 80)) / 8
        transfers.append(
            Transfer(sender, receiver, size, start, start + lasts, tuple(times.tolist()), tuple(rates))
        )
    heard = []
    for i, j in itertools.combinations(range(ends), 2):
        begin = float(draws.integers(0, 80)) / 8
        heard.append((i, j, begin, begin + float(draws.integers(0, 80)) / 8))
    return transfers, heard


def in_small_steps(
    transfers: Sequence[Transfer],
    heard: Sequence[tuple[int, int, float, float]],
    shared: bool,
    step: float,
) -> list[tuple[float, float]]:
    """The slow, obvious version: bytes and air time of each transfer, all moments a step apart."""
    n = len(transfers)
    left, air = np.array([t.bytes for t in transfers]), np.zeros(n)
    for tick in range(int(24 / step)):
        now, rate = tick * step, np.zeros(n)
        for k, t in enumerate(transfers):
            if t.time <= now < t.until and left[k] > 1e-9:
                passed = [r for moment, r in zip(t.times, t.rates, strict=True) if moment <= now]
                rate[k] = passed[-1] if passed else t.rates[0]
        hears = {frozenset((i, j)) for i, j, begin, end in heard if begin <= now < end}
        for k in np.flatnonzero(rate > 0):
            mine = {transfers[k].sender, transfers[k].receiver}
            others = [
                m
                for m in np.flatnonzero(rate > 0)
                if m != k
                and any(
                    a == b or frozenset((a, b)) in hears
                    for a in mine
                    for b in (transfers[m].sender, transfers[m].receiver)
                )
            ]
            share = 1 / (1 + len(others)) if shared else 1.0
            sent = min(rate[k] * share * step, left[k])
            air[k] += sent / rate[k]
            left[k] -= sent
    return [(t.bytes - rest, spent) for t, rest, spent in zip(transfers, left.tolist(), air, strict=True)]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.booleans())
def test_it_is_what_small_steps_of_time_come_to(seed: int, count: int, shared: bool) -> None:
    transfers, heard = drawn(seed, count, 5)
    air = Air(shared=shared)
    for contact in heard:
        air.hear(*contact)
    found = played(air, transfers)
    slow = in_small_steps(transfers, heard, shared, 1 / 256)
    for k in range(count):
        # Each end of another transfer is noticed up to a step late, at rates up to 5.
        np.testing.assert_allclose(found[k].bytes, slow[k][0], atol=5 * count * 3 / 256)
        np.testing.assert_allclose(found[k].air_time, slow[k][1], atol=count * 3 / 256)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 14),
    st.booleans(),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([0.0, 0.3]),
)
def test_shares_limits_and_contacts_hold_at_all_times(
    seed: int, count: int, shared: bool, simultaneous: int | None, setup: float
) -> None:
    transfers, heard = drawn(seed, count, 6)
    air = Air(shared=shared, simultaneous=simultaneous, setup=setup)
    for contact in heard:
        air.hear(*contact)
    for transfer in transfers:
        air.offer(transfer)
    found: dict[int, Ended] = {}
    for tick in range(24 * 16):
        while (ended := air.advance(tick / 16)) is not None:
            assert ended.number not in found
            found[ended.number] = ended
        shares = air.shares()
        for number, (_, near) in shares.items():
            assert all(number in shares[other][1] for other in near), "sharing is mutual"
        # Every set of transfers that all share with one another.
        for size in (1, 2, 3, 4):
            for group in itertools.combinations(shares, size):
                if all(b in shares[a][1] for a, b in itertools.combinations(group, 2)):
                    assert sum(shares[a][0] for a in group) <= 1 + 1e-12
        if not shared:
            assert all(share == 1 for share, _ in shares.values())
    assert len(found) == count
    for number, ended in found.items():
        transfer = transfers[number]
        assert transfer.time <= ended.time <= transfer.until
        assert 0 <= ended.bytes <= transfer.bytes
        assert ended.whole == (ended.bytes == transfer.bytes and not math.isnan(ended.begun)) or (
            transfer.bytes == 0
        )
        if not math.isnan(ended.begun):
            assert ended.begun >= transfer.time
            assert ended.air_time <= max(ended.time - ended.begun - setup, 0.0) + 1e-9
    if simultaneous is not None:
        for end in range(6):
            held = [
                (found[k].begun, found[k].time)
                for k, t in enumerate(transfers)
                if end in (t.sender, t.receiver) and not math.isnan(found[k].begun)
            ]
            for moment in sorted({begin for begin, _ in held}):
                assert sum(begin <= moment < close for begin, close in held) <= simultaneous


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_without_sharing_it_is_the_closed_form(seed: int, count: int) -> None:
    transfers, _ = drawn(seed, count, 5)
    found = played(Air(shared=False), transfers)
    steps = Steps(
        np.arange(count + 1) * 3,
        np.concatenate([t.times for t in transfers]),
        np.concatenate([t.rates for t in transfers]),
    )
    size, start, until = (
        np.array([getattr(t, name) for t in transfers]) for name in ("bytes", "time", "until")
    )
    end, arrived = steps.alone(size, start, until)
    np.testing.assert_allclose(end, [found[k].time for k in range(count)], atol=1e-9)
    np.testing.assert_allclose(arrived, [found[k].bytes for k in range(count)], atol=1e-9)


def test_the_order_of_offers_of_one_moment_changes_no_time_but_that_of_who_waits() -> None:
    transfers, heard = drawn(7, 10, 6)
    ends = []
    for order in (range(10), reversed(range(10))):
        air = Air()
        for contact in heard:
            air.hear(*contact)
        own = list(order)
        found = played(air, [transfers[k] for k in own])
        ends.append({own[k]: ended[2:] for k, ended in found.items()})
    for k in range(10):
        np.testing.assert_allclose(ends[0][k], ends[1][k], atol=1e-9)


@pytest.mark.parametrize("sizes", ["constant", "exponential"])
def test_one_access_point_is_the_queue_m_g_1_ps(sizes: str) -> None:
    """In M/G/1 processor sharing, a job stays E[S] / (1 - rho) on average, whatever the distribution of its size
    (Kleinrock, Queueing systems II, Sec. 4.4). Judged by the means of 40 batches, which are independent to a good
    measure.
    """
    jobs, load = 40_000, 0.5
    draws = stream(1, f"queue {sizes}")
    time = np.cumsum(draws.exponential(1 / load, jobs))
    size = np.ones(jobs) if sizes == "constant" else draws.exponential(1.0, jobs)
    air = Air()
    for k in range(jobs):
        air.offer(Transfer(k, -1, float(size[k]), float(time[k]), rates=(1.0,)))
    stays = np.empty(jobs)
    while (ended := air.advance()) is not None:
        stays[ended.number] = ended.time - time[ended.number]
        assert ended.air_time == pytest.approx(size[ended.number], abs=1e-6)
    batches = stays.reshape(40, -1).mean(axis=1)
    error = batches.std(ddof=1) / math.sqrt(40)
    assert error < 0.05
    assert abs(batches.mean() - 1 / (1 - load)) < 4 * error
