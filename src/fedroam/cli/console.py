"""Where the command line writes: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from fedroam.errors import InputError, one_line, visible

DONE, FAILED, WRONG_INPUT = 0, 1, 2  # exit codes; a program stopped by Ctrl-C has `interrupts.STOPPED`
WIDE = 140  # columns of tables where there is no terminal: wide enough that nothing is folded


class _Plain(Console):
    """A console on which names and texts from files never act: control characters in them are written out."""

    @override
    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def out() -> Console:
    """The console of results."""
    return _Plain(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else WIDE)


def progress_console() -> Console:
    """The console of a live display, on stderr."""
    return _Plain(file=sys.stderr, highlight=False)


def say(line: str = "") -> None:
    """A line of results, not folded, no markup; control characters in it are written out."""
    sys.stdout.write(visible(line) + "\n")
    sys.stdout.flush()


def tell(line: str) -> None:
    """A line about the work itself (progress, notes of the moment), to stderr; control characters are written out."""
    sys.stderr.write(visible(line) + "\n")
    sys.stderr.flush()


def tell_at_once(line: str) -> None:
    """A line to stderr from inside a signal handler: a bare write, no locks, and nothing where it cannot be written."""
    with suppress(OSError):
        os.write(2, f"\n{line}\n".encode())


def note(text: str) -> None:
    """A note on what was asked for, among the results: one line."""
    say(f"note: {one_line(text)}")


def cell(value: object) -> str:
    """A value as a cell of a table: one line, and no markup, whatever the folder that it was read from says."""
    return escape(one_line(str(value)))


def grid(*heads: str, texts: int = 1) -> Table:
    """A table with these heads: the first `texts` columns are texts, the others numbers, which stand at the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for k, head in enumerate(heads):
        table.add_column(cell(head), justify="left" if k < texts else "right", overflow="fold")
    return table


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """While it lasts, a file or folder that cannot be written is the user's input error, not a crash."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise InputError(f"{where}: cannot be written ({error.strerror or error})") from None
