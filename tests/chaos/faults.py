"""Which faults there are, and which of them strike where: drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedroam.randomness import stream

Ways = Mapping[str, tuple[str, ...]]
# At clients, where all models go through the server.
WAYS: dict[str, tuple[str, ...]] = {
    "kill": ("back at once", "for good"),
    "cut": ("to the server", "to the node"),
    "corrupt": ("on the wire", "an answer", "an order"),
    "replay": ("of the last round",),
    "duplicate": ("pieces", "an answer"),
    "pieces": ("one too long", "one too short"),
    "delay": ("on the link", "at the node"),
    "certificate": (
        "none",
        "another authority's",
        "an old one",
        "another role's",
        "another node's",
        "no TLS",
    ),
    "slow": ("a slow link", "a stalled one"),
    "content": ("no number", "another shape", "another type", "something more", "far too much", "nothing"),
}
# At peers and access points, which others call.
DOORS: Ways = {
    "kill": ("back at once", "in its work"),
    "cut": ("at the door", "to the server", "to the node"),
    "corrupt": ("at the door",),
    "replay": ("a model of an old round",),
    "duplicate": ("a message",),
    "pieces": ("short ones",),
    "delay": ("at the door",),
    "certificate": WAYS["certificate"],
    "slow": ("a slow door",),
    "content": (
        "a model that is no number",
        "a shorter model",
        "pieces that are too long",
        "an aggregate that is no number",
        "no aggregate",
    ),
}
# Of these, what does not arrive: the models that it gives in this round, or what it makes of those that it got.
GIVEN = (
    "a model of an old round",
    "a model that is no number",
    "a shorter model",
    "pieces that are too long",
)
MADE = ("an aggregate that is no number", "no aggregate")
# Where a fault is one of time, the site's limits are short in that round, and it is the only one.
SHORT = {("kill", "for good"): {"away": 0.5}, ("slow", "a stalled one"): {"answer": 2.0}}
TRIES = 3  # of an answer whose check sum does not match


@dataclass(frozen=True)
class Fault:
    """What happens to a holder of models in a round. amount: drawn, 0 to 1: how long, how often, or where."""

    number: int
    round: int
    holder: int
    kind: str
    way: str
    amount: float

    @property
    def short(self) -> dict[str, float]:
        """The limits that are others in its round; mostly none."""
        return SHORT.get((self.kind, self.way), {})

    @property
    def times(self) -> int:
        """How often an answer is corrupt: once up to as often as it is taken."""
        return 1 + int(self.amount * TRIES)

    @property
    def loses(self) -> bool:
        """Whether the client's update of the round must not arrive; otherwise it must."""
        if self.way in (*GIVEN, *MADE):
            return False
        if self.kind == "corrupt":
            return self.way == "an order" or (self.way == "an answer" and self.times == TRIES)
        return self.kind == "content" or bool(self.short)

    def __str__(self) -> str:
        return f"round {self.round}, holder {self.holder}: {self.kind} ({self.way}, {self.amount:.2f})"


def drawn(seed: int, run: int, rounds: int, holders: Sequence[int], ways: Ways = WAYS) -> Sequence[Fault]:
    """The faults of a run, at most one for a holder and round; each kind, and each way of it, as often as others."""
    draws = stream(seed, "chaos", run)
    kinds = _dealt(draws, tuple(ways))
    own = {kind: _dealt(draws, some) for kind, some in ways.items()}
    found: list[Fault] = []
    waiting: list[tuple[str, str]] = []  # for a round of its own
    for round in range(1, rounds + 1):
        those = draws.permutation(holders)[: int(draws.integers(1, max(2, len(holders))))].tolist()
        for holder in those:
            if waiting and holder == those[0]:
                kind, way = waiting.pop()
            else:
                kind = next(kinds)
                way = next(own[kind])
            one = Fault(len(found), round, holder, kind, way, float(draws.random()))
            if one.short and holder != those[0]:
                waiting.append((kind, way))
                continue
            found.append(one)
            if one.short:
                break
    return found


def _dealt(draws: np.random.Generator, cards: Sequence[str]) -> Iterator[str]:
    """Cards from a shuffled deck, shuffled anew when it is empty."""
    while True:
        yield from draws.permutation(np.array(cards, object)).tolist()
