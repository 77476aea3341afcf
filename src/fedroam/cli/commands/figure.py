"""`fedroam figure`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedroam.cli import options
from fedroam.cli.console import note, say, writing
from fedroam.errors import InputError, unknown

GANTT = "gantt"


def figure(
    folders: options.Runs,
    what: Annotated[
        str,
        typer.Option(
            metavar="COLUMN|gantt",
            help="What is drawn: a column of rounds.parquet, such as loss or energy; or gantt: who of one run's first "
            "clients is at what when (under a clock of seconds).",
        ),
    ] = "accuracy",
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="A line for each value of this setting; runs that differ otherwise are averaged within each seed (may "
            "be repeated; 'variant' for named variants). (default: a line for each variant)",
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="COLUMN|KEY",
            help="What it is drawn over: round, time (simulated seconds), bytes, energy, battery_drawn or another "
            "column, or a setting that varies, then with the values at the end of runs.",
        ),
    ] = "round",
    band: Annotated[
        str,
        typer.Option(
            metavar="error|interval|none",
            help="Bands and bars: standard error of the mean over seeds, its 95 % confidence interval, or none.",
        ),
    ] = "error",
    rounds: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:LAST", help="The rounds of a Gantt chart. (default: the first 12, or fewer)"
        ),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            metavar="column|text|MM",
            help="Width: of a column, of the text, or in mm. (default: column on paper)",
        ),
    ] = None,
    height: Annotated[
        float | None, typer.Option(metavar="MM", help="Height in mm. (default: it follows the width)")
    ] = None,
    publisher: Annotated[
        str,
        typer.Option(
            metavar="ieee|acm", help="Whose columns: IEEE 88.9 and 181.9 mm, ACM 84.3 and 177.1 mm."
        ),
    ] = "ieee",
    style: Annotated[
        str, typer.Option(metavar="paper|screen", help="For print (8 pt, serif, black) or for the screen.")
    ] = "paper",
    format: Annotated[
        str | None,
        typer.Option(metavar="pdf|svg|png", help="Format of the file. (default: by --out, else pdf)"),
    ] = None,
    out: Annotated[
        str | None, options.place(metavar="FILE", help="The file to write. (default: COLUMN.FORMAT)")
    ] = None,
) -> None:
    """Draw one figure of runs, fit for a paper: mean over seeds, with bands that are named.

    Fonts are embedded as TrueType (Type 42) in PDF, and are outlines in SVG. Lines differ in dashes and markers, not in
    colour alone.
    """
    from fedroam.analysis.figures.clock import plot_gantt
    from fedroam.analysis.figures.plotting import averaged_over, plot
    from fedroam.analysis.figures.publishing import FORMATS, save_figure
    from fedroam.analysis.variants import variants
    from fedroam.cli.commands.results import open_all

    if format is not None and format not in FORMATS:
        raise unknown("value of --format", format, FORMATS)
    ending = Path(out).suffix.removeprefix(".") if out is not None else format or "pdf"
    if format is not None and ending != format:
        raise InputError(f"--out {out}: ends in {ending!r}, --format is {format}; allowed is one of the two")
    target = Path(out) if out is not None else Path(f"{what}.{ending}")
    if ending not in FORMATS:
        raise InputError(f"--out {out}: allowed are names that end in .{', .'.join(FORMATS)}")
    runs = open_all(folders)
    if what == GANTT:
        if len(runs) != 1 or by or against != "round":
            raise InputError(
                f"--what gantt: is of one run, and knows no --by and no --against; found {len(runs)} runs"
            )
        axes = plot_gantt(
            runs[0],
            _rounds(rounds),
            look=style,
            width=width,
            height=height,
            publisher=publisher,
        )
    else:
        if rounds is not None:
            raise InputError(f"--rounds {rounds}: is of --what gantt only")
        axes = plot(
            runs,
            what,
            by=by or (),
            against=against,
            band=band,
            style=style,
            width=width,
            height=height,
            publisher=publisher,
        )
    with writing(target):
        save_figure(axes, target, style)
    for variant in variants(runs):
        for line in variant.notes:
            note(line)
    pooled = () if what == GANTT else averaged_over(runs, by or (), against)
    if pooled:
        note(f"averaged within each seed over {', '.join(pooled)}")
    drawn = axes.get_figure(root=True)
    assert drawn is not None
    across, up = (25.4 * inches for inches in drawn.get_size_inches())
    say(f"figure: {target} ({across:.1f} mm x {up:.1f} mm)")


def _rounds(given: str | None) -> tuple[int, int] | None:
    """`3:8` as numbers."""
    if given is None:
        return None
    first, colon, last = given.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal()):
        raise InputError(f"--rounds {given}: allowed is FIRST:LAST, two whole numbers such as 1:12")
    return int(first), int(last)
