"""The benchmarks of many clients: a small point is measured and kept, and the pages say what the records say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedroam.bench.measures import ratio
from support.scripts import benchmark
from support.warm import python

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_a_point_is_measured_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each in a process of the script's own; who asks for them is this one."""
    scale, command = benchmark("scale"), ["scale.py", "--clients", "20", "--rounds", "2"]
    command += ["--folder", str(tmp_path / "runs"), "--record", str(tmp_path / "record.json")]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def begun(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*python(), *command[1:]], **options)

    at_once = SimpleNamespace(run=begun, PIPE=subprocess.PIPE)  # it has loaded what it needs
    monkeypatch.setattr(sys.modules["kept_points"], "subprocess", at_once)

    def measured() -> str:
        assert scale.main() == 0
        return capsys.readouterr().out

    assert measured().count(": done") == 2
    points = json.loads((tmp_path / "record.json").read_text())["points"]
    assert sorted(points) == ["decentralized 20 2 1", "hierarchical 20 2 1"]
    for point in points.values():
        assert point["rows"] > 0
        assert point["models_gib"] == pytest.approx(point["rows"] * point["parameters"] * 4 / 2**30)
        assert point["peak_gib"] > point["program_gib"] > 0
        assert point["cpu_s"] > point["training_s"] > 0
    before = (tmp_path / "record.json").read_bytes()
    assert ": done" not in measured()
    assert (tmp_path / "record.json").read_bytes() == before


def test_the_page_on_performance_tells_what_the_record_says() -> None:
    scale = benchmark("scale")
    record = json.loads(scale.RECORD.read_text(encoding="utf-8"))
    assert scale.table(record) in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")


def test_the_page_on_performance_tells_what_residual_networks_reach() -> None:
    residual = benchmark("residual")
    record = json.loads(residual.RECORD.read_text(encoding="utf-8"))
    assert residual.table(record) in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for measurement in record.values():
        assert residual.step_flops(1) == pytest.approx(measurement["batches"]["8"]["step_flops"] / 8)


