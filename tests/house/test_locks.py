"""The locks, the bill of materials and the list of licences agree with the versions that are pinned."""

from __future__ import annotations

import importlib.util
import json
import re
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


def test_every_pin_is_locked_and_nothing_else_is() -> None:
    core, dev, ray = (locked(name) for name in ("core", "dev", "ray"))
    assert not core.keys() & (dev.keys() | ray.keys())
    whole = core | dev | ray
    pins = pinned()
    assert pins.keys() - whole.keys() == {"torch"}
    assert {name: whole[name][0] for name in pins if name != "torch"} == {
        n: v for n, v in pins.items() if n != "torch"
    }
    # Of other systems, or of a build of torch.
    assert {name for name in whole.keys() - pins.keys() if not whole[name][1]} <= {"setuptools"}
    assert not [name for name in whole if name.startswith(("torch", "triton", "nvidia-", "cuda-"))]


def test_the_bill_of_materials_is_that_of_the_pins() -> None:
    found = json.loads((LOCKS / "sbom.json").read_text())
    assert found["bomFormat"] == "CycloneDX"
    parts = {canonicalize_name(c["name"]): c for c in found["components"]}
    assert {name: c["version"] for name, c in parts.items()} == pinned()
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
