"""Files of SQLite whose writes are there whatever becomes of the process, or of the power, and which say whose they
are."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from fedroam.errors import FedroamError, InputError

BESIDE = ("", "-wal", "-shm")  # what SQLite calls its files
OWNER = "CREATE TABLE owner (what TEXT PRIMARY KEY, sum TEXT NOT NULL) STRICT;"
MOVE = "move it away to go on without it"


class Database:
    """A file with a write-ahead log; a transaction is on the disk when it ends.

    Each table has a last column `sum`, by which a row that was changed on the disk is known: a check sum of its other
    columns, but for those of type BLOB, which must have one of their own among them. Several threads may write, one
    at a time: all goes over one connection, on which one would end another's transaction. Read by one thread at a time.
    """

    def __init__(self, path: Path, schema: str, owner: str, tell: Callable[[str], None]) -> None:
        """Open the file of an owner, or make it.

        A damaged one is put aside, as NAME.damaged, which is told: what it held would have spared work, or saved an
        update, but its lack makes nothing wrong. Raises InputError where the file is whole and another's, or has other
        tables, and where it cannot be written; it is left as it is then.
        """
        self.path = path
        self._lock = threading.Lock()
        self._schema = f"{schema}\n{OWNER}"
        if path.is_symlink():
            raise InputError(f"{path}: is a link; fedroam writes files of its own only: delete the link")
        try:
            self._own = self._opened(owner)
        except sqlite3.OperationalError as error:
            raise InputError(f"{path}: cannot be written ({error})") from None
        except sqlite3.DatabaseError as error:
            aside = self._put_aside()
            tell(f"{path}: is damaged ({error}); it is put aside, as {aside.name}, and begun anew")
            self._own = self._opened(owner)

    def _opened(self, owner: str) -> sqlite3.Connection:
        own = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            own.execute("PRAGMA trusted_schema = OFF")
            own.execute("PRAGMA synchronous = FULL")
            said = own.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if said != "ok":
                raise sqlite3.DatabaseError(said)
            there = _tables(own)
            if there and there != _wanted(self._schema):
                raise InputError(f"{self.path}: has other tables than this version of fedroam writes: {MOVE}")
            own.execute("PRAGMA journal_mode = WAL")
            if not there:  # at once, so that a kill leaves all of it or nothing
                own.executescript(f"BEGIN IMMEDIATE; {self._schema}")
                _put(own, "owner", owner)
                own.execute("COMMIT")
            for table in sorted(_wanted(self._schema)):
                _check(own, table)
            found = [what for (what,) in own.execute("SELECT what FROM owner")]
            if len(found) != 1:
                raise sqlite3.DatabaseError(f"it has {len(found)} owners")
            if found[0] != owner:
                raise InputError(f"{self.path}: is that of {found[0]}, not of {owner}: {MOVE}")
        except BaseException:
            own.close()
            raise
        return own

    def _put_aside(self) -> Path:
        """Rename the file and what SQLite has beside it, to a name that nothing has."""
        names = (f"{self.path.name}.damaged{'' if k == 1 else f'-{k}'}" for k in itertools.count(1))
        aside = next(each for each in map(self.path.with_name, names) if not each.exists())
        for end in BESIDE:
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(self.path.name + end).replace(aside.with_name(aside.name + end))
        return aside

    def rows(self, select: str, *values: object) -> list[tuple[object, ...]]:
        """What a query finds. Raises FedroamError where it cannot be read."""
        try:
            found: list[tuple[object, ...]] = self._own.execute(select, values).fetchall()
        except sqlite3.Error as error:
            raise FedroamError(f"{self.path}: cannot be read ({error})") from None
        return found

    @contextlib.contextmanager
    def writing(self) -> Iterator[Transaction]:
        """One transaction. Raises FedroamError where it cannot be written."""
        try:
            with self._lock, self._own:
                self._own.execute("BEGIN IMMEDIATE")
                yield Transaction(self._own)
        except sqlite3.Error as error:
            raise FedroamError(f"{self.path}: cannot be written ({error})") from None

    def close(self) -> None:
        """Close the file, after the transaction that another thread is in, if it is in one."""
        with self._lock:
            self._own.close()

    def delete(self) -> None:
        """Close the file, and delete it."""
        self.close()
        for end in BESIDE:
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)


class Transaction:
    """What is written at once, or not at all."""

    def __init__(self, own: sqlite3.Connection) -> None:
        self._own = own

    def put(self, table: str, *values: object, keep: bool = False) -> None:
        """Write a row, in the place of the one with its key; keep: unless there is one."""
        _put(self._own, table, *values, keep=keep)

    def execute(self, statement: str, *values: object) -> None:
        """Change something else."""
        self._own.execute(statement, values)


def _put(own: sqlite3.Connection, table: str, *values: object, keep: bool = False) -> None:
    marks = ", ".join("?" * (len(values) + 1))
    how = "IGNORE" if keep else "REPLACE"
    own.execute(f"INSERT OR {how} INTO {table} VALUES ({marks})", (*values, _sum(table, values)))


def _sum(table: str, values: tuple[object, ...]) -> str:
    """Of a row; what is no text and no number has a sum of its own beside it, or is not there."""
    return hashlib.sha256(
        repr((table, *(v for v in values if isinstance(v, str | int)))).encode()
    ).hexdigest()


def _check(own: sqlite3.Connection, table: str) -> None:
    """Hold each row of a table against its sum. Raises DatabaseError."""
    columns = [name for _, name, kind, *_ in own.execute(f"PRAGMA table_info({table})") if kind != "BLOB"]
    for *values, told in own.execute(f"SELECT {', '.join(columns)} FROM {table}"):
        if _sum(table, tuple(values)) != told:
            raise sqlite3.DatabaseError(f"a row of its table {table} is not what was written")


def _tables(own: sqlite3.Connection) -> dict[str, str]:
    """All that a file has beside what SQLite adds, by name: how it was made."""
    found = own.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    return {str(name): str(made) for name, made in found}


def _wanted(schema: str) -> dict[str, str]:
    """The same of a schema."""
    with contextlib.closing(sqlite3.connect(":memory:")) as own:
        own.executescript(schema)
        return _tables(own)
