"""How every figure looks, and how it is saved. No pyplot, no state outside the figure."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from fedroam.errors import InputError
from fedroam.writing import write_aside, write_text

# Okabe and Ito, "Color universal design" (2008): told apart with any kind of colour vision. Yellow is left out, it
# is too faint for a line; past six, the line's dashes tell variants apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, MUTED, GRID, PAPER = "#1f2328", "#59636e", "#d9dee3", "#ffffff"
DOTS, _POINTS = 160, 72  # per inch: of a PNG; of an SVG, by its format
SIZE = (5.8, 3.6)  # inches; in a report two stand side by side on a laptop
FEW = 30  # points of a line; up to here each is marked
_NO_FACTS = {"Date": None, "Creator": None, "Format": None, "Type": None}
_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_GOLDEN = 0.6180339887  # multiples of it, modulo 1, spread dots evenly and without a draw

STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "text.parse_math": False,  # names are the user's: a dollar sign is a dollar sign
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.title_fontsize": 9,
    "svg.fonttype": "none",  # text stays text: small files, searchable, editable
}


def style() -> AbstractContextManager[None]:
    """The look of every figure, for the time in which it is drawn or saved."""
    return matplotlib.rc_context(STYLE)


def empty_figure(size: tuple[float, float]) -> Figure:
    """A figure without axes, for several panels; call it within `style`. size: inches."""
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.07))
    FigureCanvasAgg(figure)
    return figure


def new_figure(size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes; call it within `style`. size: inches."""
    figure = empty_figure(size)
    return figure, figure.add_subplot()


def draw_line(
    ax: Axes, k: int, label: str, x: np.ndarray, y: np.ndarray, error: np.ndarray, floor: float | None = None
) -> None:
    """Draw the k-th variant's line and band; floor: on a logarithmic axis, where a band that reaches zero is cut."""
    marker = "o" if len(x) <= FEW else None
    ax.plot(
        x,
        y,
        color=colour_of(k),
        linestyle=dash_of(k),
        linewidth=1.8,
        marker=marker,
        markersize=3.2,
        label=label,
    )
    lower = y - error if floor is None else np.maximum(y - error, floor / 2)
    if np.isfinite(error).any():
        ax.fill_between(x, lower, y + error, color=colour_of(k), alpha=0.2, linewidth=0)


def jitter(dots: int, width: float) -> np.ndarray:
    """Offsets that keep dots of one row apart, float64 [dots], evenly over `width` around 0."""
    return (np.arange(dots) * _GOLDEN % 1 - 0.5) * width


def round_ticks(ax: Axes, most: int) -> None:
    """Whole numbers of rounds along the x axis, at most about so many."""
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=most, steps=[1, 2, 5, 10]))


def log_ticks(axis: Axis) -> None:
    """Readable numbers along a logarithmic axis, none between the powers."""
    axis.set_major_formatter(FuncFormatter(log_tick))
    axis.set_minor_formatter(NullFormatter())


def log_tick(value: float, _: object = None) -> str:
    """A tick of a logarithmic axis: 0.01 to 1000 as they are, others as a power of ten."""
    if 0.01 <= value <= 1000:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    text = f"10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return text if mantissa == "1" else f"{mantissa}·{text}"


