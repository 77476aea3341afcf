"""The pages of results say what is kept in results/, no more and no less, and what is kept can be computed again."""

from __future__ import annotations

import importlib.util
import json
import math
import platform
import re
import statistics
import sys
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fedroam
from fedroam.papers.library import find_study
from fedroam.study.kept import FILE, read_records
from fedroam.study.kept_files import kept_figure, kept_texts
from fedroam.study.presentation.wording import number
from fedroam.study.values import Ends, Quotient, Term, Value
from support.pages import PAGES, ROOT

RESULTS = ROOT / "results"
KEPT = sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.glob(f"*/*/{FILE}"))
MEGABYTES = 6  # of all that is kept


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_results", ROOT / "docs" / "results.py")
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results() -> ModuleType:
    return script()


@pytest.fixture(scope="module")
def studies(results: ModuleType) -> Any:
    """What is kept of every study, evaluated once for all tests."""
    return results.all_kept()


def lines(record: str) -> list[dict[str, Any]]:
    """The kept runs, read in the plainest way."""
    text = (RESULTS / record / FILE).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()[1:]]


def test_there_is_a_page_of_every_paper_and_something_is_kept(results: ModuleType) -> None:
    assert {f"docs/results/{name}.md" for name in results.PAPERS} | {"docs/results/index.md"} == {
        page for page in PAGES if page.startswith("docs/results/")
    }
    assert {record.split("/")[0] for record in KEPT} <= set(results.PAPERS)
    assert "quickstart/quick" in KEPT


def test_what_is_kept_is_small_and_tells_nothing_of_a_machine() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MEGABYTES * 2**20
    for path in files:
        text = path.read_text(encoding="utf-8")
        told = re.findall(r"(?<![\w.:/])/(?:home|root|tmp|work|usr|var|Users|mnt|data)/\S*", text)
        assert told == [], f"{path}: {told[:3]}"
        assert len(platform.node()) < 6 or platform.node() not in text, path


def test_pages_are_up_to_date(results: ModuleType, studies: Any) -> None:
    for name, make in results.pages(studies).items():
        assert make("") == PAGES.get(f"docs/{name}"), f"docs/{name} is out of date: run `make docs`"


@pytest.mark.parametrize("record", KEPT)
def test_files_beside_the_runs_are_made_of_them(record: str, studies: Any) -> None:
    """Regenerating gives the committed bytes: of all numbers, and of the first figure."""
    name, scale = record.split("/")
    kept = next(one for one in studies[name] if one.scale == scale)
    for file, text in kept_texts(kept.result, kept.records, kept.outlook).items():
        assert (RESULTS / record / file).read_text(encoding="utf-8") == text, (
            f"{record}/{file}: run `make results`"
        )
    there = [one for one in kept.study.figures if (RESULTS / record / f"figures/{one.name}.svg").is_file()]
    drawn = next(
        (text for text in (kept_figure(one, kept.result) for one in there) if text is not None), None
    )
    assert drawn is None or drawn in {
        path.read_text(encoding="utf-8") for path in (RESULTS / record / "figures").glob("*.svg")
    }, f"{record}/figures: run `make results`"


