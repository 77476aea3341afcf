"""Measured energy of a run: of each node and round, by what it was spent on, and what of it was wasted."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field
from typing_extensions import override

from fedroam.cost import Account, Paid, Tariff
from fedroam.deploy.metering.readings import FOLDER, WORK, WORK_ENDS, read_readings, read_work
from fedroam.devices.meters import Series
from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_lines
from fedroam.federation import NOBODY, Traffic
from fedroam.learning import Job
from fedroam.recording import Run
from fedroam.recording.files import write_table
from fedroam.writing import add_line

# What is told of clients (int64): whose update was aggregated, whose never will be, whose work was in vain.
Note = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
UPDATES, TABLE = "updates.jsonl", "energy.parquet"


class _Updates(JsonObject):
    """What became of the updates of a round: clients whose were aggregated, whose never will be, and whose work of the
    round was in vain, who go on with what they had."""

    round: int = Field(ge=1)
    aggregated: list[int]
    discarded: list[int]
    in_vain: list[int] = []


@dataclass(frozen=True)
class NotedTariff(Tariff):
    """The prices of a run on a network: each of `noting` is told, as a round's exchange is over, whose update was
    aggregated, whose never will be, and whose work was in vain, so that measured energy is settled as modelled energy
    is."""

    noting: Sequence[Note]

    @override
    def charge(
        self,
        account: Account,
        work: Sequence[Job] | Paid,
        traffic: Traffic,
        aggregated: np.ndarray,
        discarded: np.ndarray,
        *,
        in_vain: np.ndarray = NOBODY,
        owed: np.ndarray | None = None,
        keeps: bool = False,
    ) -> Account:
        for note in self.noting:
            note(aggregated, discarded, in_vain)
        return super().charge(
            account, work, traffic, aggregated, discarded, in_vain=in_vain, owed=owed, keeps=keeps
        )


def note_updates(
    folder: Path, round: int, aggregated: np.ndarray, discarded: np.ndarray, in_vain: np.ndarray = NOBODY
) -> None:
    """Add a round to the file of a run folder that says what became of updates; of a round that is played again, the
    last line counts."""
    path = folder / FOLDER / UPDATES
    path.parent.mkdir(parents=True, exist_ok=True)
    line: dict[str, Any] = {
        "round": round,
        "aggregated": aggregated.tolist(),
        "discarded": discarded.tolist(),
    }
    if len(in_vain):
        line["in_vain"] = in_vain.tolist()
    add_line(path, json.dumps(line))


@dataclass(frozen=True)
class Measured:
    """Measured energy of a run.

    table: a row for each measured node and round, with the columns client, node, round, training, communication and
    other (J, by what it was spent on), consumed (their sum), wasted (J, in the round in which the update was lost),
    seconds (of work) and measured (of these, how many the meter has seen). pending: J, spent on updates that are
    neither aggregated nor lost when the run ends. idle: W, taken off. rest: W, what the nodes drew on average outside
    their work; NaN where nothing was measured there. clients: of the run, measured or not.
    """

    table: pd.DataFrame
    pending: float
    idle: float
    rest: float
    clients: int

    def totals(self) -> pd.DataFrame:
        """What Table 10 of Farcas et al. (IoTDI 2023) prints: wasted and consumed joules, cumulative over the
        experiment, on average over devices and over communication rounds, with standard deviations (of samples)."""
        rows = []
        for what, over in (("device", "client"), ("communication round", "round")):
            for kind in ("wasted", "consumed"):
                each = self.table.groupby(over)[kind].sum()
                rows.append((f"average {kind} / {what}", each.mean(), each.std(ddof=1)))
        whole = [
            (f"cumulative {kind} / experiment", self.table[kind].sum(), np.nan)
            for kind in ("wasted", "consumed")
        ]
        return pd.DataFrame([*whole, *rows], columns=["energy", "joules", "deviation"])


def measured_energy(run: Run, idle: float = 0.0) -> Measured:
    """What the meters of a run's nodes have measured, settled as the run settled its updates.

    idle: W, taken off the power while a node works, so that what remains is what learning has cost beyond being on.
    Raises InputError where the run has no readings, or a file is damaged.
    """
    folder = run.folder / FOLDER
    names = sorted(path.name.removesuffix(WORK_ENDS) for path in folder.glob(f"*{WORK_ENDS}"))
    if not names:
        raise InputError(
            f"{folder}: no readings of meters; site.toml gives a node its `meter`, and what a node has written below "
            f"`{FOLDER}` is brought here"
        )
    updates = _updates(folder / UPDATES)
    spent = pd.concat([_spent(folder, name, idle) for name in names], ignore_index=True)
    rounds = range(1, 1 + int(run.settings["rounds"]))
    clients = int(run.settings["clients"])
    for column, least, most in (("round", 0, int(run.settings["rounds"])), ("client", 0, clients - 1)):
        wrong = spent[(spent[column] < least) | (spent[column] > most)]
        if len(wrong):
            where, what = wrong["node"].iloc[0], wrong[column].iloc[0]
            raise InputError(f"{folder}: work of {where}: {column} {what}, allowed are {least} to {most}")
    owners = spent[["client", "node"]].drop_duplicates()
    twice = owners["client"][owners["client"].duplicated()]
    if len(twice):
        raise InputError(f"{folder}: client {twice.iloc[0]} is measured by several nodes")
    grid = owners.merge(pd.DataFrame({"round": np.array(rounds, np.int32)}), how="cross")
    columns = [*WORK, "seconds", "measured"]
    sums = spent.groupby(["client", "round"], as_index=False)[columns].sum()
    table = grid.merge(sums, on=["client", "round"], how="left").fillna(dict.fromkeys(columns, 0.0))
    table["consumed"] = table[list(WORK)].sum(axis=1)
    table["wasted"], pending = _wasted(table, updates)
    rest = _rest(folder, names)
    order = ["client", "node", "round", *WORK, "consumed", "wasted", "seconds", "measured"]
    table = table[order].sort_values(["round", "client"], ignore_index=True)
    return Measured(table, pending, idle, rest, clients)


def keep(run: Run, found: Measured) -> Path:
    """Write the table into the run folder; its path."""
    path = run.folder / FOLDER / TABLE
    write_table(path, found.table)
    return path


def _series(readings: pd.DataFrame) -> dict[int, list[Series]]:
    """A meter's readings, by process of the node, piece by piece."""
    found: dict[int, list[Series]] = defaultdict(list)
    for process in readings["process"].unique().tolist():
        own = readings[readings["process"] == process]
        for number in own["piece"].unique().tolist():
            piece = own[own["piece"] == number]
            counted = bool(piece["joule"].notna().any())
            value = piece["joule" if counted else "watt"].to_numpy(float)
            found[process].append(Series(piece["monotonic"].to_numpy(float), value, counted))
    return found


