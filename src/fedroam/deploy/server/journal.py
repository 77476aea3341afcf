"""What has reached the server in rounds that no checkpoint holds yet, so that a kill loses nothing of it.

A run that goes on after a kill begins again at its newest checkpoint, and asks the same as before: movement, jobs and
models depend on nothing else. What the journal has of an answer, or of the fact that there was none, is not asked
again. So an update that was taken is aggregated once, whether its sender is still there or not, and one that counted
as not arrived does not arrive later. A round in which the work of all has failed ends the run, and counts for nothing.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedroam.deploy.database import Database
from fedroam.deploy.messages import sum_of
from fedroam.recording.checkpoint import kept

FILE = "arrived.sqlite"
BLOCK = 10_000  # numbers of orders that are set aside at once
SCHEMA = """
CREATE TABLE answer (
    node INTEGER, round INTEGER, digest TEXT, sha256 TEXT NOT NULL, body BLOB, sum TEXT NOT NULL,
    PRIMARY KEY (node, round, digest)
) STRICT;
CREATE TABLE begun (round INTEGER PRIMARY KEY, away TEXT NOT NULL, sum TEXT NOT NULL) STRICT;
CREATE TABLE orders (session TEXT PRIMARY KEY, number INTEGER NOT NULL, sum TEXT NOT NULL) STRICT;
"""


class Journal:
    """The journal of a run, in its folder; it is opened when it is first needed, and goes with the end of the run.

    digest: of the run. Called from several threads.
    """

    def __init__(self, folder: Path, digest: str, tell: Callable[[str], None]) -> None:
        self._folder, self._digest, self._tell = folder, digest, tell
        self._opened: Database | None = None
        self._lock = threading.Lock()
        self._session, self._number, self._last = "", 0, 0

    @property
    def _file(self) -> Database:
        """The file; called under the lock."""
        if self._opened is None:
            self._opened = Database(self._folder / FILE, SCHEMA, f"run {self._digest}", self._tell)
            said = self._opened.rows("SELECT session, number FROM orders") or [(secrets.token_hex(8), 0)]
            self._session = str(said[0][0])
            self._number = self._last = int(str(said[0][1]))
            ((answers, first, last),) = self._opened.rows(
                "SELECT COUNT(*), MIN(round), MAX(round) FROM answer WHERE body IS NOT NULL AND round > ?",
                max(self._held(), default=-1),
            )
            if answers:
                self._tell(
                    f"rounds {first} to {last}: {answers} answers arrived before the run was broken off"
                )
        return self._opened

    def order(self) -> str:
        """What the next order is called: no order of any process of this run has had the name."""
        with self._lock:
            file = self._file
            if self._number == self._last:
                self._last += BLOCK
                with file.writing() as now:
                    now.put("orders", self._session, self._last)
            self._number += 1
            return f"{self._session}-{self._number}"

    def begin_round(self, round: int) -> None:
        """Let go of what the checkpoints hold: of all up to the older one of those that are kept."""
        held = self._held()
        with self._lock, self._file.writing() as now:
            for table in ("answer", "begun"):
                now.execute(f"DELETE FROM {table} WHERE round <= ?", min(held, default=-1))

    def _held(self) -> list[int]:
        """The rounds of the checkpoints that are kept."""
        return [int(path.stem.rpartition("-")[2]) for path in kept(self._folder / "checkpoints")]

    def away(self, round: int, now_away: np.ndarray) -> np.ndarray:
        """Who (int64) is away in a round: those of `now_away`, where it was not decided before."""
        with self._lock:
            file = self._file
            rows = file.rows("SELECT away FROM begun WHERE round = ?", round)
            if not rows:
                with file.writing() as now:
                    now.put("begun", round, json.dumps(now_away.tolist()))
                return now_away
        return np.array(json.loads(str(rows[0][0])), np.int64)

    def found(self, node: int, round: int, digest: str) -> tuple[bool, bytes | None]:
        """Whether it is known what became of an order, and the body of its answer, None where it did not arrive."""
        with self._lock:
            rows = self._file.rows(
                "SELECT sha256, body FROM answer WHERE node = ? AND round = ? AND digest = ?",
                node,
                round,
                digest,
            )
        for told, body in rows:
            if body is None and not told:
                return True, None
            if isinstance(body, bytes) and sum_of(body) == told:
                return True, body
        return False, None

    def keep(self, node: int, round: int, digest: str, body: bytes) -> None:
        """An answer has arrived, and is about to be acknowledged. Raises FedroamError where it cannot be written."""
        with self._lock, self._file.writing() as now:
            now.put("answer", node, round, digest, sum_of(body), body, keep=True)

    def lose(self, node: int, round: int, digest: str) -> None:
        """An answer counts as not arrived, whatever has come of it."""
        with self._lock, self._file.writing() as now:
            now.put("answer", node, round, digest, "", None)

    def open_again(self, round: int) -> None:
        """What was lost in a round, and who was away in it, is decided anew by whoever goes on with the run."""
        with self._lock, self._file.writing() as now:
            now.execute("DELETE FROM answer WHERE round = ? AND body IS NULL", round)
            now.execute("DELETE FROM begun WHERE round = ?", round)

    def close(self, *, done: bool) -> None:
        """Close the file; done: the run has come to its end, and needs it no more, be it of an earlier process."""
        with self._lock:
            left = self._file if done and (self._folder / FILE).exists() else self._opened
            if left is not None:
                (left.delete if done else left.close)()
                self._opened = None
