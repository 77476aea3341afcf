"""The timetable of a round in which clients send their models to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse

from fedroam.clock.batteries import Doings, Tries
from fedroam.clock.begun import Begun
from fedroam.clock.plan import FIRST, PlannedTransfers
from fedroam.clock.sending import Sent
from fedroam.clock.spans import Spans
from fedroam.clock.timetable import BUSY, Planner, Sending, Timetable, Timing, following, paid, told_of
from fedroam.clock.windows import Way
from fedroam.contacts import Intervals, contact_intervals, graph_of
from fedroam.contacts.ragged import stable_order
from fedroam.federation import Distributed, Meeting, Round, Traffic
from fedroam.learning import Job, clients_of, some_of
from fedroam.mobility import Paths


def among_neighbours(
    timing: Timing,
    round: Round,
    given: Distributed,
    meeting: Meeting,
    state: Mapping[str, np.ndarray],
    sends: sparse.csr_array | None = None,
    *,
    in_pieces: bool = False,
) -> Planner:
    """The timetables. meeting: in which models are exchanged, each once its sender's training has ended. sends: bytes
    that each client (row) is sent by others (columns), int64 CSR [clients, clients], each of which counts if it gets
    through; None: models between all who meet, and an exchange is where both of a pair get through in their contact.
    in_pieces: broken transfers are not lost, and each model counts by itself, as far as it came.

    A client that goes on with its training in the next round takes nothing in meanwhile. A client is done when its
    training and the transfers in which it has a part are; transfers that never get through are not waited for.
    """
    clients, paths = round.context.clients, meeting.paths
    work = timing.work(given.jobs, clients, given.beside)
    learns = np.zeros(clients, dtype=bool)
    who = clients_of(given.jobs)
    learns[who] = True
    left = np.where(state[BUSY], state["left_training"], work)
    ready = np.where(state[BUSY] & ~learns, np.inf, np.where(learns, left, 0.0))
    each = round.models.bytes_each
    sender, receiver, size = _transfers(meeting.graph if sends is None else sends)
    size = np.full(len(sender), each) if sends is None else size.astype(np.int64)
    since, missing, begun = ready[sender], size, None
    if in_pieces:
        begun = Begun.of(state, meeting.graph, Begun.nothing(sender, receiver, round.number))
        sender, receiver = begun.sender, begun.receiver
        size = np.full(len(sender), each)
        since, missing = np.where(begun.made < round.number, 0.0, ready[sender]), size - begun.bytes
    both = np.stack([sender, receiver], axis=1)
    plan = PlannedTransfers(sender, receiver, missing, since, np.full(len(both), FIRST))
    way = Way(paths, timing.length, timing.link, timing.seed)
    if sends is None and begun is None:  # the same pairs up and down
        up = both[: len(both) // 2]
        windows = way.windows(up, timing.reach, meet=True, both_ways=True, heard=timing.link.shared)
    else:
        windows = way.windows(both, timing.reach, meet=True, heard=timing.link.shared)
    hearing = heard(timing, meeting)
    all_alive = Sending(timing, clients, plan, windows, hearing)

    def planned(dies: np.ndarray) -> Timetable:
        sending = all_alive.while_alive(dies)
        sent = sending.sent(timing.horizon())
        done = np.where(learns, np.where(left > dies, np.inf, left), np.where(paths.present, 0.0, np.inf))
        got = np.where(np.isfinite(sent.end), sent.end, 0.0)
        for own in (sender, receiver):
            np.maximum.at(done, own, got)
        seconds = timing.over(done)
        end = np.where(sent.end <= seconds, sent.end, np.inf)
        if seconds < timing.horizon():
            sent = sending.sent(seconds)
        late = learns & (left > np.minimum(seconds, dies))
        carried = late & (timing.clock.late == "carried") & (dies > seconds)
        busy = carried | (state[BUSY] & ~learns)
        graph, received, received_at, pieces = None, None, None, None
        kept = np.isfinite(end) & ~busy[receiver]
        on = dict(state)
        if begun is not None:
            arrived = np.where(np.isfinite(end), size, begun.bytes + sent.arrived)
            pieces, left_over = begun.after(arrived, size, ~busy[receiver], round.number, timing.link)
            on |= left_over
            kept = np.zeros(len(kept), dtype=bool)  # what was really sent is told here
        elif sends is None:
            pairs, through = both[: len(both) // 2], np.isfinite(end)
            whole = through[: len(pairs)] & through[len(pairs) :]
            graph = meeting.graph if whole.all() else graph_of(pairs[whole], clients)
            kept = np.concatenate([whole, whole])
        else:
            shape = (clients, clients)
            arrives = sparse.csr_array((end[kept], (receiver[kept], sender[kept])), shape=shape)
            received_at, there = arrives.data, np.ones(arrives.nnz, bool)
            received = sparse.csr_array((there, arrives.indices, arrives.indptr), shape=shape)
        jobs: Sequence[Job] = given.jobs
        trained = np.where(learns, np.minimum(left, np.minimum(seconds, dies)), 0.0)
        progress = np.divide(trained, work, out=np.ones(clients), where=work > 0)
        lost, paid_for, off = late & ~carried, jobs, list[Job]()
        if late.any():
            jobs, paid_for = some_of(given.jobs, ~late[who]), some_of(given.jobs, ~lost[who])
            off = list(some_of(given.jobs, lost[who]))
        nobody = np.zeros(clients, dtype=bool)
        to_pay = paid(paid_for, off, progress, nobody)
        more = timing.on_the_air(sent.arrived) - np.where(kept, size, 0)
        extra, traffic = np.flatnonzero(more > 0), given.traffic
        if len(extra):
            i, j = sender[extra], receiver[extra]
            again = Traffic.of(i, j, more[extra], _apart(paths, i, j), kept[extra])
            traffic = Traffic.joined([traffic, again])
        training = (np.zeros(clients), np.where(learns, left, 0.0))
        found = following(on, seconds, paths.present, training, plan, sent, dies)
        found |= {BUSY: busy, "left_training": np.where(carried, left - seconds, np.where(busy, left, 0.0))}

        def doings() -> Doings:
            return Doings(
                np.zeros(clients),
                trained,
                to_pay,
                tries(timing, sent, sender, receiver, _apart(paths, sender, receiver)),
                np.concatenate([both, np.stack([hearing.i, hearing.j], axis=1)]),
                lambda: sending.couplings(sent),
            )

        return Timetable(
            seconds,
            done,
            jobs=jobs,
            paid=to_pay,
            unfinished=nobody,  # what is carried over is begun again, in name
            graph=graph,
            received=received,
            received_at=received_at,
            pieces=pieces,
            arrived=None,
            dropped=np.flatnonzero(lost),
            traffic=traffic,
            state=found,
            facts=told_of(late, plan, sent, end),
            spans=lambda: Spans.of(seconds, training, paths.present, plan, sent, dies),
            doings=doings,
        )

    return planned


def _apart(paths: Paths, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """How far clients i[k] and j[k] are apart at the end of a round, float64, m."""
    places = paths.end
    return np.asarray(np.hypot(*(places[i] - places[j]).T))


def tries(timing: Timing, sent: Sent, sender: np.ndarray, receiver: np.ndarray, apart: np.ndarray) -> Tries:
    """Every try of transfers from these senders to these receivers (int64, as `Traffic` writes them), so far apart (m):
    what it sent, and from when to when, s."""
    every = sent.every()
    k, begun, stopped, arrived = every.T
    size, k = timing.on_the_air(arrived), k.astype(np.int64)
    some = size > 0
    k, begun = k[some], np.minimum(begun + timing.link.setup, stopped)[some]
    return Tries(Traffic.of(sender[k], receiver[k], size[some], apart[k]), begun, stopped[some])


def _transfers(sends: sparse.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Senders, receivers (int64) and what stands there: by pair all that go up from the lower client, then all that go
    down."""
    found = sends if sends.has_sorted_indices else sends.sorted_indices()
    clients = sends.shape[0]
    receiver, sender = np.repeat(np.arange(clients), np.diff(found.indptr)), found.indices.astype(np.int64)
    up, down = np.flatnonzero(sender < receiver), np.flatnonzero(sender > receiver)
    order = np.concatenate([up[stable_order(sender[up], clients)], down])
    return sender[order], receiver[order], found.data[order]


def heard(timing: Timing, meeting: Meeting) -> Intervals:
    """Which present clients are within reach of each other when, in seconds, if the air is shared."""
    if not timing.link.shared:
        return Intervals(*(np.zeros(0, np.int64) for _ in range(2)), *(np.zeros(0) for _ in range(2)))
    found = contact_intervals(meeting.paths, timing.reach)
    close = np.where(found.close == 1.0, np.inf, found.close * timing.length)
    return Intervals(found.i, found.j, found.open * timing.length, close)
