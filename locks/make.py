"""Write the locks beside this file, the bill of materials and the list of licences: `make lock`.

`core.txt` and `ray.txt` hold, for the versions that `constraints.txt` pins, the SHA-256 of every file of
them on PyPI, as uv reads it there (`uv pip compile --generate-hashes --universal`): whatever machine installs from them
gets one of these files, or an error. torch is in none of them, nor is what its CUDA build brings: which build of
torch a machine takes (PyPI's, PyTorch's for the CPU, a wheel of its own) is its owner's choice, and each has another
hash.

`sbom.json` (CycloneDX) and `licences.md` are read from what an environment that was installed from the locks holds.
Runs in an environment with uv and cyclonedx-bom, and needs the package index.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent
ROOT = HOME.parent
EXTRAS = {"core": (), "ray": ("ray",)}
OLDEST = "3.11"  # the Python that is asked for at least
CUDA = re.compile(r"(torch|triton|cuda-[\w-]+|nvidia-[\w-]+)==")


def main() -> None:
    """Write everything."""
    tools = Path(sys.executable).parent
    locks = {name: compiled(tools, extras) for name, extras in EXTRAS.items()}
    core = set(locks["core"])
    for name, blocks in locks.items():
        own = blocks if name == "core" else [block for block in blocks if block not in core]
        (HOME / f"{name}.txt").write_text(HEADS[name] + "".join(own), encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        python = installed(Path(scratch))
        found = components(tools, python, Path(scratch) / "sbom.json")
    (HOME / "sbom.json").write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (HOME / "licences.md").write_text(licences(found), encoding="utf-8")


HEADS = {
    "core": "# What `pip install .` brings, but for torch. Made by `make lock`.\n",
    "ray": "# What the extra `ray` brings besides core.txt. Made by `make lock`.\n",
}


def compiled(tools: Path, extras: tuple[str, ...]) -> list[str]:
    """The pinned packages with their hashes, one block of text each, for any system and Python."""
    command = [
        tools / "uv",
        "pip",
        "compile",
        "pyproject.toml",
        "--constraint",
        "constraints.txt",
        "--universal",
    ]
    command += ["--python-version", OLDEST, "--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
    for extra in extras:
        command += ["--extra", extra]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    blocks = re.findall(r"^\S.*\n(?:[ \t].*\n)*", text, re.MULTILINE)
    return [block for block in blocks if not CUDA.match(block)]


def installed(scratch: Path) -> Path:
    """The Python of a new environment that holds the locks, and torch without what it needs."""
    venv.create(scratch / "env", with_pip=True)
    python = scratch / "env" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps"]
    for name in EXTRAS:
        subprocess.run([*pip, "--require-hashes", "-r", HOME / f"{name}.txt"], check=True)
    subprocess.run([*pip, "-c", ROOT / "constraints.txt", "torch"], check=True)
    return python


def components(tools: Path, python: Path, target: Path) -> dict[str, Any]:
    """The bill of materials of an environment, without the tools that every environment has, and without times."""
    command = [
        tools / "cyclonedx-py",
        "environment",
        python,
        "--output-reproducible",
        "--of",
        "JSON",
        "-o",
        target,
    ]
    subprocess.run(command, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    kept = [c for c in found["components"] if c["name"].lower() not in ("pip", "setuptools")]
    for component in kept:  # where it was got from on this machine is no fact of the package
        component.pop("externalReferences", None)
        component["version"] = component["version"].partition("+")[0]
        component["purl"] = component["bom-ref"] = (
            f"pkg:pypi/{component['name'].lower()}@{component['version']}"
        )
        said = said_of(component) or [plainly(python, component["name"])]
        component["licenses"] = [{"license": {"name": one}} for one in said if one]
    kept.sort(key=lambda component: component["name"].lower())
    return {
        "bomFormat": found["bomFormat"],
        "specVersion": found["specVersion"],
        "version": 1,
        "components": kept,
    }


def said_of(component: dict[str, Any]) -> list[str]:
    """What a package's metadata say of its licence: identifiers and names, no whole texts."""
    said = []
    for one in component.get("licenses", []):
        text = one.get("expression") or one["license"].get("id") or one["license"].get("name", "")
        said.append(
            text.strip().splitlines()[0].removeprefix("License :: OSI Approved :: ") if text.strip() else ""
        )
    return sorted(
        {text for text in said if text and len(text) < 120 and not text.startswith("declared license")}
    )


def plainly(python: Path, name: str) -> str:
    """What a package's metadata say of its licence in the old way, in words of their own."""
    code = "import sys; from importlib.metadata import metadata; print(metadata(sys.argv[1]).get('License') or '')"
    told = subprocess.run([python, "-c", code, name], check=True, capture_output=True, text=True).stdout
    return told.strip().splitlines()[0] if told.strip() else ""


def licences(found: dict[str, Any]) -> str:
    """The list for people."""
    rows = [
        f"| {c['name']} | {c['version']} | {'; '.join(one['license']['name'] for one in c['licenses']) or 'not told'} |"
        for c in found["components"]
    ]
    head = "# Licences of what fedroam uses\n\nMade by `make lock` from the packages' own metadata.\n\n"
    return head + "\n".join(["| package | version | licence |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    main()
