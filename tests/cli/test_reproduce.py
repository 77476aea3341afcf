"""`fedroam reproduce` from end to end, on a study of eight tiny runs."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedroam import Interrupted
from fedroam.analysis.statistics import looks, verdicts
from fedroam.cli.commands import reproduce
from fedroam.cli.study_runs import StudyRuns
from fedroam.papers.library import find_study
from fedroam.study import Claim, Measure, Scale, Study, final, order, over
from fedroam.study.kept import RunRecord, merged, write_records
from fedroam.study.values import Several
from fedroam.sweep import running
from support.commands import Commands, contents
from support.record_lines import plain_lines
from support.waiting import HANGS

pytestmark = pytest.mark.usefixtures("rough_pictures")

STUDY = """
from fedroam.components import field, register
from fedroam.mobility.grid import Static
from fedroam.study import Claim, Doses, Scale, Study, final, order, rises, table

BASE = {
    "clients": 4, "rounds": 2, "evaluate_every": 1, "checkpoint_every": 1,
    "data": {"kind": "digits", "test_share": 0.9}, "partition": {"kind": "dirichlet", "alpha": 0.3},
    "contacts": {"kind": "radius", "radius": 1.5},
    "model": "softmax_regression",
    "training": {"kind": "sgd", "lr": 0.1}, "engine": "reference",
    "mobility": {"kind": "random", "grid": 4, "mobile": 2},
}


@register("mobility", "frozen")
class Frozen(Static):
    "Nobody moves; a part of the study's own."

    broken: bool = field(False, "raises in round 2")

    def step(self, state, world, round):
        if self.broken and round > 1:
            raise ValueError("lost")
        return super().step(state, world, round)


