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


def test_an_empty_name_of_an_experiment_is_told() -> None:
    with pytest.raises(InputError, match="source '': allowed is the name of a file"):
        fedroam.plan("")


@pytest.mark.parametrize("target", ["none.toml", "link.toml"], ids=["dangling", "loop"])
@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_that_leads_nowhere_is_told(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link.toml").symlink_to(target)
    with pytest.raises(InputError, match=f"link.toml: is a link to '{target}', which leads to no file"):
        fedroam.plan("link.toml")


def test_an_experiment_of_another_encoding_is_told_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_bytes("rounds = 1\n# für\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"own.toml, line 2: not UTF-8 text \(byte 14 is 0xfc\).*iconv"):
        fedroam.plan(tmp_path / "own.toml")


@pytest.mark.parametrize("words", ["report run", "run quickstart --out new"])
def test_a_backend_that_matplotlib_does_not_know_is_told(words: str, tmp_path: Path) -> None:
    """Before a run, not when it has been computed and is to be drawn."""
    fedroam.run(tiny(rounds=1), tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-m", "fedroam", *words.split()],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "nonsense"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: MPLBACKEND = 'nonsense' in the environment: allowed are [")
    assert not (tmp_path / "new").exists()
    assert done.stderr.count("\n") == 1
