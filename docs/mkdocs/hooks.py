"""What the site needs beside the pages as they stand: README and its kin, records, formulas as MathML, the notebook.

The pages themselves stay plain Markdown that any viewer of the repository shows.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
BESIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
NOTEBOOK = "first-steps.ipynb"
RESULTS = "results"  # records, to which the pages below docs/results/ lead
CODE = re.compile(r"(^[ \t]*```.*?^[ \t]*```[ \t]*$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^\s$](?:[^$\n]*[^\s$])?)\$", re.DOTALL)
LINK = re.compile(r"(\]\(|src=\"|href=\")([^)\"#\s]+)")
log = logging.getLogger("mkdocs.hooks.fedroam")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand elsewhere in the repository."""
    for name, target in BESIDE.items():
        files.append(
            File.generated(config, target, content=_from_root((ROOT / name).read_text(encoding="utf-8")))
        )
    for path in sorted((ROOT / RESULTS).rglob("*")):
        if path.is_file():
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    notebook = json.loads((ROOT / "docs" / NOTEBOOK).read_text(encoding="utf-8"))
    files.append(File.generated(config, "notebook.md", content=_notebook(notebook, files, config)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to README and its kin go to their pages; formulas become MathML."""
    return _outside_code(markdown, lambda text: FORMULA.sub(_formula, LINK.sub(_inward, text)))


def _from_root(text: str) -> str:
    """A page of the repository's root, as if it stood in docs/."""

    def moved(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"[a-z]+:", target):
            return found[0]
        return found[1] + (target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}")

    return _outside_code(text, lambda part: LINK.sub(moved, part))


def _inward(found: re.Match[str]) -> str:
    if found[2].startswith(f"../../{RESULTS}/"):  # beside the pages of results in the site
        return found[1] + found[2].removeprefix(f"../../{RESULTS}/")
    return found[1] + BESIDE.get(found[2].removeprefix("../"), found[2])


def _formula(found: re.Match[str]) -> str:
    latex = (found[1] or found[2]).strip()
    mathml = convert(latex, display="block" if found[1] else "inline")
    if "\\" in html.unescape(re.sub(r"<[^>]*>", "", mathml)):
        log.warning("a formula is not understood: %s", latex)
    return mathml


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change what is neither a fenced block nor code in a line."""
    pieces = CODE.split(text)
    pieces[::2] = [change(piece) for piece in pieces[::2]]
    return "".join(pieces)


def _notebook(notebook: dict[str, Any], files: Files, config: MkDocsConfig) -> str:
    """A notebook as Markdown: its cells, what they printed, and their pictures."""
    written = [f"*This page is the notebook [{NOTEBOOK}]({NOTEBOOK}), as it ran.*"]
    for number, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            written.append(source)
            continue
        written.append(f"```python\n{source}\n```")
        for k, output in enumerate(cell["outputs"]):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"images/notebook-{number}-{k}.png"
                content = base64.b64decode(data["image/png"])
                files.append(File.generated(config, name, content=content))
                written.append(f"![What the cell drew]({name})")
            elif "text/html" in data:
                written.append("".join(data["text/html"]))
            else:
                text = "".join(output.get("text", data.get("text/plain", "")))
                written.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(written)
