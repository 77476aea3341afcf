from __future__ import annotations

import itertools
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedroam.components import FAMILIES, build
from fedroam.errors import InputError
from fedroam.experiment import (
    Experiment,
    named_experiments,
    nest,
    overlay,
    parse_assignment,
    plan,
)
from fedroam.runner import default_folder, plan_folder
from support.tiny import tiny

FILE = """
name = "study"
seeds = 2
clients = 6

[mobility]
kind = "random"
grid = 9
mobile = 2

[training]
lr = 0.2

[variants.static]
mobility.kind = "static"

[variants.fast]
training.lr = 0.5
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(FILE)
    return path


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
    assert left_out == {"name", "checkpoint_every"}


# --- --set and overlays ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        ("a.b=3", ["a", "b"], 3),
        ("a=0.5", ["a"], 0.5),
        ("a=1e-3", ["a"], 1e-3),
        ("a=inf", ["a"], math.inf),
        ("a=true", ["a"], True),
        ("a=[1, 2]", ["a"], [1, 2]),
        ("a='3'", ["a"], "3"),
        ("a=static", ["a"], "static"),
        ("a = two words ", ["a"], "two words"),
        ("a=x=y", ["a"], "x=y"),
        ("a.b={c = 1}", ["a", "b"], {"c": 1}),
        ("a=", ["a"], ""),
    ],
)
def test_assignments(text: str, keys: list[str], value: Any) -> None:
    assert parse_assignment(text) == (keys, value)


@pytest.mark.parametrize("text", ["", "a", "=3", "a..b=3", "a b=3", ".a=1"])
def test_wrong_assignments(text: str) -> None:
    with pytest.raises(InputError, match="allowed is key=value"):
        parse_assignment(text)


def test_nest() -> None:
    assert nest(["a", "b", "c"], 1) == {"a": {"b": {"c": 1}}}


def test_an_overlay_changes_what_it_names() -> None:
    notes: list[str] = []
    below = {"clients": 5, "mobility": {"kind": "random", "grid": 9, "mobile": 2}}
    kept = {"clients": 5, "mobility": {"kind": "random", "grid": 9, "mobile": 2}}
    assert overlay(below, {"clients": 6}, notes) == {**kept, "clients": 6}
    assert overlay(below, {"mobility": {"mobile": 3}}, notes)["mobility"] == {
        "kind": "random",
        "grid": 9,
        "mobile": 3,
    }
    assert overlay(below, {"mixing": "data_size"}, notes)["mixing"] == {"kind": "data_size"}
    assert overlay({"mobility": "static"}, {"mobility": {"grid": 4}}, notes)["mobility"] == {
        "kind": "static",
        "grid": 4,
    }
    assert below == kept, "the settings below are not changed"
    assert notes == []


def test_a_change_of_kind_keeps_what_both_kinds_know_and_says_what_is_dropped() -> None:
    notes: list[str] = []
    below = {"mobility": {"kind": "random", "grid": 9, "mobile": 2}}
    assert overlay(below, {"mobility": "static"}, notes)["mobility"] == {"kind": "static", "grid": 9}
    assert notes == ["mobility kind 'static' has no mobile: left out"]
    assert (
        overlay(below, {"mobility": {"kind": "unheard"}}, notes)["mobility"]["mobile"] == 2
    )  # refused later


# --- plans ----------------------------------------------------------------------------------------------------------


def test_a_plan_is_variants_times_seeds(study: Path) -> None:
    found = plan(study)
    assert [(r.variant, r.experiment.seed) for r in found.runs] == [
        ("static", 0), ("static", 1), ("fast", 0), ("fast", 1),
    ]  # fmt: skip
    assert [r.folder for r in found.runs] == ["static/seed-0", "static/seed-1", "fast/seed-0", "fast/seed-1"]
    static, _, fast, _ = (r.experiment for r in found.runs)
    assert static.mobility.settings() == {"kind": "static", "grid": 9}
    assert static.training.settings()["lr"] == 0.2
    assert fast.mobility.settings()["mobile"] == 2
    assert fast.training.settings()["lr"] == 0.5
    assert found.name == "study"
    assert found.notes == ("mobility kind 'static' has no mobile: left out",)


def test_seeds_from_the_call_and_from_set(study: Path) -> None:
    assert len(plan(study, seeds=3).runs) == 6
    assert len(plan(study, assignments=["seeds=1"]).runs) == 2
    assert [r.experiment.seed for r in plan(study, assignments=["seed=10"]).runs] == [10, 11, 10, 11]
    for bad in (0, 10_001, True):
        with pytest.raises(InputError, match="allowed is a whole number from 1 to 10000"):
            plan(study, seeds=bad)


def test_set_is_laid_over_the_file_and_its_variants(study: Path) -> None:
    found = plan(
        study, assignments=["clients=7", "training.lr=0.9", "mobility.grid=4", "contacts.radius=inf"]
    )
    for run in found.runs:
        assert run.experiment.clients == 7
        assert run.experiment.training.settings()["lr"] == 0.9  # over the variant's own 0.5 too
        assert run.experiment.mobility.settings()["grid"] == 4
        assert run.experiment.contacts.settings()["radius"] == math.inf
    assert {r.experiment.mobility.kind for r in found.runs} == {"static", "random"}


@pytest.mark.parametrize("text", ["mobility.kind=random", "mobility=random"])
def test_a_kind_that_a_variant_keeps_is_said(study: Path, text: str) -> None:
    found = plan(study, assignments=[text])
    assert {r.variant: r.experiment.mobility.kind for r in found.runs} == {
        "static": "static",
        "fast": "random",
    }
    assert f"--set {text}: variant 'static' keeps its own kind 'static'" in found.notes


def test_set_of_a_misspelt_key_is_refused(study: Path) -> None:
    for text in ("mobility.mobil=3", "training.l=1", "clientz=3"):
        with pytest.raises(InputError, match="did you mean"):
            plan(study, assignments=[text])


def test_a_plan_from_python() -> None:
    settings = {"clients": 3, "mobility": "static", "variants": {"a": {"seed": 5}, "b": {}}}
    found = plan(settings)
    assert [(r.variant, r.experiment.seed) for r in found.runs] == [("a", 5), ("b", 0)]
    assert settings["variants"], "the caller's settings are not changed"
    assert plan({"mobility": "static"}).runs[0].folder == "seed-0"


def test_the_digest_of_a_plan_does_not_depend_on_the_order_of_variants() -> None:
    variants = {"a": {"mobility": "static"}, "b": {"mixing": "data_size"}}
    one = plan({"variants": variants})
    other = plan({"variants": dict(reversed(variants.items()))})
    assert one.digest == other.digest
    assert one.digest != plan({"variants": {"a": variants["a"]}}).digest
    assert plan_folder(one) == plan_folder(plan({"variants": variants}, seeds=4)), (
        "more seeds, the same folder"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clients = ", "not valid TOML"),
        ("clients = 0", "clients = 0"),
        ("[variants.'a b']", "allowed are letters, digits, dots and dashes"),
        ("variants = 3", "variants: allowed are tables"),
        ("seeds = 'two'", "seeds = 'two'"),
        ("[mobilty]\nkind = 'static'", "did you mean 'mobility'?"),
        ("use = 'nowhere.py'", "no such file"),
    ],
)
def test_a_wrong_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        plan(path)
    assert message in str(caught.value)
    assert "wrong.toml" in str(caught.value) or "nowhere.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown experiment 'quickstrt': .*did you mean 'quickstart'\?"):
        plan("quickstrt")
    with pytest.raises(InputError, match="no such experiment file"):
        plan(tmp_path / "none.toml")


@pytest.mark.parametrize("name", named_experiments())
def test_named_experiments_are_sound(name: str) -> None:
    found = plan(name)
    assert found.name == name
    assert found.runs
    for run in found.runs:
        assert Experiment(**tomllib.loads(run.experiment.toml())).digest == run.experiment.digest


def test_the_quickstart_is_the_one_promised() -> None:
    found = plan("quickstart")
    variants = dict.fromkeys(r.variant for r in found.runs)  # steered patterns may have joined these two
    assert {"static", "random"} <= variants.keys()
    assert [(r.variant, r.experiment.seed) for r in found.runs] == [*itertools.product(variants, (0, 1, 2))]
    one = next(r.experiment for r in found.runs if r.variant == "random")
    assert one.clients == 20
    assert one.data.kind == "digits"
    assert one.partition.settings()["alpha"] == 0.1
    assert one.contacts.settings() == {"kind": "radius", "radius": 3.0}
    assert {k: one.mobility.settings()[k] for k in ("kind", "grid", "mobile")} == {
        "kind": "random",
        "grid": 18,
        "mobile": 5,
    }