def _spent(folder: Path, node: str, idle: float) -> pd.DataFrame:
    """A node's work, a row for each interval, with its energy in the column of its kind."""
    work, series = read_work(folder, node), _series(read_readings(folder, node))
    begin, end = work["begin"].to_numpy(float), work["end"].to_numpy(float)
    joules, seen = np.zeros(len(work)), np.zeros(len(work))
    for process, pieces in series.items():
        own = (work["process"] == process).to_numpy()
        for piece in pieces:
            more, seconds = piece.energy(begin[own], end[own])
            joules[own] += more
            seen[own] += seconds
    found = pd.DataFrame({"client": work["client"], "node": node, "round": work["round"]})
    for what in WORK:
        found[what] = np.where(work["what"] == what, joules - idle * seen, 0.0)
    return found.assign(seconds=end - begin, measured=seen)


def _wasted(table: pd.DataFrame, updates: dict[int, _Updates]) -> tuple[np.ndarray, float]:
    """Joules of each row that turn out wasted in its round, and what is pending at the end: as `charge` of an account
    has it, for energy that was measured."""
    wasted, pending = np.zeros(len(table)), defaultdict[int, float](float)
    clients, rounds, consumed = (table[name].to_numpy() for name in ("client", "round", "consumed"))
    for k in np.argsort(rounds, kind="stable").tolist():
        client, found = int(clients[k]), updates.get(int(rounds[k]))
        if found is not None and client in found.in_vain:
            wasted[k] = consumed[k]
            continue
        pending[client] += float(consumed[k])
        if found is not None and client in found.discarded:
            wasted[k] = pending.pop(client)
        elif found is not None and client in found.aggregated:
            pending.pop(client)
    return wasted, sum(pending.values())


def _rest(folder: Path, names: Sequence[str]) -> float:
    """W that the nodes drew on average while they did nothing."""
    joules = seconds = 0.0
    for name in names:
        work = read_work(folder, name)
        for process, pieces in _series(read_readings(folder, name)).items():
            own = work[work["process"] == process]
            for piece in pieces:
                ends = piece.monotonic[[0]], piece.monotonic[[-1]]
                whole, busy = piece.energy(*ends), piece.energy(*own[["begin", "end"]].to_numpy(float).T)
                joules += float(whole[0].sum() - busy[0].sum())
                seconds += float(whole[1].sum() - busy[1].sum())
    return joules / seconds if seconds > 0 else float("nan")


def _updates(path: Path) -> dict[int, _Updates]:
    """What became of updates, by round. Raises InputError where the file is missing or damaged."""
    try:
        return {each.round: each for each in checked_lines(path, _Updates)}
    except FileNotFoundError:
        raise InputError(
            f"{path}: missing; fedroam deploy writes it where nodes of its site have meters"
        ) from None
