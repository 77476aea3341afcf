"""Which format a file is of, by what stands in it; never a guess."""

from __future__ import annotations

import re
from pathlib import Path

from fedroam.data.sources.tables import unpacked
from fedroam.errors import InputError
from fedroam.traces.formats.ns2 import MOVES
from fedroam.traces.formats.reading import DAMAGE, UNREADABLE
from fedroam.traces.formats.sumo import ROOT

HEAD = 1 << 16  # bytes that are looked at
KNOWN = (
    "CSV (one header line, cells apart by --separator), Parquet (.parquet), SUMO FCD (<fcd-export>), GPX (<gpx>), ns-2 "
    "($node_(0) setdest), BonnMotion (.movements), The ONE (external movement); all but Parquet may be packed with gzip"
)
_PROLOGUE = re.compile(r"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(\[.*?\]\s*)?>|\s+", re.DOTALL)
_ROOTS = {ROOT: "sumo", "gpx": "gpx"}


def recognise(file: Path, separator: str = ",") -> str:
    """The format of a file, a key of `formats.FORMATS`. Raises InputError where none is sure."""
    if file.suffix == ".parquet":
        return "parquet"
    head = _head(file)
    if head.startswith(b"PAR1"):
        raise InputError(f"{file}: a Parquet file, its name must end in .parquet")
    table = ".csv" in file.suffixes
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = head.decode("utf-16" if wide else "utf-8-sig", errors="replace").lstrip()
    if not text and table:
        return "csv"
    if not text:
        raise InputError(f"{file}: empty; known are {KNOWN}")
    if "\0" in text:
        raise InputError(f"{file}: no text, and no known format; known are {KNOWN}")
    if text.startswith("<"):
        return _of_xml(file, text)
    lines = [line.strip() for line in text.splitlines()[: None if len(head) < HEAD else -1]]
    lines = [line for line in lines if line and not line.startswith("#")] or [text.splitlines()[0]]
    if any(line.startswith("$") and MOVES.search(line) for line in lines):
        return "ns2"
    if _is_one(lines):
        return "one"
    if ".movements" in file.suffixes:
        return "bonnmotion"
    if table or separator in lines[0]:
        return "csv"
    waypoints = all(_numbers(line) and len(line.split()) % 3 == 0 for line in lines)
    hint = "; if it is BonnMotion's, say --format bonnmotion" if waypoints else ""
    raise InputError(
        f"{file}: its first line ({lines[0][:40]!r}) fits no known format{hint}; known are {KNOWN}"
    )


def _head(file: Path) -> bytes:
    """The first bytes of a file; of a damaged one those before the damage, which its reader will tell of."""
    head = b""
    try:
        with unpacked(file) as raw:
            while len(head) < HEAD and (piece := raw.read(512)):
                head += piece
    except DAMAGE as error:
        if not head:
            raise InputError(f"{file}: {UNREADABLE} ({error})") from None
    return head


def _of_xml(file: Path, text: str) -> str:
    at = 0
    while found := _PROLOGUE.match(text, at):
        at = found.end()
    root = re.match(r"<(?:[\w.-]+:)?([\w.-]+)", text[at:])
    if root is None or root[1] not in _ROOTS:
        told = f"with the root <{root[1]}>" if root else "without a root in sight"
        raise InputError(f"{file}: XML {told}, known are <{ROOT}> (SUMO, --fcd-output) and <gpx>")
    return _ROOTS[root[1]]


def _is_one(lines: list[str]) -> bool:
    """Whether there is a header of three or four ranges, and a first fix within them."""
    if len(lines) < 2:
        return False
    limits = _numbers(lines[0])
    time, *rest = lines[1].split()
    place = _numbers(" ".join([time, *rest[1:]]))
    if len(limits) not in (6, 8) or len(place) not in (3, 4):
        return False
    return all(
        low <= value <= high for value, low, high in zip(place, limits[::2], limits[1::2], strict=False)
    )


def _numbers(line: str) -> list[float]:
    """The numbers of a line; none if it holds anything else."""
    try:
        return [float(word) for word in line.split()]
    except ValueError:
        return []
