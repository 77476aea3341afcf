"""Figures for papers: widths of their columns, fonts that are embedded, lines told apart without colour."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedroam.analysis.figures import drawing
from fedroam.checks.arguments import checked
from fedroam.errors import InputError, unknown
from fedroam.writing import make_folder, write_aside

LOOKS = ("paper", "screen")
FORMATS = ("pdf", "svg", "png")
INCH = 25.4  # mm
# Widths in mm. IEEE: 3.5 and 7.16 inches (Preparation of Papers for IEEE Transactions and Journals). ACM: 20 and 42
# picas, the columns and the text of acmart's sigconf.
WIDTHS: Mapping[str, Mapping[str, float]] = {
    "ieee": {"column": 3.5 * INCH, "text": 7.16 * INCH},
    "acm": {"column": 20 * INCH * 12 / 72.27, "text": 42 * INCH * 12 / 72.27},
}
NARROWEST, WIDEST = 30.0, 1000.0  # mm
RATIO = {"column": 0.66, "text": 0.4}  # height of a figure by its width

_PAPER: dict[str, Any] = {
    "font.family": ["STIXGeneral", "DejaVu Sans"],  # Times-like, and what it lacks
    "font.size": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 6.5,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.4,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "text.color": "black",
    "axes.edgecolor": "black",
    "axes.labelcolor": "black",
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    # TrueType, which IEEE and ACM demand: Type 3 fonts are refused.
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",  # the same to every reader, whatever fonts there are
}
_EMBEDDED = {"pdf.fonttype": 42, "ps.fonttype": 42}


def look_of(name: str) -> Any:
    """The settings of matplotlib for a look, to be used with `matplotlib.rc_context`."""
    if name not in LOOKS:
        raise unknown("style of a figure", name, LOOKS)
    return {**drawing.STYLE, **(_PAPER if name == "paper" else _EMBEDDED)}


def size_of(
    width: str | float | None, height: float | None, publisher: str, look: str
) -> tuple[float, float]:
    """Width and height of a figure in inches.

    width: "column" or "text" of the publisher's pages, or a number of mm; None: a column on paper, else the size of
    figures in reports. height: mm, or None: it follows the width. Raises InputError for what is no width or height.
    """
    if publisher not in WIDTHS:
        raise unknown("publisher", publisher, WIDTHS)
    if width is None and look == "screen":
        across, ratio = drawing.SIZE[0] * INCH, drawing.SIZE[1] / drawing.SIZE[0]
    else:
        given = "column" if width is None else width
        named = WIDTHS[publisher]
        ratio = RATIO.get(str(given), RATIO["column"])
        if isinstance(given, str) and given in named:
            across = named[given]
        else:
            across = _millimetres(given, "width", "column, text or a number of mm")
    up = across * ratio if height is None else _millimetres(height, "height", "a number of mm")
    return across / INCH, up / INCH


def _millimetres(given: str | float, what: str, allowed: str) -> float:
    try:
        value = float(given)
    except ValueError:
        value = float("nan")
    if not NARROWEST <= value <= WIDEST:
        raise InputError(f"{what} {given}: allowed is {allowed}, from {NARROWEST:g} to {WIDEST:g}")
    return value


def mark_of(k: int) -> dict[str, Any]:
    """Colour, dashes and marker of the k-th line; dashes and marker together tell 12 lines apart without colour."""
    return {
        "color": drawing.colour_of(k),
        "linestyle": drawing.DASHES[k % len(drawing.DASHES)],
        "marker": drawing.MARKERS[k % len(drawing.MARKERS)],
    }


MOST_LINES = 12  # the least common multiple of dashes and markers


@checked(figure="a figure or axes of matplotlib")
def save_figure(figure: Figure | Axes, path: str | Path, look: str = "paper") -> Path:
    """Write a figure (or that of axes) as PDF, SVG or PNG (600 dots per inch on paper), as the file's name ends.

    Fonts are embedded as TrueType (Type 42) in PDF, and are outlines in an SVG for paper. Equal figures give equal
    files. Raises InputError for another ending.
    """
    target = Path(path)
    format = target.suffix.removeprefix(".").lower()
    if format not in FORMATS:
        raise unknown("ending of a figure's file", target.suffix or target.name, [f".{f}" for f in FORMATS])
    drawn = figure.get_figure(root=True) if isinstance(figure, Axes) else figure
    assert drawn is not None
    facts: dict[str, dict[str, None]] = {
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
        "png": {"Software": None},
    }
    content = io.BytesIO()
    with drawing.saving(target.stem, look_of(look)):
        drawn.savefig(content, format=format, dpi=600 if look == "paper" else 160, metadata=facts[format])
    make_folder(target.parent)
    write_aside(target, lambda aside: aside.write_bytes(content.getvalue()))
    return target
