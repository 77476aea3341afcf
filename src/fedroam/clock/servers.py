"""The timetable of a round in which clients get a model from a server or access point, train it and send it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedroam.clock.batteries import Doings
from fedroam.clock.neighbours import tries
from fedroam.clock.plan import FIRST, PlannedTransfers
from fedroam.clock.spans import Spans
from fedroam.clock.timetable import BUSY, Planner, Sending, Timetable, Timing, following, paid, told_of
from fedroam.clock.windows import Way
from fedroam.contacts import Intervals
from fedroam.contacts.ragged import select
from fedroam.federation import SERVER, Distributed, Meeting, Round, Traffic, access_point
from fedroam.mobility import Paths

NOWHERE = -1
# What the clock keeps where broken transfers are resumed: how much came of the work that is under way, bytes, float64
# [clients] each, and the node at the other end, int64 [clients].
SENT, SENT_AT = ("sent_download", "sent_upload"), "sent_at"
SILENCE = Intervals(*(np.zeros(0, np.int64) for _ in range(2)), *(np.zeros(0) for _ in range(2)))


def with_servers(
    timing: Timing,
    round: Round,
    given: Distributed,
    uploads: Traffic,
    after: Meeting,
    state: Mapping[str, np.ndarray],
    *,
    holds_work: bool,
    gives_up: bool = False,
) -> Planner:
    """The timetables. uploads: what is to be sent back, by whoever has work to deliver. holds_work: whether the
    federation keeps late work by a rule of its own; gives_up: whether it loses what is late in this round all the same.

    A client downloads from the begin of the round, then trains, then sends; it is done when all of it has arrived.
    Transfers with an access point share its air, where air is shared.
    """
    clients = round.context.clients
    new = np.zeros(clients, dtype=bool)
    new[[job.client for job in given.jobs]] = True
    down, up = _Leg.of(given.traffic, clients, timing, up=False), _Leg.of(uploads, clients, timing, up=True)
    before = _Leg.of(given.traffic, clients, timing, up=True).size  # sent already for what was given out
    target = np.where(down.node == NOWHERE, up.node, down.node)
    down = _Leg(
        np.where(new, down.size, state["left_download"]),
        target,
        np.where(new, down.distance, _apart(round.before.paths.end, target, timing.access_points)),
    )
    up = _Leg(up.size + np.where(new & (up.size > 0), before, 0.0), up.node, up.distance)
    work = timing.work([*given.jobs, *given.trained], clients, given.beside)
    work = np.where(new, work, state["left_training"])
    away = state[BUSY] & ~new & ~round.before.paths.present  # its work rests
    # So does that of who holds some and is out of service.
    begun_before = (state["left_download"] > 0) | (state["left_training"] > 0)
    rests = away | (begun_before & holds_work & ~new & ~(up.size > 0) & (not gives_up))
    part = (new | (up.size > 0) | state[BUSY]) & ~away
    loads, sends = (np.flatnonzero(part & (leg.size > 0) & (leg.node != NOWHERE)) for leg in (down, up))
    came = np.concatenate(
        [
            _came(state, name, leg, new)[who]
            for name, leg, who in zip(SENT, (down, up), (loads, sends), strict=True)
        ]
    )

    server = clients + len(timing.access_points)
    places = np.concatenate([timing.access_points, np.full((1, 2), np.nan)])
    ways = _ways(round.before.paths, after.paths)
    way = Way.of(ways, places, timing.length, timing.link, timing.seed)
    ends = np.concatenate([down.node[loads], up.node[sends]])
    own = np.concatenate([loads, sends])
    ranges = np.full(server + 1, np.inf)
    if timing.ranges is not None:
        ranges[clients:server] = timing.ranges
    sender, receiver = np.concatenate([down.node[loads], sends]), np.concatenate([loads, up.node[sends]])
    windows = way.windows(np.stack([sender, receiver], axis=1), ranges[ends], meet=True)
    first = np.full(clients, FIRST)
    first[loads] = np.arange(len(loads))
    plan = PlannedTransfers(
        sender=sender,
        receiver=receiver,
        size=np.concatenate([down.size[loads], up.size[sends]]) - came,
        ready=np.concatenate([np.zeros(len(loads)), work[sends]]),
        after=np.concatenate([np.full(len(loads), FIRST), first[sends]]),
    )
    all_alive = Sending(timing, clients, plan, windows, SILENCE, (server,))

    def planned(dies: np.ndarray) -> Timetable:
        sending = all_alive.while_alive(dies)
        sent = sending.sent(timing.horizon())
        begun, delivered = np.zeros(clients), np.full(clients, np.nan)
        begun[loads], delivered[sends] = sent.end[: len(loads)], sent.end[len(loads) :]
        done = np.where(np.isnan(delivered), begun + work, delivered)
        done = np.where(done > dies, np.inf, done)
        seconds = timing.over(done[part])
        end = np.where(sent.end <= seconds, sent.end, np.inf)
        if seconds < timing.horizon():
            sent = sending.sent(seconds)

        late = part & ~(done <= seconds)
        trained = np.clip(np.minimum(seconds, dies) - begun, 0.0, work)
        alive = dies > seconds
        carried = late & (timing.clock.late == "carried") & (not holds_work) & alive
        keeps = carried | (late & holds_work & (not gives_up) & (alive | (trained >= work)))
        off = [job for job in given.jobs if late[job.client] and not keeps[job.client]]
        # Work that takes no time has not been done either, where the model never came.
        off = [job for job in off if trained[job.client] < work[job.client] or begun[job.client] > seconds]
        stopped = {job.client for job in off}
        training, here = (begun, begun + np.where(part, work, 0.0)), round.before.paths.present
        found = following(state, seconds, here, training, plan, sent, dies)
        found |= {
            BUSY: carried | away,
            "left_download": np.where(rests | (keeps & (begun > seconds)), down.size, 0.0),
            "left_training": np.where(rests, work, np.where(keeps, work - trained, 0.0)),
        }
        if SENT_AT in state:
            arrived = np.where(np.isfinite(end), 0.0, came + sent.arrived)
            found |= _under_way(state, new, late & ~keeps, own, ends, arrived, len(loads))
        air = timing.on_the_air(came + sent.arrived) - timing.on_the_air(came)
        already = np.zeros(clients, dtype=np.int64)
        through = np.isfinite(end[len(loads) :])
        already[sends[through]] = timing.on_the_air(came[len(loads) :][through])
        jobs = [job for job in given.jobs if job.client not in stopped]
        came_late = part & (begun > seconds)  # what is no work has not been done either
        progress = np.where(part & ~came_late, 1.0, 0.0)
        np.divide(trained, work, out=progress, where=part & (work > 0))
        to_pay = paid([*jobs, *given.trained], off, progress, ~new)

        def doings() -> Doings:
            begins = np.minimum(np.where(part, begun, 0.0), seconds)
            nodes = np.arange(server + 1)
            names = np.where(
                nodes < clients, nodes, np.where(nodes == server, SERVER, access_point(nodes - clients))
            )
            on_radio = np.stack([plan.sender, plan.receiver], axis=1)
            apart = np.concatenate([down.distance[loads], up.distance[sends]])
            return Doings(
                begins,
                begins + np.where(part, trained, 0.0),
                to_pay,
                tries(timing, sent, names[plan.sender], names[plan.receiver], apart),
                on_radio[(on_radio != server).all(axis=1)],
                lambda: sending.couplings(sent),
            )

        return Timetable(
            seconds,
            done,
            jobs=jobs,
            paid=to_pay,
            unfinished=keeps | rests,
            graph=None,
            arrived=np.flatnonzero(part & ~late),
            dropped=np.flatnonzero(late & ~keeps),
            traffic=_really_sent(
                timing, given.traffic, new, (down, up), (loads, sends), before, air, already, end
            ),
            state=found,
            facts=told_of(late, plan, sent, end),
            spans=lambda: Spans.of(seconds, training, here, plan, sent, dies),
            already=already,
            doings=doings,
            lost=np.flatnonzero(late & holds_work & ~keeps),
            loads=np.stack([down.size, up.size], axis=1),
        )

    return planned


def _apart(places: np.ndarray, node: np.ndarray, access_points: np.ndarray) -> np.ndarray:
    """How far each client is from the access point that is its node, float64 [clients], m; NaN where it is none."""
    found, clients = np.full(len(places), np.nan), len(places)
    own = np.flatnonzero((node >= clients) & (node < clients + len(access_points)))
    found[own] = np.hypot(*(places[own] - access_points[node[own] - clients]).T)
    return found


def _came(state: Mapping[str, np.ndarray], name: str, leg: _Leg, new: np.ndarray) -> np.ndarray:
    """How much came of each client's transfer before this round, to or from the same node, bytes, float64 [clients]."""
    if SENT_AT not in state:
        return np.zeros(len(new))
    return np.where(~new & (state[SENT_AT] == leg.node), np.minimum(state[name], leg.size), 0.0)


