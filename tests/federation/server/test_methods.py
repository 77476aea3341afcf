"""What holds for every method on the server loop that changes gradients or losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedroam.components import Part
from fedroam.federation.server import ServerLoop
from fedroam.learning import Layout
from fedroam.learning.training import SGD
from fedroam.models import Network
from fedroam.native import target
from support.servers import Server, close, same
from support.tiny import own_data, play, same_tables, tiny

METHODS = ("fedprox", "scaffold", "ditto", "moon", "fedavgdbe", "gpfl")
# Hyperparameters under which ten steps of a tiny linear model do not explode.
GENTLE: dict[str, dict[str, Any]] = {"fedavgdbe": {"kappa": 1.0, "momentum": 0.5}}
BATCHES = SGD(lr=0.1, momentum=0.5, weight_decay=0.01, batch_size=8, epochs=1)


def gentle(kind: str) -> dict[str, Any]:
    return {"kind": kind, **GENTLE.get(kind, {})}


class FedPer(Part, ServerLoop):
    """Extractors are averaged, heads are not: what is left of GPFL without its terms."""

    def shared(self, layout: Layout) -> slice:
        """The extractor."""
        return layout.columns("extractor")


FedPer.family, FedPer.kind = "federation", "fedper"

OFF = {
    "fedprox": {"mu": 0.0},
    "moon": {"mu": 0.0},
    "scaffold": {"correction": 0.0, "average": "samples"},
    "fedavgdbe": {"kappa": 0.0, "memory": False},
}


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("kind", OFF)
def test_without_its_term_a_method_is_fedavg(kind: str, engine: str) -> None:
    """Bit for bit, with batches, dropout, momentum, churn; FedAvgDBE's network goes through autograd (see `same`)."""
    rounds = [None, [1, 2], [0]]
    made: dict[str, Any] = {"network": "cnn1d", "shape": (14,), "training": BATCHES, "engine": engine}
    plain = Server("fedavg", (20, 33, 7), **made).play(rounds)
    method = Server({"kind": kind, **OFF[kind]}, (20, 33, 7), **made).play(rounds)
    how = engine if kind == "fedavgdbe" else "reference"
    assert same(plain.server, method.server, how)
    begin = plain.layout.columns("extractor").start
    own = method.layout.columns("extractor").start  # what a method adds of its own lies before the extractor
    assert same(plain.models.parameters[:, begin:], method.models.parameters[:, own:], how)
    on = Server(gentle(kind), (20, 33, 7), **made).play(rounds)
    assert not torch.equal(plain.server, on.server)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_ditto_without_pull_is_learning_alone_beside_fedavg(engine: str) -> None:
    """Four clients: a client's two rows then lie alike in memory, by which the fast engine's rounding may differ."""
    rounds, sizes = [None, [1, 2], [0]], (20, 33, 7, 12)
    made: dict[str, Any] = {"network": "cnn1d", "shape": (14,), "training": BATCHES, "engine": engine}
    ditto, local, fedavg = (
        Server(part, sizes, **made).play(rounds)
        for part in ({"kind": "ditto", "strength": 0.0}, "local", "fedavg")
    )
    assert torch.equal(ditto.models.parameters[4:], local.models.parameters)
    assert torch.equal(ditto.server, fedavg.server)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_gpfl_without_its_terms_is_an_averaged_extractor_below_own_heads(engine: str) -> None:
    """With series of 15 values rounding decides in no max-pool which value is the largest; with 14 it does once."""
    rounds = [None, [1, 2], [0]]
    made: dict[str, Any] = {"network": "cnn1d", "shape": (15,), "training": BATCHES, "engine": engine}
    off = {"kind": "gpfl", "angle": 0.0, "magnitude": 0.0, "decay": 0.0, "valve": False}
    gpfl = Server(off, (20, 33, 7), **made).play(rounds)
    base = Server(FedPer(), (20, 33, 7), **made).play(rounds)
    for part in ("extractor", "head"):
        one, other = (game.models.parameters[:, game.layout.columns(part)] for game in (gpfl, base))
        assert same(one, other, engine)
    assert same(gpfl.server[gpfl.layout.columns("extractor")], base.server, engine)


