from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedroam.components import kinds
from fedroam.data import Dataset, memory
from fedroam.errors import FedroamError, InputError
from fedroam.experiment import Experiment
from fedroam.learning import Job, consensus_distance, sums
from fedroam.measurement import RoundResult, evaluate
from fedroam.randomness import stream
from fedroam.runner import run
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from support.tiny import example, own_data, play, same_tables, tiny

ROUNDS = [
    "round", "accuracy", "accuracy_std", "loss", "accuracy_mean_model", "consensus_distance", "degree_mean",
    "isolated", "active", "bytes", "seconds",
]  # fmt: skip
CLIENTS = ["round", "client", "group", "accuracy", "loss", "degree", "x", "y"]


# --- a slow simulation from the papers' pseudocode, with nothing of fedroam's learning, mixing or contacts --------


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class Slow:
    """Softmax regression by full-batch gradient descent with momentum, in float64, as the papers write it.

    Given: the data, who holds what, the start places and the start model, and the uniform draws of each round.
    """

    def __init__(self, scene: Scene) -> None:
        self.experiment = scene.experiment
        self.data: Dataset = scene.dataset
        self.held = scene.split.train
        self.places = scene.parts.mobility.start(scene.world)["position"].copy()
        start = scene.start_models().parameters.numpy().astype(np.float64)
        features = math.prod(self.data.shape)
        self.w = start[:, : 10 * features].reshape(-1, 10, features)  # w[i]: classes x features
        self.b = start[:, 10 * features :]
        self.vw, self.vb = np.zeros_like(self.w), np.zeros_like(self.b)
        self.x = self.data.x_train.reshape(len(self.data.y_train), -1).astype(np.float64)
        self.bytes = 0

    def local_update(self) -> None:
        training: Any = self.experiment.training
        for i, samples in enumerate(self.held):
            x, y = self.x[samples], self.data.y_train[samples]
            error = (softmax(x @ self.w[i].T + self.b[i]) - np.eye(10)[y]) / len(y)
            gw = error.T @ x + training.weight_decay * self.w[i]
            gb = error.sum(axis=0) + training.weight_decay * self.b[i]
            self.vw[i] = training.momentum * self.vw[i] + gw
            self.vb[i] = training.momentum * self.vb[i] + gb
            self.w[i] = self.w[i] - training.lr * self.vw[i]
            self.b[i] = self.b[i] - training.lr * self.vb[i]

    def move(self, t: int) -> None:
        mobility: Any = self.experiment.mobility
        draws = stream(self.experiment.seed, "moves", t).random(len(self.places))
        for i in range(mobility.mobile):
            p, q = self.places[i]
            options = [
                (a, c)
                for a in range(1, mobility.grid + 1)
                for c in range(1, mobility.grid + 1)
                if math.hypot(a - p, c - q) <= mobility.max_step
            ]
            self.places[i] = options[int(draws[i] * len(options))]

    def consensus(self) -> None:
        n, radius = len(self.places), self.experiment.contacts.radius  # type: ignore[attr-defined]
        near = [
            [j for j in range(n) if j != i and math.dist(self.places[i], self.places[j]) <= radius]
            for i in range(n)
        ]
        weights = np.zeros((n, n))
        for i in range(n):
            if self.experiment.mixing.kind == "data_size":  # Reza et al.: x_i = sum_j w_ij x_j
                total = len(self.held[i]) + sum(len(self.held[k]) for k in near[i])
                for j in [*near[i], i]:
                    weights[i, j] = len(self.held[j]) / total
            else:  # Jahani et al., Eq. 2
                for j in near[i]:
                    weights[i, j] = 1 / (1 + max(len(near[i]), len(near[j])))
                weights[i, i] = 1 - weights[i].sum()
            self.bytes += 4 * (self.w[0].size + self.b[0].size) * len(near[i])
        self.w = np.einsum("ij,jkl->ikl", weights, self.w)
        self.b = weights @ self.b

    def round(self, t: int) -> None:
        self.local_update()
        if self.experiment.federation.order == "move_then_mix":  # type: ignore[attr-defined]
            self.move(t)
            self.consensus()
        else:
            self.consensus()
            self.move(t)

    def judged(self) -> tuple[np.ndarray, np.ndarray]:
        x = self.data.x_test.reshape(len(self.data.y_test), -1).astype(np.float64)
        accuracy, loss = [], []
        for w, b in zip(self.w, self.b, strict=True):
            p = softmax(x @ w.T + b)
            accuracy.append((p.argmax(1) == self.data.y_test).mean())
            loss.append(-np.log(p[np.arange(len(x)), self.data.y_test]).mean())
        return np.array(accuracy), np.array(loss)


