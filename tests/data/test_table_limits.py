"""Tables that are made to cost time or memory: told of, or read, within the bounds of an ordinary file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from fedroam.components import build
from fedroam.data.preparing import column_statistics
from fedroam.data.sources import csv_table, tables
from fedroam.data.sources.tables import as_classes, read_table
from fedroam.errors import InputError
from support.bounded import bounded

WIDE = 60_000


def test_many_columns_take_time_in_proportion(tmp_path: Path) -> None:
    names = [f"c{k}" for k in range(WIDE)]
    rows = [",".join(["1"] * WIDE), ",".join(["1"] * (WIDE - 1) + ["x"])]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *rows]))
    code = """
import sys
from pathlib import Path
from fedroam.data.sources.tables import read_header, read_table
from fedroam.data.preparing import column_statistics
from fedroam.errors import InputError
names = read_header(Path(sys.argv[1]))
try:
    read_table(Path(sys.argv[1]), names, ())
except InputError as error:
    print(len(names), error)
"""
    told = bounded(code, str(tmp_path / "wide.csv"))
    assert told.startswith(f"{WIDE} ")
    assert f"line 3, column 'c{WIDE - 1}': found 'x'" in told


def test_one_long_cell_does_not_widen_every_row(tmp_path: Path) -> None:
    rows = 100_000  # as texts of one width they would take 44.7 GiB
    (tmp_path / "cell.csv").write_text("word,n\n" + "z" * 120_000 + ",1\n" + "a,1\n" * rows)
    words = read_table(tmp_path / "cell.csv", ["n"], ["word"])["word"]
    assert (len(words), len(words[0])) == (rows + 1, 120_000)
    assert words.nbytes == 8 * (rows + 1)
    assert set(words[1:]) == {"a"}


def test_blank_lines_that_do_not_end_are_refused(tmp_path: Path) -> None:
    for head in (b"", b"a\n1\nx\n"):
        with gzip.open(tmp_path / "blank.csv", "wb") as file:
            file.write(head + b"\n" * (tables.BLANK_LINES + 1))
        with pytest.raises(InputError, match=r"blank.csv.*more than 1000000 blank lines in a row"):
            list(tables.raw_lines(tmp_path / "blank.csv"))
        with pytest.raises(InputError, match=r"blank.csv"):
            read_table(tmp_path / "blank.csv", ["a"], ())


def test_blank_lines_within_the_limit_mean_nothing(tmp_path: Path) -> None:
    (tmp_path / "blank.csv").write_bytes(b"\n" * 100_000 + b"a\n" + b"\n" * 100_000 + b"1\n")
    np.testing.assert_array_equal(read_table(tmp_path / "blank.csv", ["a"], ())["a"], [1.0])


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LONGEST_LINE", 100)
    (tmp_path / "long.csv").write_bytes(b"a\n" + b" " * 101)
    with pytest.raises(InputError, match=r"long.csv, line 2: longer than 100 characters"):
        list(tables.raw_lines(tmp_path / "long.csv"))
    (tmp_path / "fits.csv").write_bytes(b"a\n" + b" " * 99 + b"\n")
    assert len(list(tables.raw_lines(tmp_path / "fits.csv"))) == 2


def test_a_column_of_names_is_no_category(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rows = tmp_path / "users.csv", 100_000  # one input for each would be 40 GB
    path.write_text("user,x,label\n" + "".join(f"u{k},{k % 7},{k % 2}\n" for k in range(rows)))
    part = build("data", {"kind": "csv", "path": str(path), "categorical": ["user"]})
    with pytest.raises(InputError, match=r"column 'user' .* has 100000 distinct values .* up to 10000"):
        part.load()  # type: ignore[attr-defined]
    path.write_text("a,b,label\n" + "".join(f"u{k % 5},v{k % 7},{k % 2}\n" for k in range(70)))
    part = build("data", {"kind": "csv", "path": str(path), "categorical": ["a", "b"]})
    monkeypatch.setattr(csv_table, "MOST_CELLS", 12 * 70 - 1)
    with pytest.raises(InputError, match=r"12 distinct values, in 70 rows 840 inputs"):
        part.load()  # type: ignore[attr-defined]
    monkeypatch.setattr(csv_table, "MOST_CELLS", 12 * 70)
    assert part.load().x_train.shape[1] == 12  # type: ignore[attr-defined]


def test_values_without_a_finite_deviation_are_refused(tmp_path: Path) -> None:
    """The largest floats have a mean that is infinite, or a deviation; in a table their line is told."""
    (tmp_path / "large.csv").write_text(
        "a,b,label\n" + "".join(f"{k},{(-1) ** k}e308,{k % 2}\n" for k in range(40))
    )
    with pytest.raises(
        InputError, match=r"large.csv, line 2, column 'b': found '1e308', wanted is a number between"
    ):
        build("data", {"kind": "csv", "path": str(tmp_path / "large.csv")}).load()  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"column 1 of the numbers has values up to 1e\+308, too large"):
        column_statistics(np.array([[k, (-1.0) ** k * 1e308] for k in range(40)]))


def test_a_class_of_the_test_set_that_training_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown class 'False': allowed are 0, 1"):
        as_classes(np.array([True, False]).astype(str), ["0", "1"])
