"""The errors that fedroam raises on purpose, and what each means for the exit code."""

from __future__ import annotations

import difflib
import os
import re
import sysconfig
import unicodedata
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

SHOWN = 80  # characters of a value that was found
MESSAGE = 2_000  # characters of one message: more than any sentence of ours, few enough for a screen

# What a terminal obeys instead of showing it: control characters (but line breaks and tabs, which `one_line` takes
# out), marks that turn the direction of text, and halves of characters, which cannot even be written.
_OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BREAKS = re.compile(r"[^\S\r\n]*[\r\n]\s*|\t")

_OURS = str(Path(__file__).parent) + os.sep
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def visible(text: str) -> str:
    """Text in which characters that a terminal would obey are written out (`\\x1b`); line breaks and tabs stay."""
    return _OBEYED.sub(lambda found: ascii(found.group())[1:-1], text)


def one_line(text: str) -> str:
    """Text as one line without control characters, cut in its middle where it is longer than `MESSAGE`.

    Whoever reads it sees both ends: what a message is about, and what is allowed.
    """
    # Cut first, so that a text of 100 MB costs nothing; and again, because what is written out grows.
    return _shortened(_shown(visible(_BREAKS.sub(" ", _shortened(text).strip()))))


def _shown(line: str) -> str:
    """A line whose characters that have no shape anywhere, such as those for private use, are written out, too."""
    if line.isprintable():
        return line
    # Spaces that do not break, as between a number and its %, count as not printable in Python, but harm nobody.
    return "".join(
        one if one.isprintable() or unicodedata.category(one) == "Zs" else ascii(one)[1:-1] for one in line
    )


def _shortened(text: str) -> str:
    half = MESSAGE // 2
    return text if len(text) <= MESSAGE else f"{text[: half - 1]}…{text[-half:]}"


class FedroamError(Exception):
    """Base of every error that fedroam raises on purpose (exit code 1: the run failed).

    Its message is always one line of bounded length that a terminal can show, whatever was found in a file.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


class InputError(FedroamError):
    """What the user gave is wrong: configuration, data, trace, command line or run folder (exit code 2).

    The message is one line that names the file, key or row, what was found, and what is allowed.
    """


class MissingExtraError(InputError):
    """An optional dependency is not installed; the message is the command that brings it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs an optional package: "
            f"in the clone of fedroam, pip install -c constraints.txt '.[{extra}]'"
        )


def unknown(what: str, found: str, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist: lists the known ones and suggests the nearest."""
    names = sorted(known)
    return InputError(
        f"unknown {what} {found!r}: allowed are {', '.join(names) or '(none)'}{_near(found, names)}"
    )


def no_column(table: object, name: str, there: Iterable[str]) -> InputError:
    """The error for a table that lacks a column: lists those that it has and suggests the nearest."""
    names = sorted(there)
    return InputError(
        f"{table}: has no column {name!r}, but {', '.join(names) or '(none)'}{_near(name, names)}"
    )


def _near(found: str, names: list[str]) -> str:
    near = difflib.get_close_matches(found, names, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def wrong(owner: str, found: object, way: str) -> InputError:
    """The error for what a script has given that is not what is wanted; `way` says what is allowed."""
    shown = repr(found)
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"
    return InputError(f"{owner}: found {shown} ({type(found).__name__}), allowed is {way}")


def told(error: BaseException) -> str:
    """An error in a sentence: what fedroam raises on purpose as it stands, any other with its type and, where a file of
    the user's own raised it, that file and its line.
    """
    return (
        str(error) if isinstance(error, FedroamError) else f"{type(error).__name__}: {error}{own_line(error)}"
    )


def own_line(error: BaseException) -> str:
    """` (levy.py, line 37)` for the innermost line that fedroam called and that nobody installed; else nothing."""
    found, called, trace = "", False, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_OURS):
            called = True
        elif called and not file.startswith(("<", *_INSTALLED)):
            found = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return found


def warnings_in_lines(write: Callable[[str], None]) -> None:
    """From now on a warning of fedroam's is written as a line, each once, in place of Python's two with a line of code.

    Those of other libraries stay as they are. For programs that are fedroam's own: this changes the whole process.
    """
    usual, written = warnings.showwarning, set[str]()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = one_line(str(message))
        if not filename.startswith(_OURS) or not issubclass(category, UserWarning):
            usual(message, category, filename, lineno, file, line)
        elif text not in written:
            written.add(text)
            write(f"warning: {text}")

    warnings.showwarning = show
