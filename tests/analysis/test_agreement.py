"""A run on a network held against the simulated one: what is the same, and by how much the rest differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedroam.analysis import agreement as room
from fedroam.analysis.agreement import Compared, agreement, keep_agreement, read_agreement
from fedroam.errors import InputError
from fedroam.recording import Run, damage
from fedroam.recording.round_times import TOOK, note_round, read_times
from fedroam.runner import run
from support.losing import without
from support.tiny import tiny

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


def clocked(folder: Path) -> Run:
    """Three rounds of half a second each, as a deadline has them; two are evaluated."""
    return run(tiny(rounds=3, clock={"kind": "seconds", "length": 0.5}), folder)


def test_time_per_round_by_hand(tmp_path: Path) -> None:
    network, simulated = clocked(tmp_path / "network"), clocked(tmp_path / "simulated")
    assert room.round_times(network, simulated) is None  # it was not paced
    for t, seconds in ((1, 9.0), (1, 0.5), (2, 0.56), (3, 0.45)):  # round 1 was played again
        note_round(network.folder, t, seconds, {"train": 0.3} if t > 1 else {})
    times = room.round_times(network, simulated)
    assert times is not None
    assert times.index.tolist() == [2, 3]  # evaluated every second round, and at the end
    np.testing.assert_allclose(times["network"], [1.06, 0.45])
    np.testing.assert_allclose(times["simulated"], [1.0, 0.5])
    np.testing.assert_allclose(times["train"], [0.3, 0.3])
    found = agreement(network, simulated)[-1]
    assert (found.what, found.values, found.difference) == ("time per round", 2, pytest.approx(0.1))
    note_round(network.folder, 3, 0.4, {})
    found = agreement(network, simulated)[-1]
    assert found.difference == pytest.approx(0.2)
    assert not found.agrees


def test_a_round_that_a_kill_cut_off_is_replaced(tmp_path: Path) -> None:
    note_round(tmp_path, 1, 0.5, {"train": 0.25})
    with (tmp_path / TOOK).open("a") as file:
        file.write('{"round": 2, "sec')
    assert [*read_times(tmp_path / TOOK)] == [1]
    for t in (2, 3):
        note_round(tmp_path, t, 0.5, {})
    assert [*read_times(tmp_path / TOOK)] == [1, 2, 3]


def test_what_was_found_is_kept(tmp_path: Path) -> None:
    network, simulated = clocked(tmp_path / "network"), clocked(tmp_path / "simulated")
    with pytest.raises(InputError, match=r"agreement.json: missing; fedroam emulate --check writes it"):
        read_agreement(network.folder, network.status["digest"])
    for t in (1, 2, 3):
        note_round(network.folder, t, 0.6, {"train": 0.1})
    made = keep_agreement(network, simulated)
    assert made.seconds == pytest.approx({"network": 0.6, "simulated": 0.5, "train": 0.1})
    assert read_agreement(network.folder, network.status["digest"]) == made
    assert damage(network.folder) == []  # it is beside the run, not of it
    text = (network.folder / "agreement.json").read_text()
    for wrong, said in (
        (text.replace(network.status["digest"], "0" * 64), "is of another run"),
        (text.replace('"rounds"', '"turns"', 1), "compared.0.rounds is missing"),
        (text[:-20], "damaged"),
    ):
        (network.folder / "agreement.json").write_text(wrong)
        with pytest.raises(InputError, match=said):
            read_agreement(network.folder, network.status["digest"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"round": 1, "seconds": 1.0}\n', "round 2 is missing"),
        ('{"round": 1, "seconds": -1.0}\n', "line 1: damaged: seconds = -1.0"),
        ('{"round": 1, "seconds": 1.0}\n{"rou\n', "line 2: damaged"),
        ("[]\n", "line 1: damaged: found list"),
    ],
)
def test_a_damaged_file_of_times_is_told(tmp_path: Path, text: str, said: str) -> None:
    network = clocked(tmp_path / "network")
    (network.folder / "network.jsonl").write_text(text)
    with pytest.raises(InputError, match=said):
        room.round_times(network, network)


def test_what_differs_is_kept_as_well(tmp_path: Path) -> None:
    other = run(tiny(**MOHAWK), tmp_path / "whole")
    made = keep_agreement(without(tiny(**MOHAWK), tmp_path / "less", {(2, 1)}), other)
    assert not made.compared["who takes part"].agrees
    assert read_agreement(tmp_path / "less", other.status["digest"]) == made
