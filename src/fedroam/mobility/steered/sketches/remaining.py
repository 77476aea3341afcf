"""What others leave of the pieces of a grid, followed while one after the other draws."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedroam import native
from fedroam.mobility.steered.sketches.pieces import BLOCK, Handed, Pieces
from fedroam.mobility.steered.unserved import UnservedGrid
from fedroam.mobility.steered.windows import follow


class Remaining:
    """The shares that others leave, summed up over each piece, as they were when last looked at.

    shares: float64 [pieces + 1], the last of points that are in none; begun: the sum of those of pieces when they were
    summed up point by point, which was done `times` times; taken: what has been taken since; numbers: how many numbers
    were added for that of any piece, at most; elsewhere: what the last one was, and as many numbers of its own;
    followed: how many others were there. changed: the pieces (int64) that the last one has changed, and by how much.
    """

    def __init__(self, pieces: Pieces, grid: int) -> None:
        """grid: points along a side."""
        self.pieces, self._grid = pieces, grid
        self._kept: UnservedGrid | None = None
        self.begun, self.taken = 0.0, 0.0
        self.times, self.numbers, self.followed = 0, 0, 0
        self.elsewhere = 0.0, 0
        self._rows = BLOCK // grid + 2  # that a piece is in, at most

    def look(self, kept: UnservedGrid) -> Iterator[int]:
        """Take note of those whom `kept` has had since the last look, in turn: how many of `changed` count for each.

        Where little is left of what there was it is known less well, and all is summed up anew, as for another `kept`.
        """
        if kept is not self._kept:
            self._kept = kept
            self._sum_up(kept)
        for window in kept.windows[self.followed :]:
            count = self._follow(*window)
            self.taken -= float(self.changed.arrays[1][count])
            # Each point is added to what follows itself, and that to the piece.
            rows, columns = window[1] - window[0], window[3] - window[2]
            self.numbers += 2 * min(rows, self._rows) * columns
            self.elsewhere = self.elsewhere[0], self.elsewhere[1] + 2 * rows * columns
            self.followed += 1
            yield count
        if 2 * self.taken > self.begun:
            self._sum_up(kept)

    def _sum_up(self, kept: UnservedGrid) -> None:
        left = kept.everywhere()
        self._known = left.copy()
        self.shares = np.bincount(self.pieces.of, left, minlength=len(self.pieces) + 1)
        self.begun, self.taken = float(self.shares[:-1].sum()), 0.0
        self.elsewhere = float(self.shares[-1]), len(left)
        self.numbers, self.followed, self.times = BLOCK, len(kept.windows), self.times + 1
        room = kept.window_size
        self.changed = Handed(np.empty(room, dtype=np.int64), np.empty(room + 1))
        if (compiled := native.compiled(follow)) is None:
            self._follow = self._slowly
        else:
            self._follow = compiled.given(
                left,
                self._known,
                self.pieces.of,
                self.shares,
                len(self.pieces),
                *self.changed.arrays,
                self._grid,
            )

    def _slowly(self, first_row: int, end_row: int, first_column: int, end_column: int) -> int:
        """`follow`, where nothing is compiled."""
        assert self._kept is not None
        which, changes = self.changed.arrays
        grid, window = (self._grid, self._grid), (slice(first_row, end_row), slice(first_column, end_column))
        now, known = self._kept.everywhere().reshape(grid)[window], self._known.reshape(grid)[window]
        change, piece = (now - known).ravel(), self.pieces.of.reshape(grid)[window].ravel()
        known[...] = now
        some, at = np.unique(piece[change != 0], return_inverse=True)
        which[: len(some)] = some
        changes[: len(some)] = np.bincount(at, change[change != 0], minlength=len(some))
        self.shares[some] += changes[: len(some)]
        changes[len(some)] = changes[: len(some)][some < len(self.pieces)].sum()
        return len(some)
