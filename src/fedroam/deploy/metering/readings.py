"""A node's meter at work beside the node: its readings, and what the node did when, in files of their own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd

from fedroam.components import build
from fedroam.deploy.node.process import Node
from fedroam.deploy.site.file import FILE
from fedroam.devices.meters import Meter, MeterError, Sample, What, WorkClock
from fedroam.errors import FedroamError, InputError, one_line
from fedroam.recording.files import read_table, write_table
from fedroam.recording.schema import checked_table

FIRST = 30.0  # seconds in which a meter must say something
AGAIN = 5.0  # seconds between two tries to reach a meter that was lost
KEEP = 60.0  # seconds between two times that its readings are written
FOLDER = "meters"
WORK_ENDS = ".work.parquet"
WORK: tuple[What, ...] = get_args(What)
MOST = 1e15  # watts, or joules: more than any device has
# The columns of the two tables, and their types.
READING = {"process": "int32", "piece": "int32", **dict.fromkeys(Sample._fields, "float64")}
DONE = {
    "client": "int32",
    "process": "int32",
    "round": "int32",
    "what": "str",
    "begin": "float64",
    "end": "float64",
}


def readings_of(folder: Path, node: str) -> Path:
    """The file of a node's readings."""
    return folder / f"{node}.parquet"


def work_of(folder: Path, node: str) -> Path:
    """The file of what a node did, and when."""
    return folder / f"{node}{WORK_ENDS}"


