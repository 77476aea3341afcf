"""The errors that fedroam raises on purpose, and what each means for the exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FedroamError(Exception):
    """Base of every error that fedroam raises on purpose (exit code 1: the run failed)."""


class InputError(FedroamError):
    """What the user gave is wrong: configuration, data, trace, command line or run folder (exit code 2).

    The message is one line that names the file, key or row, what was found, and what is allowed.
    """


class MissingExtraError(InputError):
    """An optional dependency is not installed; the message is the command that brings it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: pip install 'fedroam[{extra}]'")


def unknown(what: str, found: str, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist: lists the known ones and suggests the nearest."""
    names = sorted(known)
    near = difflib.get_close_matches(found, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InputError(f"unknown {what} {found!r}: allowed are {', '.join(names) or '(none)'}{hint}")
