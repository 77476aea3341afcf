"""Each number says what it counts, and what does not apply is not shown."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedroam.analysis import Comparison, compare_runs, print_comparison, variants
from fedroam.analysis.figures.places import places_figure
from fedroam.analysis.formatting import number, percent
from fedroam.analysis.report.movement import playback
from fedroam.analysis.report.report import write_report
from fedroam.analysis.report.table import cells, columns, remarks
from fedroam.components import Part, build, kinds, register
from fedroam.planning.advice import small_reach
from fedroam.recording import Run
from fedroam.runner import run
from fedroam.scene import advice
from fedroam.study.measures import measure
from fedroam.traces import import_trace, write_trace
from support.commands import Commands
from support.made_runs import made_run
from support.tiny import example, tiny

pytestmark = pytest.mark.usefixtures("rough_pictures")


def said(comparison: Comparison) -> str:
    console = Console(file=io.StringIO(), width=400)
    print_comparison(comparison, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


# --- the mean of the last evaluations -------------------------------------------------------------------------------


def test_round_0_is_no_evaluation_of_learning(tmp_path: Path) -> None:
    """Three evaluations after the start, of which five were asked: all three, and the heading says three."""
    comparison = compare_runs([made_run(tmp_path, "a", 0, [0.1, 0.5, 0.6, 0.7])])
    row = comparison.table.iloc[0]
    assert row["last_k"] == pytest.approx(0.6)
    assert row["last_counted"] == 3
    assert "Mean of last 3 (%)" in columns(comparison)
    assert "fewer than 5 evaluated rounds after round 0, which does not count (a: 3)" in said(comparison)


def test_enough_evaluations_need_no_words(tmp_path: Path) -> None:
    comparison = compare_runs([made_run(tmp_path, "a", 0, [0.1, 0.2, 0.5, 0.5, 0.5, 0.7, 0.8])])
    assert comparison.table.iloc[0]["last_k"] == pytest.approx(0.6)
    assert "Mean of last 5 (%)" in columns(comparison)
    assert "fewer than" not in said(comparison)


def test_variants_that_count_differently_are_told_apart(tmp_path: Path) -> None:
    one = made_run(tmp_path, "a", 0, [0.1, 0.5, 0.6])
    other = made_run(tmp_path, "b", 0, [0.1, 0.5, 0.6, 0.7, 0.8, 0.9])
    comparison = compare_runs([one, other])
    assert "Mean of last 5 or fewer (%)" in columns(comparison)
    assert "(a: 2; b: 5)" in said(comparison)


def test_a_mean_of_one_is_not_shown_twice(tmp_path: Path) -> None:
    comparison = compare_runs([made_run(tmp_path, "a", 0, [0.1, 0.5])])
    assert not any(head.startswith("Mean of last") for head in columns(comparison))
    assert len(columns(comparison)) == len(cells(comparison)[0])


def test_the_measure_of_sweeps_counts_alike(tmp_path: Path) -> None:
    made = made_run(tmp_path, "a", 0, [0.1, 0.5, 0.6, 0.7])
    assert measure("last:5").number(made) == pytest.approx(60)
    assert measure("last:2").number(made) == pytest.approx(65)


# --- one model, one accuracy ----------------------------------------------------------------------------------------


def test_a_global_model_on_shared_samples_has_one_accuracy(tmp_path: Path) -> None:
    """The average of one model is that model: no second column, no second figure."""
    made = made_run(tmp_path, "a", 0, [0.1, 0.5, 0.6], judged=("global",))
    comparison = compare_runs([made])
    assert not {"Averaged model (%)", "Samples pooled (%)"} & set(columns(comparison))
    assert "veraged model" not in said(comparison)
    page = write_report([made], tmp_path / "report").read_text(encoding="utf-8")
    assert 'id="figure-mean_model"' not in page
    assert 'id="figure-accuracy"' in page


def test_a_global_model_on_clients_own_samples_has_two_and_says_why(tmp_path: Path) -> None:
    own = {"evaluate_on": "own"}
    comparison = compare_runs([made_run(tmp_path, "a", 0, [0.1, 0.5, 0.6], judged=("global",), settings=own)])
    assert "Samples pooled (%)" in columns(comparison)
    assert cells(comparison)[0][columns(comparison).index("Samples pooled (%)")] == "65.0"
    assert any(
        "each sample counting once; in the final accuracy each client counts once" in s
        for s in remarks(comparison)
    )


def test_models_of_clients_have_an_average(tmp_path: Path) -> None:
    comparison = compare_runs([made_run(tmp_path, "a", 0, [0.1, 0.5, 0.6])])
    assert "Averaged model (%)" in columns(comparison)


# --- what is used for nothing ---------------------------------------------------------------------------------------


def with_test_samples(made: Run, count: int) -> Run:
    path = made.folder / "environment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "data": {"test_samples": count}}))
    return Run(made.folder)


@pytest.mark.parametrize(
    ("data", "way_out"),
    [
        ({"kind": "csv", "test_share": 0.2}, "; data.test_share = 0 deals them out, too"),
        ({"kind": "csv", "test_share": 0.2, "test_path": "t.csv"}, "used for nothing"),
        ({"kind": "mnist"}, "used for nothing"),
    ],
)
def test_a_shared_test_set_that_nobody_is_judged_on_is_told(
    tmp_path: Path, data: dict[str, Any], way_out: str
) -> None:
    made = made_run(tmp_path, "a", 0, [0.1, 0.5], settings={"evaluate_on": "own", "data": data})
    (note,) = variants([with_test_samples(made, 120)])[0].notes
    assert note.startswith("a: clients are judged on their own samples (evaluate_on), so 120 samples")
    assert note.endswith(way_out)
    assert variants([with_test_samples(made, 0)])[0].notes == []


def test_a_shared_test_set_that_is_used_is_no_news(tmp_path: Path) -> None:
    made = made_run(tmp_path, "a", 0, [0.1, 0.5], settings={"evaluate_on": "shared"})
    assert variants([with_test_samples(made, 120)])[0].notes == []


# --- what cannot be learnt ------------------------------------------------------------------------------------------


def test_classes_that_are_only_tested_are_told_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("v,label\n" + "".join(f"{k},{'ab'[k % 2]}\n" for k in range(20)))
    (tmp_path / "test.csv").write_text("v,label\n" + "".join(f"{k},{'abcd'[k % 4]}\n" for k in range(8)))
    data = {"kind": "csv", "path": str(tmp_path / "train.csv"), "test_path": str(tmp_path / "test.csv")}
    found = run(tiny(data=data, model="mlp"), tmp_path / "run")
    text = (
        "4 of 8 test samples are of classes that no training sample is of ('c', 'd'): no model can learn them"
    )
    assert any(text in note for note in variants([found])[0].notes)
    alone = run(tiny(data={**data, "test_path": data["path"]}, model="mlp"), tmp_path / "alone")
    assert not any("no training sample is of" in note for note in variants([alone])[0].notes)


def test_a_single_class_is_told_after_a_run(tmp_path: Path) -> None:
    text = "all samples are of one class ('a'): every answer is right, so accuracy says nothing"
    (tmp_path / "one.csv").write_text("v,label\n" + "".join(f"{k},a\n" for k in range(20)))
    one = run(tiny(data={"kind": "csv", "path": str(tmp_path / "one.csv")}, model="mlp"), tmp_path / "one")
    assert any(text in note for note in variants([one])[0].notes)
    several = made_run(tmp_path, "a", 0, [0.1, 0.5])
    assert not any("of one class" in note for note in variants([several])[0].notes)


# --- movement that a federation does not look at --------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(kinds("federation")))
def test_every_federation_says_what_it_looks_at(kind: str, tmp_path: Path) -> None:
    """Whoever says that it needs no contacts gives the same result with none."""
    federation, module = example("federation", kind), kinds("federation")[kind].__module__
    settings: dict[str, Any] = {
        "federation": federation,
        "rounds": 2,
        "model": "mlp",
        "validation_share": 0.2,
    }
    found = run(tiny(**settings, mobility="static"), tmp_path / "run")
    uses = found.world["uses"]
    if module.startswith("fedroam.federation.server"):
        assert uses == []
    if "contacts" not in uses:
        alone = run(
            tiny(**settings, mobility="static", contacts={"kind": "radius", "radius": 0.5}),
            tmp_path / "alone",
        )
        assert alone.rounds["accuracy"].equals(found.rounds["accuracy"])


def test_a_server_study_has_no_map_and_no_contacts(tmp_path: Path) -> None:
    for kind, movement, contacts in (
        ("fedavg", False, False),
        ("mohawk", True, False),
        ("decentralized", True, True),
    ):
        federation = {"kind": kind, **({"k2": 2} if kind == "mohawk" else {})}
        found = run(tiny(federation=federation, rounds=2), tmp_path / kind / "run")
        page = write_report([found], tmp_path / kind / "report").read_text(encoding="utf-8")
        for there, marks in (
            (
                movement,
                ('<section id="movement">', 'href="#movement"', 'id="map-canvas"', 'id="figure-places"'),
            ),
            # Where one model judges all, it is at no distance from itself.
            (contacts, ('id="figure-degree"', 'id="figure-isolated"', 'id="figure-consensus"')),
        ):
            for mark in marks:
                assert (mark in page) == there, (kind, mark)


def test_a_report_of_both_shows_both(tmp_path: Path) -> None:
    runs = [
        run(tiny(federation=kind, rounds=2, name=kind), tmp_path / kind)
        for kind in ("fedavg", "decentralized")
    ]
    page = write_report(runs, tmp_path / "report").read_text(encoding="utf-8")
    assert '<section id="movement">' in page
    assert 'id="figure-degree"' in page


# --- a radius that is small for its world ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reach", "bounds", "told"),
    [
        (3.0, (0, 0, 2000, 1500), True),
        (3.0, (0, 0, 17, 17), False),
        (20.0, (0, 0, 2000, 1500), False),
        (19.9, (-1000, 0, 1000, 10), True),
        (float("inf"), (0, 0, 2000, 1500), False),
        (0.0, (5, 5, 5, 5), False),
    ],
)
def test_a_small_radius(reach: float, bounds: tuple[float, ...], told: bool) -> None:
    assert bool(small_reach(reach, bounds)) == told


def test_a_small_radius_is_advised_against_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    call = Commands(tmp_path, capsys)
    words = ("run", "tiny.toml", "--no-report", "-q", "--set", "mobility={kind='random',grid=500,mobile=2}")
    answer = call(*words, "--out", "a")
    told = "contacts reach 3 m in a world of 499 m by 499 m: clients hardly ever meet"
    assert answer.out.startswith(f"note: {told}")
    assert told in call("compare", "a").out.replace("\n", " ")
    assert told not in call(*words, "--out", "b", "--set", "federation.kind=fedavg").out
    assert told not in call(*words, "--out", "c", "--set", "contacts.radius=100").out


# --- nobody is there ------------------------------------------------------------------------------------------------


def test_a_run_in_which_nobody_takes_part_says_so(tmp_path: Path) -> None:
    """The vehicles come after the time that the run covers: told before it and after it, with a way out that works."""
    source = tmp_path / "late.csv"
    rows = [(f"car {car}", t, t, car) for car in range(4) for t in range(100, 200, 5)]
    source.write_text("device,time,x,y\nstart,0,0,0\n" + "".join(f"{d},{t},{x},{y}\n" for d, t, x, y in rows))
    write_trace(import_trace(source), tmp_path / "late.parquet")
    trace = {
        "kind": "trace",
        "file": str(tmp_path / "late.parquet"),
        "mode": "interpolate",
        "interval": 10.0,
        "max_gap": 10.0,
    }
    near = {"kind": "radius", "radius": 50.0}
    away = tiny(mobility=trace, contacts=near, clients=4, rounds=3)
    (told,) = advice(away)
    assert "4 of 4 clients come only after the 30 s of" in told
    found = run(away, tmp_path / "away")
    text = "no client was present in any evaluated round (2 of them): there was nobody to learn"
    assert text in said(compare_runs([found]))
    later = tiny(mobility={**trace, "begin": 100.0}, contacts=near, clients=4, rounds=3)
    assert advice(later) == []
    assert text not in said(compare_runs([run(later, tmp_path / "later")]))


def test_clients_that_are_there_and_train_never_are_not_called_absent(tmp_path: Path) -> None:
    """No access point reaches anybody."""
    nowhere = {"kind": "grid", "columns": 2, "rows": 2, "range": 1e-6}
    settings = {"federation": {"kind": "mohawk", "k2": 2}, "access_points": nowhere}
    told = said(compare_runs([run(tiny(**settings, rounds=2, evaluate_every=1), tmp_path / "run")]))
    assert (
        "no client trained in any evaluated round (2 of them), though some were present; see federation"
        in told
    )
    assert "no client was present" not in told


def test_contacts_that_nobody_asks_for_are_not_drawn(tmp_path: Path) -> None:
    """Under access points the devices' own radio range means nothing: no circles, no lines, no counts of contacts."""
    found = made_run(tmp_path, "", 0, [0.1, 0.5])
    meeting = playback(variants([found]))["runs"][0]
    assert (meeting["meets"], meeting["reach"]) == (True, 2.0)
    assert sum(meeting["lines"]) > 0
    facts = json.loads((found.folder / "world.json").read_text())
    (found.folder / "world.json").write_text(json.dumps({**facts, "uses": ["places"]}))
    served = Run(found.folder)
    entry = playback(variants([served]))["runs"][0]
    assert (entry["meets"], entry["reach"], sum(entry["lines"])) == (False, None, 0)
    (ax,) = (figure := places_figure(served)).axes
    assert not ax.patches
    assert not ax.collections[0].get_segments()  # type: ignore[attr-defined]
    assert "contact" not in figure.legends[0].get_title().get_text()
    assert "range" not in figure.legends[0].get_title().get_text()


