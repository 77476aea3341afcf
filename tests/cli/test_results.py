"""`fedroam compare`, `report` and `data`: what they print and what they write."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fedroam import open_run, open_runs, plan
from fedroam.scene import deal
from support.commands import TINY, Commands, contents

pytestmark = pytest.mark.usefixtures("rough_pictures")

ONLY_RUNS = (
    "torch",
    "sklearn",
    "llvmlite",
    "scipy.spatial",
    "scipy.cluster",
    "scipy.optimize",
    "fedroam.learning",
)


@pytest.fixture
def fr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def test_compare_prints_the_table_and_writes_it(fr: Commands) -> None:
    assert fr.run("--out", "out", "--seeds", "3").code == 0
    answer = fr("compare", "out", "--last", "2", "--threshold", "0.05", "--csv", "table.csv")
    assert answer.code == 0
    assert answer.out.endswith("table: table.csv\n")
    (row,) = pd.read_csv("table.csv").to_dict("records")
    accuracy = [open_run(f"out/seed-{k}").rounds["accuracy"].to_numpy() for k in range(3)]
    finals = pd.Series([one[-1] for one in accuracy])
    assert row["seeds"] == 3
    assert row["final"] == pytest.approx(finals.mean())
    assert row["final_error"] == pytest.approx(finals.std(ddof=1) / math.sqrt(3))
    assert row["last_k"] == pytest.approx(sum(one[-2:].mean() for one in accuracy) / 3)
    assert row["rounds_to"] == pytest.approx(sum(int((one >= 0.05).argmax()) for one in accuracy) / 3)
    assert f"{100 * finals.mean():.1f}" in answer.out


def test_what_a_run_left_is_read_and_drawn_without_what_only_runs_need(fr: Commands) -> None:
    """In one process, in this order: a table does not wait for what only drawings need, either."""
    assert fr.run("--out", "out", "--no-report").code == 0
    tables, drawings = ["verify", "watch", "compare"], ["report", "figure"]
    code = "import sys\nfrom fedroam.cli import main\n"
    for command in (*tables, *drawings):
        unneeded = [*ONLY_RUNS, "matplotlib"] if command in tables else list(ONLY_RUNS)
        code += f"code = main([{command!r}, 'out'])\n"
        code += f"print('loaded', {command!r}, code, *(m for m in {unneeded} if m in sys.modules))\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("loaded")]
    assert told == [f"loaded {command} 0" for command in (*tables, *drawings)]


def test_a_run_named_twice_counts_once(fr: Commands) -> None:
    assert fr.run("--out", "out").code == 0
    assert fr("compare", "out", "out/seed-0", "out/../out", "--csv", "table.csv").code == 0
    assert pd.read_csv("table.csv")["seeds"].tolist() == [1]


def test_compare_lays_several_folders_side_by_side(fr: Commands) -> None:
    assert fr.run("--out", "near", "--set", "name=near").code == 0
    assert fr.run("--out", "far", "--set", "name=far", "--set", "contacts.radius=inf").code == 0
    answer = fr("compare", "near", "far", "--csv", "table.csv")
    assert answer.code == 0
    assert len(pd.read_csv("table.csv")) == 2
    assert "near" in answer.out
    assert "far" in answer.out


def test_report_goes_into_the_run_folder_or_where_it_is_told(fr: Commands) -> None:
    fr.write("v.toml", TINY + '[variants.static]\nmobility.kind = "static"\n[variants.random]\n')
    assert fr("run", "v.toml", "--out", "out", "--no-report", "--quiet").code == 0
    assert len(open_runs("out")) == 2
    assert "report: out/report.html" in fr("report", "out").out
    assert "report: there/report.html" in fr("report", "out", "--out", "there").out
    assert "report: report/report.html" in fr("report", "out/static", "out/random").out
    for place in ("out", "there", "report"):
        page = (fr.folder / place / "report.html").read_text()
        assert "static" in page
        assert "random" in page


def test_data_info_prints_and_draws_who_holds_what(fr: Commands) -> None:
    answer = fr(
        "data", "info", "tiny.toml", "--set", "partition={kind='dirichlet',alpha=1.0}", "--out", "info"
    )
    assert answer.code == 0
    table = pd.read_csv("info/who-holds-what.csv")
    dealt = plan("tiny.toml", assignments=["partition={kind='dirichlet',alpha=1.0}"]).runs[0].experiment
    _, split = deal(dealt)
    assert table["train"].tolist() == [len(part) for part in split.train]
    for client, train in zip(table["client"], table["train"], strict=True):
        assert any(line.split()[:2] == [str(client), str(train)] for line in answer.out.splitlines())
    assert (fr.folder / "info" / "who-holds-what.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (fr.folder / "info" / "who-holds-what.svg").read_text()


def test_data_info_shows_variants_that_deal_differently_each(fr: Commands) -> None:
    fr.write(
        "v.toml",
        TINY + "[variants.even]\n[variants.uneven]\npartition = { kind = 'shards' }\n[variants.far]\n",
    )
    answer = fr("data", "info", "v.toml", "--out", "info")
    assert answer.code == 0
    assert {path.name for path in (fr.folder / "info").glob("*.png")} == {
        f"who-holds-what-{name}.png" for name in ("even", "uneven", "far")
    }
    fr.write(
        "same.toml", TINY + "[variants.near]\ncontacts.radius = 1.0\n[variants.far]\ncontacts.radius = 9.0\n"
    )
    assert fr("data", "info", "same.toml", "--out", "once").code == 0
    assert [path.name for path in (fr.folder / "once").glob("*.png")] == ["who-holds-what.png"]


def test_data_info_takes_the_file_of_a_sweep(fr: Commands) -> None:
    sweep = "[sweep.grid]\npartition.alpha = [0.1, 10.0]\ncontacts.radius = [1.0, 2.0]\n"
    fr.write("sweep.toml", TINY.replace('partition = "iid"', "") + sweep)
    answer = fr("data", "info", "sweep.toml", "--out", "info")
    assert answer.code == 0, answer
    # one for each way in which samples are dealt out, named by what is varied of it; the radius deals nothing out
    names = ["who-holds-what-partition.alpha=0.1", "who-holds-what-partition.alpha=10.0"]
    assert sorted(path.stem for path in (fr.folder / "info").glob("*.csv")) == names
    few, many = (pd.read_csv(fr.folder / "info" / f"{name}.csv") for name in names)
    assert few["distance"].mean() > many["distance"].mean()
    assert "partition.alpha=0.1:" in answer.out.splitlines()
    fr.write("alike.toml", TINY + "[sweep.grid]\ncontacts.radius = [1.0, 2.0]\n")
    assert fr("data", "info", "alike.toml", "--out", "once").code == 0
    assert [path.name for path in (fr.folder / "once").glob("*.csv")] == ["who-holds-what.csv"]
    fr.write("many.toml", TINY + "[sweep.grid]\nclients = [5, 500000]\n")
    wrong = fr("data", "info", "many.toml", "--out", "none")
    assert (wrong.code, "clients=500000: partition: 500000 client(s)" in wrong.err) == (2, True), wrong


def test_data_info_of_many_clients_prints_the_first(fr: Commands) -> None:
    answer = fr("data", "info", "tiny.toml", "--set", "clients=100", "--out", "info")
    assert "... and 60 more clients" in answer.out
    assert len(pd.read_csv("info/who-holds-what.csv")) == 100


def test_data_fetch_hands_over_name_and_folder(fr: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch(name: str, root: str | None, *, progress: bool) -> Path:
        asked.append((name, root, progress))
        return Path(root or "cache") / name

    monkeypatch.setattr("fedroam.data.sources.fetching.fetch", fetch)
    assert fr("data", "fetch", "mnist", "--root", "here").out == "data: here/mnist\n"
    assert fr("data", "fetch", "cifar10").out == "data: cache/cifar10\n"
    assert asked == [("mnist", "here", False), ("cifar10", None, False)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--statistic", "best"), "--statistic best: allowed with --by only"),
        (("--reach", "50"), "--reach 50.0: allowed with --by only"),
        (("--by", "seed", "--last", "3"), "--last 3: allowed without --by only"),
        (("--by", "seed", "--threshold", "0.5"), "--threshold 0.5: allowed without --by only"),
        (("--by", "seed", "--reach", "nan"), "--reach nan: allowed is a finite number"),
        (("--by", "seed", "--reach", "inf"), "--reach inf: allowed is a finite number"),
        (("--by", "seed", "--statistic", "last:0"), "whole number of evaluations from 1"),
        (("--by", "seed", "--statistic", "last:1.5"), "whole number of evaluations from 1"),
        (("--csv", ""), "--csv '': allowed is the name of a file or folder"),
    ],
)
def test_options_of_compare_that_mean_nothing_are_refused(
    fr: Commands, arguments: tuple[str, ...], says: str
) -> None:
    answer = fr("compare", "out", *arguments)
    assert answer.code == 2
    assert says in answer.err
    assert answer.err.count("\n") == 1


def test_a_table_takes_the_place_of_nothing_that_a_run_has_written(fr: Commands) -> None:
    fr.run("--out", "out")
    before = contents(fr.folder)
    home = fr.folder / "out" / "seed-0"
    for name in ("run.json", "movement/positions.parquet", "clients.parquet", ".lock", "another.toml"):
        answer = fr("compare", "out", "--csv", f"out/seed-0/{name}")
        assert answer.code == 2, name
        assert answer.err == (
            f"error: --csv out/seed-0/{name}: belongs to the run or sweep in {home}; allowed is another file\n"
        )
    assert fr("bench", "F", "--json", "out/seed-0/run.json").code == 2
    assert contents(fr.folder) == before
    for name in ("out/seed-0/mine.csv", "out/mine.csv"):
        assert fr("compare", "out", "--csv", name).code == 0
        assert fr("compare", "out", "--csv", name).code == 0  # what a user has put there may be replaced


@pytest.mark.parametrize(
    "command",
    ["run tiny.toml", "sweep tiny.toml", "connectivity tiny.toml", "data info tiny.toml", "report out", "trace info t",
     "reproduce quickstart"],
)  # fmt: skip
def test_an_empty_name_of_a_folder_is_refused(fr: Commands, command: str) -> None:
    for empty in ("", "  "):
        answer = fr(*command.split(), "--out", empty)
        assert answer.code == 2
        assert (
            answer.err
            == f"error: --out {empty!r}: allowed is the name of a file or folder, '.' for this one\n"
        )
    assert [path.name for path in fr.folder.iterdir()] == ["tiny.toml"]


def test_worlds_that_cannot_be_are_no_success_of_connectivity(fr: Commands) -> None:
    answer = fr("connectivity", "tiny.toml", "--over", "mobility.mobile=1,9", "--out", "worlds")
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "refused: mobile=9, seed 0: mobility kind 'random': mobility.mobile = 9: only 4 clients; allowed is 0 to 4",
        "error: 1 refused, and not looked at: mobile=9, seed 0: mobility kind 'random': mobility.mobile = 9: only 4 "
        "clients; allowed is 0 to 4",
    ]
    assert pd.read_csv("worlds/connectivity.csv")["variant"].tolist() == ["mobile=1"]  # what can be is shown


def test_a_gantt_chart_is_of_one_run_that_takes_time(fr: Commands) -> None:
    timed = ["--set", "clock={kind='seconds',length=20}", "--set", "link={kind='fixed',throughput=0.004}"]
    assert fr("run", "tiny.toml", *timed, "--seeds", "2", "--out", "timed").code == 0
    answer = fr("figure", "timed/seed-0", "--what", "gantt", "--rounds", "2:3", "--out", "g.svg")
    assert answer.code == 0
    assert (fr.folder / "g.svg").is_file()
    for wrong, said in (
        (["timed"], "found 2 runs"),
        (["timed/seed-0", "--rounds", "3"], "allowed is FIRST:LAST"),
        (["timed/seed-0", "--rounds", "1:9"], "from 1 to 3"),
        (["timed/seed-0", "--by", "variant"], "knows no --by"),
    ):
        answer = fr("figure", *wrong, "--what", "gantt", "--out", "no.svg")
        assert answer.code == 2
        assert said in answer.err
    assert fr("figure", "timed", "--rounds", "1:2").code == 2
    assert not (fr.folder / "no.svg").exists()
