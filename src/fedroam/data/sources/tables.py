"""Strict reading of CSV tables: whatever is wrong is told with file, line and column."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from fedroam.errors import InputError, no_column, unknown
from fedroam.facts import no_text

# Half a gigabyte of nothing packs into half a megabyte: whoever skips blank lines must stop somewhere. No file that
# anybody wrote on purpose holds so many in a row.
BLANK_LINES = 1_000_000
# Characters of one line, which is held whole. BonnMotion keeps a node's whole way in one: this is about two million
# corners.
LONGEST_LINE = 1 << 26
SEPARATORS = "allowed is one character, e.g. , or ; or a tab"  # what `is_separator` takes, for messages
FEW_CLASSES = 50  # so many there may be, however few samples
_NUMBER = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII
)  # of other digits Arrow knows nothing
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")
LARGEST = 1e150  # of a number: its square is one, too, as a deviation or a distance needs


def read_header(path: Path, separator: str = ",", *, also: str = "") -> list[str]:
    """The names of the columns. Raises InputError for an empty file, an unnamed or a repeated column.

    also: what is allowed beside CSV, for the message about a file that is no text.
    """
    return _header(path, separator, also)[1]


def is_separator(text: str) -> bool:
    """Whether a text can stand between cells."""
    return len(text) == 1 and text not in '\r\n"'


def other_separator(header: Sequence[str]) -> str:
    """What stands between cells of a table that was read as one column; empty where there is no sign of it."""
    return next((mark for mark in ";\t|," if mark in header[0]), "") if len(header) == 1 else ""


def _header(path: Path, separator: str, also: str = "") -> tuple[int, list[str]]:
    """The header and the number of its last line."""
    for line, last, cells in _rows(path, separator, also=also):
        before: set[str] = set()
        for at, name in enumerate(cells):
            if not name:
                raise InputError(f"{path}, line {line}: column {at + 1} has no name")
            if name in before:
                raise InputError(f"{path}, line {line}: column {name!r} appears twice")
            before.add(name)
        return last, cells
    raise InputError(f"{path}: empty, wanted is a header line and rows")


def read_table(
    path: Path,
    numbers: Sequence[str],
    words: Sequence[str],
    separator: str = ",",
    *,
    empty: bool = False,
    advice: str = "",
) -> dict[str, np.ndarray]:
    """Columns of a CSV file with a header line, packed with gzip or not, UTF-8 with or without mark.

    `numbers` come as float64 [rows], all finite and `LARGEST` at most; `words` as arrays of text objects [rows], none
    empty; columns not named are not looked at, though every row must have as many cells as the header; empty: there may
    be no row; advice: what to do about a column of words among `numbers`, for the message.
    Raises InputError with file, line and column for a hole, for what is not a finite number, and for a ragged row.
    """
    line, header = _header(path, separator)
    known = frozenset(header)
    for name in (*numbers, *words):
        if name not in known:
            raise no_column(path, name, header)
    types = {**dict.fromkeys(numbers, pa.float64()), **dict.fromkeys(words, pa.string())}
    try:
        # Arrow's own stream and one thread: a Python file in the hands of Arrow's threads can abort the process
        # when the interpreter ends first.
        with pa.input_stream(str(path), compression="gzip" if _packed(path) else None) as file:
            table = arrow_csv.read_csv(
                file,
                read_options=arrow_csv.ReadOptions(column_names=header, skip_rows=line, use_threads=False),
                parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
                ),
            )
    except (pa.ArrowInvalid, OSError, EOFError, zlib.error) as error:
        raise _complaint(path, header, numbers, words, separator, str(error), advice) from None
    _check_quotes(path, separator)
    if not table.num_rows and not empty:
        raise InputError(f"{path}: a header but no rows")
    columns: dict[str, np.ndarray] = {}
    for name in numbers:
        columns[name] = table.column(name).to_numpy()
        if not _allowed(columns[name]).all():
            raise _complaint(path, header, numbers, words, separator, "a value is not finite", advice)
    for name in words:
        columns[name] = texts_of(table.column(name))
        if (columns[name] == "").any():
            raise _complaint(path, header, numbers, words, separator, "a value is empty", advice)
    return columns


def _check_quotes(path: Path, separator: str) -> None:
    """Raise InputError for a quote that is opened in a last cell and never closed: all rows after it are in that cell.

    An odd number of quotes alone says nothing: inches in a cell without quotes make one, too.
    """
    with unpacked(path) as file:
        odd = sum(block.count(b'"') for block in iter(lambda: file.read(1 << 20), b"")) % 2
    if odd:
        for _ in _rows(path, separator, strict=True):
            pass


def texts_of(column: pa.ChunkedArray) -> np.ndarray:
    """A column of texts without blanks around them, as an array of objects [rows].

    One object for each distinct value, so that long tables stay small, and none wider than it is: an array of texts
    of one width would give every row the room of the longest.
    """
    encoded = column.combine_chunks().dictionary_encode()
    distinct = np.array([value.strip() for value in encoded.dictionary.to_pylist()], dtype=object)
    texts: np.ndarray = distinct[encoded.indices.to_numpy()]
    return texts


def unpacked(path: Path) -> gzip.GzipFile | BufferedReader:
    """The file's bytes, unpacked if it is gzip (by its first bytes, whatever its name says)."""
    return gzip.open(path) if _packed(path) else path.open("rb")


def _packed(path: Path) -> bool:
    """Whether a file is gzip, by its first bytes, whatever its name says."""
    with path.open("rb") as raw:
        return is_packed(raw.read(2))


