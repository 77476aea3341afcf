"""Tables from rows as they come, and what is read of them while a run is computed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedroam.recording import Recorder, files, pieces
from fedroam.recording.columns import column_of
from fedroam.runner import run
from support.tiny import own_data, tiny

KINDS: Mapping[str, Callable[[int], st.SearchStrategy[np.ndarray]]] = {
    "whole": lambda n: st.lists(st.integers(-(2**40), 2**40), min_size=n, max_size=n).map(
        lambda v: np.array(v, np.int64)
    ),
    "number": lambda n: st.lists(st.floats(), min_size=n, max_size=n).map(lambda v: np.array(v, np.float64)),
    "single": lambda n: st.lists(st.floats(width=32), min_size=n, max_size=n).map(
        lambda v: np.array(v, np.float32)
    ),
    "truth": lambda n: st.lists(st.booleans(), min_size=n, max_size=n).map(lambda v: np.array(v, bool)),
    "text": lambda n: st.lists(st.text("abé", max_size=3), min_size=n, max_size=n).map(
        lambda v: np.array(v, "U3")
    ),
}


@st.composite
def cut_rows(draw: st.DrawFn) -> list[dict[str, np.ndarray]]:
    """Rows in up to five pieces, some without any; a column may be whole numbers in some and not in others."""
    columns = draw(st.lists(st.sampled_from([*KINDS, "either"]), min_size=1, max_size=4))
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
    kinds = [
        [draw(st.sampled_from(["whole", "number"])) if kind == "either" else kind for kind in columns]
        for _ in sizes
    ]
    return [
        {f"{k}": draw(KINDS[kind](n)) for k, kind in enumerate(each)}
        for n, each in zip(sizes, kinds, strict=True)
    ]


def by_pandas(rows: list[dict[str, np.ndarray]]) -> pa.Table:
    """The same, the long way: a data frame a piece, one after the other."""
    whole = pd.concat([pd.DataFrame(piece) for piece in rows], ignore_index=True)
    return pa.table({name: pa.array(column) for name, column in whole.items()})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=cut_rows())
def test_rows_in_pieces_are_the_file_of_one_data_frame(
    rows: list[dict[str, np.ndarray]], tmp_path: Path
) -> None:
    files.write_table(tmp_path / "whole.parquet", by_pandas(rows))
    files.write_table(tmp_path / "pieces.parquet", files.joined([files.arrow(piece) for piece in rows]))
    assert (tmp_path / "pieces.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    noted = [files.kept(piece) for piece in rows]
    for piece in rows:
        for values in piece.values():
            values[:] = np.zeros(1, values.dtype)
    files.write_table(tmp_path / "noted.parquet", files.gathered(noted))
    assert (tmp_path / "noted.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=cut_rows(), small=st.integers(0, 200))
def test_who_made_a_table_does_not_decide_whether_it_is_compressed(
    rows: list[dict[str, np.ndarray]], small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read from a file has marks of what is missing where nothing is, and text in one piece."""
    monkeypatch.setattr(files, "SMALL", small)
    made = files.joined([files.arrow(piece) for piece in rows])
    facts = files.write_table(tmp_path / "made.parquet", made)
    read = files.arrow_of((tmp_path / "made.parquet").read_bytes(), tmp_path / "made.parquet")
    assert files.write_table(tmp_path / "read.parquet", read) == facts


@pytest.mark.parametrize("kind", ["?bhilqBHILQefd", "M8[s]", "m8[s]", "S3", "U", "O"])
def test_a_column_is_what_pyarrow_makes_of_the_array(kind: str) -> None:
    """Values of all kinds, those that are none of ours to lay out among them; every other of them, too, and none."""
    held: list[np.ndarray] = []
    for each in [kind] if "8" in kind or kind[0] in "SUO" else list(kind):
        if each[0] in "UO":
            for texts in (["a", "é", ""] * 5, ["a", "b\0c", "d\0"], [""], ["a", "b", "c"]):
                held.append(np.array(texts, each if each == "O" else None))
        else:
            held.append(np.array([0, 1, 1] * 9).astype(each))
        if each in ("e", "f", "d"):
            held.append(np.array([np.nan, 0.0, -0.0, np.inf, -np.inf] * 3, each))
        if each == "O":
            held += [np.array(values, "O") for values in ([None, "a"], [1, 2], ["a", np.nan])]
    for whole in held:
        for values in (whole, whole[::2], whole[:0]):
            text = values.dtype.kind == "U"
            wanted = pa.array(values, pa.large_string()) if text else pa.array(values, from_pandas=True)
            found = column_of(values)
            found.validate(full=True)
            assert found.type == wanted.type
            assert found.null_count == wanted.null_count
            assert found.equals(wanted)


def test_rows_stay_what_they_were_when_they_came() -> None:
    values = np.array([1.0, 2.0])
    table = files.arrow({"a": values})
    values[:] = 0
    assert table["a"].to_pylist() == [1.0, 2.0]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    facts=st.dictionaries(
        st.text(max_size=5).filter(lambda name: name != "sha256"),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=4,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_sum_is_written_as_one_more_fact(facts: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    files.write_summed(path, facts)
    found = files.read_json(path)
    files.check_summed(found, path)
    assert list(found) == [*facts, "sha256"]
    assert path.read_text(encoding="utf-8") == files.json_text(found)


def test_what_is_not_held_in_memory_is_read_from_its_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing held, some of it, and all: the same folder, byte for byte but for the clock."""
    spec = importlib.util.spec_from_file_location(
        "kill_and_resume", Path(__file__).parents[2] / "benchmarks" / "kill_and_resume.py"
    )
    assert spec is not None
    assert spec.loader is not None
    kill_and_resume = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kill_and_resume)
    read: list[str] = []
    arrow_of = pieces.arrow_of
    monkeypatch.setattr(
        pieces, "arrow_of", lambda data, path: (read.append(path.name), arrow_of(data, path))[1]
    )
    experiment = tiny(clients=3, rounds=3, evaluate_every=1, data=own_data())
    counts = {}
    for held in (0, 2000, pieces.HELD):
        monkeypatch.setattr(pieces, "HELD", held)
        read.clear()
        run(experiment, tmp_path / str(held))
        counts[held] = len(read)
        assert kill_and_resume.differences(tmp_path / "0", tmp_path / str(held)) == []
    assert counts == {0: 16, 2000: 16, pieces.HELD: 0}  # four tables, a piece a round


def test_a_new_folder_is_not_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "fedroam.recording.recorder.write_status", lambda folder, status: told.append(status["state"])
    )
    experiment = tiny()
    for name, states in (("new", ["running"]), ("old", ["clearing", "running"])):
        folder = tmp_path / name
        folder.mkdir()
        if name == "old":
            (folder / "half.tmp").write_text("half")
        recorder = Recorder(folder, {"digest": experiment.digest, "state": "running"})
        recorder.open(experiment.toml(), "resume")
        recorder.close()
        assert told == states
        told.clear()
