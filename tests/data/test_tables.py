"""Strict tables, the user's own CSV file, .npz file and arrays."""

from __future__ import annotations

import gzip
import io
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam import components
from fedroam.data import Dataset, forget, memory
from fedroam.data.preparing import held_out, limit, one_hot
from fedroam.data.sources.csv_table import Csv
from fedroam.data.sources.own import Arrays, InMemoryArrays
from fedroam.data.sources.tables import read_table
from fedroam.errors import InputError
from fedroam.experiment import Experiment

TABLE = "speed,kind,load,station,label\n" + "".join(
    f"{k * 1.5},{'ab'[k % 2]},{k * k},S{k % 3},{('down', 'up')[k % 2]}\n" for k in range(20)
)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FEDROAM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    forget()


def write(text: str, name: str = "own.csv") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def load(**settings: Any) -> Dataset:
    part: Any = components.build("data", {"kind": "csv", **settings})
    dataset: Dataset = part.load()
    return dataset


# --- the csv source ---------------------------------------------------------------------------------------------


def test_a_table_by_hand() -> None:
    dataset = load(path=write(TABLE), categorical=["kind"], columns=["station"], test_share=0.0)
    assert dataset.x_train.shape == (20, 4)
    assert len(dataset.y_test) == 0
    k = np.arange(20)
    for column, values in enumerate((k * 1.5, k * k)):
        wanted = (values - values.mean()) / values.std()
        np.testing.assert_allclose(dataset.x_train[:, column], wanted, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(dataset.x_train[:, 2:], np.eye(2)[k % 2])
    assert dataset.class_names == ("down", "up")
    np.testing.assert_array_equal(dataset.y_train, k % 2)
    assert dataset.columns["station"].tolist() == [f"S{n % 3}" for n in k]


def test_the_test_share_is_held_out_by_class_and_not_used_for_the_scale() -> None:
    dataset = load(
        path=write(TABLE), categorical=["kind"], columns=["station"], test_share=0.2, normalise="none"
    )
    assert np.bincount(dataset.y_test).tolist() == [2, 2]
    assert sorted([*dataset.x_train[:, 1], *dataset.x_test[:, 1]]) == sorted(float(k * k) for k in range(20))
    scaled = load(path="own.csv", categorical=["kind"], columns=["station"], test_share=0.2)
    np.testing.assert_allclose(scaled.x_train[:, :2].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.x_train[:, :2].std(axis=0), 1, atol=1e-6)
    mean, deviation = dataset.x_train[:, 0].mean(), dataset.x_train[:, 0].std()
    np.testing.assert_allclose(scaled.x_test[:, 0], (dataset.x_test[:, 0] - mean) / deviation, atol=1e-5)
    assert len(scaled.columns["station"]) == 16


def test_a_test_file_of_its_own() -> None:
    write(TABLE.replace("up", "sideways"), "test.csv")
    dataset = load(path=write(TABLE), test_path="test.csv", categorical=["kind"], ignore=["station"])
    assert dataset.class_names == ("down", "sideways", "up")
    assert (len(dataset.y_train), len(dataset.y_test)) == (20, 20)
    assert set(dataset.y_train) == {0, 2}
    np.testing.assert_array_equal(dataset.x_train, dataset.x_test)


def test_numbered_classes_are_in_the_order_of_their_numbers() -> None:
    rows = "".join(f"{k},{label}\n" for k, label in enumerate([10, 9, 2, 10, 2, 9]))
    dataset = load(path=write("v,label\n" + rows), test_share=0.0)
    assert dataset.class_names == ("2", "9", "10")
    assert dataset.y_train.tolist() == [2, 1, 0, 2, 0, 1]


@pytest.mark.parametrize("form", ["crlf", "mark", "gzip", "semicolon", "spaces", "blank lines", "quotes"])
def test_every_usual_form_reads_the_same(form: str) -> None:
    plain = load(path=write(TABLE), categorical=["kind"], ignore=["station"])
    separator, data = ",", TABLE.encode()
    if form == "crlf":
        data = data.replace(b"\n", b"\r\n")
    elif form == "mark":
        data = b"\xef\xbb\xbf" + data
    elif form == "gzip":
        data = gzip.compress(data)
    elif form == "semicolon":
        separator, data = ";", data.replace(b",", b";")
    elif form == "spaces":
        data = data.replace(b",", b" , ")
    elif form == "blank lines":
        data = b"\n" + data.replace(b"\n", b"\n\n")
    elif form == "quotes":
        data = data.replace(b"down", b'"down"').replace(b"speed", b'"speed"')
    Path("other.csv").write_bytes(data)
    other = load(path="other.csv", categorical=["kind"], ignore=["station"], separator=separator)
    assert other.fingerprint == plain.fingerprint
    assert other.class_names == plain.class_names


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("4.5,b,9", ",b,9", "own.csv, line 5, column 'speed': empty, wanted is a value"),
        ("4.5,b,9", "4.5,b,nine", "own.csv, line 5, column 'load': found 'nine', wanted is a finite number"),
        ("4.5,b,9", "4.5,b,nan", "own.csv, line 5, column 'load': found 'nan', wanted is a finite number"),
        (
            "4.5,b,9",
            "4.5,b,1e999",
            "own.csv, line 5, column 'load': found '1e999', wanted is a finite number",
        ),
        (
            "4.5,b,9",
            "4.5,b,1e308",
            "own.csv, line 5, column 'load': found '1e308', wanted is a number between -1e+150 and 1e+150",
        ),
        (
            "4.5,b,9",
            "4.5,b,\u0661\u0662",
            "own.csv, line 5, column 'load': found '\u0661\u0662', wanted is a finite number",
        ),
        ("4.5,b,9", "4.5,,9", "own.csv, line 5, column 'kind': empty, wanted is a value"),
        ("4.5,b,9", "4.5, ,9", "own.csv, line 5, column 'kind': empty, wanted is a value"),
        ("4.5,b,9", "4.5,b,9,9", "own.csv, line 5: 6 cells, the header has 5"),
        ("4.5,b,9", "4.5,9", "own.csv, line 5: 4 cells, the header has 5"),
        ("S0,up", "S0,", "own.csv, line 5, column 'label': empty, wanted is a value"),
        ("speed,kind", "kind,kind", "own.csv, line 1: column 'kind' appears twice"),
        ("speed,kind", ",kind", "own.csv, line 1: column 1 has no name"),
        ("speed,kind", "pace,kind,", "own.csv, line 1: column 3 has no name"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_column(old: str, new: str, said: str) -> None:
    assert TABLE.count(old) >= 1
    with pytest.raises(InputError) as error:
        load(path=write(TABLE.replace(old, new, 1)), categorical=["kind"], columns=["station"])
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # In a last cell all that follows is one more label, in any other a row of too few cells.
        (("1,up", '2,"down', "3,up"), "own.csv, line 3: unexpected end of data; the row goes on to line 4"),
        (
            ("1,up", '"2,down', "3,up"),
            "own.csv, line 3: 1 cells, the header has 2; the row goes on to line 4",
        ),
        (("1,up", '2,"down' + 200_000 * "\nx"), "own.csv, line 3: field larger than field limit"),
    ],
)
def test_a_quote_that_is_not_closed_is_told_where_it_is_opened(rows: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError) as error:
        load(path=write("\n".join(["speed,label", *rows]) + "\n"))
    assert said in str(error.value)
    assert str(error.value).endswith('is a quote (") not closed?')


