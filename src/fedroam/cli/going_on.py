"""How a stopped command goes on: the command to type, and what is said of it at Ctrl-C."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping

import typer

from fedroam.cli.console import tell
from fedroam.errors import one_line
from fedroam.terminal.interrupts import STOPPED, Interrupted, ending

Given = bool | int | float | str | list[str] | None


def command(name: str, *arguments: str, options: Mapping[str, Given]) -> str:
    """The line for a shell that goes on with `fedroam NAME ARGUMENTS`, as far as options were given.

    An option that is None, False or an empty list is left out; one that is True stands alone, one with a list is
    repeated.
    """
    words = ["fedroam", name, *arguments]
    for option, value in options.items():
        if value is None or value is False:
            continue
        texts = (
            value if isinstance(value, list) else [f"{value:g}" if isinstance(value, float) else str(value)]
        )
        words += [option] if value is True else [word for text in texts for word in (option, text)]
    return shlex.join(words)


@contextlib.contextmanager
def going_on(
    again: str,
    lost: str = "the rounds since the last checkpoints are lost",
    begun: Callable[[], bool] = lambda: True,
) -> Iterator[None]:
    """While it lasts, Ctrl-C ends in the command that goes on, `again`, and its own exit code.

    begun: whether there is anything to go on with; until then, Ctrl-C is that of a program that has begun nothing.
    """
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stop:
        if isinstance(stop, KeyboardInterrupt) and not begun():
            raise
        ending()
        tell(one_line(str(stop)) if isinstance(stop, Interrupted) else f"stopped at once; {lost}")
        tell(f"go on with: {again}")
        raise typer.Exit(STOPPED) from None
