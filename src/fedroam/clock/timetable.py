"""What a timetable of a round says, and what all of them are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from fedroam.clock.batteries import Doings
from fedroam.clock.deaths import Couplings
from fedroam.clock.kinds import Clock
from fedroam.clock.plan import PlannedTransfers
from fedroam.clock.sending import Sent, send
from fedroam.clock.spans import Spans
from fedroam.clock.timed import Timed
from fedroam.clock.windows import Windows
from fedroam.contacts import Intervals
from fedroam.contacts.ragged import rising, stable_order
from fedroam.cost import Paid, SamplePasses
from fedroam.devices import Arithmetic, Compute, Use, seconds_of
from fedroam.federation import Averagings, Beside, Pieces, Traffic
from fedroam.learning import Job, clients_of, held_of, some_of
from fedroam.links import Link

# What the clock keeps of each client from round to round, float64 [clients]: seconds since the start, and what of its
# work is left to be carried over (bytes, seconds). Beside it: the time, float64 [1], and who carries work, bool.
TOTALS = ("time_training", "time_sending", "time_waiting", "time_idle")
LEFT = ("left_download", "left_training")
TIME, BUSY = "time", "busy"
# What is still to be paid for local work that goes on in later rounds, J, float64 [clients].
OWED = "owed_training"
# The columns that the table of rounds gets beside the time and the totals.
COLUMNS = ("late", "transfers", "through", "broken", "contacts", "fit")
# What the clock keeps of these columns: their sums over all rounds so far, float64 [columns].
SO_FAR = "so_far"


@dataclass(frozen=True)
class Timing:
    """What takes how long in a run.

    federation: whose models are sent. length: of the movement of a round, s. flops: of training on one sample.
    arithmetic: of all that is computed of one sample, where that takes time, too; None where only training does. reach:
    radio range of clients, m.
    access_points: float64 [access points, 2], m; ranges: float64 [access points], m, or None for everywhere.
    batteries: whether devices can run empty. rounds: how many the run has.
    """

    clock: Clock
    federation: Timed
    length: float
    link: Link
    compute: Compute
    passes: SamplePasses
    flops: float
    reach: float
    access_points: np.ndarray
    ranges: np.ndarray | None
    seed: int
    batteries: bool = False
    rounds: int = 1
    arithmetic: Arithmetic | None = None
    _worked: list[np.ndarray] = field(default_factory=list, init=False, repr=False, compare=False)

    def work(self, jobs: Sequence[Job], clients: int, beside: Beside | None = None) -> np.ndarray:
        """Seconds of each client's local work, float64 [clients]; beside: what it computes beside these jobs."""
        seconds = self._training(jobs, clients)
        if self.arithmetic is None or beside is None:
            return seconds
        own = np.flatnonzero((beside.network > 0) | (beside.extractor > 0))
        operations = beside.network * self.arithmetic.network + beside.extractor * self.arithmetic.extractor
        passes = self._as_passes(operations[own])
        seconds[own] += seconds_of(self.compute, self.seed, own, passes, self.flops)
        return seconds

    def _as_passes(self, operations: np.ndarray) -> np.ndarray:
        """How many passes of plain training have so much arithmetic, float64; none where that has none."""
        return np.asarray(operations / self.flops if self.flops else 0.0 * operations)

    def _training(self, jobs: Sequence[Job], clients: int) -> np.ndarray:
        """Seconds of each client's jobs, float64 [clients]."""
        who, held = clients_of(jobs), held_of(jobs)
        if self._worked:  # mostly the same devices do the same as in the round before
            before, told, seconds = self._worked
            if np.array_equal(before, who) and np.array_equal(told, held) and len(seconds) == clients:
                return seconds.copy()
        own, passes = self.passes.of(jobs)
        if self.arithmetic is not None and self.arithmetic.objective != self.arithmetic.training:
            passes = self._as_passes(passes * self.arithmetic.objective)
        each = seconds_of(self.compute, self.seed, own, passes, self.flops)
        seconds = np.bincount(own, each, minlength=clients).astype(np.float64)
        self._worked[:] = [who, held, seconds.copy()]
        return seconds

    def horizon(self) -> float:
        """Until when it is known beforehand that a round goes on, s."""
        return self.length if self.clock.wait == "deadline" else np.inf

    def over(self, done: np.ndarray) -> float:
        """When a round is over, s. done: float64 [taking part], s, infinite for who cannot be done."""
        if self.clock.wait == "deadline":
            return self.length
        ends = np.sort(done[np.isfinite(done)])
        if not len(ends):
            return self.length
        last = len(ends) if self.clock.wait == "all" else min(self.clock.minimum, len(ends))
        return max(self.length, float(ends[last - 1]))

    def on_the_air(self, arrived: np.ndarray) -> np.ndarray:
        """Bytes that were sent, lost ones among them, for those that arrived; int64."""
        return np.rint(arrived / (1 - self.link.loss)).astype(np.int64)


