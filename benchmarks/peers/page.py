"""Puts the records of peers and of scaling on docs/performance.md: `python benchmarks/peers/page.py`.

Tables stand between marks in the page; figures in docs/images are light or dark as the reader's system is.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

sys.path.append(str(Path(__file__).parents[1]))  # for scaling

import measure
import scaling
from measure import PEERS, RECORD, rows
from work import WORKLOADS

from fedroam.analysis.figures.drawing import (
    COLOURS,
    GRID,
    INK,
    MUTED,
    PAPER,
    empty_figure,
    style,
    svg_text,
)
from fedroam.writing import write_text

PAGE = RECORD.parents[1] / "performance.md"
IMAGES = PAGE.parent / "images"
DARK = {INK: "#e6edf3", MUTED: "#9198a1", GRID: "#3d444d", PAPER: "#0d1117", "#0072b2": "#58a6ff"}
FACTORS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def both(svg: str) -> str:
    """The same picture with colours for light and for dark."""
    names = {colour: f"--c{k}" for k, colour in enumerate(DARK)}
    for colour, name in names.items():
        svg = re.sub(rf"{colour}\b", f"var({name})", svg, flags=re.IGNORECASE)
    light = "".join(f"{name}:{colour};" for colour, name in names.items())
    dark = "".join(f"{names[colour]}:{other};" for colour, other in DARK.items())
    # Text has no colour of its own where it is drawn in black, and takes that of the reader's scheme.
    look = f"svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
    return re.sub(r"(<svg [^>]*>)", lambda head: f"{head[0]}\n<style>{look}</style>", svg, count=1)


def peers(record: dict[str, Any]) -> Figure | None:
    """By workload, how many times fedroam's each peer takes: a dot for a round, a ring for the whole command."""
    shown = [(name, rows(record, name)) for name in WORKLOADS]
    shown = [(name, found) for name, found in shown if len(found) > 1 and found[0].peer == "fedroam"]
    lines = [(name, row, found[0]) for name, found in shown for row in found[1:]]
    if not lines:
        return None
    figure = empty_figure((7.2, 0.9 + 0.34 * len(lines)))
    axes = figure.subplots()
    for at, (_, row, ours) in enumerate(reversed(lines)):
        for values, base, marker, colour in (
            (row.round_s, ours.round_s, "o", COLOURS[0]),
            (row.command_s, ours.command_s, "s", COLOURS[1]),
        ):
            middle = statistics.median(base)
            ratios = [value / middle for value in values]
            axes.plot([min(ratios), max(ratios)], [at, at], color=colour, linewidth=1.5)
            axes.plot(statistics.median(ratios), at, marker, color=colour, markersize=6)
    axes.axvline(1.0, color=MUTED, linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(left=min(0.8, axes.get_xlim()[0]))
    axes.xaxis.set_major_locator(FixedLocator([*FACTORS]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks(
        range(len(lines)), [f"{PEERS[row.peer].about}, {name}" for name, row, _ in reversed(lines)]
    )
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("times fedroam's seconds (left of 1: faster than fedroam)")
    axes.plot([], [], "o-", color=COLOURS[0], label="a round")
    axes.plot([], [], "s-", color=COLOURS[1], label="whole command")
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def curves(record: dict[str, Any]) -> Figure | None:
    """Seconds a round and peak memory over each axis of the record."""
    axes_of = {
        name: sorted((point for point in record["points"].values() if point["axis"] == name), key=_value)
        for name in ("clients", "degree", "parameters", "workers")
    }
    if not any(axes_of.values()):
        return None
    figure = empty_figure((9.6, 4.8))
    panels = figure.subplots(2, 4, sharey="row")
    measured = (("round_s", "seconds a round", 1.0), ("peak_bytes", "peak memory, GiB", 2**-30))
    for column, (name, points) in enumerate(axes_of.items()):
        x = [_value(point) for point in points]
        for row, (key, label, factor) in enumerate(measured):
            axes = panels[row][column]
            axes.plot(x, [factor * point[key] for point in points], "o-", color=COLOURS[row], markersize=4)
            axes.set_xscale("log")
            axes.set_yscale("log")
            subs = (1, 2, 5) if max(x) < 100 * min(x) else (1,)
            axes.xaxis.set_major_locator(FixedLocator(x) if name == "workers" else LogLocator(subs=subs))
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
            if row:
                axes.set_xlabel({"degree": "neighbours"}.get(name, name))
            else:
                axes.tick_params(labelbottom=False)
            if not column:
                axes.set_ylabel(label)
    return figure


def _short(value: float) -> str:
    """A number on an axis: from 100,000 on as millions."""
    return f"{value / 1e6:g} M" if value >= 1e5 else f"{value:,.9g}"


def _value(point: dict[str, Any]) -> float:
    return float(point[point["axis"]])


@dataclass(frozen=True)
class Part:
    """A part of the page, of a record of the same name: a figure, and a table below it; one of each for every kind of
    processor, where the record has a part for each."""

    name: str
    table: Callable[[dict[str, Any]], str]
    draw: Callable[[dict[str, Any]], Figure | None]
    about: str
    by_kind: bool = False

    def records(self) -> dict[str, dict[str, Any]]:
        """What is kept, by the names of figures."""
        source = RECORD.parent / f"{self.name}.json"
        if not source.exists():
            return {}
        kept = json.loads(source.read_text(encoding="utf-8"))
        if not self.by_kind:
            return {self.name: kept}
        return {f"{self.name}-{kind.lower()}": kept[kind] for kind in sorted(kept)}

    def figures(self) -> dict[str, str]:
        """Figures as SVG, by their names: of what is measured."""
        with style():
            drawn = {name: self.draw(record) for name, record in self.records().items()}
            return {
                name: both(svg_text(figure, name)) for name, figure in drawn.items() if figure is not None
            }

    def text(self, drawn: Collection[str]) -> str:
        """What stands between the marks; drawn: the figures that there are."""
        parts = []
        for name, record in self.records().items():
            of = f", {record['machine']['instructions']}" if self.by_kind else ""
            picture = f"![{self.about}{of}](images/{name}.svg)\n\n" if name in drawn else ""
            parts.append(picture + self.table(record))
        told = "\n\n".join(parts or ["Nothing is kept yet."])
        return f"<!-- {self.name}: begin -->\n{told}\n<!-- {self.name}: end -->"


PARTS = (
    Part(
        "peers",
        measure.table,
        peers,
        "Times fedroam's seconds of each peer and workload, a round and a command",
        by_kind=True,
    ),
    Part(
        "scaling",
        scaling.table,
        curves,
        "Seconds a round and memory by clients, neighbours, parameters, workers",
    ),
)


def main() -> int:
    """Draw what records are there, and rewrite their parts of the page."""
    text = PAGE.read_text(encoding="utf-8")
    for part in PARTS:
        figures = part.figures()
        for name, figure in figures.items():
            write_text(IMAGES / f"{name}.svg", figure)
        marks = rf"<!-- {part.name}: begin -->.*<!-- {part.name}: end -->"
        new = part.text(figures)
        text = re.sub(marks, lambda _, new=new: new, text, count=1, flags=re.DOTALL)
    write_text(PAGE, text)
    print("docs/performance.md, docs/images: rewritten")
    return 0


if __name__ == "__main__":
    sys.exit(main())
