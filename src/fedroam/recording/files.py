"""Writing so that a kill at any moment leaves either the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedroam.errors import InputError


@dataclass(frozen=True)
class FileFacts:
    """What a manifest says of a file: its size in bytes and its SHA-256 (hex)."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> FileFacts:
        """The facts of a file that holds `data`."""
        return cls(len(data), hashlib.sha256(data).hexdigest())

    @classmethod
    def on_disk(cls, path: Path) -> FileFacts:
        """The facts of a file as it lies there now."""
        with path.open("rb") as file:
            return cls(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def write_aside(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, flush it to the disk, then rename it to `path`.

    The file aside has a name that nobody can foresee and is made by nobody else, so that nothing that was planted in
    the folder is written through; it ends in `.tmp`, and is deleted where writing fails. A link at `path` is
    refused: InputError.
    """
    if path.is_symlink():
        raise InputError(f"{path}: is a link; fedroam writes files of its own only: delete the link")
    aside = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
    os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        write(aside)
        with aside.open("rb+") as handle:
            os.fsync(handle.fileno())
        aside.replace(path)
    except Exception:
        aside.unlink(missing_ok=True)  # a full disk leaves neither half a file nor the place it takes
        raise


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


def write_bytes(path: Path, data: bytes) -> FileFacts:
    """Write a file aside, then rename. Returns what a manifest says of it."""
    write_aside(path, lambda aside: aside.write_bytes(data))
    return FileFacts.of(data)


def write_text(path: Path, text: str) -> FileFacts:
    """Write a text file aside, then rename. Returns what a manifest says of it."""
    return write_bytes(path, text.encode("utf-8"))


def json_text(value: Any) -> str:
    """The one way in which JSON is written here: equal values give equal bytes."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> FileFacts:
    """Write a JSON file aside, then rename. Returns what a manifest says of it."""
    return write_text(path, json_text(value))


def write_table(path: Path, table: pd.DataFrame) -> FileFacts:
    """Write a Parquet file with a check sum for every page aside, then rename. Returns what a manifest says of it."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False, compression="zstd", write_page_checksum=True)
    return write_bytes(path, buffer.getvalue())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; InputError where it is missing or damaged."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: missing; not a run folder of fedroam, or a damaged one") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: damaged: found {type(value).__name__}, expected a JSON object")
    return value


def read_table(path: Path) -> pd.DataFrame:
    """Read a Parquet file, its pages against their check sums; InputError where it is missing or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: missing") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    return table_of(data, path)


def table_of(data: bytes, path: Path) -> pd.DataFrame:
    """The table that the bytes of a Parquet file hold; `path` is named in the InputError where they are damaged."""
    try:
        return pd.read_parquet(io.BytesIO(data), page_checksum_verification=True)
    except Exception as error:  # pyarrow raises several kinds for damaged files
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: damaged: {first}") from None
