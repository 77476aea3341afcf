"""Tables, searches and figures of a study, declared: which runs, which number, what the paper printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

import pandas as pd

from fedroam.analysis.figures.error_bars import ErrorBars, error_bar_figure
from fedroam.analysis.figures.heatmap import heatmap_figure
from fedroam.analysis.figures.lines import Line, lines_figure
from fedroam.analysis.variants import mean_and_error
from fedroam.errors import InputError, unknown
from fedroam.recording import Run
from fedroam.study.measures import column
from fedroam.study.values import Item, Kind, Quotient, Reader, Value, needed

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


class Figure(Item, Protocol):
    """A figure, and how it is drawn from the runs it needs. marks: what stands for the seeds, where it can be told."""

    marks: ClassVar[str]

    @property
    def caption(self) -> str:
        """What it shows."""
        ...

    def draw(self, read: Reader) -> Drawing | None:
        """The figure; None where there is nothing to draw yet."""
        ...


@runtime_checkable
class DrawnFromRecords(Protocol):
    """A figure that numbers and curves of runs are enough for. parts: what it consists of, in the plural."""

    parts: ClassVar[str]

    def seeds_of(self, read: Reader) -> dict[str, int]:
        """Of how many seeds each of its parts is drawn, by name; 0 where there is nothing to draw."""
        ...


@dataclass(frozen=True)
class Cell:
    """A cell of a table: our value, and what the paper printed there (in the value's unit), with its error."""

    row: str
    column: str
    value: Value | Quotient
    paper: float | None = None
    paper_error: float | None = None


@dataclass(frozen=True)
class Table:
    """A table of the paper. source: its number there; caption: what it shows.

    baselines: rows that the others must beat to be of use; below the table stands which ones do not.
    """

    kind: ClassVar[Kind] = "table"
    partial: ClassVar[bool] = True
    name: str
    title: str
    cells: tuple[Cell, ...]
    source: str = ""
    caption: str = ""
    baselines: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        return needed(cell.value for cell in self.cells)

    def printed(self, row: str, column: str) -> float:
        """What the paper printed in a cell. Raises InputError where it printed nothing, or there is no such cell."""
        for cell in self.cells:
            if (cell.row, cell.column) == (row, column) and cell.paper is not None:
                return cell.paper
        raise InputError(f"table {self.name}: the paper prints nothing in row {row!r}, column {column!r}")


# What a paper printed in a cell: nothing, a number, or a number and its error.
Printed = float | tuple[float, float] | None
R = TypeVar("R")
C = TypeVar("C")


def table(
    name: str,
    title: str,
    rows: Mapping[str, R],
    columns: Mapping[str, C],
    value: Callable[[R, C], Value | Quotient],
    paper: Sequence[Sequence[Printed]] | None = None,
    *,
    source: str = "",
    caption: str = "",
    baselines: Sequence[str] = (),
) -> Table:
    """A table of rows x columns: labels with what `value(row, column)` needs.

    paper: the printed numbers by row: None, a number, or (number, error). Raises InputError for another shape.
    """
    if paper is not None and [len(row) for row in paper] != [len(columns)] * len(rows):
        raise InputError(f"table {name}: the paper's numbers must be {len(rows)} rows of {len(columns)}")
    cells = [
        Cell(label, head, value(r, c), *_printed(None if paper is None else paper[i][j]))
        for i, (label, r) in enumerate(rows.items())
        for j, (head, c) in enumerate(columns.items())
    ]
    for label in baselines:
        if label not in rows:
            raise unknown(f"baseline of table {name}", label, rows)
    return Table(name, title, tuple(cells), source, caption, tuple(baselines))


def one_column(
    name: str,
    title: str,
    rows: Mapping[str, R],
    head: str,
    value: Callable[[R], Value | Quotient],
    paper: Sequence[Printed] | None = None,
    *,
    source: str = "",
    caption: str = "",
) -> Table:
    """A table of one column: labels with what `value(row)` needs. paper: the printed numbers, one a row."""
    printed = None if paper is None else [(number,) for number in paper]
    return table(
        name, title, rows, {head: value}, lambda row, of: of(row), printed, source=source, caption=caption
    )


def _printed(given: Printed) -> tuple[float | None, float | None]:
    return given if isinstance(given, tuple) else (given, None)


@dataclass(frozen=True)
class Search:
    """The smallest key whose value reaches a share of a bound, a number or a value (by seed). paper: its answer."""

    kind: ClassVar[Kind] = "search"
    partial: ClassVar[bool] = False
    name: str
    title: str
    values: Mapping[float, Value]
    bound: Value | float
    share: float = 1.0
    paper: float | None = None
    source: str = ""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        return needed([*self.values.values(), *_bounding(self.bound)])


def _bounding(*bounds: Value | float | None) -> list[Value]:
    """The bounds that are values of runs, not plain numbers."""
    return [bound for bound in bounds if isinstance(bound, Value)]


BANDS = "Lines: means over seeds; shaded: mean ± one standard error"

# A number by round: the name of a column of `rounds`, or any function of a run.
ByRound = str | Callable[[Run], pd.Series]


@dataclass(frozen=True)
class Curves:
    """Curves over rounds with error bands: panels of lines, {panel title: {label: variant}}.

    by_round: one series for all lines; where lines are of one run (groups of clients), a label may stand for
    `(variant, by_round)`. factor: from the series to the unit of `ylabel`; grey: labels of lines that others are held
    against, drawn thin and grey.
    """

    kind: ClassVar[Kind] = "figure"
    partial: ClassVar[bool] = False
    marks: ClassVar[str] = BANDS
    parts: ClassVar[str] = "lines"
    name: str
    title: str
    panels: Mapping[str, Mapping[str, str | tuple[str, ByRound]]]
    by_round: ByRound = "accuracy"
    ylabel: str = "Clients' test accuracy (%)"
    factor: float = 100.0
    caption: str = ""
    grey: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants of its lines."""
        return tuple(
            dict.fromkeys(self._line(line)[0] for lines in self.panels.values() for line in lines.values())
        )

    def _line(self, line: str | tuple[str, ByRound]) -> tuple[str, ByRound]:
        return (line, self.by_round) if isinstance(line, str) else line

    def draw(self, read: Reader) -> Drawing | None:
        """A line for each variant, with a band over its seeds."""
        panels = []
        for title, lines in self.panels.items():
            drawn = []
            for label, line in lines.items():
                values = tuple(self.factor * curve for curve in self._curves(read, label, line))
                drawn.append(Line(label, values, grey=label in self.grey))
            panels.append((title, drawn))
        return lines_figure(panels, self.ylabel)

    def seeds_of(self, read: Reader) -> dict[str, int]:
        """Of how many seeds each line is, by its panel and label."""
        return {
            f"{title}: {label}" if title else label: len(self._curves(read, label, line))
            for title, lines in self.panels.items()
            for label, line in lines.items()
        }

    def _curves(self, read: Reader, label: str, line: str | tuple[str, ByRound]) -> list[pd.Series]:
        variant, by_round = self._line(line)
        name = by_round if isinstance(by_round, str) else f"{self.name}: {label}"
        return read.curves(variant, name, partial(_series, by_round=by_round))


def _series(run: Run, by_round: ByRound) -> pd.Series:
    return column(run, by_round) if isinstance(by_round, str) else by_round(run)


@dataclass(frozen=True)
class Doses:
    """A value over a setting, with error bars: {label: {key: value}}; bound: a dashed line, share times a value."""

    kind: ClassVar[Kind] = "figure"
    partial: ClassVar[bool] = False
    marks: ClassVar[str] = "Points: means over seeds; bars: mean ± one standard error"
    parts: ClassVar[str] = "points"
    name: str
    title: str
    lines: Mapping[str, Mapping[Any, Value | Quotient]]
    xlabel: str
    ylabel: str
    bound: Value | float | None = None
    share: float = 1.0
    bound_label: str = "bound"
    caption: str = ""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants of its points and of its bound."""
        return needed([*(v for line in self.lines.values() for v in line.values()), *_bounding(self.bound)])

    def draw(self, read: Reader) -> Drawing | None:
        """A point for each value, with a bar over its seeds."""
        lines = [
            ErrorBars(label, tuple((key, tuple(read(value).values())) for key, value in line.items()))
            for label, line in self.lines.items()
        ]
        bound = self.bound
        if isinstance(bound, Value):
            bound = mean_and_error(list(read(bound).values()))[0]
        shown = None if bound is None else (self.bound_label, self.share * bound)
        return error_bar_figure(lines, self.xlabel, self.ylabel, bound=shown)

    def seeds_of(self, read: Reader) -> dict[str, int]:
        """Of how many seeds each point, and a bound that is a value, is, by its line and key."""
        found = {
            f"{label}: {key}" if label else str(key): len(read(value))
            for label, line in self.lines.items()
            for key, value in line.items()
        }
        if isinstance(self.bound, Value):
            found[self.bound_label] = len(read(self.bound))
        return found


@dataclass(frozen=True)
class Heat:
    """A value over two settings: {(column, row): value}."""

    kind: ClassVar[Kind] = "figure"
    partial: ClassVar[bool] = True
    marks: ClassVar[str] = "Colours: means over seeds; numbers: mean ± one standard error"
    parts: ClassVar[str] = "cells"
    name: str
    title: str
    cells: Mapping[tuple[Any, Any], Value]
    xlabel: str
    ylabel: str
    label: str
    caption: str = ""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants of its cells."""
        return needed(self.cells.values())

    def draw(self, read: Reader) -> Drawing | None:
        """A cell for each value, shaded by its mean over seeds."""
        columns, rows = (list(dict.fromkeys(key[k] for key in self.cells)) for k in (0, 1))
        values = {key: list(read(value).values()) for key, value in self.cells.items()}
        return heatmap_figure(columns, rows, values, self.xlabel, self.ylabel, self.label)

    def seeds_of(self, read: Reader) -> dict[str, int]:
        """Of how many seeds each cell is, by its column and row."""
        return {f"{column}, {row}": len(read(value)) for (column, row), value in self.cells.items()}


@dataclass(frozen=True)
class OwnFigure:
    """Any other figure: `make({variant: [run of each seed]})` draws it, or gives None."""

    kind: ClassVar[Kind] = "figure"
    partial: ClassVar[bool] = False
    marks: ClassVar[str] = ""
    name: str
    title: str
    variants: tuple[str, ...]
    make: Callable[[Mapping[str, Sequence[Run]]], Drawing | None] = field(repr=False)
    caption: str = ""

    def draw(self, read: Reader) -> Drawing | None:
        """The figure that `make` draws; None without any run."""
        found = {variant: read.runs(variant) for variant in self.variants}
        return self.make(found) if any(found.values()) else None
