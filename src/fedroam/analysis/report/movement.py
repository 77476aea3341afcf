"""The movement of runs, packed for the map of a report that plays it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedroam.analysis.report.scripts import deflated
from fedroam.analysis.report.serving import AccessPointsOfRun, access_points, serving_points
from fedroam.analysis.variants import Variant, looks_at
from fedroam.errors import InputError
from fedroam.recording import Run

# What a report may carry, so that it stays a file one can mail: 16-bit numbers over all runs, and clients, lines
# and runs that a map can still show.
VALUES, CLIENTS, LINES, RUNS = 1_500_000, 1000, 4000, 24
_FRAMES = 40  # below this many rounds clients are thinned out rather than rounds
_ABSENT = 65535  # a client that is away, or has no accuracy
_SPAN = 65534  # places and accuracies are whole numbers from 0 to this


def playback(compared: Sequence[Variant], *, values: int = VALUES) -> dict[str, Any]:
    """What the map plays, as JSON values: `runs`, one entry a run; `start`, which to show first; `notes`.

    values bounds the 16-bit numbers over all runs. Where runs have more, rounds are thinned out evenly (the last
    one is kept), then clients; the notes say what was left out.
    """
    chosen, notes = _choose(compared), []
    every = sum(len(variant.included) for variant in compared)
    if len(chosen) < every:
        notes.append(f"{len(chosen)} of {every} runs are on the map: the first seeds of each variant.")
    entries: list[dict[str, Any]] = []
    told: dict[str, list[str]] = {}
    for label, run in chosen:
        entry, cut = _pack(label, run, values // max(len(chosen), 1))
        entries.append(entry)
        for note in cut:
            told.setdefault(note, []).append(f"{label}, seed {entry['seed']}")
    for note, runs in told.items():
        who = "all runs" if len(runs) == len(chosen) > 1 else "; ".join(runs[:3])
        notes.append(f"{who}{f' and {len(runs) - 3} more' if 3 < len(runs) < len(chosen) else ''}: {note}")
    start = next((k for k, entry in enumerate(entries) if entry["moves"]), 0)
    return {"runs": entries, "start": start, "notes": notes}


def _choose(compared: Sequence[Variant]) -> list[tuple[str, Run]]:
    """At most `RUNS` runs: the first seeds of each variant, as many of each."""
    most = max(1, RUNS // max(len(compared), 1))
    return [(variant.label, run) for variant in compared[:RUNS] for run in variant.included[:most]]


def _pack(label: str, run: Run, values: int) -> tuple[dict[str, Any], list[str]]:
    """One run's entry, and notes on what was left out of it.

    `packed` is base64 of a zlib stream of little-endian uint16 arrays, one after the other: places
    [frames, clients, 2] over the bounds, degrees [frames, clients], contacts [sum(lines), 2] (indices of shown
    clients), accuracies [evaluations, clients], and where `linked` the access point that serves each client, [frames,
    clients], and the load of each, all clients counted, [frames, access points].
    """
    clients = run.clients
    ids = np.sort(clients["client"].unique())
    meets = looks_at(run, "contacts")
    recorded, positions, contacts = _tables(run)
    notes = (
        [] if recorded else ["movement was not recorded; places of evaluated rounds, without contact lines."]
    )
    if not meets:
        contacts = contacts.iloc[:0]
    rounds = np.sort(positions["round"].unique())
    points = access_points(run)
    served = points is not None and points.serve_nearest
    shown, kept = _fit(
        len(ids), rounds, len(contacts), values, len(points.places) if points and served else 0
    )
    if len(kept) < len(rounds):
        notes.append(f"the map shows {len(kept)} of {len(rounds)} recorded rounds.")
    if len(shown) < len(ids):
        notes.append(f"the map shows {len(shown)} of {len(ids)} clients, evenly chosen by number.")
    places, degrees = _places(positions, contacts, clients, ids, kept)
    bounds = _bounds(run, places, points)
    lines, total, cut = _lines(contacts, ids, shown, kept)
    if cut:
        notes.append(f"in crowded rounds only {LINES} contact lines are drawn, evenly chosen.")
    accuracy = clients.pivot_table(index="round", columns="client", values="accuracy", dropna=False)
    accuracy = accuracy.reindex(columns=ids)
    first = clients[clients["round"] == clients["round"].min()].set_index("client").reindex(ids)
    names = first["group"].astype(str).to_numpy()
    groups = list(dict.fromkeys(names))
    present = np.isfinite(places[:, :, 0])
    arrays = [
        _whole((places[:, shown] - bounds[:2]) / np.maximum(np.subtract(bounds[2:], bounds[:2]), 1e-12)),
        np.where(present, np.minimum(degrees, _ABSENT - 1), 0)[:, shown],
        *lines,
        _whole(accuracy.to_numpy(np.float64)[:, shown]),
    ]
    serving = serving_points(places, points) if points is not None and served else None
    if points is not None and serving is not None:
        counted = [np.bincount(row[row >= 0], minlength=len(points.places)) for row in serving]
        load = np.minimum(np.array(counted), _ABSENT - 1)
        arrays += [np.where(serving >= 0, serving, _ABSENT)[:, shown], load]
    raw = b"".join(np.ascontiguousarray(array).astype("<u2").tobytes() for array in arrays)
    reach = float(run.world["reach"]) if meets else math.inf
    entry = {
        "variant": label,
        "seed": int(run.status["seed"]),
        "bounds": [round(float(v), 6) for v in bounds],
        "meets": meets,
        "reach": reach if math.isfinite(reach) else None,
        "clients": [int(i) for i in ids[shown]],
        "all": len(ids),
        "groups": groups,
        "group": [groups.index(name) for name in names[shown]],
        "holds": _holds(run, ids[shown]),
        "rounds": [int(t) for t in kept],
        "lines": [len(pairs) for pairs in lines],
        "contacts": total if recorded else [int(n) // 2 for n in degrees.sum(axis=1)],
        "moves": _moves(places),
        "alone": [int(n) for n in ((degrees == 0) & present).sum(axis=1)],
        "judged": [int(t) for t in accuracy.index],
        "accuracy": _means(run, accuracy.index),
        "access_points": [] if points is None else np.round(points.places, 6).tolist(),
        "ranges": [] if points is None else [r if math.isfinite(r) else None for r in points.ranges.tolist()],
        "linked": serving is not None,
        "packed": deflated(raw),
    }
    return entry, notes


def _tables(run: Run) -> tuple[bool, pd.DataFrame, pd.DataFrame]:
    """Whether movement was recorded, positions, contacts; else those of evaluated rounds, and no contacts."""
    try:
        return True, run.positions, run.contacts
    except InputError:
        positions = run.clients[["round", "client", "x", "y"]].assign(present=True)
        return False, positions, pd.DataFrame({"round": [], "i": [], "j": []}, dtype=np.int64)


def _fit(
    clients: int, rounds: np.ndarray, contacts: int, values: int, served: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Which clients (indices) and which rounds fit into `values` numbers; served: by so many access points."""
    share = min(1.0, CLIENTS / clients)
    each = (
        (3 + (served > 0)) * clients * share
        + served
        + min(2 * contacts / max(len(rounds), 1) * share**2, 2 * LINES)
    )
    if each * _FRAMES > values:
        share *= max(values / (each * _FRAMES), 1 / clients)
        each = values / _FRAMES
    count = max(1, int(clients * share))
    shown = np.unique(np.linspace(0, clients - 1, count).round().astype(np.int64))
    frames = max(2, min(len(rounds), int(values / max(each, 1))))
    return shown, rounds[np.unique(np.linspace(0, len(rounds) - 1, frames).round().astype(np.int64))]


