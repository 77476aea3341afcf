"""Figures of a trace: devices per hour, heat map of places, gaps, speeds."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.dates as mdates
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from fedroam.analysis.figures.drawing import INK, MUTED, colour_bar, colour_of, new_figure, style
from fedroam.analysis.formatting import duration
from fedroam.analysis.trace_facts import HOUR, TraceStatistics, span
from fedroam.traces import Trace

_BINS = 1500  # bars that a figure of devices over time can show
_CELLS = 90  # of the heat map, along its longer side
_TICKS = (0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)
_MORE_TICKS = (0.2, 0.5, 2, 5, 20, 30, 120, 300, 1200, 1800, 7200, 3 * 3600, 2 * 86_400)  # for narrow ranges


def trace_figures(trace: Trace, measured: TraceStatistics) -> Iterator[tuple[str, Figure]]:
    """All figures of a trace with their file names; gaps and speeds only where a device has two fixes."""
    yield "trace-devices", devices_figure(trace, measured)
    yield "trace-places", heat_map(trace)
    if len(measured.gaps):
        yield "trace-gaps", gaps_figure(measured)
        yield "trace-speeds", speeds_figure(measured)


def devices_figure(trace: Trace, measured: TraceStatistics) -> Figure:
    """Devices with a fix over time, per hour (or minute); of long traces the mean and the most of several bars."""
    present = measured.present.astype(np.float64)
    times = measured.begin + measured.bin * np.arange(len(present) + 1)
    with style():
        figure, ax = new_figure((7.6, 3.4))
        fold = -(-len(present) // _BINS)
        if fold > 1 and measured.bin == HOUR:
            fold = 24 * -(-fold // 24)  # whole days, so that nights do not make a pattern of their own
        per = "hour" if measured.bin == HOUR else span(measured.bin)
        if fold > 1:
            padded = np.append(present, np.full(-len(present) % fold, np.nan)).reshape(-1, fold)
            x = _axis(ax, trace, np.append(times[:-1:fold], times[-1]))
            most, mean = (_closed(rule(padded, axis=1)) for rule in (np.nanmax, np.nanmean))
            ax.fill_between(
                x, 0, most, step="post", color=colour_of(5), alpha=0.45, linewidth=0, label="most"
            )
            ax.step(x, mean, where="post", color=colour_of(0), linewidth=1.0, label="mean")
            what = "each day" if fold * measured.bin == 24 * HOUR else f"every {span(fold * measured.bin)}"
            ax.set_title(f"mean and most of {what}", fontsize=9.5, color=MUTED, loc="left")
            ax.legend(loc="upper left", ncols=2)
        else:
            x = _axis(ax, trace, times)
            ax.fill_between(x, 0, _closed(present), step="post", color=colour_of(0), alpha=0.85, linewidth=0)
        ax.set_xlim(x[0], x[-1])
        ax.set_ylim(0, None)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_ylabel(f"devices with a fix per {per}")
    return figure


def _closed(bars: np.ndarray) -> np.ndarray:
    """Heights of bars with the last one twice: a step is drawn from each edge to the next."""
    return np.append(bars, bars[-1])


def _axis(ax: Axes, trace: Trace, times: np.ndarray) -> np.ndarray:
    """Times as the axis wants them: dates, or seconds, minutes or hours."""
    if trace.epoch is not None:
        locator = mdates.AutoDateLocator(minticks=4, maxticks=8)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))
        ax.set_xlabel("time (UTC)")
        return times / 86_400.0  # matplotlib's dates are days since 1970
    length = float(np.ptp(times))
    unit, size = ("h", 3600.0) if length > 4 * 3600 else ("min", 60.0) if length > 240 else ("s", 1.0)
    ax.set_xlabel(f"time ({unit})")
    return times / size


def heat_map(trace: Trace) -> Figure:
    """Fixes per cell of a square grid, logarithmic; kilometres where the area is larger than 5 km.

    The area holds the middle 99 % of the fixes in x and in y: a few far ones do not shrink the city to a dot.
    """
    low, high = np.percentile(trace.point, (0.5, 99.5), axis=0)
    side = max(float((high - low).max()), 1.0)
    factor, unit = (1e-3, "km") if side > 5000 else (1.0, "m")
    cell = side / _CELLS
    middle = (low + high) / 2
    shape = np.maximum(np.ceil((high - low) / cell), 1).astype(int)
    edges = [middle[k] + cell * (np.arange(shape[k] + 1) - shape[k] / 2) for k in (0, 1)]
    counts, _, _ = np.histogram2d(trace.point[:, 0], trace.point[:, 1], bins=edges)
    with style():
        wide = max(float(shape[0] / shape[1]), 0.4)
        figure, ax = new_figure((6.4, float(np.clip(5.0 / wide + 0.8, 2.8, 6.4))))
        shown = np.ma.masked_equal(counts.T, 0)
        image = ax.pcolormesh(
            edges[0] * factor,
            edges[1] * factor,
            shown,
            cmap="viridis_r",
            norm=LogNorm(1, max(float(counts.max()), 2.0)),
            rasterized=True,
        )
        ax.set_aspect("equal")
        ax.grid(visible=False)
        ax.set_xlabel(f"x ({unit})")
        ax.set_ylabel(f"y ({unit})")
        size = cell * factor
        bar = colour_bar(figure, image, ax, label=f"fixes per {size:.2g} {unit} x {size:.2g} {unit}")
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
    return figure


def gaps_figure(measured: TraceStatistics) -> Figure:
    """How long devices go without a fix: share of gaps per bar, logarithmic time."""
    low, high = np.log10(max(float(measured.gaps.min()), 1e-3)), np.log10(float(measured.gaps.max()))
    edges = np.logspace(low - 0.02, max(high, low + 0.3) + 0.02, 61)
    with style():
        figure, ax = new_figure()
        _histogram(ax, measured.gaps, edges, len(measured.gaps))
        ticks = [tick for tick in _TICKS if edges[0] <= tick <= edges[-1]]
        if len(ticks) < 3:
            ticks = sorted(t for t in (*_TICKS, *_MORE_TICKS) if edges[0] <= t <= edges[-1])
        ax.set_xticks(ticks, [duration(tick) for tick in ticks])
        ax.minorticks_off()
        middle = float(np.median(measured.gaps))
        _mark_median(ax, middle, span(middle))
        ax.set_xlabel("time between a device's fixes")
        ax.set_ylabel("share of gaps (%)")
    return figure


def speeds_figure(measured: TraceStatistics) -> Figure:
    """Speed between fixes that follow each other, along the straight line; standing still is the bar at the left."""
    moving = measured.speeds[measured.speeds > 0]
    still = 1 - len(moving) / len(measured.speeds)
    with style():
        figure, ax = new_figure()
        if len(moving):
            low, high = np.percentile(moving, (0.5, 100))
            edges = np.logspace(np.log10(low) - 0.02, np.log10(max(high, 2 * low)) + 0.02, 61)
            _histogram(ax, moving, edges, len(measured.speeds))
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            ax.xaxis.set_minor_formatter(NullFormatter())
            _mark_median(ax, float(np.median(moving)), f"{np.median(moving):.2g} m/s")
        ax.set_title(f"{100 * still:.1f} % of the steps do not move", fontsize=9.5, color=MUTED, loc="left")
        ax.set_xlabel("speed between fixes (m/s)")
        ax.set_ylabel("share of steps (%)")
    return figure


def _histogram(ax: Axes, values: np.ndarray, edges: np.ndarray, of: int) -> None:
    """Bars over a logarithmic axis: values between edges, as percentages of so many."""
    ax.hist(values, bins=edges.tolist(), weights=np.full(len(values), 100 / of), color=colour_of(0))
    ax.set_xscale("log")


def _mark_median(ax: Axes, at: float, text: str) -> None:
    ax.set_ylim(0, 1.1 * ax.get_ylim()[1])  # room for the words
    ax.axvline(at, color=INK, linewidth=1.0, linestyle="--")
    ax.annotate(
        f"median {text}",
        (at, 1.0),
        (4, -10),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        fontsize=9,
        color=INK,
    )
