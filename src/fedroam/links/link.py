"""What a part of the family `link` promises, and the two plain ones: a link of no time, and one of one rate."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from fedroam.checks.answers import checked_number, checked_numbers
from fedroam.components import Part, answer_of, field, ours, register
from fedroam.errors import InputError

Broken = Literal["lost", "resumed", "partial"]
BYTES = 1e6 / 8  # of a megabit


@runtime_checkable
class Link(Protocol):
    """How fast a model gets from one end to another, and who disturbs whom."""

    @property
    def setup(self) -> float:
        """Seconds before the first byte of a transfer."""

    @property
    def loss(self) -> float:
        """Share of the bytes that must be sent again: what arrives in a second is rate (1 - loss)."""

    @property
    def simultaneous(self) -> int | None:
        """Transfers that one end can have at a time, sent and received together; with 1 it is half duplex. None: any
        number."""

    @property
    def shared(self) -> bool:
        """Whether transfers in range of each other share the air."""

    @property
    def broken(self) -> Broken:
        """What becomes of a transfer that the end of a contact breaks: all of it is lost, it is resumed in the next
        contact of the two, or what came of it is used."""

    @property
    def chunk(self) -> int:
        """Bytes of a model that can be used by themselves, where what came of it is used."""

    @property
    def kept(self) -> int:
        """Rounds for which a model is kept that clients began to send to each other, where transfers are resumed."""

    def rate(self, distance: np.ndarray, seed: int, pair: np.ndarray) -> np.ndarray:
        """Bytes in a second, float64 [transfers], from 0 on; infinite where sending takes no time.

        distance: float64 [transfers], metres, NaN where an end has no place. pair: int64 [transfers, 2], the two ends
        (a client, or as `federation.Traffic` writes a server or access point), for what is drawn once a pair from the
        run's seed.
        """


@runtime_checkable
class ConstantRate(Protocol):
    """A link of one rate for all pairs, at any distance and both ways: places need not be looked at for it."""

    @property
    def everywhere(self) -> float:
        """Bytes in a second; what `rate` gives, whatever it is asked."""


def check_link(link: Link) -> None:
    """Hold what a link of one's own says of itself against what `Link` promises: raises InputError where it is
    something else."""
    if ours(link):
        return
    with answer_of("link", link):
        checked_number("setup", link.setup)
        if checked_number("loss", link.loss) >= 1:
            raise InputError(f"loss is {link.loss!r}, allowed is a share from 0 to below 1")
        for name, least in (("simultaneous", 1), ("chunk", 4), ("kept", 1)):
            value = getattr(link, name)
            if name == "simultaneous" and value is None:
                continue
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
                raise InputError(f"{name} is {value!r}, allowed are whole numbers from {least} on")
        if link.chunk % 4:
            raise InputError(f"chunk is {link.chunk!r}, allowed are multiples of 4 bytes")
        if link.broken not in get_args(Broken):
            raise InputError(f"broken is {link.broken!r}, allowed are {', '.join(get_args(Broken))}")
        if not isinstance(link.shared, (bool, np.bool_)):
            raise InputError(f"shared is {link.shared!r}, allowed are True and False")


def rates_of(link: Link, distance: np.ndarray, seed: int, pair: np.ndarray) -> np.ndarray:
    """What a link gives as `Link.rate`; what one's own gives is held against that.

    Raises InputError where it is something else.
    """
    if ours(link):
        return link.rate(distance, seed, pair)
    found = link.rate(distance.copy(), seed, pair.copy())
    with answer_of("link", link):
        return checked_numbers(
            "rate",
            found,
            len(distance),
            "transfer",
            lambda k: f"the pair {pair[k][0]}, {pair[k][1]} at {distance[k]:g} m",
            infinite=True,
        )


def everywhere_of(link: Link) -> float | None:
    """The one rate of a link at any distance, bytes/s; None where it has several. Raises as `rates_of` does."""
    if not isinstance(link, ConstantRate):
        return None
    if not ours(link):
        with answer_of("link", link):
            checked_numbers("everywhere", [link.everywhere], 1, "link", lambda _: "every pair", infinite=True)
    return link.everywhere


@register("link", "instant")
class InstantLink(Part):
    """Sending takes no time."""

    setup: ClassVar[float] = 0.0
    loss: ClassVar[float] = 0.0
    simultaneous: ClassVar[int | None] = None
    shared: ClassVar[bool] = False
    broken: ClassVar[Broken] = "lost"
    chunk: ClassVar[int] = 1024
    kept: ClassVar[int] = 10
    everywhere: ClassVar[float] = np.inf

    def rate(self, distance: np.ndarray, seed: int, pair: np.ndarray) -> np.ndarray:
        """Infinite."""
        return np.full(len(distance), self.everywhere)


class TimedLink(Part):
    """Base of links that take time: what becomes of transfers, whatever their rate."""

    setup: float = field(0.0, "time before the first byte of a transfer", unit="s", ge=0, allow_inf_nan=False)
    loss: float = field(0.0, "share of the bytes that must be sent again", ge=0, lt=1)
    simultaneous: int | None = field(
        None, "transfers that one end can have at a time (1: half duplex); not set: any number", ge=1
    )
    shared: bool = field(False, "whether transfers in range of each other share the air")
    broken: Broken = field(
        "lost",
        "what becomes of a transfer that the end of a contact breaks: it is lost, resumed in the next contact of the "
        "two, or what came of it is used",
    )
    chunk: int = field(
        1024,
        'size of what can be used by itself (broken = "partial"), a multiple of 4',
        unit="bytes",
        ge=4,
        multiple_of=4,
        later=True,
    )
    kept: int = field(
        10,
        'how long clients keep a model that they have begun to send to each other (broken = "resumed")',
        unit="rounds",
        ge=1,
        later=True,
    )


@register("link", "fixed")
class Fixed(TimedLink):
    """One rate at any distance."""

    throughput: float = field(10.0, "rate of sending", unit="Mbps", gt=0)

    @property
    def everywhere(self) -> float:
        """`throughput`."""
        return self.throughput * BYTES

    def rate(self, distance: np.ndarray, seed: int, pair: np.ndarray) -> np.ndarray:
        """`throughput`."""
        return np.full(len(distance), self.everywhere)
