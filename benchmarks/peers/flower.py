"""Flower's simulation (`flwr[simulation]`): FedAvg over Ray actors of one core each, the server tests its model.

As in Flower's own examples for PyTorch: a ClientApp with a DataLoader, `optim.SGD` and a module that is built for each
message, and the strategy FedAvg with evaluation at the server.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flower_client import FOLDER, client_app
from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from interface import Tell, Work, run, taken


class Whole(FedAvg):
    """FedAvg that does not go on without all clients, as Flower's would."""

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Raise RuntimeError where a client failed."""
        replies = list(replies)
        for message in replies:
            if message.has_error():
                raise RuntimeError(f"round {server_round}: a client failed: {message.error.reason}")
        return super().aggregate_train(server_round, replies)


def play(work: Work, rounds: int, tell: Tell) -> np.ndarray:
    """FedAvg."""
    os.environ[FOLDER] = str(work.folder.resolve())  # actors inherit it
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # and find flower_client
    server, module = ServerApp(), work.network()

    def judged(round: int, arrays: ArrayRecord) -> MetricRecord:
        module.load_state_dict(arrays.to_torch_state_dict())
        accuracy = work.judge(module)
        tell(accuracy)
        return MetricRecord({"accuracy": accuracy})

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = Whole(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=work.clients)
        start = ArrayRecord(work.network().state_dict())
        strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds, evaluate_fn=judged)

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    resources = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": cores, "address": "local"},
    }
    run_simulation(
        server_app=server, client_app=client_app, num_supernodes=work.clients, backend_config=resources
    )
    return taken(module)[None]


if __name__ == "__main__":
    run(play, "flwr", "ray", "torch", "numpy")
