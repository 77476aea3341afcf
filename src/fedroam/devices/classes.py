"""Local work by the speed of the device: classes of devices, measured boards, and a table of one's own."""

from __future__ import annotations

import functools
from abc import abstractmethod
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.data.sources.places import find_file, stamp
from fedroam.data.sources.tables import read_header, read_table
from fedroam.devices.compute import Counts
from fedroam.errors import InputError, unknown
from fedroam.randomness import pair_normals

# Operations in a second (double precision, high-performance Linpack) and watts while it ran: J. Geerling,
# top500-benchmark, table of results (github.com/geerlingguy/top500-benchmark, 0137a2e).
BOARDS: dict[str, tuple[float, float]] = {
    "raspberry_pi_zero_2": (0.370e9, 2.1),
    "milk_v_mars": (2.06e9, 4.7),
    "orange_pi_cm4": (5.604e9, 4.0),
    "raspberry_pi_400": (11.077e9, 6.4),
    "raspberry_pi_4": (11.889e9, 7.2),
    "raspberry_pi_5": (30.249e9, 11.0),
    "radxa_x4": (37.224e9, 16.0),
    "radxa_rock_5b": (51.382e9, 12.0),
    "orange_pi_5": (53.333e9, 11.5),
    "lattepanda_mu": (62.851e9, 25.0),
}

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SPREAD = "standard deviation of the logarithm of a device's speed about that of its class"
COUNTS = (
    "what takes time: training, as passes of the plain network forward and backward; or all that is computed of "
    "samples: what the method's loss adds to a pass, and the forward passes that it asks of clients before and after "
    "training"
)
SHARES = "share of the devices in each class, by their sum; not set: all alike"


