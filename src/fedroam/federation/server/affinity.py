"""Whose model helps me? First-order weights by validation loss, and the affinity matrix that remembers them.

Zhang et al., "Personalized federated learning with first order model optimization" (FedFomo), ICLR 2021; taken over by
MoCFL for extractors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedroam.errors import InputError
from fedroam.federation.protocol import FederationContext
from fedroam.federation.server.loop import ServerRound
from fedroam.learning import Held, Models

# State: float64 [clients, clients], bool [clients], int64 [clients] (models received), float64 [clients].
AFFINITY, UPLOADED, RECEIVED, LOSS_BEFORE = "affinity", "uploaded", "received", "loss_before"
# Of clients whose rows have moved on since their last upload, int64 [some], what that was, float32 [some, columns].
MOVED_ON, THEIR_PARAMETERS, THEIR_BUFFERS = "moved_on", "uploaded_parameters", "uploaded_buffers"


def begin_affinity(round: ServerRound, kind: str) -> None:
    """Before round 1: P is the identity, nobody has uploaded anything.

    Raises InputError where no client holds validation samples.
    """
    if not any(len(held) for held in round.context.validation):
        raise InputError(
            f"federation {kind!r}: weighs models by their loss on validation samples, and no client holds any; "
            "set validation_share, e.g. 0.2"
        )
    round.state[AFFINITY] = np.eye(round.context.clients)
    round.state[UPLOADED] = np.zeros(round.context.clients, bool)


def keep_uploads(round: ServerRound) -> None:
    """Before the active clients' rows are another: keep what they have uploaded, where what they make of it may come to
    the server late, or never. Elsewhere the rows of a round's begin are the uploads."""
    if not round.context.late:
        return
    kept = round.state.get(MOVED_ON, np.zeros(0, np.int64))
    new = np.setdiff1d(round.clients[round.state[UPLOADED][round.clients]], kept)
    moved_on = np.append(kept, new)
    for name, matrix in _uploads(round):
        rows = rows_of(matrix, new, slice(None)).cpu().numpy()
        round.state[name] = np.concatenate([round.state[name], rows]) if len(kept) else rows
    round.state[MOVED_ON] = moved_on


def as_uploaded(round: ServerRound) -> tuple[Models, np.ndarray]:
    """All models, and those that clients have uploaded where these are others by now; and for each client the row of
    what it has uploaded last, int64 [clients]."""
    models, rows = round.models, np.arange(round.context.clients)
    moved_on = round.state.get(MOVED_ON, np.zeros(0, np.int64))
    if not len(moved_on):
        return models, rows
    rows[moved_on] = len(models) + np.arange(len(moved_on))
    parameters, buffers = (torch.cat([matrix, round.tensor(name)]) for name, matrix in _uploads(round))
    return Models(models.layout, parameters, buffers, None), rows


def mark_uploaded(round: ServerRound) -> None:
    """From now on the server holds the active clients' models."""
    uploaded = round.state[UPLOADED].copy()
    uploaded[round.clients] = True
    round.state[UPLOADED] = uploaded
    if MOVED_ON in round.state:
        left = ~np.isin(round.state[MOVED_ON], round.clients)
        for name in (MOVED_ON, THEIR_PARAMETERS, THEIR_BUFFERS):
            round.state[name] = round.state[name][left]


def _uploads(round: ServerRound) -> tuple[tuple[str, torch.Tensor], ...]:
    return (THEIR_PARAMETERS, round.models.parameters), (THEIR_BUFFERS, round.models.buffers)


def remember_losses(round: ServerRound) -> None:
    """Keep the active clients' validation losses, those of the models that training begins with."""
    loss, clients = round.state[LOSS_BEFORE].copy(), round.clients.tolist()
    loss[round.clients] = validation_losses(round, round.models, clients, clients)
    round.state[LOSS_BEFORE] = loss


def nearest(
    affinity: np.ndarray,
    available: np.ndarray,
    most: int,
    draws: np.random.Generator,
    explore: float = 0.0,
) -> np.ndarray:
    """The `most` clients of the largest affinity (float64 [clients]) among those available (int64), ascending.

    Ties are broken at random. With probability `explore` a place is filled by an even draw from all that are left.
    """
    most = min(most, len(available))
    shuffled = draws.permutation(available)
    order = shuffled[np.argsort(-affinity[shuffled], kind="stable")]
    drawn = int(draws.binomial(most, explore)) if explore else 0
    rest = order[most - drawn :]
    return np.sort(np.concatenate([order[: most - drawn], draws.permutation(rest)[:drawn]]))


def validation_losses(
    round: ServerRound, models: Models, rows: Sequence[int], clients: Sequence[int]
) -> np.ndarray:
    """Mean loss of the k-th row on the validation samples of the k-th client, float64; NaN where it holds none."""
    held = [Held(i, "validation", round.context.validation[i]) for i in clients]
    return round.learner.judge(models, rows, held).loss


def held_for_validation(round: ServerRound) -> np.ndarray:
    """How many validation samples each active client holds, int64."""
    return np.array([len(round.context.validation[i]) for i in round.clients.tolist()], np.int64)


def first_order_weights(
    reference: float, losses: np.ndarray, distances: np.ndarray, epsilon: float = 0.0
) -> np.ndarray:
    """w_j = (L - L_j) / (d_j + epsilon), float64; 0 where the distance is 0 or a loss is not a finite number."""
    with np.errstate(invalid="ignore"):
        gain = reference - losses
    useful = (distances > 0) & np.isfinite(gain)
    return np.divide(gain, distances + epsilon, out=np.zeros(len(losses)), where=useful)


def shares_of(weights: np.ndarray) -> np.ndarray:
    """w~_j = max(w_j, 0) / sum_k max(w_k, 0); all 0 where no weight is positive."""
    positive = np.maximum(weights, 0.0)
    total = positive.sum()
    return np.asarray(positive / total if total > 0 else positive)


def distances_to(base: torch.Tensor, others: torch.Tensor) -> np.ndarray:
    """Euclidean distance of each row of `others` [k, columns] to `base` [columns], float64 [k].

    By numpy, one thread: a norm must not depend on how many there are.
    """
    difference = others.double().cpu().numpy() - base.double().cpu().numpy()
    return np.asarray(np.sqrt(np.square(difference).sum(1)))


def blend(base: torch.Tensor, others: torch.Tensor, shares: np.ndarray) -> torch.Tensor:
    """base + sum_j shares[j] (others[j] - base), accumulated in float64 in the order given; float32 [columns]."""
    total = base.double()
    for other, share in zip(others, shares, strict=True):
        if share:
            total = total + float(share) * (other.double() - base.double())
    return total.to(torch.float32)


def rows_of(matrix: torch.Tensor, rows: np.ndarray, columns: slice) -> torch.Tensor:
    """These columns of these rows (int64), a copy."""
    return matrix[:, columns].index_select(0, torch.from_numpy(rows).to(matrix.device))


def others(context: FederationContext, uploaded: np.ndarray, client: int) -> np.ndarray:
    """The clients but this one whose model the server holds, int64 ascending."""
    there = uploaded.copy()
    there[client] = False
    return np.flatnonzero(there)
