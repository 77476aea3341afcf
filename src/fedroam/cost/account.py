"""The account: what each client has sent, received, trained and wasted since the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from fedroam.cost.radio import Cost
from fedroam.errors import InputError
from fedroam.federation import Traffic


@dataclass(frozen=True)
class Account:
    """Every client's account since the start; arrays [clients].

    bytes_up, bytes_down: int64, bytes of models sent and received. energy: float64, joules of communication and
    training; energy_training: of it, for training. energy_wasted: of it, for updates that will never be aggregated
    (Farcas et al., Table 10). energy_pending: of it, spent since the client's last update was aggregated or lost; what
    is pending when the run ends is neither of the two. air_time: float64, seconds of sending and receiving.
    """

    bytes_up: np.ndarray
    bytes_down: np.ndarray
    energy: np.ndarray
    energy_training: np.ndarray
    energy_wasted: np.ndarray
    energy_pending: np.ndarray
    air_time: np.ndarray

    @classmethod
    def new(cls, clients: int) -> Account:
        """Before round 1."""
        kinds = (np.int64 if name.startswith("bytes") else np.float64 for name in COLUMNS)
        return cls(*(np.zeros(clients, dtype=kind) for kind in kinds))

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> Account:
        """From the arrays that `arrays` gave. Raises KeyError where one is missing."""
        return cls(*(arrays[name] for name in COLUMNS))

    def arrays(self) -> dict[str, np.ndarray]:
        """Each column, by name."""
        return dict(vars(self))

    def totals(self) -> dict[str, float | int]:
        """Each column, summed over clients."""
        return {name: array.sum().item() for name, array in self.arrays().items()}


# The columns that the tables `rounds` (all clients together) and `clients` get, in this order.
COLUMNS = tuple(column.name for column in fields(Account))


def charge(
    account: Account,
    traffic: Traffic,
    cost: Cost,
    clients: np.ndarray,
    joules: np.ndarray,
    aggregated: np.ndarray,
    discarded: np.ndarray,
    in_vain: np.ndarray | None = None,
) -> Account:
    """The account after a round, in which `traffic` was sent at `cost` and clients[k] (int64) trained for joules[k].

    All of it is pending at first. Then what the `aggregated` clients (int64) have pending is settled, and what the
    `discarded` ones have pending is wasted: training and communication of a model that is never aggregated. in_vain:
    float64, how much of joules[k] is wasted at once, and never pending; None: nothing. Raises InputError where a
    transfer names a client that there is not.
    """
    n = len(account.energy)
    sent, received = traffic.sender >= 0, traffic.receiver >= 0
    sender, receiver = traffic.sender[sent], traffic.receiver[received]
    if max(sender.max(initial=-1), receiver.max(initial=-1)) >= n:
        raise InputError(f"federation: sends to or from a client that is not one of the {n}")

    def added(ends: np.ndarray, amounts: np.ndarray) -> np.ndarray:
        return np.bincount(ends, amounts, minlength=n)

    def bytes_of(ends: np.ndarray, which: np.ndarray) -> np.ndarray:
        total = np.zeros(n, dtype=np.int64)  # summed as whole numbers: float64 would lose bytes beyond 2**53
        np.add.at(total, ends, traffic.bytes[which])
        return total

    training = added(clients, joules)
    spent = added(sender, cost.energy_up[sent]) + added(receiver, cost.energy_down[received]) + training
    pending, wasted = account.energy_pending + spent, account.energy_wasted.copy()
    if in_vain is not None:
        lost = added(clients, in_vain)
        pending, wasted = account.energy_pending + (spent - lost), wasted + lost
    wasted[discarded] += pending[discarded]
    pending[aggregated] = 0.0
    pending[discarded] = 0.0
    return replace(
        account,
        bytes_up=account.bytes_up + bytes_of(sender, sent),
        bytes_down=account.bytes_down + bytes_of(receiver, received),
        energy=account.energy + spent,
        energy_training=account.energy_training + training,
        energy_wasted=wasted,
        energy_pending=pending,
        air_time=account.air_time
        + added(sender, cost.time_up[sent])
        + added(receiver, cost.time_down[received]),
    )