def _under_way(
    state: Mapping[str, np.ndarray],
    new: np.ndarray,
    lost: np.ndarray,
    own: np.ndarray,
    ends: np.ndarray,
    arrived: np.ndarray,
    loads: int,
) -> dict[str, np.ndarray]:
    """What the clock keeps of transfers, of which the first `loads` are downloads: their clients, the nodes at the
    other end, and what arrived of those that broke. new, lost: bool [clients], whose work is begun, and whose is lost.

    What has begun at another node is void there; until then, the first one is where it goes on.
    """
    found = {name: np.where(new, 0.0, state[name]) for name in SENT} | {SENT_AT: state[SENT_AT].copy()}
    for name, some in zip(SENT, (slice(0, loads), slice(loads, None)), strict=True):
        who, much, where = own[some], arrived[some], ends[some]
        here = (much > 0) | (found[SENT_AT][who] == where)
        found[name][who[here]] = much[here]
        found[SENT_AT][who[much > 0]] = where[much > 0]
        found[name][lost] = 0.0
    return found


@dataclass(frozen=True)
class _Leg:
    """What each client gets, or sends: bytes (float64), the node at the other end (int64, -1 for none), and how far
    away it is (float64, m); all [clients]."""

    size: np.ndarray
    node: np.ndarray
    distance: np.ndarray

    @classmethod
    def of(cls, traffic: Traffic, clients: int, timing: Timing, *, up: bool) -> _Leg:
        own, other = (traffic.sender, traffic.receiver) if up else (traffic.receiver, traffic.sender)
        rows = np.flatnonzero((own >= 0) & (other < 0))
        own, other = own[rows].astype(np.int64), other[rows].astype(np.int64)
        size = np.bincount(own, traffic.bytes[rows], minlength=clients).astype(np.float64)
        node, distance = np.full(clients, NOWHERE), np.full(clients, np.nan)
        server = clients + len(timing.access_points)
        node[own] = np.where(other == SERVER, server, clients + access_point(0) - other)
        distance[own] = traffic.distance[rows]
        return cls(size, node, distance)


