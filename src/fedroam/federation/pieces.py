"""Models that came in part, or that their senders have long replaced: what became of broken transfers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse

from fedroam.learning import Models, mix
from fedroam.randomness import stream

# State: models that clients keep until those they began to send them to have them, float32 [kept, parameters and
# buffers], with their owner and the round in which that one trained them, int64 [kept] each.
KEPT, KEEPER, KEPT_SINCE = "kept_models", "kept_by", "kept_since"
VALUE = 4  # bytes
ROUNDING = 1e-9  # of bytes, which are sums of rates times seconds


@dataclass(frozen=True)
class Pieces:
    """What clients got of each other's models in a round; arrays [pieces].

    receiver, sender: int64. made: int64, the round whose local work ended with the model, at its sender. bytes:
    float64, how much of it came by now. chunk: bytes of which it came at once; all of them alike, but a shorter last
    one. keep: int64 [kept, 2], client and round of the models that are sent on in later rounds.
    """

    receiver: np.ndarray
    sender: np.ndarray
    made: np.ndarray
    bytes: np.ndarray
    chunk: int
    keep: np.ndarray

    def some(self, which: np.ndarray) -> Pieces:
        """Those of an index, or bool [pieces]."""
        own = (self.receiver[which], self.sender[which], self.made[which], self.bytes[which])
        return Pieces(*own, self.chunk, self.keep)

    def whole(self, size: int) -> np.ndarray:
        """Which of these models, of `size` bytes, came as a whole, bool [pieces]."""
        return np.asarray(self.bytes >= size * (1 - ROUNDING))

    def of_use(self, seed: int, size: int) -> Pieces:
        """Those models, of `size` bytes, of which a chunk came."""
        some = self.whole(size)
        for k in np.flatnonzero(~some).tolist():
            some[k] = self.coordinates(seed, size, k).any()
        return self.some(some)

    def coordinates(self, seed: int, size: int, piece: int) -> np.ndarray:
        """Which coordinates of a model of `size` bytes came, bool [size / 4].

        Chunks are sent in an order drawn for each transfer, evenly over all orders: so each chunk is as likely to come
        as any other. The last chunk of the model may be shorter. A chunk that came in part is of no use.
        """
        sender, receiver, made = (int(own[piece]) for own in (self.sender, self.receiver, self.made))
        count = -(-size // self.chunk)
        order = stream(seed, f"chunks to {receiver}", made, sender).permutation(count)
        ends = np.cumsum(np.where(order == count - 1, size - self.chunk * (count - 1), self.chunk))
        came = np.zeros((count, self.chunk // VALUE), dtype=bool)
        came[order[: np.searchsorted(ends, self.bytes[piece] * (1 + ROUNDING), side="right")]] = True
        return came.reshape(-1)[: size // VALUE]

    def graph(self, clients: int) -> sparse.csr_array:
        """Whose model (columns) each client (row) got anything of, bool CSR [clients, clients]."""
        ones = np.ones(len(self.sender), dtype=bool)
        graph = sparse.coo_array((ones, (self.receiver, self.sender)), shape=(clients, clients)).tocsr()
        graph.sort_indices()
        return graph


def mix_pieces(
    models: Models,
    state: Mapping[str, np.ndarray],
    weights: sparse.csr_array,
    pieces: Pieces,
    seed: int,
    round: int,
) -> dict[str, np.ndarray]:
    """Every client averages what it got, coordinate by coordinate, in place; the models to be kept, as state.

    weights: float64 CSR [clients, clients], rows that sum to 1. Of a coordinate that did not come, the weight goes to
    the receiver's own: x_i[c] <- w_ii x_i[c] + sum_j w_ij (c came from j ? x_j[c] : x_i[c]). A model that its sender
    has replaced meanwhile counts as it was.
    """
    size, matrices = models.bytes_each, (models.parameters, models.buffers)
    kept = _kept(models, state, pieces.keep, round)
    fresh = (pieces.made == round) & pieces.whole(size)
    changes: dict[int, list[torch.Tensor]] = {}
    for k in np.flatnonzero(~fresh).tolist():
        i, j, made = int(pieces.receiver[k]), int(pieces.sender[k]), int(pieces.made[k])
        weight = float(weights[i, j])
        came = torch.from_numpy(pieces.coordinates(seed, size, k)).to(models.parameters.device)
        masks = came.split([models.layout.size, models.layout.buffer_size])
        sources = _model(models, j) if made == round else _stored(models, state, j, made)
        for matrix, total, source, mask in zip(
            matrices,
            changes.setdefault(i, [torch.zeros_like(matrix[i], dtype=torch.float64) for matrix in matrices]),
            sources,
            masks,
            strict=True,
        ):
            width = matrix.shape[1]  # 0 where models have no values, only a size
            total += weight * torch.where(mask[:width], source.double() - matrix[i].double(), 0.0)
    mix(models, _of_whole(weights, pieces.some(fresh)))
    for i, totals in changes.items():
        for matrix, total in zip(matrices, totals, strict=True):
            matrix[i] = (matrix[i].double() + total).float()
    return kept


def _of_whole(weights: sparse.csr_array, whole: Pieces) -> sparse.csr_array:
    """The weights of models that came whole; those of all others go to the receiver's own."""
    n = weights.shape[0]
    taken = weights.multiply(whole.graph(n)).tocsr()
    rest = np.asarray((weights - taken).sum(axis=1)).reshape(-1)  # the own one's among them
    if np.array_equal(rest, weights.diagonal()):  # all came, and sums keep their order
        return weights
    found = sparse.csr_array(taken + sparse.diags_array(rest, format="csr"))
    found.eliminate_zeros()
    found.sort_indices()
    return found


def _model(models: Models, row: int) -> tuple[torch.Tensor, torch.Tensor]:
    return models.parameters[row], models.buffers[row]


def _stored(models: Models, state: Mapping[str, np.ndarray], owner: int, made: int) -> list[torch.Tensor]:
    """A model that was kept."""
    place = np.flatnonzero((state[KEEPER] == owner) & (state[KEPT_SINCE] == made))[0]
    row = torch.from_numpy(state[KEPT][place]).to(models.parameters.device)
    return list(row.split([models.parameters.shape[1], models.buffers.shape[1]]))


def _kept(
    models: Models, state: Mapping[str, np.ndarray], keep: np.ndarray, round: int
) -> dict[str, np.ndarray]:
    """The models of `keep`: of this round as they stand, others as they were kept."""
    width = models.parameters.shape[1] + models.buffers.shape[1]
    rows = np.zeros((len(keep), width), dtype=np.float32)
    for row, (owner, made) in zip(rows, keep.tolist(), strict=True):
        found = _model(models, owner) if made == round else _stored(models, state, owner, made)
        row[:] = torch.cat(list(found)).cpu().numpy()
    return {KEPT: rows, KEEPER: keep[:, 0].copy(), KEPT_SINCE: keep[:, 1].copy()}