def is_packed(content: bytes) -> bool:
    """Whether bytes begin as gzip does."""
    return content[:2] == b"\x1f\x8b"


def raw_lines(path: Path, newline: str | None = None) -> Iterator[str]:
    """The lines of a text (UTF-8, gzip or not), each with its end; newline: as of `open`.

    Raises InputError for a line that is too long, and where too many are blank in a row; what cannot be decoded or
    unpacked raises as it does for `io.TextIOWrapper`.
    """
    blank = number = 0
    with unpacked(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline=newline) as text:
        while line := text.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise InputError(
                    f"{path}, line {number}: longer than {LONGEST_LINE} characters, which are allowed"
                )
            blank = blank + 1 if line.isspace() else 0
            if blank > BLANK_LINES:
                raise InputError(
                    f"{path}, line {number}: more than {BLANK_LINES} blank lines in a row, which are allowed"
                )
            yield line


def _rows(
    path: Path, separator: str, strict: bool = False, also: str = ""
) -> Iterator[tuple[int, int, list[str]]]:
    """First line, last line and stripped cells of every row that is not blank: a cell in quotes may hold lines.

    strict: quotes must be closed, and nothing may follow one that closes a cell. also: what is allowed beside CSV.
    """
    first = 1
    try:
        reader = csv.reader(raw_lines(path, newline=""), delimiter=separator, strict=strict)
        for cells in reader:
            if cells:
                yield first, reader.line_num, [cell.strip() for cell in cells]
            first = reader.line_num + 1
    except UnicodeDecodeError:
        allowed = f"CSV in UTF-8{also and f', or {also}'}"
        with unpacked(path) as file:
            parquet = file.read(4) == b"PAR1"
            file.seek(0)
            error = (
                InputError(f"{path}: Parquet; allowed is {allowed}")
                if parquet
                else no_text(path, file, allowed)
            )
        raise error from None
    except csv.Error as error:
        raise InputError(f"{path}, line {first}: {error}{_open_quote(first, reader.line_num)}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read, damaged or cut off ({error})") from None


def _open_quote(first: int, last: int) -> str:
    """What may be wrong with a row that goes on over several lines; empty for a row of one line."""
    return f'; the row goes on to line {last}: is a quote (") not closed?' if last > first else ""


def _complaint(
    path: Path,
    header: list[str],
    numbers: Collection[str],
    words: Collection[str],
    separator: str,
    otherwise: str,
    advice: str,
) -> InputError:
    """What is wrong with a table that the fast reader refused, found by a slow walk through its rows."""
    numbers, words = frozenset(numbers), frozenset(words)
    try:
        for row, (line, last, cells) in enumerate(_rows(path, separator)):
            if row == 0:
                continue
            if len(cells) != len(header):
                ragged = f"{len(cells)} cells, the header has {len(header)}"
                return InputError(f"{path}, line {line}: {ragged}{_open_quote(line, last)}")
            for name, cell in zip(header, cells, strict=True):
                if not cell and (name in numbers or name in words):
                    return InputError(f"{path}, line {line}, column {name!r}: empty, wanted is a value")
                if name in numbers and not (_NUMBER.fullmatch(cell) and _allowed(float(cell))):
                    beyond = _NUMBER.fullmatch(cell) and np.isfinite(float(cell))
                    wanted = f"a number between {-LARGEST:g} and {LARGEST:g}" if beyond else "a finite number"
                    return InputError(
                        f"{path}, line {line}, column {name!r}: found {cell!r}, wanted is {wanted}"
                        + _way_out(cell, advice)
                    )
    except InputError as error:
        return error
    return InputError(f"{path}: cannot be read as a table: {' '.join(otherwise.split())}")


def _allowed(value: float | np.ndarray) -> np.ndarray:
    """Whether each number is one that can be computed with."""
    return np.less_equal(np.abs(value), LARGEST)


def _way_out(cell: str, advice: str) -> str:
    """What to do about a cell that is no finite number: for a decimal comma, and for what is a word."""
    if _DECIMAL_COMMA.fullmatch(cell):
        return " with a decimal point"
    try:
        float(cell)
    except ValueError:
        return advice and f"; {advice}"
    return ""


def line_of(path: Path, column: str, value: str, separator: str = ",") -> int:
    """The first line whose cell in `column` is `value`; 0 if there is none."""
    header = read_header(path, separator)
    at = header.index(column)
    for line, _, cells in _rows(path, separator):
        if len(cells) > at and cells[at] == value:
            return line
    return 0


def label_order(values: np.ndarray) -> list[str]:
    """Distinct labels in the order of their classes: by number if all are numbers, else by text."""
    distinct = [str(value) for value in np.unique(values)]
    if all(_NUMBER.fullmatch(value) for value in distinct):
        return sorted(distinct, key=lambda value: (float(value), value))
    return distinct


def check_classes(what: str, found: int, samples: int, way_out: str) -> None:
    """Raise InputError where `found` distinct labels among so many samples are measurements rather than classes.

    what: which labels, and way_out: what else to do, for the message.
    """
    if found > max(FEW_CLASSES, samples // 2):
        raise InputError(
            f"{what} has {found} distinct values in {samples} rows, wanted are classes, at most one for two rows: "
            f"{way_out}"
        )


def as_classes(values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """int64 class of each label. Raises InputError for one that is not among `names`."""
    at: Mapping[str, int] = {name: k for k, name in enumerate(names)}
    distinct, inverse = np.unique(values, return_inverse=True)
    for value in distinct:
        if str(value) not in at:
            raise unknown("class", str(value), names)
    return np.array([at[str(value)] for value in distinct], dtype=np.int64)[inverse]
