"""Figures of runs under a clock of seconds: what a reader must find on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedroam.analysis import variants
from fedroam.analysis.figures.catalogue import all_figures, draw_figure
from fedroam.analysis.figures.clock import client_time_figure, shares_of_time, transfers_figure
from fedroam.analysis.report.charts import curves
from fedroam.runner import run
from support.made_runs import made_run
from support.tiny import tiny


@pytest.fixture
def timed(tmp_path: Path) -> list:
    made = [
        made_run(tmp_path, "static", seed, [0.1, 0.4, 0.5 + seed / 10], time=[0, 7200, 14400])
        for seed in (0, 1)
    ]
    return variants([*made, made_run(tmp_path, "random", 0, [0.1, 0.6, 0.7], time=[0, 3600, 7200])])


def test_shares_of_time_by_hand(timed: list) -> None:
    table = shares_of_time(timed[0])
    assert table.index.tolist() == [3, 2, 1, 0]  # most training first
    assert table["time_training"].tolist() == [0.75, 0.5, 0.25, 0.0]
    assert (table.sum(axis=1) == 1).all()


def test_a_bar_a_client_and_a_panel_a_variant(timed: list) -> None:
    figure = client_time_figure(timed)
    assert figure is not None
    static = figure.axes[0]
    heights = np.array([bar.get_height() for bar in static.patches]).reshape(4, 4)  # kinds of time, clients
    assert heights[0].tolist() == [75, 50, 25, 0]
    assert heights.sum(axis=0).tolist() == [100] * 4
    assert [ax.get_title(loc="left") for ax in figure.axes] == [v.label for v in timed]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "training",
        "sending",
        "waiting",
        "away",
    ]
    assert static.get_xlabel() == "4 clients, by training"


def test_many_clients_are_thinned_and_the_ends_stay(tmp_path: Path) -> None:
    made = made_run(tmp_path, "static", 0, [0.1, 0.2], clients=200, time=[0, 100])
    figure = client_time_figure(variants([made]))
    assert figure is not None
    bars = figure.axes[0].patches[:40]
    assert (bars[0].get_height(), bars[-1].get_height()) == (100 * 199 / 200, 0)
    assert figure.axes[0].get_xlabel() == "40 of 200 clients, by training"


def test_shares_of_transfers(timed: list) -> None:
    figure = transfers_figure(timed)
    assert figure is not None
    assert [set(line.get_ydata()) for ax in figure.axes for line in ax.lines if len(line.get_xdata())] == [
        {20.0},
        {20.0},
        {40.0},
        {40.0},
        {80.0},
        {80.0},
    ]


def test_accuracy_over_time_in_hours(timed: list) -> None:
    figure = draw_figure("time", timed)
    assert figure is not None
    (ax,) = figure.axes
    assert ax.get_xlabel() == "Simulated time since the start (h)"
    assert ax.lines[0].get_xdata().tolist() == [0, 2, 4]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [10, 40, 55])
    chart = curves(timed)["time"]
    assert chart["series"][1]["x"] == [0, 1, 2]


@pytest.mark.parametrize("kind", ["delayed_mohawk", "fedasync", "hierarchical_fedbuff", "ad_psgd"])
def test_whoever_takes_stale_updates_tells_how_stale(kind: str, tmp_path: Path) -> None:
    """Of these devices some train for longer than a round."""
    late = "dropped" if kind in ("delayed_mohawk", "hierarchical_fedbuff") else "carried"
    own = run(
        tiny(
            federation=kind,
            rounds=4,
            evaluate_every=1,
            clock={"kind": "seconds", "length": 20.0, "late": late},
            compute={"kind": "flops", "speeds": (1e-3, 1e-6), "shares": (0.5, 0.5)},
            link={"kind": "fixed", "throughput": 8e-6 * 2600 / 4},
            access_points={"kind": "grid", "columns": 1, "rows": 1},
            contacts={"kind": "radius", "radius": float("inf")},
            mobility="static",
        ),
        tmp_path / "run",
    )
    stale = own.rounds.set_index("round")["staleness"]
    assert stale.max() > 0
    figure = next(figure for figure in all_figures(variants([own])) if figure.name == "staleness")
    (ax,) = figure.figure.axes
    drawn = pd.Series(ax.lines[0].get_ydata(), ax.lines[0].get_xdata())
    pd.testing.assert_series_equal(
        drawn.dropna(), stale.dropna(), check_names=False, check_index_type=False, check_dtype=False
    )
    assert kind not in ("delayed_mohawk", "ad_psgd") or kind in figure.caption


def test_without_a_clock_nothing_of_it_is_drawn(tmp_path: Path) -> None:
    plain = variants([made_run(tmp_path, "static", 0, [0.1, 0.2])])
    assert client_time_figure(plain) is None
    assert transfers_figure(plain) is None
    assert not {"time", "transfers", "client_time", "battery", "staleness"} & {
        figure.name for figure in all_figures(plain)
    }