@pytest.mark.parametrize("record", KEPT)
def test_tables_of_the_page_reckoned_again_from_the_lines(record: str, studies: Any) -> None:
    """Every number of every table, by a slow and plain reckoning that shares nothing with the study's reader."""
    name, scale = record.split("/")
    kept = studies[name][0]
    if kept.scale != scale:
        pytest.skip("the page is of a larger scale")
    keys = {
        (variant, seed): kept.study.key(variant, scale, seed)
        for variant in kept.study.needs(scale)
        for seed in range(len(kept.result.seeds))
    }
    numbers = {
        line["digest"] + ("@network" if "where" in line else ""): line["numbers"] for line in lines(record)
    }

    def of(term: Term, seed: int) -> float | None:
        found = numbers.get(keys.get((term.variant, seed), ""), {}).get(term.measure.name)
        return None if found is None else float(found[-1])

    def by_hand(value: Value | Quotient, seed: int) -> float | None:
        if isinstance(value, Quotient):
            first, second = by_hand(value.first, seed), by_hand(value.second, seed)
            if first is None or second is None:
                return None
            return first / second if second and math.isfinite(second) else math.nan
        found = [(term.weight, of(term, seed)) for term in value.terms]
        if any(one is None for _, one in found):
            return None
        return sum(weight * one for weight, one in found if one is not None)

    page, checked = unescape(PAGES[f"docs/results/{name}.md"]), 0
    for table in kept.study.tables:
        html = re.search(rf'<h3 id="table-{table.name}">.*?(?=<h3|\n)', page)
        assert html is not None, table.name
        for cell in table.cells:
            found = [by_hand(cell.value, seed) for seed in range(len(kept.result.seeds))]
            values = [one for one in found if one is not None]
            if not values or not all(map(math.isfinite, values)):
                continue
            error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            mean, points = statistics.fmean(values), cell.value.unit == "points"
            # Of an exact half, and of the sign of a rounded nothing, the order of the sum decides.
            told = {number(mean + aside, error, cell.value.digits, points) for aside in (0.0, 1e-9, -1e-9)}
            assert any(one in html[0] for one in told), (
                table.name,
                cell.row,
                cell.column,
                told,
            )
            checked += 1
    assert checked > 0


@pytest.mark.parametrize("record", KEPT)
def test_estimates_of_the_cards_are_those_of_the_lines(record: str, studies: Any) -> None:
    """The mean of each claim of one value, and its interval's middle."""
    name, scale = record.split("/")
    kept = studies[name][0]
    if kept.scale != scale:
        pytest.skip("the page is of a larger scale")
    page = unescape(PAGES[f"docs/results/{name}.md"])
    for claim, verdict in kept.result.claims():
        card = re.search(rf'id="claim-{claim.name}">.*?</details>', page)
        assert card is not None, claim.name
        assert claim.text in card[0]
        if verdict is None:
            assert "not at this scale" in card[0]
            continue
        evidence = verdict.evidence
        word = verdict.word if evidence.n else "not tested"
        assert f"{word}: {verdict.reason}" in card[0]
        if math.isfinite(evidence.estimate) and evidence.values and evidence.asks != "ratio above":
            middle = statistics.fmean(evidence.values)
            shown = re.search(r"Here: <strong>([+−]?\d+\.\d)", card[0])
            assert shown is not None, claim.name
            if not evidence.most:
                assert float(shown[1].replace("−", "-")) == pytest.approx(middle, abs=0.051)


def test_links_within_a_page_lead_somewhere(results: ModuleType) -> None:
    for name in results.PAPERS:
        page = PAGES[f"docs/results/{name}.md"]
        headings = {
            re.sub(r"[^\w\- ]", "", one).lower().replace(" ", "-")
            for one in re.findall(r"^#+ (.+)$", page, re.M)
        }
        for anchor in set(re.findall(r'href="#([^"]+)"', page)):
            assert f'id="{anchor}"' in page or anchor in headings, f"{name}: #{anchor}"


@pytest.mark.parametrize("record", KEPT)
def test_a_page_tells_what_was_run_scale_by_scale(record: str, results: ModuleType) -> None:
    """As counted from the lines: variants, runs, and who has most and fewest seeds."""
    name, scale = record.split("/")
    study, page = find_study(name)[0], unescape(PAGES[f"docs/results/{name}.md"])
    asked, kept = study.needs(scale), [line["variant"] for line in lines(record)]
    seeds = [kept.count(variant) for variant in asked if variant in kept]
    told = re.search(rf"<li>Scale {scale}: (whole|in part): (\d+) of (\d+) variants, ([\d to]+) seeds?", page)
    assert told is not None
    assert told[1] == ("whole" if set(asked) <= set(kept) else "in part")
    assert [int(told[2]), int(told[3])] == [len(seeds), len(asked)]
    assert {int(each) for each in told[4].split(" to ")} == {min(seeds), max(seeds)}
    for other in set(study.scales) - {each.split("/")[1] for each in KEPT if each.startswith(f"{name}/")}:
        assert f"<li>Scale {other}: not run.</li>" in page
    assert "run at scale" not in study.about


