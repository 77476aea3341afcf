"""A few hundred cases of the attack in every run of the tests; `make attack` plays as many as are wished for."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from attack import mutations
from attack.campaign import Finding, attack, content, outcome
from attack.flips import FLIPS, KINDS, files_of
from attack.record import table
from attack.targets import TARGETS, TRAPS
from fedroam.randomness import stream

SEED = 0
CASES = 14  # of each target
BITS = 4  # flipped in each kind of file; a thousand each are in the record
GROUPS = (
    "experiment",
    "sweep",
    "--",
    "data",
    "trace",
    "availability",
    "run folder",
    "resume",
    "handed over",
    "other",
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processes are Linux's")


@dataclass(frozen=True)
class Known:
    """A finding that is not mended yet. pattern: of its line; target, case: an example, which must still fail."""

    pattern: str
    target: str
    case: int
    reason: str


KNOWN: tuple[Known, ...] = ()


def group(name: str) -> str:
    """Targets that share a child process, and what is made for it."""
    if " data" in name or name in ("idx images", "weights", "places of access points"):
        return "data"
    return next((one for one in GROUPS if name.startswith(one)), "other")


def grouped(which: str) -> list[str]:
    return [name for name in TARGETS if group(name) == which]


def test_every_target_is_in_a_group() -> None:
    assert sorted(TARGETS) == sorted(name for which in GROUPS for name in grouped(which))
    assert all(grouped(which) for which in GROUPS)


@pytest.mark.parametrize("which", GROUPS)
def test_no_reader_falls(which: str) -> None:
    found, played = [], 0
    for name, case, what, line, seen in attack(grouped(which), CASES, SEED):
        played += 1
        if what == "finding":
            found.append(str(Finding(name, SEED, case, line, seen)))
    new = [line for line in found if not any(re.search(known.pattern, line) for known in KNOWN)]
    assert new == [], "\n".join(new)
    assert played == CASES * len(grouped(which))


@pytest.mark.parametrize("owner", KINDS)
def test_every_file_of_a_folder_has_its_bits_flipped(owner: str) -> None:
    """But sums that no checkpoint needs, and what stands in no folder for long."""
    files, kinds = KINDS[owner]
    chosen = {name for kind in kinds for name in files_of(files(), kind)}
    left = set(files()) - chosen
    assert all(name.startswith("unfinished/sums-") for name in left), left
    assert all(files_of(files(), kind) for kind in kinds)


@pytest.mark.parametrize("way", ["verify", "resume"])
def test_no_flipped_bit_goes_unseen(way: str) -> None:
    names = [name for name in FLIPS if name.startswith(way)]
    found, told = [], 0
    for name, case, what, line, seen in attack(names, BITS, SEED):
        told += what == "refused"
        if what == "finding":
            found.append(str(Finding(name, SEED, case, line, seen)))
    assert found == [], "\n".join(found)
    if way == "verify":  # what is gone on with may as well be written anew
        assert told == BITS * len(names)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known.target}-{known.case}")
def test_what_is_known_still_fails(known: Known, tmp_path: Path) -> None:
    """Once it is mended, its line goes from `KNOWN`."""
    what, line, seen = outcome(known.target, SEED, known.case, tmp_path)
    assert what == "finding"
    assert re.search(known.pattern, str(Finding(known.target, SEED, known.case, line, seen)))


@pytest.mark.parametrize(
    "name", [name for name in TARGETS if group(name) in ("--", "data", "trace", "experiment")]
)
def test_what_is_damaged_was_sound(name: str, tmp_path: Path) -> None:
    """Otherwise every case would be refused, for a reason of the sample's own."""
    for k, sample in enumerate(TARGETS[name].samples()):
        folder = tmp_path / str(k)
        folder.mkdir()
        TARGETS[name].enter(folder, sample)


def test_a_case_is_found_again_by_its_number() -> None:
    one = [content("csv data", 3, k) for k in range(20)]
    assert one == [content("csv data", 3, k) for k in range(20)]
    assert len(set(one)) > 15
    assert one != [content("csv data", 4, k) for k in range(20)]


@pytest.mark.parametrize("way", [*mutations.BYTES, *mutations.TEXT], ids=lambda way: way.__name__)
def test_every_mutation_changes_something(way: mutations.Mutation) -> None:
    data = b"a = 1\nb = [2, 3]\nc = 'x'\n"
    assert any(way(stream(0, "mutation", k), data) != data for k in range(20))


def test_the_page_says_what_the_record_says() -> None:
    page = Path(__file__).parents[2] / "docs" / "promises.md"
    assert table() in page.read_text(encoding="utf-8")


def test_the_attack_notices() -> None:
    traps = {
        "raises": ("finding", "KeyError"),
        "dies": ("finding", "the process died (exit code 3)"),
        "hangs": ("finding", "took over 0.5 s"),
        "eats": ("finding", "MemoryError"),
        "is silent": ("finding", "silent: 0.5 for 0.25"),
        "refuses": ("refused", "no"),
        "accepts": ("accepted", ""),
    }
    assert traps.keys() == TRAPS.keys()
    # What hangs never answers, and so needs no patience; the others may take long on a busy machine.
    hangs, others = ["hangs"], [trap for trap in traps if trap != "hangs"]
    seen = []
    for trap, _, what, line, _ in [*attack(others, 1, SEED), *attack(hangs, 2, SEED, patience=0.5)]:
        seen.append(trap)
        assert what == traps[trap][0], trap
        assert line.startswith(traps[trap][1]), trap
    assert seen == others + 2 * hangs  # it goes on after what hangs, too
