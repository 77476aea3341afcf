"""What a fleet does with its time and energy: by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedroam.analysis import variants
from fedroam.analysis.fleet import TIME, first_empty_words, of_energy, of_run, remarks, shown, told
from fedroam.analysis.report.devices import fleet_table
from fedroam.clock import TOTALS
from fedroam.recording import Run, open_run
from support.made_runs import made_run

# Four devices; two ran empty, the second of them is gone at the end.
CLIENTS = pd.DataFrame(
    {
        "client": [0, 1, 2, 3],
        "energy": [1.0, 2.0, 3.0, 2.0],
        "battery_drawn": [100.0, 200.0, 300.0, 200.0],
        "battery_drawn_motion": [50.0, 50.0, 100.0, 0.0],
        "battery_charge": [40.0, 0.0, 10.0, 30.0],
        "battery_gone": [False, True, False, False],
        "battery_died": [math.nan, 7200.0, 3600.0, math.nan],
    }
)


def test_the_times_that_are_told_are_those_that_the_clock_counts() -> None:
    assert TIME == TOTALS


def test_energy_and_lifetimes_by_hand() -> None:
    assert of_energy(CLIENTS) == {
        "energy": 2.0,
        "drawn": 200.0,
        "motion": 0.25,
        "charge": 20.0,
        "empty": 0.5,
        "first_empty": 3600.0,
        "half_empty": 7200.0,
        "gone": 0.25,
    }
    assert first_empty_words(CLIENTS) == "Client 2 after 1 h, Client 1 after 2 h"
    named = CLIENTS.assign(device=["a", "b", "c", "d"])
    assert first_empty_words(named) == "Client 2 (c) after 1 h, Client 1 (b) after 2 h"


def test_who_does_not_run_empty_has_no_lifetime() -> None:
    found = of_energy(CLIENTS.assign(battery_died=[math.nan, 5.0, math.nan, math.nan]))
    assert found["first_empty"] == 5.0
    assert math.isnan(found["half_empty"])
    assert of_energy(CLIENTS[["client"]]) == {}
    assert first_empty_words(CLIENTS[["client"]]) == ""


def test_means_say_of_how_many_worlds_they_are() -> None:
    worlds = [{"half_empty": 60.0, "gone": 0.5}, {"half_empty": math.nan, "gone": 1.0}]
    assert told(worlds) == ["half_empty", "gone"]
    assert shown("half_empty", worlds) == "1 min (1 of 2)"
    assert shown("gone", worlds) == "75.0\u00a0%"
    assert shown("half_empty", worlds[1:]) == "–"
    assert len(remarks(["drawn", "empty"])) == 2


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = made_run(tmp_path, "", 0, [0.1, 0.3, 0.5], time=[0, 7200, 14400], energy=[0, 10, 40])
    table = pd.read_parquet(made.folder / "clients.parquet")
    for name in CLIENTS.columns[2:]:
        table[name] = np.tile(CLIENTS[name], 3)
    table.to_parquet(made.folder / "clients.parquet")
    return open_run(made.folder)


def test_a_run_by_hand(run: Run) -> None:
    """20 rounds of 720 s; 40 points for 0.2 kJ a device; client i trains i / 4 of the time, and waits for the rest."""
    found = of_run(run)
    assert (found["seconds"], found["seconds_mean"]) == (14400.0, 720.0)
    assert (found["time_training"], found["time_waiting"]) == (0.375, 0.625)
    assert (found["fit"], found["through"], found["broken"]) == (0.2, 0.4, 8.0)
    assert found["per_kilojoule"] == pytest.approx(40 / 0.2)


def test_a_report_says_it(run: Run, tmp_path: Path) -> None:
    html = fleet_table(variants([run]))
    for said in ("Half empty after", "2\u00a0h", "Points per kJ", "Client 2 after 1 h, Client 1 after 2 h"):
        assert said in html
    plain = made_run(tmp_path / "plain", "", 0, [0.1, 0.2])
    assert fleet_table(variants([plain])) == ""
