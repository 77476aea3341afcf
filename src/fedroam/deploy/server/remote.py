"""Learning by clients that are elsewhere: what a federation asks of them goes out as orders, and answers come back."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import torch
from typing_extensions import override

from fedroam.deploy.messages import (
    NO_ORDER,
    Array,
    Expected,
    LocalJob,
    Order,
    Refused,
    Work,
    array_bytes,
    finite,
    named,
    packed,
)
from fedroam.deploy.pacing import Rates
from fedroam.deploy.server.hub import Asked, Hub
from fedroam.errors import FedroamError
from fedroam.federation import SERVER
from fedroam.learning import ClassMeans, Evaluates, Held, Job, Learner, Models, Scores, Task

Answer = Mapping[str, np.ndarray]


class RemoteLearner(Evaluates, Learner):
    """A learner whose clients are nodes.

    here: an engine of the server's own, for samples that all share. direct: models go from holder to holder, so that a
    client most often has the model that it is to train. rates: of models to and from the server, None for as fast as
    can be. trained: is told of each client that has trained its models, while others go on. A client that fails to
    answer is lost for the rest of the round; whoever does not attend is not reachable. Answers with a value that is no
    number are not taken. Where the work of all who were asked for it ends in an error of their own, as it does by a
    model that fails everywhere, the run ends in it.
    """

    def __init__(
        self,
        task: Task,
        classes: int,
        here: Learner,
        hub: Hub,
        *,
        direct: bool = False,
        rates: Rates | None = None,
    ) -> None:
        self.direct, self.rates = direct, rates
        self.trained: Callable[[int], None] = lambda client: None
        self.task, self.classes, self.here, self.hub = task, classes, here, hub
        self.notes = ("clients: nodes of a network", *here.notes)
        self._round = 0
        self._lost: set[int] = set()
        # Whose work has ended in an error since anybody's was done, and in which, by kind of work.
        self._broke: dict[Work, dict[int, str]] = defaultdict(dict)
        self._learnt = False  # whether any training has arrived
        self._why_lost = ""  # why the first one has not
        self._slow: set[int] = set()  # clients whose links are as slow as the last model on them
        self._loads: np.ndarray | None = None  # what goes to and fro in this round, where that takes time
        # What clients keep for jobs of this round, by the identity of the tensor that stands for it here.
        self._kept: dict[int, tuple[torch.Tensor, str]] = {}

    @property
    def round(self) -> int:
        """The round that is played."""
        return self._round

    @override
    def begin_round(self, number: int) -> None:
        self._round, self._lost = number, set()
        self._kept.clear()
        self.hub.begin_round(number)

    @override
    def unreachable(self) -> np.ndarray:
        away = self.hub.away(self._round)
        return away[away >= 0]  # clients, not access points

    @override
    def lost(self) -> np.ndarray:
        return np.array(sorted(self._lost), dtype=np.int64)

    @override
    def why_lost(self) -> str:
        return "" if self._learnt else self._why_lost

    # --- asked of clients -------------------------------------------------------------------------------------

    @override
    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        own: dict[int, list[int]] = defaultdict(list)
        for k, job in enumerate(jobs):
            own[job.client].append(k)
        orders = {client: self._training(models, [jobs[k] for k in some]) for client, some in own.items()}
        losses = np.full(len(jobs), np.nan)
        for client, answer in self._ask(orders):
            losses[own[client]] = answer["loss"]
            for place, k in enumerate(own[client]):
                _write(models, jobs[k].row, answer, place)
            self.trained(client)
        return losses

    def _training(self, models: Models, jobs: Sequence[Job]) -> Asked:
        arrays: dict[str, np.ndarray] = {}
        expected: dict[str, tuple[str, tuple[int, ...]]] = {"loss": ("float64", (len(jobs),))}
        told, given_by_name = [], {}
        for k, job in enumerate(jobs):
            model, body = named(models, job.row) if self.direct else ("", b"")
            if model:
                given_by_name[model] = body
            for name, matrix in _matrices(models):
                row = matrix[job.row].cpu().numpy()
                expected[f"{k}.{name}"] = "float32", row.shape
                if not model or name == "momentum":
                    arrays[f"{k}.{name}"] = row
            given: dict[str, torch.Tensor | None] = {
                f"given.{name}": value for name, value in job.given.items()
            }
            if job.anchor is not None:
                given |= {"target": job.anchor.target, "shift": job.anchor.shift}
            there = {name: value.cpu().numpy() for name, value in given.items() if value is not None}
            arrays |= {f"{k}.{name}": value for name, value in there.items()}
            told.append(
                LocalJob(
                    round=job.round,
                    model=model,
                    pull=None if job.anchor is None else job.anchor.pull,
                    arrays={name: Array.of(value) for name, value in there.items()},
                    each={name: self._kept[id(value)][1] for name, value in job.each.items()},
                )
            )
        order = self._order(
            "train", jobs=told, momentum=models.momentum is not None, models=list(given_by_name)
        )
        asked = Asked(order, packed(arrays), expected, finite(except_for="loss"), given_by_name)
        if self.rates is not None:
            lasts = self.rates.work(jobs, jobs[0].client)
            asked.order = asked.order.model_copy(update={"lasts": lasts or 0.0})
            if not self.direct:
                self._pace(asked, self.rates, jobs[0].client)
        return asked

    def _pace(self, asked: Asked, rates: Rates, client: int) -> None:
        """The arrays of an order come and go in the time that the run's own account says for all that a method sends,
        between a client and a server, which stands nowhere; what else is asked of the client takes none. Where nothing
        is known of that, they are as fast as a model."""
        ends, nowhere = np.array([SERVER, client]), np.array([np.nan, np.nan])
        size, times = None, np.ones(2)
        if self._loads is not None:
            size = self._loads[client]
            if not size.all():  # what is not sent by that account takes no time here
                size, times = np.maximum(size, 1.0), np.where(size > 0, times, np.inf)
            really = np.array([len(asked.body), array_bytes(asked.expected)], float)
            times = times * np.maximum(really, 1.0) / size
        if rates.network is not None:
            rates.shape(ends, ends[::-1], nowhere, size, times)
            self._slow.add(client)
            return
        down, up = (rates(ends, ends[::-1], nowhere, size) * times).tolist()
        asked.rate = down if math.isfinite(down) else None
        asked.order = asked.order.model_copy(update={"rate": up if math.isfinite(up) else None})

    def _unslowed(self, clients: Collection[int]) -> None:
        """What else is asked of clients takes no time on the links of a network that is slow by itself."""
        own = np.array(sorted(self._slow.intersection(clients)), np.int64)
        if self.rates is not None and self.rates.network is not None and len(own):
            there, self._slow = np.full(len(own), SERVER), self._slow.difference(clients)
            ends = np.concatenate([own, there]), np.concatenate([there, own])
            self.rates.network.shape(*ends, np.full(2 * len(own), np.inf))

    @override
    def expect(self, loads: np.ndarray | None) -> None:
        self._loads = loads

    @override
    def judge(self, models: Models, rows: Sequence[int], held: Sequence[Held]) -> Scores:
        counts = np.zeros((3, len(rows), self.classes), np.int64)
        loss = np.full(len(rows), np.nan)

        def expected(places: Sequence[int]) -> Expected:
            shape = (len(places), self.classes)
            kinds = dict.fromkeys(("hits", "answers", "actual"), ("int64", shape))
            return {**kinds, "loss": ("float64", shape[:1])}

        def check(places: Sequence[int]) -> Callable[[Answer], None]:
            return _counts(np.array([len(held[k].samples) for k in places]))

        for places, answer in self._each(models, rows, held, "judge", expected, check):
            counts[:, places] = answer["hits"], answer["answers"], answer["actual"]
            loss[places] = answer["loss"]
        return Scores(counts[0], counts[1], counts[2], loss)

    @override
    def judge_together(self, models: Models, row: int, held: Sequence[Held]) -> Scores:
        return self.judge(models, [row] * len(held), held).pooled

    @override
    def represent(self, models: Models, rows: Sequence[int], held: Sequence[Held]) -> list[torch.Tensor]:
        kept = f"features {len(self._kept)}"
        found = [torch.empty((len(own.samples), 0), device="meta") for own in held]
        asked = self._each(
            models,
            rows,
            held,
            "represent",
            lambda some: {"width": ("int64", (1,))},
            lambda some: _width,
            kept,
        )
        for (place,), answer in asked:
            found[place] = torch.empty((len(held[place].samples), int(answer["width"][0])), device="meta")
        self._kept |= {id(tensor): (tensor, kept) for tensor in found}
        return found

    @override
    def class_means(
        self, models: Models, rows: Sequence[int], held: Sequence[Held], classes: int
    ) -> ClassMeans:
        width = self._width
        mean = np.zeros((len(rows), classes, width), np.float32)
        there = np.zeros((len(rows), classes), bool)
        expected: Expected = {"mean": ("float32", (classes, width)), "held": ("bool", (classes,))}
        asked = self._each(models, rows, held, "class_means", lambda some: expected, lambda some: finite())
        for (place,), answer in asked:
            mean[place], there[place] = answer["mean"], answer["held"]
        return ClassMeans(mean, there)

    @override
    def mean_features(self, models: Models, rows: Sequence[int], held: Sequence[Held]) -> np.ndarray:
        found = np.full((len(rows), self._width), np.nan)
        expected: Expected = {"mean": ("float64", (self._width,))}
        asked = self._each(models, rows, held, "mean_features", lambda some: expected, lambda some: finite())
        for (place,), answer in asked:
            found[place] = answer["mean"]
        return found

    # --- how it is asked --------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        """How many features the network's extractor makes: by a look at no sample at all."""
        (found,) = self.here.features(
            Models.empty(self.task.layout, 1, momentum=False), [0], [np.zeros(0, np.int64)]
        )
        return int(found.shape[1])

    def _order(self, work: Work, **facts: object) -> Order:
        return Order.model_validate({"order": NO_ORDER, "work": work, "round": self._round, **facts})

    def _each(
        self,
        models: Models,
        rows: Sequence[int],
        held: Sequence[Held],
        work: Work,
        expected: Callable[[Sequence[int]], Expected],
        check: Callable[[Sequence[int]], Callable[[Answer], None]],
        keep: str = "",
    ) -> list[tuple[list[int], Answer]]:
        """Ask each client about the models in its rows and its own samples; for each that answers, its places among
        the rows."""
        own: dict[int, list[int]] = defaultdict(list)
        for k, some in enumerate(held):
            if len(some.samples):
                own[some.client].append(k)
        orders = {}
        for client, places in own.items():
            index = torch.tensor([rows[k] for k in places])
            arrays = {
                "parameters": models.parameters[index].cpu().numpy(),
                "buffers": models.buffers[index].cpu().numpy(),
            }
            order = self._order(
                work, use=held[places[0]].use, rows=len(places), classes=self.classes, keep=keep
            )
            # What a node keeps for later it must be asked for again, whatever it has answered before.
            orders[client] = Asked(order, packed(arrays), expected(places), check(places), kept=not keep)
        self._unslowed(orders)
        return [(own[client], answer) for client, answer in self._ask(orders)]

    def _ask(self, orders: Mapping[int, Asked]) -> Iterator[tuple[int, Answer]]:
        """The answers of those who give one, as they come; the others are lost for this round. Raises FedroamError
        where it cannot go on without them."""
        asked, done = {i: each for i, each in orders.items() if i not in self._lost}, False
        for i, answer in self.hub.asking(asked):
            if answer is None:
                self._lost.add(i)
                if asked[i].order.work == "train" and not self._why_lost:
                    self._why_lost = (
                        f"round {self._round}: {self.hub.name(i)} {asked[i].lost or 'has not answered'}"
                    )
            else:
                done = True
                self._learnt = self._learnt or asked[i].order.work == "train"
                yield i, answer
        if asked:
            self._check_work(asked, done)

    def _check_work(self, asked: Mapping[int, Asked], done: bool) -> None:
        """End the run where a kind of work fails wherever it is asked for, each time by an error of its own: it would
        go on with nobody. What fails at one node alone is lost, as long as there are others, however few are asked in
        a round."""
        (work,) = {each.order.work for each in asked.values()}
        broke = self._broke[work]
        if done:
            broke.clear()
            return
        now = {i: each.broke for i, each in sorted(asked.items()) if each.broke}
        broke |= now
        if len(now) < len(asked) or len(broke) < min(2, len(self.hub.attending())):
            return
        self.hub.open_again(self._round)
        first, what = next(iter(now)), work.replace("_", " ")
        others = f"nor could any other of the {len(now)} nodes" if len(now) > 1 else "and no other node"
        raise FedroamError(
            f"round {self._round}: {self.hub.name(first)} could not do its work ({what}): {now[first]:.300}; {others} "
            f"{'that were' if len(now) > 1 else 'was'} asked"
        )


def _matrices(models: Models) -> list[tuple[str, torch.Tensor]]:
    """The matrices of models, by name."""
    found = [("parameters", models.parameters), ("buffers", models.buffers)]
    return found if models.momentum is None else [*found, ("momentum", models.momentum)]


def _write(models: Models, row: int, answer: Answer, place: int) -> None:
    for name, matrix in _matrices(models):
        matrix[row] = torch.from_numpy(answer[f"{place}.{name}"]).to(matrix.device)


def _counts(samples: np.ndarray) -> Callable[[Answer], None]:
    """Refuses counts that these numbers of samples (int64 [rows]) cannot give."""

    def check(answer: Answer) -> None:
        hits, answers, actual = (answer[name] for name in ("hits", "answers", "actual"))
        right = (hits >= 0) & (hits <= answers) & (hits <= actual)
        if not right.all() or (actual.sum(1) != samples).any() or (answers.sum(1) > samples).any():
            raise Refused("counts that its samples cannot give")

    return check


def _width(answer: Answer) -> None:
    if not 0 < answer["width"][0] < 2**31:
        raise Refused(f"{answer['width'][0]} features")
