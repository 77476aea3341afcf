"""How workers are reached: what the driver of a run needs of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fedroam.errors import FedroamError


class WorkersLost(FedroamError):
    """A worker is gone, and with it the models that it had. Whoever plays rounds goes back to what is safe."""


class Transport(Protocol):
    """Workers, each of which does what it is told in the order in which it is told.

    What a call will give can be handed to another call before it is there: then it goes from worker to worker. It may
    only be read.
    """

    @property
    def count(self) -> int:
        """How many workers there are."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth telling of them."""

    def start(self) -> None:
        """Reach the workers. Raises InputError where they cannot be."""

    def call(self, worker: int, method: str, *given: Any, returns: int = 1) -> list[Any]:
        """Let a worker do something (see `Worker`); so many things that it will give."""

    def get(self, promised: Sequence[Any]) -> list[Any]:
        """What was promised. Raises WorkersLost, or what went wrong there as FedroamError."""

    def renew(self) -> None:
        """Replace the workers that are gone. Raises FedroamError where that cannot be."""

    def close(self) -> None:
        """Give everything back."""
