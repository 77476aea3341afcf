"""What methods compute beside training takes time where `counts = "all"`: by hand, for one hidden layer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedroam.clock import TIME
from fedroam.components import Part
from fedroam.devices.arithmetic import forward_flops, objective_flops
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.learning.objective import Objective
from fedroam.learning.training import sample_passes
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State
from support.tiny import tiny

SPEED = 2e4  # FLOP/s
# 64 to 6 to 10: 2 for each weight forward, for its gradient, and for the inputs' but the samples'; 3 for each ReLU.
TRAINING = 2 * 2 * 64 * 6 + 3 * 6 + 3 * 2 * 6 * 10
EXTRACTOR = 2 * 64 * 6 + 6
NETWORK = EXTRACTOR + 2 * 6 * 10
# Two linear layers on a condition, which needs no gradient, each with ReLU and layer norm (7 for a value).
VALVE = 2 * (2 * 2 * 6 * 6 + 3 * 6 + 3 * 7 * 6)
COSINES = 3 * 2 * 6 * 10


@dataclass(frozen=True)
class Held:
    """What a client has: samples for training and validation, and passes of its training in a round."""

    train: int
    validation: int
    passes: int


def experiment(federation: Any, counts: str = "all", **more: Any) -> Experiment:
    settings: dict[str, Any] = {
        "federation": federation,
        "model": {"kind": "mlp", "hidden": (6,)},
        "validation_share": 0.2,
        "clock": {"kind": "seconds", "length": 1.0, "wait": "all"},
        "compute": {"kind": "flops", "speeds": (SPEED / 1e9,), "counts": counts},
    }
    return tiny(**{**settings, **more})


def rounds_of(run: Experiment, rounds: int = 2) -> tuple[Scene, list[State]]:
    """The states before and after each of these rounds."""
    scene = prepare(run)
    try:
        states = [begin(scene)]
        for _ in range(rounds):
            states.append(play_round(scene, states[-1])[0])
    finally:
        scene.learner.close()
    return scene, states


def trained(states: list[State]) -> np.ndarray:
    """Seconds of training of each client in each round, float64 [rounds, clients]."""
    return np.diff([state.clock["time_training"] for state in states], axis=0)


def held_by(scene: Scene) -> list[Held]:
    context = scene.context
    return [
        Held(len(own), len(validation), sample_passes(scene.task.training, len(own)))
        for own, validation in zip(context.train, context.validation, strict=True)
    ]


# Operations of a client in the first round, and in the second.
CASES: dict[str, tuple[Any, Any, Any]] = {
    "fedavg": ("fedavg", lambda c: c.passes * TRAINING, lambda c: c.passes * TRAINING),
    # An anchor is added for each parameter and step, as the optimiser's update is: not for each sample.
    "scaffold": ("scaffold", lambda c: c.passes * TRAINING, lambda c: c.passes * TRAINING),
    "ditto trains twice": (
        "ditto", lambda c: 2 * c.passes * TRAINING, lambda c: 2 * c.passes * TRAINING,
    ),
    "moon": (
        "moon",
        lambda c: c.passes * TRAINING + 2 * c.train * EXTRACTOR,
        lambda c: c.passes * TRAINING + 2 * c.train * EXTRACTOR,
    ),
    "moon without contrast": (
        {"kind": "moon", "mu": 0.0}, lambda c: c.passes * TRAINING, lambda c: c.passes * TRAINING,
    ),
    "fedproto": (
        "fedproto",
        lambda c: c.passes * TRAINING + c.train * EXTRACTOR,
        lambda c: c.passes * TRAINING + c.train * EXTRACTOR,
    ),
    "fedproto, collected during training": (
        {"kind": "fedproto", "collected": "during"},
        lambda c: c.passes * TRAINING,
        lambda c: c.passes * TRAINING,
    ),
    "fedgh": (
        "fedgh",
        lambda c: c.passes * TRAINING + c.train * EXTRACTOR,
        lambda c: c.passes * TRAINING + c.train * EXTRACTOR,
    ),
    "fedavgdbe": (
        "fedavgdbe",
        lambda c: 2 * c.passes * TRAINING + c.train * EXTRACTOR,
        lambda c: c.passes * TRAINING,
    ),
    "fedavgdbe, untrained": (
        {"kind": "fedavgdbe", "start_pass": "untrained"},
        lambda c: c.passes * TRAINING + c.train * EXTRACTOR,
        lambda c: c.passes * TRAINING,
    ),
    "fedavgdbe, tracked": (
        {"kind": "fedavgdbe", "start_pass": "tracked"},
        lambda c: 2 * c.passes * TRAINING,
        lambda c: c.passes * TRAINING,
    ),
    # The valve of the plain network, and that of the global features.
    "gpfl": (
        "gpfl",
        lambda c: c.passes * (TRAINING + 2 * VALVE + COSINES),
        lambda c: c.passes * (TRAINING + 2 * VALVE + COSINES),
    ),
    "gpfl without a valve": (
        {"kind": "gpfl", "valve": False},
        lambda c: c.passes * (TRAINING + COSINES),
        lambda c: c.passes * (TRAINING + COSINES),
    ),
    # At first there is nobody's model but the own one; then those of the four others. Once more for theta_i.
    "fedfomo": (
        "fedfomo",
        lambda c: c.passes * TRAINING + (1 + 1) * c.validation * NETWORK,
        lambda c: c.passes * TRAINING + (5 + 1) * c.validation * NETWORK,
    ),
    "mocfl": (
        {"kind": "mocfl", "neighbours": 2},
        lambda c: c.passes * TRAINING + c.validation * NETWORK + c.train * EXTRACTOR,
        lambda c: c.passes * TRAINING + 3 * c.validation * NETWORK + c.train * EXTRACTOR,
    ),
    "mocfl, own heads": (
        {"kind": "mocfl", "neighbours": 2, "head": "own", "reference": "previous"},
        lambda c: c.passes * TRAINING + 2 * c.validation * NETWORK,
        lambda c: c.passes * TRAINING + 4 * c.validation * NETWORK,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_time_is_arithmetic_over_speed(case: str) -> None:
    federation, *by_hand = CASES[case]
    scene, states = rounds_of(experiment(federation))
    expected = [[of(own) / SPEED for own in held_by(scene)] for of in by_hand]
    np.testing.assert_allclose(trained(states), expected, rtol=1e-12)
    assert states[1].clock[TIME][0] == pytest.approx(max(1.0, *expected[0]), rel=1e-12), "all wait for it"


@pytest.mark.parametrize("case", CASES)
def test_training_alone_is_what_was_counted_before(case: str) -> None:
    """Passes of the plain network; work that was done as jobs before training is among it."""
    federation, *by_hand = CASES[case]
    run = experiment(federation, "training")
    scene, states = rounds_of(run)
    plain = TRAINING + (VALVE if case == "gpfl" else 0)
    jobs = [
        2 if case == "ditto trains twice" or (k == 0 and case in ("fedavgdbe", "fedavgdbe, tracked")) else 1
        for k in range(len(by_hand))
    ]
    expected = [[each * own.passes * plain / SPEED for own in held_by(scene)] for each in jobs]
    np.testing.assert_allclose(trained(states), expected, rtol=1e-12)
    assert run.digest == run.replace(compute={"kind": "flops", "speeds": (SPEED / 1e9,)}).digest
    assert run.digest != experiment(federation).digest


@pytest.mark.parametrize("kind", ["decentralized", "gossip_learning", "ad_psgd", "mohawk", "fedasync"])
def test_who_computes_nothing_else_takes_as_long(kind: str) -> None:
    """To the last bit."""
    training, everything = (trained(rounds_of(experiment(kind, counts))[1]) for counts in ("training", "all"))
    assert training.any()
    np.testing.assert_array_equal(training, everything)


def test_a_table_s_seconds_are_those_of_a_pass(tmp_path: Path) -> None:
    """All else takes as long as so many passes as have its arithmetic."""
    table = tmp_path / "seconds.csv"
    table.write_text("client,seconds\n" + "".join(f"{i},{0.01 * (i + 1)}\n" for i in range(5)))
    run = experiment("fedgh", compute={"kind": "table", "path": str(table), "counts": "all"})
    scene, states = rounds_of(run, rounds=1)
    expected = [
        0.01 * (i + 1) * (own.passes + own.train * EXTRACTOR / TRAINING)
        for i, own in enumerate(held_by(scene))
    ]
    np.testing.assert_allclose(trained(states)[0], expected, rtol=1e-12)


def test_batteries_are_drawn_for_as_long_and_radios_charge_for_passes() -> None:
    """A device draws its training power while it is at it. What `[radio]` says of a pass is a price of training."""
    found = {}
    for counts in ("training", "all"):
        run = experiment(
            "moon",
            counts,
            battery={"kind": "battery", "capacity": 1.0, "idle": 0.0, "training": 3.0},
            radio={"kind": "lte_wifi", "training_energy": 0.5},
        )
        scene, (before, after) = rounds_of(run, rounds=1)
        passes = np.array([own.passes for own in held_by(scene)])
        np.testing.assert_allclose(after.account.energy_training, 0.5 * passes)
        drawn = after.battery["drawn"] - before.battery["drawn"]
        found[counts] = drawn - after.account.energy
        np.testing.assert_allclose(found[counts], 3.0 * after.clock["time_training"], rtol=1e-9)
    assert (found["all"] > found["training"]).all()


def test_who_comes_late_by_it_is_late() -> None:
    """Of rounds of two seconds, with and without the features of two models."""
    told = []
    for counts, features in (("training", 0), ("all", 2 * EXTRACTOR)):
        run = experiment("moon", counts, clock={"kind": "seconds", "length": 2.0})
        scene = prepare(run)
        work = [own.passes * TRAINING + own.train * features for own in held_by(scene)]
        _, done = play_round(scene, begin(scene))
        told.append(sum(each / SPEED > 2.0 for each in work))
        assert done.facts["late"] == told[-1]
    assert told[0] < told[1]


class Handed:
    """An objective that needs something of which it does not say the shape."""

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        return module(x).sum() * handed["factor"]


def test_an_objective_that_hides_its_shapes_is_named() -> None:
    objective: Objective = Handed()
    with pytest.raises(
        InputError, match="objective Handed: it is handed 'factor', and does not say of which"
    ):
        objective_flops(nn.Linear(3, 2), (3,), objective)


class Twice(Part):
    """Two passes through the network for each sample."""

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        """Of the logits, and of those of the sample's mirror image."""
        return (module(x) + module(-x)).sum()


def test_an_objective_of_one_s_own_is_counted_as_it_computes() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    once = 2 * 2 * 3 * 4 + 3 * 4 + 3 * 2 * 4 * 2
    assert objective_flops(network, (3,), Twice()) == 2 * once
    assert forward_flops(network, (3,)) == 2 * 3 * 4 + 4 + 2 * 4 * 2
