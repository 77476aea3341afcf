"""Spread: the base rule where nobody is to be avoided, and fewer clients at one place elsewhere."""

import itertools
import math

import numpy as np
import pytest

from fedroam.components import build
from fedroam.mobility import World
from fedroam.mobility.steered.grid import DAM, DCM
from fedroam.mobility.steered.rectangle import DAMContinuous, DCMContinuous
from fedroam.mobility.steered.spread import Spread, SpreadContinuous
from fedroam.randomness import stream
from support.steering import walk, world

BASES = {
    ("spread", "dam"): DAM,
    ("spread", "dcm"): DCM,
    ("spread_continuous", "dam"): DAMContinuous,
    ("spread_continuous", "dcm"): DCMContinuous,
}


@pytest.mark.parametrize(("kind", "base"), list(BASES))
@pytest.mark.parametrize("knowledge", ["oracle", "warm_up", "contacts"])
@pytest.mark.parametrize("alone", ["one mobile client", "no discount", "reach without end"])
def test_equals_its_base_rule_where_nobody_is_to_be_avoided(kind, base, knowledge, alone):
    reach = math.inf if alone == "reach without end" else 3.0 if kind == "spread" else 60.0
    common = {
        "mobile": 1 if alone == "one mobile client" else 4,
        "knowledge": knowledge,
        "max_step": 4.0 if kind == "spread" else 90.0,
        "warm_up": 5,
    }
    spread = build(
        "mobility", {"kind": kind, "base": base, "discount": 0.0 if alone == "no discount" else 1.0, **common}
    )
    for one, other in zip(
        walk(spread, world(3, 20, reach)),
        walk(BASES[kind, base](**common), world(3, 20, reach)),
        strict=True,
    ):
        assert sorted(one) == sorted(other)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("settings", [{"ties": "random"}, {"centres": "clients"}, {"approach": "on_line"}])
def test_the_settings_of_the_base_rule_are_handed_on(settings):
    for one, other in zip(
        walk(Spread(mobile=1, max_step=4.0, **settings), world(5, 20)),
        walk(DCM(mobile=1, max_step=4.0, **settings), world(5, 20)),
        strict=True,
    ):
        np.testing.assert_array_equal(one["position"], other["position"])


@pytest.mark.parametrize(("kind", "base"), list(BASES))
@pytest.mark.parametrize("far", [False, True])
def test_nobody_draws_the_place_another_heads_for(kind, base, far):
    plane = kind == "spread_continuous"
    step = math.inf if far else 90.0 if plane else 4.0
    part = build("mobility", {"kind": kind, "base": base, "mobile": 4, "max_step": step})
    plain = BASES[kind, base](mobile=4, max_step=step)

    def clashes(pattern) -> int:
        count = 0
        for seed in range(6):
            states = list(walk(pattern, world(seed, clients=24, reach=60.0 if plane else 3.0)))
            for before, after in itertools.pairwise(states):
                under_way = (before["destination"] != before["position"][:4]).any(axis=1)
                for m in np.flatnonzero(~under_way):
                    heard = under_way | (np.arange(4) < m)
                    same = (after["destination"] == after["destination"][m]).all(axis=1)
                    count += int((same & heard).any())
        return count

    assert clashes(part) == 0
    if base == "dcm":  # among few centres the base rule does meet
        assert clashes(plain) > 10


def test_more_clients_are_served_at_once_than_by_dcm():
    def served(part) -> float:
        shares = []
        for seed in range(8):
            for state in itertools.islice(walk(part, world(seed, 20), 40), 1, None):
                gap = state["position"][5:, None] - state["position"][None, :5]
                shares.append((np.hypot(gap[..., 0], gap[..., 1]) <= 3.0).any(axis=1).mean())
        return float(np.mean(shares))

    assert served(Spread(mobile=5)) > served(DCM(mobile=5)) + 0.05


@pytest.mark.parametrize("kind", [Spread, SpreadContinuous])
def test_all_clients_mobile(kind):
    w, part = world(0, clients=3), kind(base="dam", mobile=3)
    state, _ = part.step(part.start(w), w, 1)
    assert len({tuple(place) for place in state["position"]}) == 3


def test_a_large_grid_is_quick():
    w = World(0, 300, stream(0, "test counts").integers(0, 50, size=(300, 10)), 5.0)
    part = Spread(base="dam", grid=500, mobile=50)
    state = part.start(w)
    state, _ = part.step(state, w, 1)
    assert len({tuple(place) for place in state["destination"]}) == 50


PINNED = {
    ("dam", "oracle"): "1d3378ad091b93f8",
    ("dam", "warm_up"): "a09e4776503d3170",
    ("dam", "contacts"): "181a973fe5d3a79c",
    ("dcm", "oracle"): "fe9ad027c40ea3b4",
    ("dcm", "warm_up"): "49c246d5b72b6100",
    ("dcm", "contacts"): "3c36d74a5494ae61",
}
