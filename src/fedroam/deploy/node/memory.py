"""What a peer or an access point remembers when it is killed: its models, and what it may take and give in this
round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fedroam.deploy.database import Database
from fedroam.deploy.messages import sum_of

FILE = "memory.sqlite"
SCHEMA = """
CREATE TABLE model (name TEXT PRIMARY KEY, body BLOB NOT NULL, sum TEXT NOT NULL) STRICT;
CREATE TABLE own (kind TEXT PRIMARY KEY, name TEXT NOT NULL, sum TEXT NOT NULL) STRICT;
CREATE TABLE allowed (
    holder INTEGER, model TEXT, puts INTEGER, sum TEXT NOT NULL, PRIMARY KEY (holder, model, puts)
) STRICT;
CREATE TABLE said (what TEXT PRIMARY KEY, value TEXT NOT NULL, sum TEXT NOT NULL) STRICT;
"""


class Memory:
    """A node's file. What a method has written is there whatever becomes of the process.

    Models are known by their SHA-256, so that the same one, taken again, is the same one. models, own, said, allowed:
    what was there at the beginning; a model that its name does not fit is left out. Its methods may be called from
    several threads.
    """

    def __init__(self, path: Path, owner: str, tell: Callable[[str], None]) -> None:
        self._file = Database(path, SCHEMA, owner, tell)
        self.models, self.own, self.said = dict[str, bytes](), dict[str, str](), dict[str, str]()
        for name, body in self._file.rows("SELECT name, body FROM model"):
            if isinstance(body, bytes) and sum_of(body) == name:
                self.models[str(name)] = body
        self.own = {
            str(k): str(v) for k, v in self._file.rows("SELECT kind, name FROM own") if v in self.models
        }
        self.said = {str(k): str(v) for k, v in self._file.rows("SELECT what, value FROM said")}
        rows = self._file.rows("SELECT holder, model, puts FROM allowed")
        self.allowed = [(int(str(holder)), str(model), bool(puts)) for holder, model, puts in rows]

    def keep(self, name: str, body: bytes, own: str = "") -> None:
        """Keep a model, under what it is to the node, if anything."""
        with self._file.writing() as now:
            now.put("model", name, body)
            if own:
                now.put("own", own, name)

    def stay(self, models: Mapping[str, str]) -> None:
        """What models that are here already are to the node from now on."""
        with self._file.writing() as now:
            for own, name in models.items():
                now.put("own", own, name)

    def allow(self, grants: Iterable[tuple[int, str, bool]]) -> None:
        """Add to what is allowed in this round."""
        with self._file.writing() as now:
            for holder, model, puts in grants:
                now.put("allowed", holder, model, int(puts))

    def begin(self, session: str) -> None:
        """Another round, of this session of the server: others' models, what was allowed and the secret of receipts are
        let go of."""
        with self._file.writing() as now:
            now.execute("DELETE FROM allowed")
            now.execute("DELETE FROM model WHERE name NOT IN (SELECT name FROM own)")
            now.execute("DELETE FROM said WHERE what = 'secret'")
            now.put("said", "session", session)

    def say(self, what: str, value: str) -> None:
        """Keep a fact."""
        with self._file.writing() as now:
            now.put("said", what, value)

    def close(self, *, done: bool) -> None:
        """Close the file; done: the run has come to its end, and needs it no more."""
        (self._file.delete if done else self._file.close)()
