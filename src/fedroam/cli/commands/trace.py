"""`fedroam trace`: real movement, from its files to a trace, and what is in one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedroam.cli import options
from fedroam.cli.console import cell, note, out, say, writing
from fedroam.cli.outputs import check_spares
from fedroam.errors import InputError
from fedroam.writing import checked_name

if TYPE_CHECKING:
    from fedroam.traces import Trace

app = typer.Typer(cls=options.Commands, help="Traces of real movement: import them, and see what is in one.")


@app.command("import")
def import_file(
    sources: Annotated[
        list[str],
        options.operand(
            metavar="SOURCE...",
            help="Check-ins, fixes or simulated movement: one file, or several of GPX, CSV or Parquet, or a folder of "
            "them; gzip or not.",
        ),
    ],
    target: Annotated[str, options.operand(metavar="TARGET", help="The trace to write: .parquet.")],
    format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="csv, parquet, sumo (FCD XML), ns2, bonnmotion, one (external movement of The ONE) or gpx; auto tells "
            "by what stands in the file, and says which it took.",
        ),
    ] = "auto",
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME=COLUMN",
            help="What the file calls device, time, lat, lon, x, y or venue, where it is not one of the usual "
            "names (may be repeated).",
        ),
    ] = None,
    separator: Annotated[
        str, typer.Option(metavar="CHARACTER", help="What stands between cells of a CSV file.")
    ] = ",",
    order: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            help="What the file promises, checked: times never go backwards for a device (device), or in the whole "
            "file (file); any takes rows as they come.",
        ),
    ] = "device",
    timezone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE",
            help="The zone of times without one, e.g. America/New_York; 'mixed' admits different offsets.",
        ),
    ] = None,
    unit: Annotated[
        float, typer.Option(metavar="SIZE", help="What 1 means in the columns of places: degrees, or metres.")
    ] = 1.0,
    box: Annotated[
        str | None,
        typer.Option(
            metavar="SOUTH,NORTH,WEST,EAST",
            help="Drop places outside of these degrees; WEST > EAST is a box across longitude 180.",
        ),
    ] = None,
    max_speed: Annotated[
        float, typer.Option(metavar="SPEED", help="Drop what makes a device faster than this, m/s.")
    ] = math.inf,
    projection: Annotated[
        str | None,
        typer.Option(
            metavar="CRS",
            help="A projection to metres that PROJ knows, e.g. EPSG:32618. (default: azimuthal equidistant around "
            "the median place)",
        ),
    ] = None,
    places: Annotated[
        str | None,
        typer.Option(
            metavar="degrees|metres",
            help="SUMO: what x and y are, where the file does not tell (degrees with --fcd-output.geo).",
        ),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="ns-2, BonnMotion: when the simulation ends. (default: ns-2's stop, or the last event or arrival)",
        ),
    ] = None,
    with_z: Annotated[
        bool, typer.Option("--with-z", help="BonnMotion: waypoints are t x y z, also without a line #3D.")
    ] = False,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="file|track",
            help="GPX: what a device is. (default: a file if there are several, else a track)",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite TARGET if it exists.")] = False,
) -> None:
    """Make a trace of metres and seconds from check-ins (user, time, lat, lon, venue), GPS fixes (id, time, lat, lon),
    metric fixes (id, t, x, y), or movement from SUMO, ns-2, BonnMotion, The ONE or GPX.

    Times are ISO 8601 with a zone, or seconds. Faulty fixes are dropped and counted.
    """
    from fedroam.analysis.trace_facts import doubts, measure_trace
    from fedroam.data.sources.tables import SEPARATORS, is_separator
    from fedroam.traces import FORMATS, import_trace, write_trace

    home = checked_name(target)
    if home.suffix != ".parquet":
        raise InputError(f"{target}: a trace is one Parquet file, its name must end in .parquet")
    if home.exists() and not replace:
        raise InputError(f"{target}: exists already; --replace overwrites it")
    check_spares("TARGET", target, (each for each in sources if checked_name(each).is_file()))
    if not is_separator(separator):
        raise InputError(f"--separator {separator!r}: {SEPARATORS}")
    if not (math.isfinite(unit) and unit > 0):
        raise InputError(f"--unit {unit:g}: allowed is a number above 0")
    trace = import_trace(
        sources,
        format=format,
        columns=_columns(columns or []),
        separator=separator,
        order=order,
        timezone=timezone,
        unit=unit,
        box=_box(box),
        max_speed=max_speed,
        projection=projection,
        places=places,
        until=until,
        with_z=with_z,
        devices=devices,
    )
    with writing(home):
        write_trace(trace, home)
    rows = trace.facts["rows"]
    read = f"{rows:,} row{'s' * (rows != 1)}"
    if "source_format" in trace.facts:
        read = FORMATS[trace.facts["source_format"]][0]
    fixes = f"{trace.fixes:,} fix{'es' * (trace.fixes != 1)}"
    say(f"{fixes} of {trace.devices:,} device{'s' * (trace.devices != 1)} from {read}")
    for line in _remarks(trace):
        say(line)
    for line in doubts(trace, measure_trace(trace)):
        note(line)
    say(f"trace: {home}")


@app.command("info")
def info(
    file: Annotated[str, options.operand(metavar="FILE", help="A trace made by `fedroam trace import`.")],
    folder: Annotated[str, options.place("--out", metavar="DIR", help="Where the figures go.")] = ".",
) -> None:
    """Tell what is in a trace: devices, fixes, span, gaps, speeds, devices per hour, as a table and as figures.

    Writes trace-devices, trace-places, trace-gaps and trace-speeds as .png and .svg.
    """
    from rich.table import Table

    from fedroam.analysis.figures.drawing import save
    from fedroam.analysis.figures.trace import trace_figures
    from fedroam.analysis.trace_facts import describe_trace, doubts, measure_trace
    from fedroam.traces import read_trace

    trace = read_trace(file)
    measured = measure_trace(trace)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for what, value in describe_trace(trace, measured):
        table.add_row(cell(what), cell(value))
    out().print(table)
    for line in _remarks(trace):
        say(line)
    for line in doubts(trace, measured):
        note(line)
    home = Path(folder)
    with writing(home):
        paths = [path for name, figure in trace_figures(trace, measured) for path in save(figure, home, name)]
    say(f"figures: {', '.join(str(path) for path in paths if path.suffix == '.png')}")


def _remarks(trace: Trace) -> list[str]:
    """What its reader noticed, and what was dropped."""
    dropped = [f"dropped: {count:,} {reason}" for reason, count in trace.facts["dropped"].items()]
    return [*trace.facts.get("notes", ()), *dropped]


def _columns(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise InputError(f"--column {text}: allowed is NAME=COLUMN, e.g. device=veh")
        found[name] = column
    return found


def _box(text: str | None) -> tuple[float, float, float, float] | None:
    if text is None:
        return None
    wanted = "allowed are four numbers SOUTH,NORTH,WEST,EAST with SOUTH < NORTH and WEST other than EAST"
    try:
        south, north, west, east = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--box {text}: {wanted}") from None
    if not (-90 <= south < north <= 90 and -180 <= west <= 180 and -180 <= east <= 180 and west != east):
        raise InputError(f"--box {text}: {wanted}, within 90 and 180 degrees")
    return south, north, west, east
