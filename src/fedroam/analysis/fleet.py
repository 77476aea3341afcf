"""What a fleet does with its time and its energy: the same words for a plan and for a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from fedroam.analysis.formatting import NONE, duration, energy, percent
from fedroam.recording import Run

Facts = Mapping[str, float]
Quantity = Literal["share", "seconds", "joules", "number"]
# What is told of a fleet, in this order: heading and quantity.
HEADS: Mapping[str, tuple[str, Quantity]] = {
    "seconds_mean": ("Round", "seconds"),
    "seconds_most": ("Longest", "seconds"),
    "seconds": ("All rounds", "seconds"),
    "fit": ("Contacts that fit", "share"),
    "through": ("Transfers through", "share"),
    "broken": ("Broken a round", "number"),
    "late": ("Late a round", "number"),
    "time_training": ("Training", "share"),
    "time_sending": ("Sending", "share"),
    "time_waiting": ("Waiting", "share"),
    "time_idle": ("Away", "share"),
    "energy": ("Radio and training", "joules"),
    "drawn": ("Drawn", "joules"),
    "motion": ("Of it moving", "share"),
    "charge": ("Left", "joules"),
    "empty": ("Ran empty", "share"),
    "first_empty": ("First empty after", "seconds"),
    "half_empty": ("Half empty after", "seconds"),
    "gone": ("Gone at the end", "share"),
    "per_kilojoule": ("Points per kJ", "number"),
}
ENERGY = tuple(HEADS)[list(HEADS).index("energy") :]  # of them, those of energy
# Those of time: columns of clients under a clock.
TIME = tuple(name for name in HEADS if name.startswith("time_"))
# Those of transfers that are a share: columns of rounds, and of which they are one.
SHARES: Mapping[str, str] = {"fit": "contacts", "through": "transfers"}
EACH = ("broken", "late")  # those that are a number a round
_FIRST = 5  # devices that are named


def of_time(clients: pd.DataFrame, seconds: float) -> dict[str, float]:
    """Shares of `seconds` (s, more than 0) that clients spent, mean over clients, from their totals."""
    return {name: float(clients[name].mean()) / seconds for name in TIME if name in clients}


def of_every_round(rounds: pd.DataFrame) -> bool:
    """Whether a table of a run's rounds, of which only some were evaluated, tells the transfers of all of them."""
    totals = [f"total_{name}" for name in (*SHARES, *SHARES.values(), *EACH)]
    return all(name in rounds and np.isfinite(_last(rounds, name)) for name in totals)


def of_transfers(rounds: pd.DataFrame) -> dict[str, float]:
    """What a table of rounds, of a run or a plan, says of its transfers: shares of contacts and transfers that get
    through (NaN where there are none), broken transfers and late clients a round. Left out is what it does not tell.

    They are of all rounds where the table has their totals; otherwise of those that stand in it.
    """
    if of_every_round(rounds):
        played = float(rounds["round"].max())
        shares = [
            (some, _last(rounds, f"total_{some}"), _last(rounds, f"total_{of}"))
            for some, of in SHARES.items()
        ]
        told = {some: part / whole if whole else math.nan for some, part, whole in shares}
        each = {name: _last(rounds, f"total_{name}") for name in EACH}
        return told | {name: total / played if played else math.nan for name, total in each.items()}
    found = {}
    for some, of in SHARES.items():
        if of in rounds:
            total = float(rounds[of].sum())
            found[some] = float(rounds[some].sum()) / total if total else math.nan
    return found | {name: float(rounds[name].mean()) for name in EACH if name in rounds}


def _last(rounds: pd.DataFrame, column: str) -> float:
    """A column in the last round of a table."""
    return float(rounds[column].to_numpy(np.float64)[rounds["round"].to_numpy().argmax()])


def of_energy(clients: pd.DataFrame) -> dict[str, float]:
    """What the totals of clients say of energy: J a device, shares, and s until devices ran empty (NaN: they did not).

    What no column tells is left out: without batteries there is `energy` alone, and that where anything costs energy.
    """
    found = {}
    if "energy" in clients and float(clients["energy"].sum()) > 0:
        found["energy"] = float(clients["energy"].mean())
    if "battery_drawn" not in clients:
        return found
    drawn, died = float(clients["battery_drawn"].sum()), np.sort(clients["battery_died"].to_numpy(np.float64))
    known = died[np.isfinite(died)]
    half = math.ceil(len(died) / 2)
    return found | {
        "drawn": drawn / len(clients),
        "motion": float(clients["battery_drawn_motion"].sum()) / drawn if drawn else math.nan,
        "charge": float(clients["battery_charge"].mean()),
        "empty": len(known) / len(died),
        "first_empty": float(known[0]) if len(known) else math.nan,
        "half_empty": float(known[half - 1]) if len(known) >= half else math.nan,
        "gone": float(clients["battery_gone"].mean()),
    }


