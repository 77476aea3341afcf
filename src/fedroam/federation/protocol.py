"""Federations: who trains, who aggregates with whom, and what that sends over the air."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from scipy import sparse
from torch import nn

from fedroam.attacks import Withheld
from fedroam.components import ours
from fedroam.errors import FedroamError
from fedroam.federation.holders import Aggregator, AtHand, KnownToHolders, Transfers
from fedroam.federation.pieces import Pieces
from fedroam.learning import Job, Learner, Models, Task
from fedroam.learning.objective import Objective
from fedroam.mixing import (
    Aggregation,
    Average,
    Fact,
    Facts,
    Mixing,
    Surroundings,
    entries,
    needs_of,
    weights_of,
)
from fedroam.mobility import Paths
from fedroam.models import ModelBuilder
from fedroam.randomness import stream

# The ends of a transfer: clients are 0, 1, ...; the server (or cloud) is -1; access point a is -2 - a.
SERVER = -1
Arrays = Mapping[str, np.ndarray]  # of a state, by name
NOBODY = np.zeros(0, dtype=np.int64)


def access_point(number: int | np.ndarray) -> int | np.ndarray:
    """How `Traffic` writes access point 0, 1, ..."""
    return -2 - number


@dataclass(frozen=True)
class Meeting:
    """One round's movement and who met whom in it: paths and the contact graph (bool CSR [clients, clients])."""

    paths: Paths
    graph: sparse.csr_array
    _sends: dict[int, sparse.csr_array] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def nowhere(cls, clients: int) -> Meeting:
        """Nobody is present, and nobody meets anybody."""
        paths = Paths.still(np.zeros((clients, 2)), np.zeros(clients, dtype=bool))
        return cls(paths, sparse.csr_array((clients, clients), dtype=bool))

    @cached_property
    def links(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each contact both ways: who receives, who sends, and how far apart they are at the end, m."""
        receiver, sender = entries(self.graph)
        places = self.paths.end
        return receiver, sender, np.asarray(np.hypot(*(places[sender] - places[receiver]).T))

    def without(self, clients: np.ndarray) -> Meeting:
        """The same as if these clients (int64) were away."""
        if not len(clients):
            return self
        here = ~np.isin(np.arange(len(self.paths.present)), clients)
        i, j = self.graph.nonzero()
        met = here[i] & here[j]
        return Meeting(replace(self.paths, present=self.paths.present & here), self._graph(i[met], j[met]))

    def without_links(self, a: np.ndarray, b: np.ndarray) -> Meeting:
        """The same as if these clients (int64 [links], each) had not met each other."""
        i, j = self.graph.nonzero()
        pair = [np.ravel_multi_index(each, self.graph.shape) for each in ((i, j), (a, b), (b, a))]
        met = ~np.isin(pair[0], np.append(pair[1], pair[2]))
        return Meeting(self.paths, self._graph(i[met], j[met]))

    def sends(self, federation: SendsOneWay, round: Round) -> sparse.csr_array:
        """What a federation sends in this meeting of a round, as its `sends` says: asked once, as some draw it."""
        if round.number not in self._sends:
            self._sends[round.number] = sparse.csr_array(federation.sends(round, self))
        return self._sends[round.number]

    def _graph(self, i: np.ndarray, j: np.ndarray) -> sparse.csr_array:
        return sparse.csr_array((np.ones(len(i), dtype=bool), (i, j)), shape=self.graph.shape)


@dataclass(frozen=True)
class Traffic:
    """What was sent, one entry a transfer.

    sender, receiver: int32 (a client, `SERVER`, or -2 - a for access point a). bytes: int64. distance: float64,
    metres between the two when it happened, NaN where an end has no place. along: bool, which are more bytes of another
    transfer (lost ones that were sent again), and no transfer of their own; None: none are.
    """

    sender: np.ndarray
    receiver: np.ndarray
    bytes: np.ndarray
    distance: np.ndarray
    along: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        sender: np.ndarray | int,
        receiver: np.ndarray | int,
        size: np.ndarray | int,
        distance: np.ndarray | float = np.nan,
        along: np.ndarray | None = None,
    ) -> Traffic:
        """Transfers; what is the same for all of them may be given as one number. Raises FedroamError where there are
        not as many of one as of another."""
        given = (sender, receiver, size, distance)
        most = next((np.size(value) for value in given if np.size(value) != 1), 1)
        if any(np.size(value) not in (1, most) for value in given):
            names = ("sender", "receiver", "size", "distance")
            lengths = ", ".join(f"{name} {np.size(value)}" for name, value in zip(names, given, strict=True))
            raise FedroamError(f"Traffic.of: {lengths} values; allowed are one, or one for each transfer")
        columns = [np.empty(most, dtype=kind) for kind in (np.int32, np.int32, np.int64, np.float64)]
        for column, value in zip(columns, given, strict=True):
            column[:] = value
        who, whom, bytes, apart = columns
        return cls(who, whom, bytes, apart, along)

    @classmethod
    def nothing(cls) -> Traffic:
        """No transfer."""
        kinds = (np.int32, np.int32, np.int64, np.float64)
        return cls(*(np.zeros(0, dtype=kind) for kind in kinds))

    @classmethod
    def joined(cls, parts: Sequence[Traffic]) -> Traffic:
        """All transfers of several traffics, in order."""
        parts = [part for part in parts if len(part.bytes)]
        if len(parts) <= 1:
            return parts[0] if parts else cls.nothing()
        return cls(
            np.concatenate([part.sender for part in parts]),
            np.concatenate([part.receiver for part in parts]),
            np.concatenate([part.bytes for part in parts]),
            np.concatenate([part.distance for part in parts]),
            None
            if all(part.along is None for part in parts)
            else np.concatenate([part.beside for part in parts]),
        )

    @property
    def beside(self) -> np.ndarray:
        """`along`, also where none are, bool."""
        return np.zeros(len(self.bytes), dtype=bool) if self.along is None else self.along

    def less(self, already: np.ndarray) -> Traffic:
        """Without what clients have already sent (int64 [clients], bytes) of what they send to a server or access
        point: it is taken from the first transfer of each."""
        rows = np.flatnonzero((self.sender >= 0) & (self.receiver < 0))
        who, first = np.unique(self.sender[rows], return_index=True)
        bytes = self.bytes.copy()
        bytes[rows[first]] -= already[who]
        return replace(self, bytes=bytes)

    def check(self, clients: int, access_points: int) -> None:
        """Raise FedroamError where this is no traffic among so many clients and access points."""
        columns = (self.sender, self.receiver, self.bytes, self.distance)
        if any(column.shape != self.bytes.shape or column.ndim != 1 for column in columns):
            shapes = ", ".join(str(list(column.shape)) for column in columns)
            raise FedroamError(f"arrays of {shapes}; allowed is one value for each transfer in each")
        ends = f"0 to {clients - 1} for clients, -1 for the server"
        if access_points:
            ends += f", -2 to {-1 - access_points} for access points"
        for wrong, allowed in (
            ((self.sender < -1 - access_points) | (self.sender >= clients), f"senders from {ends}"),
            ((self.receiver < -1 - access_points) | (self.receiver >= clients), f"receivers from {ends}"),
            (self.sender == self.receiver, "another receiver than the sender"),
            (self.bytes < 0, "bytes from 0 on"),
            ((self.distance < 0) | np.isinf(self.distance), "metres from 0 on, or NaN"),
        ):
            if wrong.any():
                k = int(np.flatnonzero(wrong)[0])
                raise FedroamError(
                    f"{self.bytes[k]} bytes from {self.sender[k]} to {self.receiver[k]} over {self.distance[k]:g} m; "
                    f"allowed are {allowed}"
                )

    @property
    def total(self) -> int:
        """All bytes sent."""
        return int(self.bytes.sum())


@dataclass(frozen=True)
class FederationContext:
    """What a federation may know of a run.

    samples: training samples held, int64 [clients]. train, validation: each client's samples (indices into the
    task's). class_counts: int64 [clients, classes], training samples by class. bounds: the world's lower left and
    upper right corner, metres. access_points: float64 [access points, 2], metres; ranges: how far each reaches, float64
    [access points], metres, None for everywhere. aggregation: what is made of models that meet. reach: radio range,
    metres. rounds: how many will be played (0: not known). late: whether local work may arrive in a later round, or
    never, as under a clock of seconds.
    """

    seed: int
    samples: np.ndarray
    mixing: Mixing
    task: Task
    train: tuple[np.ndarray, ...]
    validation: tuple[np.ndarray, ...]
    class_counts: np.ndarray
    bounds: tuple[float, float, float, float]
    access_points: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    aggregation: Aggregation = field(default_factory=Average)
    reach: float = math.inf
    rounds: int = 0
    ranges: np.ndarray | None = None
    late: bool = False

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.samples)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.class_counts.shape[1])

    def facts(self, rule: object, meeting: Meeting) -> Facts:
        """What a mixing or aggregation rule may know in a round, as far as it declares it."""
        around = Surroundings(meeting.paths, meeting.graph, self.reach, self.class_counts)
        own = self._needs_of_own.get(id(rule))
        return Facts.declaring(needs_of(rule) if own is None else own, self.samples, around)

    def weights(self, meeting: Meeting, round: int) -> sparse.csr_array:
        """The mixing rule's weights of a meeting in a round, float64 CSR [clients, clients].

        Raises InputError where they are not what `Mixing.weights` promises.
        """
        return weights_of(self.mixing, meeting.graph, self.facts(self.mixing, meeting), round)

    @cached_property
    def _needs_of_own(self) -> dict[int, tuple[Fact, ...]]:
        """What the run's own rules declare, by identity: to ask anew each round takes longer than all else in it."""
        return {id(rule): needs_of(rule) for rule in (self.mixing, self.aggregation)}

    def known(self, meeting: Meeting, round: int) -> KnownToHolders:
        """What holders may know that aggregate in a round what they got in a meeting."""
        facts = self.facts(self.aggregation, meeting)
        # One's own sees the same facts at every holder: what it wrote into them at one would be true at the next.
        return KnownToHolders(self, facts if ours(self.aggregation) else facts.only_to_read(), round)

    def available(self, meeting: Meeting) -> np.ndarray:
        """The clients (int64) that are present at the end of a meeting's round and hold training samples."""
        return np.flatnonzero(meeting.paths.present & (self.samples > 0))


@dataclass(frozen=True)
class Averagings:
    """The pairs that averaged in a round, in the order in which they were done.

    pairs: int64 [averagings, 2]. begun, ended: float64 [averagings], seconds of the round, from when to when the two
    were at it; nobody is at two at a time. learnt: float64 [clients], when each one's local work was done, infinite
    where that was not in this round.
    """

    pairs: np.ndarray
    begun: np.ndarray
    ended: np.ndarray
    learnt: np.ndarray


# start(clients): a matrix with the start model of each client named, one row each.
Start = Callable[[Sequence[int]], Models]


@dataclass(frozen=True)
class Round:
    """What a federation is handed in a round.

    number: 1, 2, ... models, state: as they are now. context: what does not change in a run. before: where everybody is
    when the round begins, and who is in contact there. learner: the engine that trains and evaluates. withheld: in an
    exchange, the true models of attackers, in whose rows stands what they send. arrived: in an exchange, the clients
    (int64, ascending) whose work arrived in time; None: everybody's who worked. finished: float64 [clients], when it
    did, seconds of the round; None: all at once. received: in an exchange of a federation that sends one way, whose
    models (columns) each client (row) got in time, bool CSR [clients, clients]; None: all that `sends` tells.
    received_at: of a timed one, when each of these arrived, float64 [entries of `received`, row by row], seconds of the
    round; None: as they met. lost: in an exchange, the clients (int64) that did not answer, as happens on a network:
    their work of this round counts for nothing, and their rows are as they were handed out. training: in an exchange,
    the clients (int64, ascending) that go on with local work in the next round: their models must stay as they are.
    dropped: in an exchange, the clients (int64, ascending) whose local work of this round was not done in time, and is
    lost. averagings: in an exchange of a federation that averages in pairs, which did; None: all, as they met. pieces:
    in an exchange of a federation that takes them, what clients got of each other's models, under a link whose broken
    transfers are not lost; None elsewhere. aggregator: takes models from one to another, and aggregates them.
    """

    number: int
    models: Models
    state: Arrays
    context: FederationContext
    before: Meeting
    learner: Learner
    withheld: Withheld | None = None
    arrived: np.ndarray | None = None
    finished: np.ndarray | None = None
    received: sparse.csr_array | None = None
    received_at: np.ndarray | None = None
    averagings: Averagings | None = None
    pieces: Pieces | None = None
    lost: np.ndarray = field(default_factory=lambda: NOBODY)
    aggregator: Aggregator = field(default_factory=AtHand)
    training: np.ndarray = field(default_factory=lambda: NOBODY)
    dropped: np.ndarray = field(default_factory=lambda: NOBODY)


def by_arrival(clients: np.ndarray, finished: np.ndarray | None, seed: int, round: int) -> np.ndarray:
    """Clients (int64) in the order in which their work arrived in a round; int64.

    finished: float64 [all clients], when it did; None: all at once. Those that arrive at once are put in an order drawn
    anew for each round: a server that takes one after the other weighs the last most, and it should not always be the
    same one's. Who comes before whom of two does not depend on who else arrives.
    """
    draws = stream(seed, "who of equals arrives first", round)
    drawn = draws.random(int(clients.max(initial=-1)) + 1)[clients]
    return clients[np.lexsort((drawn,) if finished is None else (drawn, finished[clients]))]


@dataclass(frozen=True)
class InitialState:
    """Before round 1: the models' matrix, with as many rows as the federation needs, and its own state."""

    models: Models
    state: dict[str, np.ndarray]


@dataclass(frozen=True)
class Beside:
    """What clients compute of samples in a round beside training: how many each passes forward through its whole
    network, and through the extractor alone, int64 [clients] each."""

    network: np.ndarray
    extractor: np.ndarray

    @classmethod
    def of(
        cls, clients: int, who: np.ndarray, network: np.ndarray | int = 0, extractor: np.ndarray | int = 0
    ) -> Beside:
        """So many samples of these clients (int64, each once) of all; nothing of the others."""
        found = cls(np.zeros(clients, np.int64), np.zeros(clients, np.int64))
        found.network[who], found.extractor[who] = network, extractor
        return found


@dataclass(frozen=True)
class Distributed:
    """What is handed out before training: the local work to be done, the traffic, models and state by then.

    trained: local work that clients have done for it already; it is charged like the other. beside: what else clients
    compute of samples in this round, before training and after it; None: nothing.
    """

    jobs: Sequence[Job]
    traffic: Traffic
    models: Models
    state: dict[str, np.ndarray]
    trained: Sequence[Job] = ()
    beside: Beside | None = None


@dataclass(frozen=True)
class Exchanged:
    """What an exchange did.

    meeting: the one it used. traffic, models, state: what was sent, and what is there now. aggregated: clients
    (int64) whose training entered an aggregate; discarded: those whose training is now lost for good. facts: the
    federation's own columns of the table `rounds`.
    """

    meeting: Meeting
    traffic: Traffic
    models: Models
    state: dict[str, np.ndarray]
    aggregated: np.ndarray = field(default_factory=lambda: NOBODY)
    discarded: np.ndarray = field(default_factory=lambda: NOBODY)
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationModels:
    """The model that each client is evaluated with: row `row[i]` of `models` (int64 [clients]; -1: not evaluated).

    mean: one row, the model that stands for all (the average, the global model), or None.
    """

    models: Models
    row: np.ndarray
    mean: Models | None


Evaluated = Mapping[str, EvaluationModels]  # by name, the headline first


@runtime_checkable
class Federation(Protocol):
    """Who trains and who aggregates. State is a mapping of plain numeric arrays (empty where none is needed).

    What only some federations do stands in small protocols of its own: `AdaptsNetwork`, `AdaptsObjective`,
    `AddsColumns`, `AggregatesAtHolders`, `RecordsMatrices`, `TellsDistances` and `UsesLess`.
    """

    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        """Models and state before round 1. Raises InputError where the run does not fit."""

    def distribute(self, round: Round) -> Distributed:
        """Hand out what training begins with. A client that is away when the round begins must get no job."""

    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """Aggregate what was trained. Rows of the round's models may be replaced in place.

        The clients' move lies between the meetings `round.before` and `after`.
        """

    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        """The models that clients are evaluated with, by name.

        The first is the headline, further ones give `accuracy_NAME` columns.
        """


@runtime_checkable
class AdaptsNetwork(Protocol):
    """A federation that trains another network than the experiment's."""

    def adapt(self, network: nn.Module) -> nn.Module:
        """The network that is trained, made from the experiment's; it may have further parameters and buffers."""


@runtime_checkable
class AdaptsObjective(Protocol):
    """A federation whose clients lower another loss than the experiment's."""

    def objective(self, base: Objective) -> Objective:
        """The loss that local training lowers, made from the experiment's."""


@runtime_checkable
class AddsColumns(Protocol):
    """A federation that adds columns of its own to the table `rounds`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names; `Exchanged.facts` fills them."""


@runtime_checkable
class Aggregates(Protocol):
    """A federation that can aggregate by the experiment's aggregation rule."""

    @property
    def aggregates(self) -> bool:
        """Whether it does so, instead of by a rule of its own."""


@runtime_checkable
class RecordsMatrices(Protocol):
    """A federation with matrices that are worth keeping."""

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names of the state arrays [i, j] that go into the table `matrices` at evaluated rounds."""


@runtime_checkable
class SendsToNeighbours(Protocol):
    """A federation whose clients send their models to those they meet; it can be timed."""

    def meeting_of(self, round: Round, after: Meeting) -> Meeting:
        """The meeting in which models are exchanged: the ways that everybody takes meanwhile, and who meets whom."""


@runtime_checkable
class SendsOneWay(Protocol):
    """A federation among neighbours in which each model counts that gets through, whether or not one comes back.

    It sends to neighbours, too (`SendsToNeighbours`), of which a pair otherwise exchanges models only where both get
    through.
    """

    def sends(self, round: Round, meeting: Meeting) -> sparse.csr_array:
        """What is sent in a meeting, if all of it gets through: bytes, int64 CSR [clients, clients]; row i tells what
        client i is sent, and by whom. Only between clients in contact.

        The round is as `distribute` left it; it may be asked more than once, and must give the same.
        """


@runtime_checkable
class TakesPieces(Protocol):
    """A federation among neighbours that is sent models as they stand, and can use a part of one, or an older one.

    Its exchange is then told what came (`Round.pieces`).
    """

    @property
    def takes_pieces(self) -> bool:
        """Whether it does so."""


@runtime_checkable
class AveragesInPairs(Protocol):
    """A federation among neighbours in which pairs average at once, each with one partner at a time, while all train.

    It sends to neighbours, too (`SendsToNeighbours`). Who goes on with work of an earlier round gets no other.
    """

    def pairs(self, round: Round, meeting: Meeting) -> np.ndarray:
        """Who wants to average with whom in a meeting, int64 [pairs, 2], once each. Only clients in contact."""


@runtime_checkable
class SendsToServers(Protocol):
    """A federation whose clients send what they trained to a server or access points; it can be timed."""

    @property
    def holds_work(self) -> bool:
        """Whether work that has not arrived is kept for later rounds, or lost, by a rule of its own."""

    def uploads(self, round: Round, after: Meeting) -> Traffic:
        """What an exchange with `after` would be sent by clients, if everybody's work arrived; nothing is changed.

        The round is as `distribute` left it.
        """


@runtime_checkable
class GivesUpWork(Protocol):
    """A federation that holds late work, and loses it at times."""

    def gives_up(self, round: int) -> bool:
        """Whether all work that has not arrived when this round is over is lost then."""


@runtime_checkable
class BringsUpdates(Protocol):
    """A federation whose clients bring their updates to others, in this round or in a later one, and of which is known
    to whom before anybody trains."""

    def brought(self, round: Round, after: Meeting) -> Transfers:
        """What clients bring in an exchange with `after`, if they have trained and it arrives; nothing is changed.

        The round is as `distribute` left it. No client need wait until all others have trained.
        """


@runtime_checkable
class TellsDistances(Protocol):
    """A federation whose clients use access points, and which tells beforehand how far away these will be."""

    def link_distances(
        self,
        seed: int,
        clients: int,
        access_points: np.ndarray,
        movement: Iterable[Paths],
        ranges: np.ndarray | None = None,
    ) -> Iterator[np.ndarray]:
        """From each client in service to the access point that it turns to, float64 [clients in service], metres.

        access_points: float64 [access points, 2], metres; ranges: how far each reaches, float64 [access points],
        metres, None for everywhere (left out where no access point has a range). In service are those who are present
        and in the range of theirs. movement: where everybody is at the start, then the paths of each round; one array
        for each. Raises InputError, also for no movement at all, where the access points do not fit.
        """


@runtime_checkable
class UsesLess(Protocol):
    """A federation that does not look at all that a world tells."""

    @property
    def uses(self) -> tuple[str, ...]:
        """What it looks at, of `places` and `contacts`; other federations look at both."""


def used_by(federation: object) -> tuple[str, ...]:
    """What a federation looks at, of `places` and `contacts`."""
    return federation.uses if isinstance(federation, UsesLess) else ("places", "contacts")


def own_models(models: Models, mean: Models | None = None) -> EvaluationModels:
    """Every client is evaluated with the model in its own row."""
    return EvaluationModels(models, np.arange(len(models)), mean)


def one_model(model: Models, clients: int) -> EvaluationModels:
    """All clients are evaluated with one model (a single row), which stands for all."""
    return EvaluationModels(model, np.zeros(clients, np.int64), model)


def judged_by(federation: Federation, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
    """What clients are judged by, by name. Raises FedroamError where a federation gives something else.

    One that does not come with fedroam is handed copies: what it writes into them is judged, and not learnt.
    """
    if not ours(federation):
        models = models.rows(torch.arange(len(models), device=models.device))
        state = {name: array.copy() for name, array in state.items()}
    given: object = federation.evaluation_models(models, state, context)
    who, wanted = (
        type(federation).__name__,
        f"int64 [{context.clients}], of -1 (not judged) and rows of its models",
    )
    if not isinstance(given, Mapping) or not given:
        found = "nothing" if isinstance(given, Mapping) else f"a {type(given).__name__}"
        raise FedroamError(
            f"{who}: evaluation_models gave {found}; allowed is a mapping of names to EvaluationModels"
        )
    for name, each in given.items():
        if not isinstance(each, EvaluationModels):
            raise FedroamError(
                f"{who}: evaluation_models[{name!r}] is a {type(each).__name__}, no EvaluationModels"
            )
        row, most = np.asarray(each.row), len(each.models) - 1
        if row.dtype.kind not in "iu" or row.shape != (context.clients,):
            raise FedroamError(
                f"{who}: evaluation_models[{name!r}].row is {row.dtype} {list(row.shape)}; allowed is {wanted}"
            )
        if row.min() < -1 or row.max() > most:
            raise FedroamError(
                f"{who}: evaluation_models[{name!r}].row is {row.min()} to {row.max()}, and there are {most + 1} rows; "
                f"allowed is {wanted}"
            )
    return given


def network_of(
    model: ModelBuilder, federation: Federation, shape: tuple[int, ...], classes: int
) -> nn.Module:
    """A network for samples of this shape (as networks see them), with start values of the moment."""
    network = model.build(shape, classes)
    return federation.adapt(network) if isinstance(federation, AdaptsNetwork) else network
