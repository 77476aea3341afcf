"""A sweep's folder tells whether it still holds what was written, and is not gone on with where it does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tomli_w

from fedroam.errors import InputError
from fedroam.planning import SweepPlan, sweep_plan
from fedroam.sweep import open_sweep, sweep_damage
from fedroam.sweep.folder import Ledger
from fedroam.sweep.running import run_sweep
from support.commands import Commands
from support.run_folders import of_before_sweeps_had_sums
from support.sweeps import same, settings


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> SweepPlan:
    path = tmp_path_factory.mktemp("plan") / "sweep.toml"
    path.write_text(tomli_w.dumps(settings(rounds=1, sweep={"grid": {"training.lr": [0.1, 0.2]}})))
    return sweep_plan(path)


@pytest.fixture(scope="module")
def whole(plan: SweepPlan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_sweep(plan, tmp_path_factory.mktemp("whole") / "sweep", workers=1).folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "sweep"))


@pytest.fixture
def fr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(tmp_path, capsys)


def test_what_was_written_is_as_written(folder: Path, fr: Commands) -> None:
    answer = fr("verify", str(folder))
    assert answer.code == 0
    assert f"{folder}: as written" in answer.out
    assert "1 of 1 sweeps and 2 of 2 runs are what was written" in answer.out
    assert open_sweep(folder).info["files"].keys() == {"sweep.toml"}


@pytest.mark.parametrize("name", ["sweep.json", "sweep.toml"])
def test_every_flipped_bit_is_told(name: str, folder: Path) -> None:
    data = (folder / name).read_bytes()
    step = max(1, 8 * len(data) // 400)
    for bit in range(0, 8 * len(data), step):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        (folder / name).write_bytes(bytes(changed))
        assert sweep_damage(folder), bit
    (folder / name).write_bytes(data)
    assert sweep_damage(folder) == []


def test_a_run_that_is_gone_or_another_one(folder: Path, fr: Commands) -> None:
    one, other = sorted((folder / "runs").iterdir())
    shutil.rmtree(one)
    assert [line for line in sweep_damage(folder) if f"{one}: missing; sweep.json lists it as done" in line]
    shutil.copytree(other, one)
    assert sweep_damage(folder) == [f"{one}: is not the finished run that sweep.json lists"]
    answer = fr("verify", str(folder))
    assert answer.code == 2
    assert "1 of 1 sweeps and 0 of 2 runs are not what was written" in answer.err


def test_a_run_that_is_damaged_is_told_once(folder: Path, fr: Commands) -> None:
    table = next((folder / "runs").glob("*/rounds.parquet"))
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(bytes(data))
    answer = fr("verify", str(folder))
    assert answer.code == 2
    assert answer.err.count("rounds.parquet") == 1
    assert "0 of 1 sweeps and 1 of 2 runs are not what was written" in answer.err


def test_a_damaged_ledger_is_not_gone_on_with(folder: Path, plan: SweepPlan, whole: Path) -> None:
    facts = json.loads((folder / "sweep.json").read_text())
    digest = facts["runs"][0]["digest"]
    facts["records"][digest] = {"state": "failed", "reason": "never"}
    (folder / "sweep.json").write_text(json.dumps(facts))
    with pytest.raises(
        InputError, match=r"sweep.json: damaged: its check sum .* delete the file, and fedroam sweep"
    ):
        run_sweep(plan, folder, workers=1)
    (folder / "sweep.json").unlink()
    same(run_sweep(plan, folder, workers=1), open_sweep(whole))
    assert sweep_damage(folder) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", "\udcff"], ids=["emptied", "list", "object", "bytes"])
def test_a_ledger_that_says_nothing_is_found_again_from_the_runs(
    text: str, folder: Path, plan: SweepPlan, whole: Path
) -> None:
    """Whatever else somebody keeps in the folder, as a report with its figures."""
    (folder / "seed-0").mkdir()
    (folder / "report.html").write_text("mine")
    (folder / "sweep.json").write_text(text, errors="surrogateescape")
    with pytest.raises(InputError, match=r"sweep.json: damaged.* delete the file, and fedroam sweep"):
        run_sweep(plan, folder, workers=1)
    (folder / "sweep.json").unlink()
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/rounds.parquet")}
    same(run_sweep(plan, folder, workers=1), open_sweep(whole))
    assert kept == {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/rounds.parquet")}
    assert (folder / "report.html").read_text() == "mine"


def test_a_folder_of_something_else_is_no_sweep_s(plan: SweepPlan, tmp_path: Path) -> None:
    (tmp_path / "seed-0").mkdir()
    with pytest.raises(InputError, match="not empty and not the folder of a sweep"):
        run_sweep(plan, tmp_path, workers=1)


def test_the_place_of_the_runs_is_a_file(plan: SweepPlan, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("mine")
    with pytest.raises(InputError, match="runs: is a file; a sweep keeps its runs in a folder of that name"):
        run_sweep(plan, tmp_path, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_sweep_of_before_there_were_sums(folder: Path, plan: SweepPlan, whole: Path, fr: Commands) -> None:
    of_before_sweeps_had_sums(folder)
    same(open_sweep(folder), open_sweep(whole))
    answer = fr("verify", str(folder))
    assert answer.code == 2
    assert "sweep.json: has no check sum" in answer.err
    assert "1 of 1 sweeps and 0 of 2 runs are not what was written, or cannot be told" in answer.err
    run_sweep(plan, folder, workers=1)
    assert sweep_damage(folder) == []


def test_a_kill_while_the_sweep_is_written_down_breaks_no_promise(
    folder: Path, plan: SweepPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two files that are written, what lies there is what is promised."""
    seen = []
    write = Ledger.write

    def watched(self: Ledger) -> None:
        seen.append(sweep_damage(folder))
        write(self)
        seen.append(sweep_damage(folder))

    monkeypatch.setattr(Ledger, "write", watched)
    ledger = Ledger(folder, plan, open_sweep(folder).info["records"])
    ledger.write_source(plan.source + "# seen again\n")
    seen.append(sweep_damage(folder))
    ledger.write()
    assert seen == [[]] * 5
    assert (folder / "sweep.toml").read_text().endswith("# seen again\n")
