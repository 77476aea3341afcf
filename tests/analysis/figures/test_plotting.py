"""One figure at will: the numbers that are drawn, how lines differ, and what a paper asks of the file."""

from __future__ import annotations

import itertools
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import t as student

import fedroam
from fedroam.analysis.figures.plotting import averaged_over, plot
from fedroam.analysis.figures.publishing import MOST_LINES, WIDTHS, mark_of, save_figure, size_of
from fedroam.errors import InputError
from fedroam.recording import Run
from support.commands import Commands
from support.made_runs import made_run

SEEDS = (0.50, 0.56, 0.62)  # the last accuracy of three seeds


@pytest.fixture
def fr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def runs_of(root: Path) -> list[Run]:
    """Two settings of two values each, three seeds: accuracy at the end is seed + 0.1 a + 0.01 (b - 1)."""
    found = []
    for a, b in itertools.product((1, 2), (2, 10)):
        for seed, last in enumerate(SEEDS):
            end = last + 0.1 * a + 0.01 * (b - 1)
            settings = {
                "mobility": {"kind": "random", "mobile": a},
                "contacts": {"kind": "radius", "radius": float(b)},
            }
            accuracy = [0.1, 0.3, end]
            energy = [0.0, 1500.0 * a, 4000.0 * a]
            found.append(made_run(root / f"{a}-{b}", "", seed, accuracy, settings=settings, energy=energy))
    return found


def drawn(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(line.get_label()): (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
        for line in ax.lines
    }


def legend_of(ax: Axes) -> Any:
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    (legend,) = figure.legends
    return legend


def test_lines_are_means_within_seeds_then_over_seeds(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    ax = plot(runs, by="mobility.mobile")
    lines = drawn(ax)
    assert list(lines) == ["mobile = 1", "mobile = 2"]
    # averaged over the two radii: 0.1 a + (0.01 + 0.09) / 2, and over seeds 0.56
    for a in (1, 2):
        x, y = lines[f"mobile = {a}"]
        assert x == [0, 10, 20]
        assert y == pytest.approx([10, 30, 100 * (0.56 + 0.1 * a + 0.05)])
    assert averaged_over(runs, ["mobility.mobile"]) == ["contacts.radius"]
    assert averaged_over(runs, []) == []
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Communication round", "Test accuracy (%)")
    assert legend_of(ax).get_title().get_text() == "mean over seeds, band: ± standard error (n = 3)"
    # a seed that lacks one of the runs is left out: its mean would be another one
    ax = plot(runs[:-1], by="mobility.mobile")
    assert drawn(ax)["mobile = 2"][1][-1] == pytest.approx(100 * (0.53 + 0.2 + 0.05))


@pytest.mark.parametrize(
    ("band", "factor"), [("error", 1.0), ("interval", float(student.ppf(0.975, 2))), ("none", None)]
)
def test_bands_are_what_they_are_called(tmp_path: Path, band: Any, factor: float | None) -> None:
    ax = plot(runs_of(tmp_path)[:3], band=band)
    title = legend_of(ax).get_title().get_text()
    if factor is None:
        assert not ax.collections
        assert title == "mean over seeds (n = 3)"
        return
    (filled,) = ax.collections
    end = [y for x, y in filled.get_paths()[0].vertices if x == 20]
    half = 100 * 0.06 / np.sqrt(3) * factor
    assert (min(end), max(end)) == pytest.approx((100 * 0.67 - half, 100 * 0.67 + half))
    words = {"error": "± standard error", "interval": "95% confidence interval (Student's t)"}[band]
    assert title == f"mean over seeds, band: {words} (n = 3)"
    single = legend_of(plot(runs_of(tmp_path / "again")[:1], band=band)).get_title().get_text()
    assert single == "one seed each, no band"


def test_against_another_column_and_over_a_setting(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    ax = plot(runs, against="energy", by="mobility.mobile")
    assert drawn(ax)["mobile = 2"][0] == pytest.approx([0, 3, 8])  # kJ, for the largest is 8 kJ
    assert ax.get_xlabel() == "Energy of all clients (kJ)"
    ax = plot(runs, against="contacts.radius")
    assert ax.get_xlabel() == "contacts.radius (m)"  # the unit that the part declares
    ends = [container.lines[0] for container in ax.containers]  # type: ignore[attr-defined]
    assert [np.asarray(line.get_xdata()).tolist() for line in ends] == [[2, 10], [2, 10]]
    for a, line in zip((1, 2), ends, strict=True):
        wanted = [100 * (0.56 + 0.1 * a + 0.01 * (b - 1)) for b in (2, 10)]
        assert np.asarray(line.get_ydata()).tolist() == pytest.approx(wanted)
    assert [text.get_text() for text in legend_of(ax).get_texts()] == ["mobile = 1", "mobile = 2"]
    assert legend_of(ax).get_title().get_text().startswith("at the end of runs; mean over seeds, bars: ±")


def test_lines_are_told_apart_without_colour(tmp_path: Path) -> None:
    apart = {(str(mark["linestyle"]), mark["marker"]) for mark in map(mark_of, range(MOST_LINES))}
    assert len(apart) == MOST_LINES
    ax = plot(runs_of(tmp_path))
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in ax.lines}) == 4
    many = [
        made_run(
            tmp_path / f"many-{k}", "", 0, [0.1, 0.2], settings={"mobility": {"kind": "random", "mobile": k}}
        )
        for k in range(MOST_LINES + 1)
    ]
    with pytest.raises(InputError, match="13 lines: allowed are up to 12"):
        plot(many)


def test_axes_in_and_out(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot(runs, by="mobility.mobile", ax=left) is left
    assert runs[0].plot("loss", ax=right) is right
    assert right.get_ylabel() == "Test loss (nats)"
    assert left.get_legend() is not None
    assert not figure.legends
    assert fedroam.plot is plot
    # a single run has its label, however long
    lone = made_run(tmp_path / "lone", "a name that is longer than a legend shows", 0, [0.1, 0.2])
    assert drawn(lone.plot()).keys() == {"a name that is long…than a legend shows"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"what": "acuracy"}, "unknown column of rounds 'acuracy'.*did you mean 'accuracy'"),
        (
            {"by": "mobility.mobil"},
            "unknown setting that varies 'mobility.mobil'.*did you mean 'mobility.mobile'",
        ),
        ({"by": "mobility.kind"}, "unknown setting that varies 'mobility.kind'"),
        ({"against": "nothing"}, "unknown column of rounds, or setting that varies 'nothing'"),
        ({"by": "contacts.radius", "against": "contacts.radius"}, "contacts.radius: stands on an axis"),
        ({"band": "wide"}, "unknown band 'wide': allowed are error, interval, none"),
        ({"style": "loud"}, "unknown style of a figure 'loud'"),
        ({"publisher": "me"}, "unknown publisher 'me'"),
        ({"width": "wide"}, "width wide: allowed is column, text or a number of mm, from 30 to 1000"),
        ({"height": 5}, "height 5: allowed is a number of mm"),
    ],
)
def test_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plot(runs_of(tmp_path), **options)


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (
            "runs/moving",
            "plot: runs: found 'runs/moving' .str., allowed is a list of runs, as open_runs gives",
        ),
        (Path("runs/moving"), "allowed is a list of runs"),
        (["runs/moving"], "allowed is a list of runs"),
        ([], "an empty list: allowed are one or more runs"),
    ],
)
def test_what_are_no_runs(runs: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plot(runs)


def test_a_run_without_a_list(tmp_path: Path) -> None:
    alone: Any = runs_of(tmp_path)[0]
    with pytest.raises(InputError, match="allowed is a list of runs"):
        plot(alone)


def test_widths() -> None:
    assert [WIDTHS["ieee"][name] for name in ("column", "text")] == pytest.approx([88.9, 181.864])
    assert [WIDTHS["acm"][name] for name in ("column", "text")] == pytest.approx([84.35, 177.13], abs=0.02)
    assert size_of("column", None, "ieee", "screen")[0] == 3.5
    assert size_of(50.8, 25.4 * 1.5, "acm", "paper") == pytest.approx((2.0, 1.5))
    assert size_of("50.8", None, "acm", "paper")[0] == pytest.approx(2.0)
    assert size_of(None, None, "acm", "paper")[0] == pytest.approx(84.35 / 25.4, abs=1e-3)


def fonts(pdf: bytes) -> list[bytes]:
    """The subtypes of the fonts of a PDF, in its objects and packed streams."""
    packed = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, flags=re.DOTALL)
    plain = []
    for piece in packed:
        try:
            plain.append(zlib.decompress(piece))
        except zlib.error:
            continue
    return re.findall(rb"/Subtype\s*/(Type\w+|TrueType|CIDFontType\w+)", b"\n".join([pdf, *plain]))


