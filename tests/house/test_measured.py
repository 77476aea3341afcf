"""No number in README or docs stands without its kept record.

What looks measured on a page that is written by hand needs one of these:
- a link to its record in the same statement, or in the paragraph that it stands below (see `support.measured`);
- a test that reckons the sentence anew from its record: `SENTENCES` of tests/bench/test_numbers.py;
- a line in `not_measured.toml`, with the reason why it is no measurement.
Seen are numbers with a unit of time, memory, rate or energy, per cent, points, "times as fast" and the like. Not seen
are numbers without a unit ("4,320 updates"), and whether a record that is linked holds the number: where that can go
wrong, add the sentence to `SENTENCES`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from bench.test_numbers import SENTENCES
from support.measured import LOOKS_MEASURED, statements, unvouched, vouches
from support.pages import PAGES, ROOT

# Made from the code alone, or from records alone: test_docs.py, test_results.py and test_site.py hold these.
GENERATED = {"docs/commands.md", "docs/python.md", "docs/gallery.md"}
WRITTEN = {
    name: page
    for name, page in {**PAGES, "CHANGELOG.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")}.items()
    if name not in GENERATED and not name.startswith("docs/results/")
}
REASONS = {"setting", "definition", "example", "arithmetic", "statistics", "standard", "history"}
LISTED: dict[str, dict[str, list[str]]] = tomllib.loads(
    (Path(__file__).parent / "not_measured.toml").read_text(encoding="utf-8")
)


def listed(page: str) -> list[str]:
    return [fragment for fragments in LISTED.get(page, {}).values() for fragment in fragments]


def reckoned(page: str) -> list[str]:
    return [said for where, said in SENTENCES.values() if where == page]


@pytest.mark.parametrize("page", WRITTEN)
def test_what_looks_measured_has_its_record(page: str) -> None:
    bare = unvouched(page, WRITTEN[page], [*listed(page), *reckoned(page)])
    assert not bare, f"{page}: no record is linked, and {Path(__file__).name} says what else would do: {bare}"


def test_the_list_is_of_pages_and_has_reasons() -> None:
    assert LISTED.keys() <= WRITTEN.keys()
    for page, reasons in LISTED.items():
        for reason in reasons:
            assert reason in REASONS or (ROOT / reason).is_file(), f"{page}: {reason!r} is no reason"


@pytest.mark.parametrize("page", LISTED)
def test_the_list_has_what_is_there_and_needed(page: str) -> None:
    fragments = listed(page)
    for fragment in fragments:
        assert fragment in WRITTEN[page], f"{page} does not say {fragment!r} any more"
        others = [*(each for each in fragments if each != fragment), *reckoned(page)]
        assert unvouched(page, WRITTEN[page], others), f"{page}: {fragment!r} need not be listed"


@pytest.mark.parametrize(
    "said",
    [
        "A round takes 3.5 s.",
        "A round takes two seconds.",
        "It had 1,204 MB at most.",
        "It needs 20\xa0GiB.",
        "It moves 20 MB/s.",
        "A device wastes 36 J.",
        "It is 12% longer.",
        "It is 12 per cent longer.",
        "It gains 1.5 points.",
        "It trains 3.4 times as fast.",
        "It trains twice as fast.",
        "It takes 1.9 times its arithmetic.",
        "It takes a third less.",
        "It takes two fifths of the time.",
        "Accuracy is 93.1 ± 1.5 there.",
        "They differ by 8e-6.",
        "It holds with p = 0.03.",
        "- Said of an item: 3 ms.",
        "| a row of a table | 3 ms |",
    ],
)
def test_a_number_without_a_record_is_found(said: str) -> None:
    assert len(unvouched("README.md", f"# Speed\n\n{said}\n")) == 1


@pytest.mark.parametrize(
    "said",
    [
        "`sleep 3 s` waits.",
        "See [how](https://example.org/3 s).",
        "```bash\nsleep 3 s\n```",
        "$t = 3 s$ is a formula.",
        "There are 20 clients, 3 m apart, for 200 rounds.",
        "Thousands of points, and one sample.",
        "<!-- quickstart: begin -->\n| a round | 3 ms |\n<!-- quickstart: end -->",
        "A round takes 3 ms ([record](docs/records/start.json)).",
        "From [a record](docs/records/start.json):\n\n| a round | 3 ms |\n\n- An item: 3 ms.",
        "- An item: 3 ms, as in [the results](docs/results/reza.md).",
        "It [takes](docs/performance.md#what-a-start-costs) 3 ms.",
        "It [takes](docs/performance.md#movement-of-10000-clients) 3 ms.",
    ],
)
def test_what_is_no_number_or_has_a_record_is_let_be(said: str) -> None:
    assert not unvouched("README.md", f"# Speed\n\n{said}\n")


@pytest.mark.parametrize(
    "said",
    [
        "A [record](docs/records/start.json).\n\nAnother paragraph: 3 ms.",
        "A [record](docs/records/start.json).\n\n## Another section\n\n- An item: 3 ms.",
        "- An item with [a record](docs/records/start.json).\n- Another: 3 ms.",
        "A [record](docs/records/of-nothing.json) that is not there: 3 ms.",
        "A [page](docs/performance.md), a [section](docs/tutorial.md#1-set-up), [elsewhere](https://a.b/r.json): 3 ms.",
        "A [program](docs/quickstart.py), and [promises](tests/house/promises.json): 3 ms.",
        "<!-- nothing: begin -->\n| a round | 3 ms |\n<!-- nothing: end -->",
    ],
)
def test_what_is_linked_elsewhere_vouches_for_nothing(said: str) -> None:
    assert len(unvouched("README.md", f"# Speed\n\n{said}\n")) == 1


def test_a_listed_fragment_covers_itself_alone() -> None:
    said = "It waits 5 s for an answer, and takes 5 s."
    assert len(unvouched("README.md", said)) == 2
    assert unvouched("README.md", said, ["waits 5 s for"]) == [" 5 s for an answer, and takes 5 s."]


def test_items_and_tables_are_statements_of_their_own() -> None:
    text = "# A\n\nWords\nof two lines:\n- one\n  and more\n- two\n| a |\n|---|\n\n1. three\n"
    found = [each.text for each in statements(text)]
    assert found == ["Words of two lines:", "- one   and more", "- two", "| a | |---|", "1. three"]


def test_links_are_followed_from_the_folder_of_their_page() -> None:
    assert vouches("docs/performance.md", "records/start.json")
    assert not vouches("README.md", "records/start.json")
    assert vouches("docs/deploy.md", "../results/mohawk/quick/cells.json")
    assert vouches("docs/performance.md", "#what-a-start-costs")
    assert not vouches("docs/performance.md", "#what-to-set")
    assert not vouches("docs/performance.md", "../../outside.json")


def test_a_unit_ends_where_the_word_ends() -> None:
    assert not LOOKS_MEASURED.search("3 sites, 5 hosts, 4 hundredweights, 7 Warsaw, ten others, 2.10.0")
