"""Columns of tables, as Arrow holds them, from arrays: without pandas, which no round needs.

`pyarrow.array` loads pandas, a fifth of a second, to ask whether what it is given is of its kinds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

# Types that lie in memory as Arrow's do, by numpy's characters.
_NUMBERS = {character: pa.from_numpy_dtype(np.dtype(character)) for character in "bhilqBHILQfd"}
_SHORT = 2**29  # letters that take fewer than 2**31 bytes, each up to four


def column_of(values: np.ndarray) -> pa.Array:
    """A column of these values, bit for bit that which `pyarrow.array` makes of them; NaN is what is missing.

    It stays what it is when the array is changed afterwards.
    """
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.isnative:
        kind, number = values.dtype.kind, _NUMBERS.get(values.dtype.char)
        if number is not None:
            there = values == values if kind == "f" else None  # NaN equals nothing
            marks = None if there is None or there.all() else _bits(there)
            return _made(number, len(values), marks, pa.py_buffer(values.copy()))
        if kind == "b":
            return _made(pa.bool_(), len(values), None, _bits(values))
        if kind in "UO":
            made = _text(values)
            if made is not None:
                return made
    if values.dtype.kind == "U":
        return pa.array(values, pa.large_string())
    return pa.array(values.copy(), from_pandas=True)


def _text(values: np.ndarray) -> pa.Array | None:
    """A column of texts; None where there is something else among them, or what to Arrow is the end of a text."""
    wide = values.dtype.kind == "U"
    texts = values.tolist()
    if not wide and (not texts or set(map(type, texts)) != {str}):
        return None
    joined = "".join(texts)
    if "\0" in joined or (not wide and len(joined) >= _SHORT):
        return None
    ends = np.zeros(len(texts) + 1, dtype=np.int64 if wide else np.int32)
    np.cumsum([*map(len, texts if joined.isascii() else map(str.encode, texts))], out=ends[1:])
    kind = pa.large_string() if wide else pa.string()
    return _made(kind, len(texts), None, pa.py_buffer(ends), pa.py_buffer(joined.encode()))


def _bits(truth: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truth, bitorder="little"))


def _made(kind: pa.DataType, length: int, *buffers: pa.Buffer | None) -> pa.Array:
    return pa.Array.from_buffers(kind, length, list(buffers))
