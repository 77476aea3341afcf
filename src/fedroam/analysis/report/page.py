"""Pieces of the report's HTML. Everything that a user named or set is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from fedroam.analysis.figures.drawing import COLOURS
from fedroam.analysis.report.headline import headline
from fedroam.analysis.report.table import cells, columns, remarks
from fedroam.analysis.summary import Comparison
from fedroam.analysis.variants import Variant, differing, plain_text
from fedroam.errors import InputError
from fedroam.recording import Run, flat

_FEW = 4  # differences that are told before anything is opened
_MANY = 8  # rows of a table that come before what is drawn


def heading(compared: Sequence[Variant]) -> tuple[str, str]:
    """The report's name and one line of facts, as plain text."""
    runs = [run for variant in compared for run in variant.runs]
    names = list(dict.fromkeys(str(run.status["name"]) for run in runs))
    name = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")

    def span(values: Iterable[Any], one: str, many: str) -> str:
        found = sorted(set(values))
        if len(found) > 1:
            return f"{found[0]} to {found[-1]} {many}"
        return f"{found[0]} {one if found[0] == 1 else many}"

    kinds = dict.fromkeys(str(run.settings.get("data", {}).get("kind", "")) for run in runs)
    facts = [
        f"{len(compared)} variant{'s' * (len(compared) > 1)}",
        span((len(variant.runs) for variant in compared), "seed", "seeds")
        + (" each" if len(compared) > 1 else ""),
        span((int(run.settings["clients"]) for run in runs), "client", "clients"),
        span((int(run.status["rounds"]) for run in runs), "round", "rounds"),
        "data: " + ", ".join(kinds),
    ]
    return name, " · ".join(facts)


def notes_box(notes: Sequence[str]) -> str:
    """What a reader must know before the numbers: unfinished and diverged runs; nothing where there are none."""
    if not notes:
        return ""
    return f'<aside class="notes" id="notes"><strong>Note</strong><ul>{bullets(notes)}</ul></aside>'


def result(comparison: Comparison) -> tuple[str, str, str]:
    """Headline, table and remarks of a comparison."""
    first, *more = headline(comparison)
    words = f'<p class="headline"><strong>{_kept(first)}</strong></p>'
    if len(more) > 2:
        told = "".join(f"<li>{_kept(sentence)}</li>" for sentence in more)
        listed = f'<ul class="differences">{told}</ul>'
        words += listed if len(more) <= _FEW else folded("Differences to the first variant", listed)
    else:
        words += "".join(f'<p class="headline">{_kept(sentence)}</p>' for sentence in more)
    rows = cells(comparison)
    for k, row in enumerate(rows):
        line = ("solid", "dashed", "dotted", "double")[k // len(COLOURS) % 4]
        key = f'<span class="key" style="border-top: 3px {line} var(--c{k % len(COLOURS)})"></span>'
        row[0] = key + escape(row[0])
        row[1:] = [_whole(text) for text in row[1:]]
    table = table_html(columns(comparison), rows, "numbers")
    if len(rows) > _MANY:
        table = folded(f"All {len(rows)} variants", table)
    notes = folded("What these numbers mean", f'<ul class="remarks">{bullets(remarks(comparison))}</ul>')
    return words, table, notes


def folded(title: str, content: str) -> str:
    """HTML that a reader opens who wants to know."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def figure(svg: str, title: str, caption: str, name: str, large: bool = False) -> str:
    """A drawn figure with its caption."""
    extra = ' class="large"' if large else ""
    return (
        f'<figure id="figure-{escape(name)}"{extra}>{svg}<figcaption><strong>{escape(title)}</strong>'
        f"{escape(caption)}</figcaption></figure>"
    )


def settings(compared: Sequence[Variant]) -> str:
    """What differs between variants, then every resolved setting (folded) and the list of runs."""
    firsts = [variant.runs[0] for variant in compared]
    parts = []
    if len(compared) > 1:
        rows = [
            [escape(name), *(escape(plain_text(value)) for value in values)]
            for name, values in differing(firsts).items()
        ]
        heads = ["Setting", *(variant.label for variant in compared)]
        told = table_html(heads, rows, "texts")
        parts.append(folded("What differs between the variants", told))
    for variant, run in zip(compared, firsts, strict=True):
        seeds = ", ".join(str(run.status["seed"]) for run in variant.runs)
        text = "\n".join(
            f"{name} = {plain_text(value)}" for name, value in flat(run.settings).items() if name != "seed"
        )
        told = f"<pre>seeds: {escape(seeds)}\n{escape(text)}</pre>"
        parts.append(folded(f"All settings of {variant.label}", told))
    rows = [[escape(text) for text in _run(variant, run)] for variant in compared for run in variant.runs]
    heads = ["Variant", "Seed", "State", "Rounds", "Time (s)", "Digest"]
    parts.append(folded(f"All runs ({len(rows)})", table_html(heads, rows, "numbers")))
    return "".join(parts)


def environment(compared: Sequence[Variant]) -> str:
    """What the runs ran on; where they differ, every value."""
    found: dict[str, dict[str, None]] = {}
    for variant in compared:
        for run in variant.runs:
            try:
                facts = flat(run.environment)
            except InputError:  # a run killed in its first moments has none
                continue
            for name, value in facts.items():
                found.setdefault(name, {})[plain_text(value)] = None
    if not found:
        return "<p>Not recorded.</p>"
    rows = [[escape(name), escape("; ".join(values))] for name, values in found.items()]
    return folded("Versions, machine and data", table_html(["Fact", "Value"], rows, "texts"))


def _run(variant: Variant, run: Run) -> list[str]:
    """A run's row in the list of runs."""
    status: Mapping[str, Any] = run.status
    state = "done" if run.done else str(status.get("state", "unknown"))
    if status.get("diverged_at") is not None:
        state += f", diverged at round {status['diverged_at']}"
    try:
        seconds = f"{float(run.rounds['seconds'].iloc[-1]):.1f}"
    except (InputError, KeyError, IndexError):
        seconds = "–"
    rounds = f"{status.get('round', 0)} of {status['rounds']}"
    return [variant.label, str(status["seed"]), state, rounds, seconds, str(status["digest"])[:12]]


def _kept(sentence: str) -> str:
    """Escaped text in which no line breaks between a number and its error."""
    return escape(sentence).replace(" ± ", "\u00a0±\u00a0")


def _whole(text: str) -> str:
    """An escaped number that breaks nowhere but before a parenthesis."""
    return escape(text).replace(" ", "\u00a0").replace("\u00a0(", " (")


def bullets(lines: Iterable[str]) -> str:
    """The entries of a list, escaped."""
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def table_html(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table that scrolls sideways on its own where the page is narrow; cells are HTML, heads are text.

    Of kind `numbers` it folds on a phone: a block for each row, each cell with its heading.
    """
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-head="{escape(text)}">{cell}</td>' for text, cell in zip(heads, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