STUDY = Study(
    name="mine",
    title="Mine",
    paper="Nobody, 2024.",
    about="A test.",
    base=BASE,
    variants={
        "frozen": {"mobility": {"kind": "frozen", "grid": 4}},
        "one": {"mobility": {"mobile": 1}},
        "two": {},
        "broken": {"mobility": {"kind": "frozen", "grid": 4, "broken": True}},
    },
    scales={
        "quick": Scale(2, cut=("one learning rate, to save time",), without=("broken",)),
        "full": Scale(2, {"rounds": 3}),
    },
    tables=(
        table("gain", "Gain", {"one": "one", "two": "two"}, {"gain": final},
              lambda v, m: m.of(v) - m.of("frozen"), ((1.0,), (2.5,))),
        table("bad", "Bad", {"broken": "broken"}, {"final": final}, lambda v, m: m.of(v)),
    ),
    figures=(Doses("dose", "Dose", {"": {0: final.of("frozen"), 2: final.of("two")}}, "x", "y"),),
    claims=(Claim("helps", "Moving helps.", order(final.of("two"), final.of("frozen"))),),
)
"""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    commands = Commands(tmp_path, capsys)
    commands.write("mine.py", STUDY)
    return commands


def finished(call: Commands, scale: str = "quick") -> dict[str, int]:
    """Modification time of each finished run."""
    runs = (call.folder / "studies/mine" / scale / "sweep/runs").glob("*/run.json")
    return {p.parent.name: p.stat().st_mtime_ns for p in runs if json.loads(p.read_text())["state"] == "done"}


def test_what_is_missing_is_run_and_only_that(call: Commands) -> None:
    first = call("reproduce", "mine.py", "helps", "--workers", "1", "--quiet")
    assert first.code == 0, first.err
    runs = finished(call)
    assert len(runs) == 4  # frozen and two, two seeds each
    assert "Moving helps." in first.out
    assert "tested: final accuracy of two − final accuracy of frozen > 0 points" in first.out
    assert "Cut at scale quick: one learning rate, to save time" in first.out
    assert "Gain" not in first.out

    again = call("reproduce", "mine.py", "dose", "--quiet")  # needs nothing new
    assert again.code == 0
    assert finished(call) == runs

    whole = call("reproduce", "mine.py", "--workers", "1")
    assert whole.code == 0, whole.err
    assert finished(call).items() >= runs.items()
    assert len(finished(call)) == 6
    assert "2 of 2 runs done" in whole.err or "2 of 2 runs" in whole.err
    assert "+2.5" in whole.out  # the paper's
    assert "not at this scale" in whole.out
    folder = call.folder / "studies/mine/quick"
    cells = pd.read_csv(folder / "cells.csv")
    by_hand = {}
    for path in (folder / "sweep/runs").iterdir():
        status = json.loads((path / "run.json").read_text())
        rounds = pd.read_parquet(path / "rounds.parquet")
        by_hand[status["variant"], status["seed"]] = 100 * rounds["accuracy"].iloc[-1]
    gains = [by_hand["two", s] - by_hand["frozen", s] for s in (0, 1)]
    assert cells["ours"].iloc[1] == pytest.approx(sum(gains) / 2)
    assert cells["difference"].iloc[1] == pytest.approx(sum(gains) / 2 - 2.5)
    for name in ("study.html", "claims.csv", "study.json", "figures/dose.png"):
        assert (folder / name).exists()

    listed = call("reproduce", "mine.py", "--judge-only", "--seeds", "3")
    assert listed.code == 0
    assert "4 of 6 runs done" in listed.out
    assert len(finished(call)) == 6

    more = call("reproduce", "mine.py", "helps", "--seeds", "3", "--workers", "1", "--quiet")
    assert more.code == 0
    assert len(finished(call)) == 8  # the third seed of two variants
    assert "(n = 3)" in more.out


def test_all_claims_need_only_their_own_runs(call: Commands) -> None:
    told = call("reproduce", "mine.py", "--dry-run", "--workers", "1")
    assert told.code == 0, told.err
    assert "6 runs to be computed" in told.out
    assert "of them for the claims: 4, " in told.out
    assert "measured on 3 variants, as busy as this machine is now" in told.out
    answer = call("reproduce", "mine.py", "claims", "--workers", "1", "--quiet")
    assert answer.code == 0, answer.err
    assert len(finished(call)) == 4  # frozen and two
    assert "Moving helps." in answer.out
    assert "Gain" not in answer.out
    nothing = call("reproduce", "mine.py", "figures", "--workers", "1", "--quiet")
    assert nothing.code == 0
    assert len(finished(call)) == 4
    unknown = call("reproduce", "mine.py", "claimes")
    assert unknown.code == 2
    assert "unknown item of mine 'claimes'" in unknown.err


def test_a_verdict_is_made_of_runs_as_they_were_written(call: Commands) -> None:
    assert call("reproduce", "mine.py", "helps", "--workers", "1", "--quiet").code == 0
    altered = next((call.folder / "studies/mine/quick/sweep/runs").glob("*/clients.parquet"))
    data = bytearray(altered.read_bytes())
    data[len(data) // 2] ^= 1
    altered.write_bytes(bytes(data))
    answer = call("reproduce", "mine.py", "helps", "--judge-only")
    assert answer.code == 2
    assert f"{altered.parent.name}/clients.parquet: damaged: its SHA-256 is not the one" in answer.err
    assert "computed anew" in answer.err
    shutil.rmtree(altered.parent)
    again = call("reproduce", "mine.py", "helps", "--workers", "1", "--quiet")
    assert again.code == 0, again.err


def test_a_study_file_with_a_part_may_be_edited_but_for_the_part(call: Commands) -> None:
    asked = ("reproduce", "mine.py", "helps", "--workers", "1", "--quiet")
    assert call(*asked).code == 0
    before = finished(call)
    call.write("mine.py", STUDY.replace("Moving helps.", "To move helps."))
    answer = call(*asked)
    assert answer.code == 0, answer.err
    assert "To move helps." in answer.out
    assert finished(call) == before
    call.write("mine.py", STUDY.replace("round > 1", "round > 2"))
    answer = call(*asked)
    assert answer.code == 2
    assert "mine.py: has changed since studies/mine/quick/sweep/runs/" in answer.err
    assert "choose another --out, or delete the folder to begin anew" in answer.err


def test_a_failing_run_is_told_and_does_not_stop_the_others(call: Commands) -> None:
    answer = call("reproduce", "mine.py", "bad", "--scale", "full", "--workers", "1", "--quiet")
    assert answer.code == 1
    assert "broken, seed 0 and 1 more: ValueError: lost" in answer.err
    assert answer.err.strip().splitlines()[-1].startswith("error: 2 runs failed")
    assert "runs missing" in answer.out
    assert (call.folder / "studies/mine/full/study.html").exists()


def test_after_an_interruption_the_command_to_go_on_is_told(
    call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **given: object) -> None:
        assert len(given["only"]) == 4  # type: ignore[arg-type]
        raise Interrupted("stopped with 3 of 4 runs unfinished")

    monkeypatch.setattr("fedroam.sweep.running.run_sweep", stopped)
    answer = call("reproduce", "mine.py", "helps", "--seeds", "2", "--workers", "1", "--quiet")
    assert answer.code == 130
    told = "go on with: fedroam reproduce mine.py helps --scale quick --seeds 2 --workers 1"
    assert answer.err.splitlines() == ["stopped with 3 of 4 runs unfinished", told]


def test_what_finished_before_a_stop_is_kept(call: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its folders the study goes on from there, and ends in the records of one that was never stopped."""
    asked = ("reproduce", "mine.py", "helps", "--workers", "1", "--quiet", "--records")
    whole = call(*asked, "whole")
    assert whole.code == 0, whole.err
    shutil.rmtree(call.folder / "studies")
    really = running.run_sweep

    def stopped(*given: Any, **options: Any) -> None:
        really(*given, **options | {"only": set(sorted(options["only"])[:3])})
        raise Interrupted("stopped with 1 of 4 runs unfinished")

    with monkeypatch.context() as patch:
        patch.setattr(running, "run_sweep", stopped)
        first = call(*asked, "rec")
    assert first.code == 130
    assert first.err.splitlines()[0] == "stopped with 1 of 4 runs unfinished"
    assert "kept: rec/runs.jsonl, 3 more runs" in first.out
    assert (head_of(call.folder / "rec")["seeds"], sorted(contents(call.folder / "rec"))) == (
        0,
        [".lock", "runs.jsonl"],
    )
    shutil.rmtree(call.folder / "studies")
    second = call(*asked, "rec")
    assert second.code == 0, second.err
    assert len(finished(call)) == 1
    told, kept = contents(call.folder / "whole"), contents(call.folder / "rec")
    assert [each["runs"] for each in head_of(call.folder / "rec")["sittings"]] == [3, 1]  # type: ignore[attr-defined]
    assert {name for name in told if told[name] != kept[name]} <= {"runs.jsonl", "study.json"}
    assert numbers_of(kept["runs.jsonl"]) == numbers_of(told["runs.jsonl"])


