"""Files of SQLite whose writes are there whatever becomes of the process, or of the power."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from fedroam.errors import FedroamError, InputError

BESIDE = ("", "-wal", "-shm")  # what SQLite calls its files


class Database:
    """A file with a write-ahead log; a transaction is on the disk when it ends.

    Used by one thread at a time.
    """

    def __init__(self, path: Path, schema: str, tell: Callable[[str], None]) -> None:
        """Open or make the file. A damaged one is put aside, as NAME.damaged, which is told: what it held would have
        spared work, or saved an update, but its lack makes nothing wrong. Raises InputError where it cannot be
        written."""
        self.path = path
        try:
            self._own = self._opened(schema)
        except sqlite3.OperationalError as error:
            raise InputError(f"{path}: cannot be written ({error})") from None
        except sqlite3.DatabaseError as error:
            for end in BESIDE:
                with contextlib.suppress(FileNotFoundError):
                    path.with_name(path.name + end).replace(path.with_name(path.name + ".damaged" + end))
            tell(f"{path}: is damaged ({error}); it is put aside, and begun anew")
            self._own = self._opened(schema)

    def _opened(self, schema: str) -> sqlite3.Connection:
        own = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            own.execute("PRAGMA journal_mode = WAL")
            own.execute("PRAGMA synchronous = FULL")
            said = own.execute("PRAGMA quick_check").fetchone()[0]
            if said != "ok":
                raise sqlite3.DatabaseError(said)
            own.executescript(schema)
        except BaseException:
            own.close()
            raise
        return own

    def rows(self, select: str, *values: object) -> list[tuple[object, ...]]:
        """What a query finds."""
        found: list[tuple[object, ...]] = self._own.execute(select, values).fetchall()
        return found

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction. Raises FedroamError where it cannot be written."""
        try:
            with self._own:
                self._own.execute("BEGIN IMMEDIATE")
                yield self._own
        except sqlite3.Error as error:
            raise FedroamError(f"{self.path}: cannot be written ({error})") from None

    def close(self) -> None:
        """Close the file."""
        self._own.close()

    def delete(self) -> None:
        """Close the file, and delete it."""
        self.close()
        for end in BESIDE:
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
