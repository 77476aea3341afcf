"""Who attacks, and the attacks that are none or lie in the data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from pydantic import field_validator
from typing_extensions import override

from fedroam.checks.answers import checked_whole
from fedroam.components import Part, answer_of, field, ours, register
from fedroam.errors import InputError
from fedroam.randomness import stream


@dataclass(frozen=True)
class Trained:
    """What attackers know of a round's training: everything.

    begun, trained: float32 [attackers, parameters], their models before and after it. clients: int64 [attackers].
    everybody: number of clients in the run. models: float32 [rows, parameters], all models; others: int64, the rows in
    it that honest clients have trained. An attack of one's own is handed copies, and may write into them.
    """

    begun: torch.Tensor
    trained: torch.Tensor
    clients: np.ndarray
    models: torch.Tensor
    others: np.ndarray
    everybody: int
    seed: int
    round: int

    @property
    def honest(self) -> torch.Tensor:
        """The trained models of the honest, float32 [others, parameters]: a copy."""
        return self.models[torch.from_numpy(self.others).to(self.models.device)]


@dataclass(frozen=True)
class Withheld:
    """What attackers learnt and did not send: rows (int64 [attackers]) of the models' matrix, and their true
    parameters (float32 [attackers, parameters]).
    """

    rows: np.ndarray
    parameters: torch.Tensor


@runtime_checkable
class Attack(Protocol):
    """Who attacks, and how. Attackers train, move and meet as everybody does, and know each other."""

    def attackers(self, seed: int, clients: int) -> np.ndarray:
        """Who attacks, int64 ascending. Raises InputError where those named do not fit, or nobody honest is left."""

    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        """The classes (int64 [samples]) that attackers learn for samples of classes y."""

    def sent(self, known: Trained) -> torch.Tensor:
        """The parameters that attackers send for those that they trained, float32 [attackers, parameters]."""


def attackers_of(attack: Attack, seed: int, clients: int) -> np.ndarray:
    """Who attacks, as `Attack.attackers`; what one's own gives is held against that, in whatever order.

    Raises InputError where it is something else.
    """
    found = attack.attackers(seed, clients)
    if ours(attack):
        return found
    with answer_of("attack", attack):
        who = np.sort(checked_whole("attackers gave", found, clients, "client"))
        twice = who[1:][who[1:] == who[:-1]]
        if len(twice):
            raise InputError(f"attackers gave client {twice[0]} more than once, allowed is each once")
        if len(who) == clients:
            raise InputError(f"attackers gave all {clients} clients; at least one must be honest")
        return who


@register("attack", "none")
class NoAttack(Part):
    """Everybody is honest."""

    def attackers(self, seed: int, clients: int) -> np.ndarray:
        """Nobody."""
        return np.zeros(0, dtype=np.int64)

    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        """The true ones."""
        return y

    def sent(self, known: Trained) -> torch.Tensor:
        """What was trained."""
        return known.trained


class Attackers(Part):
    """Base of attacks: who attacks is named, or drawn from the run's seed; attackers learn and send honestly unless an
    attack says otherwise.

    A larger share adds attackers to those of a smaller one.
    """

    share: float = field(0.2, "share of the clients that attack, drawn; rounded to whole clients", ge=0, lt=1)
    clients: tuple[int, ...] | None = field(
        None, "the clients that attack, by number; not set: a share is drawn"
    )

    @field_validator("clients")
    @classmethod
    def _named_once(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is not None and (len(set(value)) < len(value) or min(value, default=0) < 0):
            raise ValueError("allowed are numbers from 0 on, each once")
        return value

    def attackers(self, seed: int, clients: int) -> np.ndarray:
        """Those named, or floor(share * clients + 1/2) of the clients."""
        if self.clients is None:
            order = stream(seed, "attackers").permutation(clients)
            found = np.flatnonzero(order < np.floor(self.share * clients + 0.5))
        else:
            found = np.array(sorted(self.clients), dtype=np.int64)
            if len(found) and found[-1] >= clients:
                raise InputError(f"attack.clients: found {found[-1]}, allowed is 0 to {clients - 1}")
        if len(found) == clients:
            raise InputError(f"attack: all {clients} clients attack; at least one must be honest")
        return found

    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        """The true ones."""
        return y

    def sent(self, known: Trained) -> torch.Tensor:
        """What was trained."""
        return known.trained


@register(
    "attack", "label_flip", source="Fang et al., USENIX Security 2020, Sec. 5: class c is learnt as C - 1 - c"
)
class LabelFlip(Attackers):
    """Attackers learn class C - 1 - c where their samples are of class c, and send what they learnt."""

    @override
    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        return classes - 1 - y
