"""The last words of a sweep: means over seeds in the order of numbers, the best, the next command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from fedroam.cli.commands.sweep import conclude
from fedroam.cli.sweep_summary import means
from fedroam.recording import read_json, write_json
from fedroam.sweep import Sweep, open_sweep
from fedroam.sweep.limits import available_memory
from support.commands import Commands
from support.made_runs import made_run

GAINS = {10: 0.8, 2: 0.5, 9: 0.7}


def made_sweep(root: Path, lacking: int = 0) -> Sweep:
    """A sweep over `radius`, two seeds each; the last `lacking` runs have failed."""
    rows: list[dict[str, Any]] = []
    records: dict[str, Any] = {}
    (root / "sweep/runs").mkdir(parents=True)
    for radius, gain in GAINS.items():
        for seed in (0, 1):
            run = made_run(root / "made" / str(radius), "", seed, [0.1, gain + seed / 100])
            digest = f"{radius:02d}{seed}" + "0" * 61
            rows.append({"keys": {"contacts.radius": radius}, "seed": seed, "digest": digest})
            if len(rows) > 2 * len(GAINS) - lacking:
                records[digest] = {"state": "failed", "reason": "boo"}
            else:
                folder = run.folder.rename(root / "sweep/runs" / digest[:16])
                write_json(folder / "run.json", {**read_json(folder / "run.json"), "digest": digest})
    facts = {"format": 1, "name": "s", "varied": ["contacts.radius"], "runs": rows, "records": records}
    write_json(root / "sweep/sweep.json", facts)
    return open_sweep(root / "sweep")


def test_means_over_seeds_in_the_order_of_numbers(tmp_path: Path) -> None:
    heads, rows = means(made_sweep(tmp_path))
    assert heads == ["contacts.radius", "seeds", "state", "accuracy", "loss"]
    assert [row[:4] for row in rows] == [
        ["2", 2, "done", "0.5050 ± 0.0050"],
        ["9", 2, "done", "0.7050 ± 0.0050"],
        ["10", 2, "done", "0.8050 ± 0.0050"],
    ]


def test_who_diverged_is_counted(tmp_path: Path) -> None:
    sweep = made_sweep(tmp_path)
    sweep.runs[1].run.__dict__["status"]["diverged_at"] = 10  # type: ignore[union-attr]
    _, rows = means(sweep)
    assert [row[2] for row in rows] == ["done", "done", "done, 1 diverged"]
    assert rows[2][3] == "0.8050 ± 0.0050"  # and counts


def test_what_has_failed_is_counted(tmp_path: Path) -> None:
    _, rows = means(made_sweep(tmp_path, lacking=1))
    assert rows[1][:4] == ["9", 1, "1 done, 1 failed", "0.7000"]


def test_the_end_names_the_best_and_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conclude(made_sweep(tmp_path))
    *_, best, folder, following = capsys.readouterr().out.splitlines()
    assert best.startswith(
        "Best of 3 settings: radius=10, final accuracy 80.5 ± 0.5\u00a0% (mean ± standard error over 2 seeds)"
    )
    # Two seeds that differ by exactly the same have no interval, and by signs they say nothing yet.
    assert "2 of the others cannot be told from it" in best
    assert folder == f"sweep: {tmp_path / 'sweep'}"
    assert following == f"next: fedroam report {tmp_path / 'sweep'}"


def test_failures_end_in_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as stop:
        conclude(made_sweep(tmp_path, lacking=2))
    assert stop.value.exit_code == 1
    said = capsys.readouterr()
    assert "failed: contacts.radius=9, seed 0 and 1 more: boo" in said.out
    assert "2 of the runs failed" in said.err


@pytest.mark.skipif(available_memory() is None, reason="this system has no such limit")
def test_the_memory_that_a_dry_run_tells_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is reserved and not held (stacks of threads, Arrow's GiB) is no memory of the share."""
    monkeypatch.chdir(tmp_path)
    call = Commands(tmp_path, capsys)
    large = ["--set", "clients=100", "--set", "model={kind='mlp',hidden=[400,400]}", "--set", "engine=cpu"]
    words = ["sweep", "tiny.toml", *large, "--workers", "1", "--out", "swept"]
    told = re.search(r"([0-9.]+) GiB in all", call(*words, "--dry-run").out)
    assert told is not None
    answer = call(*words, "--memory", told.group(1), "--quiet")
    assert answer.code == 0, answer
