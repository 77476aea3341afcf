"""How much room a cluster has for workers, and what tests do where there is no Ray. Needs no cluster."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from fedroam.execution.cluster import room
from support.pages import ROOT
from support.ray_nodes import NOTHING_MISSING, installed_ray


def node(cores: float | None, alive: bool = True) -> dict[str, Any]:
    return {"Alive": alive, "Resources": {"memory": 1e9, **({} if cores is None else {"CPU": cores})}}


def test_a_worker_has_all_its_cores_on_one_node() -> None:
    assert room([node(24.0)] * 4, 16) == 4  # 96 // 16 would be 6
    assert room([node(24.0)] * 4, 8) == 12
    assert room([node(2.0), node(3.0), node(1.0)], 2) == 2
    assert room([node(1.0)] * 5, 2) == 0


def test_nodes_without_cores_and_those_that_are_gone_have_no_room() -> None:
    assert room([node(4.0), node(None), node(4.0, alive=False)], 1) == 4
    assert room([], 1) == 0


def test_where_ray_is_missing_its_tests_are_skipped_but_fail_in_continuous_integration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for value, outcome in ((None, pytest.skip.Exception), ("1", pytest.fail.Exception)):
        if value is None:
            monkeypatch.delenv(NOTHING_MISSING, raising=False)
        else:
            monkeypatch.setenv(NOTHING_MISSING, value)
        with pytest.raises(outcome, match="Ray is not installed"):
            installed_ray()
    assert f"export {NOTHING_MISSING}=1\n" in (ROOT / ".ci" / "run").read_text()
