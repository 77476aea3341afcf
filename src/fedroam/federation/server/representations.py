"""What a client's extractor makes of its classes, on average, and a server's head trained on such averages."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fedroam.errors import InputError
from fedroam.federation.protocol import Beside
from fedroam.federation.server.loop import GLOBAL, GLOBAL_BUFFERS, ServerRound
from fedroam.learning import ClassMeans, Layout
from fedroam.learning.cpu.one_network import descend
from fedroam.models import noise, split
from fedroam.randomness import stream, torch_stream


def widths(network: nn.Module | Layout) -> tuple[int, int]:
    """How many features a network's head takes, and how many classes it tells apart.

    Raises InputError where the network has no head, or the head no linear layer.
    """
    layout = network if isinstance(network, Layout) else Layout.of(network)
    layout.columns("head")  # refuse at once what has none
    linear = [
        entry.shape for entry in layout.parameters if entry.name.startswith("head.") and len(entry.shape) == 2
    ]
    if not linear:
        raise InputError("the model's head has no linear layer: this method needs to know its features")
    return linear[0][1], linear[-1][0]


def means_bytes(round: ServerRound) -> np.ndarray:
    """What the active clients' class means weigh, int64: for each class held a float32 vector and the class."""
    held = (round.context.class_counts[round.clients] > 0).sum(1)
    return np.asarray(held * 4 * (widths(round.layout)[0] + 1), dtype=np.int64)


def class_means(round: ServerRound) -> ClassMeans:
    """Mean features of each active client's training samples by class, as its extractor is now (evaluation mode).

    f_i[c] = 1 / |D_ic| sum of phi_i(x) over its samples of class c, accumulated in float64.
    """
    return round.learner.class_means(round.models, round.clients.tolist(), round.held, round.context.classes)


def beside_class_means(round: ServerRound) -> Beside:
    """What `class_means` has the active clients compute: a forward pass of each sample through the extractor."""
    return Beside.of(round.context.clients, round.clients, extractor=round.context.samples[round.clients])


def train_head(round: ServerRound, pairs: ClassMeans, epochs: int, batch_size: int, lr: float) -> None:
    """Train the server's head, state `global`, on the pairs (mean features, class): plain SGD on the cross-entropy.

    epochs: passes over the pairs. batch_size: pairs a step, 0 for all of them. Pairs weigh the same. Each pass is a new
    shuffle, and its last batch may be smaller.
    """
    task, layout = round.context.task, round.layout
    columns, buffers = layout.columns("head"), layout.buffer_columns("head")
    row, row_buffers = torch.zeros(layout.size), torch.zeros(layout.buffer_size)
    row[columns] = torch.from_numpy(round.state[GLOBAL])
    row_buffers[buffers] = torch.from_numpy(round.state[GLOBAL_BUFFERS])
    network = task.network()
    layout.read(network, row, row_buffers)
    _, head = split(network)
    k, c = np.nonzero(pairs.held)
    draws = stream(task.seed, "server head", round.number)
    batches = [batch for _ in range(epochs) for batch in _batches(len(c), batch_size, draws)]
    with noise(torch_stream(task.seed, "server dropout", round.number)):
        descend(head, torch.from_numpy(pairs.mean[k, c]), torch.from_numpy(c), batches, lr)
    layout.write(network, row, row_buffers)
    round.state[GLOBAL] = row[columns].numpy().copy()
    round.state[GLOBAL_BUFFERS] = row_buffers[buffers].numpy().copy()


def _batches(pairs: int, size: int, draws: np.random.Generator) -> list[np.ndarray]:
    """The batches of a pass, int64 each."""
    if not size:
        return [np.arange(pairs)]
    return np.split(draws.permutation(pairs), range(size, pairs, size))
