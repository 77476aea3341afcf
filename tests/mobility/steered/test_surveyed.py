"""Which survey points an explorer has seen: bits, held against plain sets; and what earlier checkpoints hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.mobility.steered.surveyed import as_bits, how_many, mark, nothing_seen, unseen
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State
from support.slow_steering import seen_points
from support.steering import world

PAIRS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=60)


@given(PAIRS, st.integers(21, 26))
def test_bits_are_the_points_that_were_marked(pairs: list[tuple[int, int]], points: int) -> None:
    seen = nothing_seen(3, points)
    mark(seen, *np.array(pairs, dtype=np.int64).reshape(-1, 2).T)
    for client in range(3):
        marked = {point for who, point in pairs if who == client}
        assert how_many(seen[client]) == len(marked)
        assert unseen(seen[client], points).tolist() == sorted(set(range(points)) - marked)


def test_nothing_is_marked_beside_a_point() -> None:
    seen = nothing_seen(2, 17)
    assert seen.shape == (2, 3)
    mark(seen, np.array([1, 1, 1]), np.array([9, 16, 9]))
    assert seen.tolist() == [[0, 0, 0], [0, 2, 1]]
    assert nothing_seen(4, 0).shape == (4, 0)


@pytest.mark.parametrize("kind", ["dam", "dcm_continuous"])
def test_what_earlier_versions_wrote_is_gone_on_with(kind: str) -> None:
    """A bool for each client and point, as in their checkpoints."""
    w, part = world(2, reach=5.0), build("mobility", {"kind": kind, "mobile": 4, "knowledge": "contacts"})
    state = part.start(w)
    for t in range(1, 6):
        state, _ = part.step(state, w, t)
    seen = seen_points(state, part.terrain(w).survey_points)
    assert 0 < seen.sum() < seen.size
    old = {**state, "seen": seen}
    assert (as_bits(seen) == state["seen"]).all()
    for t in range(6, 12):
        state, _ = part.step(state, w, t)
        old, _ = part.step(old, w, t)
    assert seen.dtype == bool
    for name, array in state.items():
        assert old[name].dtype == array.dtype
        np.testing.assert_array_equal(old[name], array)


@pytest.mark.parametrize("knowledge", ["contacts", "oracle"])
def test_a_checkpoint_of_before_is_read(knowledge: str) -> None:
    """With a bool for each survey point, of which most kinds of knowledge have none."""
    mobility = {"kind": "dam", "mobile": 3, "grid": 12, "knowledge": knowledge}
    scene = prepare(Experiment(clients=6, rounds=9, data="digits", mobility=mobility))
    state = begin(scene)
    for _ in range(3):
        state, _ = play_round(scene, state)
    points, arrays = 144 if knowledge == "contacts" else 0, state.arrays()
    seen = np.unpackbits(arrays["mobility.seen"], axis=1, count=points, bitorder="little").astype(bool)
    before = State.of(3, {**arrays, "mobility.seen": seen}, scene)
    np.testing.assert_array_equal(before.mobility["seen"], arrays["mobility.seen"])
    for damaged in (np.zeros(3, dtype=bool), np.zeros((3, 2, 2), dtype=bool)):
        with pytest.raises(InputError, match=r"mobility\.seen"):
            State.of(3, {**arrays, "mobility.seen": damaged}, scene)
    for _ in range(3):
        (state, _), (before, _) = play_round(scene, state), play_round(scene, before)
    scene.learner.close()
    after = before.arrays()
    for name, array in state.arrays().items():
        assert after[name].dtype == array.dtype
        np.testing.assert_array_equal(after[name], array)
