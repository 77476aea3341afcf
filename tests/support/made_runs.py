"""Run folders made by hand, with numbers that a test chooses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from fedroam.recording import Run, open_run, write_json, write_table, write_text


def made_run(
    root: Path,
    variant: str,
    seed: int,
    accuracy: Sequence[float],
    *,
    every: int = 10,
    clients: int = 4,
    done: bool = True,
    planned: int | None = None,
    diverged_at: int | None = None,
    settings: dict[str, Any] | None = None,
    classes: Sequence[str] = ("cat", "dog"),
    groups: Sequence[str] | None = None,
    movement: bool = True,
    reach: float = 2.0,
    consensus: Sequence[float] | None = None,
    sent: int = 1_000_000,
    name: str = "made",
    energy: Sequence[float] | None = None,
    wasted: Sequence[float] | None = None,
    judged: Sequence[str] = ("own",),
    time: Sequence[float] | None = None,
    drawn: Sequence[float] | None = None,
    totals: Mapping[str, float] | None = None,
) -> Run:
    """A run whose k-th evaluation, in round k * every, has accuracy[k]; client i has 0.01 * i more than client 0.

    Client 0 walks east by 1 m a round from (1, 1), the others stand at (1, 1 + i): 0 and 1 meet at the start.
    The mean accuracy over clients is accuracy[k]; bytes grow by `sent` an evaluation. energy, wasted: joules of all
    clients by the k-th evaluation (none: a run of an older format, without an account). judged: what the models are
    called that clients are judged by (none: a run of an older format). time: s by the k-th evaluation (none: rounds
    have no length); client i trains i / clients of it, and waits for the rest; of 10 transfers in a round 4 get
    through, all of one contact in 5, and 8 tries break. drawn: J from all batteries by the k-th evaluation (none:
    without them). totals: columns `total_NAME`, for each what it grows by in a round. planned: the number of rounds in
    the settings, if not the number recorded.
    """
    folder = root / (variant or "plain") / f"seed-{seed}"
    folder.mkdir(parents=True)
    rounds = np.arange(len(accuracy)) * every
    values = np.asarray(accuracy, dtype=np.float64)
    described = {
        "name": name,
        "seed": seed,
        "clients": clients,
        "rounds": int(rounds[-1]) if planned is None else planned,
        "evaluate_every": every,
        "data": {"kind": "digits"},
        "mobility": {"kind": variant or "random", "mobile": 1},
        **(settings or {}),
    }
    write_text(folder / "experiment.toml", tomli_w.dumps(described))
    facts = {
        "format": 1,
        "name": name,
        "variant": variant,
        "order": seed,
        "seed": seed,
        "digest": hashlib.sha256(json.dumps([variant, described]).encode()).hexdigest(),
        "state": "done" if done else "running",
        "round": int(rounds[-1]),
        "rounds": described["rounds"],
        "diverged_at": diverged_at,
        "reason": "",
        **({"judged": list(judged)} if judged else {}),
    }
    write_json(folder / "run.json", facts)
    write_json(folder / "environment.json", {"python": "3.12", "packages": {"numpy": "2.0"}, "cores": 2})
    world = {
        "bounds": [0.0, 0.0, 10.0, 10.0],
        "reach": reach if np.isfinite(reach) else "inf",
        "groups": list(groups or ["walker"] + ["stander"] * (clients - 1)),
        "classes": list(classes),
        "parameters": 10,
        "bytes_per_model": 40,
    }
    write_json(folder / "world.json", world)
    holds = [(i, "train", classes[i % len(classes)], 10 + i) for i in range(clients)]
    write_table(
        folder / "partition.parquet", pd.DataFrame(holds, columns=["client", "part", "class", "samples"])
    )
    n = np.arange(clients)
    offset = 0.01 * (n - n.mean())
    pieces = folder if done else folder / "unfinished"
    pieces.mkdir(exist_ok=True)
    end = "" if done else f"-{rounds[-1]:08d}"
    loss = np.where(np.isfinite(values), 2.0 - values, np.nan)
    table = {
        "round": rounds,
        "accuracy": values,
        "accuracy_std": offset.std(),
        "loss": loss,
        "accuracy_mean_model": values + 0.05,
        "loss_mean_model": loss,
        "consensus_distance": consensus if consensus is not None else 1.0 + rounds,
        "degree_mean": 1.0,
        "isolated": 1,
        "active": clients,
        "bytes": np.arange(len(values)) * sent,
        "train_loss": loss,
        "seconds": 0.1 * rounds,
    }
    if energy is not None:
        table["energy"] = np.array(energy, dtype=np.float64)
        table["energy_wasted"] = np.zeros(len(energy)) if wasted is None else np.array(wasted, np.float64)
    if drawn is not None:
        table["battery_drawn"] = np.array(drawn, dtype=np.float64)
    if time is not None:
        table["time"] = np.array(time, dtype=np.float64)
        counts = {"transfers": 10.0, "through": 4.0, "broken": 8.0, "contacts": 5.0, "fit": 1.0}
        table |= {name: np.where(rounds > 0, value, np.nan) for name, value in counts.items()}
    if totals is not None:
        table |= {f"total_{name}": value * rounds for name, value in totals.items()}
    write_table(pieces / f"rounds{end}.parquet", pd.DataFrame(table))
    clock = [0.0] * len(rounds) if time is None else time
    judged = [
        pd.DataFrame(
            {
                "round": t,
                "client": n,
                "group": world["groups"],
                "accuracy": value + offset,
                "loss": 1.0,
                "samples": 50,
                "degree": 1,
                "x": np.where(n == 0, 1.0 + t % 9, 1.0),
                "y": 1.0 + n % 9,
            }
            | (
                {}
                if time is None
                else {
                    "time_training": seconds * n / clients,
                    "time_sending": 0.0,
                    "time_waiting": seconds * (1 - n / clients),
                    "time_idle": 0.0,
                }
            )
        )
        for t, value, seconds in zip(rounds, values, clock, strict=True)
    ]
    write_table(pieces / f"clients{end}.parquet", pd.concat(judged, ignore_index=True))
    if movement:
        place = folder / "movement" if done else pieces
        place.mkdir(exist_ok=True)
        every_round = np.arange(rounds[-1] + 1)
        where = pd.DataFrame(
            {"round": np.repeat(every_round, clients), "client": np.tile(n, len(every_round))}
        )
        where["x"] = np.where(where["client"] == 0, 1.0 + where["round"] % 9, 1.0)
        where["y"] = 1.0 + where["client"] % 9
        where["present"] = True
        met = pd.DataFrame({"round": every_round, "i": 0, "j": 1})
        write_table(place / f"positions{end}.parquet", where)
        write_table(place / f"contacts{end}.parquet", met[met["round"] % 9 < reach])
    return open_run(folder)