@dataclass(frozen=True)
class Timetable:
    """What a round will be.

    seconds: how long it takes. done: float64 [clients], s, when each is done; infinite for never. jobs: the local work
    that is computed. paid: what is paid for. unfinished: bool [clients], whose work, begun now or before, goes on
    later.
    graph: bool CSR [clients, clients], which clients' models get through to each other; None where clients do not send
    to each other, or one way counts. received: bool CSR [clients, clients], where one way counts, whose models
    (columns) each client (row) gets, and received_at: float64 [entries of it, row by row], s, when; None elsewhere.
    averagings: where pairs average, which do; None elsewhere. pieces: what clients get of each other's models, where
    each counts as far as it came; None elsewhere. arrived: int64, the clients whose work is there when the round is
    over; None where that is not asked. dropped: int64, those whose work is lost. traffic: what is sent beside the
    transfers of the exchange; all of it where there are pieces. already: int64 [clients], bytes of the exchange's
    transfers that were sent in earlier rounds; None: none. state: what the clock keeps. facts: its columns of the table
    of rounds. spans: tells who is at what when. doings: tells what takes energy. lost: int64, clients that ran empty
    before work was done that waits for nobody else. loads: float64 [clients, 2], bytes that each client gets before it
    trains, and then sends; None where clients send to each other. use: what all of it asks of the batteries; None
    without.
    """

    seconds: float
    done: np.ndarray
    jobs: Sequence[Job]
    paid: Paid
    unfinished: np.ndarray
    graph: sparse.csr_array | None
    arrived: np.ndarray | None
    dropped: np.ndarray
    traffic: Traffic
    state: dict[str, np.ndarray]
    facts: Mapping[str, float]
    already: np.ndarray | None = None
    received: sparse.csr_array | None = None
    received_at: np.ndarray | None = None
    averagings: Averagings | None = None
    pieces: Pieces | None = None
    spans: Callable[[], Spans] | None = None
    doings: Callable[[], Doings] | None = None
    lost: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    loads: np.ndarray | None = None
    use: Use | None = None

    def after(self) -> dict[str, np.ndarray]:
        """What the clock keeps after the round, with the round's columns in their sums."""
        return self.state | {SO_FAR: self.state[SO_FAR] + [self.facts[name] for name in COLUMNS]}


# Of a round, its timetable if clients run empty at these moments: float64 [clients], s, infinite for who does not.
Planner = Callable[[np.ndarray], Timetable]


def following(
    state: Mapping[str, np.ndarray],
    seconds: float,
    present: np.ndarray,
    training: tuple[np.ndarray, np.ndarray],
    plan: PlannedTransfers,
    sent: Sent,
    dies: np.ndarray,
) -> dict[str, np.ndarray]:
    """The time and the totals after a round of so many seconds; what is left of work stays as it was.

    A client trains, or else it sends or receives, or else it waits if it is present (bool [clients]) and has not died
    (float64 [clients], s), or else it is idle: the four add up to the time. training: from and to, float64 [clients]
    each, s; without duration for none.
    """
    clients, lives = len(present), np.minimum(dies, seconds)
    begin, end = (np.minimum(np.maximum(side, 0.0), lives) for side in training)
    trained = np.maximum(end - begin, 0.0)
    tried = np.flatnonzero(sent.tries > 0)
    low, high = np.minimum(sent.begun[tried], seconds), np.minimum(sent.stopped[tried], seconds)
    who = np.concatenate([plan.sender[tried], plan.receiver[tried], np.arange(clients)])
    low, high = (np.concatenate([side, side, own]) for side, own in ((low, begin), (high, end)))
    busy = union(who, low, np.maximum(high, low), clients)
    sending = np.maximum(busy - trained, 0.0)
    waits = np.where(present, np.maximum(lives - trained - sending, 0.0), 0.0)
    rest = np.maximum(seconds - trained - sending, 0.0)
    waits = np.where(lives < seconds, waits, np.where(present, rest, 0.0))
    spent = (trained, sending, waits, np.where(lives < seconds, rest - waits, np.where(present, 0.0, rest)))
    found = dict(state) | {TIME: state[TIME] + seconds}
    return found | {name: state[name] + each for name, each in zip(TOTALS, spent, strict=True)}