def test_the_file_is_what_a_paper_asks_for(tmp_path: Path) -> None:
    ax = plot(runs_of(tmp_path), by="mobility.mobile", style="paper", publisher="acm")
    pdf = save_figure(ax, tmp_path / "out" / "a.pdf").read_bytes()
    found = fonts(pdf)
    assert b"CIDFontType2" in found  # TrueType outlines, embedded
    assert b"/FontFile2" in pdf
    assert b"Type3" not in found
    (box,) = {tuple(map(float, each.split())) for each in re.findall(rb"/MediaBox\s*\[([^\]]+)\]", pdf)}
    assert box[2] - box[0] == pytest.approx(72 / 25.4 * WIDTHS["acm"]["column"], abs=0.1)
    again = plot(runs_of(tmp_path / "b"), by="mobility.mobile", style="paper", publisher="acm")
    assert save_figure(again, tmp_path / "a.pdf").read_bytes() == pdf
    assert save_figure(ax, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    text = save_figure(ax, tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<text" not in text  # outlines: no font is needed
    with pytest.raises(
        InputError, match=r"unknown ending of a figure's file '\.jpg': allowed are \.pdf, \.png, \.svg"
    ):
        save_figure(ax, tmp_path / "a.jpg")


def test_the_command(fr: Commands) -> None:
    runs_of(fr.folder / "runs")
    said = fr("figure", "runs", "--by", "mobility.mobile", "--against", "energy")
    assert said.code == 0, said
    assert "averaged within each seed over contacts.radius" in said.out + said.err
    assert re.search(r"figure: accuracy\.pdf \(88\.9 mm x \d+\.\d mm\)", said.out)
    assert (fr.folder / "accuracy.pdf").read_bytes().startswith(b"%PDF")
    assert fr("figure", "runs", "--what", "energy", "--out", "there/e.svg", "--width", "60").code == 0
    assert (fr.folder / "there" / "e.svg").exists()
    for wrong, words in (
        (("--format", "jpg"), "unknown value of --format 'jpg'"),
        (("--out", "a.jpg"), "--out a.jpg: allowed are names that end in .pdf, .svg, .png"),
        (("--out", "a.png", "--format", "pdf"), "--format is pdf"),
        (("--what", "nothing"), "unknown column of rounds 'nothing'"),
        (("--width", "wide"), "width wide"),
    ):
        answer = fr("figure", "runs", *wrong)
        assert (answer.code, words in answer.err, answer.err.count("\n")) == (2, True, 1), answer
