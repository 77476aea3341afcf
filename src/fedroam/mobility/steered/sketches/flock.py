"""Flocks: several flyers for whom pieces of a coverage are weighed at once, but for the last digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fedroam import native
from fedroam.mobility.steered.coverage import Flyer
from fedroam.mobility.steered.sketches.distances import off_by_products
from fedroam.mobility.steered.sketches.piece_sums import SumsOfAll, SumsOfSome, lanes
from fedroam.mobility.steered.sketches.pieces import Handed, Pieces

_AT_ONCE = 1 << 11  # pieces weighed in one go where nothing is compiled: they stay in a core's cache
_EPS = float(np.finfo(np.float64).eps)


def off_by(classes: int) -> float:
    """How far a distance that is found as kernels find it may be from the formula's, `CoverageMap.distances`.

    With e = 2^-53 and the words of `piece_sums`: what is rounded on the way to s + b - u h is off by 7 e (u + n) at
    most, all classes together; so is the length of it, and the distance by 7 e. The sum of as many squares as there are
    classes, its root, the quotient and the product are off by (classes / 2 + 3) e, relatively, and no distance is more
    than the root of 2. In the formula, the mix and the difference from the one here are off by 3 e, all classes
    together, and the norm by (classes / 2 + 1) e, relatively. In all that is less than (16 + 1.5 classes) e; this is
    over twice as much.
    """
    return (32 + 2 * classes) * _EPS


class Flock:
    """Flyers, each with a sample at least, in vectors as kernels take them.

    What is found for them stands in arrays float64 [vectors, places, lanes]. Distances are those of
    `CoverageMap.distances`, off by no more than `off` says.
    """

    def __init__(self, flyers: Sequence[Flyer], here: np.ndarray) -> None:
        """here: the class mixes at the places of the flyers, float64 [flyers, classes]."""
        own = np.array([flyer.own for flyer in flyers])
        n = own.sum(axis=1, keepdims=True)
        self._target = native.target()
        self._flyers, self._classes = own.shape
        self._lanes = lanes(self._target) if self._target else self._flyers
        self._vectors = -(-self._flyers // self._lanes)
        laid = [self._laid(own - n * here), self._laid(here), self._laid(n, fill=1.0)]
        self.knows_all = all(flyer.known.all() for flyer in flyers)
        if not self.knows_all:
            laid.append(self._laid(np.array([flyer.known for flyer in flyers])))
        self._arrays, self._given = laid, (own, here)
        self.off = off_by(self._classes)
        if self._target is None and self.knows_all:
            self.off = max(self.off, off_by_products(self._classes))
        # Of each array where the first vector begins, and the bytes from one to the next.
        self._addresses = [(each.ctypes.data, each.strides[0]) for each in laid]
        self._kernels: dict[int, native.Kernel] = {}  # by how many vectors

    def of(self, found: np.ndarray, flyer: int) -> np.ndarray:
        """What was found for one of them, float64 [places]."""
        return np.asarray(found[flyer // self._lanes, :, flyer % self._lanes])

    def sums(self, pieces: Pieces, weights: np.ndarray) -> np.ndarray:
        """The sums over the pieces of each block of distance times weight (float64 [pieces]), for all flyers."""
        found = np.zeros((self._vectors, pieces.blocks, self._lanes))
        if self._target is None:
            for f, distances in enumerate(self._plain_all(pieces)):
                found[0, :, f] = np.bincount(pieces.block, distances * weights, minlength=pieces.blocks)
        else:
            self._add(found, pieces, Handed(pieces.all, weights), pieces.to_blocks, range(self._flyers))
        return found

    def add(self, sums: np.ndarray, pieces: Pieces, changed: Handed, count: int, flyer: int) -> None:
        """Add the distances times weights of some pieces to such sums, for this flyer and all that follow.

        changed: pieces (int64, or the number of pieces for none) and weights (float64), of which so many count.
        """
        there = sums[flyer // self._lanes :]
        self._add(there, pieces, changed, pieces.to_blocks, range(flyer, self._flyers), count)

    def distances(self, pieces: Pieces, block: int, flyer: int) -> np.ndarray:
        """Those of one flyer at the points of a block, 0 where nobody is heard; float64 [points]."""
        chosen, of = pieces.in_blocks[block]
        found = np.zeros((1, len(chosen.arrays[0]) + 1, self._lanes))
        self._add(found, pieces, chosen, pieces.to_themselves, range(flyer, flyer + 1))
        return np.asarray(found[0, :, flyer % self._lanes][of])

    def _add(
        self,
        found: np.ndarray,
        pieces: Pieces,
        chosen: Handed,
        place: Handed,
        flyers: range,
        count: int | None = None,
    ) -> None:
        """Add, for these flyers at least, the pieces that are chosen, with their weights, each where its place is.

        found: from the vector of the first of these flyers on; count: how many of those chosen count, if not all.
        """
        number = len(chosen.arrays[0]) if count is None else count
        if self._target is None:
            which, weights = (each[:number] for each in chosen.arrays)
            some, of = np.unique(which, return_inverse=True)
            some, weights = some[some < len(pieces)], np.bincount(of, weights)
            weights, there = weights[: len(some)], place.arrays[0][some]
            for f in flyers:
                distances = self._plain(pieces, some, f)
                found[0, :, f] += np.bincount(there, distances * weights, minlength=found.shape[1])
            return
        if (kernel := self._kernels.get(len(found))) is None:
            spec = SumsOfAll if self.knows_all else SumsOfSome
            kernel = native.kernel(spec(self._classes, len(found)), self._target)
            self._kernels[len(found)] = kernel
        vector = flyers.start // self._lanes
        apart, here, samples, *known = (begin + vector * step for begin, step in self._addresses)
        heard = pieces.for_all if self.knows_all else pieces.for_some
        arrays = *chosen.addresses, *place.addresses, apart, here, samples, found.ctypes.data
        numbers = number, found.shape[1], len(pieces), *([] if self.knows_all else [len(pieces.counts)])
        kernel(*arrays, *heard.addresses, *known, *numbers)

    def _plain_all(self, pieces: Pieces) -> Iterator[np.ndarray]:
        """The distances of each flyer in all pieces, where nothing is compiled."""
        if not self.knows_all:
            yield from (self._plain(pieces, pieces.all, f) for f in range(self._flyers))
            return
        for f, found in enumerate(pieces.products.of(*self._given)):
            found.values[found.close] = self._plain(pieces, found.close, f)
            yield found.values

    def _plain(self, pieces: Pieces, which: np.ndarray, flyer: int) -> np.ndarray:
        """The distances of one flyer in these pieces, where nothing is compiled."""
        apart, here, (n,), *known = (each[0, :, flyer] for each in self._arrays)
        if self.knows_all:
            sums, held = pieces.sums[which], pieces.held[which]
        else:
            covers = pieces.covers if which is pieces.all else pieces.covers[which]
            sums = covers @ (pieces.counts * known[0][:, None])
            held = sums.sum(axis=1)
        found = np.empty(len(which))
        for part in (slice(first, first + _AT_ONCE) for first in range(0, len(which), _AT_ONCE)):
            gap = sums[part] - held[part, None] * here + apart
            found[part] = np.sqrt(np.einsum("ij,ij->i", gap, gap)) / (held[part] + n)
        return found

    def _laid(self, values: np.ndarray, fill: float = 0.0) -> np.ndarray:
        """Numbers of each flyer (the first axis) in vectors, float64 [vectors, numbers, lanes]."""
        laid = np.full((self._vectors * self._lanes, values.shape[1]), fill)
        laid[: self._flyers] = values
        return np.ascontiguousarray(laid.reshape(self._vectors, self._lanes, -1).transpose(0, 2, 1))