@pytest.mark.parametrize("order", ["move_then_mix", "mix_then_move"])
@pytest.mark.parametrize("mixing", ["data_size", "metropolis"])
@pytest.mark.parametrize("engine", ["reference", {"kind": "cpu", "workers": 2}])
def test_a_run_is_that_of_the_papers_pseudocode(order: str, mixing: str, engine: Any) -> None:
    experiment = tiny(
        clients=6,
        rounds=5,
        evaluate_every=1,
        partition={"kind": "dirichlet", "alpha": 0.3},
        training={"kind": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4},
        mobility={"kind": "random", "grid": 6, "mobile": 3, "max_step": 3.0},
        contacts={"kind": "radius", "radius": 2.0},
        mixing=mixing,
        federation={"kind": "decentralized", "order": order},
        engine=engine,
        seed=4,
    )
    scene = prepare(experiment)
    slow, state = Slow(scene), begin(scene)
    contacts = 0
    for t in range(1, 6):
        slow.round(t)
        state, done = play_round(scene, state)
        assert list(done.learners) == list(range(6))
        np.testing.assert_array_equal(state.mobility["position"], slow.places)
        found = state.models.parameters.numpy()
        np.testing.assert_allclose(found, np.hstack([slow.w.reshape(6, -1), slow.b]), rtol=1e-4, atol=2e-5)
        assert state.bytes_sent == slow.bytes
        scores = scene.learner.evaluate(state.models, range(6), scene.test_x, scene.test_y)
        accuracy, loss = slow.judged()
        np.testing.assert_allclose(scores.accuracy, accuracy, atol=2 / len(scene.test_y))
        np.testing.assert_allclose(scores.loss, loss, rtol=1e-4)
        contacts += done.meeting.graph.nnz
    scene.learner.close()
    assert contacts > 0, "nobody met: the comparison says nothing about mixing"


def test_the_orders_differ() -> None:
    a = play(tiny(federation={"order": "move_then_mix"}))
    b = play(tiny(federation={"order": "mix_then_move"}))
    assert a.states[-1] != b.states[-1]
    # the same moves; mixing before the move happens at the places the move before led to
    later = b.positions[b.positions["round"] >= 2].reset_index(drop=True)
    earlier = a.positions[(a.positions["round"] >= 1) & (a.positions["round"] < 4)].reset_index(drop=True)
    pd.testing.assert_frame_equal(later.drop(columns="round"), earlier.drop(columns="round"))


# --- pairing and threads ------------------------------------------------------------------------------------------


def test_runs_of_one_seed_are_paired_over_mobility() -> None:
    scenes = [prepare(tiny(mobility=example("mobility", kind), seed=3)) for kind in kinds("mobility")]
    first = scenes[0]
    assert len(scenes) >= 2
    for scene in scenes[1:]:
        for part in ("train", "validation", "test"):
            for one, other in zip(getattr(first.split, part), getattr(scene.split, part), strict=True):
                np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(first.world.class_counts, scene.world.class_counts)
        assert torch.equal(first.start_models().parameters, scene.start_models().parameters)
        for t in (1, 2):
            jobs = [[*Job(2, 2, s.split.train[2], t).batches(s.task)] for s in (first, scene)]
            assert len(jobs[0]) == 2
            for one, other in zip(*jobs, strict=True):
                np.testing.assert_array_equal(one, other)
    other_seed = prepare(tiny(seed=4))
    assert not torch.equal(first.start_models().parameters, other_seed.start_models().parameters)
    assert any(len(a) != len(b) for a, b in zip(first.split.train, other_seed.split.train, strict=True))


