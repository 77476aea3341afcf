"""The benchmark of accelerators, on the processor: that it runs and tells what it promises; not how fast."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
import torch

from support.scripts import benchmark


def test_it_tells_every_workload_beside_a_plain_loop_and_beside_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = benchmark("gpu")
    known = gpu.WORKLOADS | gpu.MORE
    small = {name: dataclasses.replace(one, clients=2, batch=2, steps=2) for name, one in known.items()}
    monkeypatch.setattr(gpu, "WORKLOADS", small)
    monkeypatch.setattr(gpu, "MORE", {})
    out = tmp_path / "gpu.json"
    monkeypatch.setattr(
        sys, "argv", ["gpu.py", "--device", "cpu", "--repeats", "1", "--cores", "1", "--record", str(out)]
    )
    assert gpu.main() == 0
    record = json.loads(out.read_text(encoding="utf-8"))
    told = record["rows"]
    assert record["machine"]["device"] == "cpu"
    assert [one["name"] for one in told] == [*"ABCDERSM"]
    assert all(one["ratio"] > 0 and one["over_cores"] > 0 and one["cores"] == 1 for one in told)
    assert all(one["off"] < 1e-3 and one["thousand"] is None for one in told)
    assert capsys.readouterr().out.count("x 1 cores") == len(told)
    asked = ["gpu.py", "--device", "cpu", "--repeats", "1", "--cores", "0", "--record", str(out)]
    monkeypatch.setattr(sys, "argv", [*asked, "--only", "A"])
    assert gpu.main() == 0
    more = json.loads(out.read_text(encoding="utf-8"))
    assert more["rows"][:-1] == told[1:], "what was measured before stays"
    assert (more["rows"][-1]["name"], more["rows"][-1]["over_cores"]) == ("A", None)
    elsewhere = json.dumps({**more, "machine": {**more["machine"], "device": "another"}})
    out.write_text(elsewhere, encoding="utf-8")
    assert gpu.main() == 2
    assert "give another --record" in capsys.readouterr().out
    assert out.read_text(encoding="utf-8") == elsewhere
    out.write_text(json.dumps(record), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--show", "--record", str(out)])
    assert gpu.main() == 0
    shown = capsys.readouterr().out
    assert [line.split(" | ")[1] for line in shown.splitlines()[2:]] == [one["about"] for one in told]


def test_without_the_device_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    assert benchmark("gpu").main() == 2
    assert "no CUDA device here" in capsys.readouterr().out


def test_the_page_shows_what_is_on_record() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs/performance.md").read_text(encoding="utf-8")
    record = json.loads((root / "docs/records/gpu.json").read_text(encoding="utf-8"))
    assert benchmark("gpu").table(record) in text
    (thousand,) = (row["thousand"] for row in record["rows"] if row["thousand"] is not None)
    assert f"took {thousand:.0f} seconds" in text
    readme = (root / "README.md").read_text(encoding="utf-8")
    (over,) = (row["over_cores"] for row in record["rows"] if row["name"] == "M")
    assert f"in {thousand:.0f} s on one H100, {over:.0f} times two cores" in readme
