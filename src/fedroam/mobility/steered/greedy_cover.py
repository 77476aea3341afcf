"""The loop of a greedy cover, in the part of Python that is compiled where that can be: see `native.of_python`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

Whole = Annotated[np.ndarray, np.int64, 1]
Flags = Annotated[np.ndarray, np.bool_, 1]
WHOLE = 1 << 32  # numbers that 32 bits can be
UNDECIDED = -1


class Heard(NamedTuple):
    """Faces and static clients, each by the other, and the points of each face: those of number k stand from `at[k]`
    to `at[k + 1]`.

    of: the face of each point; in_face: the static clients of each face, from face_at on; in_reach: the faces of each
    static client, from reach_at on; points: the points of each face, from points_at on.
    """

    of: Whole
    face_at: Whole
    in_face: Whole
    reach_at: Whole
    in_reach: Whole
    points_at: Whole
    points: Whole


def cover(
    heard: Heard,
    worth: Whole,
    each: int,
    allowed: Flags,
    left: Flags,
    uncovered: int,
    draws: Whole,
    drawn: int,
    alive: Whole,
    living: int,
    best: Whole,
    room: Whole,
    chosen: Whole,
) -> int:
    """How many points `chosen` says that cover all that is left, or UNDECIDED.

    worth: of each face, at least `each` for every static client that it covers of those left, and less than `each`
    more. left: static clients, of which `uncovered` are left. draws: as many as `drawn` numbers of 32 bits; one of them
    is taken for each choice among several, as numpy's `Generator.integers` takes them (Lemire, Fast random integer
    generation in an interval, 2019), whose choices these are. alive: numbers of faces, rising; `living` of them. best,
    room: memory for a number for each point.

    Undecided: there are not enough draws, or nothing covers what is left.
    """
    count, used, highest, candidates = 0, 0, 0, 0
    while uncovered > 0:
        kept = 0
        for c in range(candidates):
            if worth[heard.of[best[c]]] == highest:
                best[kept] = best[c]
                kept += 1
        candidates = kept
        if candidates == 0:
            # What faces are worth only falls: those that cover nobody any more need not be looked at again.
            highest, kept = 0, 0
            for c in range(living):
                value = worth[alive[c]]
                if value >= each:
                    alive[kept] = alive[c]
                    kept += 1
                    highest = max(highest, value)
            living = kept
            for c in range(living):
                face = alive[c]
                if worth[face] == highest:
                    for k in range(heard.points_at[face], heard.points_at[face + 1]):
                        if allowed[heard.points[k]]:
                            best[candidates] = heard.points[k]
                            candidates += 1
            _sort(best, room, candidates)
            if candidates == 0:
                return UNDECIDED
        place = 0
        if candidates > 1:
            least, rest, product = candidates, 0, 0
            while rest < least:
                if used == drawn:
                    return UNDECIDED
                product = draws[used] * candidates
                used += 1
                rest = product - ((product >> 32) << 32)
                if least == candidates and rest < candidates:  # seldom: only now the least is worth finding
                    least = _rest(candidates)
            place = product >> 32
        point = best[place]
        chosen[count] = point
        count += 1
        face = heard.of[point]
        for k in range(heard.face_at[face], heard.face_at[face + 1]):
            static = heard.in_face[k]
            if left[static]:
                left[static] = False
                uncovered -= 1
                for h in range(heard.reach_at[static], heard.reach_at[static + 1]):
                    worth[heard.in_reach[h]] -= each
    return count


def _rest(number: int) -> int:
    """What is left of 2^32, divided by a number."""
    left, step = WHOLE, number
    while 2 * step <= left:
        step = 2 * step
    while step >= number:
        if left >= step:
            left -= step
        step = step >> 1
    return left


def _sort(numbers: Whole, room: Whole, count: int) -> None:
    """Put the first `count` numbers into their order."""
    width = 1
    while width < count:
        begin = 0
        while begin < count:
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            one, other = begin, middle
            for k in range(begin, end):
                if one < middle and (other >= end or numbers[one] <= numbers[other]):
                    room[k] = numbers[one]
                    one += 1
                else:
                    room[k] = numbers[other]
                    other += 1
            begin = begin + 2 * width
        for k in range(count):
            numbers[k] = room[k]
        width = 2 * width
