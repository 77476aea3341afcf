"""The scripts of a page, and the policy that lets a browser run these bytes and no others."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import resources

# Observable Plot and what it needs, unchanged from their packages (see NOTICE).
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.umd.min.js")
OWN = ("charts.js", "gantt.js", "map.js")


@cache
def asset(name: str) -> str:
    """A file of the pages' look."""
    folder = resources.files("fedroam.analysis.report") / "assets"
    return folder.joinpath(*name.split("/")).read_bytes().decode("utf-8")


def policy() -> str:
    """The content security policy of a page that carries everything: nothing is fetched, and only these scripts run."""
    sums = " ".join(f"'sha256-{_sum(asset(name))}'" for name in (*OWN, *LIBRARIES))
    shown = "style-src 'unsafe-inline'; img-src data: blob:"
    return f"default-src 'none'; {shown}; script-src {sums}; base-uri 'none'; form-action 'none'"


def inline_scripts(names: Sequence[str] = OWN) -> str:
    """Script elements with our own scripts."""
    return "\n".join(f"<script>{asset(name)}</script>" for name in names)


@cache
def packed_libraries() -> str:
    """The plotting library as packed text that nothing runs until a chart is near."""
    return "\n".join(
        f'<script type="text/plain" data-library="{name.rpartition("/")[2]}">{deflated(asset(name).encode())}</script>'
        for name in LIBRARIES
    )


def deflated(content: bytes) -> str:
    """Base64 of a zlib stream: how pages carry what is large."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _sum(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
