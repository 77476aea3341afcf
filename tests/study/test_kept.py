"""What is kept of a study's runs: it gives the same results as their folders, and its damage is told."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.cli.study_runs import StudyRuns
from fedroam.errors import InputError
from fedroam.recording import Run
from fedroam.study import (
    Claim,
    Curves,
    Doses,
    Heat,
    Measure,
    Scale,
    Study,
    best,
    evaluate_study,
    final,
    order,
    over,
    rounds_to,
    table,
)
from fedroam.study.kept import (
    FILE,
    Records,
    RunRecord,
    merged,
    read_records,
    to_write_records,
    without_machine,
    write_records,
)
from fedroam.study.measures import energy as joules
from fedroam.study.presentation.page import write_study
from fedroam.study.values import Find, Reader
from support.made_runs import made_run
from support.record_lines import plain_lines

pytestmark = pytest.mark.usefixtures("rough_pictures")
ENDS = {"a": (50.0, 60.0, 55.0), "b": (60.5, 70.0, 65.5)}
VARIANTS = {"a": {"mobility": "static"}, "b": {}}
GAIN = final.of("b") - final.of("a")


def study(*claims: Claim) -> Study:
    return Study(
        name="made",
        title="Made",
        paper="Nobody.",
        about="Nothing.",
        base={"clients": 4, "rounds": 3, "mobility": {"kind": "random", "mobile": 2}},
        variants=VARIANTS,
        scales={"full": Scale(3)},
        tables=(table("ends", "Ends", {v: v for v in VARIANTS}, {"end": final}, lambda v, of: of.of(v)),),
        figures=(Curves("curves", "C", {"p": {v: v for v in VARIANTS}}),),
        claims=(
            Claim("helps", "b is better.", order(final.of("b"), final.of("a"))),
            Claim("sooner", "b is sooner.", order(rounds_to(58).of("a"), rounds_to(58).of("b"))),
            *claims,
        ),
        primary=("helps",),
    )


@pytest.fixture
def runs(tmp_path: Path) -> dict[tuple[str, int], Run]:
    return {
        (variant, seed): made_run(tmp_path, variant, seed, [0.1, end / 200, end / 100], movement=False)
        for variant, ends in ENDS.items()
        for seed, end in enumerate(ends)
    }


def by(found: dict[tuple[str, int], Run] | dict[tuple[str, int], RunRecord]) -> Find:
    return lambda variant, seed: found.get((variant, seed))


def kept(runs: dict[tuple[str, int], Run], folder: Path) -> dict[tuple[str, int], RunRecord]:
    """What is kept of runs after their study was evaluated and drawn, written and read again."""
    result = evaluate_study(study(), "full", range(3), by(runs))
    write_study(result, folder / "page", dict.fromkeys(study().items, ""))
    write_records(folder, merged(Records("made", "full"), result.reader.kept(), {"command": "c"}))
    found = read_records(folder, "made", "full")
    assert found.sittings == ({"command": "c"},)
    return {(run.variant, run.seed): run for run in found.runs.values()}


def test_records_alone_give_the_same_page_as_the_runs(
    runs: dict[tuple[str, int], Run], tmp_path: Path
) -> None:
    there = kept(runs, tmp_path / "kept")
    assert there.keys() == runs.keys()
    names = {"final accuracy", "rounds to 58 %"}
    assert set(there["a", 0].numbers) == names
    assert there["a", 0].numbers["rounds to 58 %"] == (20.0, math.inf)
    assert there["a", 0].curves["accuracy"].tolist() == pytest.approx([0.1, 0.25, 0.5])
    for folder, find in (("runs", by(runs)), ("records", by(there))):
        result = evaluate_study(study(), "full", range(3), find)
        write_study(result, tmp_path / folder, dict.fromkeys(study().items, ""))
    for name in ("study.json", "cells.csv", "claims.csv"):
        assert (tmp_path / "runs" / name).read_bytes() == (tmp_path / "records" / name).read_bytes()
    assert (tmp_path / "records/figures/curves.png").exists()


def test_what_is_only_drawn_is_kept_whether_it_has_been_drawn_or_not(
    runs: dict[tuple[str, int], Run],
) -> None:
    """As where a study is stopped: its runs are kept, and no page is written."""
    dose = Doses("dose", "D", {"": {0: best.of("a"), 1: best.of("b")}}, "x", "y", bound=final.of("b"))
    heat = Heat("heat", "H", {(0, 0): rounds_to(40).of("a")}, "x", "y", "z")
    drawn = replace(study(), figures=(*study().figures, dose, heat))
    result = evaluate_study(drawn, "full", range(3), by(runs))
    for run in result.kept():
        names = {"final accuracy", "rounds to 58 %", best.name}
        names |= {"rounds to 40 %"} if run.variant == "a" else set()
        assert (set(run.numbers), set(run.curves)) == (names, {"accuracy"})


def test_half_of_a_pair_is_kept_and_a_number_that_is_not_there_counts_for_nothing(
    runs: dict[tuple[str, int], Run], tmp_path: Path
) -> None:
    del runs["b", 2]
    there = kept(runs, tmp_path)
    assert set(there["a", 2].numbers) == {"final accuracy", "rounds to 58 %"}
    unknown = Measure("unknown", "", lambda run: 1.0)
    assert Reader(by(there), range(3))(unknown.of("a")) == {}


def test_two_measures_of_one_name_are_refused(runs: dict[tuple[str, int], Run]) -> None:
    other = Measure(final.name, "%", lambda run: 1.0)
    result = evaluate_study(study(Claim("x", "", over(other.of("a")))), "full", range(3), by(runs))
    with pytest.raises(InputError, match="two are called 'final accuracy' and differ"):
        result.reader.kept()


def test_a_kept_run_that_lacks_what_an_item_asks_for_is_computed_again(tmp_path: Path) -> None:
    more = study(Claim("energy", "b costs less.", order(joules.of("a"), joules.of("b"))))
    first = StudyRuns(more, "full", None, str(tmp_path / "out"), (), str(tmp_path / "records"))
    records = [
        RunRecord(v, s, d, None, 3.0, {"final accuracy": (50.0, 50.0), "rounds to 58 %": (3.0, 3.0)})
        for (v, s), d in first.keys.items()
    ]
    first.keep(records, "c")
    work = StudyRuns(more, "full", None, str(tmp_path / "out"), (), str(tmp_path / "records"))
    helps, energy, curves = ([more.item(name)] for name in ("helps", "energy", "curves"))
    every = set(work.keys.values())
    assert work.missing(helps) == set()
    assert work.missing(energy) == work.missing(curves) == work.missing([*helps, *energy]) == every
    assert work.state(more.item("helps")) == "6 of 6 runs done"
    work.keep([replace(r, numbers={joules.name: (1.0, 1.0)}) for r in records[:2]], "c")
    again = StudyRuns(more, "full", None, str(tmp_path / "out"), (), str(tmp_path / "records"))
    assert every - again.missing(energy) == {record.digest for record in records[:2]}
    assert again.missing(helps) == set()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[1:], r"runs.jsonl, line 1: damaged: format is missing"),
        (lambda lines: [lines[0], lines[1][:40]], "line 2: damaged: no JSON: .* at character 33"),
        (lambda lines: [*lines, lines[1]], r"line 8: run 'a', seed 0, is there twice"),
        (lambda lines: [lines[0], lines[1].replace('"seed":0', '"seed":"0"')], "line 2: damaged: seed"),
        (
            lambda lines: [lines[0], lines[1].replace("[50.0", '["x"')],
            r"line 2: damaged: numbers.0.0.*'x'",
        ),
        (
            lambda lines: [lines[0], lines[1].replace('"numbers":{"0"', '"numbers":{"00"')],
            "line 2: damaged: a number of measure '00', named are 2, from 0 on",
        ),
        (
            lambda lines: [lines[0].replace('"names":["final accuracy",', '"names":['), lines[1]],
            "line 2: damaged: a number of measure '1', named are 1, from 0 on",
        ),
        (lambda lines: [lines[0].replace('"names":[', '"names":[0,'), lines[1]], "line 1: damaged: names.0"),
        (
            lambda lines: [lines[0], lines[1].replace("[20.0,", "[-20.0,2,")],
            "found 3, allowed are one or two",
        ),
        (
            lambda lines: [lines[0], lines[1].replace('[20.0,"inf"]', '["inf",20.0]')],
            "the least is above the most",
        ),
        (lambda lines: [lines[0], lines[1].replace('"first":0', '"first":10')], "3 values of 2 rounds"),
        (
            lambda lines: [lines[0], lines[1].replace('"last":20', '"last":21')],
            "by 10: the last one is none of them",
        ),
        (
            lambda lines: [lines[0], lines[1].replace('"first":0', '"first":30')],
            "30 to 20 by 10: the last one",
        ),
        (
            lambda lines: [lines[0], lines[1].replace('"last":20', '"last":-5')],
            r"curves.accuracy.rounds.*last = -5",
        ),
        (
            lambda lines: [lines[0], lines[1].replace('"last":20', '"last":1000000000')],
            "3 values of 100000001 rounds",
        ),
        (
            lambda lines: [lines[0], lines[1].replace('"every":10', '"every":0')],
            r"curves.accuracy.rounds.*every = 0",
        ),
        (
            lambda lines: [lines[0], lines[1].replace("[50.0", "[1e999")],
            "line 2: damaged: 1e999 is no number",
        ),
        (
            lambda lines: [lines[0].replace('"looks":[]', '"looks":[6,4]')],
            r"line 1: damaged: looks = \(6, 4\)",
        ),
        (
            lambda lines: [lines[0].replace('"full"', '"quick"')],
            "scale 'quick'; wanted are format 4, study made, scale full",
        ),
        (
            lambda lines: [lines[0], lines[1].replace('"seconds"', '"code":["x"],"seconds"')],
            r"line 2: damaged: code.0 = 'x'",
        ),
        (lambda lines: ["[]"], "line 1: damaged: found list, expected a JSON object"),
        (lambda lines: [], "line 1: damaged: no JSON"),
    ],
)
def test_damaged_and_foreign_records_are_told(
    runs: dict[tuple[str, int], Run], tmp_path: Path, change: object, words: str
) -> None:
    kept(runs, tmp_path)
    path = tmp_path / FILE
    lines = change(path.read_text(encoding="utf-8").splitlines())  # type: ignore[operator]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=words) as error:
        read_records(tmp_path, "made", "full")
    assert "\n" not in str(error.value)


@given(
    rounds=st.lists(st.integers(0, 2**31), max_size=6)
    | st.builds(
        lambda first, every, n: list(range(first, first + every * n, every)), *[st.integers(1, 99)] * 3
    )
)
@settings(deadline=None)
def test_any_rounds_are_read_as_they_were_written(
    rounds: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    curve = pd.Series([0.5] * len(rounds), index=rounds, dtype=float)
    run = RunRecord("a", 0, "d" * 64, curves={"accuracy": curve})
    write_records(folder, merged(Records("made", "full"), [run]))
    read = read_records(folder, "made", "full").runs[run.key].curves["accuracy"]
    assert list(read.index) == rounds
    assert read.tolist() == curve.tolist()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_records_of_earlier_formats_are_read(number: int, tmp_path: Path) -> None:
    """The first had every round of a curve, and null where a run did not diverge; the first two the name of each
    number; all of them the machine in each sitting, and the curves of runs that have none."""
    run = RunRecord(
        "a", 0, "d" * 64, None, 3.0, {"final accuracy": (50.0, math.inf)}, {"accuracy": pd.Series([0.1, 0.3])}
    )
    line = {
        "variant": "a", "seed": 0, "digest": "d" * 64, "diverged_at": None, "seconds": 3.0,
        "numbers": {"final accuracy": [50.0, "inf"]}, "curves": {"accuracy": {"rounds": [0, 1], "values": [0.1, 0.3]}},
    }  # fmt: skip
    bare = {**line, "seed": 1, "digest": "e" * 64, "curves": {}}
    sittings = [
        {"command": f"c{k}", "runs": k, "hours": 1.0, "environment": {"cores": k % 2}} for k in range(3)
    ]
    head = {"format": number, "study": "made", "scale": "full", "seeds": 0, "looks": [], "sittings": sittings}
    if number == 3:
        head["names"] = ["final accuracy"]
        line["numbers"] = bare["numbers"] = {"0": [50.0, "inf"]}
    (tmp_path / FILE).write_text(
        "".join(f"{json.dumps(one)}\n" for one in (head, line, bare)), encoding="utf-8"
    )
    found = read_records(tmp_path, "made", "full")
    read = found.runs[run.key]
    assert found.runs["e" * 64] == replace(run, seed=1, digest="e" * 64, curves={})
    assert list(found.sittings) == sittings
    assert replace(read, curves={}) == replace(run, curves={})
    pd.testing.assert_series_equal(read.curves["accuracy"], run.curves["accuracy"])
    write_records(tmp_path, found)
    now, again, bare = map(json.loads, (tmp_path / FILE).read_text(encoding="utf-8").splitlines())
    assert (now["format"], now["names"], again["numbers"]) == (4, ["final accuracy"], {"0": [50.0, "inf"]})
    assert [sitting["environment"] for sitting in now["sittings"]] == [0, 1, 0]
    assert now["environments"] == [{"cores": 0}, {"cores": 1}]
    assert "curves" not in bare
    assert read_records(tmp_path, "made", "full").sittings == found.sittings


def test_a_sitting_on_a_machine_that_is_not_told_is_damage(tmp_path: Path) -> None:
    machine = {"cores": 2}
    write_records(
        tmp_path, replace(Records("made", "full"), sittings=({"environment": machine}, {"runs": 1}))
    )
    assert read_records(tmp_path, "made", "full").sittings == ({"environment": machine}, {"runs": 1})
    text = (tmp_path / FILE).read_text()
    for wrong, told in (("3", "environment 3, told are 1"), ("-1", "environment"), ("true", "environment")):
        (tmp_path / FILE).write_text(text.replace('"environment":0', f'"environment":{wrong}'))
        with pytest.raises(InputError, match=f"line 1: damaged: .*{told}"):
            read_records(tmp_path, "made", "full")


def test_a_run_on_a_network_is_kept_beside_the_simulated_one(tmp_path: Path) -> None:
    """Both have one digest. Lines of simulated runs are what they were before there was another place."""
    simulated = RunRecord("a", 0, "d" * 64, None, 3.0, {"final accuracy": (50.0, 50.0)})
    network = replace(simulated, variant="a,network", seconds=None, where="network")
    write_records(tmp_path, merged(Records("made", "full"), [simulated, network]))
    _, first, second = (json.loads(line) for line in (tmp_path / FILE).read_text().splitlines())
    assert list(first) == ["variant", "seed", "digest", "seconds", "numbers"]
    assert second["where"] == "network"
    there = read_records(tmp_path, "made", "full")
    assert there.runs == {"d" * 64: simulated, "d" * 64 + "@network": network}
    again = merged(there, [replace(network, numbers={"x": (1.0, 1.0)})])
    assert again.runs[network.key].numbers == {"final accuracy": (50.0, 50.0), "x": (1.0, 1.0)}
    assert again.runs[simulated.key] == simulated
    text = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(text.replace('"network"', '"moon"'))
    with pytest.raises(InputError, match=r"line 3: damaged: where = 'moon'"):
        read_records(tmp_path, "made", "full")


def test_a_study_knows_which_runs_a_network_plays(tmp_path: Path) -> None:
    own = replace(study(), on_network=("b",))
    work = StudyRuns(own, "full", None, str(tmp_path / "out"), ())
    assert {run.keys["variant"] for run in work.plan.runs} == {"a"}
    assert work.folder(work.keys["b", 0]).parent == tmp_path / "out/network/runs"
    assert work.folder(work.keys["a", 0]) == tmp_path / "out/sweep/runs" / work.keys["a", 0][:16]
    (timed,) = work.timed([RunRecord("b", 0, work.experiments["b", 0].digest)])
    assert timed.key == work.keys["b", 0]
    with pytest.raises(InputError, match="unknown variant on a network of study made 'c'"):
        replace(study(), on_network=("c",))


def test_how_it_is_judged_is_kept(tmp_path: Path) -> None:
    """Looks that were planned stay, and seeds that were looked at are not forgotten."""
    records = Records("made", "full").judged_by(4)
    write_records(tmp_path, records)
    found = read_records(tmp_path, "made", "full")
    assert (found.seeds, found.looks) == (4, ())
    found = found.judged_by(6, (4, 6, 9)).judged_by(4)
    assert (found.seeds, found.looks) == (6, (4, 6, 9))
    write_records(tmp_path, found)
    assert read_records(tmp_path, "made", "full") == found
    old = '{"format": 1, "study": "made", "scale": "full", "sittings": []}\n'  # of before that was kept
    (tmp_path / FILE).write_text(old, encoding="utf-8")
    assert read_records(tmp_path, "made", "full") == Records("made", "full")


@pytest.mark.parametrize(
    ("typed", "kept_as"),
    [
        (
            "fedroam reproduce reza claims --records results/reza",
            "fedroam reproduce reza claims --records results/reza",
        ),
        (
            "fedroam reproduce reza --out /elsewhere/x --records /elsewhere/r",
            "fedroam reproduce reza --records r",
        ),
        (
            "fedroam reproduce '/elsewhere/my study.py' --workers 4 --hours 2",
            "fedroam reproduce 'my study.py' --hours 2",
        ),
        ("fedroam reproduce reza --ray 10.0.0.7:6379", "fedroam reproduce reza"),
    ],
)
def test_a_kept_command_tells_nothing_of_the_machine(typed: str, kept_as: str) -> None:
    assert without_machine(typed) == kept_as


def test_a_study_goes_on_from_its_records(tmp_path: Path) -> None:
    """What is kept is not computed again, unless its settings have changed."""
    folder = tmp_path / "records"
    first = StudyRuns(study(), "full", None, str(tmp_path / "out"), (), str(folder))
    items = list(study().items.values())
    assert len(first.missing(items)) == 6
    digest = first.keys["a", 1]
    numbers = {"final accuracy": (50.0, 50.0), "rounds to 58 %": (3.0, math.inf)}
    record = RunRecord("a", 1, digest, None, 3.0, numbers, {"accuracy": pd.Series([0.5], [3])})
    first.keep([record], "fedroam reproduce made")
    again = StudyRuns(study(), "full", None, str(tmp_path / "out"), (), str(folder))
    assert again.needed(items) - again.missing(items) == {digest}
    assert again.find("a", 1) == again.kept.runs[digest]
    (sitting,) = again.kept.sittings
    assert (sitting["command"], sitting["runs"]) == ("fedroam reproduce made", 1)
    again.keep([record], "fedroam reproduce made --judge-only", (2, 3))
    assert again.kept.seeds == 3  # as a study of three seeds without looks was judged before
    assert len(again.kept.sittings) == 1  # nothing was computed
    text = (folder / FILE).read_text(encoding="utf-8")
    assert plain_lines(folder)[0]["numbers"]["final accuracy"] == [50.0]
    (folder / FILE).write_text(text.replace(digest, "0" * 64), encoding="utf-8")
    with pytest.raises(InputError, match="the kept run of a, seed 1, has other settings"):
        StudyRuns(study(), "full", None, None, (), str(folder))
    shutil.rmtree(folder)
    assert read_records(folder, "made", "full").runs == {}


@pytest.mark.parametrize(("looks", "seeds"), [((2, 4), 5), ((), 3)])
def test_seeds_beyond_those_judged_are_shown_where_looks_decide(
    looks: tuple[int, ...], seeds: int, tmp_path: Path
) -> None:
    """As where other claims needed more. Without looks a study is judged by all that is shown."""
    work = StudyRuns(study(), "full", 5, str(tmp_path / "out"), (), str(tmp_path / "records"))
    runs = [RunRecord("a", s, work.keys["a", s], numbers={"final accuracy": (50.0, 50.0)}) for s in range(5)]
    work.keep(runs, "c", looks, 3)
    assert StudyRuns.of_records(study(), "full", tmp_path / "records").seeds == seeds


def test_two_sittings_that_share_records_lose_nothing_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one began before the first one kept anything, and ends after it."""
    folder = tmp_path / "records"
    first, second = (
        StudyRuns(study(), "full", None, str(tmp_path / out), (), str(folder)) for out in ("one", "two")
    )
    numbers = {"final accuracy": (50.0, 50.0)}
    first.keep([RunRecord("a", s, first.keys["a", s], numbers=numbers) for s in (0, 1)], "c1", (2, 3))
    runs = [RunRecord("b", 0, second.keys["b", 0]), RunRecord("a", 1, second.keys["a", 1])]
    second.keep(runs, "c2")
    found = read_records(folder, "made", "full")
    assert found == second.kept
    assert {(run.variant, run.seed) for run in found.runs.values()} == {("a", 0), ("a", 1), ("b", 0)}
    assert found.runs[first.keys["a", 1]].numbers == numbers
    assert [sitting["command"] for sitting in found.sittings] == ["c1", "c2"]
    assert (found.looks, found.seeds) == ((2, 3), 3)

    monkeypatch.setattr("fedroam.study.kept.KEEPING", 0.0)
    with (
        to_write_records(folder),
        pytest.raises(InputError, match="another process has been keeping runs there"),
    ):
        first.keep(runs, "c3")
    first.keep(runs, "c3")  # it is let go


def test_planned_looks_judge_the_seeds_that_have_runs(tmp_path: Path) -> None:
    """Not all that the last look would take."""
    work = StudyRuns(study(), "full", 3, str(tmp_path / "out"), (), str(tmp_path / "records"))
    work.keep([RunRecord("a", s, work.keys["a", s]) for s in (0, 1)], "c", (2, 3))
    assert (work.kept.seeds, work.kept.looks) == (2, (2, 3))
    work.keep([RunRecord("a", 2, work.keys["a", 2])], "c", (2, 3))
    assert read_records(tmp_path / "records", "made", "full").seeds == 3


def test_core_seconds_are_those_that_a_run_computed_where_they_are_known(tmp_path: Path) -> None:
    work = StudyRuns(study(), "full", 1, str(tmp_path), ())
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    records = {"a": {"seconds": 9.0, "cpu_seconds": 2.5}, "b": {"seconds": 4.0}, "c": {"state": "failed"}}
    (sweep / "sweep.json").write_text(json.dumps({"records": records}), encoding="utf-8")
    found = [RunRecord("v", 0, digest) for digest in "abc"]
    assert [run.seconds for run in work.timed(found)] == [2.5, 4.0, None]
