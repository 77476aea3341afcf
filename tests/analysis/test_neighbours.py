"""Neighbours by group: by hand, and against sets kept client by client."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedroam.analysis.neighbours import count_neighbours, neighbours
from fedroam.errors import InputError
from fedroam.runner import run
from support.tiny import tiny


def test_by_hand() -> None:
    """Three rounds, clients 0 (high), 1 and 2 (low): 0 meets 1; 0 meets 1 and 2; nobody meets."""
    contacts = pd.DataFrame({"round": [0, 2, 1, 2], "i": [1, 0, 0, 0], "j": [2, 2, 1, 1]})
    found = count_neighbours(contacts, np.array(["high", "low", "low"]), 3)
    assert found["round"].tolist() == [1, 1, 2, 2, 3, 3]
    assert found["group"].tolist() == ["high", "low"] * 3
    assert found["degree"].tolist() == [1, 0.5, 2, 1, 0, 0]
    assert found["cumulated"].tolist() == [1, 0.5, 3, 1.5, 3, 1.5]
    assert found["distinct"].tolist() == [1, 0.5, 2, 1, 2, 1]


def test_agrees_with_sets_of_neighbours_in_a_run(tmp_path: Path) -> None:
    experiment = tiny(
        clients=7,
        rounds=9,
        mobility={"kind": "random_walk", "width": 200.0, "height": 200.0, "high_share": 0.4},
        contacts="closest_approach",
    )
    played = run(experiment, out=tmp_path / "all")
    found = neighbours(played)
    groups = np.array(played.world["groups"])
    seen: list[set[int]] = [set() for _ in range(7)]
    for t in range(1, 10):
        now = played.contacts[played.contacts["round"] == t]
        degree = np.zeros(7)
        for i, j in zip(now["i"], now["j"], strict=True):
            degree[[i, j]] += 1
            seen[i].add(j)
            seen[j].add(i)
        for group in ("high", "low"):
            row = found[(found["round"] == t) & (found["group"] == group)].iloc[0]
            members = np.flatnonzero(groups == group)
            assert row["degree"] == pytest.approx(degree[members].mean())
            assert row["distinct"] == pytest.approx(np.mean([len(seen[i]) for i in members]))
    assert found["distinct"].max() > 1

    sparse = run(experiment.replace(record_movement="evaluated"), out=tmp_path / "some")
    with pytest.raises(InputError, match='need record_movement = "all"'):
        neighbours(sparse)
