"""Transfers between clients that go on where they broke, round after round, with the model that they began with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from fedroam.federation import Pieces
from fedroam.links import Link

# What the clock keeps of transfers that broke, one entry each: their ends and the round in which the model was made,
# int64, and how much of it came, bytes, float64.
BEGUN = ("part_sender", "part_receiver", "part_made", "part_bytes")


def nothing_begun() -> dict[str, np.ndarray]:
    """What the clock keeps before round 1."""
    return {name: np.zeros(0, np.int64 if name != "part_bytes" else np.float64) for name in BEGUN}


@dataclass(frozen=True)
class Begun:
    """The transfers of a round with what came of each before it; arrays [transfers].

    sender, receiver: int64. made: int64, the round in which the sender made the model. bytes: float64, how much of it
    came. elsewhere: transfers that broke, of pairs that are not in contact in this round.
    """

    sender: np.ndarray
    receiver: np.ndarray
    made: np.ndarray
    bytes: np.ndarray
    elsewhere: Begun | None = None

    @classmethod
    def nothing(cls, sender: np.ndarray, receiver: np.ndarray, round: int) -> Begun:
        """Models of this round, of which nothing came before it."""
        return cls(sender, receiver, np.full(len(sender), round), np.zeros(len(sender)))

    @classmethod
    def of(cls, state: Mapping[str, np.ndarray], graph: sparse.csr_array, wanted: Begun) -> Begun:
        """What is sent in a round: the rest of a model, where a transfer broke and the two are in contact again (bool
        CSR [clients, clients]), and between all others what is wanted."""
        if BEGUN[0] not in state:
            return wanted
        sender, receiver, made, bytes = (state[name] for name in BEGUN)
        older = cls(sender, receiver, made, bytes)
        clients = graph.shape[0]
        i, j = (ends.astype(np.int64) for ends in graph.nonzero())
        met = np.isin(older.receiver * clients + older.sender, i * clients + j)
        going_on = older._some(met)
        other = ~np.isin(
            wanted.sender * clients + wanted.receiver, going_on.sender * clients + going_on.receiver
        )
        joined = going_on._joined(wanted._some(other))
        order = np.lexsort((joined.receiver, joined.sender))
        return replace(joined._some(order), elsewhere=older._some(~met))

    def after(
        self, arrived: np.ndarray, size: np.ndarray, takes: np.ndarray, round: int, link: Link
    ) -> tuple[Pieces, dict[str, np.ndarray]]:
        """What clients got, and what the clock keeps. arrived: float64, bytes, those of earlier rounds among them.
        size: int64, bytes of all. takes: bool, which receivers take anything in.

        Models are kept until they have arrived, or for so many rounds as the link says.
        """
        whole, keep, left_over = arrived >= size, np.zeros((0, 2), dtype=np.int64), {}
        if link.broken == "resumed":
            used = whole & takes
            broken = Begun(self.sender, self.receiver, self.made, arrived)._some(~whole & (arrived > 0))
            if self.elsewhere is not None:
                broken = broken._joined(self.elsewhere)
            broken = broken._some(round - broken.made < link.kept)
            order = np.lexsort((broken.receiver, broken.sender))
            left_over = dict(zip(BEGUN, broken._some(order)._columns(), strict=True))
            keep = np.unique(np.stack([broken.sender, broken.made], axis=1), axis=0)
        else:
            used = takes & (arrived > 0)
        of = Begun(self.sender, self.receiver, self.made, arrived)._some(used)
        return Pieces(of.receiver, of.sender, of.made, of.bytes, link.chunk, keep), left_over

    def _columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.sender, self.receiver, self.made, self.bytes

    def _some(self, which: np.ndarray) -> Begun:
        return Begun(self.sender[which], self.receiver[which], self.made[which], self.bytes[which])

    def _joined(self, other: Begun) -> Begun:
        sender, receiver, made, bytes = (
            np.concatenate(pair) for pair in zip(self._columns(), other._columns(), strict=True)
        )
        return Begun(sender, receiver, made, bytes)