def test_batches_differ_by_round_and_client() -> None:
    scene = prepare(tiny())
    held = np.arange(40)
    seen = {(t, i): np.concatenate([*Job(i, i, held, t).batches(scene.task)]) for t in (1, 2) for i in (0, 1)}
    assert len({tuple(batch) for batch in seen.values()}) == 4


@pytest.mark.parametrize("model", ["mlp", "lenet_gn"])
def test_results_do_not_depend_on_the_number_of_threads(model: str) -> None:
    def with_threads(count: int) -> Any:
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            return play(
                tiny(data=own_data(), model=model, engine={"kind": "cpu", "workers": count}, rounds=3)
            )
        finally:
            torch.set_num_threads(before)

    one, two = with_threads(1), with_threads(2)
    same_tables(one.tables(), two.tables())
    assert one.states == two.states


def test_equal_and_independent_start_models() -> None:
    equal = prepare(tiny()).start_models().parameters
    assert torch.equal(equal[0].expand_as(equal), equal)
    independent = prepare(tiny(start_models="independent")).start_models().parameters
    assert torch.equal(independent[0], equal[0])
    assert len({tuple(row.tolist()) for row in independent}) == 5


# --- what is recorded ---------------------------------------------------------------------------------------------


def test_tables_have_the_columns_that_other_tools_rely_on(tmp_path: Path) -> None:
    found = run(tiny(rounds=5, evaluate_every=2), tmp_path / "run")
    assert [c for c in found.rounds.columns if c in ROUNDS] == ROUNDS
    more = {"loss_mean_model", "train_loss", "accuracy_pooled", "balanced_accuracy", "macro_f1"}
    assert set(found.rounds.columns) - set(ROUNDS) >= more
    assert [c for c in found.clients.columns if c in CLIENTS] == CLIENTS
    assert set(found.clients.columns) - set(CLIENTS) >= {"samples", "balanced_accuracy", "macro_f1"}
    assert found.rounds["round"].tolist() == [0, 2, 4, 5]  # the first and the last are evaluated always
    assert found.clients["round"].tolist() == [r for r in (0, 2, 4, 5) for _ in range(5)]
    assert found.clients["client"].tolist() == list(range(5)) * 4
    assert found.clients["group"].tolist() == ["mobile", "mobile", "static", "static", "static"] * 4
    assert found.positions["round"].tolist() == [r for r in range(6) for _ in range(5)]
    assert found.rounds["seconds"].is_monotonic_increasing
    assert found.rounds["bytes"].is_monotonic_increasing
    assert not found.rounds.drop(columns="train_loss").isna().any().any()
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        ".lock", "checkpoints", "clients.parquet", "environment.json", "experiment.toml",
        "models.safetensors", "movement", "partition.parquet", "preprocessing.json", "rounds.parquet", "run.json",
        "world.json",
    ]  # fmt: skip


def test_round_zero_is_the_state_before_learning() -> None:
    played = play(tiny())
    zero = played.rounds.iloc[0]
    assert zero["round"] == 0
    assert zero["active"] == 0
    assert zero["bytes"] == 0
    assert zero["consensus_distance"] == 0  # all models start equal
    assert zero["accuracy_std"] == 0
    assert zero["accuracy"] == zero["accuracy_mean_model"]
    assert math.isnan(zero["train_loss"])


