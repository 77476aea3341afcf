"""The files of a run folder: each is written aside and renamed, and read back with its damage told."""

from __future__ import annotations

import contextlib
import copy
import errno
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError
from safetensors.numpy import save_file

from fedroam import writing
from fedroam.errors import InputError
from fedroam.facts import json_object, own_text
from fedroam.recording.columns import column_of
from fedroam.writing import write_aside, write_named

if TYPE_CHECKING:
    import pandas as pd

# Rows of a table, by the names of its columns, each with a value a row; numbers, truth values or text.
Columns: TypeAlias = "pd.DataFrame | Mapping[str, np.ndarray]"
LARGE = 2**20  # bytes of a table that threads read sooner; for a smaller one they cost more than they save
# Bytes of arrays up to which their file is made in memory and written in one go. Without a second copy in memory there
# is a file of safetensors' own making, put in the place of ours and read for its sum: ten times the work.
SHORT = 2**22
# Bytes of a table that compressed takes three times as long, to write and to read, for a tenth less.
SMALL = 2**16


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

    def listed(self) -> dict[str, Any]:
        """As a manifest lists them."""
        return {"bytes": self.size, "sha256": self.sha256}


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
    writing.write_bytes(path, data)
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


def write_summed(path: Path, facts: Mapping[str, Any]) -> FileFacts:
    """Write a JSON file with a SHA-256 over everything else that it says, which is not nothing. Returns what a manifest
    says of it."""
    text = json_text({name: value for name, value in facts.items() if name != "sha256"})
    end = "\n}\n"
    own = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return write_text(path, f'{text.removesuffix(end)},\n  "sha256": "{own}"{end}')


def check_summed(facts: Mapping[str, Any], path: Path) -> None:
    """Raise InputError where a file of `write_summed` says something else than its sum is of.

    Only what earlier versions wrote has no sum, and that has no manifest (`files`) either.
    """
    whole = {name: value for name, value in facts.items() if name != "sha256"}
    if ("sha256" in facts or "files" in facts) and facts.get("sha256") != _sum(whole):
        raise InputError(f"{path}: damaged: its check sum does not match what it says")


def _sum(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_text(facts).encode("utf-8")).hexdigest()


def manifest_of(facts: Mapping[str, Any]) -> dict[str, FileFacts]:
    """Size and SHA-256 of each file that a file of `write_summed` lists; empty where it has no manifest."""
    return {name: FileFacts(one["bytes"], one["sha256"]) for name, one in facts.get("files", {}).items()}


def arrow(rows: Columns) -> pa.Table:
    """Rows as they are written, where what is not a number is missing. They stay what they are when the arrays are
    changed afterwards."""
    return pa.table(
        {
            name: column_of(values) if isinstance(values, np.ndarray) else pa.array(values)
            for name, values in rows.items()
        }
    )


def kept(rows: Columns) -> Columns:
    """The same rows, which stay what they are when the arrays are changed afterwards."""
    if not isinstance(rows, Mapping):
        return rows.copy()
    return {
        name: values.copy() if isinstance(values, np.ndarray) else copy.copy(values)
        for name, values in rows.items()
    }


def gathered(rows: Sequence[Columns]) -> pa.Table:
    """`joined` of what `arrow` makes of each. Numbers of many rounds become one column at once: to make one of each
    round takes many times as long."""
    given = [each for each in rows if isinstance(each, Mapping)]
    names = {tuple(each) for each in given}
    if len(rows) == 1 or len(given) < len(rows) or len(names) > 1:
        return joined([arrow(each) for each in rows])
    whole = {}
    for name in names.pop():
        columns = [each[name] for each in given]
        plain = all(type(each) is np.ndarray and each.ndim == 1 for each in columns)
        if not plain or len({each.dtype for each in columns}) > 1 or columns[0].dtype.kind not in "biuf":
            return joined([arrow(each) for each in rows])
        whole[name] = np.concatenate(columns)
    return arrow(whole)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows one after the other. Where columns are not alike in all of them, pandas says of what type they become."""
    if len(tables) == 1:
        return tables[0]
    if any(table.schema != tables[0].schema for table in tables):
        import pandas as pd

        return arrow(pd.concat([table.to_pandas() for table in tables], ignore_index=True))
    whole = pa.concat_tables(tables)
    # Numbers lie in one piece, as those of one table do; for text that would be a copy of all letters.
    together = {
        name: column if pa.types.is_large_string(column.type) else column.combine_chunks()
        for name, column in zip(whole.column_names, whole.columns, strict=True)
    }
    return pa.table(together)


def write_table(path: Path, table: Columns | pa.Table) -> FileFacts:
    """Write a Parquet file with a check sum for every page aside, then rename. Returns what a manifest says of it."""
    # `Table.from_pandas` makes the same columns, and adds a description for pandas that is as large as a small table.
    buffer, rows = io.BytesIO(), table if isinstance(table, pa.Table) else arrow(table)
    compression = "none" if rows.nbytes <= SMALL or _size(rows) <= SMALL else "zstd"
    pq.write_table(rows, buffer, compression=compression, write_page_checksum=True)
    return write_bytes(path, buffer.getvalue())


def _size(rows: pa.Table) -> int:
    """Bytes that the values of a table take, however many pieces it lies in, and whoever made them: `nbytes` counts
    more where marks of what is missing are there although nothing is, and for text in several pieces."""
    total = 0
    for column in rows.columns:
        buffers = [buffer for chunk in column.chunks for buffer in chunk.buffers()[1:]]
        total += sum(buffer.size for buffer in buffers if buffer is not None)
        if column.null_count:  # a bit for each value
            total += -(-len(column) // 8)
        if pa.types.is_large_string(column.type):  # one end of a text more than there are texts
            total -= 8 * column.num_chunks
    return total


def save_tensors(tensors: Mapping[str, np.ndarray], path: Path, metadata: dict[str, str]) -> None:
    """Write a safetensors file. Raises OSError where that cannot be, as whatever writes does."""
    try:
        save_file(dict(tensors), path, metadata=metadata)
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number)) from None


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table as CSV aside, then rename."""
    write_aside(path, lambda aside: table.to_csv(aside, index=False))


def write_named_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table as CSV to the file that the user named (see `write_named`), compressed as its name ends."""
    ends = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}
    how: Any = {"method": ends.get(path.suffix.lower())}
    if how["method"] == "zip":
        how["archive_name"] = path.stem
    write_named(path, lambda aside: table.to_csv(aside, index=False, compression=how))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; InputError where it is missing or damaged."""
    return read_facts(path, json_object)


def read_facts(path: Path, parse: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """What a text file of a run folder says; InputError where it is missing or damaged."""
    try:
        return parse(own_text(path))
    except FileNotFoundError:
        raise InputError(f"{path}: missing; not a run folder of fedroam, or a damaged one") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged: {error}") from None


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
    with _damage_of(path):
        table: pd.DataFrame = arrow_of(data, path).to_pandas(use_threads=len(data) > LARGE)
        return table


def arrow_of(data: bytes, path: Path) -> pa.Table:
    """The same, as it lies in the file."""
    with _damage_of(path):
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        return file.read(use_threads=len(data) > LARGE)


@contextlib.contextmanager
def _damage_of(path: Path) -> Iterator[None]:
    """Whatever is raised here becomes an InputError that names the file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # pyarrow raises several kinds for damaged files
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: damaged: {first}") from None
