"""Flocks weigh pieces as the formula weighs points, off by no more than they say, however they are computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedroam.mobility.grid import numbers_of
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.mobility.steered.sketches import pieces as pieces_module
from fedroam.mobility.steered.sketches.flock import Flock, off_by
from fedroam.mobility.steered.sketches.pieces import Handed, Pieces
from fedroam.randomness import stream
from support.slow_steering import slow_distances

GRID, STATICS = 16, 25
# By numpy, and compiled with vectors as short, or as long, as machines have.
WAYS = [{"FEDROAM_NATIVE": "0"}, *({"FEDROAM_VECTOR": lanes} for lanes in ("4", "8", "16"))]


class Case:
    """A coverage and some flyers."""

    def __init__(self, seed: int, classes: int, most: int, reach: float, flyers: int, share: float) -> None:
        draws = stream(seed, "test")
        places = draws.integers(1, GRID + 1, size=(STATICS, 2)).astype(float)
        counts, own = (
            draws.integers(0, most + 1, (STATICS, classes)),
            draws.integers(0, most + 1, (flyers, classes)),
        )
        own[:, 0] += 1  # each has a sample
        self.coverage = CoverageMap.of_grid(places, counts, reach, GRID)
        self.cells = numbers_of(self.coverage.points, GRID)
        known = draws.random((flyers, STATICS)) < share
        self.flyers = [Flyer(places[m % STATICS], own[m], known[m]) for m in range(flyers)]
        self.here = np.array([self.coverage.mix_here(flyer) for flyer in self.flyers])
        self.shares = draws.random(GRID**2) * (draws.random(GRID**2) < 0.8)

    def expected(self) -> list[np.ndarray]:
        """The formula's distances of each flyer at all points of the grid, 0 where nobody is heard."""
        found = []
        for flyer, here in zip(self.flyers, self.here, strict=True):
            found.append(np.zeros(GRID**2))
            found[-1][self.cells] = slow_distances(self.coverage, flyer, here)
        return found

    def pieces(self) -> Pieces:
        return Pieces.of_grid(self.coverage, self.cells, GRID**2)


def in_blocks(values: np.ndarray, block: int) -> np.ndarray:
    return np.add.reduceat(values, np.arange(0, len(values), block))


@pytest.fixture(params=[16, 2048])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Points of a block: one column of the grid, or more than there are points."""
    monkeypatch.setattr(pieces_module, "BLOCK", request.param)
    return int(request.param)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way.values()))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    classes=st.sampled_from([1, 2, 8, 10, 16, 37]),
    most=st.sampled_from([0, 1, 50, 10**6]),
    reach=st.sampled_from([0.0, 2.0, 4.5, 40.0]),
    flyers=st.sampled_from([1, 2, 5, 16]),
    share=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_what_a_flock_finds_is_off_by_no_more_than_it_says(
    block, way, seed, classes, most, reach, flyers, share
) -> None:
    case = Case(seed, classes, most, reach, flyers, share)
    expected, pieces = case.expected(), case.pieces()
    with pytest.MonkeyPatch.context() as changed:
        for name, value in way.items():
            changed.setenv(name, value)
        flock = Flock(case.flyers, case.here)
        assert flock.knows_all == (share == 1.0)
        off = off_by(classes)
        of_all = [flock.sums(each, each.shares(case.shares)) for each in (pieces, pieces.by_samples)]
        of_each = [
            np.concatenate([flock.distances(pieces, k, m) for k in range(pieces.blocks)])
            for m in range(flyers)
        ]
    assert off < 1e-13
    assert off <= flock.off < 1e-10
    assert flock.off == off or way == {"FEDROAM_NATIVE": "0"}
    for m, exact in enumerate(expected):
        assert np.abs(of_each[m] - exact).max() <= off
        wanted = in_blocks(exact * case.shares, block)
        for sums in of_all:
            np.testing.assert_allclose(flock.of(sums, m), wanted, rtol=1e-13, atol=flock.off * block)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way.values()))
@pytest.mark.parametrize("share", [0.4, 1.0])
def test_what_is_added_is_what_the_points_weigh_less(block, way, share, monkeypatch) -> None:
    """For a flyer and those that follow, where points of a piece come in any order, and points of none among them."""
    for name, value in way.items():
        monkeypatch.setenv(name, value)
    case = Case(3, 10, 5, 3.0, 13, share)
    pieces, flock = case.pieces(), Flock(case.flyers, case.here)
    exact = case.expected()
    for first in (0, 5, 12):
        points = stream(first, "points").integers(0, GRID**2, size=60)
        weights = np.where(stream(first, "none").random(60) < 0.3, 0.0, -case.shares[points])
        sums = flock.sums(pieces, pieces.points)
        flock.add(sums, pieces, Handed(pieces.of[points], weights), len(points), first)
        for m in range(first, 13):
            change = np.bincount(points, weights, minlength=GRID**2)
            np.testing.assert_allclose(
                flock.of(sums, m), in_blocks(exact[m] * (1 + change), block), rtol=0, atol=1e-11
            )


def test_pieces_are_points_of_a_block_that_hear_the_same(block: int) -> None:
    case = Case(1, 3, 5, 3.0, 1, 1.0)
    for pieces in (case.pieces(), case.pieces().by_samples):
        heard = [tuple[int, ...]()] * GRID**2
        for row, cell in enumerate(case.cells.tolist()):
            heard[cell] = tuple(np.flatnonzero(case.coverage.covers[[row]].toarray()[0]))
        named = {(cell // block, heard[cell], int(pieces.of[cell])) for cell in range(GRID**2) if heard[cell]}
        assert (
            len(named) == len({name[:2] for name in named}) == len({name[2] for name in named}) == len(pieces)
        )
        for of_block, statics, piece in named:
            assert pieces.block[piece] == of_block
            np.testing.assert_array_equal(pieces.sums[piece], case.coverage.counts[list(statics)].sum(axis=0))
        assert all(pieces.of[cell] == len(pieces) for cell in range(GRID**2) if not heard[cell])
    assert (np.diff(case.pieces().by_samples.held) >= 0).all()