def test_rounds_summarise_clients() -> None:
    played = play(tiny(rounds=3, contacts={"kind": "radius", "radius": 1.0}, start_models="independent"))
    assert played.rounds["isolated"].max() > 0
    for _, row in played.rounds.iterrows():
        own = played.clients[played.clients["round"] == row["round"]]
        assert row["accuracy"] == pytest.approx(own["accuracy"].mean(), abs=1e-12)
        assert row["accuracy_std"] == pytest.approx(own["accuracy"].std(ddof=0), abs=1e-12)
        assert row["loss"] == pytest.approx(own["loss"].mean(), abs=1e-12)
        assert row["degree_mean"] == own["degree"].mean()
        assert row["isolated"] == (own["degree"] == 0).sum()
        pairs = played.contacts[played.contacts["round"] == row["round"]]
        met = np.bincount(pairs[["i", "j"]].to_numpy().ravel(), minlength=5)
        assert met.tolist() == own["degree"].tolist()
        places = played.positions[played.positions["round"] == row["round"]]
        np.testing.assert_array_equal(places[["x", "y"]].to_numpy(), own[["x", "y"]].to_numpy())
        apart = places[["x", "y"]].to_numpy()[:, None] - places[["x", "y"]].to_numpy()[None]
        near = (np.hypot(apart[..., 0], apart[..., 1]) <= 1.0) & ~np.eye(5, dtype=bool)
        assert near.sum(axis=1).tolist() == own["degree"].tolist()
    assert (played.contacts["i"] < played.contacts["j"]).all()
    added = played.rounds["bytes"].diff().iloc[1:].to_numpy()
    degrees = played.clients.groupby("round")["degree"].sum().iloc[1:].to_numpy()
    np.testing.assert_array_equal(added, degrees * 4 * 650)


def test_evaluation_on_own_samples() -> None:
    experiment = tiny(evaluate_on="own", test_share=0.3, validation_share=0.1, rounds=2, evaluate_every=1)
    scene = prepare(experiment)
    sizes = [len(part) for part in scene.split.test]
    assert len(set(sizes)) > 1
    played = play(experiment)
    last = played.clients[played.clients["round"] == 2]
    assert last["samples"].tolist() == sizes
    models = scene.start_models()
    for i, own in enumerate(scene.split.test):
        scores = scene.learner.evaluate(models, [i], scene.task.x[own], scene.task.y[own])
        first = played.clients[played.clients["round"] == 0].iloc[i]
        assert first["accuracy"] == scores.accuracy[0]
        assert first["loss"] == pytest.approx(scores.loss[0], rel=1e-6)
    for i in range(5):
        parts = [set(getattr(scene.split, name)[i]) for name in ("train", "validation", "test")]
        assert sum(map(len, parts)) == len(set.union(*parts))
    shared = play(tiny(rounds=1))
    assert set(shared.clients["samples"]) == {len(prepare(tiny()).dataset.y_test)}


@pytest.mark.parametrize(("what", "rounds"), [("all", [0, 1, 2, 3]), ("evaluated", [0, 2, 3]), ("none", [])])
def test_which_movement_is_kept(what: str, rounds: list[int], tmp_path: Path) -> None:
    found = run(tiny(rounds=3, evaluate_every=2, record_movement=what), tmp_path / "run")
    if rounds:
        assert sorted(set(found.positions["round"])) == rounds
        assert set(found.contacts["round"]) <= set(rounds)
    else:
        assert not (tmp_path / "run" / "movement").exists()
        with pytest.raises(InputError, match="positions"):
            _ = found.positions
    assert found.rounds["round"].tolist() == [0, 2, 3]


@pytest.mark.parametrize(("every", "kept"), [(1, [6, 7]), (3, [6, 7]), (5, [5, 7]), (100, [0, 7])])
def test_the_two_newest_checkpoints_are_kept(every: int, kept: list[int], tmp_path: Path) -> None:
    run(tiny(rounds=7, checkpoint_every=every), tmp_path / "run")
    names = sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == [f"round-{t:08d}.safetensors" for t in kept]


def test_how_often_is_saved_does_not_change_results(tmp_path: Path) -> None:
    runs = [run(tiny(rounds=6, checkpoint_every=every), tmp_path / str(every)) for every in (1, 4)]
    tables = [{name: r.table(name) for name in ("rounds", "clients", "positions", "contacts")} for r in runs]
    same_tables(*tables)


