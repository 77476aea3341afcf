"""What comparisons say of attackers, and of runs from before there were any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fedroam as fr
from fedroam.analysis import compare_runs
from fedroam.recording import open_run
from support.tiny import tiny


def test_a_comparison_counts_the_honest_and_says_so(tmp_path: Path) -> None:
    run = fr.run(tiny(attack={"kind": "gaussian", "clients": (0, 3), "std": 5.0}), tmp_path / "attacked")
    honest = fr.run(tiny(), tmp_path / "honest")
    assert run.attackers == (0, 3)
    assert honest.attackers == ()
    assert "attackers" not in honest.world
    found = compare_runs([run, honest])
    last = run.clients[run.clients["round"] == 4]
    assert found.table["final"][0] == pytest.approx(last[~last["attacker"]]["accuracy"].mean())
    told = 100 * last[last["attacker"]]["accuracy"].mean()
    (note,) = [note for note in found.notes if "attack" in note]
    assert "2 of 5 clients attack (gaussian); accuracy and loss are those of the 3 honest ones" in note
    assert f"attackers' own accuracy at the end: {told:.1f}" in note


def test_runs_from_before_attacks_are_of_the_same_variant_and_are_reused(tmp_path: Path) -> None:
    now, before = fr.run(tiny(), tmp_path / "now"), fr.run(tiny(seed=1), tmp_path / "before")
    path = tmp_path / "before" / "experiment.toml"
    old = path.read_text(encoding="utf-8")
    for section in ('[aggregation]\nkind = "average"\n', '[attack]\nkind = "none"\n'):
        assert section in old
        old = old.replace(section, "")
    path.write_text(old, encoding="utf-8")
    status = tmp_path / "before" / "run.json"
    # As a run of 0.1.0, which had no sums.
    facts = {name: value for name, value in before.status.items() if name not in ("files", "sha256")}
    status.write_text(json.dumps(facts), encoding="utf-8")
    assert len(compare_runs([now, open_run(tmp_path / "before")]).table) == 1
    again = fr.run(tiny(seed=1), tmp_path / "before")
    assert again.rounds.equals(before.rounds)
