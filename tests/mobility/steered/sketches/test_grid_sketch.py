"""Sketches of grids draw what the targets draw, or leave it to them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.mobility.steered import grid as steered_grid
from fedroam.mobility.steered import unserved as unserved_module
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.mobility.steered.grid import GridTerrain
from fedroam.mobility.steered.sketches import grid_sketch as grid_sketch_module
from fedroam.mobility.steered.sketches import pieces as pieces_module
from fedroam.mobility.steered.sketches import remaining as remaining_module
from fedroam.mobility.steered.targets import OtherTargets
from fedroam.mobility.steered.unserved import UnservedGrid
from fedroam.randomness import stream

GRID, STATICS = 15, 20


def terrain(seed: int, reach: float, most: int) -> GridTerrain:
    draws = stream(seed, "test")
    places = draws.integers(1, GRID + 1, size=(STATICS, 2)).astype(float)
    counts = draws.integers(0, most + 1, size=(STATICS, 4)) + (most == 0)
    return GridTerrain.of(GRID, places, CoverageMap.of_grid(places, counts, reach, GRID), math.inf, "nearest")


def flyers_over(over: GridTerrain, seed: int, number: int, share: float) -> list[Flyer]:
    draws = stream(seed, "flyers")
    own, known = draws.integers(0, 4, (number, 4)), draws.random((number, STATICS)) < share
    return [Flyer(over.places[m % STATICS], own[m], known[m]) for m in range(number)]


@pytest.fixture(params=["compiled", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few points are sketched, too, in several blocks."""
    monkeypatch.setattr(steered_grid, "FEW", 0)
    monkeypatch.setattr(unserved_module, "MANY", 0)
    for module in (pieces_module, grid_sketch_module, remaining_module):
        monkeypatch.setattr(module, "BLOCK", 50)
    if request.param == "plain":
        monkeypatch.setenv("FEDROAM_NATIVE", "0")


@pytest.mark.usefixtures("way")
@settings(max_examples=40, deadline=None, suppress_health_check=list(settings().suppress_health_check))
@given(
    seed=st.integers(0, 10_000),
    reach=st.sampled_from([0.0, 1.0, 3.0, 40.0]),
    most=st.sampled_from([0, 3]),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    discount=st.sampled_from([0.0, 0.5, 1.0]),
    number=st.sampled_from([3, 40]),
)
def test_sketches_draw_as_targets_do(seed, reach, most, share, discount, number) -> None:
    """Whatever others take between the draws; a draw is left to the targets seldom, or where it is near an end."""
    over, draws = terrain(seed, reach, most), stream(seed, "draws")
    flyers = flyers_over(over, seed, number, share)
    taken = [draws.integers(1, GRID + 1, size=(1, 2)).astype(float)]
    others = OtherTargets(taken[0], reach, discount)
    kept = UnservedGrid.of(GRID, over.cells, others) if discount else None
    sketches = over.sketches(flyers)
    for flyer in flyers:
        avoided = OtherTargets(np.concatenate(taken), reach, discount) if discount else None
        targets, sketch, value = over.everywhere(flyer), next(sketches), float(draws.random())
        assert (sketch is None) == (not flyer.own.any())
        if sketch is None:
            continue
        found = sketch.draw(value, kept)
        if found is not None:
            np.testing.assert_array_equal(found, targets.draw(value, avoided))
        else:  # all weigh nothing, or all but nothing
            left = targets if avoided is None else targets.discounted(avoided)
            assert min(left.total(), targets.total()) < 1e-9
        for value in ends(targets if avoided is None else targets.discounted(avoided)):
            found = sketch.draw(value, kept)
            if found is not None:
                np.testing.assert_array_equal(found, targets.draw(value, avoided))
        for _ in range(int(draws.integers(3)) if kept is not None else 0):
            taken.append(draws.integers(1, GRID + 1, size=(1, 2)).astype(float))
            kept.add(taken[-1])


