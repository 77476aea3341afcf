"""The ClientApp of `flower.py`, in a file of its own since Ray's actors import it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from interface import Work
from loop import train

client_app = ClientApp()
FOLDER = "FEDROAM_PEERS_WORK"  # the environment variable that says where the work lies


@cache
def opened(folder: str) -> Work:
    """The work, opened once in each process."""
    return Work(Path(folder))


@client_app.train()
def trained(message: Message, context: Context) -> Message:
    """The local steps of a client."""
    work = opened(os.environ[FOLDER])
    module = work.network()
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    client = int(context.node_config["partition-id"])
    train(module, work, int(message.content["config"]["server-round"]), client)
    content = RecordDict(
        {
            "arrays": ArrayRecord(module.state_dict()),
            "metrics": MetricRecord({"num-examples": work.samples[client]}),
        }
    )
    return Message(content=content, reply_to=message)
