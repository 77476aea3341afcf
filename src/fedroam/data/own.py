"""The user's own arrays: from Python (`memory`) or from an .npz file (`arrays`)."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np
from pydantic import PrivateAttr

from fedroam.components import Part, field, register
from fedroam.data.cache import remember
from fedroam.data.dataset import Dataset
from fedroam.data.places import find_file
from fedroam.data.preparing import column_statistics, held_out
from fedroam.data.tables import as_classes, label_order
from fedroam.errors import InputError

Normalise = Literal["none", "unit", "standardise"]
Layout = Literal["channels_last", "channels_first"]
_COLUMN = "column_"
_ALLOWED = "x_train, y_train, x_test, y_test, class_names and column_NAME"


def assemble(
    name: str,
    arrays: Mapping[str, Any],
    *,
    normalise: Normalise,
    layout: Layout,
    test_share: float,
) -> Dataset:
    """A data set from arrays by the names that `memory` explains; `name` stands in messages.

    Raises InputError that names the array, what was found and what is allowed.
    """
    for key in ("x_train", "y_train"):
        if arrays.get(key) is None:
            raise InputError(f"{name}: no {key}; wanted are {_ALLOWED}")
    if (arrays.get("x_test") is None) != (arrays.get("y_test") is None):
        raise InputError(f"{name}: x_test and y_test go together, only one is there")
    x = _samples(name, "x_train", arrays["x_train"], layout)
    y_raw = _labels(name, "y_train", arrays["y_train"], len(x))
    if len(x) == 0:
        raise InputError(f"{name}: x_train holds no samples")
    columns = {}
    for column, values in (arrays.get("columns") or {}).items():
        values = np.asarray(values)
        if values.dtype.hasobject or values.ndim != 1 or len(values) != len(x):
            raise InputError(
                f"{name}: column {column!r} has shape {values.shape} of {values.dtype}, wanted is one number or "
                f"text for each of {len(x)} training samples"
            )
        columns[column] = values
    if arrays.get("x_test") is not None:
        x_test = _samples(name, "x_test", arrays["x_test"], layout)
        y_test_raw = _labels(name, "y_test", arrays["y_test"], len(x_test))
        if x_test.shape[1:] != x.shape[1:] and len(x_test):
            raise InputError(f"{name}: x_test holds samples of {x_test.shape[1:]}, x_train of {x.shape[1:]}")
        x_test = x_test.reshape(-1, *x.shape[1:])
        y, y_test, names = _classes(name, y_raw, y_test_raw, arrays.get("class_names"))
    else:
        y, _, names = _classes(name, y_raw, y_raw[:0], arrays.get("class_names"))
        is_test = held_out(y, test_share, "own arrays test set")
        if is_test.all():
            raise InputError(f"{name}: test_share = {test_share:g} leaves no training samples")
        x_test, y_test = x[is_test], y[is_test]
        x, y = x[~is_test], y[~is_test]
        columns = {column: values[~is_test] for column, values in columns.items()}
    x, x_test = _normalised(name, x, x_test, normalise)
    return Dataset(name, x, y, x_test, y_test, names, columns=columns)


def _samples(name: str, key: str, value: Any, layout: Layout) -> np.ndarray:
    """An array of samples as [n, features] or [n, h, w, c]."""
    x = np.asarray(value)
    if x.dtype.kind not in "buif":
        raise InputError(f"{name}: {key} holds {x.dtype}, wanted are numbers")
    if x.ndim not in (2, 3, 4) or 0 in x.shape[1:]:
        raise InputError(
            f"{name}: {key} has shape {x.shape}, wanted is [samples, features], [samples, height, width] or "
            "[samples, height, width, channels]"
        )
    if x.ndim == 3:
        return x[..., None]
    if x.ndim == 4 and layout == "channels_first":
        return x.transpose(0, 2, 3, 1)
    if x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[3] > 4:
        raise InputError(
            f"{name}: {key} has shape {x.shape}, which looks like [samples, channels, height, width]: "
            'set layout = "channels_first"'
        )
    return x


def _labels(name: str, key: str, value: Any, count: int) -> np.ndarray:
    y = np.asarray(value)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or len(y) != count:
        raise InputError(
            f"{name}: {key} has shape {y.shape}, wanted is one class for each of {count} samples"
        )
    if y.dtype.kind == "f" and (y == np.round(y)).all():
        y = y.astype(np.int64)
    if y.dtype.kind not in "buiU":
        raise InputError(f"{name}: {key} holds {y.dtype}, wanted are whole numbers or texts, one per class")
    return y


def _classes(
    name: str, y: np.ndarray, y_test: np.ndarray, given: Sequence[str] | np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Labels as classes: by `given` names (numbers index them, texts are looked up), else in their order."""
    if (y.dtype.kind == "U") != (y_test.dtype.kind == "U"):
        raise InputError(f"{name}: y_train holds {y.dtype} but y_test {y_test.dtype}")
    both = np.concatenate([y, y_test])
    if given is None:
        names = tuple(label_order(both.astype(str)))
    else:
        names = tuple(str(n) for n in np.asarray(given).reshape(-1))
        if len(set(names)) < len(names):
            raise InputError(f"{name}: class_names holds a name twice: {', '.join(names)}")
    if given is not None and y.dtype.kind != "U":
        return y.astype(np.int64), y_test.astype(np.int64), names  # Dataset checks the range
    for label in np.unique(both.astype(str)):
        if str(label) not in names:
            raise InputError(f"{name}: class {str(label)!r} is not among class_names: {', '.join(names)}")
    return as_classes(y.astype(str), names), as_classes(y_test.astype(str), names), names


