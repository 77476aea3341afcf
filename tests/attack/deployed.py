"""What nodes and the server of a network read from their disks: what they remember, and what asks for a certificate."""

from __future__ import annotations

import contextlib
import functools
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedroam.deploy.database import BESIDE
from fedroam.deploy.messages import sum_of
from fedroam.deploy.node.memory import FILE as MEMORY
from fedroam.deploy.node.memory import Memory
from fedroam.deploy.server.journal import FILE as ARRIVED
from fedroam.deploy.server.journal import Journal
from fedroam.deploy.site import enrolling
from fedroam.deploy.site.file import AUTHORITY, AUTHORITY_KEY, CERTIFICATE, FILE, NODES, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.deploy.site.identity import identity_of
from fedroam.errors import InputError
from support.tiny import tiny

NODE, RUN = "peer-00 of site site in run x", "a" * 64
MODELS = [bytes([k]) * 3000 for k in range(4)]
SESSIONS = ("a 1", "a 2", "a 3")
DIGESTS = [letter * 64 for letter in "abcd"]
AWAY = np.array([4, 7])
Draws = np.random.Generator
Files = dict[str, bytes]  # by what SQLite calls the file: "", "-wal", "-shm"


class Another(Exception):
    """What is read is not what was written."""


def _files(path: Path) -> Files:
    named = {end: path.with_name(path.name + end) for end in BESIDE}
    return {end: each.read_bytes() for end, each in named.items() if each.exists()}


