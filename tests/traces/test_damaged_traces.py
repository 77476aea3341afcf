"""A trace's metadata: one schema, checked when it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fedroam.errors import InputError
from fedroam.traces import import_trace, read_trace, write_trace
from fedroam.traces.trace import KEY


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("epoch", 3),
        ("projection", ["x"]),
        ("origin", [1.0]),
        ("rows", "many"),
        ("dropped", [1]),
        ("dropped", {"a": "b"}),
        ("source", None),
        ("sha256", 7),
        ("notes", "x"),
        ("source_format", 1),
    ],
)
def test_metadata_of_another_type(key: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"t.parquet: damaged: {key}"):
        read_trace(with_facts(tmp_path, {key: value}))


@pytest.mark.parametrize("text", ["[]", "7", "[" * 100_000, "9" * 5_000, "{"])
def test_metadata_that_is_no_object(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t.parquet: damaged, its metadata is no"):
        read_trace(with_facts(tmp_path, {}, text))


def with_facts(folder: Path, changes: dict[str, Any], text: str | None = None) -> Path:
    (folder / "a.csv").write_text("device,time,x,y\na,0,1,2\na,1,1,2\n")
    file = write_trace(import_trace(folder / "a.csv"), folder / "t.parquet")
    read_trace(file)
    table = pq.read_table(file)
    facts = json.loads(table.schema.metadata[KEY]) | changes
    pq.write_table(table.replace_schema_metadata({KEY: text or json.dumps(facts)}), file)
    return file
