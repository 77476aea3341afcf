"""Rates over a contact: the bytes of a straight passage, and the same as many small steps of time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedroam.components import build
from fedroam.contacts import Intervals, Legs, contact_intervals, distance_at
from fedroam.links import ConstantRate, Link, Steps, rate_steps
from fedroam.links.link import Fixed, InstantLink
from fedroam.mobility import Paths
from fedroam.randomness import stream


def passage(radius: float, aside: float, speed: float, length: float) -> tuple[Legs, Intervals]:
    """0 stands at the origin, 1 passes it at `aside` metres, in the middle of a round of `length` seconds."""
    start = np.array([[0.0, 0.0], [-speed * length / 2, aside]])
    end = np.array([[0.0, 0.0], [speed * length / 2, aside]])
    paths = Paths.straight(start, end)
    return Legs(paths), contact_intervals(paths, radius)


def sent(steps: Steps, contacts: Intervals, length: float) -> np.ndarray:
    """The bytes that a contact carries."""
    opening, closing = contacts.open * length, contacts.close * length
    _, arrived = steps.alone(1e18, opening, closing)
    return arrived


def test_the_bytes_of_a_straight_passage() -> None:
    """Rate times 2 sqrt(R^2 - d^2) / v; one step, as the rate knows no distance; a tenth is sent again."""
    legs, contacts = passage(50.0, 30.0, 5.0, 60.0)
    link = Fixed(throughput=8.0, loss=0.1)
    steps = rate_steps(link, legs, contacts, 60.0, seed=0)
    assert steps.of(0) == ([pytest.approx(30.0 - 8.0)], [pytest.approx(0.9e6)])
    assert sent(steps, contacts, 60.0)[0] == pytest.approx(0.9e6 * 2 * math.sqrt(50**2 - 30**2) / 5.0)


def test_what_takes_no_time_takes_none_in_any_contact() -> None:
    legs, contacts = passage(50.0, 50.0, 5.0, 60.0)
    steps = rate_steps(InstantLink(), legs, contacts, 60.0, seed=0)
    assert (contacts.open == contacts.close).all()
    end, arrived = steps.alone(1e6, contacts.open * 60, contacts.close * 60)
    assert (end[0], arrived[0]) == (30.0, 1e6)


def test_a_constant_rate_is_what_asking_for_it_gives() -> None:
    """Places are not looked at for it, and both ways are those of each way alone."""
    draws = stream(8, "steps")
    paths = Paths.straight(draws.random((9, 2)) * 100, draws.random((9, 2)) * 100)
    legs, contacts = Legs(paths), contact_intervals(paths, 50.0)
    fixed = Fixed(throughput=8.0, loss=0.1)
    assert isinstance(fixed, ConstantRate)
    for both_ways in (False, True):
        one, other = (
            rate_steps(fixed, legs, contacts, 60.0, 0, both_ways=both_ways, everywhere=rate)
            for rate in (fixed.everywhere, None)
        )
        for name in ("first", "time", "rate"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_both_ways_are_each_way_alone() -> None:
    link: Any = build("link", {"kind": "path_loss", "standard": "shannon"})
    draws = stream(9, "steps")
    paths = Paths.straight(draws.random((9, 2)) * 100, draws.random((9, 2)) * 100)
    legs, there = Legs(paths), contact_intervals(paths, 50.0)
    back = Intervals(there.j, there.i, there.open, there.close)
    both = rate_steps(link, legs, there, 60.0, 3, both_ways=True)
    for k, way in enumerate((there, back)):
        alone = rate_steps(link, legs, way, 60.0, 3)
        rows = range(len(way))
        assert [both.of(k * len(way) + row) for row in rows] == [alone.of(row) for row in rows]


@pytest.mark.parametrize(("standard", "error"), [("shannon", 1e-4), ("802.11n", 0.02)])
def test_a_rate_that_falls_with_distance_is_that_of_many_instants(standard: str, error: float) -> None:
    """Smooth rates to fourth order; at the jump of a modulation a part of the contact is in doubt."""
    link = build("link", {"kind": "path_loss", "standard": standard, "shadowing": 3.0})
    assert isinstance(link, Link)
    draws, n = stream(4, "steps"), 12
    paths = Paths.straight(draws.random((n, 2)) * 200, draws.random((n, 2)) * 200)
    contacts, legs = contact_intervals(paths, 80.0), Legs(paths)
    assert len(contacts) > 20
    found = sent(rate_steps(link, legs, contacts, 10.0, seed=3), contacts, 10.0)
    grid = (np.arange(4000) + 0.5) / 4000
    slow = np.empty(len(contacts))
    for k in range(len(contacts)):
        time = contacts.open[k] + grid * (contacts.close[k] - contacts.open[k])
        i, j = np.full(4000, contacts.i[k]), np.full(4000, contacts.j[k])
        rate = link.rate(distance_at(legs, i, j, time), 3, np.stack([i, j], axis=1))
        slow[k] = rate.mean() * (contacts.close[k] - contacts.open[k]) * 10.0
    np.testing.assert_allclose(found, slow, rtol=error)


def test_a_transfer_by_itself_is_that_among_others() -> None:
    """Bit for bit, however much others send."""
    draws = stream(9, "steps")
    count = draws.integers(1, 6, 50)
    first = np.append(0, np.cumsum(count))
    time = np.concatenate([np.sort(draws.uniform(0, 60, k)) for k in count])
    steps = Steps(first, time, draws.uniform(0, 1e6, len(time)))
    size, start = draws.uniform(1, 4e7, 50), draws.uniform(0, 60, 50)
    until = start + draws.uniform(0, 60, 50)
    end, arrived = steps.alone(size, start, until)
    assert 5 < (arrived == size).sum() < 45
    for k in range(50):
        own = Steps(np.array([0, count[k]]), *(each[first[k] : first[k + 1]] for each in (time, steps.rate)))
        found = own.alone(size[k : k + 1], start[k : k + 1], until[k : k + 1])
        assert (found[0][0], found[1][0]) == (end[k], arrived[k])


def test_no_contact_no_step() -> None:
    legs, contacts = passage(50.0, 60.0, 5.0, 60.0)
    steps = rate_steps(Fixed(), legs, contacts, 60.0, seed=0)
    assert (len(steps.first), len(steps.time)) == (1, 0)