def test_with_a_pause_between_checkpoints_a_run_that_has_just_begun_begins_again(tmp_path: Path) -> None:
    """As in a sweep, where a short run is not to wait for the disk twice."""

    def broken(round: int, rounds: int, measurement: object) -> None:
        if round == 3:
            raise FedroamError("killed")

    folder = tmp_path / "run"
    with pytest.raises(FedroamError, match="killed"):
        run(tiny(), folder, observer=broken, checkpoint_pause=3600.0)
    assert not (folder / "checkpoints").exists()
    again, whole = run(tiny(), folder, checkpoint_pause=3600.0), run(tiny(), tmp_path / "whole")
    assert [p.name for p in (folder / "checkpoints").iterdir()] == ["round-00000004.safetensors"]
    names = ("rounds", "clients", "positions", "contacts")
    same_tables(*({name: found.table(name) for name in names} for found in (again, whole)))


def test_the_observer_sees_every_round(tmp_path: Path) -> None:
    seen: list[tuple[int, int, bool]] = []
    run(tiny(), tmp_path / "run", observer=lambda t, of, m: seen.append((t, of, m is not None)))
    assert seen == [(0, 4, True), (1, 4, False), (2, 4, True), (3, 4, False), (4, 4, True)]


# --- divergence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "lr", "finite"),
    [("softmax_regression", 3e3, True), ({"kind": "mlp", "hidden": (8, 8, 8)}, 9e5, False)],
)
def test_divergence_is_noticed(model: Any, lr: float, finite: bool, tmp_path: Path) -> None:
    training = {"kind": "sgd", "lr": lr, "momentum": 0.9, "batch_size": 8, "steps": 3}
    found = run(tiny(model=model, training=training, rounds=6, evaluate_every=2), tmp_path / "run")
    limit = 100 * math.log(10)
    losses = found.rounds.set_index("round")["loss"]
    judged = found.clients.groupby("round")["loss"]
    wild = [t for t in (0, 2, 4, 6) if not (judged.get_group(t) < limit).all()]
    assert wild, "this learning rate should diverge"
    assert found.status["diverged_at"] == wild[0]
    assert found.status["state"] == "done"
    assert 0 not in wild
    assert math.isfinite(losses[6]) == finite
    if finite:  # no number is NaN, which a check for NaN alone would miss
        assert losses[6] > limit
    assert len(found.rounds) == 4


def test_a_sound_run_has_not_diverged(tmp_path: Path) -> None:
    assert run(tiny(), tmp_path / "run").status["diverged_at"] is None


def test_a_single_diverged_client_is_seen_in_the_mean_loss() -> None:
    scene = prepare(tiny())
    state = begin(scene)
    state.models.parameters[1] = float("nan")
    found = evaluate(scene, state, RoundResult.nothing(state.meeting), 0.0)
    assert found.diverged
    assert math.isnan(found.round_row["loss"].iloc[0])
    assert found.client_rows["loss"].isna().sum() == 1


