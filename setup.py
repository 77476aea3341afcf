"""What the package index shows of fedroam: the README with links and a picture that work there.

The README's links lead to files beside it, and its picture is one of them. A package index has neither: with
FEDROAM_REPOSITORY=https://HOST/OWNER/fedroam `python -m build` makes addresses of the repository of them; without it, a
link is its text and the picture is left out. Everything else is in pyproject.toml.
"""

import os
import re
from pathlib import Path

from setuptools import setup

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")
_PICTURE = re.compile(r"<img src=\"(?!https?://)([^\"]+)\"([^>]*)>\n?")


def description(readme: str, repository: str) -> str:
    """The README for a package index; `repository` is an address without a slash at its end, or empty."""
    if not repository:
        return _LINK.sub(lambda found: "" if found[1] else found[2], _PICTURE.sub("", readme))
    readme = _PICTURE.sub(rf'<img src="{repository}/raw/main/\1"\2>\n', readme)
    return _LINK.sub(lambda found: f"{found[1]}[{found[2]}]({repository}/blob/main/{found[3]})", readme)


if __name__ == "__main__":
    repository = os.environ.get("FEDROAM_REPOSITORY", "").rstrip("/")
    if repository and not repository.startswith("https://"):
        raise SystemExit(
            f"FEDROAM_REPOSITORY is {repository!r}; wanted is an address that begins with https://"
        )
    setup(
        long_description=description(Path(__file__).with_name("README.md").read_text("utf-8"), repository),
        long_description_content_type="text/markdown",
        project_urls={"Source": repository} if repository else {},
    )