def test_quotes_within_a_cell_and_lines_within_quotes_are_no_mistake() -> None:
    dataset = load(
        path=write('speed,label\n1,5" pipe\n2,"two\nlines"\n3,5" pipe\n4,"two\nlines"\n5,5" pipe\n')
    )
    assert dataset.class_names == ('5" pipe', "two\nlines")
    assert sorted([*dataset.y_train, *dataset.y_test]) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"label": "lable"},
            "unknown column of own.csv 'lable': allowed are kind, label, load, speed, station; did you mean 'label'",
        ),
        (
            {"categorical": ["kind", "kind"]},
            "column 'kind' is named twice among label, categorical, columns and ignore",
        ),
        ({"categorical": ["label"]}, "column 'label' is named twice"),
        ({"separator": "ab"}, "data.separator = 'ab': allowed is one character"),
        ({"ignore": ["speed", "kind", "load", "station"]}, "no column is left to learn from"),
        ({"path": "nowhere.csv"}, "data.path = 'nowhere.csv': no such file"),
        ({"path": "."}, "data.path = '.': a folder, wanted is a file"),
        (
            {},
            "line 2, column 'kind': found 'a', wanted is a finite number; name a column of words in data.categorical, "
            "data.columns or data.ignore",
        ),
        ({"test_path": "nowhere.csv"}, "data.test_path = 'nowhere.csv': no such file"),
    ],
)
def test_wrong_settings_give_one_clear_line(settings: dict[str, Any], said: str) -> None:
    write(TABLE)
    with pytest.raises(InputError) as error:
        load(**{"path": "own.csv", **settings})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {},
            "own.csv, line 1: one column, 'speed;label', where data.separator = ','; if ';' stands between cells, set "
            "data.separator = ';'",
        ),
        (
            {"separator": ";"},
            "own.csv, line 2, column 'speed': found '1,5', wanted is a finite number with a decimal point",
        ),
    ],
)
def test_a_table_as_office_programs_write_it_is_told_with_the_way_out(
    settings: dict[str, Any], said: str
) -> None:
    write("speed;label\n1,5;up\n2,5;down\n")
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        load(path="own.csv", **settings)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty, wanted is a header line and rows"),
        (b"speed,label\n", "a header but no rows"),
        (b"speed,label\n1,\xff\xfe\n", "own.csv, line 2: not UTF-8 text (byte 14 is 0xff)"),
        (b"PAR1\x15\xff\xfe", "Parquet; allowed is CSV in UTF-8, or arrays in .npz by data kind 'arrays'"),
        (
            gzip.compress(b"speed,label\n" + b"".join(b"%d,0\n" % k**3 for k in range(999)))[:900],
            "damaged or cut off",
        ),
        (
            b"speed,label\n" + b"".join(b"%d,%d.5\n" % (k, k) for k in range(200)),
            "has 200 distinct values in 200 rows",
        ),
    ],
)
def test_damaged_files_give_one_clear_line(content: bytes, said: str) -> None:
    Path("own.csv").write_bytes(content)
    with pytest.raises(InputError) as error:
        load(path="own.csv")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_relative_path_is_also_looked_for_in_the_data_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "far.csv").write_text(TABLE)
    settings = {"path": "far.csv", "categorical": ["kind"], "ignore": ["station"]}
    with pytest.raises(InputError, match="no such file"):
        load(**settings)
    assert len(load(root=str(tmp_path / "mine"), **settings).y_train) == 16
    monkeypatch.setenv("FEDROAM_DATA", str(tmp_path / "mine"))
    assert len(load(**settings).y_train) == 16


