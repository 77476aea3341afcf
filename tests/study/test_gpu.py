"""What needs a GPU, or a scale that is not kept: hours of pages are those of images, and of what is on record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fedroam.devices.arithmetic import training_flops
from fedroam.papers import studies
from fedroam.parts import Parts
from fedroam.study import Claim, Scale, Study, evaluate_study, final, order
from fedroam.study.presentation.gpu import Measured, come_and_go, gpu_words, hours, needs_gpu, needs_words
from fedroam.study.presentation.sections import claims_html
from support.scripts import ROOT, benchmark

MEASURED = Measured(
    "a processor", 1.0, {"conv5": {"batch": 8, "train": 0.3, "evaluate": 0.05}}, {}, "a GPU", (1e12, 4e12)
)
HIERARCHY: dict[str, Any] = {
    "federation": "mohawk",
    "access_points": {"kind": "uniform", "number": 2},
    "mobility": {"kind": "random", "mobile": 4},
    "contacts": {"kind": "radius", "radius": 0.0},
}


def study(**settings: Any) -> Study:
    """Two variants on CIFAR-10 that only scale full has, and one beside them. 4 clients, 10 rounds of a batch of 8."""
    colour = {"data": {"kind": "cifar10"}, "model": {"kind": "conv5"}, "rounds": 10, "evaluate_every": 5}
    colour |= {"training": {"batch_size": 8, "steps": 1}, "clients": 4, **settings}
    return Study(
        name="made",
        title="Made",
        paper="Nobody.",
        about="Nothing.",
        base={"mobility": {"kind": "random", "mobile": 2}, "clients": 4},
        variants={"grey": {}, "a": colour, "b": {**colour, "contacts": {"radius": 1.0}}},
        scales={"quick": Scale(4, without=("a", "b")), "full": Scale(6)},
        claims=(
            Claim("coloured", "a is better", order(final.of("a"), final.of("b"))),
            Claim("mixed", "a is better than grey", order(final.of("a"), final.of("grey"))),
        ),
    )


def test_hours_by_hand() -> None:
    made = study(evaluate_share=0.5, evaluate_whole=1)
    found = hours(made, made.variants, MEASURED)
    trained, judged = 10 * 4 * 8, (0.5 + 0.5 + 1) * 4 * 10_000
    assert found.runs == 2 * 6
    assert found.cores == pytest.approx(12 * (0.3 * trained + 0.05 * judged) / 3600)
    flops = training_flops(Parts.of(made.experiment("a", "full")).model.build((3, 32, 32), 10), (3, 32, 32))
    assert (found.training, found.evaluation) == (
        pytest.approx(12 * trained * flops),
        pytest.approx(12 * judged * flops / 3),
    )
    total = found.training + found.evaluation
    assert found.gpu == (pytest.approx(total / 4e12 / 3600), pytest.approx(total / 1e12 / 3600))
    assert hours(made, ["grey"], MEASURED).runs == 0


def test_of_those_that_come_and_go_as_many_train_as_are_there() -> None:
    made, there = study(**HIERARCHY), replace(MEASURED, trained={"made": 1.5})
    assert come_and_go(made.experiment("a", "full"))
    assert hours(made, ["a"], there).cores == pytest.approx(
        6 * (0.3 * 10 * 1.5 * 8 + 0.05 * 3 * 10_000) / 3600
    )
    assert "Of 4 clients 2 train in a round" in gpu_words(made, there)


def test_a_card_and_a_page_tell_the_hours() -> None:
    made = study()
    coloured, mixed = made.claims
    told = needs_words(made, coloured, MEASURED)
    # A run judges 120,000 images and trains on 320: 6,096 seconds.
    assert told.startswith("12 runs, an estimated ")
    assert told.endswith(" hours of it, or 10 of 2 cores")
    assert needs_words(made, mixed, MEASURED).startswith("6 runs, ")
    result = evaluate_study(made, "quick", range(0), lambda variant, seed: None)
    assert f"Needs scale full, and a GPU: {told}." in claims_html(result, measured=MEASURED)
    assert "Needs scale full, and a GPU.<" in claims_html(result)
    whole = gpu_words(made, MEASURED)
    assert "2 of the 3 variants of scale full train on CIFAR-10. 6 seeds of all of them would take" in whole
    assert "conv5 300 and 50 ms, in batches of 8; a processor, with a load of 1" in whole
    assert "1.0 to 4.0 x 10^12 of them a second" in whole
    assert needs_words(made, Claim("grey", "", order(final.of("grey"), final.of("grey"))), MEASURED) == ""
    assert gpu_words(replace(made, scales={"full": Scale(1, without=("a", "b"))}), MEASURED) == ""


def test_the_record_has_what_studies_need() -> None:
    cost = benchmark("cifar_cost")
    record = json.loads(cost.RECORD.read_text(encoding="utf-8"))
    gpu = json.loads((ROOT / "docs" / "records" / "gpu.json").read_text(encoding="utf-8"))
    measured = Measured.of(record, gpu)
    assert 0 < measured.rates[0] < measured.rates[1]
    kinds, trained = set(), set()
    for each in studies().values():
        runs = cost.in_colour(each)
        kinds |= {run.model.kind for run in runs}
        for run in runs:
            assert run.settings()["model"] == next(
                other.settings()["model"] for other in runs if other.model.kind == run.model.kind
            )
            if come_and_go(run):
                trained.add(each.name)
                assert (run.mobility, run.clients, run.rounds) == (
                    runs[0].mobility,
                    runs[0].clients,
                    runs[0].rounds,
                )
                assert 0 < measured.trained[each.name] < run.clients
        assert all(needs_gpu(each, v) == ("cifar10" in v) for v in each.variants if runs)
    assert kinds == set(measured.seconds)
    assert trained == set(measured.trained)


def test_what_it_measures_is_measured() -> None:
    cost = benchmark("cifar_cost")
    found = cost.seconds_an_image({"kind": "softmax_regression"}, 8, 1)
    assert set(found) == {"train", "evaluate"}
    assert min(found.values()) > 0


def test_of_a_scale_that_is_not_kept_measured_hours_are_told_else_the_command() -> None:
    """Two variants that only scale full has, of 900 and 1,800 core-seconds a run."""
    large = {"a": {"rounds": 30}, "b": {"rounds": 60}}
    made = replace(study(), variants={"grey": {}, **large})
    (coloured, _), took = made.claims, {"a": 900.0, "b": 1800.0}
    known = replace(MEASURED, runs={"made": {"full": took}})
    assert known.core_hours(made, coloured, "full", 2) == pytest.approx(1.5)
    once = evaluate_study(made, "quick", range(0), lambda variant, seed: None)
    record = "estimated of a few rounds that were measured (docs/records/larger-scales.json)."
    assert f"Needs scale full: 12 runs (6 seeds), about 4.5 core hours; {record}" in claims_html(
        once, measured=known
    )
    looked = evaluate_study(made, "quick", range(0), lambda variant, seed: None, (4, 6, 20))
    assert (
        "Needs scale full: to its first look 8 runs (4 seeds), about 3 core hours; to the last that is planned 40 runs "
        f"(20 seeds), about 15 core hours; {record}" in claims_html(looked, measured=known)
    )
    for unknown in (None, MEASURED, replace(MEASURED, runs={"made": {"full": {"a": 900.0}}})):
        told = claims_html(looked, measured=unknown)
        assert "is measured by: fedroam reproduce made coloured --scale full --dry-run." in told


def test_the_record_of_larger_scales_has_what_pages_tell() -> None:
    script = benchmark("larger_scales")
    record = json.loads(script.RECORD.read_text(encoding="utf-8"))
    wanted = {name: {*script.beyond(each, script.kept_scales(name))} for name, each in studies().items()}
    found = {
        name: {(scale, variant) for scale, of in part["seconds"].items() for variant in of}
        for name, part in record.items()
    }
    assert found == {name: runs for name, runs in wanted.items() if runs}
    assert all(
        took > 0 for part in record.values() for of in part["seconds"].values() for took in of.values()
    )


def test_what_a_larger_scale_takes_is_measured_once_for_all_that_are_alike() -> None:
    script = benchmark("larger_scales")
    small: dict[str, Any] = {"data": {"kind": "digits"}, "evaluate_every": 2}
    made = replace(
        study(),
        variants={
            "grey": {},
            "a": {**small, "rounds": 6},
            "b": {**small, "rounds": 6, "contacts": {"radius": 1.0}},
        },
    )
    assert {*script.beyond(made, {"quick"})} == {("full", "a"), ("full", "b"), ("full", "grey")}
    assert {*script.beyond(made, {"full"})} == set()
    runs = [made.experiment(variant, "full") for variant in ("a", "b", "grey")]
    assert script.alike(runs[0]) == script.alike(runs[1]) != script.alike(runs[2])
    assert script.core_seconds(runs[0]) > 0
