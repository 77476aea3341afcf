"""`fedroam export` and `fedroam predict`: a run's models in other hands, and what they say of new rows."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedroam.cli import options
from fedroam.cli.console import note, say, tell, writing
from fedroam.cli.outputs import check_spares
from fedroam.errors import InputError

if TYPE_CHECKING:
    from fedroam.recording import Run

Import = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Import the module of yours that the run's torch_module names (may be repeated).",
    ),
]


def export(
    folder: Annotated[str, options.operand(metavar="RUN", help="The folder of one run.")],
    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            metavar="N|global|mean",
            help="Whose model: a client's, the global one, or the mean of all. (default: the one that all share)",
        ),
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help="safetensors, state_dict, onnx or torchscript.")
    ] = "safetensors",
    out: Annotated[
        str | None,
        options.place("--out", metavar="DIR", help="A folder for it. (default: NAME-seed-S-WHOSE-FORMAT)"),
    ] = None,
    use: options.Use = None,
    imports: Import = None,
) -> None:
    """Export a model of a finished run, with what is needed to use it: preprocessing.json and model.json beside it.

    The model maps float32 samples [n, *input_shape], images as [n, channels, height, width], to logits [n, classes].

    Nothing of the folder is executed: parts of your own are loaded by --use, modules by --import.
    """
    from fedroam.handover import FORMATS, export_model, final_model
    from fedroam.recording import open_run, runs_below

    if to not in FORMATS:
        raise InputError(f"--to {to!r}: allowed are {', '.join(FORMATS)}")
    _load(use or (), imports or ())
    found = runs_below(folder)
    if len(found) != 1:
        raise InputError(f"{folder}: holds {len(found)} runs, allowed is one, such as {found[0]}")
    run = open_run(found[0])
    number = None if client is None or not client.isdecimal() else int(client)
    which = client if number is None else None
    model = final_model(run, which, number)
    for line in model.notes:
        note(line)
    home = Path(out) if out is not None else Path(_name(run, model.which if number is None else client, to))
    with writing(home):
        path = export_model(model, to, home)
    if model.accuracy is not None:
        say(f"accuracy that the run recorded: {model.accuracy:.4f}")
    beside = sorted(other.name for other in path.parent.iterdir() if other != path)
    say(f"model: {path} ({path.stat().st_size} bytes), with {', '.join(beside)}")


def predict(
    folder: Annotated[str, options.operand(metavar="MODEL", help="A folder that `fedroam export` wrote.")],
    file: Annotated[
        str,
        options.operand(metavar="FILE", help="New rows: CSV with a header line, or samples as .npy."),
    ],
    out: Annotated[
        str | None, options.place("--out", metavar="FILE.csv", help="Write here instead of printing.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column of classes, to tell the accuracy. (default: as in training, if there)",
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(
            metavar="CHARACTER",
            help="What stands between cells of a CSV file. (default: as in training)",
        ),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Give the probability of every class.")
    ] = False,
    use: options.Use = None,
    imports: Import = None,
) -> None:
    """Predict the classes of new rows by an exported model (safetensors or onnx): CSV of row, class, probability.

    Values are given as in the original files; the model's preprocessing is applied. Reading a model executes nothing.
    """
    from fedroam.handover import predict as predictions
    from fedroam.recording import write_named_csv

    if out is not None:
        check_spares("--out", out, [folder, file, *(use or ())])
    _load(use or (), imports or ())
    found = predictions(folder, file, label, separator)
    table = found.table(all_classes=probabilities)
    if out is not None:
        with writing(out):
            write_named_csv(Path(out), table)
        say(f"predictions: {out} ({len(table)} rows)")
    else:
        say(table.to_csv(index=False).rstrip("\n"))
    for line in found.notes:
        tell(f"note: {line}")
    if found.correct is not None:
        tell(f"accuracy: {found.correct.mean():.4f} ({int(found.correct.sum())} of {len(table)} rows)")


def _load(use: Sequence[str], imports: Sequence[str]) -> None:
    """Load the user's files and modules; the present folder counts among the places of modules."""
    from fedroam.components import use as load

    for file in use:
        load(file)
    for name in imports:
        sys.path.insert(0, str(Path.cwd()))
        try:
            importlib.import_module(name)
        except Exception as error:
            raise InputError(f"--import {name}: {type(error).__name__}: {error}") from None
        finally:
            sys.path.remove(str(Path.cwd()))


def _name(run: Run, whose: str | None, to: str) -> str:
    """The folder of a model where none is named."""
    who = f"client-{whose}" if whose is not None and whose.isdecimal() else str(whose)
    variant = run.status["variant"]
    words = [run.status["name"], *([variant] if variant else []), f"seed-{run.status['seed']}", who, to]
    return "-".join(str(word) for word in words)
