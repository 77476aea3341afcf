"""What a plain install brings, and the commands that messages name for the rest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import fedroam

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCE = sorted(Path(fedroam.__file__).parent.rglob("*.py"))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[; ]", line)[0].lower().replace("_", "-") for line in requirements}


def test_what_the_five_papers_need_is_a_dependency() -> None:
    """Traces of check-ins (Farcas et al.) are in degrees."""
    assert "pyproj" in names(PROJECT["dependencies"])


def test_messages_name_extras_that_there_are() -> None:
    named = set()
    for path in SOURCE:
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"MissingExtraError\([^)]*?\"(\w+)\"\)", text))
        assert "pip install 'fedroam" not in text, (
            f"{path}: there is no package index that has it: the clone has"
        )
    assert named
    assert named <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize("extra", ["onnx", "ray", "deploy"])
def test_the_versions_of_extras_are_fixed(extra: str) -> None:
    fixed = names((ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:])
    wanted = names(PROJECT["optional-dependencies"][extra])
    assert wanted
    assert wanted <= fixed
