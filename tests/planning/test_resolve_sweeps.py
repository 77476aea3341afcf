"""From files and the command line to runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedroam
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.learning import Job
from fedroam.planning import label, sweep_plan
from fedroam.planning.axes import parse_over
from fedroam.scene import prepare
from fedroam.simulation import begin
from support.bounded import bounded
from support.sweeps import settings


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("mobility.kind=static,random", "mobility.kind", ("static", "random")),
        ("mobility.mobile=3,5", "mobility.mobile", (3, 5)),
        ("training.lr=0.1, 1e-2", "training.lr", (0.1, 0.01)),
        ("model.hidden=[64],[32,16]", "model.hidden", ([64], [32, 16])),
        ("data.normalise=unit,'standardise'", "data.normalise", ("unit", "standardise")),
        (
            'mobility={kind="random",mobile=3},{kind="static"}',
            "mobility",
            ({"kind": "random", "mobile": 3}, {"kind": "static"}),
        ),
        ('mobility={kind="random",mobile=3},static', "mobility", ({"kind": "random", "mobile": 3}, "static")),
        ("rounds=5", "rounds", (5,)),
    ],
)
def test_over_reads_values_as_toml_and_bare_words(text: str, name: str, values: tuple[object, ...]) -> None:
    assert parse_over(text) == (name, values)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8, unique=True))
def test_over_reads_back_any_list(values: list[int]) -> None:
    assert parse_over(f"rounds={','.join(map(str, values))}")[1] == tuple(values)


@pytest.mark.parametrize(
    ("over", "words"),
    [
        (["mobility.mobile"], "allowed is key=value"),
        (["mobility.mobile="], "allowed is key=value"),
        (["mobility.mobile=1,,2"], "an empty value"),
        (["mobility.mobile=1,1"], "twice"),
        (["mobility.mobile=1", "mobility.mobile=2"], "given twice"),
        (["mobilty.mobile=1,2"], "did you mean"),
        (["mobility.mobil=1,2"], "did you mean 'mobile'"),
        (["round=1,2"], "did you mean 'rounds'"),
        (["seed=1,2"], "--seeds"),
        (["name=a,b"], "changes no result"),
        (["mobility.kind=1,2"], "names of kinds"),
        (["mobility=static", "mobility.mobile=1"], "replaced whole"),
        (["rounds=-1,-2"], "greater than or equal to 1"),
        (["mobility.a.b=1"], "PART.KEY"),
        (
            [f"rounds={','.join(map(str, range(1, 500)))}", f"clients={','.join(map(str, range(1, 500)))}"],
            "249001",
        ),
    ],
)
def test_bad_axes_are_refused_in_one_line(over: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")) as error:
        sweep_plan(settings(), over=over)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"zip": {"rounds": [1, 2], "clients": [3]}}, "rounds has 2, clients has 1"),
        ({"gird": {"rounds": [1]}}, "did you mean 'grid'"),
        ({"grid": {"rounds": 3}}, "list of at least one"),
        ({"grid": {"rounds": []}}, "list of at least one"),
        ({"grid": {"rounds": [1]}, "zip": {"rounds": [1]}}, "one of the two"),
        ({"grid": [1]}, "table of lists"),
        (3, "allowed is a table"),
    ],
)
def test_bad_sections_are_refused(section: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        sweep_plan(settings(sweep=section))


def test_grid_zip_variants_and_seeds_multiply_in_order() -> None:
    plan = sweep_plan(
        settings(
            seeds=2,
            seed=7,
            sweep={
                "grid": {"contacts.radius": [1.0, 2.0]},
                "zip": {"training.lr": [0.1, 0.2, 0.3], "rounds": [3, 4, 5]},
            },
            variants={"calm": {"mobility": {"kind": "static"}}, "wild": {"mobility": {"mobile": 4}}},
        )
    )
    assert plan.varied == ("variant", "training.lr", "rounds", "contacts.radius")
    assert len(plan.runs) == 2 * 3 * 2 * 2
    rows = [(*run.keys.values(), run.experiment.seed) for run in plan.runs]
    assert rows[:5] == [
        ("calm", 0.1, 3, 1.0, 7),
        ("calm", 0.1, 3, 1.0, 8),
        ("calm", 0.1, 3, 2.0, 7),
        ("calm", 0.1, 3, 2.0, 8),
        ("calm", 0.2, 4, 1.0, 7),
    ]
    for run in plan.runs:  # what the keys say is what the experiment does
        assert run.experiment.training.settings()["lr"] == run.keys["training.lr"]
        assert run.experiment.rounds == run.keys["rounds"]
        assert run.experiment.mobility.kind == {"calm": "static", "wild": "random"}[run.keys["variant"]]
    assert len(plan.distinct) == len(plan.runs)


def test_a_setting_that_a_kind_lacks_is_left_out_and_equal_runs_are_computed_once() -> None:
    for before in ("random", "static"):  # whichever kind the file has
        base = settings(mobility={"kind": before, "grid": 5})
        plan = sweep_plan(base, over=["mobility.kind=static,random", "mobility.mobile=1,2"], seeds=2)
        assert len(plan.runs) == 8
        assert len(plan.distinct) == 6
        digest = {(*run.keys.values(), run.experiment.seed): run.experiment.digest for run in plan.runs}
        assert digest["static", 1, 0] == digest["static", 2, 0]
        assert digest["random", 1, 0] != digest["random", 2, 0]
        assert any("'static' has no mobile" in note for note in plan.notes)
        assert all(run.experiment.mobility.settings()["grid"] == 5 for run in plan.runs)


def test_a_whole_part_is_replaced_not_merged() -> None:
    whole = [{"kind": "random", "mobile": 3}, "static"]
    plan = sweep_plan(settings(sweep={"grid": {"mobility": whole}}))
    assert [run.keys["mobility"] for run in plan.runs] == ["random(mobile=3)", "static"]
    default = Experiment(mobility="static").mobility
    assert plan.runs[1].experiment.mobility == default  # the file's grid = 4 is gone
    assert plan.runs[0].experiment.mobility.settings()["grid"] == default.settings()["grid"]


def test_variants_that_the_axes_replace_are_left_out_with_a_note() -> None:
    plan = sweep_plan("quickstart", over=["mobility.kind=static,random", "mobility.mobile=3,5"], seeds=6)
    assert (len(plan.runs), len(plan.distinct)) == (24, 18)
    assert plan.varied == ("mobility.kind", "mobility.mobile")
    assert any("left out: the sweep varies what they set" in note for note in plan.notes)
    variants = {"a": {"mobility": {"kind": "static"}, "rounds": 2}, "b": {"mobility": "random"}}
    with pytest.raises(InputError, match=r"varied by the sweep and set in variants\.[ab]"):
        sweep_plan(settings(variants=variants), over=["mobility.kind=static,random"])


def test_a_wrong_variant_is_refused_alone_and_all_wrong_is_an_error() -> None:
    variants = {"good": {"mobility": {"mobile": 1}}, "bad": {"mobility": {"mobil": 1}}}
    plan = sweep_plan(settings(variants=variants), seeds=2)
    assert [run.keys["variant"] for run in plan.runs] == ["good", "good"]
    assert [(row.keys["variant"], row.seed) for row in plan.refused] == [("bad", 0), ("bad", 1)]
    assert "did you mean 'mobile'" in plan.refused[0].reason
    with pytest.raises(InputError, match="did you mean 'mobile'"):
        sweep_plan(settings(variants={"bad": variants["bad"]}))
    plan = sweep_plan(settings(), over=["mobility.kind=static,randm"])
    assert [row.keys["mobility.kind"] for row in plan.refused] == ["randm"]


def test_more_mobile_clients_than_there_are_is_told_before_anything_runs() -> None:
    for kind, most in (("random", 4), ("dam", 4), ("dcm", 3)):
        variants = {
            "good": {"mobility": {"kind": kind, "mobile": 1}},
            "bad": {"mobility": {"kind": kind, "mobile": most + 1}},
        }
        given = settings(clients=4, variants=variants)
        plan = sweep_plan(given)
        assert [run.keys["variant"] for run in plan.runs] == ["good"]
        (row,) = plan.refused
        assert row.reason.startswith(f"mobility kind {kind!r}: mobility.mobile = {most + 1}: ")
        assert row.reason.endswith(f"allowed is 0 to {most}")
        assert not sweep_plan(given, to_run=False).refused


def test_a_plan_says_which_variant_is_wrong() -> None:
    variants = {"good": {"mobility": {"mobile": 1}}, "bad": {"mobility": {"mobile": -1}}}
    with pytest.raises(InputError, match=r"experiment: variant 'bad': mobility\.mobile = -1: "):
        fedroam.plan(settings(variants=variants))
    with pytest.raises(InputError, match=r"experiment: clients = 0: "):
        fedroam.plan(settings(variants={"one": {"rounds": 1}, "other": {"rounds": 2}}, clients=0))


def test_the_command_line_has_the_last_word() -> None:
    base = settings(seeds=3, sweep={"grid": {"training.lr": [0.1, 0.2]}}, variants={"v": {"clients": 6}})
    plan = sweep_plan(base, over=["training.lr=0.3,0.4"], assignments=["rounds=9", "clients=5"], seeds=1)
    assert [run.experiment.training.settings()["lr"] for run in plan.runs] == [0.3, 0.4]
    assert {(run.experiment.rounds, run.experiment.clients) for run in plan.runs} == {(9, 5)}
    with pytest.raises(InputError, match="give its values with --over"):
        sweep_plan(base, assignments=["training.lr=0.5"])
    with pytest.raises(InputError, match=r"sweep\.zip"):
        sweep_plan(settings(sweep={"zip": {"rounds": [1, 2]}}), over=["rounds=3"])


def test_the_written_source_gives_the_same_sweep(tmp_path: Path) -> None:
    base = settings(
        sweep={"zip": {"rounds": [3, 4], "training.lr": [0.1, 0.2]}},
        variants={"calm": {"mobility": {"kind": "static"}}, "wild": {"mobility": {"mobile": 4}}},
    )
    plan = sweep_plan(base, over=["contacts.radius=1.5,inf"], assignments=["clients=5"], seeds=2)
    path = tmp_path / "sweep.toml"
    path.write_text(plan.source)
    again = sweep_plan(path)
    assert tomllib.loads(again.source) == tomllib.loads(plan.source)
    assert [(r.keys, r.experiment) for r in again.runs] == [(r.keys, r.experiment) for r in plan.runs]
    assert again.folder == plan.folder


def test_the_default_folder_does_not_depend_on_the_number_of_seeds() -> None:
    few, many, other = (
        sweep_plan(settings(rounds=r), over=["contacts.radius=1.5,3"], seeds=k)
        for r, k in ((3, 1), (3, 5), (4, 1))
    )
    assert few.folder == many.folder != other.folder
    assert few.folder.parent == Path("sweeps")


def test_a_file_of_a_sweep_unquoted_names_and_relative_parts(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from fedroam.components import register\nfrom fedroam.mobility.grid import Static\n"
        '@register("mobility", "mine_here")\nclass Mine(Static):\n    "Mine."\n'
    )
    path = tmp_path / "s.toml"
    path.write_text('use = "mine.py"\n[sweep.grid]\nmobility.kind = ["static", "mine_here"]\n')
    plan = sweep_plan(path)
    assert [run.experiment.mobility.kind for run in plan.runs] == ["static", "mine_here"]
    assert plan.use == (str(tmp_path / "mine.py"),)
    # Parts that were loaded before the sweep are found by what the runs are made of.
    assert sweep_plan({"mobility": "mine_here"}).use == plan.use
    assert sweep_plan({"mobility": "static"}).use == ()


def test_labels_of_values() -> None:
    assert label({"kind": "random", "mobile": 3, "grid": 4}) == "random(mobile=3, grid=4)"
    assert label({"kind": "static"}) == "static"
    assert label([64, 32]) == "[64, 32]"
    assert [label(v) for v in (1, 0.5, "x", True)] == [1, 0.5, "x", True]


def test_seeds_are_paired() -> None:
    """With one seed every variant has the same split, start places, start model and batches."""
    plan = sweep_plan(
        settings(clients=6, mobility={"kind": "random", "grid": 6}, test_share=0.3),
        over=[
            "mobility.kind=static,random",
            "mobility.mobile=2,5",
            "contacts.radius=1,4",
            "mixing=metropolis,data_size",
        ],
        seeds=2,
    )
    found: dict[int, list[tuple[object, ...]]] = {0: [], 1: []}
    for run in plan.runs:
        scene = prepare(run.experiment)
        state = begin(scene)
        jobs = [Job(i, i, scene.split.train[i], t) for i in range(6) for t in (1, 2)]
        batches = [batch for job in jobs for batch in job.batches(scene.task)]
        found[run.experiment.seed].append(
            (
                scene.split.train,
                scene.split.test,
                state.mobility["position"],
                state.models.parameters,
                batches,
            )
        )
        scene.learner.close()

    def equal(a: object, b: object) -> bool:
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return torch.equal(a, b)
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))

    for variants in found.values():
        assert len(variants) == 16
        for other in variants[1:]:
            assert equal(variants[0], other)
    for a, b in zip(found[0][0], found[1][0], strict=True):  # and another seed changes each of them
        assert not equal(a, b)


def test_values_beyond_the_limit_are_counted_before_anything_is_made_of_them() -> None:
    code = """
