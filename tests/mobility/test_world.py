"""What a world keeps: found once, by its key, and never more than it says."""

import numpy as np
import pytest

from fedroam.errors import InputError
from fedroam.mobility import (
    Paths,
    World,
    checked,
    checked_bounds,
    checked_groups,
    checked_paths,
    checked_step,
)
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


def test_a_place_that_is_no_number_is_told_unless_its_client_is_away():
    place = np.array([[0.0, 1.0], [np.nan, 2.0], [3.0, 4.0]])
    with pytest.raises(InputError, match=r"^client 1 is at \(nan, 2.0\), allowed are finite numbers, m$"):
        checked({"position": place}, world())
    assert (
        checked({"position": place, "present": np.array([True, False, True])}, world())["position"] is place
    )
    with pytest.raises(InputError, match=r"position \[3, 2\], found \(2, 2\)"):
        checked({"position": place[:2]}, world())


def test_paths_lead_over_numbers_and_are_of_all_clients():
    start, end = np.zeros((3, 2)), np.array([[0.0, 1.0], [1.0, 2.0], [np.inf, 4.0]])
    with pytest.raises(InputError, match=r"^client 2 is at \(inf, 4.0\)"):
        checked_paths(Paths.straight(start, end), world())
    away = Paths.straight(start, end, np.array([True, True, False]))
    assert checked_paths(away, world()) is away
    with pytest.raises(TypeError, match="paths of 3 clients, found 2"):
        checked_paths(Paths.still(start[:2]), world())


def test_a_state_holds_numbers():
    for wrong in ({"more": 1}, ["north", "south", "north"]):
        with pytest.raises(InputError, match=r"the state's 'notes' is .*, allowed are arrays of numbers"):
            checked({"position": np.zeros((3, 2)), "notes": wrong}, world())


def test_a_step_gives_a_state_and_paths_that_end_where_it_says():
    here, there = np.zeros((3, 2)), np.array([[1.0, 2.0], [3.0, 4.0], [-1e6, 5.0]])
    with pytest.raises(InputError, match="step gave dict, expected are two"):
        checked_step({"position": there}, world())
    with pytest.raises(
        InputError, match=r"client 0 is at \(1, 2\) after the round, and its path ends at \(0, 0\)"
    ):
        checked_step(({"position": there}, Paths.straight(there, here)), world())
    state, paths = checked_step(({"position": there}, Paths.straight(here, there * (1 + 1e-9))), world())
    assert state["position"] is there
    assert paths.clients == 3
    away = np.array([False, False, True])  # of whom is away nothing is asked
    elsewhere = np.where(away[:, None], 9.0, here)
    checked_step(({"position": here}, Paths.straight(here, elsewhere, ~away)), world())
    checked_step(({"position": here, "present": ~away}, Paths.straight(here, elsewhere)), world())
    with pytest.raises(InputError, match=r"client 2 is at \(0, 0\) after the round"):
        checked_step(({"position": here}, Paths.straight(here, elsewhere)), world())


def test_groups_and_bounds_are_of_the_world():
    assert checked_groups(["a", "b", "a"], world()).tolist() == ["a", "b", "a"]
    with pytest.raises(InputError, match=r"groups gave names of shape \(2,\), expected is one for each of 3"):
        checked_groups(["a", "b"], world())
    assert checked_bounds((0, -1, 5, 1e6)) == (0.0, -1.0, 5.0, 1e6)
    for wrong in ((0, -1, 5, np.inf), (0, 0, 1), (0, 0, -1, 1), (0, np.nan, 1, 1), ("a", 0, 1, 1), None):
        with pytest.raises(InputError, match="expected are x0, y0, x1, y1"):
            checked_bounds(wrong)
