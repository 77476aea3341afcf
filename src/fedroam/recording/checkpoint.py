"""Checkpoints: one safetensors file with every array of a run's state, checked when it is read back."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fedroam.errors import InputError
from fedroam.facts import json_object
from fedroam.recording.files import settle
from fedroam.writing import write_aside

KEEP = 2  # the newest, and the one before it should the newest be lost to a failing disk
# Bytes from which on an array whose rows are all the same is written as one of them, as the models of all clients are
# before the first round.
LARGE = 2**20
NOT_YET = 64 * "?"  # stands where the sum will, which is as long
MOST_ROWS = 2**24  # of an array that is written as one of its rows


def _sum(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 (hex) over the facts of the header and over names, types, shapes and bytes of the arrays."""
    total = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}{array.dtype}{array.shape}".encode())
        total.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return total.hexdigest()


def _crc32(arrays: Mapping[str, np.ndarray]) -> str:
    """CRC-32 over names, types, shapes and bytes: what checkpoints of fedroam 0.1.0 were summed by."""
    crc = 0
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        crc = zlib.crc32(f"{name}{array.dtype}{array.shape}".encode(), crc)
        crc = zlib.crc32(array.reshape(-1).view(np.uint8).data if array.size else b"", crc)
    return f"{crc:08x}"


def _alike(array: np.ndarray) -> bool:
    """Whether all rows of a contiguous array are the same, bit by bit."""
    rows = array.reshape(len(array), -1).view(np.uint8)
    at_once = max(1, LARGE // rows.shape[1])
    return all((rows[k : k + at_once] == rows[0]).all() for k in range(1, len(rows), at_once))


def _repeated(arrays: dict[str, np.ndarray], rows: Mapping[str, Any]) -> None:
    """Give those arrays that were written as one row all their rows again. Raises ValueError or KeyError."""
    for name, count in rows.items():
        if len(arrays[name]) != 1 or type(count) is not int or not 1 <= count <= MOST_ROWS:
            raise ValueError(f"{name}: {count!r} rows made of {len(arrays[name])}")
        arrays[name] = np.repeat(arrays[name], count, axis=0)


def _write(path: Path, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write the file. The sum is found while the arrays are being written, and put into the header then: either takes
    half a second for each GB."""
    # One metadata entry: the writer does not keep the order of several, and equal runs must give equal files.
    metadata = {"fedroam": json.dumps({**facts, "sha256": NOT_YET}, sort_keys=True)}
    with ThreadPoolExecutor(1) as beside:
        found = beside.submit(_sum, facts, arrays)
        save_file(dict(arrays), path, metadata=metadata)
    with path.open("r+b") as file:
        header = file.read(int.from_bytes(file.read(8), "little"))
        file.seek(8 + header.index(NOT_YET.encode()))
        file.write(found.result().encode())


def save(folder: Path, round: int, digest: str, arrays: Mapping[str, np.ndarray]) -> Path:
    """Write the checkpoint of a round (numeric and bool arrays by name) and drop all but the newest ones."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"round-{round:08d}.safetensors"
    written = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    facts: dict[str, Any] = {"round": round, "digest": digest}
    large = [name for name, array in written.items() if array.nbytes >= LARGE and array.ndim > 1]
    rows = {name: len(written[name]) for name in large if _alike(written[name])}
    if rows:
        facts["rows"] = rows
        written.update({name: written[name][:1] for name in rows})
    write_aside(path, lambda aside: _write(aside, facts, written))
    if round > 0:  # a run of no rounds may as well begin anew
        settle(folder)  # before older ones are dropped
    prune(folder)
    return path


def prune(folder: Path) -> None:
    """Delete all checkpoints but the newest ones."""
    for old in sorted(folder.glob("round-*.safetensors"))[:-KEEP]:
        old.unlink()


def kept(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest last."""
    return sorted(p for p in folder.glob("round-*.safetensors") if re.fullmatch(r"round-\d{8}", p.stem))


def newest(folder: Path) -> Path | None:
    """The newest checkpoint in a folder, or None."""
    return next(reversed(kept(folder)), None)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds: the round it was made after, the arrays of the state, and whether sums of the pieces
    of tables lie beside them (not where fedroam 0.1.0 wrote it).
    """

    round: int
    arrays: dict[str, np.ndarray]
    summed: bool


def load(path: Path, digest: str) -> Checkpoint:
    """Read a checkpoint; InputError where it is damaged, of another round than its name says, or of another
    experiment than the one with this digest.
    """
    older = sorted(path.parent.glob("round-*.safetensors"))[:-1]
    way_out = f"delete it to go on from {older[-1].name}" if older else "delete it to begin anew"
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            facts = json_object((file.metadata() or {})["fedroam"])
            summed = "sha256" in facts
            if summed:
                intact = facts.pop("sha256") == _sum(facts, arrays)
            else:
                intact = str(facts["crc32"]) == _crc32(arrays)
            if intact:
                _repeated(arrays, facts.get("rows", {}))
            round, found = int(facts["round"]), str(facts["digest"])
    except (
        SafetensorError,
        OSError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        MemoryError,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: damaged checkpoint ({reason}); {way_out}") from None
    if not intact:
        raise InputError(f"{path}: damaged checkpoint (its check sum does not match); {way_out}")
    if path.name != f"round-{round:08d}.safetensors":
        raise InputError(f"{path}: damaged checkpoint (it is of round {round}, not of its name's); {way_out}")
    if found != digest:
        raise InputError(
            f"{path}: checkpoint of another experiment (digest {found[:12]}, this one is {digest[:12]}); "
            "choose another --out"
        )
    return Checkpoint(round, arrays, summed)
