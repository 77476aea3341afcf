"""The tables of an unfinished run, in pieces: one a table and checkpoint, and what vouches for them."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedroam.errors import FedroamError, InputError
from fedroam.recording import checkpoint
from fedroam.recording.files import (
    FileFacts,
    arrow_of,
    joined,
    read_json,
    settle,
    write_json,
    write_table,
)
from fedroam.recording.run import TABLES
from fedroam.writing import linked


class TablePieces:
    """The pieces below `unfinished/`, and for each table how many rows they hold and a chain of their SHA-256.

    The chain of a table is the SHA-256 over the chain so far and that of the next piece. So its length does not grow
    with the run, and a piece that was altered, lost, added or exchanged with another one breaks it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = dict.fromkeys(TABLES, 0)
        self.chains = dict.fromkeys(TABLES, "")
        self._begin_holding()

    def write(self, table: str, round: int, rows: pa.Table) -> None:
        """Write the rows of a table that came since the last piece."""
        with self._staying():
            facts = write_table(self.folder / f"{table}-{round:08d}.parquet", rows)
        self.rows[table] += len(rows)
        self.chains[table] = _linked(self.chains[table], facts)
        self._hold(table, rows)

    @contextlib.contextmanager
    def _staying(self) -> Iterator[None]:
        """The folder, made where it is not there. Raises FedroamError where it goes while something is put into it."""
        self.folder.mkdir(exist_ok=True)
        try:
            yield
        except FileNotFoundError:
            raise FedroamError(
                f"{self.folder}: was deleted or moved while the run was computing: {AGAIN}"
            ) from None

    def _begin_holding(self) -> None:
        self._held: dict[str, list[pa.Table]] | None = {name: [] for name in TABLES}
        self._room = HELD

    def _hold(self, table: str, rows: pa.Table) -> None:
        """Keep in memory what was written, while there is room; if there is not, it is read when it is needed."""
        if self._held is None:
            return
        self._room -= rows.nbytes
        self._held[table].append(rows)
        if self._room < 0:
            self._held = None

    def vouch(self, round: int) -> None:
        """Write the sums of all pieces up to a round, and flush to the disk that they and the pieces are there.

        To be called before the checkpoint of the round is written. Sums that no checkpoint needs any more are dropped.
        """
        with self._staying():
            write_json(self._sums(round), {"round": round, "chains": self.chains})
            if round > 0:  # before, nothing is lost that cannot be begun anew
                settle(self.folder)
        for old in sorted(self.folder.glob("sums-*.json"))[: -checkpoint.KEEP - 1]:
            old.unlink()

    def drop_after(self, round: int) -> None:
        """Delete the pieces and sums of later rounds: no checkpoint vouches for them."""
        for piece in [*self.folder.glob("*.parquet"), *self.folder.glob("sums-*.json")]:
            if _round(piece) > round:
                piece.unlink()

    def restore(self, rows: np.ndarray, round: int, summed: bool) -> None:
        """Go on from the checkpoint of a round that says how many rows each table has (in the order of `TABLES`;
        fewer where it is of a version with fewer tables), and whether there are sums. Pieces of later rounds do not
        count.

        Raises InputError where the pieces are not those.
        """
        self.rows = {**dict.fromkeys(TABLES, 0), **dict(zip(TABLES, rows.tolist(), strict=False))}
        self.chains = dict.fromkeys(TABLES, "")
        self._begin_holding()
        for table, expected in self.rows.items():
            found = 0
            for path, data in self._pieces(table, round):
                rows_there = arrow_of(data, path)
                self._hold(table, rows_there)
                found += len(rows_there)
            if found != expected:
                raise InputError(
                    f"{self.folder}: holds {found} rows of {table}, the checkpoint says {expected}; {AGAIN}"
                )
        if summed:
            sums = read_json(self._sums(round))
            if isinstance(sums, dict) and isinstance(sums.get("chains"), dict):
                # Sums of a version with fewer tables: of the others nothing may be there.
                sums["chains"] = {**dict.fromkeys(TABLES, ""), **sums["chains"]}
            if sums != {"round": round, "chains": self.chains}:
                raise InputError(
                    f"{self.folder}: the pieces of tables are not those that {self._sums(round).name} vouches for "
                    f"(SHA-256); {AGAIN}"
                )

    def _sums(self, round: int) -> Path:
        return self.folder / f"sums-{round:08d}.json"

    def write_whole(self, table: str, path: Path) -> FileFacts | None:
        """Write all rows of a table to `path`. Returns what a manifest says of the file; None where there are none.

        Raises FedroamError where the pieces are not what was written. A table of one piece is that very file, under
        another name: as good as written anew, for half the work of a short run's end is to write its tables.
        """
        written, found = self.chains[table], list[pa.Table]()
        last: tuple[Path, bytes] | None = None
        try:
            for last in self._pieces(table):
                piece, data = last
                if self._held is None:
                    found.append(arrow_of(data, piece))
        except InputError as error:
            raise FedroamError(f"{error}; it was altered while the run was computing: {AGAIN}") from None
        if self.chains[table] != written:
            raise FedroamError(
                f"{self.folder}: pieces of {table} were altered or deleted while the run was computing: {AGAIN}"
            )
        tables = found if self._held is None else self._held[table]
        if not tables or last is None:
            return None
        path.parent.mkdir(exist_ok=True)
        if len(tables) == 1 and linked(path, last[0]):
            return FileFacts.of(last[1])
        return write_table(path, joined(tables))

    def seconds(self) -> float:
        """Wall-clock seconds that the recorded rounds took, in this and earlier sessions."""
        found = list(self._paths("rounds"))[-1:]
        return float(arrow_of(found[0].read_bytes(), found[0])["seconds"][-1].as_py()) if found else 0.0

    def _paths(self, table: str) -> list[Path]:
        return sorted(self.folder.glob(f"{table}-*.parquet"))

    def _pieces(self, table: str, until: int | None = None) -> Iterator[tuple[Path, bytes]]:
        """Each piece of a table in its order, with what is in it; afterwards its chain is that of what was read."""
        chain = ""
        for path in self._paths(table):
            if until is not None and _round(path) > until:
                break
            data = path.read_bytes()
            chain = _linked(chain, FileFacts.of(data))
            yield path, data
        self.chains[table] = chain


HELD = 2**20  # bytes of tables that are held in memory: short runs need not read what they have written
AGAIN = "begin anew with --fresh"


def _round(piece: Path) -> float:
    """The round that a piece was written in; infinite where its name tells none."""
    number = piece.stem.rpartition("-")[2]
    return int(number) if number.isdecimal() else math.inf


def _linked(chain: str, facts: FileFacts) -> str:
    """The chain with one more piece."""
    return hashlib.sha256(f"{chain}{facts.sha256}".encode()).hexdigest()
