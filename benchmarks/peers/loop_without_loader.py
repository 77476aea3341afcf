"""As `loop.py`, without a DataLoader: batches are cut out of one tensor. What is left is torch's own arithmetic."""

from __future__ import annotations

import copy

import numpy as np
import torch
from interface import Tell, Work, run, taken
from loop import average, give
from torch.nn import functional


def play(work: Work, rounds: int, tell: Tell) -> np.ndarray:
    """FedAvg."""
    server = work.network()
    clients = [copy.deepcopy(server) for _ in range(work.clients)]
    optimisers = [torch.optim.SGD(module.parameters(), lr=work.lr) for module in clients]
    tell(work.judge(server))
    for t in range(1, rounds + 1):
        for k, (module, optimiser) in enumerate(zip(clients, optimisers, strict=True)):
            give(server, module)
            for batch in work.batches(t, k):
                index = torch.from_numpy(batch)
                optimiser.zero_grad()
                functional.cross_entropy(module(work.x[index]), work.y[index]).backward()
                optimiser.step()
        average(server, clients, work.samples)
        tell(work.judge(server))
    return taken(server)[None]


if __name__ == "__main__":
    run(play, "torch", "numpy")
