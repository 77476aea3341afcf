"""Churn: who takes part in a round, wherever they are."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from typing_extensions import override

from fedroam.checks.answers import kept_state, only_to_read, plain_arrays, same_again
from fedroam.components import Part, answer_of, field, ours, register
from fedroam.errors import InputError
from fedroam.mobility.world import State, World
from fedroam.randomness import stream


@runtime_checkable
class Activity(Protocol):
    """Who is active. Its state is a mapping of plain arrays and holds at least `active`, bool [clients].

    A client that is not active is away: it neither trains nor meets anybody, though it goes on moving. Draws come
    from streams of the run's seed and the round alone, so that every method of a comparison sees the same churn.
    """

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """The state before round 1: who takes part in its training."""

    def step(self, state: State, seed: int, clients: int, round: int) -> dict[str, np.ndarray]:
        """The state at the end of `round` (1, 2, ...): who meets others then, and trains in the round after."""


def active_at_start(rule: Activity, seed: int, clients: int) -> dict[str, np.ndarray]:
    """Who is active before round 1, as `Activity.start`; that of one's own is held against what it promises.

    Raises InputError where it is something else.
    """
    found = rule.start(seed, clients)
    return found if ours(rule) else _held(rule, found, rule.start(seed, clients), clients, 0, None)


def active_after(rule: Activity, state: State, seed: int, clients: int, round: int) -> dict[str, np.ndarray]:
    """Who is active at the end of a round, as `Activity.step`; raises as `active_at_start` does. One's own is handed a
    state into which it cannot write."""
    if ours(rule):
        return rule.step(state, seed, clients, round)
    shown = only_to_read(state)
    found = rule.step(shown, seed, clients, round)
    again = rule.step(shown, seed, clients, round) if round == 1 else None
    return _held(rule, found, again, clients, round, state)


def _held(
    rule: Activity, found: Any, again: Any, clients: int, round: int, before: State | None
) -> dict[str, np.ndarray]:
    """What an activity of one's own gave, as it is to be. again: what it gave when asked once more, if it was; before:
    its state before the round, if there was one."""
    with answer_of("activity", rule, round):
        arrays = plain_arrays(found, "active")
        if again is not None:
            same_again(arrays, plain_arrays(again, "active"))
        shape = arrays["active"].shape if "active" in arrays else None
        if shape != (clients,):
            raise InputError(f"its state needs active [{clients}], found {shape}")
        wrong = np.flatnonzero(~np.isin(arrays["active"], (0, 1)))
        if len(wrong):
            value = arrays["active"][wrong[0]]
            raise InputError(
                f"active of client {wrong[0]} is {value:g}, allowed are truth values, or 0 and 1"
            )
        return kept_state(arrays, before, active=bool)


@runtime_checkable
class KnowsItsLimits(Protocol):
    """An activity or a contact rule that cannot do for any number of clients or rounds, as one that is read from a
    file."""

    def check_limits(self, clients: int, rounds: int) -> None:
        """Raise InputError where it cannot tell who is active, or meets whom, among `clients`, from the start to round
        `rounds`."""


def check_limits(part: object, world: World) -> None:
    """Let a part refuse a world before anything is played, if it does. Raises InputError."""
    if isinstance(part, KnowsItsLimits):
        part.check_limits(world.clients, world.rounds)


@register("activity", "always")
class Always(Part):
    """Everybody is active from the start, or from the round in which it joins."""

    late_share: float = field(0.0, "share of the clients that join late", ge=0, le=1)
    late_by: int = field(
        1,
        "the round by whose end the last of them has joined; each draws one from 1 to it",
        unit="rounds",
        ge=1,
    )

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """Those who have joined before the first round."""
        return {"active": self.joined(seed, clients, 0)}

    def step(self, state: State, seed: int, clients: int, round: int) -> dict[str, np.ndarray]:
        """Those who have joined by the end of the round."""
        return {"active": self.joined(seed, clients, round)}

    def joined(self, seed: int, clients: int, round: int) -> np.ndarray:
        """Who has joined by the end of a round (0: before the first), bool [clients]."""
        if self.late_share == 0:
            return np.ones(clients, dtype=bool)
        draws = stream(seed, "joining")
        late = draws.permutation(clients) < np.floor(self.late_share * clients + 0.5)
        begin = draws.integers(1, self.late_by + 1, clients)
        return np.asarray(~late | (begin <= round))


@register(
    "activity", "rate", source="MoCFL, experiment: client activity rate (CAR), the share active in each round"
)
class Rate(Always):
    """In each round a new random share of the clients is active."""

    rate: float = field(0.9, "client activity rate: the share that is active", gt=0, le=1)
    independent: bool = field(
        False,
        "each client by its own draw, instead of exactly floor(rate * those who have joined), at least one, of them",
    )

    @override
    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        return {"active": self._drawn(seed, clients, 0)}

    @override
    def step(self, state: State, seed: int, clients: int, round: int) -> dict[str, np.ndarray]:
        return {"active": self._drawn(seed, clients, round)}

    def _drawn(self, seed: int, clients: int, round: int) -> np.ndarray:
        draws, joined = stream(seed, "activity", round), self.joined(seed, clients, round)
        value = draws.random(clients)
        if self.independent:
            return joined & (value < self.rate)
        # The count is of those who have joined; a rate of 0.7 of 10 is 7, though 0.7 * 10 is a little less.
        number = max(1, int(np.floor(self.rate * joined.sum() + 1e-9)))
        value[~joined] = np.inf
        chosen = np.zeros(clients, dtype=bool)
        chosen[np.argsort(value, kind="stable")[:number]] = True
        return np.asarray(chosen & joined)


@register("activity", "on_off")
class OnOff(Always):
    """Each client is on for a while and off for a while: a Markov chain with two states.

    A client that is on goes off with probability 1 / mean_on after a round, one that is off comes back with
    probability 1 / mean_off; it begins in the chain's steady state, on with mean_on / (mean_on + mean_off).
    """

    mean_on: float = field(10.0, "mean time on", unit="rounds", ge=1, allow_inf_nan=False)
    mean_off: float = field(5.0, "mean time off", unit="rounds", ge=1, allow_inf_nan=False)

    @override
    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """The chain in its steady state: `on`, bool [clients], whether the client has joined or not."""
        on = stream(seed, "activity", 0).random(clients) * (self.mean_on + self.mean_off) < self.mean_on
        return {"active": on & self.joined(seed, clients, 0), "on": on}

    @override
    def step(self, state: State, seed: int, clients: int, round: int) -> dict[str, np.ndarray]:
        value, on = stream(seed, "activity", round).random(clients), state["on"].astype(bool)
        on = np.where(on, value >= 1 / self.mean_on, value < 1 / self.mean_off)
        return {"active": on & self.joined(seed, clients, round), "on": on}
