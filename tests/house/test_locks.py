"""The locks, the bill of materials and the list of licences agree with the versions that are pinned."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
BLOCK = re.compile(r"^(\S.*?) ?\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def pinned() -> dict[str, str]:
    """Version by package, of `constraints.txt`."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    asked = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in asked}


def locked(name: str) -> dict[str, tuple[str, str]]:
    """Version and marker by package, of a lock; every line of it is a comment or belongs to a package with hashes."""
    text = (LOCKS / f"{name}.txt").read_text()
    assert re.sub(r"^#.*\n", "", BLOCK.sub("", text), flags=re.MULTILINE) == ""
    asked = [Requirement(found.group(1)) for found in BLOCK.finditer(text)]
    return {
        canonicalize_name(r.name): (str(r.specifier).removeprefix("=="), str(r.marker or "")) for r in asked
    }


def needed() -> set[str]:
    """What `pyproject.toml` asks for, of users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["ray"]]
    return {canonicalize_name(Requirement(one).name) for one in asked}


def test_what_users_install_is_locked_in_the_versions_that_are_pinned() -> None:
    core, ray = locked("core"), locked("ray")
    assert not core.keys() & ray.keys()
    whole, pins = core | ray, pinned()
    assert needed() - whole.keys() == {"torch"}
    assert {name: whole[name][0] for name in whole if name in pins} == {
        n: pins[n] for n in whole if n in pins
    }
    # Of other systems, or of a build of torch.
    assert {name for name in whole.keys() - pins.keys() if not whole[name][1]} <= {"setuptools"}
    assert not [name for name in whole if name.startswith(("torch", "triton", "nvidia-", "cuda-"))]


def test_the_bill_of_materials_is_that_of_the_pins() -> None:
    found = json.loads((LOCKS / "sbom.json").read_text())
    assert found["bomFormat"] == "CycloneDX"
    parts = {canonicalize_name(c["name"]): c for c in found["components"]}
    pins = pinned()
    assert {name: c["version"] for name, c in parts.items()} == {name: pins[name] for name in parts}
    assert needed() <= parts.keys()
    assert [name for name, c in parts.items() if not c["licenses"]] == []
    assert "/" not in "".join(c["version"] for c in parts.values())
    assert "file:" not in json.dumps(found)


def test_the_list_of_licences_is_that_of_the_bill() -> None:
    spec = importlib.util.spec_from_file_location("locks_make", LOCKS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    found = json.loads((LOCKS / "sbom.json").read_text())
    assert (LOCKS / "licences.md").read_text() == make.licences(found)
