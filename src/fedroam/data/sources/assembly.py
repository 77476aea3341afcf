"""A data set from the user's arrays, whatever their shape, type and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from fedroam.data.dataset import Dataset
from fedroam.data.preparing import column_statistics, held_out, none_held_out
from fedroam.data.preprocessing import ArrayPreprocessing, Layout
from fedroam.data.sources.tables import as_classes, check_classes, label_order
from fedroam.errors import InputError

Normalise = Literal["none", "unit", "standardise"]
ALLOWED = "x_train, y_train, x_test, y_test, class_names and column_NAME"


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
            raise InputError(f"{name}: no {key}; wanted are {ALLOWED}")
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
        untested = "" if len(y_test) else "its x_test holds no samples"
    else:
        y, _, names = _classes(name, y_raw, y_raw[:0], arrays.get("class_names"))
        is_test = held_out(y, test_share, "own arrays test set")
        if is_test.all():
            raise InputError(f"{name}: test_share = {test_share:g} leaves no training samples")
        untested = none_held_out(y, test_share)
        x_test, y_test = x[is_test], y[is_test]
        x, y = x[~is_test], y[~is_test]
        columns = {column: values[~is_test] for column, values in columns.items()}
    of_images = layout if np.ndim(arrays["x_train"]) == 4 else "channels_last"
    x, x_test, preprocessing = _normalised(name, x, x_test, normalise, of_images)
    return Dataset(
        name, x, y, x_test, y_test, names, columns=columns, preprocessing=preprocessing, untested=untested
    )


def _samples(name: str, key: str, value: Any, layout: Layout) -> np.ndarray:
    """An array of samples as [n, features] or [n, h, w, c]."""
    x = np.asarray(value)
    if x.dtype.kind not in "buif":
        raise InputError(f"{name}: {key} holds {x.dtype}, wanted are numbers")
    if x.dtype.kind == "f" and x.size and not (np.isfinite(x.max()) and np.isfinite(x.min())):  # NaN is both
        row = int(np.argwhere(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))[0, 0])
        raise InputError(f"{name}: {key}[{row}] holds a value that is not finite")
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
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            row = int(np.flatnonzero(~np.isfinite(y))[0])
            raise InputError(f"{name}: {key}[{row}] holds a value that is not finite")
        if (y == np.round(y)).all() and (np.abs(y.astype(np.float64)) < 2.0**63).all():  # none is cut short
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
        labels = "y_train with y_test" if len(y_test) else "y_train"
        check_classes(f"{name}: {labels}", len(names), len(both), "if they are, name them in class_names")
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
    name: str, x: np.ndarray, x_test: np.ndarray, how: Normalise, layout: Layout
) -> tuple[np.ndarray, np.ndarray, ArrayPreprocessing]:
    """float32, contiguous: unchanged, bytes scaled to [0, 1], or standardised by the training samples; and how."""
    if how == "unit" and (x.dtype != np.uint8 or x_test.dtype != np.uint8):
        raise InputError(f'{name}: normalise = "unit" divides bytes (uint8) by 255, x_train holds {x.dtype}')
    if how != "standardise":
        scale = np.float32(255.0 if how == "unit" else 1.0)
        plain = ArrayPreprocessing.plain(x.shape[1:], float(scale), layout)
        return _float32(x) / scale, _float32(x_test) / scale, plain
    for key, samples in (("x_train", x), ("x_test", x_test)):
        if not np.isfinite(samples).all():
            row = int(np.argwhere(~np.isfinite(samples.reshape(len(samples), -1)).all(axis=1))[0, 0])
            raise InputError(f"{name}: {key}[{row}] holds a value that is not finite")
    mean, deviation = column_statistics(x.reshape(-1, x.shape[-1]))
    how_scaled = ArrayPreprocessing.standardised(x.shape[1:], mean, deviation, layout=layout)
    return _float32((x - mean) / deviation), _float32((x_test - mean) / deviation), how_scaled


def _float32(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # what is too large is told by its place
        return np.ascontiguousarray(x, dtype=np.float32)