class Metering:
    """A meter that is read in a thread of its own, until it is stopped.

    Readings are kept as the columns process (which of the node's processes in turn), piece (which stretch of it, where
    the meter was lost and found), monotonic, wall (s), watt and joule; what the node did as client, process, round,
    what, begin and end (s, monotonic). They are written now and then, and at the end; a kill loses the last minute.
    Where they cannot be written now, as on a full disk, that is told once, and tried again a minute later.
    """

    def __init__(
        self,
        meter: Meter,
        folder: Path,
        node: str,
        client: int,
        tell: Callable[[str], None],
        watch: WorkClock | None = None,
    ) -> None:
        self.watch = watch or WorkClock()
        self._meter, self._folder, self._node, self._client, self._tell = meter, folder, node, client, tell
        self._rows: list[tuple[int, Sample]] = []
        self._stop, self._first, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._problem: FedroamError | None = None
        self._tried, self._unwritten = time.monotonic(), False
        self._before = _before(folder, node)
        self._thread = threading.Thread(target=self._read, name=f"meter of {node}", daemon=True)

    def start(self) -> None:
        """Begin; wait for the first reading of a meter that reads as it goes. Raises FedroamError where none comes."""
        self._thread.start()
        if self._meter.live and not self._first.wait(FIRST) and self._problem is None:
            self._stop.set()
            raise FedroamError(f"{self._node}: its meter has said nothing for {FIRST:g} s")
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        """End, and write all. Raises FedroamError where that cannot be, or the meter has never said anything that could
        be read."""
        self._stop.set()
        self._thread.join()
        try:
            self.keep()
        except OSError as error:
            raise FedroamError(self._problem_of(error)) from None
        if self._problem is not None:
            raise self._problem

    def keep(self) -> None:
        """Write what has been read so far. Raises OSError where that cannot be."""
        self._tried = time.monotonic()
        with self._lock:
            rows = [(piece, *sample) for piece, sample in self._rows]
        work = list(self.watch.intervals)
        process = 0 if self._before is None else self._before[2]
        readings = pd.DataFrame([(process, *row) for row in rows], columns=list(READING)).astype(READING)
        done = pd.DataFrame([(self._client, process, *one) for one in work], columns=list(DONE)).astype(DONE)
        if self._before is not None:
            readings = pd.concat([self._before[0], readings], ignore_index=True)
            done = pd.concat([self._before[1], done], ignore_index=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_table(readings_of(self._folder, self._node), readings)
        write_table(work_of(self._folder, self._node), done)

    def _keep_or_tell(self) -> None:
        """Write what has been read so far, or tell, once, that this cannot be now."""
        try:
            self.keep()
            self._unwritten = False
        except OSError as error:
            if not self._unwritten:
                self._tell(f"{self._problem_of(error)}; they are kept, and it tries again")
            self._unwritten = True

    def _problem_of(self, error: OSError) -> str:
        return one_line(f"{self._node}: its meter's readings cannot be written: {error.strerror or error}")

    def _read(self) -> None:
        """The thread: read until told to stop; a meter that is lost is looked for again."""
        piece, told = 0, False
        while not self._stop.is_set():
            try:
                for sample in self._meter.samples(self.watch, self._stop):
                    with self._lock:
                        self._rows.append((piece, sample))
                    self._first.set()
                    told = False
                    if time.monotonic() - self._tried > KEEP:
                        self._keep_or_tell()
                if not self._meter.live:
                    return
            except FedroamError as error:
                if not isinstance(error, MeterError) or not self._first.is_set():
                    self._problem = error
                    self._first.set()
                    return
                if not told:
                    self._tell(f"{self._node}: its meter is lost: {one_line(str(error))}")
                    told = True
            piece += 1
            self._stop.wait(AGAIN)


@contextlib.contextmanager
def metered(node: Node, folder: Path) -> Iterator[None]:
    """Within it the node's own meter is read, as `site.toml` says; its files go to a folder.

    Raises InputError where the settings are not those of a meter, FedroamError where it cannot be read.
    """
    own = node.site.node(node.name)
    if own is None or own.client is None or own.meter is None:
        yield
        return
    try:
        meter = build("meter", own.meter)
    except InputError as error:
        raise InputError(f"{FILE}, node {node.name}: {error}") from None
    assert isinstance(meter, Meter)  # `register` has seen to its methods
    metering = Metering(meter, folder, node.name, own.client, node.tell)
    node.during = metering.watch.during
    metering.start()
    try:
        yield
    finally:
        metering.stop()


def _before(folder: Path, node: str) -> tuple[pd.DataFrame, pd.DataFrame, int] | None:
    """What earlier processes of the node have written, and how many there were."""
    if not readings_of(folder, node).exists():
        return None
    readings = read_readings(folder, node)
    # Of the first two files that are written, a kill may leave one.
    there = work_of(folder, node).exists()
    work = read_work(folder, node) if there else pd.DataFrame(columns=list(DONE)).astype(DONE)
    return readings, work, 1 + max([-1, *readings["process"], *work["process"]])


def read_readings(folder: Path, node: str) -> pd.DataFrame:
    """A node's readings. Raises InputError where the file is missing or damaged."""
    path = readings_of(folder, node)
    table = checked_table(read_table(path), "meter", path)
    values = table[["watt", "joule"]].to_numpy(float)
    _hold(path, "monotonic", np.isfinite(table["monotonic"]), "finite numbers")
    _hold(path, "watt and joule", np.isnan(values).sum(1) == 1, "one of the two")
    known = values[~np.isnan(values).all(1)]
    _hold(path, "watt and joule", ((known >= 0) & (known < MOST) | np.isnan(known)).all(1), f"0 to {MOST:g}")
    same = (table["process"].diff() == 0) & (table["piece"].diff() == 0)
    _hold(path, "monotonic", ~same | (table["monotonic"].diff() >= 0), "times in their order")
    return table


def read_work(folder: Path, node: str) -> pd.DataFrame:
    """What a node did, and when. Raises InputError where the file is missing or damaged."""
    path = work_of(folder, node)
    table = checked_table(read_table(path), "work", path)
    _hold(path, "what", table["what"].isin(WORK), ", ".join(WORK))
    begin, end = table["begin"].to_numpy(float), table["end"].to_numpy(float)
    _hold(
        path, "begin and end", np.isfinite(begin) & np.isfinite(end) & (begin <= end), "times in their order"
    )
    return table


def _hold(path: Path, column: str, fine: np.ndarray | pd.Series, allowed: str) -> None:
    """Raise InputError at the first row that is not fine."""
    wrong = np.flatnonzero(~np.asarray(fine, dtype=bool))
    if len(wrong):
        raise InputError(f"{path}: damaged: row {wrong[0] + 1}, column {column}: allowed are {allowed}")
