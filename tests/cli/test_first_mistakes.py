"""What a newcomer, another editor, or another system's encoding brings about is told in a line, or just works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fedroam
from fedroam.cli.starter import headline
from fedroam.errors import InputError
from fedroam.mobility.world import checked
from fedroam.sweep.running import check_workers
from support.tiny import tiny


def test_the_column_of_rounds_itself_is_no_figure(tmp_path: Path) -> None:
    run = fedroam.run(tiny(rounds=1), tmp_path / "run")
    with pytest.raises(InputError, match="unknown column of rounds 'round'"):
        fedroam.plot([run], "round")


def test_a_file_may_begin_with_the_mark_of_its_encoding(tmp_path: Path) -> None:
    """As Windows' Notepad writes it."""
    (tmp_path / "marked.toml").write_text("rounds = 1\nclients = 2\n", encoding="utf-8-sig")
    (run,) = fedroam.plan(tmp_path / "marked.toml").runs
    assert (run.experiment.rounds, run.experiment.clients) == (1, 2)


def test_what_an_encoding_lacks_ends_nothing(tmp_path: Path) -> None:
    """The minus sign of a table, where output is written as an old Windows does."""
    run = fedroam.run(tiny(rounds=1), tmp_path / "run")
    command = [sys.executable, "-m", "fedroam", "compare", str(run.folder)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"?" in done.stdout


def test_a_dry_run_has_workers_too() -> None:
    for workers in (-1, 10**6):
        with pytest.raises(InputError, match=f"workers = {workers}: allowed are 0"):
            check_workers(workers)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One sentence. Another one.\n", "One sentence."),
        ("# As it was (Sec. 5.2, Table 1): walks. More.\n", "As it was (Sec. 5.2, Table 1): walks."),
        ("# As Jahani et al. set\n# it up. More.\n", "As Jahani et al. set it up."),
        ("# No end\n", "No end"),
    ],
)  # fmt: skip
def test_a_sentence_ends_where_it_ends(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(text + "rounds = 1\n", encoding="utf-8")
    assert headline(tmp_path / "one.toml") == expected


@pytest.mark.parametrize("state", [None, 3, [[0.0, 0.0]]])
def test_a_pattern_that_begins_with_no_mapping_is_told(state: object) -> None:
    with pytest.raises(InputError, match=f"its state is {type(state).__name__}, expected is a mapping"):
        checked(state, None)  # type: ignore[arg-type]
