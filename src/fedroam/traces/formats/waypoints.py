"""Movement told by its corners: straight lines at constant speed from one to the next."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from pathlib import Path

from fedroam.errors import InputError
from fedroam.traces.formats.reading import Fixes, Wishes
from fedroam.traces.source import Source

Corner = tuple[float, float, float, int]  # time (s), x, y (m), line of the file
Way = list[Corner]  # of one node, times rising
CORNERS = 'fixes stand where movement changes: replay them with mode = "interpolate"'


def source_of(
    path: Path,
    format: str,
    ways: dict[str, Way],
    wishes: Wishes,
    notes: Sequence[str],
    stop: tuple[float, str] | None = None,
    begin: float | None = None,
) -> Source:
    """Fixes at the corners of every node's way, so that straight lines between fixes are the movement itself.

    All nodes go on to one end: `wishes.until`, or else `stop` (a time, and what says so), or else the last corner of
    all. A node waits at its last corner, and its way is cut where the end comes first. begin: where given, a node that
    begins later stands at its first corner from there on. A node that begins after the end has no fix.
    """
    last = max(way[-1][0] for way in ways.values())
    if wishes.until is not None:
        end, told = wishes.until, "as --until says"
    elif stop is not None:
        end, told = stop
    else:
        end, told = last, "the last event or arrival; --until says otherwise"
    fixes, late = Fixes(), 0
    for code, way in enumerate(ways.values()):
        if begin is not None and way[0][0] > begin:
            way = [(begin, *way[0][1:]), *way]
        corners = cut(way, end)
        late += not corners
        for corner in corners:
            fixes.add(code, *corner)
    if not fixes.time:
        first = min(way[0][0] for way in ways.values())
        raise InputError(f"{path}: no node before {end:g} s ({told}), the first one begins at {first:g} s")
    said = [f"the simulation ends at {end:.15g} s ({told})", CORNERS, *notes]
    if late:
        said.append(f"{late} node(s) begin later and are left out")
    return fixes.source(path, format, list(ways), notes=said)


def cut(way: Way, end: float) -> Way:
    """The corners of a way up to `end` (s), with one at the end itself; none if it begins later."""
    if way[0][0] > end:
        return []
    count = bisect.bisect_right(way, end, key=lambda corner: corner[0])
    kept = way[:count]
    time, x, y, line = kept[-1]
    if time < end:
        if count < len(way):
            next_time, next_x, next_y, line = way[count]
            share = (end - time) / (next_time - time)
            x, y = x + share * (next_x - x), y + share * (next_y - y)
        kept.append((end, x, y, line))
    return kept


def check_until(until: float | None) -> None:
    """Raises InputError unless `until` is a finite time above 0, or was not given."""
    if until is not None and not 0 < until < math.inf:
        raise InputError(f"--until {until:g}: allowed is a finite time above 0")