def _normalised(
    name: str, x: np.ndarray, x_test: np.ndarray, how: Normalise
) -> tuple[np.ndarray, np.ndarray]:
    """float32, contiguous: unchanged, bytes scaled to [0, 1], or standardised by the training samples."""
    if how == "unit" and (x.dtype != np.uint8 or x_test.dtype != np.uint8):
        raise InputError(f'{name}: normalise = "unit" divides bytes (uint8) by 255, x_train holds {x.dtype}')
    if how != "standardise":
        scale = np.float32(255.0 if how == "unit" else 1.0)
        return _float32(x) / scale, _float32(x_test) / scale
    for key, samples in (("x_train", x), ("x_test", x_test)):
        if not np.isfinite(samples).all():
            row = int(np.argwhere(~np.isfinite(samples.reshape(len(samples), -1)).all(axis=1))[0, 0])
            raise InputError(f"{name}: {key}[{row}] holds a value that is not finite")
    mean, deviation = column_statistics(x.reshape(-1, x.shape[-1]))
    return _float32((x - mean) / deviation), _float32((x_test - mean) / deviation)


def _float32(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, dtype=np.float32)


@dataclass(frozen=True)
class _Held:
    """A data set in memory; two are equal if their fingerprints are."""

    fingerprint: str
    dataset: Dataset = member(compare=False)


_held: WeakValueDictionary[str, _Held] = WeakValueDictionary()


