"""BlazeFL's own FedAvg (`blazefl.contrib`), clients in a pool of threads, as it recommends: one a core.

What is given to it are networks, DataLoaders of the batches, and the test at the server. Its threads are meant for a
Python without the global lock; with it they compute side by side while torch does.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from blazefl.contrib import FedAvgBaseServerHandler, FedAvgThreadPoolClientTrainer
from interface import Tell, Work, run, taken
from torch import nn
from torch.utils.data import DataLoader


class Networks:
    """A ModelSelector."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def select_model(self, model_name: str) -> nn.Module:
        """The network."""
        return self.work.network()


class Batches:
    """A PartitionedDataset whose loaders give the batches of the round."""

    def __init__(self, work: Work) -> None:
        self.work, self.round = work, 1

    def get_dataloader(
        self, type_: Any, cid: int | None, batch_size: int | None = None, generator: Any = None
    ) -> DataLoader:
        """A client's loader."""
        assert cid is not None
        found: DataLoader = self.work.loader(self.round, cid)
        return found


def play(work: Work, rounds: int, tell: Tell) -> np.ndarray:
    """FedAvg."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(1)  # of each client: there is one a core at a time
    networks, batches = Networks(work), Batches(work)
    shared: dict[str, Any] = {
        "model_selector": networks,
        "model_name": "",
        "dataset": batches,
        "device": "cpu",
    }
    server = FedAvgBaseServerHandler(
        **shared, global_round=rounds, num_clients=work.clients, sample_ratio=1.0, batch_size=0, seed=0
    )
    trainer = FedAvgThreadPoolClientTrainer(
        **shared, num_clients=work.clients, epochs=1, batch_size=0, lr=work.lr, seed=0, num_parallels=cores
    )

    def judged() -> float:
        torch.set_num_threads(cores)
        found = work.judge(server.model)
        torch.set_num_threads(1)
        return found

    tell(judged())
    while not server.if_stop():
        batches.round = server.round + 1
        trainer.local_process(server.downlink_package(), server.sample_clients())
        for package in trainer.uplink_package():
            server.load(package)
        tell(judged())
    return taken(server.model)[None]


if __name__ == "__main__":
    run(play, "blazefl", "torch", "numpy")