@dataclass(frozen=True)
class Sending:
    """What is to be sent in a round, and over what, whoever runs empty in it; `send` says of what kind each is."""

    timing: Timing
    clients: int
    plan: PlannedTransfers
    windows: Windows
    hearing: Intervals
    wired: tuple[int, ...] = ()
    simultaneous: int | None = None

    def while_alive(self, dies: np.ndarray) -> Sending:
        """The same where clients run empty at these moments, s, float64 [clients]; infinite for who does not."""
        gone = until(dies, self.plan.sender, self.plan.receiver)
        return replace(self, windows=self.windows.until(gone, self.timing.length))

    def sent(self, end: float) -> Sent:
        """What becomes of it in a round that goes on until a moment (s, may be infinite)."""
        timing = self.timing
        return send(
            timing.link,
            self.plan,
            self.windows,
            end,
            timing.length,
            self.hearing,
            self.wired,
            self.simultaneous,
            tell_tries=timing.batteries,
            rounds=timing.rounds,
        )

    def couplings(self, sent: Sent) -> Couplings:
        """What ties nodes together where this became of it."""
        return Couplings.of(
            self.timing.link,
            self.plan,
            self.windows,
            sent,
            self.hearing,
            clients=self.clients,
            wired=self.wired,
            simultaneous=self.simultaneous,
        )


def told_of(late: np.ndarray, plan: PlannedTransfers, sent: Sent, end: np.ndarray) -> dict[str, float]:
    """The clock's columns (`COLUMNS`): late clients, transfers that were wanted, those that got through, tries that
    broke, contacts, and those in which models fit.

    A contact is two nodes that want to send anything to each other in the round, whichever way. Models fit in it if all
    of that gets through. end: s, when each transfer is done; infinite for never.
    """
    through = np.isfinite(end)
    low, high = np.minimum(plan.sender, plan.receiver), np.maximum(plan.sender, plan.receiver)
    pair = low * (int(high.max(initial=0)) + 1) + high
    ordered = np.sort(2 * pair + through)  # of each pair those first that do not get through
    first = ordered[np.append(True, ordered[1:] >> 1 != ordered[:-1] >> 1)[: len(ordered)]]
    return {
        "late": float(late.sum()),
        "transfers": float(len(end)),
        "through": float(through.sum()),
        "broken": float((sent.tries - through).sum()),
        "contacts": float(len(first)),
        "fit": float((first & 1).sum()),
    }


def union(who: np.ndarray, low: np.ndarray, high: np.ndarray, clients: int) -> np.ndarray:
    """How long any of the intervals low to high of each client lasts, float64 [clients]."""
    # Other nodes are nobody's time, and what neither begins nor ends after 0 is none.
    own = (who < clients) & ((low != 0) | (high != 0))
    if not own.all():
        who, low, high = who[own], low[own], high[own]
    if not len(who):
        return np.zeros(clients)
    order = rising(low)
    order = order[stable_order(who[order], clients)]
    who, low, high = who[order], low[order], high[order]
    # The latest end so far of the same client: a running maximum that begins anew with each client.
    shift = who * (2.0 * (float(high.max()) + 1.0))
    latest = np.maximum.accumulate(high + shift) - shift
    before = np.empty(len(who))
    before[0], before[1:] = low[0], np.where(who[1:] == who[:-1], latest[:-1], low[1:])
    fresh = np.maximum(high - np.maximum(low, before), 0.0)
    return np.bincount(who, fresh, minlength=clients)


def until(dies: np.ndarray, *ends: np.ndarray) -> np.ndarray:
    """When the first end of each transfer dies, s, float64 [transfers]. dies: of clients; other nodes never do."""
    found = np.full(len(ends[0]), np.inf)
    if np.isinf(dies).all():
        return found
    for end in ends:
        own = np.flatnonzero(end < len(dies))
        found[own] = np.minimum(found[own], dies[end[own]])
    return found


def paid(jobs: Sequence[Job], broken_off: Sequence[Job], progress: np.ndarray, goes_on: np.ndarray) -> Paid:
    """What is paid for of local work that is begun (jobs), and of which some is broken off for good.

    progress: float64 [clients], the share of its work that each does in the round. goes_on: bool [clients], who goes on
    with what was begun in an earlier one.
    """
    every = [*jobs, *broken_off] if broken_off else jobs
    clients = clients_of(every)
    own = clients >= 0
    if not own.all():
        every, clients = some_of(every, own), clients[own]
    broken = np.zeros(len(clients), dtype=bool)
    broken[len(clients) - len(broken_off) :] = bool(broken_off)
    return Paid(every, progress[clients], broken, np.where(goes_on, progress, 0.0))
