"""Two clients, one parameter each, worked out by hand."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from fedroam.components import Part
from fedroam.data import Dataset
from fedroam.experiment import Experiment
from fedroam.federation import Round, Traffic
from fedroam.federation.decentralized import Decentralized
from fedroam.mobility import Paths, World
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round


class Targets(Part):
    """Four samples: 1, 5, 5, 5."""

    family: ClassVar[str] = "data"
    kind: ClassVar[str] = "targets"

    def load(self) -> Dataset:
        x = np.array([[1.0], [5.0], [5.0], [5.0]], dtype=np.float32)
        y = np.array([0, 1, 1, 1])
        return Dataset("targets", x, y, x, y, ("one", "five"))


class Deal(Part):
    """Client k holds the samples that `held` gives it."""

    family: ClassVar[str] = "partition"
    kind: ClassVar[str] = "deal"
    held: tuple[tuple[int, ...], ...] = ((0,), (1, 2, 3))

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        return [np.array(part, dtype=np.int64) for part in self.held]


class OneWeight(Part):
    """A network of one parameter, 0 at the start."""

    family: ClassVar[str] = "model"
    kind: ClassVar[str] = "one_weight"

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        layer = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(layer.weight)
        return layer


class Pull(Part):
    """Half the squared distance of the parameter from the sample: the gradient is w - mean(x)."""

    family: ClassVar[str] = "objective"
    kind: ClassVar[str] = "pull"

    def loss(self, module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 0.5 * (module(torch.ones_like(x)) - x).square().mean()


class Script(Part):
    """Client 0 stands at the origin; client 1 is x[t] metres from it after round t; `away` lists (round, client)."""

    family: ClassVar[str] = "mobility"
    kind: ClassVar[str] = "script"
    x: tuple[float, ...] = (0.0, 9.0, 0.0)
    away: tuple[tuple[int, int], ...] = ()

    def start(self, world: World) -> dict[str, np.ndarray]:
        return self._at(0)

    def _at(self, t: int) -> dict[str, np.ndarray]:
        present = np.array([(t, client) not in self.away for client in (0, 1)])
        return {"position": np.array([[0.0, 0.0], [self.x[t], 0.0]]), "present": present}

    def step(self, state: Any, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        after = self._at(round)
        return after, Paths.straight(state["position"], after["position"], after["present"])

    def bounds(self) -> tuple[float, float, float, float]:
        return (0.0, 0.0, 9.0, 0.0)

    def groups(self, world: World) -> np.ndarray:
        return np.array(["static", "mobile"])


def weights_after_each_round(**settings: Any) -> tuple[list[list[float]], list[int], list[list[float]]]:
    """Parameters, bytes so far, and places of the exchange, round by round."""
    own: dict[str, Any] = {
        "clients": 2,
        "rounds": 2,
        "data": Targets(),
        "partition": Deal(),
        "model": OneWeight(),
        "objective": Pull(),
        "training": {"kind": "sgd", "lr": 0.5},
        "engine": "reference",
        "mobility": Script(),
        "contacts": {"kind": "radius", "radius": 1.0},
        "mixing": "data_size",
    }
    scene = prepare(Experiment(**{**own, **settings}))
    state = begin(scene)
    weights, sent, places = [], [], []
    while state.round < scene.experiment.rounds:
        state, happened = play_round(scene, state)
        weights.append(state.models.parameters[:, 0].tolist())
        sent.append(state.bytes_sent)
        places.append(happened.meeting.paths.end[:, 0].tolist())
    return weights, sent, places


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_move_then_mix_by_hand(engine: str) -> None:
    """Together at the start, apart after move 1, together after move 2. Weights of the pair: 1/4 and 3/4.

    Round 1: 0 -> 0.5 and 0 -> 2.5, apart. Round 2: 0.75 and 3.75, together: 0.75 / 4 + 3 * 3.75 / 4 = 3.
    """
    weights, sent, places = weights_after_each_round(federation={"order": "move_then_mix"}, engine=engine)
    assert weights == [[0.5, 2.5], [3.0, 3.0]]
    assert sent == [0, 8]  # two transfers of one float32
    assert places == [[0.0, 9.0], [0.0, 0.0]]


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_mix_then_move_by_hand(engine: str) -> None:
    """The same moves. Round 1: 0.5 and 2.5 mixed at the start places: 2. Round 2: 1.5 and 3.5, apart."""
    weights, sent, places = weights_after_each_round(federation={"order": "mix_then_move"}, engine=engine)
    assert weights == [[2.0, 2.0], [1.5, 3.5]]
    assert sent == [8, 8]
    assert places == [[0.0, 0.0], [0.0, 9.0]]


def test_metropolis_averages_a_pair_whatever_it_holds() -> None:
    weights, _, _ = weights_after_each_round(mixing="metropolis")
    assert weights == [[0.5, 2.5], [2.25, 2.25]]


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        # gradient w - 1: v = -1, w = 0.5; v = -0.5 - 0.5 = -1, w = 1; v = -0.5 + 0, w = 1.25
        ({"momentum": 0.5}, [0.5, 1.0, 1.25]),
        # momentum begins anew every round: half of the way each time
        ({"momentum": 0.5, "momentum_state": "reset"}, [0.5, 0.75, 0.875]),
        # two steps a round: v = -1, w = 0.5, v = -1, w = 1; anew: v = 0; w = 1
        ({"momentum": 0.5, "momentum_state": "reset", "steps": 2}, [1.0, 1.0, 1.0]),
        # g = -1; g = -0.5 + 0.5 * 0.5 = -0.25, w = 0.625; g = -0.375 + 0.3125 = -0.0625, w = 0.65625
        ({"weight_decay": 0.5}, [0.5, 0.625, 0.65625]),
        # rates 0.5, 0.25, 0.125
        ({"lr_decay": 0.5}, [0.5, 0.625, 0.671875]),
    ],
)
@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_the_optimiser_by_hand(training: dict[str, Any], expected: list[float], engine: str) -> None:
    weights, sent, _ = weights_after_each_round(
        rounds=3,
        mobility=Script(x=(9.0, 9.0, 9.0, 9.0)),
        training={"kind": "sgd", "lr": 0.5, **training},
        engine=engine,
    )
    assert [pair[0] for pair in weights] == expected
    assert sent == [0, 0, 0]


def test_who_is_away_neither_trains_nor_exchanges() -> None:
    # client 1 is away from the end of round 1 to the end of round 2, always near
    weights, sent, _ = weights_after_each_round(
        rounds=3, mobility=Script(x=(0.0, 0.0, 0.0, 0.0), away=((1, 1),))
    )
    assert weights[0] == [0.5, 2.5]  # was there at the beginning of round 1, left before the exchange
    # round 2: client 0 trains to 0.75; client 1 comes back untrained with 2.5: 0.75 / 4 + 3 * 2.5 / 4
    assert weights[1] == [2.0625, 2.0625]
    # round 3: 1.53125 and 3.53125
    assert weights[2] == [3.03125, 3.03125]
    assert sent == [0, 8, 16]


def test_a_client_without_samples_does_not_train_but_hears() -> None:
    weights, _, _ = weights_after_each_round(
        partition=Deal(held=((), (1, 2, 3))), mobility=Script(x=(0.0, 0.0, 0.0)), rounds=2
    )
    assert weights == [[2.5, 2.5], [3.75, 3.75]]  # all weight lies with the one that holds samples
    apart, _, _ = weights_after_each_round(
        partition=Deal(held=((), (1, 2, 3))), mobility=Script(x=(9.0, 9.0, 9.0)), rounds=2
    )
    assert apart == [[0.0, 2.5], [0.0, 3.75]]


def test_traffic_is_one_model_in_each_direction_of_each_contact() -> None:
    scene = prepare(Experiment(clients=6, mobility={"kind": "static", "grid": 3}, engine="reference", seed=2))
    state = begin(scene)
    part: Any = scene.experiment.federation
    assert isinstance(part, Decentralized)
    done = part.exchange(
        Round(1, state.models, {}, scene.context, state.meeting, scene.learner), state.meeting
    )
    dense = state.meeting.graph.toarray()
    assert dense.any()
    found = np.zeros_like(dense)
    found[done.traffic.receiver, done.traffic.sender] = True
    assert (found == dense).all()
    assert len(done.traffic.sender) == dense.sum()
    assert set(done.traffic.bytes) == {state.models.bytes_each} == {4 * (64 * 64 + 64 + 64 * 10 + 10)}
    places = state.meeting.paths.end
    apart = np.hypot(*(places[done.traffic.receiver] - places[done.traffic.sender]).T)
    np.testing.assert_array_equal(done.traffic.distance, apart)
    assert list(done.aggregated) == list(np.flatnonzero(dense.any(axis=1)))
    assert Traffic.nothing().total == 0
