"""What a trace is like: counts, gaps, speeds, devices per hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from fedroam.traces import FORMATS, Trace

HOUR = 3600.0
SOUND = 340.0  # m/s: nothing that carries a phone on its way, a vehicle or a UAV is faster


@dataclass(frozen=True, eq=False)
class TraceStatistics:
    """Numbers of a trace.

    bin: seconds of a bar of `present` (an hour, or less where the trace is short). present: int64 [bins], devices with
    a fix in each, from `begin` (s since the epoch) on, empty ones included. gaps: float64, seconds between fixes of a
    device that follow each other; speeds: float64, m/s between those, along the straight line. fixes: int64 [devices].
    """

    bin: float
    begin: float
    present: np.ndarray
    gaps: np.ndarray
    speeds: np.ndarray
    fixes: np.ndarray


def measure_trace(trace: Trace) -> TraceStatistics:
    """Measure a trace, in bars of an hour, or of a minute for traces of less than six hours."""
    low, high = float(trace.time.min()), float(trace.time.max())
    bin = HOUR if high - low >= 6 * HOUR else 60.0
    begin = np.floor(low / bin) * bin
    slot = np.floor((trace.time - begin) / bin).astype(np.int64)
    count = int(slot.max()) + 1
    seen = np.unique(trace.device * count + slot)
    own = np.ones(max(trace.fixes - 1, 0), dtype=bool)
    own[trace.first[1:-1] - 1] = False
    gaps = np.diff(trace.time)[own]
    distances = np.hypot(*np.diff(trace.point, axis=0).T)[own]
    return TraceStatistics(
        bin,
        float(begin),
        np.bincount(seen % count, minlength=count),
        gaps,
        distances / gaps,
        np.diff(trace.first),
    )


def clock(trace: Trace, time: float) -> str:
    """A time of a trace in words: a date, or seconds on a clock of its own."""
    if trace.epoch is None:
        return f"{time:,.0f} s"
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time)).strftime("%Y-%m-%d %H:%M UTC")


def span(seconds: float) -> str:
    """A length of time in the largest unit that gives at least 2."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def doubts(trace: Trace, measured: TraceStatistics) -> list[str]:
    """What in a trace cannot be, though each fix for itself can: ways faster than sound."""
    fast = int((measured.speeds > SOUND).sum())
    if not fast:
        return []
    return [
        f"{fast:,} of {len(measured.speeds):,} ways from fix to fix are faster than sound, the fastest "
        f"{measured.speeds.max():,.0f} m/s: faulty fixes? --max-speed drops them, and --box what lies elsewhere"
    ]


def describe_trace(trace: Trace, measured: TraceStatistics) -> list[tuple[str, str]]:
    """A trace in words: what, and its value with unit."""
    x0, y0, x1, y1 = trace.bounds
    per = "hour" if measured.bin == HOUR else span(measured.bin)
    present = measured.present
    told = [
        ("devices", f"{trace.devices:,}"),
        ("fixes", f"{trace.fixes:,}"),
        ("fixes of a device, median (most)", f"{np.median(measured.fixes):g} ({measured.fixes.max():,})"),
        ("from", clock(trace, float(trace.time.min()))),
        ("to", clock(trace, float(trace.time.max()))),
        ("span", span(float(np.ptp(trace.time)))),
        ("area", f"{_kilometres(x1 - x0)} km x {_kilometres(y1 - y0)} km"),
        (f"devices with a fix per {per}, mean (most)", f"{present.mean():.1f} ({present.max():,})"),
        (f"share of times with nobody, per {per}", f"{100 * (present == 0).mean():.1f} %"),
    ]
    if len(measured.gaps):
        low, middle, high = np.percentile(measured.gaps, (5, 50, 95))
        told.append(("gap, 5 % / median / 95 %", f"{span(low)} / {span(middle)} / {span(high)}"))
        low, middle, high = np.percentile(measured.speeds, (50, 95, 100))
        told.append(("speed, median / 95 % / most", f"{low:.3g} / {middle:.3g} / {_short(high)} m/s"))
    if trace.venue is not None:
        told.append(("venues", f"{len(trace.venues):,}"))
    told.append(("projection", str(trace.facts["projection"] or "none, the source is metric")))
    kind = str(trace.facts.get("source_format"))
    read = f"{FORMATS[kind][0]}, " if kind in FORMATS else ""
    told.append(("source", f"{trace.facts['source']} ({read}SHA-256 {trace.facts['sha256'][:12]}...)"))
    return told


def _kilometres(metres: float) -> str:
    return _short(metres / 1e3)


def _short(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
