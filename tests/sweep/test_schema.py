"""`sweep.json`: one schema, checked where a sweep is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedroam.errors import InputError
from fedroam.sweep import open_sweep

ROW = {"keys": {"rounds": 3}, "seed": 0, "digest": "0" * 64}
WHOLE = {"format": 1, "name": "a", "varied": ["rounds"], "runs": [ROW], "records": {"0" * 64: {}}}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"name": 3}, "name"),
        ({"varied": "rounds"}, "varied"),
        ({"runs": {}}, "runs"),
        ({"runs": [3]}, "runs.0"),
        ({"runs": [{**ROW, "keys": []}]}, "runs.0.keys"),
        ({"runs": [{**ROW, "seed": "x"}]}, "runs.0.seed"),
        ({"runs": [{**ROW, "digest": "../../elsewhere"}]}, "runs.0.digest"),
        ({"runs": [{"keys": {}, "digest": ""}]}, "runs.0.seed is missing"),
        ({"records": []}, "records"),
        ({"records": {"x": 3}}, "records.x"),
        ({"records": {"x": {"reason": 3}}}, "records.x.reason"),
    ],
)
def test_fields_of_another_type(changes: dict[str, Any], key: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(json.dumps(WHOLE))
    assert open_sweep(tmp_path).runs[0].state == "waiting"
    (tmp_path / "sweep.json").write_text(json.dumps({**WHOLE, **changes}))
    with pytest.raises(InputError, match=rf"sweep.json: damaged: {key}"):
        open_sweep(tmp_path)
