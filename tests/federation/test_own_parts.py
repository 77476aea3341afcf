"""What parts of one's own may get wrong is told in a line, before it makes numbers that mean nothing."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from fedroam import components
from fedroam.attacks.attackers import Attackers
from fedroam.components import Part, register
from fedroam.errors import FedroamError, InputError
from fedroam.federation.decentralized import Decentralized
from fedroam.federation.protocol import (
    Arrays,
    Distributed,
    Evaluated,
    EvaluationModels,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
    Traffic,
    own_models,
)
from fedroam.federation.server.loop import ServerLoop, ServerRound
from fedroam.learning import Job, Learner, Models
from fedroam.models import Network
from fedroam.recording import Run
from fedroam.runner import run
from support.tiny import tiny

KINDS = ("model", "federation", "objective", "attack")
ENGINES = ("reference", "cpu", "batched")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Parts that a test registers are gone after it."""
    yield
    for family in KINDS:
        components._registry[family].pop("own", None)


def model(build: Callable[[tuple[int, ...], int], nn.Module]) -> dict[str, Any]:
    """Settings with a model that `build` makes."""

    class Own(Part):
        def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
            return build(shape, classes)

    register("model", "own")(Own)
    return {"model": "own", "federation": "fedavg"}


def attack(lie: Callable[[np.ndarray, int], Any]) -> dict[str, Any]:
    """Settings with an attack by client 3, which learns what `lie` makes of the true classes."""

    class Own(Attackers):
        def labels(self, y: np.ndarray, classes: int) -> Any:
            return lie(y, classes)

    register("attack", "own")(Own)
    return {"kind": "own", "clients": (3,)}


