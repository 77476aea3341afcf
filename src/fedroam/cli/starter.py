"""The commented starter file of `fedroam init`, made from the code."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from fedroam.cli.describe import FieldFacts, fields_of, summary, toml_value
from fedroam.components import FAMILIES, kinds
from fedroam.experiment import Experiment

WIDTH = 100

HEAD = """\
# An experiment of fedroam: every setting with its default. What you leave out keeps its default.
#   fedroam run THIS_FILE               run it
#   fedroam run THIS_FILE --seeds 3     three seeds: means with standard errors
#   fedroam list                        every kind of part;  fedroam show KIND explains one
"""

TAIL = """
# Several runs in one file: each variant lays its settings over those above.
# [variants.static]
# mobility.kind = "static"
#
# [variants.random]
# mobility.kind = "random"
"""


def starter(name: str = "experiment") -> str:
    """The text of a starter file. As it is, it describes the default experiment, whatever its `name`."""
    lines = [HEAD]
    for facts in fields_of(Experiment):
        if facts.name == "name":
            lines.append(_setting(facts, toml_value(name)))
        else:
            lines.append(_setting(facts))
        if facts.name == "seed":
            lines.append("# seeds = 3  # how many seeds to run, from `seed` on\n")
    for family, about in FAMILIES.items():
        known = kinds(family)
        chosen = known[about.default]
        others = [kind for kind in known if kind != about.default]
        lines.append(f"\n[{family}]")
        lines += _comment(f"{about.about[0].upper()}{about.about[1:]}.")
        lines += _comment(f"{about.default}: {summary(chosen)}")
        if others:
            lines += _comment(f"other kinds: {', '.join(others)} (fedroam show {family})")
        lines.append(f"kind = {toml_value(about.default)}\n")
        lines += [_setting(facts) for facts in fields_of(chosen)]
    return "\n".join(lines).rstrip() + "\n" + TAIL


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _setting(facts: FieldFacts, value: str | None = None) -> str:
    """A field with its meaning above it; commented out where it is not set unless somebody wants it."""
    unit = f" [{facts.unit}]" if facts.unit else ""
    about = _comment(f"{facts.about}{unit}; {facts.allowed}")
    if value is None and facts.default is not None:
        value = toml_value(facts.default)
    line = f"# {facts.name} = ...  (not set)" if value is None else f"{facts.name} = {value}"
    return "\n".join([*about, line]) + "\n"


def headline(path: Path) -> str:
    """The first sentence of the comment at the head of an experiment file."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    text = " ".join(lines)
    # A sentence does not end within brackets, as of a source, nor after "et al." or "Sec.".
    sentence = re.match(r"(?:\([^)]*\)|(?:al|Sec|Fig|Eq|Alg|App)\.|.)*?[.?!](?=\s|$)", text)
    return sentence.group() if sentence else text
