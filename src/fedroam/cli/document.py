"""The command reference, made from the commands themselves."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


def reference() -> str:
    """Every command with its arguments and options, as Markdown."""
    from fedroam.cli.entry import whole

    root = whole()
    lines = [
        "# Commands",
        "",
        "Exit codes: 0 done, 1 it failed, 2 what was given is wrong (one line on stderr), 130 stopped by "
        "Ctrl-C.",
        "",
        *_options(root),
    ]
    for path, command in commands_of(root, "fedroam"):
        lines += ["", f"## {path}", "", f"    {_usage(path, command)}", "", *_paragraphs(command.help or "")]
        lines += _options(command)
    return "\n".join(lines).rstrip() + "\n"


def commands_of(group: Any, path: str) -> list[tuple[str, Any]]:
    """Every command below a group, with its full name; groups themselves only lead to their commands."""
    found = []
    for name, command in group.commands.items():
        full = f"{path} {name}"
        found += commands_of(command, full) if isinstance(command, TyperGroup) else [(full, command)]
    return found


def _usage(path: str, command: Any) -> str:
    words = [path]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = _name(parameter)
            words.append(name if parameter.required or name.startswith("[") else f"[{name}]")
    return " ".join([*words, "[OPTIONS]"])


def _name(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.split("\n\n") for line in (" ".join(part.split()), "")]


def _options(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        if parameter.param_type_name == "argument":
            title = f"`{_name(parameter)}`"
        else:
            names = ", ".join([*parameter.opts, *parameter.secondary_opts])
            title = f"`{names} {parameter.metavar}`" if parameter.metavar else f"`{names}`"
        text = " ".join((parameter.help or "").split())
        default = parameter.default
        if (
            isinstance(default, int | float | str)
            and not isinstance(default, bool)
            and not parameter.required
        ):
            text += f" Default: `{default}`."
        rows.append(f"- {title}: {text}")
    return rows
