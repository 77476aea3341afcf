"""Roads of SUMO and a folder of GPX, road-side units with a range, a sweep over their number and k2, energy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedroam

TOWN = """\
name = "town"
clients = 6
rounds = 6
evaluate_every = 3

[data]
kind = "digits"
test_share = 0.8

[model]
kind = "softmax_regression"

[mobility]
kind = "trace"
file = "town.parquet"
mode = "interpolate"
interval = 20.0
max_gap = 10.0

[access_points]
kind = "file"
path = "units.csv"

[federation]
kind = "mohawk"

[sweep.grid]
access_points.number = [1, 5]
federation.k2 = [1, 3]
"""
WALKS = """\
name = "walks"
clients = 3
rounds = 3

[data]
kind = "digits"
test_share = 0.8

[model]
kind = "softmax_regression"

[mobility]
kind = "trace"
file = "walks.parquet"
mode = "interpolate"
interval = 30.0

[contacts]
kind = "radius"
radius = 150.0
"""
RANGES = {"west": 200.0, "middle": 250.0, "east": 200.0, "north": 200.0, "south": 200.0}


def write_roads(home: Path) -> None:
    """Six cars on two roads that cross, as SUMO writes them; car 5 comes after a minute and leaves after three."""
    steps = []
    for second in range(0, 241, 5):
        seen = []
        for car in range(6):
            way = (40 * car + 12 * second) % 2000
            place = min(way, 2000 - way)
            x, y = (place, 500) if car % 2 else (500, place)
            if car < 5 or 60 <= second <= 180:
                seen.append(f'<vehicle id="car {car}" x="{x:.2f}" y="{y:.2f}" speed="12.00"/>')
        steps.append(f'<timestep time="{second}.00">{"".join(seen)}</timestep>')
    (home / "town.xml").write_text(
        "<fcd-export>\n" + "\n".join(steps) + "\n</fcd-export>\n", encoding="utf-8"
    )
    rows = {
        "west": (150, 500),
        "middle": (500, 500),
        "east": (850, 500),
        "north": (500, 850),
        "south": (500, 150),
    }
    units = pd.DataFrame(
        [(name, *rows[name], RANGES[name]) for name in rows], columns=["name", "x", "y", "range"]
    )
    units.to_csv(home / "units.csv", index=False)


def write_walks(home: Path) -> None:
    """Three walkers side by side, about 111 m apart, each in a GPX file of its own, and a file that is no track."""
    (home / "walks").mkdir()
    for k, name in enumerate(("ann", "bo", "cleo")):
        points = "".join(
            f'<trkpt lat="{52 + 0.001 * k:.6f}" lon="{4.37 + 0.00002 * second:.6f}">'
            f"<time>2024-05-06T08:{second // 60:02d}:{second % 60:02d}Z</time></trkpt>"
            for second in range(0, 181, 10)
        )
        (home / f"walks/{name}.gpx").write_text(
            '<?xml version="1.0"?>\n<gpx version="1.1" creator="watch" xmlns="http://www.topografix.com/GPX/1/1">'
            f"<trk><name>morning</name><trkseg>{points}</trkseg></trk></gpx>\n",
            encoding="utf-8",
        )
    (home / "walks/notes.txt").write_text("rain", encoding="utf-8")


def test_a_sweep_over_road_side_units(tell: Callable[..., str], tmp_path: Path) -> None:
    write_roads(tmp_path)
    (tmp_path / "town.toml").write_text(TOWN, encoding="utf-8")
    told = tell("trace", "import", "town.xml", "town.parquet")
    assert "270 fixes of 6 devices from SUMO FCD" in told  # 5 cars with 49 fixes, one with 25
    assert "places are taken as metres" in told

    told = tell("sweep", "town.toml", "--seeds", "2", "--workers", "1", "--out", "units", "--quiet")
    assert "LTE is measured by one scale in all runs" in told
    assert "next: fedroam report units" in told
    sweep = fedroam.open_sweep("units")
    assert sweep.done
    assert sweep.varied == ("access_points.number", "federation.k2")
    assert len(sweep.table) == 8

    # the best is that of the table, named with its mean and error
    means = sweep.table.groupby(list(sweep.varied))["accuracy"].agg(["mean", "sem"])
    number, k2 = means["mean"].idxmax()
    best = re.search(r"Best of 4 settings: number=(\d+), k2=(\d+), final accuracy ([\d.]+) ± ([\d.]+)", told)
    assert best is not None
    assert (int(best[1]), int(best[2])) == (number, k2)
    assert float(best[3]) == pytest.approx(100 * means["mean"].max(), abs=0.051)
    assert float(best[4]) == pytest.approx(100 * means.loc[(number, k2), "sem"], abs=0.051)

    # one scale for all; each unit with the range of its row; a car out of every range is out of service
    scales = {(swept.run.world["distance_mean"], swept.run.world["distance_std"]) for swept in sweep.runs}
    assert len(scales) == 1
    for swept in sweep.runs:
        world, rounds = swept.run.world, swept.run.rounds
        points = np.array(world["access_points"])
        assert len(points) == swept.run.settings["access_points"]["number"]
        assert set(world["access_point_ranges"]) <= set(RANGES.values())
        assert world["names"]["mobility"] == [f"car {k}" for k in range(6)]
        places = swept.run.positions[lambda table: table["present"] & (table["round"] == 6)]
        away = np.hypot(
            places["x"].to_numpy()[:, None] - points[:, 0], places["y"].to_numpy()[:, None] - points[:, 1]
        )
        out = (away > np.array(world["access_point_ranges"])).all(axis=1).sum()
        assert rounds.set_index("round").loc[6, "out_of_service"] == out
        # energy by vehicle adds up to that of all, and nobody out of reach has spent any
        last = swept.run.clients[lambda table: table["round"] == 6]
        assert last["device"].tolist() == [f"car {k}" for k in range(6)]
        assert last["energy"].sum() == pytest.approx(rounds["energy"].iloc[-1])
        assert last["energy_wasted"].sum() == pytest.approx(rounds["energy_wasted"].iloc[-1])
        assert ((last["energy"] > 0) == (last["bytes_up"] + last["bytes_down"] > 0)).all()
    spent = sweep.table.groupby("access_points.number")["energy"].mean()
    assert spent[5] > spent[1] > 0  # more cars in service: more is sent

    # the same joules in words, with digits that tell them apart
    told = tell("compare", "units", "--by", "access_points.number", "--statistic", "energy")
    assert "Energy of all clients (mJ)" in told
    for row in (1, 5):
        assert re.search(rf"\b{row} 2 {1000 * spent[row]:.1f} ± ", told)

    # the report names cars, units and the best
    assert "report: units/report.html" in tell("report", "units")
    page = Path("units/report.html").read_text(encoding="utf-8")
    assert f"Best of 4 settings: number={number}, k2={k2}" in page
    assert "Energy of each client" in page
    assert "car 3" in page


def test_a_folder_of_gpx(tell: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("pyproj")
    write_walks(tmp_path)
    (tmp_path / "walks.toml").write_text(WALKS, encoding="utf-8")
    told = tell("trace", "import", "walks/", "walks.parquet")
    assert "57 fixes of 3 devices from GPX" in told
    assert "a device is a file" in told
    assert "left out: notes.txt" in told
    told = tell("trace", "info", "walks.parquet", "--out", "figures")
    assert "gap, 5 % / median / 95 % 10 s / 10 s / 10 s" in told
    assert {path.stem for path in Path("figures").glob("*.svg")} == {
        "trace-devices", "trace-gaps", "trace-places", "trace-speeds",
    }  # fmt: skip
    tell("run", "walks.toml", "--no-report", "--out", "walked")
    run = fedroam.open_run("walked/seed-0")
    assert sorted(run.world["names"]["mobility"]) == ["ann", "bo", "cleo"]
    # 111 m from one to the next and 222 m from the first to the last: two pairs in reach of 150 m
    order = np.argsort(run.world["names"]["mobility"])
    pairs = {tuple(sorted((int(order[0]), int(order[1])))), tuple(sorted((int(order[1]), int(order[2]))))}
    for _, met in run.contacts.groupby("round"):
        assert set(zip(met["i"], met["j"], strict=True)) == pairs
    assert run.rounds["accuracy"].iloc[-1] > run.rounds["accuracy"].iloc[0]
