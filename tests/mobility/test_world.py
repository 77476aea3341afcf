"""What a world keeps: found once, by its key, and never more than it says."""

import numpy as np

from fedroam.mobility import World
from fedroam.mobility.world import DERIVED_KEPT


def world() -> World:
    return World(1, 3, np.ones((3, 2), dtype=np.int64), 3.0)


def test_what_is_derived_is_found_once_a_key_and_world():
    w, found = world(), []

    def find() -> int:
        found.append(1)
        return len(found)

    assert [w.derived("a", find), w.derived("a", find), w.derived("b", find), w.derived("a", find)] == [
        1,
        1,
        2,
        1,
    ]
    assert world().derived("a", find) == 3


def test_the_longest_unused_is_dropped_and_found_anew():
    w = world()
    for key in range(DERIVED_KEPT):
        w.derived(key, lambda: "first")
    w.derived(0, lambda: "anew")  # used again: now 1 has been unused for longest
    w.derived("one more", lambda: "first")
    assert w.derived(0, lambda: "anew") == "first"
    assert w.derived(1, lambda: "anew") == "anew"
    assert len(w._derived) == DERIVED_KEPT
