"""What a part of the family `clock` says: how long a round is, and who waits for whom."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, runtime_checkable

from pydantic import model_validator

from fedroam.components import Part, field, register

Wait = Literal["all", "deadline", "minimum"]
Late = Literal["dropped", "carried"]


@runtime_checkable
class Clock(Protocol):
    """Whether things take time."""

    @property
    def length(self) -> float | None:
        """Seconds that the movement of a round lasts; None: a round has no length, and nothing takes time."""

    @property
    def wait(self) -> Wait:
        """Until when a round waits."""

    @property
    def late(self) -> Late:
        """What becomes of work that is not done by then."""

    @property
    def minimum(self) -> int:
        """With wait "minimum": how many clients must be done."""


@register("clock", "rounds")
class Rounds(Part):
    """The round is the only time: training, meeting and sending take none."""

    length: ClassVar[float | None] = None
    wait: ClassVar[Wait] = "deadline"
    late: ClassVar[Late] = "dropped"
    minimum: ClassVar[int] = 1


@register("clock", "seconds")
class Seconds(Part):
    """A round has a length, training takes the time that `[compute]` says, and a transfer that of `[link]`.

    Everybody moves for `length` seconds. Training begins with the round; with access points or a server, it begins once
    the model has been got. Between two clients, models are sent while the two are within reach: an exchange takes place
    where both got through. With access points or a server, a client's update counts where it arrived in time.

    A round is over after `length` (`wait = "deadline"`), but not before everybody is done who can be ("all"), or
    `minimum` clients are ("minimum"). If that takes longer than `length`, everybody stands still for the rest of it,
    where the way of the round ended. A client without contacts is done with its training.

    What is not done by then is late. A late client's update is dropped: at a server or access point it is lost, and
    training that has not ended is broken off. Or it is carried over: the client goes on in the next round, takes part
    in nothing else until it is done, and its update then counts as one of that round. Hierarchical federations have
    `carry_over` for that: there a late device is like one that is gone.
    """

    length: float = field(60.0, "time of movement in a round", unit="s", gt=0, allow_inf_nan=False)
    wait: Wait = field(
        "deadline",
        "when a round is over: after length, or once everybody is done, or once a minimum of clients are, if that is "
        "later",
    )
    late: Late = field(
        "dropped", "what becomes of work that is not done when the round is over: it is lost, or carried over"
    )
    minimum: int = field(1, 'clients that must be done (wait = "minimum")', unit="clients", ge=1)

    @model_validator(mode="after")
    def _of_its_wait(self) -> Seconds:
        if self.wait != "minimum" and self.minimum != 1:
            raise ValueError(
                f'minimum = {self.minimum} has no meaning with wait = "{self.wait}": leave it out'
            )
        return self
