"""Contacts that a file tells, round by round."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import PrivateAttr
from scipy import sparse
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.contacts.graph import graph_of
from fedroam.data.sources.places import find_file, stamp
from fedroam.data.sources.tables import read_table
from fedroam.errors import InputError
from fedroam.mobility import Paths

COLUMNS = ("round", "i", "j")


@register("contacts", "recorded")
class Recorded(Part):
    """Two clients meet in the rounds in which a file says so, wherever they are, if both are there.

    The file is a CSV table (gzip or not) with the columns `round`, `i` and `j`, a row for each pair of clients that
    meets in a round; clients count from 0, round 0 is the start, and a pair may stand in either order and several
    times. In a round of which no row tells nobody meets. So a network's run writes whom its peers have found
    (`movement/met.csv`), to be simulated.
    """

    file: str = field(..., "the CSV file (relative: from here, or FEDROAM_DATA)")
    range: float = field(
        math.inf,
        "radio range, for mixing rules that ask for it; who meets whom the file says",
        unit="m",
        ge=0,
    )
    _round: int = PrivateAttr(default=0)

    @override
    def reads(self) -> dict[str, Path]:
        return {"file": find_file(self.file, None, "contacts.file")}

    def of_round(self, round: int) -> Self:
        """The same, to tell of another round."""
        part = self.model_copy()
        part._round = round
        return part

    def check_limits(self, clients: int, rounds: int) -> None:
        """Raise InputError where the file is damaged, or names a client that there is not."""
        pairs = self._pairs()[:, 1:]
        if len(pairs) and pairs.max() >= clients:
            line = int(np.flatnonzero((pairs >= clients).any(axis=1))[0]) + 2
            raise InputError(
                f"{self.reads()['file']}, line {line}: client {pairs[line - 2].max()}, allowed with clients = "
                f"{clients} are 0 to {clients - 1}"
            )

    def meet(self, paths: Paths) -> sparse.csr_array:
        """The pairs of the round, those who are away left out."""
        rows = self._pairs()
        pairs = np.sort(rows[rows[:, 0] == self._round, 1:], axis=1)
        pairs = pairs[(pairs < paths.clients).all(axis=1)]
        pairs = pairs[paths.present[pairs].all(axis=1)]
        return graph_of(np.unique(pairs, axis=0), paths.clients)

    def reach(self) -> float:
        """The range."""
        return self.range

    def _pairs(self) -> np.ndarray:
        return _read(*stamp(self.reads()["file"]))


@functools.lru_cache(maxsize=4)
def _read(path: str, size: int, changed: int) -> np.ndarray:
    """Round and clients of each row, int64 [rows, 3]. Raises InputError with the line for what is none."""
    table = read_table(Path(path), COLUMNS, (), empty=True)
    rows = np.stack([table[name] for name in COLUMNS], axis=1)
    for wrong, allowed in (
        (((rows != np.floor(rows)) | (rows < 0) | (rows > 2**31)).any(axis=1), "whole numbers from 0"),
        (rows[:, 1] == rows[:, 2], "two clients"),
    ):
        if wrong.any():
            line = int(np.flatnonzero(wrong)[0])
            found = ", ".join(f"{name} = {value:g}" for name, value in zip(COLUMNS, rows[line], strict=True))
            raise InputError(f"{path}, line {line + 2}: {found}; allowed are {allowed}")
    return rows.astype(np.int64)
