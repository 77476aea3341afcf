"""How the program ends: after all that was to be done at exit, with its code, whatever is left unread."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import atexit
import sys
from fedroam.__main__ import program

sys.argv = ["fedroam", *sys.argv[1:]]
code = program()
atexit.register(print, "last words")
sys.exit(code)
"""


def ended(
    *words: str, program: str = PROGRAM, out: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *words]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, env=buffered)


@pytest.mark.parametrize(
    ("words", "code", "first"), [(("--version",), 0, "fedroam "), (("show", "nothing"), 2, "")]
)
def test_what_is_to_be_done_at_exit_is_done_and_what_was_said_is_read(
    words: tuple[str, ...], code: int, first: str
) -> None:
    """Nothing is flushed on the way, and stdout is a pipe."""
    found = ended(*words)
    assert found.returncode == code, found.stderr
    assert found.stdout.startswith(first)
    assert found.stdout.endswith("last words\n")
    assert ("error: " in found.stderr) == bool(code)


def test_an_error_on_the_way_is_shown() -> None:
    broken = (
        "import fedroam.cli\n\ndef main():\n    raise ValueError('lost')\n\nfedroam.cli.main = main\n"
        + PROGRAM
    )
    found = ended("--version", program=broken)
    assert found.returncode == 1
    assert "ValueError: lost" in found.stderr


def test_a_reader_that_is_gone_is_told_by_python() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    quiet = PROGRAM.replace("code = program()", "code = program()\nprint('nobody reads this')")
    try:
        found = ended("show", "nothing", program=quiet, out=writing)
    finally:
        os.close(writing)
    assert found.returncode == 120
    assert "BrokenPipeError" in found.stderr
