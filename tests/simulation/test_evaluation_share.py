"""Evaluations on a share of the test samples: which, how many, when, and that nothing else changes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam import scene
from fedroam.data.preparing import limit
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.recording import Run
from fedroam.runner import run
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from fedroam.sweep.measuring import UnitCosts
from support.tiny import tiny

ROUNDS = {"rounds": 7, "evaluate_every": 2}  # evaluated: 0, 2, 4, 6 and 7


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 20))
def test_the_last_evaluations_are_whole(rounds: int, every: int, whole: int) -> None:
    experiment = Experiment(rounds=rounds, evaluate_every=every, evaluate_share=0.5, evaluate_whole=whole)
    evaluated = sorted({*range(0, rounds, every), rounds})
    assert [t for t in evaluated if t >= experiment.whole_from] == evaluated[-whole:]
    assert experiment.replace(evaluate_share=1.0).whole_from == 0


def test_the_curve_is_of_a_share_and_all_else_as_ever(tmp_path: Path) -> None:
    plain = run(tiny(**ROUNDS), tmp_path / "plain")
    shared = run(tiny(**ROUNDS, evaluate_share=0.1, evaluate_whole=2), tmp_path / "shared")
    asked = shared.clients.groupby("round")["samples"].unique()
    whole = int(plain.clients["samples"].iloc[0])
    assert {t: list(found) for t, found in asked.items()} == {
        t: [whole if t > 4 else math.ceil(0.1 * whole)] for t in (0, 2, 4, 6, 7)
    }
    for of in ("rounds", "clients"):
        first, second = (getattr(one, of).drop(columns="seconds", errors="ignore") for one in (plain, shared))
        late = first["round"] > 4
        assert first[late].equals(second[late])
    same = ["round", "bytes", "energy", "consensus_distance", "train_loss", "degree_mean"]
    assert plain.rounds[same].equals(shared.rounds[same])
    assert not np.array_equal(plain.rounds["loss"][:3], shared.rounds["loss"][:3])


def test_the_curve_is_that_of_the_samples_that_are_named(tmp_path: Path) -> None:
    experiment = tiny(**ROUNDS, evaluate_share=0.3, evaluate_whole=1)
    found = run(experiment, tmp_path / "run")
    scene = prepare(experiment)
    state, _ = play_round(scene, begin(scene))
    state, _ = play_round(scene, state)
    (part,) = scene.test_parts(2) or ()
    counts = np.bincount(scene.test_y[part].numpy(), minlength=10)
    whole = np.bincount(scene.test_y.numpy(), minlength=10)
    assert np.abs(counts - 0.3 * whole).max() < 1.01  # classes in proportion, up to rounding
    assert len(np.unique(part)) == len(part) == math.ceil(0.3 * len(scene.test_y))
    row, size = state.models.parameters[3].numpy().astype(np.float64), 640
    x = scene.test_x[part].numpy().reshape(len(part), -1)
    answers = (x @ row[:size].reshape(10, 64).T + row[size:]).argmax(1)
    right = float((answers == scene.test_y[part].numpy()).mean())
    told = found.clients.set_index(["round", "client"])["accuracy"]
    assert told[2, 3] == pytest.approx(right)
    other = prepare(experiment.replace(seed=5))
    assert [list(p) for p in other.test_parts(2) or ()] == [list(part)]  # the same for every seed


def own(folder: Path, **settings: object) -> Run:
    return run(tiny(**ROUNDS, evaluate_on="own", test_share=0.4, **settings), folder)


def test_of_a_clients_own_test_samples(tmp_path: Path) -> None:
    plain, shared = own(tmp_path / "a"), own(tmp_path / "b", evaluate_share=0.25, evaluate_whole=3)
    held = plain.clients.set_index(["round", "client"])["samples"]
    asked = shared.clients.set_index(["round", "client"])["samples"]
    for (t, client), number in held.items():
        assert asked[t, client] == (number if t > 2 else math.ceil(0.25 * number))
    late = plain.rounds["round"] > 2
    assert plain.rounds[late].drop(columns="seconds").equals(shared.rounds[late].drop(columns="seconds"))


@pytest.mark.parametrize("mode", [{}, {"evaluate_on": "own", "test_share": 0.4}], ids=["shared", "own"])
def test_the_samples_are_chosen_once(mode: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same in every round; to choose them anew took longer than small models take to judge them."""
    chosen: list[int] = []

    def counted(labels: np.ndarray, count: int, setting: str, purpose: str) -> np.ndarray:
        chosen.append(count)
        return limit(labels, count, setting, purpose)

    monkeypatch.setattr(scene, "limit", counted)
    experiment = tiny(**ROUNDS, evaluate_share=0.3, evaluate_whole=1, **mode)
    one, again = prepare(experiment), prepare(experiment)
    first = one.test_parts(0) or []
    count = len(chosen)
    assert count == (experiment.clients if mode else 1)
    for t in (2, 4, 6):
        for found, expected in zip(one.test_parts(t) or (), first, strict=True):
            np.testing.assert_array_equal(found, expected)
    assert len(chosen) == count
    for found, expected in zip(again.test_parts(6) or (), first, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_digests_stay_and_what_is_no_share_is_refused() -> None:
    assert tiny().digest == tiny(evaluate_share=1.0, evaluate_whole=10).digest
    assert tiny().digest != tiny(evaluate_share=0.5).digest
    for share in (0.0, 1.5, math.nan):
        with pytest.raises(InputError, match="evaluate_share"):
            tiny(evaluate_share=share)


def test_the_estimate_counts_what_is_left_out() -> None:
    costs = UnitCosts(start=0, round=0, evaluation=1.0, checkpoint=0, end=0)
    experiment = Experiment(rounds=100, evaluate_every=2, evaluate_share=0.1, evaluate_whole=5)
    assert costs.seconds(experiment) == pytest.approx(5 + 45 * 0.1)
    assert costs.seconds(experiment.replace(evaluate_share=1.0)) == pytest.approx(50)