# --- small worlds and failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ["none", {"kind": "sign_flip", "clients": (2,)}])
def test_an_evaluation_sums_models_once(attack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their mean and how far they are from it are of one sum; where some attack, so are those of the honest."""
    scene = prepare(tiny(attack=attack))
    state, result = play_round(scene, begin(scene))
    honest = [0, 1, 3, 4] if len(scene.attackers) else list(range(5))
    rows = state.models.parameters[honest]
    summed: list[int] = []
    real = sums.column_sums

    def counted(matrix: torch.Tensor) -> torch.Tensor:
        if matrix.shape[1]:
            summed.append(len(matrix))
        return real(matrix)

    monkeypatch.setattr(sums, "column_sums", counted)
    found = evaluate(scene, state, result, 0.0).numbers["consensus_distance"]
    assert summed == ([5, 4] if len(scene.attackers) else [5])
    assert found == consensus_distance(rows)
    # Of other models, or where the mean is a method's own, they are.
    other = state.models.rows(torch.tensor([1, 3]))
    apart = consensus_distance(other.parameters)
    summed.clear()
    assert other.consensus_distance(state.models.mean()) == apart
    assert other.consensus_distance(other.rows(torch.tensor([0]))) == apart
    assert summed == [5, 2, 2]


def test_one_client_alone() -> None:
    alone = play(tiny(clients=1, mobility={"kind": "random", "mobile": 1}))
    assert alone.rounds["isolated"].iloc[-1] == 1
    assert alone.rounds["bytes"].iloc[-1] == 0
    assert alone.rounds["accuracy"].iloc[-1] == alone.rounds["accuracy_mean_model"].iloc[-1]
    assert alone.rounds["consensus_distance"].iloc[-1] == 0
    assert len(alone.contacts) == 0


def test_everybody_in_contact_under_metropolis_is_one_model() -> None:
    played = play(tiny(contacts={"kind": "radius", "radius": math.inf}))
    last = played.rounds.iloc[-1]
    assert last["degree_mean"] == 4
    assert last["consensus_distance"] < 1e-10
    assert last["accuracy"] == pytest.approx(last["accuracy_mean_model"], abs=2e-3)


def test_a_run_that_fails_says_so_and_can_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedroam import runner

    experiment, real = tiny(), runner.play_round
    whole = run(experiment, tmp_path / "whole")

    def failing(scene: Scene, state: Any) -> Any:
        if state.round == 2:
            raise FedroamError("the third round cannot be")
        return real(scene, state)

    monkeypatch.setattr(runner, "play_round", failing)
    with pytest.raises(FedroamError, match="third round"):
        run(experiment, tmp_path / "run")
    monkeypatch.undo()
    from fedroam.recording import open_run

    broken = open_run(tmp_path / "run")
    assert broken.status["state"] == "failed"
    assert "third round" in broken.status["reason"]
    assert broken.rounds["round"].tolist() == [0, 2]
    mended = run(experiment, tmp_path / "run")
    assert mended.status["state"] == "done"
    assert mended.status["reason"] == ""
    same_tables({"rounds": whole.rounds}, {"rounds": mended.rounds})


def test_wrong_worlds_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for settings in (
        {"clients": 3, "mobility": {"kind": "random", "mobile": 4}},
        {"partition": {"kind": "dirichlet", "min_samples": 10**6}},
    ):
        with pytest.raises(InputError):
            run(Experiment(**{"engine": "reference", **settings}), tmp_path / "run")
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_a_batch_of_one_that_a_network_cannot_learn_from_is_refused_beforehand(
    engine: str, tmp_path: Path
) -> None:
    """Two clients of 33 samples: of batches of 32 the last one of a pass holds one."""
    x = stream(1, "a batch of one").standard_normal((66, 4)).astype(np.float32)
    settings: dict[str, Any] = {
        "clients": 2,
        "rounds": 1,
        "data": memory(x, np.arange(66) % 2, x[:10], np.arange(10) % 2),
        "partition": "iid",
        "mobility": "random_walk",
        "engine": engine,
    }
    own = {"kind": "torch_module", "target": "support.convolutions:Normalised"}

    def told(model: Any, **training: Any) -> Experiment:
        return Experiment(**settings, model=model, training={"kind": "sgd", **training})

    with pytest.raises(
        InputError,
        match=r"training.batch_size = 32: of the 33 samples of client 0 a batch holds a single one, .*'torch_module'.*"
        r"ValueError: Expected more than 1 value.*training.drop_last = true",
    ):
        run(told(own, batch_size=32), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match=r"training.batch_size = 16"):
        prepare(told(own, batch_size=16, steps=3))  # 16, 16, 1
    prepare(told(own, batch_size=16, steps=2)).learner.close()  # 16, 16
    prepare(told("softmax_regression", batch_size=32)).learner.close()
    run(told(own, batch_size=32, drop_last=True), tmp_path / "run")
