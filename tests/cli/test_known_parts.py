"""What `fedroam list` and `fedroam show` tell is remembered, and never stale."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fedroam.cli.known_parts import KnownParts
from support.warm import python

LISTED = """\
import sys
from fedroam.cli import main
code = main()
print("torch" in sys.modules)
sys.exit(code)
"""


def told(cache: Path, *words: str, begun: Sequence[str] = (sys.executable,)) -> list[str]:
    """What a process of its own says, line by line; at last, whether it had to load torch.

    begun: `python()` where it has to in any case.
    """
    home = {"XDG_CACHE_HOME": str(cache), "HOME": str(cache), "COLUMNS": "200"}
    done = subprocess.run(
        [*begun, "-c", LISTED, *words],
        env={**os.environ, **home},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_second_time_it_answers_without_loading_the_code(tmp_path: Path) -> None:
    first, second = told(tmp_path, "list"), told(tmp_path, "list")
    assert (first[-1], second[-1]) == ("True", "False")
    assert first[:-1] == second[:-1]
    assert any("random_walk" in line for line in first)
    assert told(tmp_path, "show", "dam")[-1] == "False"
    (kept,) = tmp_path.rglob("parts-*.json")
    fresh = "from fedroam.cli.known_parts import asked; print(asked([]).model_dump_json())"
    done = subprocess.run([*python(), "-c", fresh], capture_output=True, check=True)
    # Asked of a process of its own: in this one other tests may have made parts known.
    assert KnownParts.model_validate_json(kept.read_bytes()) == KnownParts.model_validate_json(done.stdout)
    # Damaged, it is asked anew. That of another source has another name, and goes.
    kept.write_text("{}", encoding="utf-8")
    kept.with_name("parts-0.json").write_bytes(done.stdout)
    assert told(tmp_path, "list") == first
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    assert told(tmp_path, "list") == second


def test_where_nothing_can_be_kept_it_answers_all_the_same(tmp_path: Path) -> None:
    cache = tmp_path / "a file"
    cache.write_text("", encoding="utf-8")
    assert any("random_walk" in line for line in told(cache, "list", "mobility", begun=python()))


def test_own_parts_are_never_remembered(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from fedroam import register\nfrom fedroam.mobility.grid import Static\n\n\n"
        '@register("mobility", "stubborn")\nclass Stubborn(Static):\n    """Stays."""\n',
        encoding="utf-8",
    )
    found = told(tmp_path, "list", "mobility", "--use", str(own), begun=python())
    assert any("stubborn" in line for line in found)
    assert not [*tmp_path.rglob("parts-*.json")]
