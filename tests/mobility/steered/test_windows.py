"""What a destination takes around itself: compiled, as Python and by numpy it is the same."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam import native
from fedroam.mobility.steered import unserved as unserved_module
from fedroam.mobility.steered.coverage import CoverageMap
from fedroam.mobility.steered.sketches.pieces import BLOCK, Pieces
from fedroam.mobility.steered.sketches.remaining import Remaining
from fedroam.mobility.steered.targets import OtherTargets
from fedroam.mobility.steered.unserved import UnservedGrid, _widths
from fedroam.mobility.steered.windows import NONE, follow, take
from fedroam.randomness import stream

GRID = 13


def kept_of(many: int, cells: np.ndarray, others: OtherTargets, patched: pytest.MonkeyPatch) -> UnservedGrid:
    """What others leave of all points of a grid, compiled from so many points on."""
    patched.setattr(unserved_module, "MANY", many)
    found = UnservedGrid.of(GRID, cells, others)
    assert found is not None
    return found


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    reach=st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0, 30.0]),
    discount=st.sampled_from([0.4, 1.0]),
    number=st.sampled_from([1, 7, 1030]),
)
def test_what_is_taken_is_the_same_compiled_as_python_and_by_numpy(
    seed: int, reach: float, discount: float, number: int
) -> None:
    """To the last bit, at the borders of the grid, too, and where more come than are told of at once."""
    draws, cells = stream(seed, "test"), np.arange(GRID**2)
    places = draws.integers(1, GRID + 1, size=(number, 2)).astype(float)
    with pytest.MonkeyPatch.context() as patched:
        fast, slow = (
            kept_of(many, cells, OtherTargets(places, reach, discount), patched) for many in (0, 10**9)
        )
    assert (fast._take is not None) == (native.target() is not None)
    assert fast.windows == slow.windows
    assert fast.others == slow.others == number
    left, near, taken = np.ones(GRID**2), np.zeros(GRID**2, dtype=bool), np.zeros(GRID**2, dtype=bool)
    flat = (slow._factors.reshape(-1), _widths(slow._close), _widths(slow._none_left))
    told = (places - 1).astype(np.int64).reshape(-1)
    assert take(left, near, taken, *flat, GRID, slow._span, told, number) == 0
    for found in (fast.everywhere(), left):
        np.testing.assert_array_equal(found, slow.everywhere())
    for found in (fast.all_near(), np.flatnonzero(near)):
        np.testing.assert_array_equal(found, slow.all_near())
    for found in (fast.taken(cells), taken):
        np.testing.assert_array_equal(found, slow.taken(cells))


def test_what_compiled_code_has_the_addresses_of_is_not_copied() -> None:
    kept = UnservedGrid.of(GRID, np.arange(GRID**2), OtherTargets(np.array([[3.0, 4.0]]), 2.0, 1.0))
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            way(kept)


def test_widths_by_hand() -> None:
    flags = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 1]], dtype=bool)
    assert _widths(flags).tolist() == [NONE, 0, 1]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), faces=st.integers(1, 40))
def test_what_has_changed_is_the_same_compiled_and_as_python(seed: int, faces: int) -> None:
    draws = stream(seed, "test")
    left, known = np.ones(GRID**2), draws.choice([0.5, 1.0], GRID**2)
    piece = draws.integers(faces + 1, size=GRID**2)
    shares = np.bincount(piece, known, minlength=faces + 1)
    rows, columns = (np.sort(draws.choice(GRID + 1, 2, replace=False)).tolist() for _ in range(2))
    fast, found = native.compiled(follow), []
    assert fast is not None
    for way in (fast, follow):
        then, sums = known.copy(), shares.copy()
        which, changes = np.zeros(GRID**2, dtype=np.int64), np.zeros(GRID**2 + 1)
        count = way(left, then, piece, sums, faces, which, changes, GRID, *rows, *columns)
        found.append((count, then, sums, which[:count], changes[: count + 1]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    count, then, sums, which, changes = found[0]
    window = (slice(*rows), slice(*columns))
    expected = known.reshape(GRID, GRID).copy()
    expected[window] = 1.0
    np.testing.assert_array_equal(then.reshape(GRID, GRID), expected)
    np.testing.assert_allclose(sums, np.bincount(piece, then, minlength=faces + 1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        np.bincount(which, changes[:-1], minlength=faces + 1), sums - shares, atol=1e-12
    )
    assert changes[-1] == pytest.approx((then - known)[piece < faces].sum())
    assert (np.diff(which) != 0).all()  # what follows itself is one


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("reach", [1.0, 2.5, 30.0])
def test_what_remains_of_pieces_is_what_is_left_of_their_points(
    reach: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setenv("FEDROAM_NATIVE", "0")
    draws = stream(7, "test")
    statics = draws.integers(1, GRID + 1, size=(6, 2)).astype(float)
    coverage = CoverageMap.of_grid(statics, np.ones((6, 2), int), 2.0, GRID)
    cells = ((coverage.points[:, 0] - 1) * GRID + coverage.points[:, 1] - 1).astype(np.int64)
    pieces = Pieces.of_grid(coverage, cells, GRID**2)
    remaining = Remaining(pieces, GRID)
    places = draws.integers(1, GRID + 1, size=(25, 2)).astype(float)
    kept = kept_of(0, cells, OtherTargets(places[:1], reach, 1.0), monkeypatch)
    assert list(remaining.look(kept)) == []  # all are summed up
    begun, times = remaining.shares.copy(), []
    for place in places[1:]:
        kept.add(place[None])
        before = remaining.shares.copy(), remaining.times
        for count in remaining.look(kept):
            which, changes = (each[:count] for each in remaining.changed.arrays)
            changed = np.bincount(which, changes, minlength=len(before[0]))
            expected = pieces.shares(kept.everywhere())
            np.testing.assert_allclose((before[0] + changed)[:-1], expected, rtol=0, atol=1e-12)
        if remaining.times == before[1]:
            assert remaining.begun - remaining.taken == pytest.approx(remaining.shares[:-1].sum(), abs=1e-9)
            assert 2 * remaining.taken <= remaining.begun
            assert remaining.numbers > BLOCK
        else:
            assert (remaining.taken, remaining.numbers) == (0.0, BLOCK)
        np.testing.assert_allclose(
            remaining.shares[:-1], pieces.shares(kept.everywhere()), rtol=0, atol=1e-12
        )
        times.append(remaining.times)
        assert list(remaining.look(kept)) == []  # nobody has come since
    assert (begun[:-1] >= remaining.shares[:-1] - 1e-12).all()
    if reach > 1.0:
        assert times[-1] > 1  # more than half was taken: all was summed up anew
    another = kept_of(0, cells, OtherTargets(places[:3], reach, 0.5), monkeypatch)
    assert list(remaining.look(another)) == []
    np.testing.assert_array_equal(remaining.shares[:-1], pieces.shares(another.everywhere()))
