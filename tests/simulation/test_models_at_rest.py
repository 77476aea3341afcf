"""Runs whose models are held in 16 bits: rounded whenever one is written, and like all others besides."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from fedroam.analysis import compare_runs
from fedroam.components import kinds
from fedroam.deploy.site.experiment import check_fits
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.learning import half_precision as module
from fedroam.learning.exchange import cpu_columns
from fedroam.runner import run
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from fedroam.sweep.estimate import rough_cost
from support.by_hand_rounding import played, scene_by_hand
from support.tiny import example, own_data, play, same_tables, tiny

HALF: dict[str, Any] = {"models_at_rest": "float16"}
# What some federations need: an extractor with parameters, and validation samples.
SPLIT: dict[str, Any] = {"model": {"kind": "mlp", "hidden": (6,)}, "validation_share": 0.2}
FEDERATIONS = list(kinds("federation"))
# They write a model and read it again within one step, or reckon with what it was rounded from.
SEVERAL_STORES = ("ad_psgd", "fedfomo", "hierarchical_fedasync", "hierarchical_fedbuff", "moon", "push_sum")


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        *((kind, "cpu") for kind in FEDERATIONS),
        *itertools.product(("decentralized", "fedavg", "mohawk"), ("reference", "batched")),
    ],
)
def test_it_is_a_run_whose_models_are_rounded_by_hand(kind: str, engine: str) -> None:
    experiment = tiny(federation=example("federation", kind), engine=engine, **SPLIT, **HALF)
    found = played(prepare(experiment), 4).arrays()
    wanted = played(scene_by_hand(experiment), 4).arrays()
    assert found["models.parameters"].dtype == np.float16
    assert {array.dtype for name, array in found.items() if name.startswith("federation")}.isdisjoint(
        {np.dtype(np.float16)}
    )
    if kind in SEVERAL_STORES:
        apart = found["models.parameters"].astype(np.float32) - wanted["models.parameters"]
        assert np.abs(apart).max() < 2e-3  # a few steps of the format
        return
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("kind", FEDERATIONS)
def test_it_repeats_and_goes_on_from_any_checkpoint(kind: str) -> None:
    experiment = tiny(federation=example("federation", kind), engine="cpu", **SPLIT, **HALF)
    whole = play(experiment)
    assert np.isfinite(whole.rounds["loss"]).all()
    for reached in (0, 2):
        rest = play(experiment, (reached, whole.states[reached]))
        assert rest.states == whole.states[reached + 1 :]
        for name, table in rest.tables().items():
            late = whole.tables()[name]
            assert table.equals(late[late["round"] > reached].reset_index(drop=True)), name


@pytest.mark.parametrize(
    "settings",
    [
        {"attack": {"kind": "alie"}, "aggregation": "krum", "clients": 9},
        {"attack": "gaussian", "federation": "fedavg"},
        {"attack": "sign_flip", "federation": "push_sum"},
        {"aggregation": "median", "federation": {"kind": "mohawk", "k2": 2}},
        {"evaluate_on": "own", "test_share": 0.3, "federation": "gpfl", "model": SPLIT["model"]},
        {
            "clock": {"kind": "seconds", "length": 2.0},
            "link": {"kind": "fixed", "throughput": 0.02, "broken": "partial", "chunk": 64},
        },
        {
            "start_models": "independent",
            "data": own_data((1, 28, 28)),
            "model": "mnist_cnn",
            "training": {"kind": "sgd", "lr": 0.05, "momentum": 0.9, "batch_size": 2, "steps": 2},
        },
    ],
)
def test_it_repeats_whatever_else_is_set(settings: dict[str, Any]) -> None:
    settings = {"training": {"kind": "sgd", "lr": 0.05, "batch_size": 8, "steps": 2}, **settings}
    experiment = tiny(engine="cpu", rounds=3, **HALF, **settings)
    whole = play(experiment)
    rest = play(experiment, (1, whole.states[1]))
    assert rest.states == whole.states[2:]
    same_tables({"rounds": rest.rounds}, {"rounds": whole.rounds[2:].reset_index(drop=True)})


def test_it_learns_what_float32_learns() -> None:
    own: dict[str, Any] = {"rounds": 20, "evaluate_every": 20, "engine": "cpu", "data": "digits"}
    whole, half = (play(tiny(**own, models_at_rest=held)).rounds for held in ("float32", "float16"))
    assert not whole["loss"].equals(half["loss"])
    assert abs(whole["accuracy"].iloc[-1] - half["accuracy"].iloc[-1]) < 0.01
    # What is sent is the method's, and where everybody is as well.
    for column in ("bytes", "energy", "air_time", "degree_mean", "active"):
        assert whole[column].equals(half[column])


@pytest.mark.parametrize("kind", ["decentralized", "fedavg", "mohawk", "fedasync", "local"])
def test_models_are_widened_in_small_parts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clients, widest = 40, 0
    plain = module._widened

    def counted(each: Any) -> Any:
        nonlocal widest
        found = plain(each)
        if isinstance(each, module.HalfPrecision):
            widest = max(widest, found.numel())
        return found

    monkeypatch.setattr(module, "_widened", counted)
    model = {"kind": "mlp", "hidden": (128,)}
    experiment = tiny(
        clients=clients, federation=example("federation", kind), engine="cpu", model=model, rounds=2, **HALF
    )
    run_in_memory = play(experiment)
    assert len(run_in_memory.rounds) == 3
    size = prepare(experiment).task.layout.size
    block = clients * cpu_columns(clients)
    assert block < clients * size / 4
    assert 0 < widest <= max(size, block), "more than a model, or a block of columns, at a time"


# --- what is told of it -----------------------------------------------------------------------------------------


def test_the_run_folder_and_reports_tell(tmp_path: Path) -> None:
    experiment = tiny(rounds=2, keep_models="all", **HALF)
    done = run(experiment, tmp_path / "half")
    assert done.status["models_at_rest"] == "float16"
    assert 'models_at_rest = "float16"' in (tmp_path / "half" / "experiment.toml").read_text()
    assert "models_at_rest" not in json.loads(
        (run(tiny(rounds=2), tmp_path / "whole").folder / "run.json").read_text()
    )
    (checkpoint, *_) = sorted((tmp_path / "half" / "checkpoints").iterdir())
    assert load_file(checkpoint)["models.parameters"].dtype == np.float16
    assert all(
        tensor.dtype == np.float32 for tensor in load_file(done.folder / "models.safetensors").values()
    )
    told = [note for note in compare_runs([done]).notes if "float16" in note]
    assert len(told) == 1
    assert "rounded whenever one is written" in told[0]
    assert not [
        note for note in compare_runs([run(tiny(rounds=2), tmp_path / "whole")]).notes if "at rest" in note
    ]


def test_a_stopped_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    experiment = tiny(federation={"kind": "mohawk", "k2": 2}, **HALF)
    whole = run(experiment, tmp_path / "whole")
    begun = run(experiment.replace(rounds=4), tmp_path / "begun")
    for each in sorted((begun.folder / "checkpoints").iterdir()):
        first, second = (
            load_file(folder / "checkpoints" / each.name) for folder in (whole.folder, begun.folder)
        )
        assert all(np.array_equal(first[name], second[name]) for name in first)
    same_tables({"rounds": whole.rounds}, {"rounds": begun.rounds})


def test_a_checkpoint_of_another_type_is_refused() -> None:
    whole = play(tiny(rounds=1))
    with pytest.raises(InputError, match=r"'models.parameters' is float32 .*, expected float16"):
        play(tiny(rounds=1, **HALF), (1, whole.states[1]))


def test_it_is_part_of_what_identifies_a_run() -> None:
    assert tiny().digest == tiny(models_at_rest="float32").digest != tiny(**HALF).digest


def test_the_memory_of_a_sweep_reckons_with_it() -> None:
    experiment = tiny()
    size = prepare(experiment).task.layout.size
    saved = rough_cost(experiment).memory - rough_cost(experiment.replace(**HALF)).memory
    assert saved == 4 * experiment.clients * size  # of the models and of their checkpoint, half


# --- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", ["bfloat16", "half", 16])
def test_another_type_is_refused(found: object) -> None:
    with pytest.raises(InputError, match=r"models_at_rest = .*'float32' or 'float16'"):
        Experiment(models_at_rest=found)


def test_a_cluster_is_refused() -> None:
    with pytest.raises(InputError, match=r"models_at_rest = 'float16': execution kind 'ray' .* is 'float32'"):
        prepare(tiny(execution="ray", **HALF))


def test_a_network_is_refused() -> None:
    check_fits(tiny())
    with pytest.raises(InputError, match=r"models_at_rest = 'float16': on a network .* is 'float32'"):
        check_fits(tiny(**HALF))


def test_too_large_a_value_is_told_as_divergence(tmp_path: Path) -> None:
    scene = prepare(tiny(**HALF))
    state = begin(scene)
    state.models.parameters[0, 0] = 1e5
    assert bool(torch.isinf(state.models.parameters[0, 0]))
    state, _ = play_round(scene, state)
    scene.learner.close()
    wild = run(tiny(rounds=2, training={"kind": "sgd", "lr": 1e5}, **HALF), tmp_path / "wild")
    assert wild.status["diverged_at"] is not None