def _places(
    positions: pd.DataFrame, contacts: pd.DataFrame, clients: pd.DataFrame, ids: np.ndarray, kept: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Places [frames, clients, 2] (NaN: away) and degrees [frames, clients] of all clients in the kept rounds."""
    places = np.full((len(kept), len(ids), 2), np.nan)
    rows = positions[positions["round"].isin(kept) & positions["present"].astype(bool)]
    frame, client = np.searchsorted(kept, rows["round"]), np.searchsorted(ids, rows["client"])
    places[frame, client] = rows[["x", "y"]].to_numpy(np.float64)
    degrees = np.zeros((len(kept), len(ids)), dtype=np.int64)
    if len(contacts):
        met = contacts[contacts["round"].isin(kept)]
        frame = np.searchsorted(kept, met["round"])
        for end in ("i", "j"):
            np.add.at(degrees, (frame, np.searchsorted(ids, met[end])), 1)
    else:  # not recorded, or nobody met anybody: the clients' table knows
        rows = clients[clients["round"].isin(kept)]
        frame, client = np.searchsorted(kept, rows["round"]), np.searchsorted(ids, rows["client"])
        degrees[frame, client] = rows["degree"].to_numpy(np.int64)
    return places, degrees


def _bounds(run: Run, places: np.ndarray, points: AccessPointsOfRun | None) -> np.ndarray:
    """x and y of the lower left corner, then of the upper right one, metres; wide enough for every place."""
    known = np.asarray(run.world["bounds"], dtype=np.float64)
    flat = places.reshape(-1, 2)
    if points is not None:
        flat = np.concatenate([flat, points.places])
    flat = flat[np.isfinite(flat).all(axis=1)]
    if not len(flat):
        return known
    return np.concatenate([np.minimum(known[:2], flat.min(axis=0)), np.maximum(known[2:], flat.max(axis=0))])


def _lines(
    contacts: pd.DataFrame, ids: np.ndarray, shown: np.ndarray, kept: np.ndarray
) -> tuple[list[np.ndarray], list[int], bool]:
    """Contacts between shown clients, [n, 2] for each frame; their true number; whether some were cut."""
    new = np.full(len(ids), -1, dtype=np.int64)
    new[shown] = np.arange(len(shown))
    rounds = contacts["round"].to_numpy()
    order = np.argsort(rounds, kind="stable")
    pairs = np.stack([np.searchsorted(ids, contacts[end].to_numpy()[order]) for end in ("i", "j")], axis=1)
    starts = np.searchsorted(rounds[order], kept)
    ends = np.searchsorted(rounds[order], kept, side="right")
    lines, total, cut = [], [], False
    for start, end in zip(starts, ends, strict=True):
        here = new[pairs[start:end]]
        here = here[(here >= 0).all(axis=1)]
        if len(here) > LINES:
            here, cut = here[np.linspace(0, len(here) - 1, LINES).astype(np.int64)], True
        lines.append(here)
        total.append(int(end - start))
    return lines, total, cut


def _whole(shares: np.ndarray) -> np.ndarray:
    """Shares 0 to 1 as whole numbers 0 to `_SPAN`; no number as `_ABSENT`."""
    known = np.isfinite(shares)
    whole = np.clip(np.where(known, shares, 0.0), 0, 1) * _SPAN + 0.5
    return np.where(known, whole, _ABSENT).astype(np.int64)


def _holds(run: Run, ids: np.ndarray) -> list[list[Any]]:
    """For each client: how many training samples, then up to three classes with most of them and their numbers."""
    train = run.partition[run.partition["part"] == "train"]
    train = train.sort_values("samples", ascending=False, kind="stable")
    by_client = {int(str(client)): rows for client, rows in train.groupby("client")}
    facts: list[list[Any]] = []
    for client in ids:
        rows = by_client.get(int(client), train[:0])
        top = [[str(name), int(n)] for name, n in zip(rows["class"][:3], rows["samples"][:3], strict=True)]
        facts.append([int(rows["samples"].sum()), top])
    return facts


def _means(run: Run, rounds: pd.Index) -> list[float | None]:
    """Accuracy of the evaluated rounds, mean over clients; None where it is no number."""
    known = run.by_round["accuracy"].reindex(rounds)
    return [round(float(v), 5) if math.isfinite(v) else None for v in known]


def _moves(places: np.ndarray) -> bool:
    """Whether anybody ever changes place; places: float64 [frames, clients, 2], NaN for a client that is away."""
    steps = np.diff(places, axis=0)
    return bool((np.abs(steps[np.isfinite(steps)]) > 0).any())
