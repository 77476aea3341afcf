"""Seeded damage: valid bytes in, bytes out that are wrong in one to three places.

Everything is drawn from the generator that is handed over, so that a case is found again by its seed and number.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import safe_open
from safetensors.numpy import save as save_tensors

Draws = np.random.Generator
Mutation = Callable[[Draws, bytes], bytes]

TOKEN = re.compile(rb"[^\s,;=\[\]{}()\"'<>]+")
LONG = 100_000  # characters: more than any name or number, less than what a file may have
# What a reader may not expect where it expects a word or a number.
EXTREMES: tuple[bytes, ...] = (
    b"", b"nan", b"NaN", b"inf", b"-inf", b"1e309", b"-1e309", b"1e308", b"5e-324", b"-0", b"-1", b"0", b"0.5",
    b"9223372036854775808", b"18446744073709551616", b"-9223372036854775809", b"2147483648", b"1_000", b"0x10",
    b"9" * 400, b"9" * 5000, b"1e9", b"1e300", b"true", b"null", b"[]", b"{}", b"[[]]", b'"', b"'", b"\\", b"%",
    b"a" * LONG, b"\0", b"\x1b[31m", b"\r", b"\n", b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x80\xae", b"../../etc/passwd",
    b"/dev/zero", b"9999-12-31T23:59:59Z", b"0000-00-00", b"1e", b"--", b"+", b"1,5", b"&lol;", b"<x>", b"#", b"=",
    b"[" * 3000, b"{" * 3000, b"[" * 3000 + b"]" * 3000, b"{a=" * 1000,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**400, 0.5, -0.0, 1e308, 5e-324, float("nan"),
    float("inf"), "", "nan", "x" * LONG, "a\nb", "\x1b[31m", "\0", "../x", [], {}, [[]], [0], ["x"], {"x": 1},
    [None], [[[[[1]]]]], [1] * 1000,
)  # fmt: skip


def _at(draws: Draws, data: Sequence[Any]) -> int:
    return int(draws.integers(0, max(1, len(data))))


def _piece(draws: Draws, data: bytes) -> tuple[int, int]:
    """A stretch, mostly short."""
    begin = _at(draws, data)
    return begin, min(len(data), begin + int(2 ** draws.uniform(0, 8)))


def flip(draws: Draws, data: bytes) -> bytes:
    """One bit is another."""
    if not data:
        return b"\1"
    at = _at(draws, data)
    return data[:at] + bytes([data[at] ^ (1 << int(draws.integers(0, 8)))]) + data[at + 1 :]


def _delete(draws: Draws, data: bytes) -> bytes:
    begin, end = _piece(draws, data)
    return data[:begin] + data[end:]


def _insert(draws: Draws, data: bytes) -> bytes:
    begin, end = _piece(draws, data)
    return data[:begin] + draws.bytes(end - begin) + data[begin:]


def _overwrite(draws: Draws, data: bytes) -> bytes:
    begin, end = _piece(draws, data)
    kind = draws.integers(0, 3)
    filled = b"\0" if kind == 0 else b"\xff"
    return data[:begin] + (draws.bytes(end - begin) if kind == 2 else filled * (end - begin)) + data[end:]


def _duplicate(draws: Draws, data: bytes) -> bytes:
    begin, end = _piece(draws, data)
    return data[:end] + data[begin:end] * int(draws.integers(1, 50)) + data[end:]


def _truncate(draws: Draws, data: bytes) -> bytes:
    return data[: _at(draws, data)]


def _token(draws: Draws, data: bytes) -> bytes:
    found = list(TOKEN.finditer(data))
    if not found:
        return data + EXTREMES[_at(draws, EXTREMES)]
    one = found[_at(draws, found)]
    return data[: one.start()] + EXTREMES[_at(draws, EXTREMES)] + data[one.end() :]


def _every_such_token(draws: Draws, data: bytes) -> bytes:
    """All occurrences of a word become another, so that what has to agree still agrees."""
    found = TOKEN.findall(data)
    if not found:
        return data
    return data.replace(found[_at(draws, found)], EXTREMES[_at(draws, EXTREMES)])


def _number(draws: Draws, data: bytes) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not found:
        return _token(draws, data)
    one = found[_at(draws, found)]
    factor = float(draws.choice([-1, 0, 0.5, 2, 1e3, 1e6, 1e12, 1e30, 1e300]))
    return data[: one.start()] + f"{float(one.group()) * factor:g}".encode() + data[one.end() :]


def _lines(draws: Draws, data: bytes) -> bytes:
    """Two lines change places, or one is doubled, lost, or given the end of another."""
    lines = data.split(b"\n")
    a, b = _at(draws, lines), _at(draws, lines)
    kind = draws.integers(0, 4)
    if kind == 0:
        lines[a], lines[b] = lines[b], lines[a]
    elif kind == 1:
        lines.insert(a, lines[b])
    elif kind == 2:
        del lines[a]
    else:
        lines[a] = lines[a][: len(lines[a]) // 2] + lines[b][len(lines[b]) // 2 :]
    return b"\n".join(lines)


BYTES: tuple[Mutation, ...] = (flip, flip, _delete, _insert, _overwrite, _duplicate, _truncate)
TEXT: tuple[Mutation, ...] = (_token, _token, _token, _every_such_token, _number, _number, _lines, _lines)


def in_json(draws: Draws, data: bytes) -> bytes:
    """A value somewhere in JSON becomes another, is lost, renamed, or wrapped."""
    value = json.loads(data)
    places: list[tuple[Any, Any]] = []

    def visit(owner: Any) -> None:
        for key in owner if isinstance(owner, dict) else range(len(owner)):
            places.append((owner, key))
            if isinstance(owner[key], dict | list):
                visit(owner[key])

    if not isinstance(value, dict | list) or not value:
        return _token(draws, data)
    visit(value)
    owner, key = places[_at(draws, places)]
    kind = draws.integers(0, 6)
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(owner, dict):
        owner[key + "x"] = owner.pop(key)
    elif kind == 2:
        owner[key] = [owner[key]]
    elif kind == 3:
        other, its = places[_at(draws, places)]
        owner[key] = json.loads(json.dumps(other.get(its) if isinstance(other, dict) else None))
    else:
        owner[key] = VALUES[_at(draws, VALUES)]
    return json.dumps(value).encode()


def _values(draws: Draws, array: np.ndarray) -> np.ndarray:
    """The same array with another type, shape, length or value."""
    kind = draws.integers(0, 8)
    if kind == 0:
        return array.astype(draws.choice(["f2", "f4", "f8", "i1", "i2", "i8", "u1", "u8", "?"]))
    if kind == 1:
        return array.reshape(-1)
    if kind == 2:
        return array[..., None]
    if kind == 3:
        return array[: len(array) // 2] if array.ndim else array
    if kind == 4:
        return array[:0] if array.ndim else array
    if kind == 5:
        return np.concatenate([array, array]) if array.ndim else array
    if kind == 6:
        return array.T
    changed = np.array(array, copy=True)
    if changed.size and changed.dtype.kind in "iufb":
        extreme = draws.choice([-1.0, 0.0, 1.0, 127.0, 2.0**31, 1e18, 1e300, np.nan, np.inf])
        with np.errstate(all="ignore"):
            changed.reshape(-1)[_at(draws, changed.reshape(-1))] = np.array(extreme).astype(changed.dtype)
    return changed


def _in_arrays(draws: Draws, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = sorted(arrays)
    name = names[_at(draws, names)]
    kind = draws.integers(0, 6)
    if kind == 0:
        return {k: v for k, v in arrays.items() if k != name}
    if kind == 1:
        return {f"{k}x" if k == name else k: v for k, v in arrays.items()}
    if kind == 2:
        return {**arrays, name: arrays[names[_at(draws, names)]]}
    with np.errstate(all="ignore"):
        return {**arrays, name: _values(draws, arrays[name])}


def in_npz(draws: Draws, data: bytes) -> bytes:
    """An array of an .npz file is another, lost or renamed."""
    with np.load(io.BytesIO(data)) as content:
        arrays = {name: content[name] for name in content.files}
    target = io.BytesIO()
    np.savez(target, **_in_arrays(draws, arrays))
    return target.getvalue()


def in_tensors(draws: Draws, data: bytes) -> bytes:
    """A tensor of a safetensors file is another, lost or renamed."""
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(data)
        file.flush()
        with safe_open(file.name, framework="numpy") as content:
            arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
            facts = content.metadata()
    changed = {name: np.ascontiguousarray(array) for name, array in _in_arrays(draws, arrays).items()}
    return bytes(save_tensors(changed, facts))


def in_parquet(draws: Draws, data: bytes) -> bytes:
    """A column of a Parquet file is of another type, lost, renamed, has extremes; or the metadata are others."""
    table = pq.read_table(io.BytesIO(data))
    at = _at(draws, table.column_names)
    name, column = table.column_names[at], table.column(at).combine_chunks()
    kind = draws.integers(0, 8)
    if kind == 0:
        table = table.remove_column(at)
    elif kind == 1:
        table = table.rename_columns([f"{n}x" if n == name else n for n in table.column_names])
    elif kind == 2:
        table = table.set_column(at, name, pa.nulls(len(table)))
    elif kind == 3:
        table = table.set_column(at, name, pa.array([str(v) for v in column.to_pylist()]))
    elif kind == 4:
        table = table.set_column(at, name, pa.array([[v] for v in column.to_pylist()]))
    elif kind == 5:
        table = table.slice(0, _at(draws, column))
    elif kind == 6 and table.schema.metadata:
        key = sorted(table.schema.metadata)[_at(draws, table.schema.metadata)]
        facts = {**table.schema.metadata, key: mutate(draws, table.schema.metadata[key], (in_json,))}
        table = table.replace_schema_metadata(facts)
    else:
        values = column.to_pylist()
        if values:
            some = _at(draws, values)
            extreme = draws.choice([-1.0, 1e18, 1e300, np.nan, np.inf, -np.inf])
            values[some] = None if draws.random() < 0.3 else float(extreme)
        try:
            changed = pa.array(values, column.type)
        except (pa.ArrowException, TypeError, ValueError):
            changed = pa.array([None, *column.to_pylist()[1:]], column.type) if values else column
        table = table.set_column(at, name, changed)
    target = io.BytesIO()
    pq.write_table(table, target, write_page_checksum=True)
    return target.getvalue()


def mutate(draws: Draws, data: bytes, ways: Sequence[Mutation], others: Sequence[bytes] = ()) -> bytes:
    """Damage in one to three places. ways: mutations that suit the format, beside those of bytes; others: files of
    the same format to splice with.
    """
    changed = data
    for _ in range(int(draws.choice([1, 1, 1, 2, 3]))):
        if others and draws.random() < 0.05:
            other = others[_at(draws, others)]
            changed = changed[: _at(draws, changed)] + other[_at(draws, other) :]
            continue
        pool: Sequence[Mutation] = ways if ways and draws.random() < 0.65 else BYTES
        try:
            changed = pool[_at(draws, pool)](draws, changed)
        except Exception:  # already too damaged for what reads it first: damage its bytes
            changed = flip(draws, changed)
    return changed