class Noisy(nn.Module):
    """Logits that are drawn anew each time."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(x.flatten(1))
        return logits + torch.randn_like(logits)


def drawn_elsewhere(shape: tuple[int, ...], classes: int) -> nn.Module:
    layer = nn.Linear(math.prod(shape), classes)
    with torch.no_grad():
        layer.weight[0, 0] = float(np.random.default_rng().random())
    return nn.Sequential(nn.Flatten(), layer)


def seeded_anew(shape: tuple[int, ...], classes: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


WRONG_MODELS: dict[str, tuple[Callable[[tuple[int, ...], int], nn.Module], str]] = {
    "takes half of the pixels": (
        lambda s, c: Network(nn.Sequential(nn.Flatten(), nn.Linear(32, 16), nn.ReLU()), nn.Linear(16, c)),
        r"model kind 'own': a batch of shape \[2, 1, 8, 8\] fails: RuntimeError",
    ),
    "its head takes fewer features": (
        lambda s, c: Network(nn.Sequential(nn.Flatten(), nn.Linear(64, 32)), nn.Linear(16, c)),
        "fails: RuntimeError",
    ),
    "a head for too few after convolutions": (
        lambda s, c: Network(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()), nn.Linear(64, c)),
        "fails: RuntimeError",
    ),
    "too few logits": (
        lambda s, c: nn.Sequential(nn.Flatten(), nn.Linear(64, c - 1)),
        r"the output of 2 samples is \[2, 9\], allowed is \[2, 10\]",
    ),
    "no module": (lambda s, c: 3, "build gives a int"),  # type: ignore[return-value, dict-item]
    "float64": (
        lambda s, c: nn.Sequential(nn.Flatten(), nn.Linear(64, c)).double(),
        "torch.float64, allowed is float32",
    ),
    "all is frozen": (
        lambda s, c: nn.Sequential(nn.Flatten(), nn.Linear(64, c)).requires_grad_(False),
        "model kind 'own': all parameters are frozen",
    ),
    "start values of its own": (drawn_elsewhere, "built alike have different start values"),
    "start values of all seeds": (
        seeded_anew,
        r"sets torch's default generator \(torch.manual_seed\), so that all seeds",
    ),
    "drawn logits": (lambda s, c: Noisy(64, c), "give other numbers each time they are evaluated"),
}


@pytest.mark.parametrize("what", WRONG_MODELS)
def test_a_wrong_model_is_refused_before_anything_is_written(what: str, tmp_path: Path) -> None:
    build, said = WRONG_MODELS[what]
    with pytest.raises(InputError, match=said):
        run(tiny(**model(build), engine="cpu"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def method(**own: Any) -> dict[str, Any]:
    """Settings with a server method that has these attributes of its own."""
    made = type("Own", (Part, ServerLoop), {"__module__": __name__, **own})
    register("federation", "own")(made)
    return {"federation": "own", "activity": "always"}


def job_with(samples: Callable[[np.ndarray], Any], row: int | None = None) -> dict[str, Any]:
    def job(self: ServerLoop, round: ServerRound, client: int) -> Job:
        return Job(client, client if row is None else row, samples(round.context.train[client]), round.number)

    return method(job=job)


WRONG_JOBS: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "int32": (
        lambda: job_with(lambda held: held.astype(np.int32)),
        r"client 0, round 1: samples are int32 \[",
    ),
    "float": (lambda: job_with(lambda held: held.astype(float)), "samples are float64"),
    "a list": (lambda: job_with(lambda held: held.tolist()), "samples are list; allowed are int64"),
    "one beyond": (lambda: job_with(lambda held: np.append(held, 10**6)), "to 1000000; allowed are 0 to"),
    "the last by -1": (lambda: job_with(lambda held: np.append(held, -1)), "training samples from -1 to"),
    "a row twice": (
        lambda: job_with(lambda held: held, row=0),
        "client 1, round 1: row 0 of the models: two jobs",
    ),
    "no row": (lambda: job_with(lambda held: held, row=-1), "row -1 of the models: allowed are 0 to 4"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", WRONG_JOBS)
def test_a_job_that_cannot_be_computed_is_told(what: str, engine: str, tmp_path: Path) -> None:
    made, said = WRONG_JOBS[what]
    with pytest.raises(FedroamError, match=said):
        run(tiny(**made(), engine=engine, model="mlp"), tmp_path / "run")


def aggregating(do: Callable[[ServerRound], object]) -> dict[str, Any]:
    def aggregate(self: ServerLoop, round: ServerRound) -> object:
        ServerLoop.aggregate(self, round)
        return do(round)

    return {"aggregate": aggregate}


def keep(key: Any, value: Any) -> Callable[[ServerRound], None]:
    def do(round: ServerRound) -> None:
        round.state[key] = value

    return do


def say(**facts: Any) -> Callable[[ServerRound], None]:
    return lambda round: round.facts.update(facts)


def sending(*given: Any) -> dict[str, Any]:
    """A federation that says, beside what it does, that this was sent."""

    def exchange(self: ServerLoop, round: Round, after: Meeting) -> Exchanged:
        done = ServerLoop.exchange(self, round, after)
        return replace(done, traffic=Traffic.joined([done.traffic, Traffic.of(*map(np.array, given))]))

    return {"exchange": exchange}


WRONG_METHODS: dict[str, tuple[dict[str, Any], str]] = {
    "a list in its state": (aggregating(keep("history", [0.0])), "state holds a list under 'history'"),
    "a tensor in its state": (aggregating(keep("own", torch.zeros(3))), "state holds a Tensor under 'own'"),
    "text in its state": (
        aggregating(keep("own", np.array(["a"]))),
        "state holds an array of <U1 under 'own'",
    ),
    "a number as a name": (aggregating(keep(3, np.zeros(2))), "state holds an array of float64 under 3"),
    "a model given back": (
        aggregating(lambda round: round.state["global"]),
        r"Own: aggregate gave a ndarray; allowed is nothing: a server method writes its model into round.state\['glo",
    ),
    "float64 for the server's model": (
        aggregating(lambda round: round.state.update({"global": round.state["global"].astype(float)})),
        r"Own: round.state\['global'\] is float64 \[650\]; expected is float32 \[650\]",
    ),
    "a part of the server's model": (
        aggregating(lambda round: round.state.update({"global": round.state["global"][:7]})),
        r"is float32 \[7\]; expected is float32 \[650\]",
    ),
    "a server's model of another form": (
        {"begin": lambda self, round, start: round.state.update({"global": np.zeros((1, 650), np.float32)})},
        r"is float32 \[1, 650\]; expected is float32 \[650\]",
    ),
    "no job": ({"job": lambda self, round, client: None}, "Own: job gave a NoneType; allowed is a Job"),
    "fewer bytes than none": (
        {"download": lambda self, round: -5},
        r"Own: download gave array\(-5\); allowed are whole",
    ),
    "half a byte": (
        {"upload": lambda self, round: 10.5},
        r"Own: upload gave array\(10.5\); allowed are whole",
    ),
    "bytes of somebody else": (
        {"download": lambda self, round: np.ones(3, int)},
        r"download gave array\(\[1, 1, 1\]\); allowed are whole numbers of bytes from 0 on, one or 5",
    ),
    "more columns than there are": (
        {"shared": lambda self, layout: slice(0, 999)},
        r"Own: shared gave slice\(0, 999, None\); allowed is a slice of 0 to 650",
    ),
    "no columns": (
        {"shared": lambda self, layout: None},
        "Own: shared gave None; allowed is a slice of 0 to 650",
    ),
    "no mapping of what is judged": (
        {"evaluation_models": lambda self, models, state, context: own_models(models, None)},
        "Own: evaluation_models gave a EvaluationModels; allowed is a mapping",
    ),
    "models and not what is judged": (
        {"evaluation_models": lambda self, models, state, context: {"own": models}},
        r"evaluation_models\['own'\] is a Models, no EvaluationModels",
    ),
    "rows of fewer clients": (
        {
            "evaluation_models": lambda self, models, state, context: {
                "own": EvaluationModels(models, np.arange(3), None)
            }
        },
        r"evaluation_models\['own'\].row is int64 \[3\]; allowed is int64 \[5\]",
    ),
    "rows that are not there": (
        {
            "evaluation_models": lambda self, models, state, context: {
                "own": EvaluationModels(models, 2 * np.arange(5), None)
            }
        },
        "row is 0 to 8, and there are 5 rows",
    ),
    "a fact that is no column": (
        {"columns": ("gain",), **aggregating(say(gian=1.0))},
        r"federation kind 'own': exchange tells 'gian'; allowed are its `columns`, \['gain'\]",
    ),
    "bytes to oneself": (
        sending(2, 2, 10, 1.0),
        "10 bytes from 2 to 2 over 1 m; allowed are another receiver",
    ),
    "bytes from nobody": (
        sending([0, 5], -1, 10),
        "10 bytes from 5 to -1 over nan m; allowed are senders from 0 to 4 for clients, -1 for the server, -2 to -5",
    ),
    "bytes to an access point that is not there": (sending(0, -6, 10), "allowed are receivers from 0 to 4"),
    "bytes that come back": (sending(0, 1, -10), "-10 bytes from 0 to 1 .* allowed are bytes from 0 on"),
    "a distance below zero": (sending(0, 1, 10, -3.0), "over -3 m; allowed are metres from 0 on, or NaN"),
    "bytes of other transfers": (
        sending([0, 1, 2], -1, [10, 10]),
        "Traffic.of: sender 3, receiver 1, size 2, distance 1 values; allowed are one, or one for each transfer",
    ),
    "a column that is there": ({"columns": ("accuracy",)}, "its column 'accuracy' is one that every run has"),
    "text in a column": ({"columns": ("word",), **aggregating(say(word="x"))}, "its column 'word' holds 'x'"),
    "a column without a tuple": ({"columns": "foo"}, "columns = 'foo'; allowed is a tuple of names"),
}


@pytest.mark.parametrize("what", WRONG_METHODS)
def test_a_wrong_method_is_told(what: str, tmp_path: Path) -> None:
    own, said = WRONG_METHODS[what]
    columns = {"__annotations__": {"columns": ClassVar[Any]}} if "columns" in own else {}
    with pytest.raises(FedroamError, match=said):
        run(tiny(**method(**own, **columns)), tmp_path / "run")


def jobs_for(who: Callable[[Round], Any]) -> type[Decentralized]:
    """A federation that gives these clients their work."""

    class Own(Decentralized):
        def distribute(self, round: Round) -> Distributed:
            given = [Job(int(i), int(i), round.context.train[i], round.number) for i in who(round)]
            return Distributed(given, Traffic.nothing(), round.models, dict(round.state))

    register("federation", "own")(Own)
    return Own


CHURN = {"kind": "on_off", "mean_on": 1.5, "mean_off": 1.5}
SLOW = {
    "clock": {"kind": "seconds", "length": 1.0, "late": "carried"},
    "compute": {"kind": "flops", "speeds": (4e-5,)},
}


@pytest.mark.parametrize(
    ("who", "settings", "why"),
    [
        (
            lambda round: range(5),
            {"activity": CHURN},
            r"round \d: .* client \d, which is away when the round begins",
        ),
        (
            lambda round: range(5),
            {"activity": CHURN, "clock": "seconds"},
            r"round \d: .* client \d, which is away or busy when the round begins",
        ),
        (
            lambda round: np.flatnonzero(round.before.paths.present),
            {"partition": {"kind": "dirichlet", "alpha": 0.02, "min_samples": 0}},
            r"round 1: .* client \d, which holds no training samples",
        ),
    ],
)
def test_work_for_who_cannot_do_it_is_told(
    who: Callable[[Round], Any], settings: dict[str, Any], why: str, tmp_path: Path
) -> None:
    jobs_for(who)
    allowed = r"; allowed are those of round.context.available\(round.before\)"
    with pytest.raises(FedroamError, match=f"federation kind 'own', {why}{allowed}"):
        run(tiny(federation="own", **settings), tmp_path / "run")


@pytest.mark.parametrize("settings", [{}, SLOW], ids=["rounds", "carried"])
def test_work_for_who_is_there_is_that_of_the_federation_it_is_made_of(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    jobs_for(lambda round: round.context.available(round.before))
    own, ours = (
        run(tiny(federation=kind, activity=CHURN, **settings), tmp_path / kind).rounds.drop(columns="seconds")
        for kind in ("own", "decentralized")
    )
    assert own.equals(ours)


@pytest.mark.parametrize("order", ["move_then_mix", "mix_then_move"])
@pytest.mark.parametrize("mixing", ["metropolis", "mobility_aware", "contact_duration"])
def test_weights_of_the_meeting_that_the_documentation_names_are_those_of_decentralized(
    order: str, mixing: str, tmp_path: Path
) -> None:
    class Own(Decentralized):
        def exchange(self, round: Round, after: Meeting) -> Exchanged:
            after, models = self.met(round, after), round.models
            round.aggregator.mix(models, round.context.weights(after, round.number), round.number)
            receiver, sender, apart = after.links
            traffic = Traffic.of(sender, receiver, models.bytes_each, apart)
            return Exchanged(after, traffic, models, dict(round.state), aggregated=np.unique(receiver))

    register("federation", "own")(Own)
    moving = {
        "mobility": {"kind": "random_walk", "width": 30.0, "height": 30.0, "max_speed": 12.0},
        "contacts": {"kind": "closest_approach", "radius": 12.0},
    }
    own, ours = (
        run(tiny(federation={"kind": kind, "order": order}, mixing=mixing, **moving), tmp_path / kind)
        for kind in ("own", "decentralized")
    )
    found, wanted = (each.rounds.drop(columns="seconds") for each in (own, ours))
    assert found.equals(wanted)


@pytest.mark.parametrize("at_rest", ["float32", "float16"])
def test_what_is_written_into_models_to_judge_them_is_not_learnt(at_rest: str, tmp_path: Path) -> None:
    class Own(Decentralized):
        def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
            return InitialState(start(range(context.clients)), {"judged": np.zeros(1)})

        def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
            state["judged"][0] += 1
            assert state["judged"][0] == 1
            models.parameters[:] = models.mean().parameters
            models.buffers.zero_()
            return {"own": own_models(models, models.mean())}

    register("federation", "own")(Own)
    own, ours = (
        run(tiny(federation=kind, keep_models="all", models_at_rest=at_rest), tmp_path / kind).rounds
        for kind in ("own", "decentralized")
    )
    assert own["train_loss"].iloc[1:].tolist() == ours["train_loss"].iloc[1:].tolist()
    assert own["consensus_distance"].iloc[-1] < 1e-9 < ours["consensus_distance"].iloc[-1]


def test_a_column_of_its_own_is_kept(tmp_path: Path) -> None:
    own = {
        "columns": ("gain",),
        "__annotations__": {"columns": ClassVar[Any]},
        **aggregating(say(gain=np.float32(2))),
    }
    found = run(tiny(**method(**own)), tmp_path / "run").rounds["gain"]
    assert np.isnan(found.iloc[0])
    assert (found.iloc[1:] == 2).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_objective_that_draws_gives_the_same_run_again(engine: str, tmp_path: Path) -> None:
    class Own(Part):
        def loss(
            self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **given: torch.Tensor
        ) -> torch.Tensor:
            return nn.functional.cross_entropy(module(x + 0.5 * torch.randn_like(x)), y)

    register("objective", "own")(Own)
    settings = tiny(federation="fedavg", objective="own", engine=engine, model="mlp")
    one, other = (run(settings, tmp_path / name).rounds for name in "ab")
    assert one["loss"].tolist() == other["loss"].tolist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (
            lambda logits, y: nn.functional.cross_entropy(logits, y, reduction="none"),
            r"a tensor of shape \[\d+\]",
        ),
        (lambda logits, y: 0.5, "a float"),
        (lambda logits, y: None, "a NoneType"),
    ],
)
def test_a_loss_that_is_no_mean_is_told(
    loss: Callable[[torch.Tensor, torch.Tensor], Any], said: str, engine: str, tmp_path: Path
) -> None:
    class Own(Part):
        def loss(self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **given: torch.Tensor) -> Any:
            return loss(module(x), y)

    register("objective", "own")(Own)
    with pytest.raises(FedroamError, match=f"Own: loss gave {said}; allowed is a mean"):
        run(tiny(federation="fedavg", objective="own", engine=engine, model="mlp"), tmp_path / "run")


def in_place(y: np.ndarray, classes: int) -> np.ndarray:
    y[:] = classes - 1 - y
    return y


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (
            lambda y, c: np.full(len(y), c),
            r"labels gave classes from 10 to 10 for client 3; allowed is int64",
        ),
        (lambda y, c: np.append(y[1:], 2**62), r"labels gave classes from \d to 4611686018427387904 for"),
        (lambda y, c: np.append(y[1:], -1), r"labels gave classes from -1 to \d for"),
        (
            lambda y, c: y[1:],
            r"labels gave int64 \[(\d+)\] for client 3; allowed is int64 \[\d+\], from 0 to 9",
        ),
        (lambda y, c: y[:, None], r"labels gave int64 \[\d+, 1\] for"),
        (lambda y, c: y / 2, r"labels gave float64 \[\d+\] for"),
        (lambda y, c: y > 2, r"labels gave bool \[\d+\] for"),
        (lambda y, c: None, "labels gave a NoneType for"),
    ],
)
def test_classes_of_an_attack_that_there_are_not_are_refused(
    lie: Callable[[np.ndarray, int], Any], said: str, engine: str, tmp_path: Path
) -> None:
    """Kernels write at the class that they are told: the gradient of a sample beside it would be another."""
    with pytest.raises(InputError, match=f"attack kind 'own': {said}"):
        run(tiny(attack=attack(lie), engine=engine, model="mlp"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_attack_that_changes_the_true_classes_in_place_is_told(tmp_path: Path) -> None:
    """What it gave could not be told from the truth, and attackers learnt that."""
    with pytest.raises(FedroamError, match=r"read-only \(test_own_parts.py, line \d+\)"):
        run(tiny(attack=attack(in_place)), tmp_path / "run")


def test_an_attack_may_lie_in_any_whole_numbers(tmp_path: Path) -> None:
    usual = run(tiny(attack={"kind": "label_flip", "clients": (3,)}), tmp_path / "usual").rounds
    for kind in (np.int64, np.int32, np.uint8):
        own = attack(lambda y, c, kind=kind: (c - 1 - y).astype(kind))
        found = run(tiny(attack=own), tmp_path / np.dtype(kind).name).rounds
        assert found["loss"].tolist() == usual["loss"].tolist()
        components._registry["attack"].pop("own")


def test_what_is_no_part_is_told() -> None:
    class Own:
        def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
            return nn.Linear(1, 1)

    with pytest.raises(InputError, match=r"model 'own': Own is no Part; allowed is class Name\(Part\)"):
        register("model", "own")(Own)  # type: ignore[type-var]


@pytest.mark.parametrize("name", ["samples", "class_counts"])
def test_what_a_run_has_once_cannot_be_written_into(name: str, tmp_path: Path) -> None:
    def spoil(round: ServerRound) -> None:
        getattr(round.context, name)[:] = 1

    with pytest.raises(FedroamError, match=r"read-only \(test_own_parts.py, line \d+\)"):
        run(tiny(**method(**aggregating(spoil))), tmp_path / "run")


def test_samples_that_were_written_into_are_told_and_read_anew(tmp_path: Path) -> None:
    """All runs of a process share them: the next one would learn what this one left."""

    def spoil(round: ServerRound) -> None:
        round.context.task.x.mul_(0.5)

    usual = run(tiny(), tmp_path / "usual").rounds["loss"]
    with pytest.raises(FedroamError, match="has written into the samples of the data set by round 4"):
        run(tiny(**method(**aggregating(spoil))), tmp_path / "run")
    assert run(tiny(), tmp_path / "again").rounds["loss"].equals(usual)


class Misspelt(Part, ServerLoop):
    def agregate(self, round: ServerRound) -> None:
        """A server loop's own rule would aggregate instead."""


