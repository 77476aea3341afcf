"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fedroam.errors import unknown


class Commands(TyperGroup):
    """Commands in the order of their definition; a misspelt one gets the nearest suggested."""

    def list_commands(self, ctx: Any) -> list[str]:
        """See `TyperGroup`."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See `TyperGroup`. Raises InputError for an unknown command."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise unknown(f"command of {ctx.command_path}", args[0], self.commands)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """See `TyperGroup`. A reader that has seen enough (`fedroam list | head`) is no error."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the parser would call this a failure
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None


class _Debugging:
    """Whether --debug was given: then errors come with their traceback."""

    wanted = False


def debugging() -> bool:
    """Whether --debug was given."""
    return _Debugging.wanted


def debug(wanted: bool) -> bool:
    """Take note of --debug."""
    _Debugging.wanted = _Debugging.wanted or wanted
    return wanted


def forget() -> None:
    """Forget the options of an earlier call in the same process."""
    _Debugging.wanted = False


Source = Annotated[
    str, typer.Argument(metavar="FILE|NAME", help="An experiment file (TOML), or a named experiment.")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, e.g. --set mobility.mobile=3 (may be repeated).",
    ),
]
Use = Annotated[
    list[str] | None,
    typer.Option(
        "--use", metavar="FILE.py", help="Load your own parts from a Python file (may be repeated)."
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", callback=debug, is_eager=True)
]
Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Run folders, or folders that hold several (variants, seeds)."),
]