def test_a_page_without_runs_says_so(results: ModuleType, tmp_path: Path) -> None:
    page = results.page(results.kept("reza", tmp_path))
    assert "0 of 116 runs that the claims need are there" in page
    assert "Nothing is kept yet." in page
    assert (
        "<li>Scale quick: not run.</li><li>Scale medium: not run.</li><li>Scale full: not run.</li>" in page
    )
    assert "±" not in page.split("## Claims")[1].split('<p class="small">Holds:')[0].replace("within ±", "")
    index = results.index(results.all_kept(tmp_path))
    assert "| none yet |" in index
    assert "first looks: a time that is not measured yet |" in index  # no dash where claims wait for runs


def test_a_scale_that_is_only_begun_leaves_the_page_to_what_is_decided(
    results: ModuleType, tmp_path: Path
) -> None:
    """Of the scale medium three runs, of which no claim can be judged: they are counted, and decide nothing."""
    for scale, runs in (("quick", None), ("medium", 3)):
        (folder := tmp_path / "reza" / scale).mkdir(parents=True)
        text = (RESULTS / "reza" / scale / FILE).read_text(encoding="utf-8")
        some = text.splitlines(keepends=True)[: None if runs is None else 1 + runs]
        (folder / FILE).write_text("".join(some), encoding="utf-8")
    found = results.kept("reza", tmp_path)
    assert [(one.scale, one.looked) for one in found] == [("quick", True), ("medium", False)]
    page = unescape(results.page(found))
    assert re.search(r"Of 17 claims 5 hold.* at scale quick", page)
    assert re.search(
        r"<li>Scale medium: in part: \d of \d+ variants, .*, 3 runs.* No claim can be judged by", page
    )
    assert "At scale medium" not in page


def test_a_number_changed_in_the_record_changes_the_page(results: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "quickstart" / "quick"
    folder.mkdir(parents=True)
    text = (RESULTS / "quickstart/quick" / FILE).read_text(encoding="utf-8")
    (folder / FILE).write_text(text, encoding="utf-8")
    whole = results.page(results.kept("quickstart", tmp_path))
    first = lines("quickstart/quick")[0]["numbers"]["final accuracy"][0]
    (folder / FILE).write_text(text.replace(str(first), str(first - 40), 1), encoding="utf-8")
    assert results.page(results.kept("quickstart", tmp_path)) != whole


def test_a_kept_run_computed_again_gives_what_is_kept(tmp_path: Path) -> None:
    """Two runs of the quickstart and their difference, within what other processors round differently."""
    study = find_study("quickstart")[0]
    kept = read_records(RESULTS / "quickstart/quick", "quickstart", "quick")
    gains: list[Ends] = []
    for variant in ("static", "random"):
        experiment = study.experiment(variant, "quick", 0)
        run = fedroam.run(experiment, tmp_path / variant)
        line = kept.runs[experiment.digest]
        number = 100 * float(run.rounds["accuracy"].iloc[-1])
        assert number == pytest.approx(line.numbers["final accuracy"][0], abs=1.5)
        gains.append((number, line.numbers["final accuracy"][0]))
    claim = next(
        one
        for one in json.loads((RESULTS / "quickstart/quick/claims.json").read_text())
        if one["claim"] == "movement-helps"
    )
    spread = claim["spread"] * 3
    assert abs((gains[1][0] - gains[0][0]) - claim["estimate"]) < spread
