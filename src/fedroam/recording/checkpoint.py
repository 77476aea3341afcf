"""Checkpoints: one safetensors file with every array of a run's state, checked when it is read back."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as made_in_memory

from fedroam.errors import FedroamError, InputError
from fedroam.facts import json_object
from fedroam.recording.files import SHORT, save_tensors, settle, write_bytes
from fedroam.writing import being_written

KEEP = 2  # the newest, and the one before it should the newest be lost to a failing disk
# Bytes from which on an array whose rows are all the same is written as one of them, as the models of all clients are
# before the first round.
LARGE = 2**20
BEGIN_ANEW = "delete the run's folder to begin anew, as --fresh of run and sweep does"
NOT_YET = 64 * "?"  # stands where the sum will, which is as long
MOST_ROWS = 2**24  # of an array that is written as one of its rows
BLOCK = 2**20  # bytes that are read back at a time


def _sum(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 (hex) over the facts of the header and over names, types, shapes and bytes of the arrays."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    bytes_of = {name: array.reshape(-1).view(np.uint8).data for name, array in whole.items() if array.size}
    return _sum_of(
        facts, {name: (_told(name, each), [bytes_of.get(name, b"")]) for name, each in whole.items()}
    )


def _sum_of(facts: Mapping[str, Any], arrays: Mapping[str, tuple[str, Iterable[bytes | memoryview]]]) -> str:
    """The same, of each array by its name: what is told of it, and its bytes, in blocks."""
    total = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(arrays):
        told, blocks = arrays[name]
        total.update(told.encode())
        for block in blocks:
            total.update(block)
    return total.hexdigest()


def _told(name: str, array: np.ndarray) -> str:
    return f"{name}{array.dtype}{array.shape}"


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


@dataclass
class Draft:
    """A checkpoint that does not count yet: it has no sum, and lies beside the place that it will have, not flushed to
    the disk, or in memory where it is short. It depends no more on the arrays that it was made of, so another thread
    can complete it while they change. What is not completed is deleted.
    """

    path: Path
    aside: Path | io.BytesIO
    facts: Mapping[str, Any]
    told: Mapping[str, str]  # of each array, as the sum says it
    _held: contextlib.ExitStack = field(repr=False)  # puts it into place

    def complete(self) -> Path:
        """Find its sum, flush it to the disk, put it into place, and drop all checkpoints but the newest ones."""
        if isinstance(self.aside, io.BytesIO):
            self._sum(self.aside)
            write_bytes(self.path, self.aside.getvalue())
        else:
            with self._held, self.aside.open("r+b") as file:
                self._sum(file)
        if self.facts["round"] > 0:  # a run of no rounds may as well begin anew
            settle(self.path.parent)  # before older ones are dropped
        prune(self.path.parent)
        return self.path

    def _sum(self, file: IO[bytes]) -> None:
        """Find the sum of what it holds, and say it there."""
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length)
        offsets = {
            name: each["data_offsets"] for name, each in json.loads(header).items() if name in self.told
        }
        blocks = {name: _blocks(file, 8 + length + a, b - a) for name, (a, b) in offsets.items()}
        total = _sum_of(self.facts, {name: (told, blocks[name]) for name, told in self.told.items()})
        file.seek(8 + header.index(NOT_YET.encode()))
        file.write(total.encode())

    def drop(self) -> None:
        """Delete it, unless it was completed."""
        with contextlib.suppress(_Dropped), self._held:
            raise _Dropped


class _Dropped(Exception):
    """Ends a draft without putting it into place."""


def _blocks(file: IO[bytes], start: int, size: int) -> Iterator[bytes]:
    """The bytes of a part of a file, some at a time. Raises FedroamError where it ends before."""
    file.seek(start)
    for left in range(size, 0, -BLOCK):
        block = file.read(min(BLOCK, left))
        if len(block) < min(BLOCK, left):
            raise FedroamError(f"{file.name}: was cut off by something else while it was written")
        yield block


def draft(folder: Path, round: int, digest: str, arrays: Mapping[str, np.ndarray]) -> Draft:
    """Begin the checkpoint of a round: numeric and bool arrays by name, which are written here and may change after."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"round-{round:08d}.safetensors"
    written = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    facts: dict[str, Any] = {"round": round, "digest": digest}
    large = [name for name, array in written.items() if array.nbytes >= LARGE and array.ndim > 1]
    rows = {name: len(written[name]) for name in large if _alike(written[name])}
    if rows:
        facts["rows"] = rows
        written.update({name: written[name][:1] for name in rows})
    # One metadata entry: the writer does not keep the order of several, and equal runs must give equal files.
    metadata = {"fedroam": json.dumps({**facts, "sha256": NOT_YET}, sort_keys=True)}
    told = {name: _told(name, array) for name, array in written.items()}
    if sum(array.nbytes for array in written.values()) <= SHORT:
        return Draft(
            path, io.BytesIO(made_in_memory(written, metadata=metadata)), facts, told, contextlib.ExitStack()
        )
    with contextlib.ExitStack() as held:
        aside = held.enter_context(being_written(path))
        save_tensors(written, aside, metadata)
        return Draft(path, aside, facts, told, held.pop_all())


def save(folder: Path, round: int, digest: str, arrays: Mapping[str, np.ndarray]) -> Path:
    """Write the checkpoint of a round (numeric and bool arrays by name) and drop all but the newest ones."""
    return draft(folder, round, digest, arrays).complete()


def prune(folder: Path) -> None:
    """Delete all checkpoints but the newest ones."""
    for old in sorted(folder.glob("round-*.safetensors"))[:-KEEP]:
        old.unlink()


def kept(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest last."""
    return sorted(p for p in folder.glob("round-*.safetensors") if re.fullmatch(r"round-\d{8}", p.stem))


def lost(folder: Path, round: int) -> str:
    """What is wrong where a run says that it was made safe up to a round and its checkpoints do not reach it; empty
    where they do. A run that was ended before its first one has lost nothing."""
    there = kept(folder)
    reached = int(there[-1].stem.removeprefix("round-")) if there else 0
    if reached >= round:
        return ""
    found = f"the newest is {there[-1].name}" if there else "there is none"
    return f"{folder}: the checkpoint of round {round}, which run.json tells of, is missing; {found}"


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
    way_out = f"delete it to go on from {older[-1].name}" if older else BEGIN_ANEW
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
