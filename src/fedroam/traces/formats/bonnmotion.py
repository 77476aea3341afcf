"""BonnMotion's scenarios: one line a node, `time x y` over and over (`.movements`, `.movements.gz`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedroam.errors import InputError
from fedroam.traces.formats.reading import Wishes, number, text_lines
from fedroam.traces.formats.waypoints import Way, source_of
from fedroam.traces.source import Source


def read_bonnmotion(path: Path, wishes: Wishes) -> Source:
    """Waypoints of nodes 0, 1, 2, ... (their lines), between which they move straight at constant speed.

    A scenario is of three dimensions (`t x y z`) where its first line is `#3D`, or where `wishes.with_z` says so;
    heights are not kept. As in BonnMotion, a node stands at its first waypoint before it and at its last one after it:
    from the file's earliest time to the end (see `waypoints.source_of`; the duration stands in another file, .params).

    Raises InputError with file and line for a wrong number of values, times that do not rise, and a node that is at two
    places at one time.
    """
    ways: dict[str, Way] = {}
    width, words = (4, "t x y z") if wishes.with_z else (3, "t x y")
    for line, text in text_lines(path):
        if text.startswith("#"):
            if text == "#3D" and not ways:
                width, words = 4, "t x y z"
            continue
        where, node = f"{path}, line {line}", str(len(ways))
        values = _numbers(text.split(), f"{where}, node {node}")
        if len(values) % width:
            hint = "; if it holds z, say --with-z" if width == 3 and len(values) % 4 == 0 else ""
            raise InputError(
                f"{where}, node {node}: {len(values)} values, wanted is a multiple of {width} ({words}, ...){hint}"
            )
        points = values.reshape(-1, width)
        if points[0, 0] < 0:
            raise InputError(f"{where}, node {node}: time {points[0, 0]:g}, wanted is 0 or more")
        steps = np.diff(points[:, 0])
        if (steps < 0).any():
            k = int(np.flatnonzero(steps < 0)[0])
            raise InputError(
                f"{where}, node {node}: time {points[k + 1, 0]:.15g} after {points[k, 0]:.15g}, wanted are rising times"
            )
        jumps = (steps == 0) & (np.diff(points[:, 1:3], axis=0) != 0).any(axis=1)
        if jumps.any():
            k = int(np.flatnonzero(jumps)[0])
            raise InputError(
                f"{where}, node {node}: two places at time {points[k, 0]:.15g}, a node cannot jump"
            )
        fresh = points[np.append(True, steps > 0), :3].tolist()
        ways[node] = [(time, x, y, line) for time, x, y in fresh]
    if not ways:
        raise InputError(f"{path}: no node, wanted is a line `{words} {words} ...` for each")
    notes = ["heights (z) are not kept"] if width == 4 else []
    begin = min(way[0][0] for way in ways.values())
    late = sum(way[0][0] > begin for way in ways.values())
    if late:
        notes.append(f"{late} node(s) with a later first waypoint stand there from {begin:g} s on")
    return source_of(path, "bonnmotion", ways, wishes, notes, begin=begin)


def _numbers(words: list[str], where: str) -> np.ndarray:
    try:
        values = np.array([float(word) for word in words])
    except ValueError:
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        values = np.array([number(word, where, f"value {k}") for k, word in enumerate(words, 1)])
    return values
