"""Where the command line writes: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from typing_extensions import override

from fedroam.errors import InputError

DONE, FAILED, WRONG_INPUT = 0, 1, 2  # exit codes; a program stopped by Ctrl-C has `interrupts.STOPPED`
WIDE = 140  # columns of tables where there is no terminal: wide enough that nothing is folded


class _Results(Console):
    @override
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # left to the entry point: rich itself would end the program as failed


def out() -> Console:
    """The console of results."""
    return _Results(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else WIDE)


def say(line: str = "") -> None:
    """A line of results, exactly as given: not folded, no markup."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def tell(line: str) -> None:
    """A line about the work itself (progress, notes of the moment), to stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def one_line(message: str) -> str:
    """A message without line breaks."""
    return " ".join(message.split())


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """While it lasts, a file or folder that cannot be written is the user's input error, not a crash."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise InputError(f"{where}: cannot be written ({error.strerror or error})") from None
