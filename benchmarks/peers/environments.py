"""Sets up an environment for each peer: a venv with exactly what `requirements-NAME.txt` pins.

    python benchmarks/peers/environments.py [--folder .venv-peers] [--only flower plain]

What is there already, of the same pins, is left alone. On Linux torch is the CPU build by its full version (`+cpu`),
which the package index does not have: where pip is to look for it, pip's own settings say (PIP_FIND_LINKS,
PIP_EXTRA_INDEX_URL). Nothing but what is pinned is installed, so no build for GPUs is ever fetched.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = ("plain", "flower", "blazefl", "simpy")
DEFAULT = HERE.parents[1] / ".venv-peers"
PINS = "pins.txt"  # what was installed, in each environment


def pins(name: str) -> Path:
    """The file of an environment's exact versions."""
    return HERE / f"requirements-{name}.txt"


def python(folder: Path, name: str) -> Path | None:
    """The interpreter of an environment that is there, of the pins of today; None where it is missing."""
    kept, found = folder / name / PINS, folder / name / "bin" / "python"
    if not kept.exists() or kept.read_bytes() != pins(name).read_bytes():
        return None
    return found if found.exists() else None


def make(folder: Path, name: str) -> None:
    """Make an environment anew."""
    home = folder / name
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    # The versions say all: nothing is resolved. BlazeFL asks for Python 3.12, and runs with 3.11.
    install = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    install += ["--ignore-requires-python"] if name == "blazefl" else []
    subprocess.run([*install, "-r", str(pins(name))], check=True)
    shutil.copyfile(pins(name), home / PINS)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=DEFAULT, help="where environments lie (.venv-peers)")
    parser.add_argument("--only", nargs="*", choices=NAMES, default=list(NAMES))
    given = parser.parse_args()
    failed = []
    for name in given.only:
        if python(given.folder, name) is not None:
            print(f"{name}: there")
            continue
        try:
            make(given.folder, name)
            print(f"{name}: made", flush=True)
        except subprocess.CalledProcessError as error:
            failed.append(name)
            print(f"{name}: pip could not install what {pins(name).name} pins ({error})", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