def numbers_of(records: bytes | None) -> list[dict[str, object]]:
    """What is kept of each run, without how long it took."""
    assert records is not None
    return [json.loads(line) | {"seconds": None} for line in records.splitlines()[1:]]


def test_the_list_of_studies_tells_items_cost_and_state(call: Commands) -> None:
    answer = call("reproduce")
    assert answer.code == 0
    for words in (
        "quickstart: Does movement help?",
        "movement-helps",
        "claim",
        "0 of 8 runs done",
        "not measured",
    ):
        assert words in answer.out
    assert not (call.folder / "studies").exists()  # a list writes nothing


def test_a_scale_that_only_some_studies_name(call: Commands) -> None:
    answer = call("reproduce", "--scale", "medium")
    assert answer.code == 0
    assert "scale medium" in answer.out  # of jahani
    assert "quickstart: has no scale medium, only quick, full" in answer.out
    answer = call("reproduce", "--scale", "medum")
    assert answer.code == 2
    assert (
        "unknown scale 'medum': allowed are full, medium, quick, tiny; did you mean 'medium'?" in answer.err
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("quikstart",),
            "unknown study 'quikstart': allowed are contact-limits, heredia, jahani, mocfl, mohawk, prototype, "
            "quickstart, reza; did you mean 'quickstart'?",
        ),
        (("nowhere.py",), "nowhere.py: no such file"),
        (("mine.py", "hlps"), "unknown item of mine 'hlps'"),
        (("mine.py", "--scale", "qick"), "unknown scale of mine 'qick'"),
        (("mine.py", "--seeds", "0"), "--seeds 0: allowed is a whole number from 1"),
        (("mine.py", "--out", "mine.py"), "mine.py"),
    ],
)
def test_wrong_input_is_told_in_a_line(call: Commands, arguments: tuple[str, ...], words: str) -> None:
    answer = call("reproduce", *arguments)
    assert answer.code == 2
    assert words in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_compare_by_needs_a_sweep_and_a_varied_setting(call: Commands) -> None:
    assert call("reproduce", "mine.py", "helps", "--workers", "1", "--quiet").code == 0
    sweep = "studies/mine/quick/sweep"  # the runs of a study are a sweep over its variants
    answer = call("compare", sweep, "--by", "variant", "--csv", "by.csv")
    assert answer.code == 0, answer.err
    assert "2 of 6 rows of the sweep are not finished" in answer.out
    table = pd.read_csv("by.csv").set_index("variant")
    claims = pd.read_csv("studies/mine/quick/claims.csv")
    assert table.loc["two", "difference"] == pytest.approx(claims["estimate"].iloc[0])
    assert table.loc["two", "n"] == 2
    assert table.loc["two", "low"] == pytest.approx(claims["low"].iloc[0])
    assert "unknown varied setting 'variants'" in call("compare", sweep, "--by", "variants").err
    assert "no sweep here" in call("compare", f"{sweep}/runs", "--by", "variant").err
    assert "unknown statistic" in call("compare", sweep, "--by", "variant", "--statistic", "finl").err
    assert "values are numbers" in call("compare", sweep, "--by", "variant", "--reach", "50").err


