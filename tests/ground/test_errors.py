"""Messages: one line, of bounded length, that a terminal shows and does not obey."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fedroam.components import use
from fedroam.errors import MESSAGE, FedroamError, InputError, one_line, own_line, told, visible

HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202etxt.exe\u2066\ud800\x7f"


def test_a_long_message_keeps_both_ends() -> None:
    text = str(InputError(f"own.csv, row 3: {'9' * 10_000_000}, allowed is 0 to 9"))
    assert len(text) == MESSAGE
    assert text.startswith("own.csv, row 3: 99")
    assert text.endswith("99, allowed is 0 to 9")
    assert "9…9" in text


def test_what_a_terminal_would_obey_is_written_out() -> None:
    text = one_line(f"unknown key {HOSTILE}!")
    assert text.isprintable()
    assert text.encode()
    assert text == r"unknown key \x1b[2J\x1b]0;owned\x07 \x9b31m\u202etxt.exe\u2066\ud800\x7f!"
    assert len(one_line("\x1b" * 10_000)) == MESSAGE


def test_what_has_no_shape_is_written_out() -> None:
    assert one_line("a\ue000b\U000f0000c\u0378d") == r"a\ue000b\U000f0000c\u0378d"


def test_what_is_printable_stays_as_it_is() -> None:
    for text in ("Zürich  0.5 ± 0.1 → 学 🚲", "80.5\u00a0%", "10\u202f000", "a\\x1b", "x" * MESSAGE, ""):
        assert one_line(text) == visible(text) == text
    assert visible("a\n\tb") == "a\n\tb"
    assert one_line(" a\n  b\r\nc\td ") == "a b c d"


@pytest.mark.parametrize("cls", [FedroamError, InputError])
def test_an_error_crosses_processes(cls: type[FedroamError]) -> None:
    assert str(pickle.loads(pickle.dumps(cls(HOSTILE)))) == one_line(HOSTILE)


def test_an_error_tells_the_line_of_the_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"  # the line of ours, not the one of json that raises it
    file.write_text("import json\n\n\ndef read():\n    json.loads('[')\n\n\nread()\n")
    with pytest.raises(InputError) as caught:
        use(file)
    error = caught.value.__cause__
    assert error is not None
    assert own_line(error) == " (mine.py, line 5)"
    assert told(error) == f"JSONDecodeError: {error} (mine.py, line 5)"


def test_an_error_of_fedroam_itself_tells_no_line() -> None:
    with pytest.raises(FedroamError) as meant:
        use("missing.py")
    assert told(meant.value) == str(meant.value)
    with pytest.raises(TypeError) as caught:
        one_line(1)  # type: ignore[arg-type]
    assert own_line(caught.value) == ""
