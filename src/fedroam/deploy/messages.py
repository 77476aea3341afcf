"""Messages between nodes: a small JSON header, and arrays as safetensors, checked before anybody looks at a value.

A message is four bytes (the length of its header, big-endian), the header, and a body. Headers are facts of a few
kinds, each with a schema; a body is a piece of a transfer, or nothing. What a transfer brings is held against what
was asked for: names, types and shapes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedroam.deploy.site.file import PIECE
from fedroam.errors import one_line
from fedroam.facts import json_object
from fedroam.learning import Layout, Models
from fedroam.learning.held import Use

PROTOCOL = 8
HEADER = 65_536  # bytes of a header at most
MARGIN = 65_536  # bytes of a transfer beyond its arrays: names and shapes
NAMED = 512  # models that an order names at most, so that its header holds them
Arrays = Mapping[str, np.ndarray]
# What an array must be: numpy's name of its type, and its shape.
Expected = Mapping[str, tuple[str, tuple[int, ...]]]
Work = Literal[
    "train", "judge", "represent", "class_means", "mean_features", "open", "carry", "say", "aggregate", "look"
]
NO_ORDER = f"{'0' * 16}-0"  # of one that has not been given yet
SHA256 = r"^[0-9a-f]{64}$"
Sum = Annotated[str, Field(pattern=SHA256)]
Perhaps = Annotated[str, Field(pattern=rf"^$|{SHA256}")]


class Refused(Exception):
    """A message that is not what it must be; its text is one line."""

    def __init__(self, text: object) -> None:
        super().__init__(one_line(str(text)))


class Header(BaseModel):
    """The header of a message: what it names and nothing else."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Hello(Header):
    """How a node introduces itself: who it is, its certificate tells. port: where it listens, 0 if it does not."""

    protocol: int
    digest: str = Field(pattern=SHA256)
    layout: str = Field(pattern=SHA256)
    samples: str = Field(pattern=SHA256)
    version: str = Field(max_length=80)
    port: int = Field(0, ge=0, le=65_535)


class Array(Header):
    """The type and shape of an array."""

    kind: Literal["float32", "float64", "int64", "bool"]
    shape: list[int] = Field(max_length=8)

    @classmethod
    def of(cls, array: np.ndarray) -> Array:
        """Those of an array."""
        return cls.model_validate({"kind": array.dtype.name, "shape": list(array.shape)})


class LocalJob(Header):
    """One piece of local training, beside the model that it begins with.

    model: the SHA-256 of that model, where models go from holder to holder; otherwise it is among the arrays. pull: of
    an anchor, if there is one. arrays: what goes with it: `target` and `shift` of the anchor, `given.NAME`. each: what
    the objective is handed by name with one row a sample, and what the client keeps it as.
    """

    round: int = Field(ge=1)
    model: Perhaps = ""
    pull: float | None = None
    arrays: dict[str, Array] = Field(default={}, max_length=16)
    each: dict[str, str] = Field(default={}, max_length=16)


