"""What a node holds of models, to whom it may give them, and what it makes of those that have reached it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy import sparse

from fedroam.deploy.messages import (
    Expected,
    Order,
    Refused,
    expected_of,
    layout_arrays,
    most,
    named,
    packed,
    receipt,
    session_of,
    sum_of,
    unpacked,
)
from fedroam.deploy.node.memory import Memory
from fedroam.deploy.pacing import Pace
from fedroam.deploy.transfers import joined
from fedroam.federation import (
    AggregatesAtHolders,
    Federation,
    FederationContext,
    Gathered,
    KnownToHolders,
    Model,
    SendsMessages,
)
from fedroam.federation.attention import AveragingWeights
from fedroam.learning import Layout, Models
from fedroam.mixing import Facts, Surroundings
from fedroam.mobility import Paths
from fedroam.scene import Scene

TRIES = 3  # of a model that arrives damaged


@dataclass(frozen=True)
class Grant:
    """That a holder may fetch a model (SHA-256) here, or (puts) bring it."""

    holder: int
    model: str
    puts: bool


@dataclass
class Holding:
    """A node's models of a round, by SHA-256, and the rules by which it aggregates.

    number: which holder it is. layout: of a model, message: of what goes to others, a model or something made for them;
    size: bytes of that; largest: of anything that the server gives. Its own models, the last one of each kind (learnt,
    made, said, given by the server), outlive a round; those of others, who may have what, and the secret of receipts do
    not. memory: by which all of it outlives the process. pace: how fast it sends to others. Called from several
    threads.
    """

    number: int
    layout: Layout
    rule: Federation
    context: FederationContext
    message: Layout
    round: int = 0
    grants: frozenset[Grant] = frozenset()
    secret: str = ""
    size: int = 0
    memory: Memory | None = None
    pace: Pace = field(default_factory=Pace)
    _session: str = ""
    _models: dict[str, bytes] = field(default_factory=dict)
    _own: dict[str, str] = field(default_factory=dict)
    _arriving: dict[Grant, bytearray] = field(default_factory=dict)
    _damaged: dict[Grant, int] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, scene: Scene, number: int) -> Holding:
        """That of a node in a run; no sample is kept."""
        task = replace(scene.task, x=scene.task.x[:0], y=scene.task.y[:0])
        context = replace(scene.context, task=task, train=(), validation=())
        rule, layout = scene.parts.federation, task.layout
        message = rule.message(layout) if isinstance(rule, SendsMessages) else layout
        found = cls(number, layout, rule, context, message)
        found.size = len(named(Models.empty(message, 1, momentum=False), 0)[1])
        return found

    @property
    def largest(self) -> int:
        """Bytes of the largest thing that the server may give: all values of a model and one more, as float64."""
        return most({"": ("float64", (self.layout.size + self.layout.buffer_size + 1,))})

    # --- models -----------------------------------------------------------------------------------------------

    def begin(self, order: Order) -> None:
        """Let go of what an earlier round left, or one of a server that has begun anew."""
        session = f"{session_of(order)} {order.round}"
        with self._lock:
            if session != self._session:
                kept = set(self._own.values())
                self._session, self.round, self.grants, self.secret = session, order.round, frozenset(), ""
                self._models = {name: body for name, body in self._models.items() if name in kept}
                self._arriving.clear()
                self._damaged.clear()
                if self.memory is not None:
                    self.memory.begin(session)

    def remember(self, memory: Memory) -> None:
        """Go on with what an earlier process of the node remembered, and remember all from now on."""
        self.memory, self._models, self._own = memory, dict(memory.models), dict(memory.own)
        self._session, self.secret = memory.said.get("session", ""), memory.said.get("secret", "")
        self.round = int(self._session.partition(" ")[2] or 0)
        self.grants = frozenset(Grant(*each) for each in memory.allowed)
        memory.models.clear()

    def lacks(self, models: Iterable[str]) -> list[str]:
        """Which of these models are not here, each once."""
        with self._lock:
            return [name for name in dict.fromkeys(models) if name not in self._models]

    def keep(self, name: str, body: bytes, own: str = "") -> None:
        """Keep a model; own: as the node's last one of this kind, in the place of the one before."""
        with self._lock:
            self._models[name] = body
            if own:
                self._own[own] = name
            if self.memory is not None:
                self.memory.keep(name, body, own)

    def body(self, name: str) -> bytes:
        """A model. Raises `Refused` where it is not here."""
        with self._lock:
            if name not in self._models:
                raise Refused(f"model {name[:12]} is not here")
            return self._models[name]

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """A model's arrays, read-only. Raises `Refused` where it is not here."""
        return unpacked(self.body(name), layout_arrays(self.layout))

    def _matrix(self, names: Iterable[str], layout: Layout) -> Models:
        """Models (or messages, as the layout says) as rows. Raises `Refused` where one is not here."""
        held = [unpacked(self.body(name), layout_arrays(layout)) for name in names]
        parameters, buffers = (
            torch.from_numpy(np.stack([each[part] for each in held])) for part in ("parameters", "buffers")
        )
        return Models(layout, parameters, buffers, None)

    def _stay(self, names: Iterable[str]) -> None:
        """Keep these models, which are here, in later rounds, too."""
        own = {f"stays {k}": name for k, name in enumerate(names)}
        with self._lock:
            self._own |= own
            if self.memory is not None:
                self.memory.stay(own)

    # --- what other nodes get and give ------------------------------------------------------------------------

    def open(self, order: Order, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """From now on these holders may fetch, or bring, these models, and no others any."""
        names, ends, puts = sums(arrays["model"]), arrays["end"].tolist(), arrays["puts"].tolist()
        with self._lock:
            # As many orders as there are come in a round, and each adds to what the ones before allowed.
            fresh = {Grant(*each) for each in zip(ends, names, puts, strict=True)}
            self.grants, anew, self.secret = self.grants | fresh, order.secret != self.secret, order.secret
            if self.memory is not None:
                if anew:
                    self.memory.say("secret", order.secret)
                self.memory.allow((each.holder, each.model, each.puts) for each in fresh)
        self.paced(order, arrays)
        return {}

    def paced(self, order: Order, arrays: Mapping[str, np.ndarray]) -> None:
        """From now on models go to others as fast as an order says, if it does. Whoever opens gives what is fetched."""
        if order.paced and not order.shaped:
            mine = arrays["puts"] == (order.work == "carry")
            for end, rate in zip(arrays["end"][mine].tolist(), arrays["rate"][mine].tolist(), strict=True):
                self.pace.set(end, rate)

    def piece(self, holder: int, round: int, name: str, offset: int, chunk: int) -> bytes | None:
        """A piece of a model for a holder that may have it, or None."""
        with self._lock:
            if round != self.round or Grant(holder, name, False) not in self.grants:
                return None
            body = self._models.get(name)
        return None if body is None else body[offset : offset + chunk]

    def take(self, holder: int, round: int, name: str, offset: int, piece: bytes) -> tuple[int, bool] | None:
        """Take a piece of a model from a holder that may bring it: how much has arrived, and whether that is all of it.

        None where nobody waits for it. What its name does not fit is let go of, and taken again two times.
        """
        grant = Grant(holder, name, True)
        with self._lock:
            if round != self.round or grant not in self.grants or self._damaged.get(grant, 0) >= TRIES:
                return None
            if name in self._models and grant not in self._arriving:
                return self.size, True
            body = self._arriving.setdefault(grant, bytearray())
            joined(body, offset, piece, self.size)
            if len(body) < self.size:
                return len(body), False
            del self._arriving[grant]
            if sum_of(bytes(body)) != name:
                self._damaged[grant] = self._damaged.get(grant, 0) + 1
                return 0, False
            self.keep(name, bytes(body))  # before it is acknowledged: whoever brought it lets go of it then
            return self.size, True

    def receipt(self, holder: int, name: str) -> str:
        """For a holder that has brought a model; nothing where the server asks for none."""
        with self._lock:
            return receipt(self.secret, holder, name) if self.secret else ""

    # --- what becomes of them ---------------------------------------------------------------------------------

    def expected(self, order: Order) -> Expected:
        """The arrays that come with an order about models."""
        rows = order.rows
        if order.work == "look":
            return dict.fromkeys(("end", "host", "port"), ("int64", (rows,)))
        found: dict[str, tuple[str, tuple[int, ...]]] = {
            "end": ("int64", (rows,)),
            "model": ("uint8", (rows, 32)),
        }
        if order.work in ("say", "aggregate"):
            if order.weighed:
                found["weights"] = "float64", (rows,)
            return {**found, **expected_of(order.facts, "facts."), **expected_of(order.told, "told.")}
        found["puts"] = ("bool", (rows,))
        if order.paced:
            found |= {"rate": ("float64", (rows,))}
        if order.work == "carry":
            found |= {"host": ("int64", (rows,)), "port": ("int64", (rows,))}
        return found

    def say(self, order: Order, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Make what others are told, by the experiment's rules. Raises `Refused` where what it needs is not here."""
        if not isinstance(self.rule, SendsMessages):
            raise Refused("an order to say where nobody does")
        found = _arrays(self.rule.said(*self._gathered(order, arrays, self.layout)))
        body = packed(found)
        self.keep(sum_of(body), body, "said")
        return found

    def aggregate(self, order: Order, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Make one model of those named, by the experiment's rules. Raises `Refused` where one is not here."""
        if not isinstance(self.rule, AggregatesAtHolders):
            raise Refused("an order to aggregate where nobody does")
        models, gathered, known = self._gathered(order, arrays, self.message)
        made = self.rule.made(models, gathered, known)
        found = _arrays((made.parameters, made.buffers))
        for what, own in (("made", found), ("keeps", made.keeps)):
            if own:
                body = packed(own)
                self.keep(sum_of(body), body, what)
        if gathered.stays:
            self._stay(order.models[1 : len(order.models) - bool(order.keeps)])
        return {**found, **{f"keeps.{name}": array for name, array in made.keeps.items()}}

    def _gathered(
        self, order: Order, arrays: Mapping[str, np.ndarray], layout: Layout
    ) -> tuple[Models, Gathered, KnownToHolders]:
        """What an order names; layout: of the node's own model, and of those that have reached it."""
        if len(order.models) <= bool(order.keeps):
            raise Refused(f"an order to {order.work} without a model")
        own, *beside = order.models
        keeps = unpacked(self.body(beside.pop()), expected_of(order.keeps)) if order.keeps else {}
        weights = arrays.get("weights")
        gathered = Gathered(
            self.number,
            0,
            np.arange(1, 1 + order.rows, dtype=np.int64),
            np.array(arrays["end"]),
            None if weights is None else AveragingWeights(weights[:, None], weights),
            _named(arrays, "told."),
            keeps,
            self._matrix(beside, self.layout) if beside else None,
            order.stays,
        )
        facts = facts_of(self.context.aggregation, _named(arrays, "facts."))
        models = self._matrix([own, *sums(arrays["model"])], layout)
        return models, gathered, KnownToHolders(self.context, facts, order.round)


def _arrays(model: Model) -> dict[str, np.ndarray]:
    """A model, as it travels."""
    return {name: part.numpy() for name, part in zip(("parameters", "buffers"), model, strict=True)}


def _named(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Those arrays whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): each for name, each in arrays.items() if name.startswith(prefix)}


def sums(packed: np.ndarray) -> list[str]:
    """SHA-256 sums (hex) from an array uint8 [sums, 32]."""
    return [row.tobytes().hex() for row in packed]


def packed_sums(names: Iterable[str]) -> np.ndarray:
    """SHA-256 sums (hex) as an array uint8 [sums, 32]."""
    return np.frombuffer(b"".join(bytes.fromhex(name) for name in names), np.uint8).reshape(-1, 32)


def fact_arrays(facts: Facts) -> dict[str, np.ndarray]:
    """What a rule may know, as arrays; what it does not declare is left out."""
    found = {"samples": facts.samples, "speed": facts.speed}
    if facts.declared and facts.around is not None:
        around = facts.around
        graph = sparse.csr_array(around.graph)
        found |= {
            "first": around.paths.first,
            "time": around.paths.time,
            "point": around.paths.point,
            "present": around.paths.present,
            "indptr": graph.indptr.astype(np.int64),
            "indices": graph.indices.astype(np.int64),
            "radius": np.array([around.radius]),
            "class_counts": around.class_counts,
        }
    return found


def facts_of(rule: object, arrays: Mapping[str, np.ndarray]) -> Facts:
    """The facts of `fact_arrays`, as a rule declares them; none where there are none."""
    if not arrays:
        return Facts(np.zeros(0, np.int64), np.zeros(0))
    if "first" not in arrays:
        return Facts(arrays["samples"], arrays["speed"])
    clients = len(arrays["samples"])
    indices = arrays["indices"]
    graph = sparse.csr_array(
        (np.ones(len(indices), dtype=bool), indices, arrays["indptr"]), shape=(clients, clients)
    )
    paths = Paths(arrays["first"], arrays["time"], arrays["point"], arrays["present"])
    around = Surroundings(paths, graph, float(arrays["radius"][0]), arrays["class_counts"])
    return Facts.of(rule, arrays["samples"], around)
