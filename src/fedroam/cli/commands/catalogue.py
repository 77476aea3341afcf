"""`fedroam init`, `list` and `show`: what there is to choose from, told by the code itself."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedroam.cli import options
from fedroam.cli.console import out, say
from fedroam.errors import InputError, unknown
from fedroam.writing import checked_name, write_text

if TYPE_CHECKING:
    from fedroam.cli.known_parts import KnownClass, KnownExperiment, KnownFamily


def init(
    file: Annotated[str, options.operand(metavar="[FILE]", help="The file to write.")] = "experiment.toml",
) -> None:
    """Write a commented starter file with every setting."""
    from fedroam.cli.starter import starter

    path = checked_name(file)
    name = path.stem if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", path.stem) else "experiment"
    text = starter(name)
    try:
        path.open("x").close()  # the name is ours: what appears there meanwhile is not overwritten
        try:
            write_text(path, text)
        except OSError:
            path.unlink()
            raise
    except FileExistsError:
        raise InputError(f"{file}: exists already and is left as it is; choose another name") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror or error})") from None
    say(f"written: {file}")
    say(f"run it with: fedroam run {shlex.quote(str(file))}")


def list_parts(
    family: Annotated[
        str | None, typer.Argument(metavar="[FAMILY]", help="Only this family, e.g. mobility.")
    ] = None,
    use: options.Use = None,
) -> None:
    """List every kind of part, family by family, and the named experiments."""
    from fedroam.cli.known_parts import known_parts

    known = known_parts(use or [])
    if family is not None and family not in (*known.families, "experiments"):
        raise unknown("family of parts", family, [*known.families, "experiments"])
    for name, about in known.families.items():
        if family not in (None, name):
            continue
        say(f"{name}: {about.about} (default: {about.default})")
        _listing([(kind, cls.paragraphs[0]) for kind, cls in about.kinds.items()])
    if family in (None, "experiments"):
        say("experiments: fedroam run NAME")
        _listing([(name, one.headline) for name, one in known.experiments.items()])


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A kind, FAMILY.KIND, a family, a named experiment, or `experiment` for the top-level settings.",
        ),
    ],
    use: options.Use = None,
) -> None:
    """Explain a part: what it does, its settings with type, default, unit and limits, and its source."""
    from fedroam.cli.known_parts import known_parts

    known = known_parts(use or [])
    families = known.families
    family, dot, kind = name.partition(".")
    if dot and family in families:
        if kind not in families[family].kinds:
            raise unknown(f"{family} kind", kind, families[family].kinds)
        _show_class(f"{family}.{kind}", families[family].kinds[kind])
        return
    matches = 0
    if name == "experiment":
        _show_class("experiment (top-level settings of an experiment file)", known.experiment)
        matches += 1
    if name in families:
        _show_family(name, families[name])
        matches += 1
    for family, about in families.items():
        if name in about.kinds:
            _show_class(f"{family}.{name}", about.kinds[name])
            matches += 1
    if name in known.experiments:
        _show_experiment(name, known.experiments[name])
        matches += 1
    if not matches:
        every = {kind for about in families.values() for kind in about.kinds}
        raise unknown("name", name, every | set(families) | set(known.experiments) | {"experiment"})


def _listing(rows: list[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    out().print(table)


def _show_family(name: str, about: KnownFamily) -> None:
    say(f"{name}: {about.about}")
    say(f"  default kind: {about.default}; methods of a part: {', '.join(about.methods)}")
    _listing([(f"{name}.{kind}", cls.paragraphs[0]) for kind, cls in about.kinds.items()])


def _show_class(title: str, cls: KnownClass) -> None:
    say(title)
    for paragraph in cls.paragraphs:
        out().print(f"  {escape(paragraph)}")
    if cls.source:
        out().print(f"  Source: {escape(cls.source)}")
    if not cls.settings:
        say("  (no settings)")
        return
    table = Table(box=None, padding=(0, 1, 0, 1), header_style="bold")
    for heading in ("setting", "default", "unit", "allowed", "meaning"):
        table.add_column(heading, overflow="fold")
    for cells in cls.settings:
        table.add_row(*(escape(cell) for cell in cells))
    out().print(table)


def _show_experiment(name: str, one: KnownExperiment) -> None:
    say(f"{name}: a named experiment of {len(one.folders)} run(s); fedroam run {name}")
    for folder in one.folders:
        say(f"  {folder}")
    say()
    say(one.text)
