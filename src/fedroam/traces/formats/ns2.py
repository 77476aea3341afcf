"""Node movements of ns-2 (and of ns-3's Ns2MobilityHelper): where nodes begin, and when each is sent where."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from fedroam.errors import InputError
from fedroam.traces.formats.reading import Wishes, number, text_lines
from fedroam.traces.formats.waypoints import Way, source_of
from fedroam.traces.source import Source

_NODE = r"\$node_?\(([^)]*)\)"
_SET = re.compile(_NODE + r"\s+set\s+([XYZ])_\s+(\S+)")
_DEST = re.compile(_NODE + r"\s+setdest\s+(.*)")
_AT = re.compile(r"\$ns_?\s+at\s+(\S+)\s+\"(.*)\"")
_END = re.compile(r"stop|finish|\$ns_?\s+halt|.*;\s*\$ns_?\s+halt")
_REMARK = re.compile(r";\s*(#.*)?$")
MOVES = re.compile(r"\bsetdest\b|\bset\s+[XYZ]_")  # what a line that is about movement holds


@dataclass
class _Orders:
    """What is said of one node: axis -> (time, value, line); (time, line, x, y, z or None, speed)."""

    place: dict[str, tuple[float, float, int]]
    goals: list[tuple[float, int, float, float, float | None, float]]


def read_ns2(path: Path, wishes: Wishes) -> Source:
    """The movement that ns-2 makes of a scenario, by its corners.

    A node begins at its X_ and Y_ at time 0 (or at t, where it is set by `$ns_ at t`). `setdest x y v` at t sends it in
    a straight line, at v m/s, from where it is then, so that an earlier one is cut off; at its goal it waits, and at
    speed 0 it stops. Orders may stand in any order; of those at one time the file's last holds. `setdest x y z v`, and
    Z_, count for the length of the way; heights themselves are not kept. The end: see `waypoints.source_of`, with the
    first `$ns_ at t "stop"` (or finish, or halt) as stop.

    Source: ns-2, mobile/mobilenode.cc. Lines that are not about movement are not looked at; loops and variables of Tcl
    are not known. Raises InputError with file and line.
    """
    nodes: dict[str, _Orders] = {}
    stop: tuple[float, str] | None = None
    others, high = 0, False
    for line, text in text_lines(path):
        if text.startswith("#"):
            continue
        where = f"{path}, line {line}"
        command = _REMARK.sub("", text).strip()
        timed = _AT.fullmatch(command)
        if timed:
            command = _REMARK.sub("", timed[2]).strip()
        if MOVES.search(command):
            time = number(timed[1], where, "the time", 0.0) if timed else None
            high = _take(nodes, command, time, line, where) or high
        elif timed and _END.fullmatch(command) and timed[1][0].isdigit():  # one at $val(stop) is not known
            found = number(timed[1], where, "the time", 0.0), f"{command.split()[-1]!r} in line {line}"
            stop = min(stop or found, found)
        elif command.startswith("$ns") and command.count('"') % 2:
            raise InputError(f"{where}: {text!r} is cut off, wanted is a closing quotation mark")
        else:
            others += 1
    if not nodes:
        raise InputError(
            f"{path}: no node is placed or sent anywhere, wanted is `$node_(i) set X_ v` and `setdest`"
        )
    ways = {name: _way(path, name, nodes[name]) for name in nodes}
    notes = ["heights (z) are not kept"] if high else []
    if others:
        notes.append(f"{others} line{'s' * (others > 1)} not about movement not looked at")
    return source_of(path, "ns2", ways, wishes, notes, stop)


def _take(nodes: dict[str, _Orders], command: str, time: float | None, line: int, where: str) -> bool:
    """Take note of a command about movement, at a time or at the begin; whether it holds a height."""
    placed, sent = _SET.fullmatch(command), None if time is None else _DEST.fullmatch(command)
    found = placed or sent
    if found is None:
        raise InputError(
            f"{where}: {command!r} is not understood, wanted is `$node_(i) set X_ v` or "
            '`$ns_ at t "$node_(i) setdest x y v"`'
        )
    name = found[1].strip()
    if not re.fullmatch(r"[\w.-]+", name):
        raise InputError(f"{where}: node {name!r}, wanted is its number (variables and loops are not known)")
    node = nodes.setdefault(name, _Orders({}, []))
    if placed:
        return _place(node, placed, time or 0.0, line, f"{where}, node {name}")
    return _send(node, found[2].split(), time or 0.0, line, f"{where}, node {name}")


def _place(node: _Orders, found: re.Match[str], time: float, line: int, where: str) -> bool:
    axis, value = found[2], number(found[3], where, f"{found[2]}_")
    if axis in node.place:
        raise InputError(
            f"{where}: {axis}_ was set before (line {node.place[axis][2]}); a node cannot jump, only `setdest` moves it"
        )
    node.place[axis] = time, value, line
    return axis == "Z" and value != 0


def _send(node: _Orders, words: list[str], time: float, line: int, where: str) -> bool:
    if len(words) not in (3, 4):
        raise InputError(
            f"{where}: setdest with {len(words)} values, wanted are x, y and speed (or x, y, z and speed)"
        )
    x, y, *z = (number(word, where, axis) for word, axis in zip(words[:-1], "xyz", strict=False))
    speed = number(words[-1], where, "the speed", 0.0)
    node.goals.append((time, line, x, y, z[0] if z else None, speed))
    return bool(z)


def _way(path: Path, name: str, node: _Orders) -> Way:
    """The corners of a node's way: its begin, every departure, every arrival or cut-off."""
    orders = sorted(node.goals, key=lambda goal: goal[0])  # stable: of one time, as in the file
    missing = [f"{axis}_" for axis in "XY" if axis not in node.place]
    if missing:
        line = min([goal[1] for goal in orders] + [place[2] for place in node.place.values()])
        raise InputError(
            f"{path}, line {line}: node {name} has no {' and no '.join(missing)}: wanted is where it begins"
        )
    begin, _, line = node.place["X"]
    if node.place["Y"][0] != begin:
        raise InputError(
            f"{path}, line {node.place['Y'][2]}: Y_ of node {name} is set at another time than its X_"
        )
    if orders and orders[0][0] < begin:
        raise InputError(
            f"{path}, line {orders[0][1]}: node {name} is sent before it is placed (at {begin:g} s)"
        )
    here = tuple(node.place[axis][1] if axis in node.place else 0.0 for axis in "XYZ")
    way = [(begin, here[0], here[1], line)]
    goal, left, due = here, begin, begin  # on the way from `here`, since `left`, to `goal`, until `due`
    for time, line, x, y, z, speed in orders:
        if left < due < time:
            way.append((due, goal[0], goal[1], line))
        share = 1.0 if time >= due else (time - left) / (due - left)
        here = goal if share == 1 else tuple(a + share * (b - a) for a, b in zip(here, goal, strict=True))
        if time > way[-1][0]:
            way.append((time, here[0], here[1], line))
        goal = (x, y, here[2] if z is None else z)
        if speed == 0:
            goal = here
        left = time
        due = time if speed == 0 else time + math.dist(here, goal) / speed
        if due == math.inf:
            raise InputError(f"{path}, line {line}: node {name} is too slow ({speed:g} m/s) ever to arrive")
    if left < due:
        way.append((due, goal[0], goal[1], line))
    return way