def test_the_page_on_performance_tells_how_fast_the_engine_is() -> None:
    speed = benchmark("engine_speed")
    record = json.loads(speed.RECORD.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert speed.table(record) in page
    assert speed.others(record) in page
    assert speed.methods(record)
    assert speed.methods(record) in page
    for measurement in record.values():
        assert not any(line["disturbed"] for line in measurement["results"])
        for name in speed.WORKLOADS:
            line = next(line for line in measurement["results"] if line["name"] == name)
            assert line["value"] == pytest.approx(ratio(line["times"], "plain", "engine"), rel=1e-3)


def test_speed_is_not_kept_where_vectors_are_narrowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    speed = benchmark("engine_speed")
    monkeypatch.setenv("FEDROAM_VECTOR", "4")
    monkeypatch.setattr(sys, "argv", ["engine_speed.py", "--record", str(tmp_path / "record.json")])
    assert speed.main() == 2
    assert "FEDROAM_VECTOR" in capsys.readouterr().err
    assert not (tmp_path / "record.json").exists()


def test_a_measurement_takes_the_place_of_that_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disturbed one does not."""
    speed, kept = benchmark("engine_speed"), tmp_path / "record.json"
    for name in speed.NARROWING:
        monkeypatch.delenv(name, raising=False)
    found = next(iter(json.loads(speed.RECORD.read_text(encoding="utf-8")).values()))
    monkeypatch.setattr(sys, "argv", ["engine_speed.py", "--record", str(kept)])
    for kind in ("AVX2", "AVX512", "AVX2"):
        monkeypatch.setattr(speed, "measured", lambda *_, kind=kind: (kind, found))
        assert speed.main() == 0
    assert sorted(json.loads(kept.read_text())) == ["AVX2", "AVX512"]
    assert "| | workload | AVX2 | AVX512 |" in capsys.readouterr().out
    before = kept.read_bytes()
    worse = [{**line, "disturbed": line["name"] == "C"} for line in found["results"]]
    monkeypatch.setattr(speed, "measured", lambda *_: ("AVX2", {**found, "results": worse}))
    assert speed.main() == 1
    assert "disturbed: C" in capsys.readouterr().err
    assert kept.read_bytes() == before


def test_rounds_of_methods_are_a_part_of_the_measurement_of_their_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Medians of ratios of neighbours in time; they stay where all else is measured again on the same processor."""
    speed, kept = benchmark("engine_speed"), tmp_path / "record.json"
    for name in speed.NARROWING:
        monkeypatch.delenv(name, raising=False)
    whole = {k: v for k, v in _some_speed(speed).items() if k != speed.METHODS}
    rounds = {"fedavg": [1.0, 2.0, 4.0], "moon": [3.0, 5.0, 8.0]}
    lines = [
        {"name": f"methods: {name}", "about": about, "times": {"round": times}, "disturbed": False}
        for about in ("1-D CNN", "MLP")
        for name, times in rounds.items()
    ]
    asked = []

    def measure(found: dict[str, Any], *options: str) -> int:
        monkeypatch.setattr(speed, "measured", lambda _, names, __: asked.append(names) or ("AVX2", found))
        monkeypatch.setattr(sys, "argv", ["engine_speed.py", "--record", str(kept), *options])
        code: int = speed.main()
        return code

    some = {**whole, "results": lines}
    assert measure(some, "--methods") == 1  # nothing to be a part of
    assert measure(whole) == 0
    assert speed.methods(json.loads(kept.read_text())) == ""
    assert measure({**some, "torch": "another"}, "--methods") == 1
    for found, options in ((some, ["--methods"]), (whole, [])):
        assert measure(found, *options) == 0
        told = speed.methods(json.loads(kept.read_text()))
        assert told.splitlines()[0] == "| method | AVX2: 1-D CNN | AVX2: MLP |"
        assert told.splitlines()[2:] == ["| `fedavg` | 1.0 | 1.0 |", "| `moon` | 2.5 | 2.5 |"]
        assert told in capsys.readouterr().out
    assert set(asked) == {speed.NAMES, ("methods",)}
    assert measure({**whole, "torch": "another"}) == 0
    assert speed.methods(json.loads(kept.read_text())) == ""


def _some_speed(speed: Any) -> dict[str, Any]:
    """A measurement that is kept."""
    found: dict[str, Any] = next(iter(json.loads(speed.RECORD.read_text(encoding="utf-8")).values()))
    return found


def test_the_page_on_performance_tells_what_a_start_costs() -> None:
    start = benchmark("start")
    record = json.loads(start.RECORD.read_text(encoding="utf-8"))
    assert start.table(record) in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert list(start.commands(ROOT)) == list(start.WORDS) == list(record["commands"])
    assert all(start.experiment(kind).rounds == 1 for kind in start.RUNS)


def test_the_page_on_clusters_tells_what_the_record_says() -> None:
    reckoned = benchmark("cluster_plan")
    record = json.loads(reckoned.RECORD.read_text(encoding="utf-8"))
    told = reckoned.plan(record, cores=16, gbit=10.0, steps=10, every=10)
    assert told in (ROOT / "docs" / "one-run-over-a-cluster.md").read_text(encoding="utf-8")


def test_the_page_on_performance_tells_what_a_day_of_schedules_took() -> None:
    runs = json.loads((ROOT / "docs" / "records" / "clock-day.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    cases = [case for run in runs for case in run["cases"]]
    assert len(cases) == 4
    for case in cases:
        assert case["clients"] == 10_000
        day, peak = case["wall_first"] + 1440 * case["wall_mean"], case["peak"] / 2**30
        processor = case["first"] + 1440 * case["mean"]
        told = f"{1e3 * case['wall_mean']:.0f} ms | {day:.0f} s | {processor:.0f} s | {peak:.2f} GiB"
        assert f"| {told} |" in page


def test_the_reckoning_by_hand() -> None:
    """A hundred clients of a million parameters on ten machines of one core, and a network of 8 Gbit/s."""
    record = {
        "parameters": 1_000_000, "step_s": 0.5, "judged_s": 2.0, "mixed_s": 0.1, "carried_s": 0.25,
        "driver_s": {"10": 0.01, "20": 0.02}, "placing_s": 1.0, "clients": 100, "machines": 10,
        "rows_crossing": 40, "rows_crossing_unplaced": 90, "largest_share": 1.2,
    }  # fmt: skip
    told = benchmark("cluster_plan").plan(record, cores=1, gbit=8.0, steps=2, every=4)
    rows = dict(
        line.split(" | ")[:2] for line in told.splitlines() if line.startswith("| ") and " | " in line
    )
    assert rows == {
        "| part of a round": "seconds",
        "| training, 2 steps": "12.0",  # 12 clients x 2 steps x 0.5 s
        "| exchange on the workers": "1.2",
        "| rows between machines": "2.0",  # 4 rows x (4 MB at 1 GB/s + 2 x 0.25 s)
        "| whoever plays the rounds": "2.0",
        "| judging on 1,000 images, every 4 rounds": "6.0",
        "| mean of all models, every 4 rounds": "0.0",
        "| checkpoint, every 4 rounds": "0.1",
        "| a round": "23.3",
        "| 100 rounds": "0.6 h",
    }


def test_the_page_on_clusters_tells_what_spreading_costs() -> None:
    """Spread or not, a run comes to the same accuracy."""
    script = benchmark("over_ray")
    record = json.loads(script.RECORD.read_text(encoding="utf-8"))
    assert script.table(record) in (ROOT / "docs" / "one-run-over-a-cluster.md").read_text(encoding="utf-8")
    for name in script.RUNS:
        points = [point for point in record["points"].values() if point["run"] == name]
        assert {point["way"] for point in points} == set(script.WAYS)
        assert len({point["accuracy"] for point in points}) == 1
        assert script.experiment(name, "alone").digest == script.experiment(name, "ray").digest


def test_a_round_is_that_between_the_first_and_the_last() -> None:
    """Rounds of 9, 2, 3 and 4 s, and one of 8 that is evaluated, from 1 s on, when the start has been evaluated."""
    point = {"moments": [1.0, 10.0, 12.0, 15.0, 19.0, 27.0]}
    assert benchmark("over_ray").round_of(point) == 3.0