def head_of(folder: Path) -> dict[str, object]:
    """The first line of what is kept."""
    found = json.loads((folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert isinstance(found, dict)
    return found


def test_what_is_kept_is_judged_again_from_itself_alone(call: Commands) -> None:
    """Records hold all that a page says: without any run folder the same files are made, byte for byte."""
    first = call("reproduce", "mine.py", "--workers", "1", "--quiet", "--records", "rec")
    assert first.code == 0, first.err
    assert "kept: rec/runs.jsonl" in first.out
    records = call.folder / "rec"
    before = contents(records)
    assert set(before) == {
        ".lock",
        "runs.jsonl",
        "claims.json",
        "cells.json",
        "study.json",
        "figures",
        "figures/dose.svg",
    }
    everything = b"".join(text for text in before.values() if text)
    assert str(call.folder).encode() not in everything
    assert platform.node().encode() not in everything or len(platform.node()) < 4
    (sitting,) = head_of(records)["sittings"]  # type: ignore[misc]
    assert sitting["command"] == "fedroam reproduce mine.py --scale quick --records rec"
    assert sitting["runs"] == 6

    shutil.rmtree(call.folder / "studies")
    for name in ("claims.json", "cells.json", "study.json", "figures"):
        path = records / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    again = call("reproduce", "mine.py", "--judge-only", "--records", "rec")
    assert again.code == 0, again.err
    assert contents(records) == before
    claims = json.loads((records / "claims.json").read_text(encoding="utf-8"))
    by_hand = {}
    for run in plain_lines(records):
        by_hand[run["variant"], run["seed"]] = run["numbers"]["final accuracy"][0]
    gains = [by_hand["two", seed] - by_hand["frozen", seed] for seed in (0, 1)]
    assert claims[0]["estimate"] == pytest.approx(sum(gains) / 2, rel=1e-5)
    page = (call.folder / "studies/mine/quick/study.html").read_text(encoding="utf-8")
    assert "4 of 4 runs that the claims need are there (6 of 6 of all tables and figures)." in page


def test_what_is_kept_of_a_part_that_has_changed_is_refused(call: Commands) -> None:
    """Lines of before sums were kept are read, those of fedroam's own parts have none, and claims may be edited."""
    asked = ("reproduce", "mine.py", "helps", "--workers", "1", "--quiet", "--records", "rec", "--out")
    assert call(*asked, "one").code == 0
    path = call.folder / "rec/runs.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert {line["variant"]: len(line.get("code", ())) for line in lines} == {"frozen": 1, "two": 0}
    call.write("mine.py", STUDY.replace("Moving helps.", "To move helps."))
    before = path.read_bytes()
    assert call(*asked, "two").code == 0
    assert path.read_bytes() == before

    call.write("mine.py", STUDY.replace("round > 1", "round > 2"))
    answer = call(*asked, "three", "--seeds", "3")
    assert answer.code == 2
    assert (
        "rec: the kept run of frozen, seed 0, was computed by other source of parts of your own" in answer.err
    )
    assert "delete its line to compute it anew" in answer.err
    assert path.read_bytes() == before
    head = path.read_text().splitlines()[0]
    old = [json.dumps({name: line[name] for name in line if name != "code"}) for line in lines]
    path.write_text("".join(f"{line}\n" for line in (head, *old)))
    assert call(*asked, "four").code == 0
    assert not [line for line in path.read_text().splitlines()[1:] if "code" in json.loads(line)]


def test_a_study_file_that_was_edited_is_told_of(call: Commands) -> None:
    """What a kept number means is its measure's name alone: nobody is to think it was measured anew."""
    asked = ("reproduce", "mine.py", "helps", "--workers", "1", "--quiet", "--records", "rec")
    first = call(*asked)
    assert (first.code, first.err) == (0, "")
    (sitting,) = head_of(call.folder / "rec")["sittings"]  # type: ignore[misc]
    assert sitting["source"] == hashlib.sha256(STUDY.encode()).hexdigest()
    assert call(*asked).err == ""

    call.write("mine.py", STUDY + "# edited\n")
    edited = call(*asked)
    assert edited.code == 0
    assert (
        "note: mine.py is not what it was when runs were kept in rec: numbers that are kept stay"
        in edited.err
    )
    grown = call(*asked, "--seeds", "3")
    assert "note: mine.py" in grown.err
    assert call(*asked, "--seeds", "3").err == "", "the last runs were kept by this file"
    path = call.folder / "rec/runs.jsonl"
    head, *lines = path.read_text().splitlines()
    damaged = head.replace(sitting["source"], "no sum")
    path.write_text("".join(f"{line}\n" for line in (damaged, *lines)))
    answer = call(*asked)
    assert (answer.code, "runs.jsonl, line 1" in answer.err, "source" in answer.err) == (2, True, True)


GROWING = [
    "reproduce",
    "mine.py",
    "claims",
    "--until-decided",
    "--records",
    "rec",
    "--workers",
    "1",
    "--quiet",
]


def nothing_is_decided(call: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study at a level at which nothing can be, with looks at two and at three seeds, none of them hopeless."""
    call.write("mine.py", STUDY.replace("    base=BASE,", "    base=BASE,\n    alpha=1e-12,"))
    monkeypatch.setattr(looks, "LOOKS", (2, 3))
    monkeypatch.setattr(verdicts, "FUTILE", 0.0)


def test_until_decided_stops_by_the_clock_and_goes_on_at_the_next_look(
    call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour by a clock of its own; a look takes an hour and ten minutes. Nothing can be decided at such a level."""
    nothing_is_decided(call, monkeypatch)
    now = [1000.0]
    monkeypatch.setattr(reproduce, "monotonic", lambda: now[0])
    compute = reproduce.Wave.compute

    def slow(wave: reproduce.Wave, work: StudyRuns, missing: set[str]) -> None:
        compute(wave, work, missing)
        now[0] += 4200

    monkeypatch.setattr(reproduce.Wave, "compute", slow)
    asked = (
        "reproduce",
        "mine.py",
        "claims",
        "--until-decided",
        "--hours",
        "1",
        "--records",
        "rec",
        "--workers",
        "1",
    )
    first = call(*asked, "--quiet")
    assert first.code == 0, first.err
    assert "look at 2 seeds: 0 of 1 claims are decided or hopeless" in first.out
    assert "look at 3 seeds" not in first.out
    assert len(finished(call)) == 4
    assert (head_of(call.folder / "rec")["seeds"], head_of(call.folder / "rec")["looks"]) == (2, [2, 3])
    assert "Looks are planned after 2, 3 seeds, each at 1/2 of the level" in " ".join(first.out.split())

    second = call(*asked, "--quiet")
    assert second.code == 0, second.err
    assert "look at 2 seeds: 0 of 1" in second.out
    assert "look at 3 seeds: 0 of 1" in second.out
    assert len(finished(call)) == 6
    assert head_of(call.folder / "rec")["seeds"] == 3

    judged = call("reproduce", "mine.py", "claims", "--judge-only", "--seeds", "3", "--records", "rec")
    assert "Looks are planned after 2, 3 seeds" in " ".join(judged.out.split())  # once planned, they stay


@pytest.mark.parametrize("recorded", [False, True])
def test_all_is_judged_by_what_is_there_however_far_the_claim_asked_has_grown(
    recorded: bool, call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that is hopeless at its first look, in a study that has grown to the second."""
    nothing_is_decided(call, monkeypatch)
    where = ("--records", "rec") if recorded else ()
    asked = ("reproduce", "mine.py", "helps", "--until-decided", "--workers", "1", "--quiet", *where)
    assert "look at 3 seeds" in call(*asked).out
    monkeypatch.setattr(verdicts, "FUTILE", 2.0)
    again = call(*asked)
    assert "look at 2 seeds: 1 of 1 claims are decided or hopeless (hopeless now: helps)" in again.out
    assert "look at 3 seeds" not in again.out
    assert json.loads((call.folder / "studies/mine/quick/study.json").read_text())["seeds"] == [0, 1, 2]


def stopped_at_the_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C when runs of a third seed are to begin."""
    sweep = reproduce.Wave._sweep

    def broken_off(wave: reproduce.Wave, work: StudyRuns, missing: set[str]) -> None:
        if work.seeds == 3:
            raise KeyboardInterrupt
        sweep(wave, work, missing)

    monkeypatch.setattr(reproduce.Wave, "_sweep", broken_off)


def test_a_look_that_was_taken_is_recorded_whatever_ends_the_next(
    call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C, when the runs of the second look begin, and then once more: there was one look, and no second."""
    nothing_is_decided(call, monkeypatch)
    stopped_at_the_second_look(monkeypatch)
    for _ in range(2):
        answer = call(*GROWING)
        assert answer.code == 130
        assert "look at 2 seeds: 0 of 1 claims are decided or hopeless" in answer.out
        head = head_of(call.folder / "rec")
        assert (head["seeds"], head["looks"], len(head["sittings"])) == (2, [2, 3], 1)


@pytest.mark.parametrize("stopped", [False, True])
def test_looks_that_were_planned_without_records_stay(
    stopped: bool, call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has looked is not told a verdict at the full level afterwards, also where the second look was stopped."""
    nothing_is_decided(call, monkeypatch)
    if stopped:
        stopped_at_the_second_look(monkeypatch)
    asked = ("reproduce", "mine.py", "helps")
    judge = (*asked, "--judge-only", "--scale")
    assert call(*asked, "--until-decided", "--workers", "1", "--quiet").code == (130 if stopped else 0)
    told = " ".join(call(*judge, "quick").out.split())
    assert "Looks are planned after 2, 3 seeds, each at 1/2 of the level" in told
    assert "Looks are planned" not in " ".join(
        call(*judge, "full", "--out", "studies/mine/quick").out.split()
    )
    told = " ".join(call(*judge, "quick").out.split())
    assert "Looks are planned after 2, 3 seeds" in told

    file = call.folder / "studies/mine/quick/looks.json"
    file.write_text(file.read_text().replace("[2, 3]", "[3, 2]").replace("2,\n", "4,\n"))
    answer = call(*judge, "quick")
    assert answer.code == 2
    assert "looks.json: damaged: looks = " in answer.err


def test_until_decided_goes_on_without_claims_whose_data_is_not_here(
    call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their runs fail, or, where only they are missing, nothing can be read at all; the other claim has its looks."""
    study = STUDY.replace("    base=BASE,", "    base=BASE,\n    alpha=1e-12,")
    study = study.replace('"two": {},', '"two": {}, "away": {"data": {"kind": "mnist", "root": "nowhere"}},')
    more = 'Claim("away-helps", "It helps.", order(final.of("away"), final.of("frozen")))'
    call.write("mine.py", study.replace("    claims=(", f"    claims=({more}, "))
    monkeypatch.setattr(looks, "LOOKS", (2, 3))
    monkeypatch.setattr(verdicts, "FUTILE", 0.0)
    for why in ("failed: away, seed 0", "failed: 2 runs"):
        answer = call(*GROWING)
        assert answer.code == 1
        assert "look at 2 seeds: left out, as runs of theirs failed: away-helps" in answer.out
        assert "look at 3 seeds: 0 of 2 claims are decided or hopeless" in answer.out
        assert why in answer.err
        assert "data.root = 'nowhere': no such folder" in answer.err
        shutil.rmtree(call.folder / "studies")


# What b is ahead of a by, seed by seed, and d of c: hopeless after nine seeds, and decided after thirteen.
AHEAD = {
    "b": (3.0, 2.7, -0.4, -4.3, 1.7, 2.0, 0.2, -2.0, -1.5),
    "d": (2.0, 0.5, 1.4, 0.1, 1.0, -0.5, 0.3, 1.5, -0.2, 1.0, 1.0, 1.0, 1.0),
}
ALL = {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("primary", "asked"),
    [
        (("second",), [(4, ALL), (6, ALL), (9, ALL), (13, {"c", "d"})]),
        (("first", "second"), [(4, ALL), (6, ALL), (9, ALL)]),  # it can hold only after the first one
    ],
)
def test_until_decided_asks_for_no_run_of_a_claim_that_waits_for_a_hopeless_one(
    primary: tuple[str, ...],
    asked: list[tuple[int, set[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No run is computed: those that are asked for are kept with numbers made up for them."""
    made, wave, where, told = counted(primary, AHEAD, tmp_path, monkeypatch)
    assert reproduce._grown(made, list(made.claims), where, wave) == asked[-1][0]
    assert told == asked


def counted(
    primary: tuple[str, ...],
    ahead: dict[str, tuple[float, ...]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[
    Study,
    reproduce.Wave,
    tuple[str, str | None, tuple[str, ...], str | None],
    list[tuple[int, set[str]]],
]:
    """A study whose runs are not computed but made up, and, noted at each look, the variants that are asked for.

    ahead: of b and d, what they are ahead of a and of c, seed by seed.
    """
    made = Study(
        name="mine",
        title="Mine",
        paper="Nobody, 2024.",
        about="A test.",
        base={"clients": 4},
        variants={variant: {"rounds": k + 1} for k, variant in enumerate("abcd")},
        scales={"quick": Scale(4)},
        claims=(
            Claim("first", "b is better.", order(final.of("b"), final.of("a"))),
            Claim("second", "d is better.", order(final.of("d"), final.of("c"))),
        ),
        primary=primary,
    )
    told: list[tuple[int, set[str]]] = []

    def compute(wave: reproduce.Wave, work: StudyRuns, missing: set[str]) -> None:
        new = {which: key for which, key in work.keys.items() if key in missing}
        told.append((work.seeds, {variant for variant, _ in new}))
        ends = {(v, s): 50.0 + (ahead[v][s] if v in ahead else 0.0) for v, s in new}
        runs = [
            RunRecord(*which, key, numbers={"final accuracy": (ends[which],) * 2})
            for which, key in new.items()
        ]
        work.kept = merged(work.kept, runs)
        write_records(folder / "rec", work.kept)

    monkeypatch.setattr(reproduce.Wave, "compute", compute)
    wave = reproduce.Wave(1, None, False, True, "", math.inf)
    where = ("quick", str(folder / "out"), (), str(folder / "rec"))
    return made, wave, where, told


def test_until_decided_computes_no_more_seeds_of_a_claim_whose_own_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its four seeds the second would hold by itself, p = 5 times 0.00003: what it lacks is the first."""
    clear = {"b": (4.1, 1.6, 2.4, 5.5, 3.0, 3.0), "d": (3.0, 3.1, 2.9, 3.0, -9.0, -9.0)}
    made, wave, where, told = counted(("first", "second"), clear, tmp_path, monkeypatch)
    assert reproduce._grown(made, [made.item("second")], where, wave) == 4
    assert told == [(4, {"c", "d"})]
    lines = capsys.readouterr().out.splitlines()
    assert (
        "look at 4 seeds: 0 of 1 claims are decided or hopeless; enough seeds of their own: second" in lines
    )
    assert lines[-1] == "second would hold by itself; primary claims before it that have to hold first: first"

    # With the first, which takes six seeds, it holds by the four that it has.
    assert reproduce._grown(made, list(made.claims), where, wave) == 6
    assert told[1:] == [(4, {"a", "b"}), (6, {"a", "b"})]
    out = capsys.readouterr().out
    assert "look at 4 seeds: 0 of 2 claims are decided or hopeless; enough seeds of their own: second" in out
    assert out.endswith("look at 6 seeds: 2 of 2 claims are decided or hopeless\n")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_study_that_is_read_for_long_says_what_it_reads(
    quiet: bool, call: Commands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A measure takes 12 seconds of each run: it is told of from the second on, and not computed again."""
    assert call("reproduce", "mine.py", "claims", "--workers", "1", "--quiet").code == 0
    study, use = find_study("mine.py")
    seconds = 0.0

    def slow(run: Any) -> float:
        nonlocal seconds
        seconds += 12.0
        return 100 * float(run.by_round["accuracy"].iloc[-1])

    value = Measure("slow number", "%", slow).of("two")
    alone = replace(study, claims=(Claim("slow", "Slow.", over(value)),), tables=(), figures=())
    work = StudyRuns(alone, "quick", None, None, use)
    reading = reproduce.Reading(quiet, lambda: seconds)
    capsys.readouterr()
    assert reading.evaluate(work, ()).verdicts["slow"].evidence.n == 2
    assert seconds == 24.0
    assert capsys.readouterr().err == ("" if quiet else "reading two, seed 1: slow number\n")
    reading.evaluate(work, ())
    assert seconds == 24.0
    assert capsys.readouterr().err == ""


def test_what_was_replayed_of_runs_that_are_kept_is_not_replayed_at_the_next_command(
    call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their folders are there, too."""
    assert call("reproduce", "mine.py", "claims", "--workers", "1", "--quiet").code == 0
    study, use = find_study("mine.py")
    replayed: list[Path] = []

    def replay(run: Any) -> dict[str, float]:
        replayed.append(run.folder)
        return {"end": 100 * float(run.by_round["accuracy"].iloc[-1])}

    value = Several(replay).pick("end", "slow number", "%").of("two")
    alone = replace(study, claims=(Claim("slow", "Slow.", over(value)),), tables=(), figures=())
    for _ in range(2):
        work = StudyRuns(alone, "quick", None, None, use, "rec")
        result = reproduce.Reading(quiet=True).evaluate(work, ())
        work.keep(result.reader.kept(), "fedroam reproduce mine.py")
        assert result.verdicts["slow"].evidence.n == 2
        assert len(replayed) == 2


def test_an_hour_that_is_over_at_once_computes_nothing_and_judges(
    call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The alarm is a Ctrl-C of the command's own: no failure, wherever it comes."""

    def rung(*_: object, **__: object) -> None:
        threading.Event().wait(HANGS)  # until the alarm rings

    monkeypatch.setattr("fedroam.sweep.running.run_sweep", rung)
    times = iter([1000.0])  # when it begins; ever after, the time is over
    monkeypatch.setattr(reproduce, "monotonic", lambda: next(times, 9999.0))
    answer = call("reproduce", "mine.py", "claims", "--hours", "1", "--workers", "1", "--quiet")
    assert answer.code == 0, answer.err
    assert "the time is over; the same command goes on: fedroam reproduce mine.py claims" in answer.out
    assert "NOT TESTED" in answer.out
    assert finished(call) == {}


def test_the_alarm_is_off_where_the_work_ended_before() -> None:
    rang = threading.Event()
    with reproduce.alarm(threading.TIMEOUT_MAX, rang):
        pass
    assert not rang.is_set()
    with pytest.raises(KeyboardInterrupt), reproduce.alarm(0.0, rang):
        threading.Event().wait(HANGS)
    assert rang.is_set()


def test_the_alarm_rings_in_the_background_too() -> None:
    """Where a shell has let the command ignore Ctrl-C; afterwards it is ignored again."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), reproduce.alarm(0.0, threading.Event()):
            threading.Event().wait(HANGS)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


NETWORKED = """
from fedroam.study import Claim, Scale, Study, final, order, table

STUDY = Study(
    name="mine", title="Mine", paper="Nobody, 2024.", about="A test.",
    base={
        "clients": 2, "rounds": 2, "evaluate_every": 1, "data": {"kind": "digits", "test_share": 0.9},
        "model": "softmax_regression", "training": {"kind": "sgd", "lr": 0.1}, "federation": "fedavg",
        "mobility": "static", "clock": {"kind": "seconds", "length": 0.1},
    },
    variants={"network": {}, "simulated": {}},
    scales={"quick": Scale(1)},
    tables=(table("both", "Both", {v: v for v in ("network", "simulated")}, {"final": final}, lambda v, m: m.of(v)),),
    on_network=("network",),
)
"""


def test_a_run_on_a_network_is_held_against_its_simulation(call: Commands) -> None:
    pytest.importorskip("grpc")
    call.write("mine.py", NETWORKED)
    dry = call("reproduce", "mine.py", "--dry-run")
    assert "1 runs on an emulated network, which take the time that their clock says: not measured" in dry.out
    answer = call("reproduce", "mine.py", "--workers", "1", "--quiet", "--records", "kept")
    assert answer.code == 0, answer.err
    assert "2 of 2 runs done" in answer.out
    first, second = (
        json.loads(line) for line in (call.folder / "kept/runs.jsonl").read_text().splitlines()[1:]
    )
    assert (first["variant"], first["where"], "where" in second) == ("network", "network", False)
    assert (first["digest"], first["numbers"]) == (second["digest"], second["numbers"])
    (folder,) = (call.folder / "studies/mine/quick/network/runs").iterdir()
    agreement = json.loads((folder / "agreement.json").read_text())
    assert [each["what"] for each in agreement["compared"] if not each["identical"]] == ["time per round"]
    assert agreement["seconds"]["simulated"] == pytest.approx(0.1)
    assert agreement["seconds"]["network"] >= 0.1
    again = call("reproduce", "mine.py", "--quiet", "--judge-only", "--records", "kept")
    assert again.code == 0
    (folder / "agreement.json").unlink()  # stopped between the two
    assert "1 runs on an emulated network" in call("reproduce", "mine.py", "--dry-run").out