def of_run(run: Run) -> dict[str, float]:
    """The facts of a run under a clock of seconds, or with an account of energy; transfers are as
    `of_transfers` tells them. Empty where it has neither.

    per_kilojoule: accuracy at the end less that at the start, in points, for each kJ that a device drew on average (or,
    without batteries, spent on sending, receiving and training).
    """
    rounds = run.rounds.sort_values("round")
    clients, found = last_clients(run), {}
    if "time" in rounds and float(rounds["time"].iloc[-1]) > 0:
        seconds, played = float(rounds["time"].iloc[-1]), int(rounds["round"].iloc[-1])
        found = {"seconds_mean": seconds / played, "seconds": seconds}
        found |= of_transfers(rounds)
        found |= of_time(clients, seconds)
    spent = of_energy(clients)
    joules = spent.get("drawn", spent.get("energy", 0.0))
    if joules > 0:
        gained = 100 * float(rounds["accuracy"].iloc[-1] - rounds["accuracy"].iloc[0])
        spent["per_kilojoule"] = gained / (joules / 1000)
    return found | spent


def last_clients(run: Run) -> pd.DataFrame:
    """The rows of clients in the last evaluated round."""
    clients = run.clients
    last: pd.DataFrame = clients[clients["round"] == clients["round"].max()]
    return last


def first_empty(clients: pd.DataFrame) -> list[tuple[str, float]]:
    """The first devices that ran empty, and after how many seconds; none without batteries."""
    if "battery_died" not in clients:
        return []
    names = clients["device"] if "device" in clients else pd.Series("", clients.index)
    table = pd.DataFrame({"client": clients["client"], "name": names, "died": clients["battery_died"]})
    table = table.dropna(subset="died").sort_values("died", kind="stable").head(_FIRST)
    return [
        (f"Client {client} ({name})" if name else f"Client {client}", float(died))
        for client, name, died in zip(table["client"], table["name"], table["died"], strict=True)
    ]


def first_empty_words(clients: pd.DataFrame) -> str:
    """`Client 3 after 2.1 h, Client 0 after 3 h`; empty where nobody ran empty."""
    return ", ".join(f"{name} after {duration(died)}" for name, died in first_empty(clients))


def told(worlds: Sequence[Facts]) -> list[str]:
    """The facts that any of these worlds knows, in the order of `HEADS`."""
    return [name for name in HEADS if any(name in world for world in worlds)]


def shown(name: str, worlds: Sequence[Facts]) -> str:
    """A fact as text: the mean over worlds, and of how many, where it is not known of all."""
    values = [world[name] for world in worlds if math.isfinite(world.get(name, math.nan))]
    if not values:
        return NONE
    mean, quantity = sum(values) / len(values), HEADS[name][1]
    if quantity == "share":
        text = percent(mean)
    elif quantity == "seconds":
        text = duration(mean)
    elif quantity == "joules":
        text = energy(mean)
    else:
        text = f"{mean:.3g}" if abs(mean) < 1000 else f"{mean:,.0f}"
    return text if len(values) == len(worlds) else f"{text} ({len(values)} of {len(worlds)})"


def which_rounds(*, all_told: bool) -> str:
    """Of which rounds transfers and contacts are told. all_told: whether all runs tell every round."""
    if all_told:
        return "Contacts and transfers are those of all rounds."
    return "Contacts and transfers are those of all rounds, or, in runs of older versions, of the evaluated ones."


def remarks(names: Sequence[str]) -> list[str]:
    """What the facts of these names mean, a sentence or two a line."""
    lines = {
        "fit": "Contacts that fit: of two with anything to send to each other in a round, all of which gets through.",
        "broken": "Broken a round: transfers that a contact's end, or the round's, broke.",
        "time_training": "Training, sending, waiting, away: what a device does with its time, on average.",
        "energy": "Joules are those of a device, on average. Radio and training: what sending, receiving and training "
        "cost.",
        "drawn": "Drawn: from batteries, by being on, training, sending and moving.",
        "empty": "Ran empty: at least once. Half empty after: when half of the devices had run empty once.",
        "per_kilojoule": "Points per kJ: accuracy at the end less that at the start, in points, for each kJ that a "
        f"device {'drew' if 'drawn' in names else 'spent'}.",
    }
    return [line for name, line in lines.items() if name in names]
