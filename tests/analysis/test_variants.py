"""Runs sorted into variants, and means over seeds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.analysis import variants
from fedroam.analysis.variants import FREE, mean_and_error, over_seeds
from fedroam.components import FAMILIES, changes_results, kinds
from fedroam.experiment import Experiment
from fedroam.recording import open_run, write_json
from support.made_runs import made_run


def test_equal_names_with_other_settings_stay_apart(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path / "a", "random", 0, [0.1], settings={"mobility": {"kind": "random", "mobile": 1}}),
        made_run(tmp_path / "b", "random", 0, [0.2], settings={"mobility": {"kind": "random", "mobile": 5}}),
    ]
    assert [group.label for group in variants(runs)] == [
        "random (mobility.mobile=1)",
        "random (mobility.mobile=5)",
    ]


def test_a_network_and_a_simulation_of_one_experiment_stay_apart(tmp_path: Path) -> None:
    """Also those of before networks said so by themselves, and by more than one seed."""
    runs = []
    for name, facts in (
        ("simulated", {"computed": ["engine: cpu"]}),
        ("network", {"where": "network", "computed": ["clients: nodes of a network", "engine: cpu"]}),
        ("older", {"computed": ["clients: nodes of a network", "engine: cpu"]}),
    ):
        for seed in (0, 1):
            made = made_run(tmp_path / name / str(seed), "", seed, [0.1 + seed])
            write_json(made.folder / "environment.json", {**made.environment, **facts})
            runs.append(open_run(made.folder))
    found = variants(runs)
    assert [(group.label, len(group.runs)) for group in found] == [("simulation", 2), ("network", 2)]
    named = [made_run(tmp_path / f"named {k}", "dam", 0, [0.1]) for k in range(2)]
    write_json(named[1].folder / "environment.json", {"where": "network"})
    labels = [group.label for group in variants([open_run(each.folder) for each in named])]
    assert labels == ["dam (simulation)", "dam (network)"]


def test_runs_without_a_name_are_told_by_what_varies(tmp_path: Path) -> None:
    runs = [
        made_run(
            tmp_path / f"{kind}{radius}{lr}",
            "",
            0,
            [0.1],
            settings={
                "mobility": {"kind": kind, **({"mobile": 2, "a_step": 5.0} if kind == "random" else {})},
                "contacts": {"kind": "radius", "radius": radius},
                "training": {"kind": "sgd", "lr": lr, "copy": lr},
            },
        )
        for kind in ("static", "random")
        for radius in (1.5, 3.0)
        for lr in (0.1, 0.2)
    ]
    labels = [group.label for group in variants(runs)]
    assert labels[0] == "static, radius=1.5, lr=0.1"  # not what follows from the kind, nor what says lr again
    assert labels[-1] == "random, radius=3.0, lr=0.2"
    assert len(set(labels)) == 8


def test_names_that_a_sweep_made_lose_their_sections(tmp_path: Path) -> None:
    names = [
        "mobility.kind=static, training.lr=0.1",
        "mobility.kind=dcm, training.lr=0.2",
        "own name, contacts.radius=3",
    ]
    runs = [made_run(tmp_path / str(k), name, 0, [0.1]) for k, name in enumerate(names)]
    assert [group.label for group in variants(runs)] == [
        "static, lr=0.1",
        "dcm, lr=0.2",
        "own name, radius=3",
    ]
    alike = [made_run(tmp_path / name, name, 0, [0.1]) for name in ("a.k=1", "b.k=1")]
    assert [group.label for group in variants(alike)] == ["a.k=1", "b.k=1"]


def test_settings_without_influence_do_not_split_a_variant(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, "", seed, [0.1], settings={"engine": {"kind": "cpu", "workers": seed + 1}})
        for seed in (0, 1)
    ]
    assert [(group.label, len(group.runs)) for group in variants(runs)] == [("made", 2)]


def test_a_seed_counts_once_whatever_cannot_change_it(tmp_path: Path) -> None:
    """Two copies of a run are not two observations."""
    apart: list[dict[str, Any]] = [
        {"record_movement": "none"},
        {"execution": {"kind": "ray", "cpus": 2}},
        {"engine": {"kind": "batched", "recorded": False}},
    ]
    for k, settings in enumerate(apart):
        base = {"engine": {"kind": "batched"}} if "engine" in settings else {}
        runs = [
            made_run(tmp_path / f"{k}{copy}", "", seed, [0.1], settings=more)
            for copy, more in enumerate((base, base | settings))
            for seed in (0, 1)
        ]
        (group,) = variants(runs)
        assert [run.folder for run in group.runs] == [run.folder for run in runs[:2]]


def test_every_setting_without_influence_is_known() -> None:
    found = {name for name, info in Experiment.model_fields.items() if not changes_results(info)}
    for family in FAMILIES:
        parts = kinds(family).values()
        found |= {
            f"{family}.{name}"
            for part in parts
            if part.__module__.startswith("fedroam.")
            for name, info in part.model_fields.items()
            if not changes_results(info)
        }
    assert found <= set(FREE)


def test_over_seeds_takes_rounds_that_all_have(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, "", 0, [0.1, 0.2, 0.3], done=False, planned=90),
        made_run(tmp_path, "", 1, [0.3, 0.6], done=False, planned=90),
    ]
    (group,) = variants(runs)
    table = over_seeds(group, "accuracy")
    assert table["round"].tolist() == [0, 10]
    assert table["mean"].tolist() == pytest.approx([0.2, 0.4])
    assert table["error"].tolist() == pytest.approx([0.1, 0.2])
    assert over_seeds(group, "no such column")["mean"].isna().all()


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20), st.floats(-1e3, 1e3))
def test_mean_and_error_shift(values: list[float], shift: float) -> None:
    mean, error = mean_and_error(values)
    moved, same = mean_and_error(np.add(values, shift))
    assert moved == pytest.approx(mean + shift, abs=1e-9)
    assert same == pytest.approx(error, abs=1e-9)
    assert error >= 0


def test_mean_and_error_of_few() -> None:
    assert mean_and_error([2.0])[0] == 2.0
    assert math.isnan(mean_and_error([2.0])[1])
    assert all(map(math.isnan, mean_and_error([])))
    assert all(map(math.isnan, mean_and_error([1.0, math.inf])))