def _made(name: str, write: Callable[[Path], Callable[[], None]], *, killed: bool) -> Files:
    """The files that somebody writes who closes them, or is killed."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / name
        close = write(path)
        if killed:
            found = _files(path)
            close()
            return found
        close()
        return _files(path)


def _remember(path: Path) -> Callable[[], None]:
    memory = Memory(path, NODE, lambda line: None)
    for k, session in enumerate(SESSIONS):
        memory.begin(session)
        memory.keep(sum_of(MODELS[k]), MODELS[k], f"learnt {k}")
        memory.keep(sum_of(MODELS[3]), MODELS[3])
        memory.allow([(k, sum_of(MODELS[k]), True), (9, sum_of(MODELS[3]), False)])
        memory.say("port", str(4000 + k))
    return lambda: memory.close(done=False)


def _arrive(path: Path) -> Callable[[], None]:
    journal = Journal(path.parent, RUN, lambda line: None)
    journal.order()
    for round, digest in enumerate(DIGESTS, start=1):
        journal.away(round, AWAY)
        journal.keep(1, round, digest, MODELS[round - 1])
        journal.lose(2, round, digest)
    return lambda: journal.close(done=False)


@functools.cache
def remembered(*, killed: bool = False) -> Files:
    """What a peer has on its disk."""
    return _made(MEMORY, _remember, killed=killed)


@functools.cache
def arrived(*, killed: bool = False) -> Files:
    """What the server has on its disk."""
    return _made(ARRIVED, _arrive, killed=killed)


def _laid(folder: Path, name: str, files: Files) -> Path:
    for end, data in files.items():
        (folder / f"{name}{end}").write_bytes(data)
    return folder / name


def remember_again(folder: Path, files: Files) -> None:
    """Begin a peer anew with these files; raises `Another` where it remembers what was never so."""
    lines: list[str] = []
    path = _laid(folder, MEMORY, files)
    memory = Memory(path, NODE, lines.append)
    known = {sum_of(body): body for body in MODELS}
    allowed = {(k, sum_of(MODELS[k]), True) for k in range(3)} | {(9, sum_of(MODELS[3]), False)}
    said = {("session", each) for each in SESSIONS} | {("port", str(4000 + k)) for k in range(3)}
    own = {(f"learnt {k}", sum_of(MODELS[k])) for k in range(3)}
    sound = memory.models.items() <= known.items() and set(memory.allowed) <= allowed
    if not (sound and memory.said.items() <= said and memory.own.items() <= own):
        raise Another("what a peer remembers was never so")
    _told(folder, lines, MEMORY)
    memory.begin("a 4")
    memory.keep(sum_of(MODELS[0]), MODELS[0], "made")
    memory.close(done=False)
    again = Memory(path, NODE, lines.append)
    if again.models.get(sum_of(MODELS[0])) != MODELS[0] or again.said["session"] != "a 4" or again.allowed:
        raise Another("what was written is not there")
    again.close(done=True)


def go_on(folder: Path, files: Files) -> None:
    """Begin the server anew with these files; raises `Another` where it knows what was never so."""
    lines: list[str] = []
    _laid(folder, ARRIVED, files)
    journal = Journal(folder, RUN, lines.append)
    for round, digest in enumerate(DIGESTS, start=1):
        if journal.found(1, round, digest) not in ((True, MODELS[round - 1]), (False, None)):
            raise Another("an answer that was never given")
        if journal.found(2, round, digest) not in ((True, None), (False, None)):
            raise Another("an answer that was lost has come")
        if journal.found(3, round, digest) != (False, None):
            raise Another("an answer of somebody who was not asked")
        if journal.away(round, np.array([1])).tolist() not in ([4, 7], [1]):
            raise Another("others are away")
    _told(folder, lines, ARRIVED)
    journal.keep(3, 9, DIGESTS[0], MODELS[0])
    name = journal.order()
    journal.close(done=False)
    again = Journal(folder, RUN, lines.append)
    if again.found(3, 9, DIGESTS[0]) != (True, MODELS[0]) or again.order() == name:
        raise Another("what was written is not there")
    again.close(done=True)


def _told(folder: Path, lines: list[str], name: str) -> None:
    """Whatever is begun anew is told in a line, and kept."""
    damaged = [line for line in lines if "is damaged" in line]
    if (len(damaged) == 1) != (folder / f"{name}.damaged").exists() or len(damaged) > 1:
        raise Another("a file is begun anew, and nobody is told")


def in_sqlite(draws: Draws, data: bytes) -> bytes:
    """A row is lost, changed or repeated in another table's place, a table gets another name, or there is more."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "case.sqlite"
        path.write_bytes(data)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as own:
            own.execute("PRAGMA journal_mode = DELETE")
            tables = [name for (name,) in own.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = tables[int(draws.integers(0, len(tables)))]
            columns = [name for _, name, *_ in own.execute(f"PRAGMA table_info({table})")]
            column = columns[int(draws.integers(0, len(columns)))]
            row = f"rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET {int(draws.integers(0, 4))})"
            values = ("0", "-1", "9e18", "'x'", "NULL", "x'ff'", "CAST(x'ff' AS TEXT)", f"{column} || '0'")
            other = columns[int(draws.integers(0, len(columns)))]
            ways = (
                f"DELETE FROM {table} WHERE {row}",
                f"DELETE FROM {table}",
                f"UPDATE {table} SET {column} = {values[int(draws.integers(0, len(values)))]} WHERE {row}",
                f"UPDATE {table} SET {column} = {other} WHERE {row}",
                f"ALTER TABLE {table} RENAME TO t{table}",
                f"ALTER TABLE {table} RENAME COLUMN {column} TO c{column}",
                f"ALTER TABLE {table} ADD COLUMN more TEXT",
                f"DROP TABLE {table}",
                f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
                f"CREATE VIEW v AS SELECT * FROM {table}",
                "CREATE TABLE more (x)",
                "PRAGMA user_version = 7",
                "PRAGMA encoding = 'UTF-16'; PRAGMA page_size = 512; VACUUM",
            )
            with contextlib.suppress(sqlite3.Error):  # what the schema does not take
                own.executescript(ways[int(draws.integers(0, len(ways)))])
        return path.read_bytes()


# --- certificates -------------------------------------------------------------------------------------------------


@functools.cache
def awaiting() -> tuple[Path, bytes, bytes]:
    """A site that awaits client-00, its ticket, and what it asks for."""
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    found_site(home / "lab", tiny(federation="fedavg", clients=2), address="127.0.0.1:1", keys_at_nodes=True)
    ticket = enrolling.allow(home / "lab", "client-00", hours=1000.0).read_bytes()
    board = home / "board" / NODES / "client-00"
    board.mkdir(parents=True)
    (board / enrolling.TICKET).write_bytes(ticket)
    return home / "lab", ticket, enrolling.request_certificate(home / "board", "client-00").read_bytes()


def _here(folder: Path) -> Path:
    lab = awaiting()[0]
    for name in (FILE, AUTHORITY, AUTHORITY_KEY):
        shutil.copy(lab / name, folder / name)
    shutil.copytree(lab / enrolling.AWAITED, folder / enrolling.AWAITED)
    return folder


def sign(folder: Path, request: bytes) -> None:
    """Sign a request, if it may be; raises `Another` where something else is granted, or something is left behind."""
    _here(folder)
    before = (folder / FILE).read_bytes()
    try:
        enrolling.sign_request(folder, "client-00", request, "case", 1.0)
    except InputError:
        if (folder / FILE).read_bytes() != before or (folder / NODES).exists():
            raise Another("a request that was refused has changed something") from None
        raise
    own = identity_of((folder / NODES / "client-00" / CERTIFICATE).read_bytes())
    node = read_site(folder / FILE).node("client-00")
    assert node is not None
    if (own.site, own.role, own.name, own.serial) != ("site", "client", "client-00", node.serial):
        raise Another("a certificate of somebody else")


def ask(folder: Path, ticket: bytes) -> None:
    """Ask by a ticket, and for whatever is asked; raises `Another` as `sign`."""
    home = folder / "board" / NODES / "client-00"
    home.mkdir(parents=True)
    (home / enrolling.TICKET).write_bytes(ticket)
    request = enrolling.request_certificate(folder / "board", "client-00").read_bytes()
    (folder / "lab").mkdir()
    sign(folder / "lab", request)
