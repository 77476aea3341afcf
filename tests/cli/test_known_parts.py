"""What `fedroam list` and `fedroam show` tell is remembered, and never stale."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import fedroam
from fedroam.cli.known_parts import KEPT, KnownParts, sources
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
    # Damaged, it is asked anew. That of another source has another name, and goes when there are many.
    kept.write_text("{}", encoding="utf-8")
    others = [kept.with_name(f"parts-{k}.json") for k in range(KEPT)]
    for age, other in enumerate(others):
        other.write_bytes(done.stdout)
        os.utime(other, (age, age))
    assert told(tmp_path, "list") == first
    assert {path.name for path in kept.parent.iterdir()} == {kept.name, *(one.name for one in others[1:])}
    assert told(tmp_path, "list") == second


def test_what_is_loaded_to_tell_it_is_what_its_name_is_made_of() -> None:
    """A file that were loaded and did not count could change, and the parts would be shown as they were."""
    code = "import sys; from fedroam.cli.known_parts import asked; asked([])\n"
    code += "print(*(m.__file__ for name, m in sys.modules.items() if name.partition('.')[0] == 'fedroam'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    home = Path(fedroam.__file__).parent
    counted, cli = set(sources(home)), home / "cli"
    # What stands at the door of the command line tells nothing of parts.
    loaded = {Path(file) for file in done.stdout.split()}
    door = {file for file in loaded if file.parent in (cli, cli / "commands")} - {
        cli / f"{name}.py" for name in ("known_parts", "describe", "starter")
    }
    assert loaded - door <= counted
    assert {home / "experiment.py", home / "experiments" / "quickstart.toml"} <= counted
    assert all(file.is_file() for file in counted)
    assert not [file for file in counted if file.is_relative_to(home / "analysis")]


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