class Order(Header):
    """What a node is asked to do with its own samples, or with models; its arrays are fetched.

    order: identifies it. jobs: of `train`. use, rows: whose samples and how many models, of the other kinds of work
    with samples; of `open`, `carry`, `say` and `aggregate` rows is how many models are moved or aggregated. keep: of
    `represent`, what the features are called by jobs of this round. models: SHA-256 of those that it is about and that
    the server gives, too, if the node lacks them; sizes: of each, bytes. hosts: of `carry`. Of `say` and `aggregate`:
    models are the node's own, those beside it, and what the node keeps beside it, as `keeps` says, where it keeps
    anything; stays: whether those beside it stay with the node; facts: arrays of what the rule may know, told: of what
    else the node is told; weighed: whether weights are among its arrays. paced: of `open` and `carry`, whether the
    rates of whoever sends (bytes/s) are among its arrays; shaped: whether links are so slow by themselves; rate: of
    `train`, that of its answer, where it has one; lasts: of `train`, seconds that a device takes for it, however fast
    this one is. pings, patience: of `look`, how often each of those that listen is asked, and how long (s) it has to
    answer; search: whether they are looked for on the local network. secret: of `open`, by which the node makes
    receipts (see `receipt`). size, sha256: of the transfer.
    """

    order: str = Field(pattern=r"^[0-9a-f]{16}-\d{1,12}$")
    work: Work
    round: int = Field(ge=0)
    jobs: list[LocalJob] = Field(default=[], max_length=16)
    use: Use = "train"
    rows: int = Field(0, ge=0, le=1_000_000)
    classes: int = Field(0, ge=0, le=1_000_000)
    keep: str = Field("", max_length=40)
    momentum: bool = False
    models: list[Sum] = Field(default=[], max_length=NAMED)
    sizes: list[Annotated[int, Field(ge=0)]] = Field(default=[], max_length=NAMED)
    hosts: list[Annotated[str, Field(max_length=100)]] = Field(default=[], max_length=512)
    facts: dict[str, Array] = Field(default={}, max_length=16)
    told: dict[str, Array] = Field(default={}, max_length=16)
    keeps: dict[str, Array] = Field(default={}, max_length=16)
    stays: bool = False
    weighed: bool = False
    paced: bool = False
    shaped: bool = False
    rate: float | None = Field(None, gt=0, allow_inf_nan=False)
    lasts: float = Field(0.0, ge=0, le=86_400)
    pings: int = Field(1, ge=1, le=20)
    patience: float = Field(1.0, gt=0, le=60)
    search: bool = False
    secret: Perhaps = ""
    size: int = Field(0, ge=0)
    sha256: Perhaps = ""


def digest_of(order: Order) -> str:
    """SHA-256 (hex) of what is asked, whichever order it is: by it, node and round an update is known again."""
    return sum_of(order.model_copy(update={"order": NO_ORDER}).model_dump_json().encode())


def session_of(order: Order) -> str:
    """The run at the server that an order belongs to: the same one when the server was killed and goes on with it."""
    return order.order.partition("-")[0]


class Push(Header):
    """What the server tells a node that attends: an order, that all is over, or that a later process took its place.

    ago: seconds since the round of the order began, where the order belongs to the round that is played.
    """

    order: Order | None = None
    ago: float = Field(0.0, ge=0, allow_inf_nan=False)
    over: Literal["", "done", "replaced"] = ""


class Fetch(Header):
    """The wish for so many bytes of an order's arrays, or of one of its models (SHA-256), from one on."""

    order: str = Field(max_length=40)
    offset: int = Field(ge=0)
    size: int = Field(gt=0, le=PIECE)
    model: str = Field("", max_length=64)


class Wish(Header):
    """The wish of another node for so many bytes of a model, from one on."""

    round: int = Field(ge=0)
    model: Sum
    offset: int = Field(ge=0)
    size: int = Field(gt=0, le=PIECE)


class Gift(Header):
    """A piece of a model for another node; offset: where it begins."""

    round: int = Field(ge=0)
    model: Sum
    offset: int = Field(ge=0)


class Ping(Header):
    """The question of a node whether another one answers it."""


class Put(Header):
    """A piece of an answer, or that there will be none.

    size, sha256: of the whole answer; offset: where the piece begins. failed: why there will be none; broke: whether
    that is an error of the work itself, and no refusal of the order.
    """

    order: str = Field(max_length=40)
    offset: int = Field(0, ge=0)
    size: int = Field(0, ge=0)
    sha256: str = Field("", max_length=64)
    failed: str = Field("", max_length=500)
    broke: bool = False


class Taken(Header):
    """What has arrived of an answer, or of a model, so far, bytes; over: nothing more is wanted of it. receipt: of a
    model that is there."""

    received: int = Field(0, ge=0)
    over: bool = False
    receipt: Perhaps = ""


H = TypeVar("H", bound=Header)


def encode(header: Header, body: bytes | memoryview = b"") -> bytes:
    """A message."""
    text = header.model_dump_json(exclude_defaults=True).encode()
    return b"".join((len(text).to_bytes(4, "big"), text, body))


