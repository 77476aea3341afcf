"""`fedroam init`, `list` and `show`: what there is to choose from, told by the code itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.markup import escape
from rich.table import Table

from fedroam.cli import options
from fedroam.cli.console import out, say
from fedroam.errors import InputError, unknown
from fedroam.writing import checked_name, write_aside


def init(
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="The file to write.")] = "experiment.toml",
) -> None:
    """Write a commented starter file with every setting."""
    from fedroam.cli.starter import starter

    path = checked_name(file)
    name = path.stem if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", path.stem) else "experiment"
    text = starter(name)
    try:
        path.open("x").close()  # the name is ours: what appears there meanwhile is not overwritten
        try:
            write_aside(path, lambda aside: aside.write_text(text, encoding="utf-8"))
        except OSError:
            path.unlink()
            raise
    except FileExistsError:
        raise InputError(f"{file}: exists already and is left as it is; choose another name") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror or error})") from None
    say(f"written: {file}")
    say(f"run it with: fedroam run {file}")


def list_parts(
    family: Annotated[
        str | None, typer.Argument(metavar="[FAMILY]", help="Only this family, e.g. mobility.")
    ] = None,
    use: options.Use = None,
) -> None:
    """List every kind of part, family by family, and the named experiments."""
    from fedroam.cli.describe import summary
    from fedroam.components import FAMILIES, kinds
    from fedroam.planning import named_experiments

    _load(use)
    if family is not None and family not in (*FAMILIES, "experiments"):
        raise unknown("family of parts", family, [*FAMILIES, "experiments"])
    for name, about in FAMILIES.items():
        if family not in (None, name):
            continue
        say(f"{name}: {about.about} (default: {about.default})")
        _listing([(kind, summary(cls)) for kind, cls in kinds(name).items()])
    if family in (None, "experiments"):
        say("experiments: fedroam run NAME")
        _listing([(name, _headline(path)) for name, path in named_experiments().items()])


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
    from fedroam.components import FAMILIES, kinds, lookup
    from fedroam.experiment import Experiment
    from fedroam.planning import named_experiments

    _load(use)
    family, dot, kind = name.partition(".")
    if dot and family in FAMILIES:
        _show_class(f"{family}.{kind}", lookup(family, kind))
        return
    experiments = named_experiments()
    matches = 0
    if name == "experiment":
        _show_class("experiment (top-level settings of an experiment file)", Experiment)
        matches += 1
    if name in FAMILIES:
        _show_family(name)
        matches += 1
    for family in FAMILIES:
        if name in kinds(family):
            _show_class(f"{family}.{name}", kinds(family)[name])
            matches += 1
    if name in experiments:
        _show_experiment(name, experiments[name])
        matches += 1
    if not matches:
        every = {kind for family in FAMILIES for kind in kinds(family)}
        raise unknown("name", name, every | set(FAMILIES) | set(experiments) | {"experiment"})


def _load(files: list[str] | None) -> None:
    from fedroam.components import use

    for file in files or []:
        use(file)


def _headline(path: Path) -> str:
    """The first sentence of the comment at the head of an experiment file."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    text = " ".join(lines)
    sentence = re.match(r".*?[.?!](?=\s|$)", text)
    return sentence.group() if sentence else text


def _listing(rows: list[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    out().print(table)


def _show_family(name: str) -> None:
    from fedroam.cli.describe import summary
    from fedroam.components import FAMILIES, kinds

    about = FAMILIES[name]
    say(f"{name}: {about.about}")
    say(f"  default kind: {about.default}; methods of a part: {', '.join(about.methods)}")
    _listing([(f"{name}.{kind}", summary(cls)) for kind, cls in kinds(name).items()])


def _show_class(title: str, cls: type[BaseModel]) -> None:
    from fedroam.cli.describe import details, fields_of, summary
    from fedroam.components import Part

    say(title)
    for paragraph in (summary(cls), *details(cls)):
        out().print(f"  {escape(paragraph)}")
    if issubclass(cls, Part) and cls.source:
        out().print(f"  Source: {escape(cls.source)}")
    facts = fields_of(cls)
    if not facts:
        say("  (no settings)")
        return
    table = Table(box=None, padding=(0, 1, 0, 1), header_style="bold")
    for heading in ("setting", "default", "unit", "allowed", "meaning"):
        table.add_column(heading, overflow="fold")
    for one in facts:
        cells = (one.name, one.shown_default, one.unit, one.allowed, one.about)
        table.add_row(*(escape(cell) for cell in cells))
    out().print(table)


def _show_experiment(name: str, path: Path) -> None:
    from fedroam.planning import plan

    resolved = plan(name)
    say(f"{name}: a named experiment of {len(resolved.runs)} run(s); fedroam run {name}")
    for run in resolved.runs:
        say(f"  {run.folder}")
    say()
    say(path.read_text(encoding="utf-8").rstrip())
