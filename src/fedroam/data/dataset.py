"""What every data source gives: samples held once in memory and shared by all clients."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from fedroam.checks.answers import only_to_read
from fedroam.data.preprocessing import Preprocessing
from fedroam.errors import InputError

AT_ONCE = 2**21  # values
SAMPLES = ("x_train", "y_train", "x_test", "y_test")
NAMED = 5  # classes that a note names
DEALT = 2**24  # bytes that a data set keeps of who holds which of its samples
_DEALING = threading.Lock()  # not of a data set, which may be handed to other processes
OF_AN_ARRAY = 112  # bytes that an array takes beside what is in it


@dataclass(frozen=True)
class Dataset:
    """Samples and classes of a learning task.

    x_train, x_test: float32 arrays [samples, ...]; images are [samples, height, width, channels], tables and
    flow records [samples, features]. y_train, y_test: int64 arrays [samples] of classes 0 .. classes-1; the
    test part may be empty (then clients are judged on their own held-out share). columns: further facts about
    the training samples, by name (writer, station, ...), for natural partitions. preprocessing: how x came from what
    the files hold; None where the source does not tell. untested: why the test part is empty, if it is and the source
    tells.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    class_names: tuple[str, ...]
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    preprocessing: Preprocessing | None = None
    untested: str = ""
    _dealt: dict[Hashable, Split] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for part, x, y in (("train", self.x_train, self.y_train), ("test", self.x_test, self.y_test)):
            if x.dtype != np.float32 or y.dtype != np.int64:
                raise InputError(f"{self.name}: {part} samples must be float32 and classes int64")
            if y.ndim != 1:
                raise InputError(f"{self.name}: {part} classes are {list(y.shape)}, allowed is one a sample")
            if len(x) != len(y):
                raise InputError(f"{self.name}: {len(x)} {part} samples but {len(y)} classes")
            if len(y) and (y.min() < 0 or y.max() >= self.classes):
                raise InputError(
                    f"{self.name}: {part} classes from {y.min()} to {y.max()}, "
                    f"allowed are 0 to {self.classes - 1}"
                )
            if not _finite(x):
                row = int(np.argwhere(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))[0, 0])
                raise InputError(
                    f"{self.name}: {part} sample {row} holds a value that is not finite, or too large for float32"
                )
        if not len(self.y_train):
            raise InputError(f"{self.name}: no training samples")

    def only_to_read(self) -> Dataset:
        """The same samples in arrays into which nobody can write: all runs of a process share them."""
        found = copy(self)  # what was found of the samples goes with them
        samples = only_to_read({name: getattr(self, name) for name in SAMPLES})
        for name, shown in (*samples.items(), ("columns", only_to_read(self.columns))):
            object.__setattr__(found, name, shown)
        return found

    def sums(self) -> tuple[int, ...]:
        """A sum of the bits of each of its arrays, as fast as memory is read."""
        return tuple(_sum(getattr(self, name)) for name in SAMPLES)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample as arrays hold it: (height, width, channels) or (features,)."""
        return self.x_train.shape[1:]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample as networks see it: (channels, height, width) or (features,)."""
        if len(self.shape) == 3:
            height, width, channels = self.shape
            return (channels, height, width)
        return self.shape

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over all samples and classes, so that a run says which data it saw."""
        digest = hashlib.sha256()
        for array in (self.x_train, self.y_train, self.x_test, self.y_test):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def dealt(self, key: Hashable, deal: Callable[[], Split]) -> Split:
        """Who holds what, as `deal` says it, which must follow from this data set and from `key` alone; found once.

        For the many runs of a process that differ in something else. Each gets copies, so that nothing that one writes
        into them reaches another. Of more than `DEALT` bytes those that were longest unused are dropped.
        """
        with _DEALING:
            found = self._dealt.pop(key, None) or deal()
            self._dealt[key] = found
            while sum(each.nbytes for each in self._dealt.values()) > DEALT:
                del self._dealt[next(iter(self._dealt))]
            return found.copy() if key in self._dealt else found

    @cached_property
    def never_taught(self) -> dict[str, int]:
        """Classes that no training sample is of, and how many test samples each has; only those that have any."""
        taught, tested = (np.bincount(y, minlength=self.classes) for y in (self.y_train, self.y_test))
        return {self.class_names[k]: int(tested[k]) for k in np.flatnonzero((taught == 0) & (tested > 0))}


def never_taught_note(counts: Mapping[str, int], test_samples: int) -> str:
    """The sentence on test samples of classes that no training sample is of (see `Dataset.never_taught`)."""
    names = [repr(name) for name in list(counts)[:NAMED]]
    more = f" and {len(counts) - NAMED} more" if len(counts) > NAMED else ""
    return (
        f"{sum(counts.values()):,} of {test_samples:,} test samples are of classes that no training sample is of "
        f"({', '.join(names)}{more}): no model can learn them"
    )


def _sum(array: np.ndarray) -> int:
    """The sum of an array's bits in words of 64, modulo 2 ** 64, and those that are left over."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = len(flat) // 8 * 8
    return int(flat[:whole].view(np.uint64).sum()) + int.from_bytes(flat[whole:].tobytes(), "little")


