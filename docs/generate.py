"""Rewrite the pages that are made from the code: `make docs`.

`commands.md` is the command line's own reference. `experiment-file.md` is written by hand up to a marker; below it
stands every part with its settings, and every named experiment. The pages of results are made from their records (see
`results.py`).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from pydantic import BaseModel

from fedroam.cli import reference
from fedroam.cli.describe import details, fields_of, summary
from fedroam.components import FAMILIES, NODE_FAMILIES, changes_results, kinds
from fedroam.experiment import Experiment
from fedroam.planning import named_experiments, plan

DOCS = Path(__file__).parent
MARKER = "<!-- Everything below is made by `make docs` from the code. -->"
NOTICE = "<!-- This page is made by `make docs` from the code. -->"


def commands(_: str) -> str:
    """The page of every command."""
    return f"{NOTICE}\n\n{reference().strip()}\n"


def experiment_file(page: str) -> str:
    """The page of every setting: its hand-written head is kept."""
    head, marker, _ = page.partition(MARKER)
    if not marker:
        raise SystemExit(f"docs/experiment-file.md: lacks the line {MARKER}")
    return "\n".join([head.rstrip(), "", MARKER, *_settings()]).rstrip() + "\n"


def _beside(name: str) -> ModuleType:
    """Another of these scripts."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for it
    spec.loader.exec_module(module)
    return module


GENERATED: dict[str, Callable[[str], str]] = {
    "commands.md": commands,
    "experiment-file.md": experiment_file,
}


def _settings() -> Iterator[str]:
    yield from ("", "## Top-level settings", "", *_table(Experiment))
    for family, about in {**FAMILIES, **NODE_FAMILIES}.items():
        if family in NODE_FAMILIES:
            yield from ("", f"## {family}", "", f"{about.about[0].upper()}{about.about[1:]}.", "")
            yield "Of a node, in [`site.toml`](deploy.md#measure-energy); an experiment does not have it."
            yield ""
        else:
            yield from ("", f"## [{family}]", "", f"{about.about[0].upper()}{about.about[1:]}.", "")
        methods = f" Methods of a part: {_code(about.methods)}." if about.methods else ""
        yield f"Default kind: `{about.default}`.{methods}"
        for kind, cls in kinds(family).items():
            if not cls.__module__.startswith("fedroam."):
                continue  # a part that somebody loaded with --use
            yield from ("", f"### {family}.{kind}", "", _text(summary(cls)), "")
            for paragraph in details(cls):
                yield from (_text(paragraph), "")
            if cls.source:
                yield from (f"Source: {_text(cls.source)}.", "")
            yield from _table(cls) if cls.model_fields else ("No settings.",)
    yield from ("", "## Named experiments", "")
    for name in named_experiments():
        runs = plan(name).runs
        variants = list(dict.fromkeys(run.variant for run in runs if run.variant))
        told = f", variants {_code(variants)}" if variants else ""
        yield f"- `{name}`: {len(runs)} run{'s' * (len(runs) > 1)}{told}. `fedroam show {name}` prints the file."


def _table(cls: type[BaseModel]) -> Iterator[str]:
    yield "| setting | default | unit | allowed | meaning |"
    yield "|---|---|---|---|---|"
    for facts in fields_of(cls):
        free = not changes_results(cls.model_fields[facts.name])
        meaning = facts.about + (" (cannot change results)" if free else "")
        default = facts.shown_default or "{}"
        cells = (f"`{facts.name}`", f"`{default}`", facts.unit, facts.allowed, meaning)
        yield "| " + " | ".join(_text(cell).replace("|", r"\|") for cell in cells) + " |"


def _code(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _text(text: str) -> str:
    """Plain text in Markdown: what could be read as emphasis is escaped outside of code."""
    parts = text.split("`")
    parts[::2] = [part.replace("*", r"\*").replace("<", "&lt;").replace("_", r"\_") for part in parts[::2]]
    return "`".join(parts)


def main() -> int:
    """Rewrite what is out of date."""
    results = _beside("results")
    results.write_pages(GENERATED | results.pages(results.all_kept()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
