"""The README and the pages of docs/, cut into their fenced blocks."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
}


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, its text, and what its comment asks for."""

    where: str
    language: str
    text: str
    action: str
    words: str

    @property
    def file(self) -> str:
        """The name that its first line gives it, or ''."""
        first = re.match(r"# (\w[\w.-]*\.(?:py|toml))\n", self.text)
        return first[1] if first else ""


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = []
    lines = PAGES[page].splitlines()
    at = 0
    while at < len(lines):
        fence = re.match(r"(\s*)```(\S*)", lines[at])
        if fence is None:
            at += 1
            continue
        end = next(k for k in range(at + 1, len(lines)) if lines[k].strip() == "```")
        marker = re.fullmatch(r"\s*<!-- test: (\w+) ?(.*?) -->", lines[at - 1]) if at else None
        action, words = marker.groups() if marker else ("", "")
        text = "\n".join(line.removeprefix(fence[1]) for line in lines[at + 1 : end]) + "\n"
        found.append(Block(f"{page}:{at + 1}", fence[2], text, action, words))
        at = end + 1
    return found


def command_lines(text: str) -> list[str]:
    """The command lines of a bash block: continuations joined, comments and blank lines left out."""
    lines = text.replace("\\\n", " ").splitlines()
    stripped = (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines)
    return [line for line in stripped if line]


def words_of(line: str) -> list[str]:
    """A command line as words, without the variables set before it."""
    words = shlex.split(line)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


def prose(page: str) -> str:
    """A page without its fenced blocks."""
    return without_blocks(PAGES[page])


def without_blocks(text: str) -> str:
    """The text of a page without its fenced blocks."""
    return re.sub(r"^\s*```.*?^\s*```$", "", text, flags=re.DOTALL | re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"[`*\\]", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def section(text: str, anchor: str) -> str:
    """What stands below a heading, up to the next one of its level or above; '' where there is none."""
    headings = [*re.finditer(r"^(#+) (.*)$", text, re.MULTILINE)]
    for k, heading in enumerate(headings):
        if slug(heading[2]) == anchor:
            ends = (other.start() for other in headings[k + 1 :] if len(other[1]) <= len(heading[1]))
            return text[heading.end() : next(ends, len(text))]
    return ""
