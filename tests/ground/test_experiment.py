from __future__ import annotations

import math
import tomllib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import fedroam
from fedroam.components import FAMILIES, build
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.runner import default_folder
from support.tiny import tiny

# --- one experiment -------------------------------------------------------------------------------------------------


def test_defaults_are_a_whole_experiment() -> None:
    one = Experiment()
    for family in FAMILIES:
        assert getattr(one, family).kind == FAMILIES[family].default
    assert one == Experiment()
    with pytest.raises(ValidationError):
        one.seed = 3


def test_it_survives_its_own_file() -> None:
    for one in (Experiment(), tiny(), tiny(contacts={"kind": "radius", "radius": math.inf}, seed=2**62 - 1)):
        read = tomllib.loads(one.toml())
        assert Experiment(**read) == one
        assert Experiment(**read).digest == one.digest
        assert Experiment(**one.settings()) == one


def test_numbers_of_numpy_are_numbers() -> None:
    model = {"kind": "mlp", "hidden": [np.int64(5)]}
    given = {
        "clients": np.int64(3),
        "seed": np.int32(1),
        "validation_share": np.float32(0.25),
        "model": model,
    }
    one = Experiment(**given)
    plain = {"clients": 3, "seed": 1, "validation_share": 0.25, "model": {"kind": "mlp", "hidden": [5]}}
    assert one.digest == Experiment(**plain).digest
    assert one.toml() == Experiment(**plain).toml()
    assert len(fedroam.plan(given, seeds=np.int64(2)).runs) == 2  # type: ignore[arg-type]
    with pytest.raises(InputError, match="clients = True: input should be a valid integer"):
        Experiment(clients=True)


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("run", ["quickstart"], "run: experiment: found 'quickstart' (str), allowed is an Experiment"),
        ("run", [{"clients": 3}], "run: experiment: found {'clients': 3} (dict), allowed is an Experiment"),
        ("run", [tiny(), 5], "run: out: found 5 (int), allowed is the name of one file or folder"),
        (
            "run_plan",
            ["quickstart"],
            "run_plan: plan: found 'quickstart' (str), allowed is what plan(...) gives",
        ),
        ("run_sweep", ["mine"], "run_sweep: plan: found 'mine' (str), allowed is what sweep_plan(...) gives"),
        (
            "open_runs",
            [["a", "b"]],
            "open_runs: folder: found ['a', 'b'] (list), allowed is the name of one file or folder",
        ),
        (
            "open_run",
            [None],
            "open_run: folder: found None (NoneType), allowed is the name of one file or folder",
        ),
        ("plan", [None], "plan: source: found None (NoneType), allowed is an experiment file"),
    ],
)
def test_a_script_that_gives_something_else_is_told(name: str, given: list[Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        fedroam.__getattr__(name)(*given)
    assert str(caught.value).startswith(says)


def test_parts_may_be_given_in_three_ways() -> None:
    part = build("mobility", {"kind": "static", "grid": 5})
    as_part = Experiment(mobility=part)
    assert as_part == Experiment(mobility={"kind": "static", "grid": 5})
    assert Experiment(mobility="static") == Experiment(mobility={"kind": "static"})
    assert as_part.replace(mobility="static").mobility.settings()["grid"] == 18
    assert as_part.replace(seed=3).mobility is part


def test_an_experiment_has_no_kind() -> None:
    with pytest.raises(InputError) as caught:
        Experiment(knd=1)
    assert "kind" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clientz": 3}, "did you mean 'clients'?"),
        ({"clients": 0}, "clients = 0: input should be greater than or equal to 1 (number of clients)"),
        ({"clients": 2.5}, "clients = 2.5"),
        ({"clients": "20"}, "clients = '20'"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": True}, "seed = True"),
        ({"evaluate_on": "mine"}, "evaluate_on = 'mine'"),
        ({"evaluate_on": "own"}, 'evaluate_on = "own" needs test samples: set test_share above 0'),
        (
            {"validation_share": 0.5, "test_share": 0.5},
            "validation_share + test_share = 1 leaves nothing to train on",
        ),
        ({"device": "gpu"}, "device = 'gpu': allowed are cpu, cuda, cuda:N and mps"),
        ({"name": "a/b"}, "name = 'a/b': allowed are up to 80 letters"),
        (
            {"mobility": {"kind": "random", "mobil": 3}},
            "mobility.mobil: unknown key of mobility kind 'random'",
        ),
        ({"mobility": "randm"}, "did you mean 'random'?"),
        ({"mobility": build("mixing", "metropolis")}, "[mobility]: a mixing part cannot stand here"),
        ({"contacts": {"radius": -1.0}}, "contacts.radius = -1.0"),
        ({"training": {"steps": 2, "epochs": 2}}, "steps = 2 and epochs = 2: allowed is one of the two"),
    ],
)
def test_wrong_settings_are_one_clear_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Experiment(**settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- digest ---------------------------------------------------------------------------------------------------------


def test_the_digest_is_stable() -> None:
    # Folders of earlier runs are found by it. It may change only with the settings of the default parts.
    one = tiny(data="digits", partition="iid", training={"kind": "sgd", "lr": 0.1})
    assert one.digest == tiny(data="digits", partition="iid", training={"kind": "sgd", "lr": 0.1}).digest
    assert len(one.digest) == 64
    assert default_folder(one).name == "seed-0"
    assert default_folder(one).parent == default_folder(one.replace(seed=7)).parent


@given(st.permutations(["clients", "rounds", "mobility", "training", "contacts"]))
def test_the_digest_does_not_depend_on_the_order_of_keys(order: list[str]) -> None:
    settings = {
        "clients": 4,
        "rounds": 3,
        "mobility": {"kind": "random", "mobile": 1},
        "training": {"kind": "sgd", "lr": 0.3, "momentum": 0.5},
        "contacts": {"radius": 2.0, "kind": "radius"},
    }
    one = Experiment(**settings)
    shuffled = {k: settings[k] for k in order}
    shuffled["training"] = dict(reversed(list(settings["training"].items())))  # type: ignore[attr-defined]
    assert Experiment(**shuffled).digest == one.digest


def test_digests_of_other_seeds_are_those_of_experiments_that_have_them() -> None:
    walk = {"kind": "random_walk", "max_speed": 3.0}
    for one in (Experiment(), tiny(seed=7, mobility=walk, federation="hierarchical", execution="ray")):
        seeds = [one.seed, 0, 3, 2**61]
        assert one.digests(seeds) == [one.replace(seed=seed).digest for seed in seeds]
        assert one.digests([]) == []


def test_the_digest_does_not_depend_on_how_a_number_is_written() -> None:
    assert Experiment(contacts={"radius": 3}).digest == Experiment(contacts={"radius": 3.0}).digest
    assert Experiment(contacts={"radius": 3.0}).digest == Experiment().digest


def test_what_is_and_what_is_not_part_of_the_identity() -> None:
    one = tiny()
    same: list[dict[str, Any]] = [
        {"name": "other"},
        {"checkpoint_every": 7},
        {"mobility": {"kind": "random", "grid": 4, "mobile": 2, "max_step": math.inf}},
    ]
    for settings in same:
        assert one.replace(**settings).digest == one.digest, settings
    workers = [one.replace(engine={"kind": "cpu", "workers": n}).digest for n in (1, 2)]
    assert workers[0] == workers[1] != one.digest
    other: list[dict[str, Any]] = [
        {"seed": 1},
        {"rounds": 5},
        {"evaluate_every": 1},
        {"record_movement": "none"},  # no other numbers, but another run folder
        {"test_share": 0.1},
        {"start_models": "independent"},
        {"mixing": "data_size"},
        {"mobility": {"kind": "random", "grid": 4, "mobile": 3}},
        {"federation": {"order": "mix_then_move"}},
        {"model": {"kind": "mlp", "hidden": [64]}},
        {"model": {"kind": "mlp", "hidden": [64, 64]}},
    ]
    digests = [one.replace(**settings).digest for settings in other]
    assert len({one.digest, *digests}) == len(other) + 1


def test_every_setting_is_part_of_the_identity_unless_it_says_not() -> None:
    left_out = {
        name
        for name, info in Experiment.model_fields.items()
        if isinstance(info.json_schema_extra, dict) and not info.json_schema_extra["identity"]
    }
    assert left_out == {"name", "checkpoint_every", "record_schedule", "keep_models"}