def one_class_note(class_names: Sequence[str]) -> str:
    """The sentence on a data set with a single class; empty where there are several."""
    if len(class_names) != 1:
        return ""
    return (
        f"all samples are of one class ({class_names[0]!r}): every answer is right, so accuracy says nothing"
    )


def _finite(x: np.ndarray) -> bool:
    """Whether all samples are finite numbers; asked of a few at a time, as the answers take a quarter of their room."""
    few = max(1, AT_ONCE // max(1, math.prod(x.shape[1:])))
    return all(np.isfinite(x[first : first + few]).all() for first in range(0, len(x), few))


@runtime_checkable
class DataSource(Protocol):
    """Where samples come from."""

    def load(self) -> Dataset:
        """The data set. Raises InputError where it is missing or damaged."""


@dataclass(frozen=True)
class Split:
    """Who holds which samples: for each client, indices into the training samples (int64 arrays)."""

    train: tuple[np.ndarray, ...]
    validation: tuple[np.ndarray, ...]
    test: tuple[np.ndarray, ...]

    @property
    def sizes(self) -> np.ndarray:
        """Training samples of each client, int64 [clients]."""
        return np.array([len(part) for part in self.train], dtype=np.int64)

    @cached_property  # every deal in a process asks it of all that are kept
    def nbytes(self) -> int:
        """Bytes of all indices, and of the arrays that hold them."""
        return sum(
            part.nbytes + OF_AN_ARRAY for parts in (self.train, self.validation, self.test) for part in parts
        )

    def copy(self) -> Split:
        """The same indices in arrays of their own."""
        train, validation, test = (
            tuple(part.copy() for part in parts) for parts in (self.train, self.validation, self.test)
        )
        return Split(train, validation, test)

    def class_counts(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """Training samples of each client by class, int64 [clients, classes]."""
        return np.stack([np.bincount(labels[part], minlength=classes) for part in self.train]).astype(
            np.int64
        )


def cut(
    parts: list[np.ndarray],
    validation_share: float,
    test_share: float,
    streams: Sequence[np.random.Generator],
) -> Split:
    """Cut each client's samples into training, validation and test, at random.

    Shares are of the client's own samples, rounded half up, but training keeps at least one sample. streams: of each
    client; none need be there where both shares are 0.
    """
    train, validation, test = [], [], []
    for k, part in enumerate(parts):
        mixed = streams[k].permutation(part) if validation_share or test_share else part
        n_test = min(int(test_share * len(part) + 0.5), max(len(part) - 1, 0))
        n_validation = min(int(validation_share * len(part) + 0.5), max(len(part) - n_test - 1, 0))
        test.append(np.sort(mixed[:n_test]))
        validation.append(np.sort(mixed[n_test : n_test + n_validation]))
        train.append(np.sort(mixed[n_test + n_validation :]))
    return Split(tuple(train), tuple(validation), tuple(test))
