"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup
from typing_extensions import override

from fedroam.errors import InputError, unknown
from fedroam.writing import checked_name

if TYPE_CHECKING:
    from fedroam.recording import Existing


LONGEST = 1000  # characters of a command's first sentence: more than any has

Names = TypeVar("Names", str | None, list[str] | None)


class Commands(TyperGroup):
    """Commands in the order of their definition, each with its first sentence; a misspelt one gets the nearest
    suggested."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Not as the option parser does, which cuts sentences off that are longer than a line."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(LONGEST)) for name, one in self.commands.items()]
            )

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise unknown(f"command of {ctx.command_path}", args[0], self.commands)
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # of which the parser would say nothing
            raise typer.Abort from None


def _a_round(value: int | None) -> int | None:
    if value is not None and value < 1:
        raise InputError(f"--rounds {value}: allowed is a whole number from 1 on")
    return value


def named(parameter: typer.CallbackParam, value: Names) -> Names:
    """Refuse names of files or folders that are empty, which would mean the folder that one happens to be in, or that
    the system does not take.
    """
    option = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar or ""
    for name in [value] if isinstance(value, str) else value or []:
        checked_name(name, option)
    return value


def place(*names: str, metavar: str, help: str) -> Any:
    """An option that names a file or folder; its name is that of its parameter where none is given."""
    return typer.Option(*names, callback=named, metavar=metavar, help=help)


def operand(*, metavar: str, help: str) -> Any:
    """An argument that names a file or folder, or several."""
    return typer.Argument(callback=named, metavar=metavar, help=help)


def existing(resume: bool, fresh: bool) -> Existing:
    """What becomes of a run that is there already. Raises InputError where both are wanted."""
    if resume and fresh:
        raise InputError("--resume and --fresh: allowed is one of the two")
    return "resume" if resume else "replace" if fresh else "refuse"


Source = Annotated[
    str, operand(metavar="FILE|NAME", help="An experiment file (TOML), or a named experiment.")
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
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help="Tell tensorboard, mlflow or wandb what is measured, while it runs (may be repeated).",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin anew, replacing what is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Workers = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Runs at a time, one core each; 0 is one a core. The last runs share this machine's cores.",
    ),
]
Worlds = Annotated[int | None, typer.Option("--seeds", metavar="K", help="Look at K worlds of each.")]
Rounds = Annotated[
    int | None,
    typer.Option(callback=_a_round, metavar="T", help="Rounds to look at. (default: the file's)"),
]
Runs = Annotated[
    list[str],
    operand(metavar="RUN...", help="Run folders, or folders that hold several (variants, seeds)."),
]
