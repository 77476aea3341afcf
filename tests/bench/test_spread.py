"""The page of steered movement says what the record of its benchmark says; two of its numbers computed again."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedroam.experiment import Experiment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "spread_bench", ROOT / "benchmarks" / "spread_against_dcm.py"
    )
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_record(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = script.Kept.of

    def kept(self: Any, wanted: Experiment, what: Any) -> dict[str, float]:
        key = f"{what.__name__} {wanted.digest[:20]}"
        assert key in self.values, "python benchmarks/spread_against_dcm.py computes what is missing"
        asked.append(key)
        found: dict[str, float] = real(self, wanted, what)
        return found

    monkeypatch.setattr(script.Kept, "of", kept)
    record = script.Kept(script.RECORD)
    made = script.tables(record)
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.filled(page, made) == page
    assert set(asked) == set(record.values), "nothing else is kept"


def test_numbers_of_the_record_computed_again(script: ModuleType) -> None:
    """A run, within what processors round differently; and a world, in which nobody learns."""
    kept = json.loads(script.RECORD.read_text(encoding="utf-8"))
    run = script.experiment({"kind": "dcm", "mobile": 5}, 0, script.ROUNDS)
    assert script.learnt(run)["accuracy"] == pytest.approx(
        kept[f"learnt {run.digest[:20]}"]["accuracy"], abs=1.5
    )
    world = script.experiment({"kind": "dcm", "mobile": 5}, 0, script.WORLD)
    assert script.linked(world) == pytest.approx(kept[f"linked {world.digest[:20]}"], rel=1e-5)
