"""The loop of server-based methods, FedAvg, and the baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fedroam.experiment import Experiment
from fedroam.federation.server import weighted_mean
from fedroam.learning import Job, Models, Scores
from fedroam.measurement import evaluate
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from support.tiny import play, tiny

STEPS = {"kind": "sgd", "lr": 0.1, "batch_size": 8, "steps": 3}


def served(kind: str = "fedavg", **settings: Any) -> Experiment:
    own = {"federation": kind, "training": STEPS, "mixing": "data_size"}
    return tiny(**{**own, **settings})


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_a_round_of_fedavg_by_a_slow_loop(engine: str) -> None:
    scene = prepare(served(engine=engine, activity={"kind": "rate", "rate": 0.6}, start_models="equal"))
    state = begin(scene)
    server = scene.start_models([0]).parameters[0]
    for t in (1, 2, 3):
        active = np.flatnonzero(state.meeting.paths.present)
        assert len(active) == 3
        models = scene.start_models()
        models.parameters[:] = server
        learner = scene.learner
        learner.train(models, [Job(int(i), int(i), scene.split.train[i], t) for i in active])
        held = scene.split.sizes[active]
        server = sum(
            float(n) / held.sum() * models.parameters[int(i)].double()
            for i, n in zip(active, held, strict=True)
        ).float()  # type: ignore[union-attr]
        state, done = play_round(scene, state)
        assert list(done.learners) == list(active)
        torch.testing.assert_close(torch.from_numpy(state.federation["global"]), server, rtol=1e-5, atol=1e-6)
        model = scene.task.layout.size * 4
        assert state.bytes_sent == t * 3 * 2 * model
    scene.learner.close()


def test_fedavg_on_one_client_is_plain_sgd() -> None:
    alone = {"clients": 1, "mobility": {"kind": "static", "grid": 4}}
    assert (
        play(served("fedavg", **alone))
        .rounds["accuracy"]
        .equals(play(served("local", **alone)).rounds["accuracy"])
    )


def test_a_round_without_anybody_changes_nothing() -> None:
    scene = prepare(served(activity={"kind": "always", "late_share": 1.0, "late_by": 1}, rounds=3))
    state = begin(scene)
    before = state.federation["global"]
    state, done = play_round(scene, state)
    assert len(done.learners) == 0
    np.testing.assert_array_equal(state.federation["global"], before)
    assert state.bytes_sent == 0
    state, done = play_round(scene, state)
    assert len(done.learners) == 5
    assert (state.federation["global"] != before).any()
    scene.learner.close()


def test_everybody_is_judged_with_the_servers_model() -> None:
    played = play(served())
    assert (played.clients.groupby("round")["accuracy"].nunique() == 1).all()
    assert (played.rounds["accuracy"] == played.rounds["accuracy_mean_model"]).all()


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize(("kind", "rows"), [("fedavg", [1]), ("decentralized", [5, 1])])
def test_the_servers_model_is_judged_once(
    kind: str, rows: list[int], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is what everybody holds and what stands for all; to the bit what judging it again would say."""
    scene = prepare(served(kind, evaluate_share=share, evaluate_whole=1, rounds=3))
    state, done = play_round(scene, begin(scene))
    judged: list[int] = []
    real = scene.learner.evaluate

    def counted(models: Models, *others: Any) -> Scores:
        judged.append(len(models))
        return real(models, *others)

    monkeypatch.setattr(scene.learner, "evaluate", counted)
    found = evaluate(scene, state, done, 0.0).numbers
    assert judged == rows
    federation = scene.parts.federation
    (models,) = federation.evaluation_models(state.models, state.federation, scene.context).values()
    assert models.mean is not None
    again = real(models.mean, [0], scene.test_x, scene.test_y, scene.test_parts(1))
    assert (found["accuracy_mean_model"], found["loss_mean_model"]) == (again.accuracy[0], again.loss[0])
    scene.learner.close()


def test_the_majority_is_always_answered() -> None:
    experiment = served("majority", evaluate_on="own", test_share=0.3)
    scene = prepare(experiment)
    state = begin(scene)
    state, done = play_round(scene, state)
    found = evaluate(scene, state, done, 0.0).client_rows
    for i, (train, test) in enumerate(zip(scene.split.train, scene.split.test, strict=True)):
        y = scene.dataset.y_train
        favourite = np.bincount(y[train], minlength=10).argmax()
        assert found["accuracy"][i] == pytest.approx(np.mean(y[test] == favourite))
    assert state.bytes_sent == 0
    scene.learner.close()


def test_weighted_means_are_those_of_the_formula() -> None:
    matrix = torch.tensor([[1.0, 2.0], [5.0, 5.0], [3.0, 10.0]])
    np.testing.assert_array_equal(weighted_mean(matrix, np.array([0, 2]), np.array([0.25, 0.75])), [2.5, 8.0])


@pytest.mark.parametrize("kind", ["fedavg", "local"])
def test_measures_are_of_all_answers_together(kind: str) -> None:
    """Not means over clients: who has more test samples counts more, and classes are those of all."""
    from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

    scene = prepare(
        served(kind, evaluate_on="own", test_share=0.4, partition={"kind": "dirichlet", "alpha": 0.3})
    )
    state, done = play_round(scene, begin(scene))
    found = evaluate(scene, state, done, 0.0)
    how = next(
        iter(scene.parts.federation.evaluation_models(state.models, state.federation, scene.context).values())
    )
    asked, answers, network = [], [], scene.task.network().eval()
    for i, own in enumerate(scene.split.test):
        row = int(how.row[i])
        scene.task.layout.read(network, how.models.parameters[row], how.models.buffers[row])
        with torch.no_grad():
            answers += network(scene.task.x[torch.from_numpy(own)]).argmax(1).tolist()
        asked += scene.dataset.y_train[own].tolist()
    one = found.round_row.iloc[0]
    assert one["accuracy_pooled"] == pytest.approx(accuracy_score(asked, answers))
    assert one["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(asked, answers))
    assert one["macro_f1"] == pytest.approx(f1_score(asked, answers, average="macro", zero_division=0))
    rows = found.client_rows
    for measure, pooled in (("accuracy", "accuracy_pooled"), ("macro_f1", "macro_f1")):
        assert abs(one[pooled] - rows[measure].mean()) > 1e-3, "both alike: nothing was tested"
    scene.learner.close()
