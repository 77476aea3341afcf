"""The timetable of a round in which clients average in pairs while they train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedroam.clock.batteries import Doings, Tries
from fedroam.clock.neighbours import heard, tries
from fedroam.clock.plan import FIRST, PlannedTransfers
from fedroam.clock.sending import Sent
from fedroam.clock.spans import Spans
from fedroam.clock.timetable import BUSY, Planner, Sending, Timetable, Timing, following, paid, told_of
from fedroam.clock.windows import Way
from fedroam.federation import Averagings, Distributed, Meeting, Round, Traffic

ONE_PARTNER = 1


def in_pairs(
    timing: Timing,
    round: Round,
    given: Distributed,
    meeting: Meeting,
    state: Mapping[str, np.ndarray],
    pairs: np.ndarray,
) -> Planner:
    """The timetables. pairs: int64 [pairs, 2], those that want to average, once each.

    A pair begins when it is in contact and neither of the two averages with another; first come, first served. Both
    send at once, or one after the other where a radio cannot do more or the air is shared; both models must get through
    in one contact, or in several where broken transfers are resumed. Nobody waits for training, nor does training wait.
    """
    clients, paths, link = round.context.clients, meeting.paths, timing.link
    work = timing.work(given.jobs, clients, given.beside)
    learns = state[BUSY] & round.before.paths.present
    rests = state[BUSY] & ~learns
    learns[[job.client for job in given.jobs]] = True
    left = np.where(state[BUSY], state["left_training"], work)
    each = round.models.bytes_each
    in_turn = link.shared or link.simultaneous == 1
    size = np.full(len(pairs), float(each * (2 if in_turn else 1)))
    plan = PlannedTransfers(pairs[:, 0], pairs[:, 1], size, np.zeros(len(pairs)), np.full(len(pairs), FIRST))
    way = Way(paths, timing.length, link, timing.seed)
    windows = way.windows(pairs, timing.reach, meet=True, heard=link.shared)
    hearing = heard(timing, meeting)
    all_alive = Sending(timing, clients, plan, windows, hearing, simultaneous=ONE_PARTNER)

    def planned(dies: np.ndarray) -> Timetable:
        sending = all_alive.while_alive(dies)
        sent = sending.sent(timing.horizon())
        done = np.where(learns, np.where(left > dies, np.inf, left), np.where(paths.present, 0.0, np.inf))
        for end in pairs.T:
            through = np.isfinite(sent.end)
            np.maximum.at(done, end[through], sent.end[through])
        seconds = timing.over(done)
        end = np.where(sent.end <= seconds, sent.end, np.inf)
        if seconds < timing.horizon():
            sent = sending.sent(seconds)
        whole = np.isfinite(end)
        late = learns & (left > np.minimum(seconds, dies))
        carried = late & (timing.clock.late == "carried") & (dies > seconds)
        off = [job for job in given.jobs if late[job.client] and not carried[job.client]]
        stopped = {job.client for job in off}
        order = np.flatnonzero(whole)[np.argsort(end[whole], kind="stable")]
        learnt = np.where(learns & ~late, left, np.inf)
        training = (np.zeros(clients), np.where(learns, left, 0.0))
        found = following(state, seconds, paths.present, training, plan, sent, dies)
        found |= {
            BUSY: carried | rests,
            "left_training": np.where(carried, left - seconds, np.where(rests, left, 0.0)),
        }
        told = told_of(late, plan, sent, end)  # both models of a pair are one transfer there
        jobs = [job for job in given.jobs if job.client not in stopped]
        trained = np.where(learns, np.minimum(left, np.minimum(seconds, dies)), 0.0)
        progress = np.divide(trained, left, out=np.ones(clients), where=learns & (left > 0))
        to_pay = paid(jobs, off, progress, state[BUSY] & learns)

        def doings() -> Doings:
            return Doings(
                np.zeros(clients),
                trained,
                to_pay,
                _both_ways(timing, sent, pairs, paths.end, each / size),
                np.concatenate([pairs, np.stack([hearing.i, hearing.j], axis=1)]),
                lambda: sending.couplings(sent),
            )

        return Timetable(
            seconds,
            done,
            jobs=jobs,
            paid=to_pay,
            unfinished=carried | rests,
            graph=None,
            arrived=None,
            dropped=np.flatnonzero(late & ~carried),
            traffic=Traffic.joined([given.traffic, _in_vain(timing, paths.end, plan, sent, whole, each)]),
            state=found,
            facts=told | {name: 2 * told[name] for name in ("transfers", "through", "broken")},
            averagings=Averagings(pairs[order], sent.begun[order], end[order], learnt),
            doings=doings,
            spans=lambda: Spans.of(seconds, training, paths.present, plan, sent, dies),
        )

    return planned


def _both_ways(timing: Timing, sent: Sent, pairs: np.ndarray, places: np.ndarray, share: np.ndarray) -> Tries:
    """As `tries`, of what both of each pair send; share: what each does of what is told, float64 [pairs]."""
    apart = np.hypot(*(places[pairs[:, 0]] - places[pairs[:, 1]]).T)
    low, high = pairs.T
    up, down = tries(timing, sent, low, high, apart), tries(timing, sent, high, low, apart)
    k = sent.every()[timing.on_the_air(sent.every()[:, 3]) > 0, 0].astype(np.int64)
    both = Traffic.joined([up.traffic, down.traffic])
    half = replace(both, bytes=np.rint(both.bytes * np.tile(share[k], 2)).astype(np.int64))
    return Tries(half, np.tile(up.begun, 2), np.tile(up.stopped, 2))


def _in_vain(
    timing: Timing, places: np.ndarray, plan: PlannedTransfers, sent: Sent, whole: np.ndarray, each: int
) -> Traffic:
    """What was sent beside the two models of each averaging, half of it each way."""
    both = timing.on_the_air(sent.arrived * (2 * each / plan.size)) - np.where(whole, 2 * each, 0)
    k = np.flatnonzero(both > 0)
    low, high = plan.sender[k], plan.receiver[k]
    apart = np.hypot(*(places[low] - places[high]).T)
    up, along = both[k] // 2, whole[k]
    ways = [Traffic.of(low, high, up, apart, along), Traffic.of(high, low, both[k] - up, apart, along)]
    return Traffic.joined([_of_any(way) for way in ways])


def _of_any(traffic: Traffic) -> Traffic:
    """Without transfers of nothing."""
    some = traffic.bytes > 0
    return Traffic.of(
        traffic.sender[some],
        traffic.receiver[some],
        traffic.bytes[some],
        traffic.distance[some],
        traffic.beside[some],
    )