def test_a_changed_file_is_read_again() -> None:
    settings = {"categorical": ["kind"], "ignore": ["station"], "test_share": 0.0}
    one = load(path=write(TABLE), **settings)
    assert load(path="own.csv", **settings) is one
    write(TABLE + "7,a,7,S1,up\n")
    assert len(load(path="own.csv", **settings).y_train) == 21


@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.sampled_from(["x", "y, z", 'q"uote', "ü"]), st.integers(0, 3)),
        min_size=1,
        max_size=30,
    )
)
def test_reading_gives_back_what_was_written(rows: list[tuple[float, str, int]]) -> None:
    import csv

    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["number", "word", "label"])
    writer.writerows([[repr(a), b, c] for a, b, c in rows])
    Path("rows.csv").write_text(text.getvalue(), encoding="utf-8", newline="")
    table = read_table(Path("rows.csv"), ["number"], ["word", "label"])
    assert table["number"].tolist() == [a for a, _, _ in rows]
    assert table["word"].tolist() == [b for _, b, _ in rows]
    assert table["label"].tolist() == [str(c) for _, _, c in rows]


def test_a_process_that_read_a_table_ends_in_peace(tmp_path: Path) -> None:
    """Readers' threads that outlive the interpreter have aborted processes (exit status -6)."""
    packed = tmp_path / "own.csv.gz"
    packed.write_bytes(gzip.compress(TABLE.encode()))
    code = (
        "import sys; from pathlib import Path; from fedroam.data.sources.tables import read_table\n"
        "for _ in range(3): read_table(Path(sys.argv[1]), ['speed', 'load'], ['kind'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(packed)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- arrays from a file and from memory ------------------------------------------------------------------------

X = np.arange(48, dtype=np.float64).reshape(12, 4)
Y = np.arange(12) % 3


def test_arrays_from_a_file() -> None:
    np.savez(
        "own.npz", x_train=X, y_train=Y, x_test=X[:3] + 1, y_test=Y[:3], column_writer=np.arange(12) // 4
    )
    dataset = Arrays(path="own.npz").load()
    np.testing.assert_array_equal(dataset.x_train, X.astype(np.float32))
    np.testing.assert_array_equal(dataset.x_test, (X[:3] + 1).astype(np.float32))
    assert dataset.class_names == ("0", "1", "2")
    assert dataset.columns["writer"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    scaled = Arrays(path="own.npz", normalise="standardise").load()
    np.testing.assert_allclose(scaled.x_test, (X[:3] + 1 - X.mean(axis=0)) / X.std(axis=0), atol=1e-6)


def test_memory_takes_what_arrays_take() -> None:
    part = memory(X, Y, X[:3] + 1, Y[:3], columns={"writer": np.arange(12) // 4})
    np.savez("own.npz", x_train=X, y_train=Y, x_test=X[:3] + 1, y_test=Y[:3])
    assert part.load().fingerprint == Arrays(path="own.npz").load().fingerprint
    assert part.load() is part.load()


def test_shapes_and_types_of_images() -> None:
    pixels = (np.arange(12 * 6 * 5 * 3) % 256).astype(np.uint8).reshape(12, 6, 5, 3)
    last = memory(pixels, Y, normalise="unit", test_share=0).load()
    np.testing.assert_array_equal(last.x_train, pixels.astype(np.float32) / np.float32(255))
    assert last.input_shape == (3, 6, 5)
    first = memory(pixels.transpose(0, 3, 1, 2), Y, normalise="unit", layout="channels_first", test_share=0)
    assert first.load().fingerprint == last.fingerprint
    assert first.load().x_train.flags.c_contiguous
    assert memory(pixels[..., 0], Y).load().shape == (6, 5, 1)
    grey = memory(pixels, Y, normalise="standardise", test_share=0).load().x_train
    np.testing.assert_allclose(grey.mean(axis=(0, 1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(grey.std(axis=(0, 1, 2)), 1, atol=1e-5)


def test_labels_of_every_kind() -> None:
    words = np.array(["cat", "ant", "bee"])[Y]
    assert memory(X, words, test_share=0).load().class_names == ("ant", "bee", "cat")
    assert memory(X, words, test_share=0).load().y_train.tolist() == [
        {"cat": 2, "ant": 0, "bee": 1}[w] for w in words
    ]
    assert (
        memory(X, words, class_names=["cat", "ant", "bee"], test_share=0).load().y_train.tolist()
        == Y.tolist()
    )
    gap = memory(X, Y * 10, test_share=0).load()
    assert (gap.class_names, gap.y_train.tolist()) == (("0", "10", "20"), Y.tolist())
    kept = memory(X, Y, class_names=["a", "b", "c", "never"], test_share=0).load()
    assert (kept.classes, kept.y_train.tolist()) == (4, Y.tolist())
    assert memory(X, Y.astype(np.float32)[:, None], test_share=0).load().y_train.tolist() == Y.tolist()


def test_settings_of_memory_make_a_file_and_an_identity() -> None:
    import tomllib

    part = memory(X, Y, name="mine")
    experiment = Experiment(data=part)
    again = Experiment(**tomllib.loads(experiment.toml()))
    assert again.digest == experiment.digest
    assert again.data.load() is part.load()  # type: ignore[attr-defined]
    assert Experiment(data=memory(X.copy(), Y)).digest == experiment.digest
    assert Experiment(data=memory(X + 1, Y)).digest != experiment.digest
    assert Experiment(data=memory(X, Y, columns={"w": Y})).digest != experiment.digest
    assert pickle.loads(pickle.dumps(part)).load().fingerprint == part.load().fingerprint
    assert part == memory(X, Y, name="mine")


def test_memory_that_is_gone_says_what_to_do() -> None:
    with pytest.raises(
        InputError, match=r"fingerprint abcdef\.\.\. are not in memory: call fedroam.data.memory"
    ):
        InMemoryArrays(fingerprint="abcdef").load()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"x_train": X[:5]}, "y_train has shape (12,), wanted is one class for each of 5 samples"),
        ({"x_train": X.reshape(-1)}, "x_train has shape (48,), wanted is [samples, features]"),
        ({"x_train": X.astype(str)}, "x_train holds <U32, wanted are numbers"),
        ({"x_train": np.zeros((0, 4)), "y_train": Y[:0]}, "x_train holds no samples"),
        ({"x_train": np.zeros((12, 3, 8, 8))}, 'set layout = "channels_first"'),
        (
            {"x_train": np.where(X == 5, np.nan, X), "test_share": 0},
            "x_train[1] holds a value that is not finite",
        ),
        (
            {"x_train": np.where(X == 5, np.nan, X), "normalise": "standardise", "test_share": 0},
            "x_train[1] holds a value that is not",
        ),
        ({"y_train": Y + 0.5}, "y_train holds float64, wanted are whole numbers or texts"),
        ({"y_train": np.append(Y[:-1], np.inf)}, "y_train[11] holds a value that is not finite"),
        ({"y_train": np.append(Y[:-1], np.nan)}, "y_train[11] holds a value that is not finite"),
        (
            {"x_train": np.zeros((60, 2)), "y_train": np.arange(60) % 51, "test_share": 0},
            "memory: y_train has 51 distinct values in 60 rows, wanted are classes, at most one for two rows: if they "
            "are, name them in class_names",
        ),
        (
            {
                "x_train": np.zeros((60, 2)),
                "y_train": np.arange(60) % 50,
                "x_test": X[:, :2],
                "y_test": Y - 12,
            },
            "memory: y_train with y_test has 53 distinct values in 72 rows",
        ),
        ({"y_train": np.append(Y[:-1], 1e300)}, "y_train holds float64, wanted are whole numbers or texts"),
        ({"x_test": X}, "x_test and y_test go together, only one is there"),
        ({"x_test": X[:, :2], "y_test": Y}, "x_test holds samples of (2,), x_train of (4,)"),
        (
            {"columns": {"w": Y[:4]}},
            "column 'w' has shape (4,) of int64, wanted is one number or text for each of 12",
        ),
        ({"class_names": ["a", "b"]}, "train classes from 0 to 2, allowed are 0 to 1"),
        ({"class_names": ["a", "b", "a"]}, "class_names holds a name twice"),
        (
            {"y_train": np.array(["a", "b", "d"])[Y], "class_names": ["a", "b", "c"]},
            "class 'd' is not among class_names: a, b, c",
        ),
        ({"normalise": "unit"}, 'normalise = "unit" divides bytes (uint8) by 255, x_train holds float64'),
        ({"test_share": 1.0}, "test_share = 1, allowed is 0 up to but not including 1"),
        (
            {"x_train": X[:3], "y_train": Y[:3], "test_share": 0.9},
            "test_share = 0.9 leaves no training samples",
        ),
    ],
)
def test_wrong_arrays_give_one_clear_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        memory(**{"x_train": X, "y_train": Y, **given})
    assert said in str(error.value)


def test_many_classes_are_those_that_are_named_or_have_two_samples_each() -> None:
    labels, x = np.arange(120) % 60, np.zeros((120, 2))
    assert memory(x, labels, test_share=0).load().classes == 60
    assert memory(x[:60], labels[:60], class_names=range(60), test_share=0).load().classes == 60
    assert memory(x[:50], labels[:50], test_share=0).load().classes == 50


def test_wrong_files_of_arrays_give_one_clear_line() -> None:
    np.savez("own.npz", x_train=X)
    with pytest.raises(InputError, match=r"own.npz: no y_train; wanted are x_train, y_train"):
        Arrays(path="own.npz").load()
    np.savez("own.npz", x_train=X, y_train=Y, weights=Y)
    with pytest.raises(InputError, match=r"own.npz: holds an array 'weights', allowed are x_train"):
        Arrays(path="own.npz").load()
    np.savez("own.npz", x_train=X, y_train=np.array([{"a": 1}] * 12, dtype=object))
    with pytest.raises(
        InputError, match=r"own.npz: y_train holds Python objects, which would have to be unpickled"
    ):
        Arrays(path="own.npz").load()
    whole = Path("own.npz").read_bytes()
    for content in (whole[: len(whole) // 2], b"nothing", pickle.dumps(X)):
        Path("own.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"own.npz: not an .npz file of numpy.savez, or damaged"):
            Arrays(path="own.npz").load()
    np.save("one.npy", X)
    with pytest.raises(InputError, match=r"one.npy: not an .npz file"):
        Arrays(path="one.npy").load()


# --- shared preprocessing ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.data())
def test_a_limit_keeps_the_classes_in_proportion(labels: list[int], data: st.DataObject) -> None:
    y = np.array(labels)
    count = data.draw(st.integers(1, len(y)))
    chosen = limit(y, count, "n", "some subset")
    assert len(chosen) == count == len(np.unique(chosen))
    assert (np.diff(chosen) > 0).all()
    exact = count * np.bincount(y) / len(y)
    assert (np.abs(np.bincount(y[chosen], minlength=len(exact)) - exact) < 1).all()
    np.testing.assert_array_equal(chosen, limit(y, count, "n", "some subset"))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.floats(0, 1))
def test_held_out_is_a_share_of_each_class(labels: list[int], share: float) -> None:
    y = np.array(labels)
    out = held_out(y, share, "some test set")
    for c in np.unique(y):
        assert abs(out[y == c].sum() - share * (y == c).sum()) <= 0.5


@given(st.lists(st.sampled_from(["b", "a", "tcp", "zz"]), min_size=1))
def test_one_hot_against_the_obvious_loop(values: list[str]) -> None:
    words = ("tcp", "a", "b")
    hot = one_hot(np.array(values), words)
    assert hot.tolist() == [[float(v == w) for w in words] for v in values]


def test_csv_is_part_of_the_family() -> None:
    assert components.lookup("data", "csv") is Csv