from fedroam.errors import InputError
from fedroam.planning.axes import parse_over, read_axes
many = ",".join(map(str, range(1, 200_001)))
for text in (f"rounds={many}", f"device={many},x y", "device=" + "[" * 120_000 + ",x y", "device=" + "{" * 100_000):
    try:
        print(len(parse_over(text)[1]))
    except InputError as error:
        print(str(error)[:60])
print(len(parse_over("rounds=" + ",".join(map(str, range(1, 100_001))))[1]))
"""
    told = bounded(code).splitlines()
    assert told[0] == "--over rounds: 200000 values; allowed are up to 100000"
    assert told[1] == "--over device: 200001 values; allowed are up to 100000"
    assert told[-1] == "100000"


@pytest.mark.parametrize(
    ("over", "value"),
    [("rounds", "9" * 4_400), ("model.hidden", "[" * 3_000), ("rounds", "1,x y," + "9" * 4_400)],
    ids=["digits", "levels", "words"],
)
def test_values_beyond_all_bounds(over: str, value: str) -> None:
    with pytest.raises(InputError, match=f"--over {over}: .*(beyond 64 bits|too deep)"):
        parse_over(f"{over}={value}")


def test_the_runs_of_a_plan_are_counted_before_they_are_made() -> None:
    many = ",".join(map(str, range(1, 20_001)))
    with pytest.raises(InputError, match=r"200000000 runs .*20000 combination.*10000 seed.*up to 100000"):
        sweep_plan(settings(), over=[f"rounds={many}"], seeds=10_000)
