"""What every steered mobility does, whatever its terrain and targets: knowledge, start, resuming, its own draws."""

import numpy as np
import pytest

from fedroam.errors import InputError
from fedroam.mobility.steered.coverage import CoverageMap
from fedroam.mobility.steered.grid import DAM, DCM
from fedroam.mobility.steered.rectangle import DAMContinuous, DCMContinuous
from fedroam.mobility.steered.spread import Spread, SpreadContinuous
from support.steering import centres, walk, world


@pytest.mark.parametrize(("kind", "step"), [(DAM, 4.0), (DAMContinuous, 40.0)])
def test_the_draws_of_one_do_not_depend_on_how_many_others_fly(kind, step):
    w = world(5)
    few, many = (kind(mobile=n, knowledge="warm_up", warm_up=9, max_step=step) for n in (2, 5))
    for a, b in zip(walk(few, w, 9), walk(many, w, 9), strict=True):
        np.testing.assert_array_equal(a["position"][:2], b["position"][:2])


@pytest.mark.parametrize("kind", [DAM, DCM])
def test_after_the_warm_up_those_who_know_nobody_go_on_moving_until_they_do(kind):
    for seed in range(5):
        w = world(seed, clients=20, reach=1.0)
        part = kind(grid=18, mobile=5, max_step=5.0, knowledge="warm_up", warm_up=0)
        state = part.start(w)
        for t in range(1, 120):
            state, _ = part.step(state, w, t)
        assert state["known"].any(axis=1).all()


@pytest.mark.parametrize("kind", [DAM, DCM])
@pytest.mark.parametrize("knowledge", ["oracle", "warm_up", "contacts"])
def test_a_resumed_flight_goes_on_in_the_same_way(kind, knowledge):
    part = kind(grid=8, mobile=3, max_step=2.5, knowledge=knowledge, warm_up=2)
    w, again = world(4, reach=2.0), world(4, reach=2.0)
    state = part.start(w)
    for t in range(1, 8):
        resumed = {name: array.copy() for name, array in state.items()}
        state, _ = part.step(state, w, t)
        other, _ = part.step(resumed, again, t)
        for name in state:
            np.testing.assert_array_equal(state[name], other[name])


def test_knowledge_grows_by_contacts_only():
    w = world(1, clients=10, reach=2.0)
    part = DAM(grid=10, mobile=2, knowledge="contacts")
    state = part.start(w)
    near = np.hypot(*(state["position"][2:, None] - state["position"][None, :2]).transpose(2, 1, 0)) <= 2.0
    np.testing.assert_array_equal(state["known"], near)
    met = state["known"].copy()
    for t in range(1, 60):
        state, _ = part.step(state, w, t)
        near = (
            np.hypot(*(state["position"][2:, None] - state["position"][None, :2]).transpose(2, 1, 0)) <= 2.0
        )
        met |= near
        np.testing.assert_array_equal(state["known"], met)
    assert met.all()  # exploring finds everybody


def test_warm_up_moves_at_random_then_steers_by_what_it_saw():
    w = world(2, reach=2.0)
    part = DCM(grid=8, mobile=2, knowledge="warm_up", warm_up=5)
    state = part.start(w)
    for t in range(1, 6):
        state, _ = part.step(state, w, t)
    assert state["known"].any()
    assert not state["known"].all()
    for t in range(6, 12):
        before, (state, _) = state["known"], part.step(state, w, t)
        for m in range(2):  # unconstrained: it is where it chose to go, by what it knew when it chose
            assert tuple(state["position"][m]) in {tuple(c) for c in centres(part, w, before[m])}


@pytest.mark.parametrize(
    ("part", "needs"),
    [
        (DCM(mobile=3), "dcm"),
        (Spread(mobile=3), "dcm"),
        (DCMContinuous(mobile=3), "dcm_continuous"),
        (SpreadContinuous(mobile=3), "dcm_continuous"),
        (DAMContinuous(mobile=3, candidates="clients"), "candidates = 'clients'"),
        (SpreadContinuous(base="dam", mobile=3, candidates="clients"), "candidates = 'clients'"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_who_needs_static_clients_says_so(part, needs):
    expected = (
        f"mobility.mobile = 3: all 3 clients move, and {needs} needs static ones to fly to; allowed is 0 to 2"
    )
    with pytest.raises(InputError) as caught:
        part.start(world(0, clients=3))
    assert str(caught.value) == expected


@pytest.mark.parametrize("kind", [DAM, DAMContinuous, Spread, SpreadContinuous])
def test_more_mobile_clients_than_there_are(kind):
    with pytest.raises(InputError, match=r"mobility\.mobile = 4: only 3 clients; allowed is 0 to 3"):
        kind(mobile=4).start(world(0, clients=3))


@pytest.mark.parametrize("kind", [DAM, DAMContinuous])
def test_dam_does_without_static_clients(kind):
    w, dam = world(0, clients=3), kind(mobile=3)
    state, _ = dam.step(dam.start(w), w, 1)
    assert state["position"].shape == (3, 2)


@pytest.mark.parametrize("kind", [DCM, DCMContinuous])
def test_terrain_and_centres_are_found_once_a_world_and_are_no_state(kind, monkeypatch):
    found = []
    monkeypatch.setattr(
        CoverageMap, "centres", lambda *given, plain=CoverageMap.centres: found.append(1) or plain(*given)
    )
    w, part = world(0, reach=60.0), kind(mobile=3)
    terrain = part.terrain(w)
    last = list(walk(part, w, 20))[-1]
    assert len(found) == 1
    assert part.terrain(w) is kind(mobile=3).terrain(w) is terrain
    assert kind(mobile=2).terrain(w) is not terrain
    assert set(last) == {"position", "destination", "known", "seen"}
    again = list(walk(part, world(0, reach=60.0), 20))[-1]
    assert len(found) == 2
    for name in last:
        np.testing.assert_array_equal(last[name], again[name])
