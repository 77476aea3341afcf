"""A comparison of methods is paired: what is not the method's own is the same, draw by draw."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from federation.server.test_methods import FedPer
from fedroam.components import kinds
from fedroam.experiment import Experiment
from fedroam.federation import Round
from fedroam.federation.server import ServerLoop
from fedroam.federation.server.loop import GLOBAL
from fedroam.learning import Models
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from support.servers import AS_IN_USE, Server
from support.tiny import own_data, play, tiny

METHODS = sorted(kind for kind, part in kinds("federation").items() if issubclass(part, ServerLoop))
TRAINING = [kind for kind in METHODS if kind != "majority"]
LOSSES = ("fedavgdbe", "fedproto", "gpfl", "moon")  # those that change the loss
SIZES = (20, 33, 7, 12)


def churning(kind: str, **settings: Any) -> Experiment:
    """Nobody's own settings but the method's: a 1-D network with dropout, batches, churn, three parts a client."""
    own = {
        "federation": {"kind": kind},
        "data": own_data((14,)),
        "model": "cnn1d",
        "training": {"kind": "sgd", "lr": 0.05, "batch_size": 4, "epochs": 1},
        "activity": {"kind": "rate", "rate": 0.6},
        "mobility": "static",
        "mixing": "data_size",
        "engine": "cpu",
        "evaluate_on": "own",
        "test_share": 0.2,
        "validation_share": 0.2,
    }
    return tiny(**{**own, **settings})


class Seen(NamedTuple):
    """What a method is given: its clients' samples, start values by name, and each round's batches by client."""

    parts: list[list[int]]
    tests: list[tuple[np.ndarray, torch.Tensor]]
    start: list[dict[str, torch.Tensor]]
    server: dict[str, torch.Tensor]
    active: list[list[int]]
    batches: list[dict[int, list[list[int]]]]


@cache
def seen(kind: str, start_models: str) -> Seen:
    """Three rounds of a method, from outside."""
    scene = prepare(churning(kind, start_models=start_models))
    layout, split, state = scene.task.layout, scene.split, begin(scene)
    shared = getattr(scene.parts.federation, "shared")(layout)  # noqa: B009
    entries = [entry for entry in layout.parameters if entry.name.startswith(("extractor", "head"))]
    server = torch.full((layout.size,), torch.nan)
    if GLOBAL in state.federation:
        server[shared] = torch.from_numpy(state.federation[GLOBAL])
    found = Seen(
        [own.tolist() for share in (split.train, split.validation) for own in share],
        [(own, scene.test_x[own]) for own in split.test],
        [{entry.name: entry.view(row).clone() for entry in entries} for row in state.models.parameters[:5]],
        {entry.name: entry.view(server) for entry in entries},
        [],
        [],
    )
    for t in (1, 2, 3):
        found.active.append(np.flatnonzero(state.meeting.paths.present).tolist())
        rows = Models(layout, state.models.parameters.clone(), state.models.buffers.clone(), None)
        given = scene.parts.federation.distribute(
            Round(t, rows, dict(state.federation), scene.context, state.meeting, scene.learner)
        )
        batches: dict[int, list[list[int]]] = {}
        for job in given.jobs:
            own = [batch.tolist() for batch in job.batches(scene.task)]
            assert batches.setdefault(job.client, own) == own  # Ditto's two jobs of a client
        found.batches.append(batches)
        state, done = play_round(scene, state)
        assert sorted(batches) == done.learners.tolist()
    scene.learner.close()
    return found


@pytest.mark.parametrize("start_models", ["equal", "independent"])
@pytest.mark.parametrize("kind", TRAINING)
def test_methods_are_given_the_same(kind: str, start_models: str) -> None:
    """The same shares, start models, activity and batches as FedAvg; start models differ as they are told to."""
    one, base = seen(kind, start_models), seen("fedavg", start_models)
    assert one.parts == base.parts
    for (own, x), (other, y) in zip(one.tests, base.tests, strict=True):
        assert np.array_equal(own, other)
        assert torch.equal(x, y)
    assert one.active == base.active
    assert one.active[0] != one.active[1]
    assert one.batches == base.batches
    assert all(sorted(batches) == active for batches, active in zip(one.batches, one.active, strict=True))
    assert any(len(own) > 1 for own in one.batches[0].values())
    for row, other_row in zip(one.start, base.start, strict=True):
        assert all(torch.equal(row[name], other_row[name]) for name in other_row)
    for name, values in one.server.items():
        assert values.isnan().all() or torch.equal(values, base.server[name])
    weight = [row["head.weight"] for row in one.start]
    alike = start_models == "equal"
    assert all(torch.equal(weight[0], other) == alike for other in weight[1:])
    assert torch.equal(base.start[0]["head.weight"], base.server["head.weight"]) == alike


def test_the_majority_is_that_of_the_same_training_samples() -> None:
    assert seen("majority", "equal").parts == seen("fedavg", "equal").parts
    assert seen("majority", "equal").active == seen("fedavg", "equal").active


FAINT: dict[str, tuple[dict[str, Any], Any]] = {
    "fedprox": ({"mu": 1e-9}, "fedavg"),
    "moon": ({"mu": 1e-9}, "fedavg"),
    "fedavgdbe": ({"kappa": 1e-9, "memory": False}, "fedavg"),
    "scaffold": ({"correction": 1e-9, "average": "samples"}, "fedavg"),
    "fedproto": ({"strength": 1e-9}, "local"),
    "gpfl": ({"angle": 1e-9, "magnitude": 1e-9, "decay": 1e-9, "valve": False}, FedPer()),
    "ditto": ({"strength": 1e-9}, "fedavg"),
}


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("kind", FAINT)
def test_a_faint_term_leaves_batches_and_dropout_as_they_are(kind: str, engine: str) -> None:
    """The term is computed, with all it draws and looks at: training goes as without it, but for rounding."""
    own, base = FAINT[kind]
    rounds = [None, [1, 2], [0, 3]]
    made = {**AS_IN_USE, "engine": engine}
    faint, plain = (Server(part, SIZES, **made).play(rounds) for part in ({"kind": kind, **own}, base))
    for part in ("extractor", "head"):
        one, other = (game.models.parameters[:4, game.layout.columns(part)] for game in (faint, plain))
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["cnn1d", "mlp"])
@pytest.mark.parametrize("kind", ["scaffold", "fedgh", "fedfomo", "mocfl", *LOSSES])
def test_the_number_of_workers_changes_no_bit(kind: str, model: str) -> None:
    one, two = (play(churning(kind, model=model, engine={"kind": "cpu", "workers": n})) for n in (1, 3))
    assert one.states == two.states
    assert one.rounds.equals(two.rounds)
