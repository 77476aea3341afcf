"""Figures: what a reader must find on them, and that equal figures give equal files."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from fedroam.analysis import variants
from fedroam.analysis.figures import drawing
from fedroam.analysis.figures.catalogue import all_figures, class_counts, draw_figure
from fedroam.analysis.figures.client_accuracy import final_values
from fedroam.analysis.figures.costs import energy_per_round_figure, per_round
from fedroam.analysis.figures.drawing import inline, log_tick, save, short
from fedroam.analysis.figures.lines import Line, lines_figure
from fedroam.analysis.figures.places import places_figure
from support.made_runs import made_run


@pytest.fixture
def groups(tmp_path: Path) -> list:
    runs = [
        made_run(tmp_path, variant, seed, [0.1, base, base + 0.1 * seed])
        for variant, base in (("static", 0.4), ("random", 0.6))
        for seed in (0, 1, 2)
    ]
    return variants(runs)


def legend_texts(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in [*legend.get_texts(), legend.get_title()]]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("accuracy", "Clients' test accuracy (%)"),
        ("mean_model", "Averaged model's accuracy (%)"),
        ("loss", "Clients' test loss (nats)"),
        ("consensus", "Consensus distance Σ‖x − x̄‖²"),
        ("degree", "Mean degree (contacts per client)"),
        ("isolated", "Clients without contact (% of all)"),
    ],
)
def test_curves_have_labels_units_and_legend(groups: list, name: str, label: str) -> None:
    figure = draw_figure(name, groups)
    (ax,) = figure.axes
    assert ax.get_xlabel() == "Communication round"
    assert ax.get_ylabel() == label
    assert legend_texts(figure) == ["static", "random", "mean, band: ± standard error over seeds (n = 3)"]


def test_accuracy_lines_and_bands_are_the_numbers(groups: list) -> None:
    (ax,) = draw_figure("accuracy", groups).axes
    assert ax.lines[0].get_xdata().tolist() == [0, 10, 20]
    assert ax.lines[0].get_ydata() == pytest.approx([10, 40, 50])  # finals 0.4, 0.5, 0.6
    band = ax.collections[0].get_paths()[0].vertices
    at_end = band[band[:, 0] == 20][:, 1]
    assert (at_end.min(), at_end.max()) == pytest.approx((50 - 10 / np.sqrt(3), 50 + 10 / np.sqrt(3)))


def test_isolated_is_a_share_of_the_clients(groups: list) -> None:
    assert draw_figure("isolated", groups).axes[0].lines[0].get_ydata() == pytest.approx(
        [25, 25, 25]
    )  # 1 of 4


def test_seeds_are_said_for_each_where_they_differ(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, "a", s, [0.1, 0.2]) for s in (0, 1)] + [made_run(tmp_path, "b", 0, [0.1, 0.3])]
    figure = draw_figure("accuracy", variants(runs))
    assert legend_texts(figure) == ["a (n = 2)", "b (n = 1)", "mean, band: ± standard error over seeds"]
    assert len(figure.axes[0].collections) == 1  # one seed has no band


def test_one_seed_has_no_band(tmp_path: Path) -> None:
    figure = draw_figure("accuracy", variants([made_run(tmp_path, "a", 0, [0.1, 0.2])]))
    assert legend_texts(figure) == ["a", "one seed each, no error band"]
    assert not figure.axes[0].collections


def test_consensus_is_logarithmic_over_a_wide_range_only(tmp_path: Path) -> None:
    wide = made_run(tmp_path, "wide", 0, [0.1] * 3, consensus=[0.0, 1.0, 100.0])
    near = made_run(tmp_path, "near", 0, [0.1] * 3, consensus=[1.0, 2.0, 3.0])
    (ax,) = (figure := draw_figure("consensus", variants([wide]))).axes
    assert ax.get_yscale() == "log"
    assert "zeros not drawn" in legend_texts(figure)[-1]
    figure.canvas.draw()
    assert {"1", "10", "100"} <= {label.get_text() for label in ax.get_yticklabels()}
    assert [log_tick(v) for v in (1e-5, 0.01, 1000, 2e4, 1e12)] == ["10⁻⁵", "0.01", "1000", "2·10⁴", "10¹²"]
    assert np.isnan(ax.lines[0].get_ydata()[0])
    assert draw_figure("consensus", variants([near])).axes[0].get_yscale() == "linear"


def test_numbers_that_are_none_leave_gaps(tmp_path: Path) -> None:
    nan = float("nan")
    gap = variants([made_run(tmp_path, "gap", 0, [0.1, nan, 0.5])])
    assert np.isnan(draw_figure("accuracy", gap).axes[0].lines[0].get_ydata()).tolist() == [
        False,
        True,
        False,
    ]
    none = variants([made_run(tmp_path, "none", 0, [nan, nan])])
    assert draw_figure("accuracy", none) is None
    assert draw_figure("spread", none) is None
    assert draw_figure("traffic", none) is None


def test_spread_pools_the_clients_of_all_seeds(groups: list) -> None:
    values = final_values(groups[0], "accuracy")  # finals 0.4, 0.5, 0.6; four clients 1 point apart
    assert sorted(values) == pytest.approx(
        [f + d for f in (0.4, 0.5, 0.6) for d in (-0.015, -0.005, 0.005, 0.015)]
    )
    figure = draw_figure("spread", groups)
    (ax,) = figure.axes
    assert ax.get_xlabel() == "Test accuracy of each client at the end (%)"
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "static\n4 clients × 3 seeds",
        "random\n4 clients × 3 seeds",
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "client",
        "quartiles",
        "median",
        "lowest to highest",
    ]


def test_traffic_has_a_unit_that_fits(groups: list, tmp_path: Path) -> None:
    (ax,) = draw_figure("traffic", groups).axes
    assert ax.get_xlabel() == "Sent by all clients since the start (MB)"
    assert ax.lines[0].get_xdata() == pytest.approx([0, 1, 2])
    silent = variants([made_run(tmp_path, "silent", 0, [0.1, 0.2], sent=0)])
    assert draw_figure("traffic", silent) is None


@pytest.fixture
def charged(tmp_path: Path) -> list:
    runs = [
        made_run(
            tmp_path / "charged",
            "static",
            seed,
            [0.1, 0.5, 0.6],
            energy=[0, 500, 2000 + seed],
            wasted=[0, 0, 50],
        )
        for seed in (0, 1)
    ]
    return variants(
        [*runs, made_run(tmp_path / "charged", "random", 0, [0.1, 0.6, 0.7], energy=[0, 900, 9000])]
    )


def test_accuracy_against_energy(charged: list, groups: list) -> None:
    (ax,) = draw_figure("energy", charged).axes
    assert ax.get_xlabel() == "Spent by all clients since the start (kJ)"
    assert ax.lines[0].get_xdata() == pytest.approx([0, 0.5, 2.0005])
    assert ax.lines[1].get_ydata() == pytest.approx([10, 60, 70])
    assert draw_figure("energy", groups) is None  # runs without an account
    mixed = draw_figure("energy", [groups[0], charged[1]])
    assert mixed.axes[0].lines[1].get_xdata() == pytest.approx([0, 0.9, 9])


def test_energy_by_round(charged: list, groups: list, tmp_path: Path) -> None:
    run = charged[0].runs[1]
    assert per_round(run, "energy").to_dict() == pytest.approx({10: 50, 20: 150.1})
    figure = energy_per_round_figure(charged)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Spent", "Wasted"]
    assert figure.axes[0].lines[0].get_ydata() == pytest.approx([50, 150.05])
    assert figure.axes[1].lines[0].get_ydata() == pytest.approx([0, 5])
    assert "J a round" in figure._supylabel.get_text()
    assert energy_per_round_figure(groups) is None
    (only,) = energy_per_round_figure([charged[1]]).axes  # nothing is wasted there
    assert only.lines[0].get_ydata() == pytest.approx([90, 810])
    assert per_round(made_run(tmp_path, "short", 0, [0.1], energy=[0]), "energy").empty


def test_places_show_groups_range_and_contacts(tmp_path: Path) -> None:
    figure = places_figure(made_run(tmp_path, "", 0, [0.1, 0.2], reach=2.0))
    (ax,) = figure.axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (m)", "y (m)")
    assert {patch.get_radius() for patch in ax.patches if isinstance(patch, Circle)} == {2.0}
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert [segment.tolist() for segment in lines.get_segments()] == [[[1, 1], [1, 2]]]
    assert legend_texts(figure) == [
        "walker (1)",
        "stander (3)",
        "line: contact at the start; circle: radio range 2 m",
    ]
    assert [text.get_text() for text in ax.texts] == ["0", "1", "2", "3"]


def test_places_without_range_or_movement(tmp_path: Path) -> None:
    (ax,) = (figure := places_figure(made_run(tmp_path, "", 0, [0.1], reach=np.inf, movement=False))).axes
    assert not ax.patches
    assert "unlimited radio range" in legend_texts(figure)[-1]


def test_class_counts_by_hand(tmp_path: Path) -> None:
    counts, names = class_counts(made_run(tmp_path, "", 0, [0.1], clients=3))
    assert names == ["cat", "dog"]
    assert counts.tolist() == [[10, 0], [0, 11], [12, 0]]


def test_equal_figures_give_equal_files_and_leave_no_trace(groups: list, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    files = [save(draw_figure("accuracy", groups), tmp_path / name, "accuracy") for name in ("one", "two")]
    for one, two in zip(*files, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert b"Date" not in files[0][1].read_bytes()
    assert dict(matplotlib.rcParams) == before


def test_dollars_and_tags_in_names_are_text(tmp_path: Path) -> None:
    name = r"$\frac{<script>&"
    run = made_run(tmp_path, "", 0, [0.1, 0.2], classes=[name, "b"], groups=[name] + ["$"] * 3)
    for drawn in all_figures(variants([run])):
        _, svg = save(drawn.figure, tmp_path, drawn.name)
        assert "<script" not in svg.read_text()
        page = inline(svg.read_text(), "label")
        assert page.startswith("<svg role=")
        assert "http" not in page
        assert "#0072b2" not in page


def test_same_data_is_drawn_once(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, "a", 0, [0.1]), made_run(tmp_path, "b", 0, [0.1])]
    assert [d.name for d in all_figures(variants(runs)) if d.part == "data"] == ["holdings", "places"]
    runs.append(made_run(tmp_path, "c", 0, [0.1], clients=5))
    names = [d.name for d in all_figures(variants(runs)) if d.part == "data"]
    assert names == ["holdings", "holdings_2", "places"]


def test_short() -> None:
    assert short("abc", 5) == "abc"
    assert short("abcdefgh", 5) == "ab…gh"


def test_many_variants_leave_room_for_the_curves(tmp_path: Path) -> None:
    names = [f"variant-{k}-with-quite-a-long-name" for k in range(12)]
    runs = [made_run(tmp_path, name, 0, [0.1, 0.2]) for name in names]
    figure = draw_figure("accuracy", variants(runs))
    figure.canvas.draw()
    (ax,) = figure.axes
    box, legend = ax.get_window_extent(), figure.legends[0].get_window_extent()
    assert box.height > 2.2 * figure.dpi  # inches
    assert box.y1 <= legend.y0
    assert legend.x1 <= figure.bbox.x1
    looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in ax.lines}
    assert len(looks) == 12


@pytest.mark.parametrize(("panels", "shape"), [(4, (2, 2)), (5, (2, 3)), (3, (1, 3))])
def test_every_panel_has_its_tick_labels(panels: int, shape: tuple[int, int]) -> None:
    seed = pd.Series([0.1, 0.2], index=[0, 10])
    figure = lines_figure([(f"panel {k}", [Line("a", (seed, seed))]) for k in range(panels)], "y")
    assert figure is not None
    axes = [ax for ax in figure.axes if ax.get_visible()]
    grid = axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == shape
    assert len(axes) == panels
    assert all(ax.xaxis.get_tick_params()["labelbottom"] for ax in axes)


def test_files_of_a_figure_are_those_that_matplotlib_saves_laid_out_once(tmp_path: Path) -> None:
    def drawn() -> Figure:
        with drawing.style():
            figure, ax = drawing.new_figure()
            ax.plot([0, 1], [0, 1], label="one")
            ax.set_ylabel("a label that needs room")
            drawing.legend(figure, ax)
        return figure

    ours, theirs = drawn(), drawn()
    engine, dpi, canvas = ours.get_layout_engine(), ours.dpi, ours.canvas
    png, svg = save(ours, tmp_path, "drawn")
    place = ours.axes[0].get_position().bounds
    with drawing.saving("drawn"):
        theirs.savefig(tmp_path / "own.png", dpi=drawing.DOTS, metadata={"Software": None})
    assert png.read_bytes() == (tmp_path / "own.png").read_bytes()
    assert place == theirs.axes[0].get_position().bounds
    assert (ours.get_layout_engine(), ours.dpi, ours.canvas) == (engine, dpi, canvas)
    assert "a label that needs room" in svg.read_text(encoding="utf-8")
