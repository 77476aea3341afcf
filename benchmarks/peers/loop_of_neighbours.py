"""A plain loop in the manner of decentralizepy's nodes; this code is not decentralizepy's.

On a fixed graph each node trains its own module, then averages its state with those of its neighbours, tensor by
tensor, by Metropolis-Hastings weights, and is tested. There a node is a process that sends over TCP; here all are in
one, and nothing is serialised or sent: less work than theirs.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from interface import Tell, Work, run, taken
from loop import train


def play(work: Work, rounds: int, tell: Tell) -> np.ndarray:
    """Decentralized learning."""
    nodes, weights = [work.network() for _ in range(work.clients)], work.array("weights")
    neighbours = [np.flatnonzero(row).tolist() for row in weights]

    def judged() -> float:
        return sum(work.judge(module) for module in nodes) / len(nodes)

    tell(judged())
    for t in range(1, rounds + 1):
        for k, module in enumerate(nodes):
            train(module, work, t, k)
        sent = [copy.deepcopy(module.state_dict()) for module in nodes]
        with torch.no_grad():
            for k, module in enumerate(nodes):
                total = {name: torch.zeros_like(value) for name, value in sent[k].items()}
                for j in neighbours[k]:
                    for name, value in sent[j].items():
                        total[name] += value * float(weights[k, j])
                module.load_state_dict(total)
        tell(judged())
    return np.stack([taken(module) for module in nodes])


if __name__ == "__main__":
    run(play, "torch", "numpy")
