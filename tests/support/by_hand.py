"""Class means, a server's head and blends of models, by plain loops in float64: what several methods are checked by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from fedroam.randomness import stream
from support.learners import CLASSES
from support.servers import Row, Server, cross_entropy, descend

Pairs = dict[tuple[int, int], torch.Tensor]  # (client, class) -> vector


def means(game: Server, rows: dict[int, torch.Tensor]) -> Pairs:
    """Mean features of each class that a client holds, by its row."""
    found = {}
    for i, row in rows.items():
        x, y = game.xy(i)
        z = Row(game.layout, row.double()).features(x)
        for c in range(CLASSES):
            if (y == c).any():
                found[i, c] = torch.stack([z[n] for n in range(len(y)) if y[n] == c]).mean(0)
    return found


def taught(
    game: Server, head: torch.Tensor, pairs: Pairs, *, lr: float, epochs: int, batch: int, round: int
) -> torch.Tensor:
    """The server's head after its SGD on the pairs, client by client, class by class."""
    columns, order = game.layout.columns("head"), sorted(pairs)
    row = torch.zeros(game.layout.size, dtype=torch.float64)
    row[columns] = head.double()
    draws = stream(game.context.seed, "server head", round)
    for _ in range(epochs):
        turns = draws.permutation(len(order)) if batch else np.arange(len(order))
        for begin in range(0, len(order), batch or len(order)):
            some = [order[k] for k in turns[begin : begin + (batch or len(order))]]
            row = head_step(game, row, some, pairs, lr)
    return row[columns]


def head_step(
    game: Server, row: torch.Tensor, some: Sequence[tuple[int, int]], pairs: Pairs, lr: float
) -> torch.Tensor:
    """One step on some pairs."""

    def loss(at: Row) -> torch.Tensor:
        z = torch.stack([pairs[pair] for pair in some])
        return functional.cross_entropy(at.logits(z), torch.tensor([c for _, c in some]))

    return descend(game.layout, row, loss, lr=lr, steps=1)


def trained(game: Server, row: torch.Tensor, client: int) -> torch.Tensor:
    """A row after a client's plain local training, float64."""
    return descend(game.layout, row.double(), cross_entropy(game, client))


def validation_loss(game: Server, row: torch.Tensor, client: int) -> float:
    """Mean loss of a row on a client's validation samples."""
    own = torch.from_numpy(game.context.validation[client])
    x, y = game.problem.task.x[own].double(), game.problem.task.y[own]
    at = Row(game.layout, row.double())
    return float(functional.cross_entropy(at.logits(at.features(x)), y))


def weights_of(
    reference: float, losses: Sequence[float], distances: Sequence[float], epsilon: float
) -> list[float]:
    """w = (L - L_j) / (distance + epsilon); 0 at distance 0."""
    return [
        (reference - loss) / (distance + epsilon) if distance > 0 else 0.0
        for loss, distance in zip(losses, distances, strict=True)
    ]


def shares(weights: Sequence[float]) -> list[float]:
    """The positive parts over their sum; all 0 where none is positive."""
    total = sum(max(w, 0.0) for w in weights)
    return [max(w, 0.0) / total if total > 0 else 0.0 for w in weights]
