"""Writing so that a kill at any moment leaves either the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from fedroam.errors import InputError


def write_aside(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, flush it to the disk, then rename it to `path`."""
    aside = path.with_name(path.name + ".tmp")
    write(aside)
    with aside.open("rb+") as handle:
        os.fsync(handle.fileno())
    aside.replace(path)


def settle(folder: Path) -> None:
    """Flush to the disk which files a folder holds, so that a power failure undoes no rename in it.

    To be called before something is deleted, or vouched for, because a file has been renamed. Does nothing where
    there is no such folder, or where the system cannot flush folders (Windows, some network file systems).
    """
    if sys.platform == "win32" or not folder.is_dir():
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write a text file aside, then rename."""
    write_aside(path, lambda aside: aside.write_bytes(text.encode("utf-8")))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file aside, then rename."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a Parquet file aside, then rename."""
    write_aside(path, lambda aside: table.to_parquet(aside, index=False, compression="zstd"))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; InputError where it is missing or damaged."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: missing; not a run folder of fedroam, or a damaged one") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: damaged: found {type(value).__name__}, expected a JSON object")
    return value


def read_table(path: Path) -> pd.DataFrame:
    """Read a Parquet file; InputError where it is missing or damaged."""
    try:
        return pd.read_parquet(path)
    except FileNotFoundError:
        raise InputError(f"{path}: missing") from None
    except Exception as error:  # pyarrow raises several kinds for damaged files
        raise InputError(f"{path}: damaged: {str(error).splitlines()[0]}") from None
