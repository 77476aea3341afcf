"""Where data sets are looked for: `data.root`, then FEDROAM_DATA, then the cache of downloaded data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from fedroam.errors import InputError
from fedroam.writing import checked_name

ENVIRONMENT = "FEDROAM_DATA"
T = TypeVar("T")


def cache_folder() -> Path:
    """The platform's cache folder for downloaded data (created by `fetch`, not here)."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("fedroam"))


def search_path(root: str | None) -> list[Path]:
    """The folders to look in, in order.

    Raises InputError where `root` or FEDROAM_DATA names something that is not a folder: a misspelt folder is
    never passed over in silence.
    """
    folders = []
    for setting, value in (("data.root", root), (ENVIRONMENT, os.environ.get(ENVIRONMENT))):
        if not value:
            continue
        folder = checked_name(Path(value).expanduser(), setting)
        if not folder.is_dir():
            raise InputError(f"{setting} = {value!r}: no such folder")
        folders.append(folder)
    return [*folders, cache_folder()]


def find(
    name: str,
    root: str | None,
    look: Callable[[Path, list[str]], T | None],
    wanted: str,
    *,
    aliases: Iterable[str] = (),
    system: Iterable[str] = (),
    by_hand: str = "",
) -> T:
    """The first thing that `look` finds in ROOT/NAME, ROOT/ALIAS or ROOT itself, root by root.

    `look(folder, remarks)` returns None where the folder does not hold the data set; what it appends to
    `remarks` is told if nothing is found anywhere. `wanted` says what to look for, `system` are folders of
    system packages to try last, and `by_hand` replaces the hint at `fedroam data fetch` for data that cannot
    be downloaded by a program.

    Raises InputError with both ways out: naming a folder, and fetching.
    """
    remarks: list[str] = []
    bases = search_path(root)
    folders = [base / below for base in bases for below in (name, *aliases, "")]
    for folder in [*folders, *map(Path, system)]:
        if folder.is_dir():
            found = look(folder, remarks)
            if found is not None:
                return found
    remark = f" ({remarks[0]})" if remarks else ""
    fetch = by_hand or f"download it with: fedroam data fetch {name}"
    raise InputError(
        f"data {name}: not found in {', '.join(map(str, bases))}{remark}; set {ENVIRONMENT} or data.root "
        f"to a folder that holds {name}/ with {wanted}, or {fetch}"
    )


def find_file(path: str, root: str | None, setting: str) -> Path:
    """A user's own file: as given, or below `data.root` or FEDROAM_DATA if it is a relative path."""
    given = checked_name(Path(path).expanduser(), setting)
    if given.is_file():
        return given
    if not given.is_absolute():
        for base in search_path(root):
            if (base / given).is_file():
                return base / given
    kind = "a folder, wanted is a file" if given.is_dir() else "no such file"
    places = "here, in data.root or" if setting.startswith("data.") else "here, or in"
    raise InputError(f"{setting} = {path!r}: {kind} (relative paths start {places} {ENVIRONMENT})")


def stamp(file: Path) -> tuple[str, int, int]:
    """A file as it is now (place, size, time of modification), by which what was read from it may be kept."""
    facts = file.stat()
    return str(file.resolve()), facts.st_size, facts.st_mtime_ns