def decode(message: bytes, kind: type[H]) -> tuple[H, memoryview]:
    """The header and the body of a message. Raises `Refused` where it is none of that kind."""
    length = int.from_bytes(message[:4], "big")
    if len(message) < 4 or length > HEADER or len(message) < 4 + length:
        raise Refused(f"a message of {len(message)} bytes that says its header has {length}")
    try:
        header = kind.model_validate(json_object(message[4 : 4 + length]))
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        raise Refused(f"{kind.__name__.lower()}: {key:.60}: {problem['msg']:.200}") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{kind.__name__.lower()}: {error!s:.200}") from None
    return header, memoryview(message)[4 + length :]


def told_of(arrays: Arrays) -> dict[str, Array]:
    """The types and shapes of arrays."""
    return {name: Array.of(array) for name, array in arrays.items()}


def expected_of(told: Mapping[str, Array], prefix: str = "") -> Expected:
    """The arrays that were told of, with this before their names."""
    return {f"{prefix}{name}": (each.kind, tuple(each.shape)) for name, each in told.items()}


def packed(arrays: Arrays) -> bytes:
    """Arrays as the body of a transfer."""
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}) if arrays else b""


def array_bytes(expected: Expected) -> int:
    """How many bytes such arrays have, without what a transfer says of them."""
    return sum(
        int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize for kind, shape in expected.values()
    )


def most(expected: Expected) -> int:
    """How many bytes a transfer of such arrays has at most."""
    return MARGIN + array_bytes(expected)


def unpacked(body: bytes, expected: Expected) -> dict[str, np.ndarray]:
    """The arrays of a transfer. Raises `Refused` where they are not those expected."""
    if not expected and not body:
        return {}
    try:
        arrays = load(body)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"a body that is no safetensors ({error})") from None
    if arrays.keys() != expected.keys():
        odd = sorted(arrays.keys() ^ expected.keys())[0]
        raise Refused(f"array {odd!r} is {'not expected' if odd in arrays else 'missing'}")
    for name, (kind, shape) in expected.items():
        array = arrays[name]
        if array.dtype != np.dtype(kind) or array.shape != shape:
            raise Refused(
                f"array {name!r} is {array.dtype} {list(array.shape)}, expected {kind} {list(shape)}"
            )
    return arrays


def sum_of(body: bytes) -> str:
    """SHA-256 (hex)."""
    return hashlib.sha256(body).hexdigest()


def receipt(secret: str, holder: int, model: str) -> str:
    """What a node hands to a holder that has brought it a model, and the server asks of it (HMAC-SHA-256, hex).

    secret: between server and node, of a round. Who has brought nothing could say so all the same, and the node would
    be asked to aggregate what it lacks, and aggregate nothing.
    """
    return hmac.new(bytes.fromhex(secret), f"{holder} {model}".encode(), "sha256").hexdigest()


def layout_sum(layout: Layout) -> str:
    """SHA-256 (hex) of what lies where in a row of models."""
    entries = [(e.name, e.shape, e.offset) for part in (layout.parameters, layout.buffers) for e in part]
    return sum_of(repr((entries, layout.size, layout.buffer_size)).encode())


def layout_arrays(layout: Layout) -> Expected:
    """The arrays of one model."""
    return {"parameters": ("float32", (layout.size,)), "buffers": ("float32", (layout.buffer_size,))}


def named(models: Models, row: int) -> tuple[str, bytes]:
    """A row of models as it travels between holders, and its SHA-256, by which it is known."""
    arrays = {"parameters": models.parameters[row], "buffers": models.buffers[row]}
    body = packed({name: value.detach().cpu().numpy() for name, value in arrays.items()})
    return sum_of(body), body


def finite(except_for: str = "") -> Callable[[Arrays], None]:
    """Refuses values that are no numbers."""

    def check(answer: Arrays) -> None:
        for name, array in answer.items():
            if name != except_for and not np.isfinite(array).all():
                raise Refused(f"values of {name!r} that are no numbers")

    return check
