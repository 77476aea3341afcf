"""The loop that all server-based methods share: broadcast, local training, upload, aggregation.

A method is one short file: a `Part` that mixes in `ServerLoop` and overrides what it does differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from fedroam.errors import FedroamError
from fedroam.federation.aggregating import aggregated, averages, values
from fedroam.federation.protocol import (
    SERVER,
    AddsColumns,
    Arrays,
    Beside,
    Distributed,
    Evaluated,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
    Traffic,
    by_arrival,
    one_model,
    own_models,
)
from fedroam.learning import Held, Job, Layout, Learner, Models, fill_rows, weighted_sum

GLOBAL, GLOBAL_BUFFERS = "global", "global_buffers"


@dataclass
class ServerRound:
    """A round as a method sees it.

    models: one row a client (row i is client i's), and further ones if the method's `begin` made them. state: the
    method's, a mapping of its own to which new arrays may be assigned (arrays already in it must not be written into).
    clients: those active in this round (int64, ascending). number: 0 before the first. facts: the method's own columns
    of the table `rounds`. meeting: where everybody is, at the begin of the round before training, at its end after it.
    memo: what `broadcast` leaves for `job` and `beside`; it does not outlive training. more: transfers other than the
    active clients' download and upload. trained: local work that `broadcast` has had done. finished: when each client's
    work arrived (float64 [clients]); None: all at once. under_way: after training, those whose work of this round or of
    an earlier one is still to come (int64).
    """

    models: Models
    state: dict[str, np.ndarray]
    context: FederationContext
    clients: np.ndarray
    number: int
    learner: Learner
    meeting: Meeting
    facts: dict[str, float] = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict)
    more: list[Traffic] = field(default_factory=list)
    trained: list[Job] = field(default_factory=list)
    finished: np.ndarray | None = None
    under_way: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of(cls, round: Round, meeting: Meeting) -> ServerRound:
        """With the clients that can train when the round begins, or in an exchange those whose work arrived."""
        clients = round.context.available(round.before) if round.arrived is None else round.arrived
        clients = np.setdiff1d(clients, round.lost)
        return cls(
            round.models,
            dict(round.state),
            round.context,
            clients,
            round.number,
            round.learner,
            meeting,
            finished=round.finished,
            under_way=round.training,
        )

    @property
    def layout(self) -> Layout:
        """The layout of a row."""
        return self.models.layout

    @property
    def held(self) -> list[Held]:
        """The training samples of each active client, in the order of `clients`."""
        return [Held(i, "train", self.context.train[i]) for i in self.clients.tolist()]

    def by_arrival(self) -> np.ndarray:
        """The active clients in the order in which their work arrived (see `protocol.by_arrival`); int64."""
        return by_arrival(self.clients, self.finished, self.context.seed, self.number)

    def tensor(self, name: str) -> torch.Tensor:
        """A state array as a tensor that must not be written into."""
        return torch.from_numpy(self.state[name]).to(self.models.parameters.device)

    def shares(self) -> np.ndarray:
        """|D_i| / sum_j |D_j| over the active clients, float64."""
        held = self.context.samples[self.clients].astype(np.float64)
        return np.asarray(held / held.sum())


class ServerLoop:
    """Each round the active clients get the shared columns, train on their own data, and send them back.

    The server averages them by samples. A method overrides any of `shared`, `shared_buffers`, `begin`, `broadcast`,
    `job`, `beside`, `aggregate`, `download`, `upload` and `evaluation_models`. Who is active is decided before training
    and is the same for every method (`Experiment.activity`); a client that trained also delivers in the same round.
    """

    uses: ClassVar[tuple[str, ...]] = ()
    holds_work: ClassVar[bool] = False

    def shared(self, layout: Layout) -> slice:
        """The columns of a row that the server has its own copy of and averages; default: all of them."""
        return slice(0, layout.size)

    def shared_buffers(self, layout: Layout) -> slice:
        """The same for the buffers of a row."""
        return slice(0, layout.buffer_size)

    def begin(self, round: ServerRound, start: Start) -> None:
        """Before round 1: the server's own start model, in state `global` [shared columns], `global_buffers`."""
        server = start([SERVER])
        round.state[GLOBAL] = _array(server.parameters[0, self.shared(round.layout)])
        round.state[GLOBAL_BUFFERS] = _array(server.buffers[0, self.shared_buffers(round.layout)])

    def broadcast(self, round: ServerRound) -> None:
        """Before training: the active clients' shared columns and buffers become the server's."""
        models, layout, clients = round.models, round.layout, round.clients
        fill_rows(models.parameters, clients, self.shared(layout), round.tensor(GLOBAL))
        if len(round.state[GLOBAL_BUFFERS]):
            fill_rows(models.buffers, clients, self.shared_buffers(layout), round.tensor(GLOBAL_BUFFERS))

    def job(self, round: ServerRound, client: int) -> Job:
        """The local work of a client."""
        return Job(client, client, round.context.train[client], round.number)

    def jobs(self, round: ServerRound) -> Sequence[Job]:
        """All local work of the round."""
        found = [self.job(round, int(client)) for client in round.clients]
        for job in found:
            if not isinstance(job, Job):
                raise FedroamError(
                    f"{type(self).__name__}: job gave a {type(job).__name__}; allowed is a Job"
                )
        return found

    def beside(self, round: ServerRound) -> Beside | None:
        """What clients compute of samples in this round beside training, told after the broadcast: features, class
        means, losses, those of `aggregate` among them. None: nothing."""
        return None

    def aggregate(self, round: ServerRound) -> None:
        """After training: w = sum_i |D_i| / |D| w_i over the active clients (McMahan et al., AISTATS 2017, Alg. 1), or
        what the experiment's aggregation rule makes of their models.
        """
        parameters = round.models.parameters[:, self.shared(round.layout)]
        buffers = round.models.buffers[:, self.shared_buffers(round.layout)]
        context = round.context
        if not averages(context.aggregation):
            clients = torch.from_numpy(round.clients).to(parameters.device)
            own = values(round.tensor(GLOBAL), round.tensor(GLOBAL_BUFFERS))
            models, known = (
                values(parameters[clients], buffers[clients]),
                context.known(round.meeting, round.number),
            )
            found = aggregated(known, own, models, round.shares(), SERVER, round.clients)
            round.state[GLOBAL], round.state[GLOBAL_BUFFERS] = np.split(found, [parameters.shape[1]])
            return
        round.state[GLOBAL] = weighted_mean(parameters, round.clients, round.shares())
        round.state[GLOBAL_BUFFERS] = weighted_mean(buffers, round.clients, round.shares())

    def download(self, round: ServerRound) -> np.ndarray | int:
        """Bytes that each active client gets before training."""
        columns, buffers = self.shared(round.layout), self.shared_buffers(round.layout)
        return int(4 * (columns.stop - columns.start + buffers.stop - buffers.start))

    def upload(self, round: ServerRound) -> np.ndarray | int:
        """Bytes that each active client sends after training; default: as many as it got."""
        return self.download(round)

    @property
    def aggregates(self) -> bool:
        """By the experiment's rule, unless a method has an `aggregate` of its own."""
        return type(self).aggregate is ServerLoop.aggregate

    # --- the federation ---------------------------------------------------------------------------------------

    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        """A row for each client, and what the method's `begin` adds."""
        everybody, nowhere = np.flatnonzero(context.samples > 0), Meeting.nowhere(context.clients)
        round = ServerRound(start(range(context.clients)), {}, context, everybody, 0, learner, nowhere)
        self.begin(round, start)
        self._check_global(round)
        return InitialState(round.models, round.state)

    def distribute(self, round: Round) -> Distributed:
        """The broadcast. In a round with nobody active nothing happens."""
        own = ServerRound.of(round, round.before)
        if len(own.clients) == 0:
            return Distributed([], Traffic.nothing(), own.models, own.state)
        self.broadcast(own)
        jobs = self.jobs(own)
        traffic = Traffic.joined([transfers(own.clients, self._bytes("download", own), down=True), *own.more])
        return Distributed(jobs, traffic, own.models, own.state, own.trained, self.beside(own))

    def uploads(self, round: Round, after: Meeting) -> Traffic:
        """The upload of everybody who can train."""
        own = ServerRound.of(round, after)
        return (
            transfers(own.clients, self._bytes("upload", own), down=False)
            if len(own.clients)
            else Traffic.nothing()
        )

    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """The upload and what the server makes of it."""
        own, traffic = ServerRound.of(round, after), Traffic.nothing()
        if len(own.clients):
            self._aggregated(own)
            if round.withheld is not None:  # what attackers keep to themselves is theirs as they trained it
                rows = torch.from_numpy(round.withheld.rows).to(own.models.parameters.device)
                own.models.parameters[rows] = round.withheld.parameters
            traffic = Traffic.joined(
                [transfers(own.clients, self._bytes("upload", own), down=False), *own.more]
            )
        columns = self.columns if isinstance(self, AddsColumns) else ()
        facts = {**dict.fromkeys(columns, np.nan), **own.facts}
        return Exchanged(after, traffic, own.models, own.state, own.clients, round.lost, facts)

    def _bytes(self, way: Literal["download", "upload"], round: ServerRound) -> np.ndarray:
        """What each active client gets, or sends, as whole numbers."""
        size = np.asarray(self.download(round) if way == "download" else self.upload(round))
        fits = size.shape in ((), round.clients.shape)
        if size.dtype.kind not in "iu" or not fits or (size < 0).any():
            raise FedroamError(
                f"{type(self).__name__}: {way} gave {size!r:.80}; allowed are whole numbers of bytes from 0 on, one or "
                f"{len(round.clients)}, one for each active client"
            )
        return size

    def _aggregated(self, round: ServerRound) -> None:
        """What the method makes of the uploads; whoever gives a model back has taken it for an aggregation rule."""
        finish: Callable[[ServerRound], object] = self.aggregate
        given = finish(round)
        if given is not None:
            raise FedroamError(
                f"{type(self).__name__}: aggregate gave a {type(given).__name__}; allowed is nothing: a server method "
                f"writes its model into round.state[{GLOBAL!r}]"
            )
        self._check_global(round)

    def _check_global(self, round: ServerRound) -> None:
        """Raise FedroamError where the server's copy of the shared columns is of another type or length than they."""
        layout = round.layout
        parts: tuple[tuple[str, str, object, int], ...] = (
            (GLOBAL, "shared", self.shared(layout), layout.size),
            (GLOBAL_BUFFERS, "shared_buffers", self.shared_buffers(layout), layout.buffer_size),
        )
        for name, what, columns, size in parts:
            within = isinstance(columns, slice) and 0 <= (columns.start or 0) <= (columns.stop or 0) <= size
            if not isinstance(columns, slice) or columns.step or not within:
                raise FedroamError(
                    f"{type(self).__name__}: {what} gave {columns!r:.80}; allowed is a slice of 0 to {size}"
                )
            found: object = round.state.get(name)
            if found is None:
                continue
            wanted = columns.stop - (columns.start or 0)
            if not isinstance(found, np.ndarray) or found.dtype != np.float32 or found.shape != (wanted,):
                told = (
                    f"{found.dtype} {list(found.shape)}"
                    if isinstance(found, np.ndarray)
                    else type(found).__name__
                )
                raise FedroamError(
                    f"{type(self).__name__}: round.state[{name!r}] is {told}; expected is float32 [{wanted}], an array"
                )

    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        """What each client holds right after a broadcast to everybody.

        Where all columns are shared that is the server's model; else a row of its own, and the mean of these rows.
        """
        if self.shared(models.layout) == slice(0, models.layout.size):
            return {"global": one_model(server_model(models, state), context.clients)}
        rows = self.after_broadcast(models, state)
        return {"own": own_models(rows, rows.mean())}

    def after_broadcast(self, models: Models, state: Arrays) -> Models:
        """Every client's row with the shared columns and buffers of the server, a copy."""
        rows = Models(models.layout, models.parameters.clone(), models.buffers.clone(), None)
        parameters, buffers = _server_values(models, state)
        rows.parameters[:, self.shared(models.layout)] = parameters
        rows.buffers[:, self.shared_buffers(models.layout)] = buffers
        return rows


def server_model(models: Models, state: Arrays) -> Models:
    """The server's model as one row, where all columns are shared."""
    parameters, buffers = _server_values(models, state)
    return Models(models.layout, parameters[None], buffers[None], None)


def _server_values(models: Models, state: Arrays) -> tuple[torch.Tensor, torch.Tensor]:
    """The shared columns and buffers of the server."""
    device = models.parameters.device
    return torch.from_numpy(state[GLOBAL]).to(device), torch.from_numpy(state[GLOBAL_BUFFERS]).to(device)


def weighted_mean(matrix: torch.Tensor, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """sum_k weights[k] * matrix[rows[k]], accumulated in float64 in the order given; float32 [columns]."""
    return _array(weighted_sum(matrix, rows, weights)).astype(np.float32)


def _array(values: torch.Tensor) -> np.ndarray:
    return values.detach().cpu().numpy().copy()


def transfers(clients: np.ndarray, size: np.ndarray | int, *, down: bool) -> Traffic:
    """A transfer for each client that has anything to carry."""
    size = np.broadcast_to(np.asarray(size, dtype=np.int64), clients.shape)
    busy = size > 0
    if not busy.any():
        return Traffic.nothing()
    sender, receiver = (SERVER, clients[busy]) if down else (clients[busy], SERVER)
    return Traffic.of(sender, receiver, size[busy])
