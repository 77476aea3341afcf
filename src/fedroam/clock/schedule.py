"""The schedule of a run, round by round: it follows from movement, sizes and devices alone, and is made before anything
is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from fedroam.clock.batteries import Doings, Supply, soonest_deaths, use_of
from fedroam.clock.begun import nothing_begun
from fedroam.clock.deaths import Couplings, Slice
from fedroam.clock.neighbours import among_neighbours
from fedroam.clock.pairs import in_pairs
from fedroam.clock.servers import NOWHERE, SENT, SENT_AT, with_servers
from fedroam.clock.timetable import (
    BUSY,
    COLUMNS,
    LEFT,
    OWED,
    SO_FAR,
    TIME,
    TOTALS,
    Planner,
    Timetable,
    Timing,
)
from fedroam.devices import emptied
from fedroam.errors import InputError
from fedroam.federation import Distributed, Meeting, Round


def first_state(clients: int, timing: Timing) -> dict[str, np.ndarray]:
    """What the clock keeps, before round 1."""
    state = {name: np.zeros(clients) for name in (*TOTALS, *LEFT, OWED)}
    state |= {TIME: np.zeros(1), BUSY: np.zeros(clients, dtype=bool), SO_FAR: np.zeros(len(COLUMNS))}
    if timing.link.broken == "resumed" and timing.federation.servers is not None:
        state |= {name: np.zeros(clients) for name in SENT}
        state[SENT_AT] = np.full(clients, NOWHERE)
    elif timing.link.broken == "resumed" and timing.federation.in_pieces:
        state |= nothing_begun()
    return state


def as_kept(kept: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the clock kept in a checkpoint, as it is kept today: sums that an earlier version did not keep are NaN. It
    paid for local work when it began, so nothing is owed."""
    return {SO_FAR: np.full(len(COLUMNS), np.nan), OWED: np.zeros(len(kept[BUSY])), **kept}


def check_fits(timing: Timing, kind: str, *, attacked: bool, averages: bool) -> None:
    """Raise InputError where the federation, of this kind, does not fit the clock. attacked: there are attackers.
    averages: models that meet are averaged, not aggregated by a rule that sees them.
    """
    timed, broken = timing.federation, timing.link.broken
    if timed.neighbours is None and timed.servers is None:
        raise InputError(
            f"clock.kind = 'seconds': federation {kind!r} does not tell beforehand what is sent to whom; it needs the "
            "method meeting_of or uploads"
        )
    if timing.clock.late == "carried" and timed.servers is not None and timed.servers.holds_work:
        raise InputError(
            f"clock.late = 'carried': federation {kind!r} keeps late work by a rule of its own (carry_over); allowed "
            "is 'dropped'"
        )
    if broken == "partial" and not timed.in_pieces:
        raise InputError(
            f"link.broken = 'partial': federation {kind!r} cannot use a part of what is sent; allowed are 'lost', "
            "'resumed'"
        )
    if broken != "lost" and timed.in_pieces and (attacked or not averages):
        what = "with attackers" if attacked else "with an aggregation rule that sees whole models"
        raise InputError(f"link.broken = {broken!r}: {what}, allowed between clients is 'lost'")


def free(before: Meeting, timing: Timing, state: Mapping[str, np.ndarray]) -> Meeting:
    """The meeting in which a round begins, without those who are still busy with work of an earlier one.

    Where neighbours exchange once in a round, work that is carried over is begun again, in name: it is computed in the
    round in which it ends.
    """
    timed = timing.federation
    if not state[BUSY].any() or (timed.servers is None and timed.pairs is None):
        return before
    return replace(before, paths=replace(before.paths, present=before.paths.present & ~state[BUSY]))


def timetable(
    timing: Timing,
    round: Round,
    given: Distributed,
    after: Meeting,
    state: Mapping[str, np.ndarray],
    supply: Supply | None = None,
) -> Timetable:
    """The timetable of a round. given: what was given out. after: the ways that everybody takes, and who meets whom.
    supply: the batteries, if devices can run empty.

    Who runs empty does no more from then on, which may change when others do. So the round is planned again with the
    deaths that are certain (see `Slice`), until nobody else dies.
    """
    handed = replace(round, models=given.models, state=given.state)
    planned = _planner(timing, handed, given, after, state)
    dies = np.full(round.context.clients, np.inf)
    found, slice = planned(dies), None
    while supply is not None and found.doings is not None:
        # A round that is over before sees nobody die.
        doings = found.doings()
        use = use_of(supply, doings, found.seconds, np.where(dies <= found.seconds, dies, np.inf))
        empty = np.where(np.isfinite(dies), np.inf, emptied(supply.battery, supply.state, use))
        if slice is not None and not slice.holds(doings.couplings, empty):
            dies, slice = slice.dies, Slice.whole(doings.linked, slice.dies, slice.until)
        elif np.isinf(empty).all():
            return replace(found, use=use)
        else:
            if slice is None or slice.over(empty):
                # Where a round waits for clients, a death may change when it is over, for everybody.
                by_length = timing.clock.wait == "deadline"
                told = partial(_coupled, supply, doings, found.seconds) if by_length else None
                slice = Slice.best(doings.linked, told, empty, dies)
            dies = np.minimum(dies, slice.first(empty))
        found = planned(dies)
    return found


def _coupled(supply: Supply, doings: Doings, seconds: float) -> tuple[Couplings, np.ndarray]:
    """What ties nodes together in a plan, and before which moments nobody dies, as `Slice` asks."""
    couplings = doings.couplings()
    if len(couplings.between):  # who is cut short may let others begin something
        return couplings, np.zeros(supply.paths.clients)
    return couplings, soonest_deaths(supply, doings, seconds)


def _planner(
    timing: Timing,
    round: Round,
    given: Distributed,
    after: Meeting,
    state: Mapping[str, np.ndarray],
) -> Planner:
    """The timetables of a round (as it is handed on after `given`)."""
    timed = timing.federation
    if timed.neighbours is not None:
        meeting = timed.neighbours.meeting_of(round, after)
        if timed.pairs is not None:
            return in_pairs(timing, round, given, meeting, state, timed.pairs.pairs(round, meeting))
        sends = None if timed.one_way is None else meeting.sends(timed.one_way, round)
        in_pieces = timing.link.broken != "lost" and timed.in_pieces
        return among_neighbours(timing, round, given, meeting, state, sends, in_pieces=in_pieces)
    assert timed.servers is not None  # `check_fits` asked
    uploads, holds = timed.servers.uploads(round, after), timed.servers.holds_work
    gives_up = timed.gives_up is not None and timed.gives_up.gives_up(round.number)
    return with_servers(timing, round, given, uploads, after, state, holds_work=holds, gives_up=gives_up)
