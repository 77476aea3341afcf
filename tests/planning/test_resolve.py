"""From files and `--set` to the runs of a plan; `plan` and `sweep_plan` mean the same."""

from __future__ import annotations

import itertools
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.planning import Plan, named_experiments, plan, sweep_plan

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


@pytest.mark.parametrize(
    ("text", "assigned", "common"),
    [
        (FILE, (), {}),
        ('data = "digits"\n' + FILE, ("rounds=3",), "digits"),
        (FILE + "[data]\nkind = 'mnist'\nnormalise = 'unit'\n", (), {"kind": "mnist", "normalise": "unit"}),
        (FILE + "data.kind = 'digits'\n", (), None),  # of the variant fast alone
        (FILE, ("data.kind=digits",), None),
        (FILE, ("data=digits",), None),
    ],
)
def test_what_all_runs_read_is_told_before_it_is_checked(
    tmp_path: Path, text: str, assigned: tuple[str, ...], common: Any
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    told: list[Any] = []
    plan(path, assignments=assigned, common_data=told.append)
    assert told == ([] if common is None else [common])


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
    assert one.folder == plan({"variants": variants}, seeds=4).folder, "more seeds, the same folder"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clients = ", "not valid TOML"),
        ("clients = 0", "clients = 0"),
        ("[variants.'a b']", "allowed are letters, digits, dots, dashes and underscores in a name"),
        ("[variants._own]", "the first one a letter or digit"),
        ("'' = 3", "wrong.toml: unknown key of an experiment ''"),
        ("use = 'gone.py'", "wrong.toml: use "),
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
    with pytest.raises(InputError, match="is a folder; allowed is an experiment file"):
        plan(tmp_path)


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


# --- plan and sweep_plan are one -----------------------------------------------------------------------------------

RANDOM_AND_STATIC = """
mobility.kind = "random"
[variants.static]
mobility.kind = "static"
[variants.random]
mobility.kind = "random"
"""
FILES = {
    "study": FILE,
    "variants of kinds": RANDOM_AND_STATIC,
    "no variants": "seed = 3\n[mobility]\nkind = 'random'\nmobile = 2\n",
    "variants that set the same": "[variants.few]\nclients = 4\nmobility.mobile = 1\n[variants.many]\nclients = 9\n",
    "static": "mobility.kind = 'static'\n",
    "a wrong variant": "[variants.bad]\nmobility.mobil = 1\n",
}
ASSIGNMENTS: tuple[tuple[str, ...], ...] = (
    (),
    ("mobility.mobile=2",),
    ("mobility.mobil=2",),
    ("mobility.grid=4", "training.lr=0.9", "clients=7"),
    ("mobility.kind=static",),
    ("mobility=random",),
    ("mobility.kind=random_walk",),
    ("mobility={kind='random',mobile=3}",),
    ("mobility.mobile=3", "mobility.kind=static"),
    ("mobility.kind=static", "mobility.mobile=3"),
    ("mobility.mobile=3", "mobility.kind=random"),
    ("mobility.kind=randm",),
    ("mobility=3",),
    ("engine=reference", "engine.workers=2"),
    ("clientz=3",),
    ("clients.x=3",),
    ("seeds=2", "seed=9"),
    ("seeds=0",),
    ("variants.a.clients=3",),
)


def outcome(resolve: Any, source: Any, assignments: tuple[str, ...], seeds: int | None) -> Any:
    """What resolving comes to: variants and digests in their order with the notes, or the error."""
    try:
        found = resolve(source, assignments=assignments, seeds=seeds)
    except InputError as error:
        return str(error)
    if isinstance(found, Plan):
        runs = [(run.variant, run.experiment.digest) for run in found.runs]
    elif found.refused:  # a sweep does the others; a plan says what is wrong with the first
        return found.refused[0].reason
    else:
        runs = [(run.keys.get("variant", ""), run.experiment.digest) for run in found.runs]
    return found.name, runs, found.notes


def assert_the_same(source: Any, assignments: tuple[str, ...], seeds: int | None = None) -> Any:
    as_plan, as_sweep = (outcome(resolve, source, assignments, seeds) for resolve in (plan, sweep_plan))
    if isinstance(as_plan, str):
        assert as_plan.endswith(
            as_sweep
        )  # the reason of a refusal stands beside its variant, not behind the file
    else:
        assert as_plan == as_sweep
    return as_plan


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("assignments", ASSIGNMENTS, ids=" ".join)
def test_run_and_sweep_mean_the_same_by_a_file(
    name: str, assignments: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "some.toml"
    path.write_text(FILES[name])
    assert_the_same(path, assignments)
    assert_the_same(path, assignments, seeds=2)


def test_set_goes_to_the_variants_that_have_the_key(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(RANDOM_AND_STATIC)
    _, _, notes = assert_the_same(path, ("mobility.mobile=2",))
    assert notes == ("mobility kind 'static' has no mobile: left out",)
    runs = {
        run.variant: run.experiment.mobility.settings()
        for run in plan(path, assignments=["mobility.mobile=2"]).runs
    }
    assert runs["random"]["mobile"] == 2
    assert "mobile" not in runs["static"]
    # Also where the file's own kind, and so a variant that keeps it, lacks the key.
    path.write_text(
        "mobility.kind = 'static'\n[variants.as-it-is]\n[variants.random]\nmobility.kind = 'random'\n"
    )
    _, _, again = assert_the_same(path, ("mobility.mobile=2",))
    assert again == notes
    wrong = assert_the_same(path, ("mobility.mobil=2",))
    assert "mobility.mobil: unknown key of mobility kind 'random' or 'static' 'mobil'" in wrong
    assert wrong.endswith("did you mean 'mobile'?")


def test_a_key_of_a_kind_without_any_is_refused() -> None:
    error = assert_the_same({"engine": "reference"}, ("engine.workers=2",))
    assert "engine.workers: unknown key of engine kind 'reference' 'workers': allowed are kind" in error


def test_a_kind_that_there_is_not_is_refused_though_every_variant_keeps_its_own() -> None:
    settings = {"variants": {"static": {"mobility": "static"}, "moving": {"mobility": "random"}}}
    for text in ("mobility=randm", "mobility.kind=randm", "mobility={kind='randm',mobile=3}"):
        with pytest.raises(InputError, match=r"unknown mobility kind 'randm': .* did you mean 'random'"):
            plan(settings, assignments=[text])


def test_a_whole_part_of_set_is_its_kind_and_its_settings() -> None:
    settings = {"variants": {"static": {"mobility": "static"}, "few": {"mobility": {"mobile": 1}}}}
    text = "mobility={kind='random',mobile=3}"
    _, _, notes = assert_the_same(settings, (text,))
    assert f"--set {text}: variant 'static' keeps its own kind 'static'" in notes
    assert "mobility kind 'static' has no mobile: left out" in notes
    found = {
        run.variant: run.experiment.mobility.settings() for run in plan(settings, assignments=[text]).runs
    }
    assert found["few"]["mobile"] == 3
    assert found["static"]["kind"] == "static"


@pytest.mark.parametrize(
    "text", ["mobility=static", "mobility.kind=static", "mobility={kind='static'}", "mobility={mobile=3}"]
)
def test_set_of_what_a_sweep_varies_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="give its values with --over instead"):
        sweep_plan({}, over=["mobility.kind=random,static", "mobility.mobile=1,2"], assignments=[text])


@pytest.mark.parametrize("name", FILES)
def test_a_sweep_writes_down_what_set_said(name: str, tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    resolved = 0
    for assignments in ASSIGNMENTS:
        path.write_text(FILES[name])
        try:
            found = sweep_plan(path, assignments=assignments)
        except InputError:
            continue
        path.write_text(found.source)
        assert sweep_plan(path).runs == found.runs
        resolved += 1
    assert resolved or name == "a wrong variant"


mobilities = st.one_of(
    st.sampled_from(["static", "random", "random_walk"]),
    st.fixed_dictionaries(
        {},
        optional={"kind": st.sampled_from(["static", "random", "randm"]), "mobile": st.integers(0, 3),
                  "grid": st.integers(3, 5), "mobil": st.just(1)},
    ),
)  # fmt: skip
small = st.fixed_dictionaries(
    {}, optional={"mobility": mobilities, "clients": st.integers(0, 4), "seed": st.integers(0, 2)}
)
texts = st.sampled_from(
    [text for each in ASSIGNMENTS for text in each if not text.startswith("variants")] + ["mobility.grid=3"]
)


@given(
    small,
    st.dictionaries(st.sampled_from(["a", "b", "c d"]), small, max_size=3),
    st.lists(texts, max_size=3),
    st.sampled_from([None, 1, 2]),
)
def test_plan_is_sweep_plan_without_axes(
    base: dict[str, Any], variants: dict[str, Any], assignments: list[str], seeds: int | None
) -> None:
    settings = {**base, "variants": variants}
    assert_the_same(settings, tuple(assignments), seeds)
    assert settings == {**base, "variants": variants}, "the caller's settings are not changed"


@pytest.mark.parametrize("name", ["report.html", "figures", "sweep.json", "Figures", "run.json"])
def test_a_variant_has_no_name_that_the_folder_uses_itself(name: str) -> None:
    settings = {"variants": {name: {"rounds": 3}, "other": {"rounds": 4}}}
    with pytest.raises(
        InputError, match=rf"variants\.{name}: a plan's folder itself has report\.html, figures"
    ):
        plan(settings)
    assert len(sweep_plan(settings).runs) == 2  # there runs are named by their digests
    assert len(plan({"variants": {"figure": {"rounds": 3}, "reports": {"rounds": 4}}}).runs) == 2


def test_variants_that_set_makes_the_same_are_told(study: Path) -> None:
    told = "variants fast, slow are the same experiment: their runs will not differ"
    study.write_text(FILE + "\n[variants.slow]\ntraining.lr = 0.1\n")
    assert told not in plan(study).notes
    assert told in plan(study, assignments=["training.lr=0.3"]).notes
    varied = ["mixing.kind=metropolis,data_size"]
    assert told not in sweep_plan(study, over=varied).notes
    assert told in sweep_plan(study, over=varied, assignments=["training.lr=0.3"]).notes