def _ways(before: Paths, after: Paths) -> Paths:
    """The way of everybody; who is away after it stays where it was, and gets what it had been given."""
    if after.present.all():
        return after
    clients = before.clients
    still = Paths.still(before.end)
    joined = Paths(
        np.concatenate([after.first, after.first[-1] + still.first[1:]]),
        np.concatenate([after.time, still.time]),
        np.concatenate([after.point, still.point]),
        np.concatenate([after.present, still.present]),
    )
    return select(joined, np.arange(clients) + np.where(after.present, 0, clients))


def _really_sent(
    timing: Timing,
    given: Traffic,
    new: np.ndarray,
    legs: tuple[_Leg, _Leg],
    who: tuple[np.ndarray, np.ndarray],
    before: np.ndarray,
    bytes: np.ndarray,
    already: np.ndarray,
    end: np.ndarray,
) -> Traffic:
    """What was given out, as far as it was sent, and what was sent in vain beside the transfers of the exchange.

    bytes: int64, really sent in each transfer of this round. already: int64 [clients], sent in earlier rounds of an
    upload that got through.
    """
    (down, up), (loads, sends) = legs, who
    got, gone = bytes[: len(loads)], bytes[len(loads) :]
    share = np.ones(len(new))
    share[loads] = got / down.size[loads]
    rows = (given.receiver >= 0) & (given.sender < 0)
    rows[rows] = new[given.receiver[rows]] & (share[given.receiver[rows]] != 1.0)
    told = given.bytes.copy()
    told[rows] = np.rint(told[rows] * share[given.receiver[rows]]).astype(np.int64)
    parts = [Traffic(given.sender, given.receiver, told, given.distance)]
    clients, points = len(new), len(timing.access_points)

    def end_of(node: np.ndarray) -> np.ndarray:
        return np.where(node == clients + points, SERVER, access_point(node - clients))

    again = ~new[loads] & (got > 0)
    going_on = loads[again]
    parts.append(Traffic.of(end_of(down.node[going_on]), going_on, got[again], down.distance[going_on]))
    whole = np.isfinite(end[len(loads) :])
    vain = gone + already[sends] - np.where(whole, up.size[sends], before[sends]).astype(np.int64)
    some = vain > 0
    lost = sends[some]
    parts.append(Traffic.of(lost, end_of(up.node[lost]), vain[some], up.distance[lost], whole[some]))
    return Traffic.joined(parts)