@pytest.mark.parametrize("network", ["mlp", "cnn1d"])
@pytest.mark.parametrize("kind", METHODS)
def test_engines_agree(kind: str, network: str) -> None:
    rounds = [None, [1, 2], [0, 2]]
    made: dict[str, Any] = {
        "network": network,
        "shape": (14,),
        "training": SGD(lr=0.05, batch_size=8, epochs=2),
    }
    slow, fast = (
        Server(gentle(kind), (20, 33, 20), engine=engine, **made).play(rounds)
        for engine in ("reference", "cpu")
    )
    torch.testing.assert_close(slow.server, fast.server, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(slow.models.parameters, fast.models.parameters, rtol=1e-3, atol=1e-4)
    for (name, one), other in zip(
        slow.evaluation_models().items(), fast.evaluation_models().values(), strict=True
    ):
        torch.testing.assert_close(one.models.parameters, other.models.parameters, rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(one.row, other.row, err_msg=name)


@pytest.mark.parametrize("kind", ["fedavg", *METHODS])
def test_clients_may_be_renumbered(kind: str) -> None:
    """Full batches and no dropout, since draws go by number; sums go in another order, so to rounding."""
    order = [2, 0, 3, 1]
    there = np.argsort(order)  # where each client has gone
    rounds = [None, [0, 2, 3], [1, 2]]
    one = Server(gentle(kind), (12, 20, 7, 9)).play(rounds)
    moved = [None if active is None else [int(there[i]) for i in active] for active in rounds]
    other = Server(gentle(kind), (12, 20, 7, 9), order=order).play(moved)
    close(other.server, one.server)
    for (name, a), b in zip(one.evaluation_models().items(), other.evaluation_models().values(), strict=True):
        for row in range(4):
            found = b.models.parameters[b.row[there[row]]]
            close(found, a.models.parameters[a.row[row]])
        assert name in ("global", "own", "personal")


@pytest.mark.parametrize(
    "kind", [*METHODS, "fedavg", "fedfomo", "fedgh", "fedproto", "local", "majority", "mocfl"]
)
def test_runs_on_the_one_dimensional_network_under_churn_and_resumes(kind: str) -> None:
    """With dropout, batches, kept momentum and start models of their own, judged on own test samples."""
    experiment = tiny(
        federation=gentle(kind),
        data=own_data((8,)),
        model="cnn1d",
        training={"kind": "sgd", "lr": 0.05, "momentum": 0.5, "batch_size": 8, "epochs": 1},
        activity={"kind": "rate", "rate": 0.5},
        mixing="data_size",
        engine="cpu",
        evaluate_on="own",
        test_share=0.3,
        validation_share=0.2,
        start_models="independent",
        evaluate_every=1,
    )
    whole = play(experiment)
    again = play(experiment)
    same_tables(whole.tables(), again.tables())
    assert whole.states == again.states
    assert np.isfinite(whole.rounds["accuracy"]).all()
    for reached in (0, 2):
        rest = play(experiment, (reached, whole.states[reached]))
        assert rest.states == whole.states[reached + 1 :]
    assert len(set(whole.states)) == experiment.rounds + 1


@pytest.mark.parametrize("network", ["mlp", "softmax_regression"])
@pytest.mark.parametrize("kind", ["fedprox", "ditto", "scaffold", "moon"])
def test_the_engine_says_where_a_loss_costs_the_written_out_steps(kind: str, network: str) -> None:
    """A perceptron's clients are trained several at a time with the plain cross-entropy, and where kernels know what
    else there is: of features that no layer makes they do not."""
    game = Server(kind, network=network, engine="cpu")
    told = any("one client after the other" in note for note in game.learner.notes)
    assert told == (kind == "moon" and (network != "mlp" or target() is None))
    other = Server(kind, network="cnn1d", shape=(14,), engine="cpu")
    assert not any("one client after the other" in note for note in other.learner.notes)
    for learner in (game.learner, other.learner):
        learner.close()


def test_running_statistics_are_shared_as_far_as_a_method_says() -> None:
    """By default all of them, also where only the extractor's parameters are shared; judged as after a broadcast."""

    def normed() -> Network:
        return Network(nn.Sequential(nn.Linear(12, 3), nn.BatchNorm1d(3)), nn.Linear(3, 10))

    game = Server(FedPer(), (20, 33, 7), network=normed).play([None, [0, 2]])
    judged, extractor = game.evaluation_models()["own"].models, game.layout.columns("extractor")
    for i in range(3):
        assert torch.equal(judged.buffers[i], torch.from_numpy(game.state["global_buffers"]))
        assert torch.equal(judged.parameters[i, extractor], game.server)
        assert torch.equal(
            judged.parameters[i, extractor.stop :], game.models.parameters[i, extractor.stop :]
        )
    assert not torch.equal(game.models.buffers[1], judged.buffers[1])
