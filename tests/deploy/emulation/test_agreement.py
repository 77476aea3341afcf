"""A run on a network held against the simulated one: what is the same, and by how much the rest differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from fedroam.deploy.emulation import agreement as room
from fedroam.deploy.emulation.agreement import Compared, agreement
from fedroam.errors import InputError
from fedroam.runner import run
from support.losing import without
from support.tiny import tiny

pytestmark = pytest.mark.usefixtures("quick_disk")
MOHAWK: dict[str, Any] = {"evaluate_every": 1, "federation": {"kind": "mohawk", "k2": 2}, "rounds": 3}


def test_every_column_is_compared_once(tmp_path: Path) -> None:
    one, other = (run(tiny(**MOHAWK), tmp_path / name) for name in "ab")
    found = {each.what: each for each in agreement(one, other)}
    assert all(each.identical and each.agrees and each.difference == 0.0 for each in found.values())
    told = {name: len(one.table(name)) for name in ("rounds", "clients", "positions")}
    # Rounds and clients are keys, seconds are nobody's, groups are words.
    columns = {name: set(one.table(name).columns) - {"round", "client", "seconds", "group"} for name in told}
    every = sum(told[name] * len(columns[name]) for name in told)
    assert sum(each.values for each in found.values()) - found["models and state"].values == every
    assert found["bytes"].values == 3 * told["rounds"] + 2 * told["clients"]
    assert found["energy by the model"].values == 4 * (told["rounds"] + told["clients"])


def test_a_lost_update_is_a_difference(tmp_path: Path) -> None:
    experiment = tiny(**MOHAWK)
    whole, less = run(experiment, tmp_path / "whole"), without(experiment, tmp_path / "less", {(2, 1)})
    found = {each.what: each for each in agreement(less, whole)}
    assert not found["models and state"].agrees
    assert not found["who takes part"].agrees
    assert not found["accuracies, losses"].agrees
    assert 0.0 < found["models and state"].difference < np.inf


def test_runs_of_different_experiments_are_refused(tmp_path: Path) -> None:
    one, other = (run(tiny(**MOHAWK, seed=seed), tmp_path / str(seed)) for seed in (0, 1))
    with pytest.raises(InputError, match="are runs of different experiments"):
        agreement(one, other)


@pytest.mark.parametrize(
    ("one", "other", "relative", "difference", "identical"),
    [
        ([1.0, np.nan], [1.0, np.nan], False, 0.0, True),
        ([1.0, 2.0], [1.0, 2.5], False, 0.5, False),
        ([1.0, 2.0], [1.0, 2.5], True, 0.2, False),
        ([0.0, np.nan], [0.0, 1.0], False, np.inf, False),
        ([0.0], [-0.0], True, 0.0, False),
    ],
)
def test_differences_by_hand(
    one: list[float], other: list[float], relative: bool, difference: float, identical: bool
) -> None:
    pair = [(np.array(one), np.array(other))]
    found = room._compared("x", 1, pair, 0.1, relative=relative)
    assert (found.difference, found.identical) == (pytest.approx(difference), identical)
    assert found.agrees == (difference <= 0.1)


def test_what_is_missing_differs() -> None:
    assert not room._compared("x", 1, [(np.zeros(2), None)], 0.1, relative=False).agrees
    assert not Compared("x", 1, 0, 0.0, 0.0, False, False).difference
