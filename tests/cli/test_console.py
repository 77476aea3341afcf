"""What commands print: names and texts from files and folders never act on the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomli_w
from rich.table import Table

from fedroam.cli.console import cell, out, progress_console, say, tell
from fedroam.errors import MESSAGE
from support.commands import Commands

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e"
OBEYED = ("\x1b", "\x07", "\u202e")


def _harmless(text: str) -> bool:
    return not any(each in text for each in OBEYED) and all(
        len(line) < 2 * MESSAGE for line in text.splitlines()
    )


@pytest.fixture
def fr(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The command line in a folder of its own, with the tiny experiment."""
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def test_every_way_of_printing_writes_control_characters_out(capsys: pytest.CaptureFixture[str]) -> None:
    grid = Table()
    grid.add_column(HOSTILE)
    grid.add_row(HOSTILE)
    out().print(grid)
    out().print(HOSTILE)
    progress_console().print(HOSTILE)
    say(HOSTILE)
    tell(HOSTILE)
    said = capsys.readouterr()
    assert _harmless(said.out)
    assert _harmless(said.err)
    assert said.out.count(r"\x1b[2J") == 4
    assert said.err.count(r"\x1b[2J") == 2


def test_a_cell_is_short_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    out().print(cell("[red]name[/red] [/]"))
    assert capsys.readouterr().out == "[red]name[/red] [/]\n"
    assert len(cell("x" * 10**6)) == MESSAGE


def test_names_in_a_run_folder_are_data(fr: Commands) -> None:
    fr.run("--out", "r")
    status = fr.folder / "r" / "seed-0" / "run.json"
    facts = json.loads(status.read_text()) | {
        "variant": HOSTILE + "v" * 5_000,
        "state": "failed",
        "reason": HOSTILE,
    }
    facts.pop("sha256", None)
    status.write_text(json.dumps(facts))
    for command in ("compare", "report", "verify", "connectivity"):
        answer = fr(command, "r")
        assert _harmless(answer.out + answer.err), command


@pytest.mark.parametrize("given", [HOSTILE, "k" * 3_000_000], ids=["escapes", "long"])
def test_a_key_of_a_file_is_told_in_one_short_line(fr: Commands, given: str) -> None:
    (fr.folder / "own.toml").write_text(tomli_w.dumps({given: 1}), encoding="utf-8")
    for arguments in (
        ("run", "own.toml"),
        ("run", "tiny.toml", "--set", f"{given}=1"),
        ("run", given),
        (given,),
    ):
        answer = fr(*arguments)
        assert answer.code == 2
        assert _harmless(answer.err), arguments
        assert len(answer.err.splitlines()) == 1, arguments


def test_a_folder_of_an_odd_name_can_be_told(fr: Commands) -> None:
    odd = "r\x1b[31m\udcff"  # a byte that is no UTF-8
    try:
        Path(fr.folder / odd).mkdir()
    except OSError:
        pytest.skip("this file system allows no such name")
    answer = fr.run("--out", odd)
    assert answer.code == 0
    assert r"r\x1b[31m\udcff" in answer.out


def test_names_that_no_font_has_are_drawn_without_a_word(
    fr: Commands, recwarn: pytest.WarningsRecorder
) -> None:
    fr.write("own.csv", "x,class\n" + "".join(f"{k},{'学 🚲' if k % 2 else 'தமிழ்'}\n" for k in range(40)))
    fr.write(
        "own.toml",
        'clients = 3\ndata = { kind = "csv", path = "own.csv", label = "class" }\npartition = "iid"\n',
    )
    answer = fr("data", "info", "own.toml", "--out", "info")
    assert answer.code == 0, answer.err
    assert answer.err == ""
    assert not [str(each.message) for each in recwarn if "lyph" in str(each.message)]
    assert "学" in (fr.folder / "info" / "who-holds-what.svg").read_text(encoding="utf-8")