def bare_field(ax: Axes) -> None:
    """Take grid, ticks and frame from axes that a field of colours fills."""
    ax.grid(visible=False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def colour_bar(figure: Figure, image: ScalarMappable, ax: Axes, **options: Any) -> Colorbar:
    """What the colours of a field mean, beside it; options as of `Figure.colorbar`."""
    bar = figure.colorbar(image, ax=ax, pad=0.02, **options)
    bar.outline.set_edgecolor(PAPER)
    bar.ax.yaxis.label.set_color(INK)
    return bar


def short(text: str, limit: int = 27) -> str:
    """A label cut in its middle where it is too long for a figure."""
    half = (limit - 1) // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def short_each(texts: Sequence[str], limit: int = 27) -> list[str]:
    """Labels, each cut as `short` does, but for those that would then read like another one."""
    cut = [short(text, limit) for text in texts]
    return [one if cut.count(one) == 1 else text for one, text in zip(cut, texts, strict=True)]


def legend(figure: Figure, ax: Axes, title: str = "", limit: int = 82) -> None:
    """A legend above the axes, where it hides no data; in as many columns as fit, and the figure grows with it.

    limit: about how many letters stand beside each other; where they turn out wider than the figure, fewer do.
    """
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    widest = max(len(label) for label in labels) + 6
    ncols = max(1, min(len(labels), limit // widest))
    while True:
        drawn = figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=ncols,
            title=title or None,
            alignment="left",
            handlelength=2.2,
            columnspacing=1.4,
        )
        if ncols == 1 or drawn.get_window_extent().width <= figure.bbox.width:
            break
        drawn.remove()
        ncols -= 1
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.2 * (math.ceil(len(labels) / ncols) - 1))
    drawn.get_title().set_color(MUTED)


def figures_below(folder: Path) -> Path:
    """The folder for figures below that of a report. Raises InputError where it is a link, which somebody may have
    planted: a report is also written into folders that came from elsewhere."""
    below = folder / "figures"
    if below.is_symlink():
        raise InputError(f"{below}: is a link; a report writes files of its own only: delete the link")
    return below


def save(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write NAME.png (160 dots per inch) and NAME.svg; equal figures give equal files."""
    folder.mkdir(parents=True, exist_ok=True)
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    points = io.BytesIO()
    with saving(name), _at(figure, DOTS):
        FigureCanvasAgg(figure).print_png(points, metadata={"Software": None})
    with _laid_out(figure):
        text = svg_text(figure, name)
    write_aside(png, lambda aside: aside.write_bytes(points.getvalue()))
    write_text(svg, text)
    return png, svg


def svg_text(figure: Figure, name: str) -> str:
    """A figure as SVG; equal figures of one name give equal texts."""
    lines = io.StringIO()
    with saving(name), _at(figure, _POINTS):
        FigureCanvasSVG(figure).print_svg(lines, metadata=_NO_FACTS)
    return _NOT_IN_XML.sub("\ufffd", lines.getvalue())


@contextmanager
def _at(figure: Figure, dots: float) -> Iterator[None]:
    """While a canvas prints a figure at so many dots an inch.

    `Figure.savefig` would draw all of it twice, once for the places of things alone; a canvas finds them as it draws.
    """
    before, canvas = figure.dpi, figure.canvas
    figure.dpi = dots
    try:
        yield
    finally:
        figure.dpi = before
        figure.set_canvas(canvas)


@contextmanager
def saving(name: str, look: Any = STYLE) -> Iterator[None]:
    """While a figure of a name is saved: equal figures give equal files. look: settings of matplotlib."""
    with matplotlib.rc_context({**look, "svg.hashsalt": name}), warnings.catch_warnings():
        # Names are the user's: what the font lacks is drawn as a box, and that is all there is to say of it.
        warnings.filterwarnings("ignore", "Glyph|Matplotlib currently does not support", UserWarning)
        yield


def inline(svg: str, label: str) -> str:
    """A saved SVG for use within an HTML page: no prolog and no addresses, colours that follow the page's theme.

    label (HTML-escaped by the caller) is what a screen reader says.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # several figures on one page: ids of groups would clash
    svg = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?)height="[^"]*"', r"\1", svg, count=1)
    names = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper"}
    names.update({colour: f"c{k}" for k, colour in enumerate(COLOURS)})
    for colour, name in names.items():
        svg = re.sub(rf"{colour}\b", f"var(--{name})", svg, flags=re.I)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).strip()


@contextmanager
def _laid_out(figure: Figure) -> Iterator[None]:
    """While everything in a figure that has been drawn stays where it is: finding places takes as long as drawing."""
    engine = figure.get_layout_engine()
    figure.set_layout_engine("none")
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def colour_of(k: int) -> str:
    """The colour of the k-th variant."""
    return COLOURS[k % len(COLOURS)]


def dash_of(k: int) -> Any:
    """The dashes of the k-th variant."""
    return DASHES[k // len(COLOURS) % len(DASHES)]


def seeds_title(numbers: Sequence[int], mark: str = "band") -> str:
    """What lines and bands (or bars) mean, for a legend: n is said once where all variants have as many seeds."""
    if max(numbers, default=0) <= 1:
        return f"one seed each, no error {mark}"
    what = f"mean, {mark}: ± standard error over seeds"
    return f"{what} (n = {numbers[0]})" if len(set(numbers)) == 1 else what