class TooFew(Part, ServerLoop):
    def aggregate(self) -> None:  # type: ignore[override]
        """The round is missing."""


class TooMany(Part, ServerLoop):
    def job(self, round: ServerRound, client: int, lr: float) -> Job:  # type: ignore[override]
        """Nobody hands out a learning rate."""
        return super().job(round, client)


class Read(Part, ServerLoop):
    @property
    def download(self) -> int:  # type: ignore[override]
        """What is called."""
        return 0


class Called(Part, ServerLoop):
    def recorded(self) -> tuple[str, ...]:
        """What is read."""
        return ()


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Misspelt, "fedroam calls no agregate; is aggregate meant"),
        (TooFew, r"defines aggregate\(self\), but fedroam calls aggregate\(self, round\)"),
        (TooMany, r"defines job\(self, round, client, lr\), but fedroam calls job\(self, round, client\)"),
        (Read, "download is called, not read: take away its @property"),
        (Called, "recorded is read, not called: put @property above it"),
    ],
)
def test_a_method_that_would_be_called_in_vain_is_told(cls: type[Part], said: str, tmp_path: Path) -> None:
    register("federation", "own")(cls)
    with pytest.raises(InputError, match=rf"federation 'own' \({cls.__name__}\): {said}"):
        run(tiny(federation="own"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Fine(Part, ServerLoop):
    """What fedroam calls with further arguments that have defaults, and helpers of its own."""

    def aggregate(self, round: ServerRound, trim: float = 0.1, *rest: object) -> None:
        super().aggregate(round)
        self.trimmed()
        self._agregate()

    def trimmed(self) -> None:
        """A helper whose name is like none of fedroam's."""

    def _agregate(self) -> None:
        """A helper that says so."""

    @staticmethod
    def upload(round: ServerRound) -> int:
        return 8


def test_helpers_named_as_what_other_families_have_are_let_be(tmp_path: Path) -> None:
    """An objective is no engine, no training and no layer, whose room it shares."""

    class Own(Part):
        def loss(
            self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **given: torch.Tensor
        ) -> torch.Tensor:
            return self.forward(module, x, y)

        def forward(self, module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(module(x), y)

        def build(self) -> None:
            """Nothing that an engine builds."""

        def batches(self) -> int:
            return 3

    register("objective", "own")(Own)
    assert run(tiny(federation="fedavg", objective="own"), tmp_path / "run").done


def test_methods_that_take_more_and_helpers_are_let_be(tmp_path: Path) -> None:
    register("federation", "own")(Fine)
    assert run(tiny(federation="own"), tmp_path / "run").done


@pytest.mark.parametrize(
    ("draw", "named"),
    [
        (lambda: np.random.normal(), "numpy.random"),  # noqa: NPY002
        (lambda: np.random.seed(3), "numpy.random"),  # noqa: NPY002
        (random.random, "random"),
        (lambda: torch.rand(1), "torch"),
    ],
)
def test_a_draw_that_the_seed_does_not_reach_is_told_once(
    draw: Callable[[], Any], named: str, tmp_path: Path
) -> None:
    def careless(round: ServerRound) -> None:
        draw()

    with pytest.warns(UserWarning, match=rf"the global generator of {named}, which the seed") as told:
        run(tiny(**method(**aggregating(careless))), tmp_path / "run")
    assert len([each for each in told if "global generator" in str(each.message)]) == 1


def test_on_a_network_draws_of_other_threads_are_not_told(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    def careless(round: ServerRound) -> None:
        random.random()

    run(tiny(**method(**aggregating(careless))), tmp_path / "run", where="a network")
    assert not [each for each in recwarn if "global generator" in str(each.message)]


@pytest.mark.parametrize("engine", ENGINES)
def test_fedroams_own_parts_leave_the_global_generators_alone(engine: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(tiny(engine=engine, model="mlp", mobility="random"), tmp_path / "run").done


@pytest.mark.parametrize(
    ("write", "named"),
    [
        (lambda context: context.train[1].fill(0), "context.train"),
        (lambda context: context.validation[0].fill(0), "context.validation"),
        (lambda context: context.access_points.fill(7.0), "context.access_points"),
    ],
)
def test_a_part_that_writes_into_what_is_everybodys_ends_the_run(
    write: Callable[[Any], Any], named: str, tmp_path: Path
) -> None:
    def careless(round: ServerRound) -> None:
        if round.number == 3:
            write(round.context)

    said = rf"has written into {named} by round 3.*work on a copy"
    with pytest.raises(FedroamError, match=said):
        run(tiny(validation_share=0.3, **method(**aggregating(careless))), tmp_path / "run")
    # No checkpoint holds what came of it, though one is due after each round, and the run is refused again.
    assert Run(tmp_path / "run").status["round"] == 2
    with pytest.raises(FedroamError, match=said):
        run(tiny(validation_share=0.3, **method(**aggregating(careless))), tmp_path / "run")
    fine = method(**aggregating(lambda round: None))
    assert run(tiny(validation_share=0.3, **fine), tmp_path / "fine").done


@pytest.mark.parametrize(("often", "found"), [({"evaluate_every": 5}, 5), ({"checkpoint_every": 4}, 4)])
def test_what_is_everybodys_is_looked_at_before_anything_leaves_the_run(
    often: dict[str, int], found: int, tmp_path: Path
) -> None:
    def careless(round: ServerRound) -> None:
        if round.number == 2:
            round.context.train[1].fill(0)

    seldom = {"rounds": 9, "evaluate_every": 9, "checkpoint_every": 9} | often
    with pytest.raises(FedroamError, match=f"has written into context.train by round {found}"):
        run(tiny(**seldom, **method(**aggregating(careless))), tmp_path / "run")
    assert Run(tmp_path / "run").status["round"] == 0
