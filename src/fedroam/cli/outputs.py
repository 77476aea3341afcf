"""Where commands may write a file that the user named: not over what they read, and not over the files of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedroam.errors import InputError
from fedroam.writing import checked_name

# What runs and sweeps write themselves; a table or a figure that a user keeps beside them is none of it.
_FOLDERS = ("checkpoints", "movement", "unfinished")
_ENDINGS = (".json", ".jsonl", ".parquet", ".safetensors", ".sqlite", ".toml")


def check_spares(option: str, target: str | Path, inputs: Iterable[str | Path] = ()) -> None:
    """Raise InputError where a file that is to be written would take the place of one of `inputs`, or of what a run or
    a sweep has written in its folder. Of an input that is a folder, the files in it count."""
    path = checked_name(target, option).resolve()
    for each in inputs:
        read = checked_name(each).resolve()
        if path == read or (read in path.parents and path.exists()) or _same(path, read):
            raise InputError(f"{option} {target}: is read by this command; allowed is another file")
    owner = _owner(path)
    if owner is not None:
        raise InputError(
            f"{option} {target}: belongs to the run or sweep in {owner}; allowed is another file"
        )


def _same(path: Path, other: Path) -> bool:
    """Whether both are there and the same file, if under two names."""
    return path.exists() and other.exists() and path.samefile(other)


def _owner(path: Path) -> Path | None:
    """The folder of the run or sweep whose own file a path is, or would be."""
    for folder in path.parents:
        if (folder / "run.json").is_file() or (folder / "sweep.json").is_file():
            first = path.relative_to(folder).parts[0]
            own = first in _FOLDERS or first.startswith(".") or path.suffix.lower() in _ENDINGS
            return folder if own else None
    return None
