"""The Gantt chart: what stands where, of which rounds, and what a page carries of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from fedroam.analysis import variants
from fedroam.analysis.figures.catalogue import all_figures
from fedroam.analysis.figures.clock import FILLS, WAITING, gantt_figure, plot_gantt
from fedroam.analysis.report import gantt
from fedroam.analysis.report.gantt import gantt_chart
from fedroam.errors import InputError
from fedroam.recording import Run, write_table
from support.made_runs import made_run

ROWS = [
    (1, 0, "training", 0.0, 4.0),
    (1, 1, "sending", 2.0, 3.5),
    (2, 0, "dead", 10.0, 20.0),
    (2, 2, "away", 10.0, 20.0),
    (3, 1, "charging", 20.0, 26.25),
]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Three rounds of 10 s, of four clients the timetable of three."""
    made = made_run(
        tmp_path, "", 0, [0.1, 0.2, 0.3, 0.4], every=1, time=[0, 10, 20, 30], settings={"record_schedule": 3}
    )
    table = pd.DataFrame(ROWS, columns=["round", "client", "state", "begin", "end"])
    write_table(made.folder / "schedule.parquet", table)
    return made


def test_bars_stand_where_the_table_says(run: Run) -> None:
    figure = gantt_figure(run)
    assert figure is not None
    (ax,) = figure.axes
    bars = [(to_hex(b.get_facecolor()), b.get_y() + 0.38, b.get_x(), b.get_width()) for b in ax.patches]
    expected = [(WAITING, i, 0.0, 30.0) for i in range(3)]
    expected += [
        (FILLS[state], client, begin, end - begin)
        for name in FILLS
        for _, client, state, begin, end in ROWS
        if state == name
    ]
    for found, wanted in zip(bars, expected, strict=True):
        assert found[0] == wanted[0]
        np.testing.assert_allclose(found[1:], wanted[1:])
    assert [line.get_xdata()[0] for line in ax.lines] == [10.0, 20.0]  # rounds end
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "2"]
    assert [key.get_text() for key in figure.legends[0].get_texts()] == [
        "training",
        "sending",
        "charging",
        "dead",
        "waiting",
        "away",
    ]


@pytest.mark.parametrize("width", ["column", "text"])
def test_no_key_is_cut_off(run: Run, width: str) -> None:
    figure = plot_gantt(run, look="paper", width=width).get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    keys, page = figure.legends[0].get_window_extent(), figure.bbox
    assert page.x0 <= keys.x0
    assert keys.x1 <= page.x1


def test_rounds_can_be_chosen(run: Run) -> None:
    ax = plot_gantt(run, (2, 2))
    assert ax.get_xlim() == (10.0, 20.0)
    assert len(ax.patches) == 3 + 2
    for wrong in ((0, 2), (2, 4), (3, 2)):
        with pytest.raises(InputError, match=r"allowed is FIRST:LAST from 1 to 3"):
            plot_gantt(run, wrong)


def test_a_run_without_a_timetable_has_no_chart(tmp_path: Path) -> None:
    plain = made_run(tmp_path, "", 0, [0.1, 0.2])
    assert gantt_figure(plain) is None
    with pytest.raises(InputError, match="record_schedule above 0"):
        plot_gantt(plain)
    assert "gantt" not in {figure.name for figure in all_figures(variants([plain]))}


def test_a_page_carries_each_span(run: Run) -> None:
    chart = gantt_chart(run, "t")
    assert chart["states"] == list(FILLS)
    assert [lane["name"] for lane in chart["lanes"]] == ["Client 0", "Client 1", "Client 2"]
    told = []
    for i, lane in enumerate(chart["lanes"]):
        times = np.cumsum(lane["steps"]).reshape(-1, 2) / 1000
        told += [
            (i, chart["states"][k], *span) for k, span in zip(lane["state"], times.tolist(), strict=True)
        ]
    assert sorted(told) == sorted((client, state, begin, end) for _, client, state, begin, end in ROWS)
    assert (chart["rounds"], chart["until"], chart["cut"]) == ([10, 20, 30], 30, None)


def test_of_many_spans_the_first_rounds_are_carried(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gantt, "SPANS", 4)
    chart = gantt_chart(run, "t")
    assert (chart["rounds"], chart["until"], chart["cut"]) == ([10, 20], 20, 3)
    assert sum(len(lane["state"]) for lane in chart["lanes"]) == 4
    (figure,) = [one for one in all_figures(variants([run])) if one.name == "gantt"]
    assert "The first 3 of 4 clients" in figure.caption