def drawn_class(seed: int, clients: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The class of each client (int64 [jobs]), int64 [jobs]: drawn once for a device, by these shares of their sum."""
    from scipy.special import ndtr

    uniform = ndtr(pair_normals(seed, "device class", clients, np.zeros_like(clients)))
    edges = np.cumsum(shares) / np.sum(shares)
    return np.minimum(np.searchsorted(edges, uniform, side="right"), len(shares) - 1)


def drawn_factor(seed: int, clients: np.ndarray, spread: float) -> np.ndarray:
    """The factor on each client's speed, float64 [jobs]: log-normal about 1, drawn once for a device."""
    if not spread:
        return np.ones(len(clients))
    return np.exp(spread * pair_normals(seed, "device speed", clients, np.zeros_like(clients)))


class _Classes(Part):
    """Devices of several classes, drawn by shares; within a class speeds are log-normal about the class's."""

    shares: tuple[Positive, ...] | None = field(None, SHARES)
    spread: float = field(0.0, SPREAD, ge=0, le=3)
    efficiency: float = field(1.0, "share of its speed that training reaches", gt=0, le=1)
    counts: Counts = field("training", COUNTS, later=True)

    @abstractmethod
    def _speeds(self) -> np.ndarray:
        """Operations in a second of each class, float64 [classes]."""

    @model_validator(mode="after")
    def _a_share_each(self) -> _Classes:
        classes = len(self._speeds())
        if self.shares is not None and len(self.shares) != classes:
            raise ValueError(
                f"shares = {list(self.shares)}: allowed is one for each of the {classes} classes"
            )
        return self

    def speed(self, seed: int, clients: np.ndarray) -> np.ndarray:
        """Operations that each client's device does in a second of training, float64 [jobs]."""
        speeds = self._speeds()
        shares = np.ones(len(speeds)) if self.shares is None else np.array(self.shares)
        own = speeds[drawn_class(seed, clients, shares)] * drawn_factor(seed, clients, self.spread)
        return np.asarray(self.efficiency * own)

    def seconds(self, seed: int, clients: np.ndarray, passes: np.ndarray, flops: float) -> np.ndarray:
        """Operations of all passes over the device's speed."""
        return np.asarray(passes * flops / self.speed(seed, clients))


@register("compute", "flops")
class Flops(_Classes):
    """Local work takes its floating-point operations, which are counted, over the device's speed.

    Devices are of classes with a speed each; which class a device is of, and how far it is off, is drawn once from the
    run's seed. `efficiency` is the share of the speed that training reaches: small networks and batches reach little of
    what a maker's sheet says.
    """

    speeds: tuple[Positive, ...] = field(
        (10.0,), "speed of each class of devices", unit="GFLOP/s", min_length=1
    )

    @override
    def _speeds(self) -> np.ndarray:
        return 1e9 * np.array(self.speeds)


@register(
    "compute", "board", source="J. Geerling, top500-benchmark: high-performance Linpack on single boards"
)
class Board(_Classes):
    """As `flops`, by the measured speeds of common single-board computers' processors.

    The speeds, in GFLOP/s, and what the boards drew meanwhile: raspberry_pi_zero_2 0.37 (2.1 W), milk_v_mars 2.06 (4.7
    W), orange_pi_cm4 5.6 (4.0 W), raspberry_pi_400 11.1 (6.4 W), raspberry_pi_4 11.9 (7.2 W), raspberry_pi_5 30.2
    (11 W), radxa_x4 37.2 (16 W), radxa_rock_5b 51.4 (12 W), orange_pi_5 53.3 (11.5 W), lattepanda_mu 62.9 (25 W). They
    are those of products of large matrices in double precision. Training is in single precision, which is up to twice
    as fast, and of small matrices, which is slower: measure one round on the board and set `efficiency`.
    """

    boards: tuple[str, ...] = field(("raspberry_pi_4",), "boards, by name", min_length=1)

    @model_validator(mode="after")
    def _known(self) -> Board:
        for name in self.boards:
            if name not in BOARDS:
                raise ValueError(str(unknown("board", name, BOARDS)))
        return self

    @override
    def _speeds(self) -> np.ndarray:
        return np.array([BOARDS.get(name, (1.0, 0.0))[0] for name in self.boards])


@register("compute", "table")
class SecondsTable(Part):
    """Local work takes the seconds that a table of one's own says for each pass of a sample.

    A CSV file with a column `seconds` (a pass of one sample, forward and backward) and one of two: `client`, then each
    client of the run has a row; or `share`, then each row is a class of devices, drawn by these shares of their sum.
    Further columns are not looked at.
    """

    path: str = field(..., "the CSV file (relative: from here, or FEDROAM_DATA)")
    spread: float = field(0.0, SPREAD, ge=0, le=3)
    counts: Counts = field("training", COUNTS, later=True)

    @override
    def reads(self) -> dict[str, Path]:
        return {"path": find_file(self.path, None, "compute.path")}

    def seconds(self, seed: int, clients: np.ndarray, passes: np.ndarray, flops: float) -> np.ndarray:
        """Passes times the row's seconds. Raises InputError for what is wrong with the file or not in it."""
        file = self.reads()["path"]
        by_client, keys, each = _read(*stamp(file))
        if by_client:
            row = np.searchsorted(keys, clients)
            missing = np.append(keys, -1.0)[row] != clients
            if missing.any():
                raise InputError(f"{file}: no row for client {clients[missing].min()}")
        else:
            row = drawn_class(seed, clients, keys)
        return np.asarray(passes * each[row] / drawn_factor(seed, clients, self.spread))


@functools.lru_cache(maxsize=2)
def _read(path: str, size: int, changed: int) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether rows are clients, their numbers in order or else shares, and their seconds; read once while unchanged."""
    file = Path(path)
    header = read_header(file)
    key = next((name for name in ("client", "share") if name in header), None)
    if key is None or "seconds" not in header:
        raise InputError(
            f"{file}: found the columns {', '.join(header)}; wanted are seconds, and client or share"
        )
    table = read_table(file, (key, "seconds"), ())
    keys, seconds = table[key], table["seconds"]
    whole = (keys >= 0) & (keys == np.floor(keys)) if key == "client" else keys > 0
    allowed = "a whole number from 0 on" if key == "client" else "more than 0"
    for name, values, fine, limit in (
        (key, keys, whole, allowed),
        ("seconds", seconds, seconds >= 0, "0 s or more"),
    ):
        if not fine.all():
            at = int(np.flatnonzero(~fine)[0])
            raise InputError(f"{file}, row {at + 1}, column {name!r}: {values[at]:g}, allowed is {limit}")
    if key == "share":
        return False, keys, seconds
    order = np.argsort(keys, kind="stable")
    keys, seconds = keys[order], seconds[order]
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        raise InputError(f"{file}: client {keys[twice[0]]:g} has two rows, allowed is one")
    return True, keys, seconds
