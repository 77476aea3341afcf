"""What pages say that looks measured, and whether a record vouches for it.

A *statement* is a paragraph, a list item or a table. A record vouches for it where it links one, or where the paragraph
above it does that it stands below: a link to a file of docs/records/ or results/, to a page of results, or to a section
that links a record itself. What stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->` a script puts there from
docs/records/NAME.json.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from support.pages import PAGES, ROOT, section, without_blocks

LINK = r"\]\(([^)\s]+)\)"
_BEGINS = {"heading": r"#+ ", "item": r"\s*(?:[-*]|\d+\.) ", "table": r"\s*\|"}

_WORD = (
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|"
    r"hundred|thousand|million)(?: and a half)?"
)
_DIGITS = r"\d[\d,]*(?:\.\d+)?"
_PART = r"\b(?:half|(?:third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)s?)"
_LETTERS = "|".join(
    (
        r"ns|µs|ms|s|min|h|[mk]?J|[mk]?W|[mk]?Wh",
        r"(?:[kKMGT]i?)?B(?:/s)?|[kMG]bit/s|[kMG]bps|[GT]?FLOPS?(?:/s)?",
    )
)
_LONG = (
    "(?:milli)?seconds?|minutes?|(?:core-)?hours?|days?|per cent|points?|millionths?|(?:kilo|mega|giga)?bytes?|joules?"
    "|watts?"
)
_LIKE = "fast|quick|long|many|much|large|small|slow|often|dear|well"
_MORE = "faster|quicker|slower|longer|shorter|sooner|later|larger|smaller|less|more"
LOOKS_MEASURED = re.compile(
    "|".join(
        (
            rf"{_DIGITS}(?:[ \xa0](?:{_LETTERS}|{_LONG})(?![\w/])|[ \xa0]?%)",  # 3.5 s, 12%
            rf"{_WORD} (?:{_LONG})\b",  # two points
            rf"(?:(?:{_DIGITS}|{_WORD})(?: times)?|\btwice|\bhalf) as (?:{_LIKE})\b",
            rf"(?:{_DIGITS}|{_WORD}) times\b",
            rf"{_PART} (?:of the (?:processor(?:'s)? )?(?:time|memory|work)\b|(?:{_MORE})\b)",  # a third less
            r"±[ \xa0]?\d[\d.,]*",
            r"\d(?:\.\d+)?e[-−]?\d+",
            r"\bp [=<] 0\.\d+",
        )
    )
)
# What numbers are not looked for in: code, formulas, where links lead, comments, addresses.
_APART = re.compile(r"`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$|\]\([^)\s]*\)|https?://\S+", re.DOTALL)
_REGION = re.compile(r"<!-- (?:(\w+): begin -->.*?<!-- \1: end|(\w+): \w+ -->.*?<!-- /\2) -->", re.DOTALL)


@dataclass(frozen=True)
class Statement:
    """A paragraph, a list item or a table: its text, and the links of it and of the paragraph that it stands below."""

    text: str
    links: tuple[str, ...]

    def measured(self, apart: Collection[str] = ()) -> list[str]:
        """What in it looks measured, each with some words around it; not within these fragments."""
        covered = [found.span() for found in _APART.finditer(self.text)]
        for fragment in apart:
            covered += [found.span() for found in re.finditer(re.escape(fragment), self.text)]
        left = self.text
        for begin, end in covered:
            left = left[:begin] + "\0" * (end - begin) + left[end:]
        return [
            self.text[max(0, found.start() - 30) : found.end() + 15]
            for found in LOOKS_MEASURED.finditer(left)
        ]


def written_by_hand(page: str) -> str:
    """The text of a page without blocks of code, what scripts put into it from records, and what is made from the
    code."""
    by_hand = without_blocks(page).partition("<!-- Everything below is made by")[0]
    left = _REGION.sub(lambda region: "" if _recorded(region) else region[0], by_hand)
    return re.sub(r"<!--.*?-->", "", left, flags=re.DOTALL)


def statements(text: str) -> Iterator[Statement]:
    """Those of a text, in order."""
    above: list[str] = []  # links of the paragraph above
    for (_, kind), lines in groupby(_numbered(text), key=itemgetter(0, 1)):
        said = " ".join(line for _, _, line in lines)
        links = re.findall(LINK, said)
        if kind in ("heading", "paragraph"):
            above = []
        if kind != "heading":
            yield Statement(said, (*above, *links))
        if kind == "paragraph":
            above = links


def _numbered(text: str) -> Iterator[tuple[int, str, str]]:
    """Every line that is not blank with the number and the kind of the statement that it belongs to."""
    number, before = 0, ""
    for line in text.splitlines():
        begun = next((kind for kind, begin in _BEGINS.items() if re.match(begin, line)), "")
        if not line.strip():
            before = ""
            continue
        goes_on = before == "table" if begun == "table" else before in ("paragraph", "item") and not begun
        if not goes_on:
            number, before = number + 1, begun or "paragraph"
        yield number, before, line


def vouches(page: str, link: str) -> bool:
    """Whether a link leads to a record, to a page of results, or to a section that has a record."""
    file, _, anchor = link.partition("#")
    path = ((ROOT / page).parent / file).resolve() if file else ROOT / page
    if "://" in file or not path.is_relative_to(ROOT):
        return False
    name = str(path.relative_to(ROOT))
    if is_record(name) or name.startswith("docs/results/"):
        return True
    below = section(PAGES.get(name, ""), anchor) if anchor else ""
    leads = (((path.parent / to).resolve()) for to in re.findall(LINK, below) if "://" not in to)
    return any(map(_recorded, _REGION.finditer(below))) or any(
        is_record(str(to.relative_to(ROOT))) for to in leads if to.is_relative_to(ROOT)
    )


def is_record(name: str) -> bool:
    """Whether a file of the project is one that numbers are kept in."""
    kept = name.startswith(("docs/records/", "results/")) or Path(name).stem == "record"
    return kept and name.endswith((".json", ".jsonl")) and (ROOT / name).exists()


def _recorded(region: re.Match[str]) -> bool:
    return is_record(f"docs/records/{region[1] or region[2]}.json")


def unvouched(name: str, page: str, apart: Collection[str] = ()) -> list[str]:
    """What on a page, given its text, looks measured and has no record, but for what stands in these fragments."""
    return [
        number
        for statement in statements(written_by_hand(page))
        if not any(vouches(name, link) for link in statement.links)
        for number in statement.measured(apart)
    ]
