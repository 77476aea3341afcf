"""Several files that are one source: those of a folder, and tables one after the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedroam.errors import InputError
from fedroam.traces.formats.recognise import recognise
from fedroam.traces.source import Source, existing, read_source
from fedroam.writing import checked_name

SHOWN = 5  # names that a note lists


def files_of(paths: Sequence[str | Path], format: str | None, separator: str) -> tuple[list[Path], list[str]]:
    """The files that are meant, folders replaced by what they hold, and notes on what was left out.

    Of a folder its own files are taken, by name, but for hidden ones; subfolders and, without a `format`, files of no
    known format are left out. So are files that could be CSV but are not called so, beside those of another format.
    Raises InputError where a path is missing, and where nothing is left of a folder.
    """
    files: list[Path] = []
    left: list[str] = []
    for path in map(checked_name, paths):
        if not path.is_dir():
            files.append(existing(path))
            continue
        inside = sorted(each for each in path.iterdir() if not each.name.startswith("."))
        left += [f"{each.name}/" for each in inside if each.is_dir()]
        known = {each: format or _format(each, separator) for each in inside if each.is_file()}
        sure = {name for each, name in known.items() if name and (name != "csv" or ".csv" in each.suffixes)}
        taken = [each for each, name in known.items() if name in (sure or {"csv"})]
        taken = [
            each for each in taken if known[each] != "csv" or not sure or format or ".csv" in each.suffixes
        ]
        left += [each.name for each in known if each not in taken]
        if not taken:
            told = f"; found {_listed(left)}" if left else ""
            raise InputError(f"{path}: a folder without any file of a known format{told}")
        files += taken
    return files, [f"left out: {_listed(left)}"] if left else []


def _format(file: Path, separator: str) -> str | None:
    try:
        return recognise(file, separator)
    except InputError:
        return None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def stems(paths: Sequence[Path], ending: str) -> list[str]:
    """The names of files without their ending (a pattern) and .gz, which name devices.

    Raises InputError where two are the same.
    """
    found = [re.sub(rf"({ending})?(\.gz)?$", "", path.name, flags=re.IGNORECASE) for path in paths]
    again = [stem for stem, count in Counter(found).items() if count > 1]
    if again:
        raise InputError(
            f"{' and '.join(str(p) for p, s in zip(paths, found, strict=True) if s == again[0])}: "
            f"two files of the name {again[0]!r}, wanted are different ones, since they name devices"
        )
    return found


def read_tables(files: Sequence[Path], format: str, columns: Mapping[str, str], separator: str) -> Source:
    """Several CSV or several Parquet files as one source: the rows of the first, then those of the next.

    A device is what the column of devices says; where no file has such a column, it is a file, called as the file is
    without its ending. Raises InputError, beside what `read_source` does, where files differ in the columns that they
    have.
    """
    sources = [read_source(file, columns, separator, nameless=True) for file in files]
    first = sources[0]
    for other in sources[1:]:
        if other.columns.keys() != first.columns.keys():
            told = " and ".join(f"{one.path.name} has {', '.join(one.columns)}" for one in (first, other))
            raise InputError(f"{other.path}: {told}; wanted are files with the same columns")
        for name, values in other.columns.items():
            if (values.dtype.kind in "iuf") != (first.columns[name].dtype.kind in "iuf"):
                raise InputError(
                    f"{other.path}, column {other.names[name]!r}: numbers in one of {other.path.name} and "
                    f"{first.path.name}, texts in the other"
                )
    joined = {name: np.concatenate([each.columns[name] for each in sources]) for name in first.columns}
    sizes = [len(each.columns["time"]) for each in sources]
    part = np.repeat(np.arange(len(files)), sizes)
    by = "as the column says"
    if "device" not in joined:
        joined["device"] = np.array(stems(files, r"\.csv|\.parquet|\.txt"), dtype=object)[part]
        by = "a file"
    return replace(
        first,
        columns=joined,
        names={**first.names, "device": first.names.get("device", "device")},
        format=format,
        files=tuple(files),
        part=part,
        notes=(f"{len(files)} files; a device is {by}",),
    )
