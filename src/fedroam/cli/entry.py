"""The entry point: commands, and what becomes of their errors.

Exit codes: 0 done; 1 it failed; 2 what the user gave is wrong; 130 stopped by Ctrl-C. An error is one line
on stderr, without traceback unless --debug is given.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Protocol, runtime_checkable

import typer

import fedroam
from fedroam.cli import options
from fedroam.cli.commands import (
    bench,
    catalogue,
    clock,
    connectivity,
    data,
    figure,
    handover,
    live,
    network,
    reproduce,
    results,
    run,
    site,
    sweep,
    trace,
)
from fedroam.cli.console import DONE, FAILED, WRONG_INPUT, say, tell
from fedroam.cli.document import commands_of
from fedroam.errors import FedroamError, InputError, one_line, told, unknown, warnings_in_lines
from fedroam.terminal.interrupts import STOPPED, WholeProgram
from fedroam.terminal.streams import output_lost, unfailing_streams

OLD = 100  # rounds of Python's collector before the first that looks through everything; usual are 10
RUNNING = tuple(f"fedroam {name}" for name in ("run", "sweep", "reproduce", "emulate", "deploy"))


@runtime_checkable
class UsageError(Protocol):
    """What every complaint of the option parser has; its classes are private to typer and differ by version."""

    message: str

    def format_message(self) -> str:
        """The complaint as one text."""


app = typer.Typer(
    name="fedroam",
    cls=options.Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # what would frame help takes as long to load as all commands
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated learning for things that move.",
)


@app.callback(invoke_without_command=True)
def _fedroam(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if version:
        say(f"fedroam {fedroam.__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        say(ctx.get_help())


app.command("run")(run.run)
app.command("sweep", cls=sweep.SweepCommand)(sweep.sweep)
app.command("init")(catalogue.init)
app.command("list")(catalogue.list_parts)
app.command("show")(catalogue.show)
app.command("compare")(results.compare)
app.command("report")(results.report)
app.command("figure")(figure.figure)
app.command("watch")(live.watch)
app.command("serve")(live.serve)
app.command("verify")(results.verify)
app.command("export")(handover.export)
app.command("predict")(handover.predict)
app.command("connectivity")(connectivity.connectivity)
app.command("clock")(clock.clock)
app.command("reproduce")(reproduce.reproduce)
app.command("bench")(bench.bench)
app.command("node")(network.node)
app.command("deploy")(network.deploy)
app.command("emulate")(network.emulate)
app.command("energy")(network.energy)
app.add_typer(site.app, name="site")
app.add_typer(data.app, name="data")
app.add_typer(trace.app, name="trace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. `arguments` default to those of the process, which then is taken
    to end with it: Ctrl-C has no effect any more."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _take_as_old()
        warnings_in_lines(tell)
    try:
        with unfailing_streams(), WholeProgram(for_good=arguments is None) as program:
            code = _heard(_main(given), given)
            program.ending()
    except KeyboardInterrupt:  # while something was said, or in the moment between two lines
        return STOPPED
    finally:
        if arguments is None:
            gc.freeze()  # or, as it ends, Python looks through all that torch has loaded: a fifth of a short run
    return code


def _heard(code: int, given: Sequence[str]) -> int:
    """The exit code of a command that has come to its end, and tells so: another one than 0 where its results could not
    be written. A reader that has seen enough, as in `fedroam list | head`, is no failure."""
    lost = output_lost()
    if code != DONE or lost is None or isinstance(lost, BrokenPipeError):
        return code
    done = "; what it was to compute is computed" if _runs(given) else ""
    tell(f"error: {_command(given)}: standard output cannot be written ({lost.strerror or lost}){done}")
    return FAILED


def _take_as_old() -> None:
    """Put off Python's first look for garbage through all that there is.

    Until then it does not know that what torch has loaded is old, and to find nothing in it takes a twentieth of a
    short run. The next ones come as always, when there is a quarter more.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, max(old, OLD))


@functools.cache  # making them takes as long as answering a question does
def whole() -> Any:
    """All commands, each of which takes --debug as the program itself does."""
    root = typer.main.get_command(app)
    debug = next(parameter for parameter in root.params if parameter.name == "debug")
    debug.expose_value = False  # asked of the words given, below
    for _, command in commands_of(root, "fedroam"):
        command.params.append(debug)
    return root


def _main(given: Sequence[str]) -> int:
    debugging = "--debug" in given
    try:
        if (
            _runs(given) and "MPLBACKEND" in os.environ
        ):  # what is wrong with it is told before anything is computed
            import_module("fedroam.analysis.figures")
        code = whole().main(args=list(given), prog_name="fedroam", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        # Before the first run begins, or after the last has ended: in between, `going_on` says how.
        tell("stopped; the same command goes on" if _runs(given) else "stopped")
        return STOPPED
    except InputError as error:
        return _complain(str(error), WRONG_INPUT, debugging)
    except FedroamError as error:
        return _complain(f"{_what(given)} failed: {error}", FAILED, debugging)
    except Exception as error:
        if isinstance(error, UsageError):
            return _complain(_usage(error, given), WRONG_INPUT, debugging)
        shown = f"{told(error)} (--debug shows where)"
        return _complain(f"{_what(given)} failed: {shown}", FAILED, debugging)
    return code if isinstance(code, int) else DONE


def _what(given: Sequence[str]) -> str:
    """What fails, where something does: the run of a command that runs something, otherwise the command."""
    return "the run" if _runs(given) else _command(given)


def _runs(given: Sequence[str]) -> bool:
    """Whether it is a command that runs something."""
    return _command(given) in RUNNING


def _command(given: Sequence[str]) -> str:
    """The command that is given: its whole name."""
    words = [word for word in given if not word.startswith("-")]
    paths = (path.split() for path, _ in commands_of(whole(), "fedroam"))
    return next((" ".join(path) for path in paths if path[1:] == words[: len(path) - 1]), "fedroam")


def _complain(message: str, code: int, debugging: bool) -> int:
    if debugging:
        traceback.print_exc()
    tell(f"error: {one_line(message)}")
    return code


def _usage(error: UsageError, given: Sequence[str]) -> str:
    """The option parser's complaint, with the nearest known option where one is misspelt, and what was found."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "fedroam"
    name = getattr(error, "option_name", None)
    if name and context and type(error).__name__ == "NoSuchOption":
        known = [opt for parameter in context.command.params for opt in parameter.opts if opt.startswith("-")]
        return str(unknown(f"option of {path}", name, [*known, "--help"]))
    names = getattr(getattr(error, "param", None), "opts", ())
    # The last of an option that is given twice is the one that counts.
    for word, following in reversed([*itertools.pairwise([*given, ""])]):
        option, equals, value = word.partition("=")
        if option in names and option.startswith("-") and error.message:
            found = value if equals else following
            return f"{path}: {option} {found!r}: {error.message} (see {path} --help)"
    return f"{path}: {error.format_message()} (see {path} --help)"
