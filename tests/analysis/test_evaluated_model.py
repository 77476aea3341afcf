"""Which model clients are judged by: runs record it, tables and reports say it."""

from __future__ import annotations

import io
from html import escape
from pathlib import Path

import pytest
from rich.console import Console

from fedroam.analysis import compare_runs, print_comparison, variants
from fedroam.analysis.evaluated_model import (
    MODELS,
    UNKNOWN,
    accuracy_meaning,
    describe_models,
    evaluated_models,
)
from fedroam.analysis.report.headline import headline
from fedroam.analysis.report.report import write_report
from fedroam.analysis.report.table import remarks
from fedroam.components import kinds
from fedroam.runner import run
from fedroam.scene import prepare
from fedroam.simulation import begin
from support.made_runs import made_run
from support.tiny import tiny

pytestmark = pytest.mark.usefixtures("rough_pictures")


@pytest.mark.parametrize(
    ("federation", "names", "word"),
    [
        ({"kind": "decentralized"}, ["own"], "own model"),
        ({"kind": "fedavg"}, ["global"], "global model"),
        ({"kind": "ditto"}, ["personal", "global"], "personal model"),
        ({"kind": "mohawk", "k2": 2}, ["global"], "global model"),
        ({"kind": "mohawk", "k2": 2, "judge": "access_point"}, ["access_point"], "access point"),
    ],
)
def test_runs_say_what_clients_are_judged_by(
    federation: dict[str, object], names: list[str], word: str, tmp_path: Path
) -> None:
    found = run(tiny(federation=federation, rounds=2), tmp_path / "run")
    assert found.status["judged"] == names
    assert word in remarks(compare_runs([found]))[0]
    again = run(tiny(federation=federation, rounds=2), tmp_path / "run")
    assert again.status["judged"] == names


def test_the_headline_of_every_federation_has_words() -> None:
    for kind, cls in kinds("federation").items():
        if not cls.__module__.startswith("fedroam."):  # of another test
            continue
        scene = prepare(tiny(federation=kind, model={"kind": "mlp", "hidden": [4]}, validation_share=0.3))
        try:
            state = begin(scene)
            judged = scene.parts.federation.evaluation_models(state.models, state.federation, scene.context)
        finally:
            scene.learner.close()
        assert next(iter(judged)) in MODELS, kind


def test_words_of_one_model_and_of_several(tmp_path: Path) -> None:
    own = made_run(tmp_path, "static", 0, [0.1, 0.5])
    cloud = made_run(tmp_path, "cloud", 0, [0.1, 0.7], judged=("global",))
    old = made_run(tmp_path, "old", 0, [0.1, 0.7], judged=())
    mine = made_run(tmp_path, "mine", 0, [0.1, 0.7], judged=("oracle", "own"))
    groups = variants([own, cloud, old, mine])
    assert evaluated_models(groups) == {"static": "own", "cloud": "global", "old": "", "mine": "oracle"}
    assert accuracy_meaning({"static": "own"}).endswith("of the accuracy of each client's own model.")
    assert accuracy_meaning({"a": "global", "b": "global"}).endswith(f"accuracy of {MODELS['global']}.")
    assert describe_models({}) == describe_models({"old": ""}) == UNKNOWN
    assert describe_models({"static": "own", "cloud": "global", "mine": "oracle", "still": "own"}) == (
        f"each client's own model (static, still); {MODELS['global']} (cloud); the model called 'oracle' (mine)"
    )


def test_tables_and_headlines_say_it(tmp_path: Path) -> None:
    cloud = made_run(tmp_path, "cloud", 0, [0.1, 0.7], judged=("global",))
    own = made_run(tmp_path, "static", 0, [0.1, 0.5])
    text = io.StringIO()
    print_comparison(compare_runs([cloud]), Console(file=text, width=400))
    assert "own model" not in text.getvalue()
    assert MODELS["global"] in text.getvalue()
    assert "the global model reaches a test accuracy of 70.0" in headline(compare_runs([cloud]))[0]
    assert "the clients' models reach" in headline(compare_runs([own]))[0]
    first, second, *_ = remarks(compare_runs([own, cloud]))
    assert "That is each client's own model (static); " in first
    assert "the global one or else" in second
    assert "average of all clients' parameters at the end" in remarks(compare_runs([own]))[1]


def test_reports_say_it(tmp_path: Path) -> None:
    cloud = made_run(tmp_path, "cloud", 0, [0.1, 0.7, 0.8], judged=("global",))
    page = write_report([cloud], tmp_path / "report").read_text(encoding="utf-8")
    assert "own model" not in page
    assert "{model}" not in page
    assert "{mean_model}" not in page
    assert escape(f"Judged: {MODELS['global']}") in page