def ends(targets: steered_grid.GridTargets) -> list[float]:
    """Draws at the ends of some weights, and beside them."""
    total = targets.total()
    if total == 0:
        return [0.0, 0.5]
    edges = (
        np.append(np.cumsum(targets.weights), targets.weights.sum() + targets.elsewhere * np.arange(3))
        / total
    )
    near = edges[[0, len(edges) // 3, -4, -3, -2, -1]] if len(edges) > 4 else edges
    values = np.concatenate([near, np.nextafter(near, 0), np.nextafter(near, 1), near * (1 - 1e-15), [0.0]])
    return [float(value) for value in values if 0 <= value < 1]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_draws_at_an_end_are_left_to_the_targets(share: float) -> None:
    over = terrain(1, 3.0, 5)
    flyers = [flyer for flyer in flyers_over(over, 1, 12, share) if flyer.own.any()]
    for sketch, flyer in zip(over.sketches(flyers), flyers, strict=True):
        targets = over.everywhere(flyer)
        edges = np.cumsum(targets.weights) / targets.total()
        assert sketch is not None
        some = stream(1, "ends").integers(0, len(edges) - 1, size=20)
        assert all(sketch.draw(float(edges[k]), None) is None for k in some if edges[k] < 1)
        inside = (edges[some] + edges[some + 1]) / 2
        wide = np.diff(edges)[some] > 1e-6
        assert all(sketch.draw(float(value), None) is not None for value in inside[wide])


@pytest.mark.usefixtures("way")
def test_flyers_may_draw_in_any_order_and_again() -> None:
    over = terrain(2, 2.0, 5)
    flyers = [flyer for flyer in flyers_over(over, 2, 16, 1.0) if flyer.own.any()][:10]
    sketches = list(over.sketches(flyers))
    others = [np.array([[3.0, 4.0]])]
    kept = UnservedGrid.of(GRID, over.cells, OtherTargets(others[0], 2.0, 1.0))
    assert kept is not None
    for k in (7, 2, 2, 9, 0, 3):
        sketch = sketches[k]
        assert sketch is not None
        for given_others in (OtherTargets(np.concatenate(others), 2.0, 1.0), None):
            found = sketch.draw(0.37, kept if given_others else None)
            np.testing.assert_array_equal(found, over.everywhere(flyers[k]).draw(0.37, given_others))
        others.append(np.array([[5.0 + k, 9.0]]))
        kept.add(others[-1])


@pytest.mark.usefixtures("way")
def test_flocks_may_draw_by_turns_and_from_what_others_leave_of_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What one flock has followed another one has not; nor has either what is left in another place."""
    monkeypatch.setattr(steered_grid, "FLYERS", 4)
    over = terrain(3, 2.0, 5)
    flyers = [flyer for flyer in flyers_over(over, 3, 16, 1.0) if flyer.own.any()][:8]
    sketches = list(over.sketches(flyers))
    others = [[np.array([[3.0, 4.0]])], [np.array([[9.0, 9.0]])]]
    keeping = [UnservedGrid.of(GRID, over.cells, OtherTargets(each[0], 2.0, 1.0)) for each in others]
    for k, place in ((0, 0), (1, 0), (5, 0), (2, 0), (6, 1), (6, 0), (3, 0), (7, 0), (7, 1)):
        sketch, kept = sketches[k], keeping[place]
        assert sketch is not None
        assert kept is not None
        avoided = OtherTargets(np.concatenate(others[place]), 2.0, 1.0)
        found = sketch.draw(0.61, kept)
        np.testing.assert_array_equal(found, over.everywhere(flyers[k]).draw(0.61, avoided))
        others[place].append(np.array([[2.0 + k, 8.0 + place]]))
        kept.add(others[place][-1])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("way_off", [1, -1])
def test_shares_that_are_off_as_far_as_they_may_be_draw_nothing_else(
    way_off: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds have taken a little each. What is left of each piece is off by as much as so many sums may be, one way
    in the first half of the grid and the other way in the second, which moves the ends in the middle the most."""
    look, eps = remaining_module.Remaining.look, float(np.finfo(np.float64).eps)

    def off(left: remaining_module.Remaining, kept: UnservedGrid) -> Iterator[int]:
        yield from look(left, kept)
        first = left.pieces.block < left.pieces.blocks // 2
        left.shares[:-1] *= 1 + way_off * eps * left.numbers * np.where(first, 1, -1)

    over, taken = terrain(4, 9.0, 5), stream(4, "taken").integers(1, GRID + 1, size=(400, 2)).astype(float)
    flyer = next(each for each in flyers_over(over, 4, 9, 1.0) if each.own.any())
    others = OtherTargets(taken, 3.0, 0.001)
    kept = UnservedGrid.of(GRID, over.cells, OtherTargets(taken[:1], 3.0, 0.001))
    assert kept is not None
    listed = over._listed
    assert not len(listed.unlisted)  # what is left of those is known less well, and would hide it
    remaining = listed.remaining()
    list(remaining.look(kept))
    kept.add(taken[1:])
    list(remaining.look(kept))
    assert remaining.times == 1
    assert remaining.numbers > 20 * len(over.cells)
    monkeypatch.setattr(remaining_module.Remaining, "look", off)
    targets = over.everywhere(flyer).discounted(others)
    edges = np.cumsum(targets.weights) / targets.total()
    for edge in edges[len(edges) // 3 : 2 * len(edges) // 3]:
        for share in (0.05, 0.2, 0.5):
            for value in (edge * (1 + sign * share * eps * remaining.numbers) for sign in (1, -1)):
                (sketch,) = listed.sketches([flyer], np.array([over.coverage.mix_here(flyer)]), remaining)
                found = sketch.draw(float(value), kept)
                if found is not None:
                    np.testing.assert_array_equal(found, over.everywhere(flyer).draw(float(value), others))
                remaining.shares[:] = np.bincount(
                    remaining.pieces.of, kept.everywhere(), minlength=len(remaining.pieces) + 1
                )
    inside = float(edges[len(edges) // 2 - 1 : len(edges) // 2 + 1].mean())
    (sketch,) = listed.sketches([flyer], np.array([over.coverage.mix_here(flyer)]), remaining)
    assert sketch.draw(inside, kept) is not None  # what is far from an end is certain all the same