# --- small things ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-0.0, -0.0004, -1e-12])
def test_nothing_is_minus_nothing(value: float) -> None:
    assert number(value) == "0.0"
    assert number(value, sign=True) == "+0.0"
    assert percent(value / 100) == "0.0\u00a0%"
    assert number(-0.06) == "−0.1"


def test_a_citation_is_not_inherited() -> None:
    parent = kinds("mixing")["metropolis"]
    assert "Jahani" in parent.source
    try:

        @register("mixing", "mine_after_metropolis")
        class Mine(parent):  # type: ignore[valid-type, misc]
            """A rule of one's own."""

        assert Mine.source == ""
        made: Part = build("mixing", "mine_after_metropolis")
        assert made.source == ""
    finally:
        from fedroam import components

        components._registry["mixing"].pop("mine_after_metropolis")
    assert "Jahani" in parent.source


@pytest.mark.parametrize(
    ("device", "known"),
    [
        ("cuda:1", "not yet measured; an earlier state was, on one kind of GPU with one network"),
        ("mps", "not yet measured"),
    ],
)
def test_how_far_a_device_was_measured_is_told(device: str, known: str) -> None:
    experiment = tiny()
    assert not any("measured" in line for line in advice(experiment))
    (told,) = (line for line in advice(experiment.replace(device=device)) if "measured" in line)
    assert told.startswith(f'device = "{device}": {known}; benchmarks/gpu.py')
