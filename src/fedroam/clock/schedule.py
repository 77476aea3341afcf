"""The schedule of a run, round by round: it follows from movement, sizes and devices alone, and is made before anything
is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedroam.clock.batteries import Supply, first_to_die, use_of
from fedroam.clock.begun import nothing_begun
from fedroam.clock.neighbours import among_neighbours
from fedroam.clock.pairs import in_pairs
from fedroam.clock.servers import NOWHERE, SENT, SENT_AT, with_servers
from fedroam.clock.timetable import BUSY, LEFT, TIME, TOTALS, Timetable, Timing
from fedroam.errors import InputError
from fedroam.federation import Distributed, Meeting, Round


def first_state(clients: int, timing: Timing) -> dict[str, np.ndarray]:
    """What the clock keeps, before round 1."""
    state = {name: np.zeros(clients) for name in (*TOTALS, *LEFT)}
    state |= {TIME: np.zeros(1), BUSY: np.zeros(clients, dtype=bool)}
    if timing.link.broken == "resumed" and timing.federation.servers is not None:
        state |= {name: np.zeros(clients) for name in SENT}
        state[SENT_AT] = np.full(clients, NOWHERE)
    elif timing.link.broken == "resumed" and timing.federation.in_pieces:
        state |= nothing_begun()
    return state


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
    first death of those who have to do with each other, until nobody else dies.
    """
    handed = replace(round, models=given.models, state=given.state)
    dies = np.full(round.context.clients, np.inf)
    found = _planned(timing, handed, given, after, state, dies)
    while supply is not None and found.doings is not None:
        # A round that is over before sees nobody die.
        doings = found.doings()
        use = use_of(supply, doings, found.seconds, np.where(dies <= found.seconds, dies, np.inf))
        first = first_to_die(supply, use, doings.linked, dies)
        if np.isinf(first).all():
            return replace(found, use=use)
        dies = np.minimum(dies, first)
        found = _planned(timing, handed, given, after, state, dies)
    return found


def _planned(
    timing: Timing,
    round: Round,
    given: Distributed,
    after: Meeting,
    state: Mapping[str, np.ndarray],
    dies: np.ndarray,
) -> Timetable:
    """The timetable of a round (as it is handed on after `given`) in which these run empty at these moments."""
    timed = timing.federation
    if timed.neighbours is not None:
        meeting = timed.neighbours.meeting_of(round, after)
        if timed.pairs is not None:
            pairs = timed.pairs.pairs(round, meeting)
            return in_pairs(timing, round, given, meeting, state, pairs, dies=dies)
        sends = None if timed.one_way is None else meeting.sends(timed.one_way, round)
        in_pieces = timing.link.broken != "lost" and timed.in_pieces
        return among_neighbours(timing, round, given, meeting, state, sends, dies=dies, in_pieces=in_pieces)
    assert timed.servers is not None  # `check_fits` asked
    uploads, holds = timed.servers.uploads(round, after), timed.servers.holds_work
    return with_servers(timing, round, given, uploads, after, state, holds_work=holds, dies=dies)
