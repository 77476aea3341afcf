"""The benchmark of movement: small points are measured and kept, and the page says what the record says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.scripts import benchmark
from support.warm import python

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_small_points_are_measured_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each in a process of the script's own; who asks for them is this one."""
    movement, record = benchmark("movement"), tmp_path / "record.json"
    command = ["movement.py", "--clients", "40", "--rounds", "2", "--record", str(record)]
    monkeypatch.setattr(
        sys, "argv", [*command, "--kinds", "random_walk", "spread over dam", "dcm_continuous"]
    )

    def begun(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*python(), *command[1:]], **options)

    monkeypatch.setattr(
        sys.modules["kept_points"], "subprocess", SimpleNamespace(run=begun, PIPE=subprocess.PIPE)
    )
    assert movement.main() == 0
    points = json.loads(record.read_text())["points"]
    steered = [f"{kind} {how} 40" for kind in ("spread over dam", "dcm_continuous") for how in movement.HOW]
    assert list(points) == ["random_walk oracle 40", "random_walk oracle 48", *steered]
    for point in points.values():
        assert min(point[f"{part}_ms"] for part in ("movement", "movement_cpu", "contacts", "mixing")) > 0
        assert point["first_s"] > 0
        assert point["peak_bytes"] > 2**20
    assert points["dcm_continuous unbounded 40"]["drawn"] == pytest.approx(20, abs=3)
    assert capsys.readouterr().out.count(": done") == len(points)
    assert movement.main() == 0
    assert ": done" not in capsys.readouterr().out
    # What another machine took can be shown, but not mixed with what this one takes.
    machine = {"processor": "another", "target": "znver9", "lanes": 8, "vectors": "AVX2", "cores": 1}
    elsewhere = json.dumps({"machine": machine, "points": points})
    record.write_text(elsewhere)
    assert movement.main() == 0
    monkeypatch.setattr(sys, "argv", [*command, "--kinds", "dam"])
    with pytest.raises(SystemExit, match=r"record\.json: holds what was measured on .*another.*--record"):
        movement.main()
    assert record.read_text() == elsewhere


@pytest.mark.parametrize("kind", ["dam", "dam_continuous"])
def test_those_who_are_put_on_their_ways_lie_between_their_places(kind: str) -> None:
    movement = benchmark("movement")
    mobility, _, world = movement.parts(kind, "oracle", 40)
    before = mobility.start(world)
    after = mobility.step(before, world, 1)[0]
    here, start, end = (
        array[:20]
        for array in (
            movement.under_way(before, after, mobility)["position"],
            before["position"],
            after["destination"],
        )
    )
    slack = 0.5 if kind == "dam" else 1e-9
    assert ((here >= np.minimum(start, end) - slack) & (here <= np.maximum(start, end) + slack)).all()
    assert (here != start).any(axis=1).mean() > 0.5
    assert kind != "dam" or (here % 1 == 0).all()
    mobility.step({**after, "position": movement.under_way(before, after, mobility)["position"]}, world, 2)


@pytest.mark.parametrize("kind", ["dcm", "spread_continuous over dcm"])
def test_whoever_has_explored_half_knows_what_lies_left(kind: str) -> None:
    movement = benchmark("movement")
    mobility, _, world = movement.parts(kind, "half explored", 60)
    state = mobility.start(world)
    nothing = {**state, "known": np.zeros_like(state["known"]), "seen": np.zeros_like(state["seen"])}
    found = movement.half_explored(mobility, nothing, world)
    middle = (mobility.bounds()[0] + mobility.bounds()[2]) / 2
    assert (found["known"].all(axis=0) == (state["position"][30:, 0] < middle)).all()
    seen = np.unpackbits(
        found["seen"], axis=1, count=mobility.terrain(world).survey_points, bitorder="little"
    )
    assert 0.4 < seen.mean() < 0.6


def test_the_page_on_performance_tells_what_the_record_says() -> None:
    movement = benchmark("movement")
    record = json.loads(movement.RECORD.read_text(encoding="utf-8"))
    assert movement.table(record) in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