@register("data", "memory")
class Memory(Part):
    """Arrays given from Python: made by `fedroam.data.memory(...)`, known by the fingerprint of the arrays.

    An experiment file that names this kind can only be run where the same arrays are in memory.
    """

    fingerprint: str = field(..., "SHA-256 of the arrays, as fedroam.data.memory computes it")
    name: str = field("memory", "a name for people", identity=False)
    _holder: _Held | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Take hold of the arrays, if they are in memory."""
        self._holder = _held.get(self.fingerprint)

    def load(self) -> Dataset:
        """The data set. Raises InputError where the arrays are not in this process."""
        holder = self._holder or _held.get(self.fingerprint)
        if holder is None:
            raise InputError(
                f"data memory: the arrays with fingerprint {self.fingerprint[:12]}... are not in memory: call "
                "fedroam.data.memory(x_train, y_train, ...) with the same arrays first, or save them as .npz and "
                'use kind = "arrays"'
            )
        return holder.dataset


def memory(
    x_train: Any,
    y_train: Any,
    x_test: Any = None,
    y_test: Any = None,
    *,
    class_names: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
    normalise: Normalise = "none",
    layout: Layout = "channels_last",
    test_share: float = 0.2,
    name: str = "memory",
) -> Memory:
    """A data part that holds arrays (numpy, or anything numpy can read).

    x_train, x_test: numbers [samples, features], [samples, height, width] or [samples, height, width,
    channels] (`layout = "channels_first"`: [samples, channels, height, width]). y_train, y_test: whole
    numbers or texts [samples]. Without `class_names` the classes are the distinct labels, in order; with
    them, numbers are 0 .. len - 1 and texts are looked up. columns: further facts about the training samples
    [samples], for natural partitions. normalise: `none`, `unit` (uint8 / 255) or `standardise` (each channel
    or feature by its mean and deviation over the training samples). test_share: share of each class cut off
    as the shared test set where no x_test is given (0: no shared test set).

    Raises InputError that names the array, what was found and what is allowed.
    """
    if not 0 <= test_share < 1:
        raise InputError(f"{name}: test_share = {test_share:g}, allowed is 0 up to but not including 1")
    dataset = assemble(
        name,
        {
            "x_train": x_train,
            "y_train": y_train,
            "x_test": x_test,
            "y_test": y_test,
            "class_names": class_names,
            "columns": columns,
        },
        normalise=normalise,
        layout=layout,
        test_share=test_share,
    )
    digest = hashlib.sha256(dataset.fingerprint.encode())
    digest.update("\0".join(dataset.class_names).encode())
    for column, values in sorted(dataset.columns.items()):
        digest.update(f"{column} {values.dtype} ".encode() + np.ascontiguousarray(values).tobytes())
    held = _held.setdefault(digest.hexdigest(), _Held(digest.hexdigest(), dataset))
    return Memory(fingerprint=held.fingerprint, name=name)


@register("data", "arrays")
class Arrays(Part):
    """Your own arrays from an .npz file, as numpy.savez writes it.

    x_train and y_train, if you like x_test and y_test, class_names, and further facts about the training
    samples as column_NAME (for the partition kind "column"). Shapes as for `fedroam.data.memory`. The file
    is read without unpickling: arrays of Python objects are refused.
    """

    path: str = field(..., "the .npz file (relative: from here, data.root or FEDROAM_DATA)")
    root: str | None = field(None, "folder to look in first, before FEDROAM_DATA", identity=False)
    normalise: Normalise = field(
        "none",
        "none; unit: bytes / 255; standardise: each channel or feature by its mean and deviation over the "
        "training samples",
    )
    layout: Layout = field("channels_last", "how images with four dimensions are stored")
    test_share: float = field(
        0.2, "share of each class cut off as shared test set if the file has no x_test (0: none)", ge=0, lt=1
    )

    def load(self) -> Dataset:
        """The data set, read once per process. Raises InputError if missing or damaged."""
        file = find_file(self.path, self.root, "data.path")
        return remember(self, (file,), lambda: self._read(file))

    def _read(self, file: Path) -> Dataset:
        return assemble(
            str(file),
            _read_npz(file),
            normalise=self.normalise,
            layout=self.layout,
            test_share=self.test_share,
        )


def _read_npz(file: Path) -> dict[str, Any]:
    """The arrays of an .npz file, by the names that `assemble` knows."""
    arrays: dict[str, Any] = {"columns": {}}
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
        with np.load(file, allow_pickle=False) as content:
            for key in names:
                if key.startswith(_COLUMN):
                    arrays["columns"][key.removeprefix(_COLUMN)] = content[key]
                elif key in ("x_train", "y_train", "x_test", "y_test", "class_names"):
                    arrays[key] = content[key]
                else:
                    raise InputError(f"{file}: holds an array {key!r}, allowed are {_ALLOWED}")
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise InputError(f"{file}: damaged .npz file ({error})") from None
        raise InputError(
            f"{file}: {key} holds Python objects, which would have to be unpickled: save plain numbers or "
            "fixed-length texts instead"
        ) from None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
        raise InputError(f"{file}: not an .npz file of numpy.savez, or damaged ({error})") from None
    return arrays
