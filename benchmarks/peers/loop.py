"""A plain loop in the manner in which PFLlib trains its clients; this code is not PFLlib's.

One client after the other, each an `nn.Module` of its own that is given the server's parameters, an `optim.SGD` and a
`DataLoader` over its own samples; the server sums what comes back, weighted by samples. All in one process, with
torch's own threads.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from interface import Tell, Work, run, taken
from torch import nn


def play(work: Work, rounds: int, tell: Tell) -> np.ndarray:
    """FedAvg."""
    server = work.network()
    clients = [copy.deepcopy(server) for _ in range(work.clients)]
    tell(work.judge(server))
    for t in range(1, rounds + 1):
        for k, module in enumerate(clients):
            give(server, module)
            train(module, work, t, k)
        average(server, clients, work.samples)
        tell(work.judge(server))
    return taken(server)[None]


def train(module: nn.Module, work: Work, round: int, client: int) -> None:
    """The local steps of a client."""
    module.train()
    optimiser, loss = torch.optim.SGD(module.parameters(), lr=work.lr), nn.CrossEntropyLoss()
    for x, y in work.loader(round, client):
        found = loss(module(x), y)
        optimiser.zero_grad()
        found.backward()
        optimiser.step()


def give(server: nn.Module, module: nn.Module) -> None:
    """Copy the server's parameters."""
    for new, old in zip(server.parameters(), module.parameters(), strict=True):
        old.data = new.data.clone()


def average(server: nn.Module, clients: list[nn.Module], samples: list[int]) -> None:
    """Sum the clients' parameters, weighted by samples."""
    for parameter in server.parameters():
        parameter.data.zero_()
    for module, count in zip(clients, samples, strict=True):
        for total, own in zip(server.parameters(), module.parameters(), strict=True):
            total.data += own.data * (count / sum(samples))


if __name__ == "__main__":
    run(play, "torch", "numpy")
