"""Small files of meters and what stands beside them, and how they are read."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from fedroam.deploy.metering.measured import UPDATES, measured_energy, note_updates
from fedroam.deploy.metering.readings import DONE, FOLDER, READING
from fedroam.recording import Run
from support.tiny import tiny

READINGS, WORK = "meters/client-00.parquet", "meters/client-00.work.parquet"
LINES = f"meters/{UPDATES}"


def measured() -> dict[str, bytes]:
    """The files of a run of which `fedroam energy` reads: its settings, a node's readings and log, and its updates."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        (folder / "experiment.toml").write_text(tiny(clients=2, rounds=3).toml(), encoding="utf-8")
        for round in (1, 2, 3):
            note_updates(folder, round, np.array([0, 1][: round % 3]), np.array([0][round % 2 :]))
        readings = [(0, 0, t / 2, 1000 + t / 2, 2.0 + t, math.nan) for t in range(12)]
        pd.DataFrame(readings, columns=list(READING)).astype(READING).to_parquet(folder / READINGS)
        work = [
            (0, 0, r, what, 2 * r - 1.5, 2 * r - 0.5) for r, what in ((1, "training"), (2, "communication"))
        ]
        pd.DataFrame(work, columns=list(DONE)).astype(DONE).to_parquet(folder / WORK)
        names = ("experiment.toml", READINGS, WORK, LINES)
        return {name: (folder / name).read_bytes() for name in names}


def energy_is_sound(folder: Path) -> bool:
    """Whether what was measured in a folder adds up to numbers."""
    found = measured_energy(Run(folder))
    assert (folder / FOLDER).is_dir()
    sums = found.table[["consumed", "wasted", "seconds", "measured"]].to_numpy(float)
    return bool(
        np.isfinite(sums).all() and (found.table["measured"] <= found.table["seconds"] * (1 + 1e-9)).all()
    )
