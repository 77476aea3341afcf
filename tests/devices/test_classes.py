"""How long local work takes: by hand, by shares, and what is wrong with a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedroam.components import build
from fedroam.devices import Compute
from fedroam.devices.classes import BOARDS, Flops
from fedroam.errors import InputError


def part(**fields: object) -> Compute:
    made = build("compute", fields)
    assert isinstance(made, Compute)
    return made


def seconds(
    made: Compute, clients: int = 4, passes: int = 100, flops: float = 1e9, seed: int = 0
) -> np.ndarray:
    return made.seconds(seed, np.arange(clients), np.full(clients, passes), flops)


def test_operations_over_speed() -> None:
    # 100 passes of 1 GFLOP at half of 10 GFLOP/s: 20 s.
    assert seconds(part(kind="flops", speeds=(10.0,), efficiency=0.5)).tolist() == [20.0] * 4
    board = seconds(part(kind="board", boards=("raspberry_pi_4",)))
    np.testing.assert_allclose(board, 100 / 11.889)


def test_boards_are_the_table_s_watts_for_a_gflop() -> None:
    """The published efficiencies, which are printed beside speeds and watts, as a check of both."""
    printed = {
        "raspberry_pi_4": 1.65,
        "raspberry_pi_5": 2.75,
        "orange_pi_5": 4.64,
        "raspberry_pi_zero_2": 0.18,
    }
    for name, efficiency in printed.items():
        speed, watts = BOARDS[name]
        assert speed / 1e9 / watts == pytest.approx(efficiency, abs=0.006)


def test_classes_come_by_their_shares_and_stay_with_the_device() -> None:
    made = part(kind="flops", speeds=(1.0, 2.0, 4.0), shares=(2.0, 1.0, 1.0))
    found = seconds(made, clients=4000, passes=4, flops=1e9)
    counts = [(found == value).sum() for value in (4.0, 2.0, 1.0)]
    assert sum(counts) == 4000
    assert stats.chisquare(counts, [2000, 1000, 1000]).pvalue > 1e-4
    np.testing.assert_array_equal(made.seconds(0, np.array([7, 3]), np.array([4, 4]), 1e9), found[[7, 3]])
    assert not np.array_equal(seconds(made, clients=4000, passes=4, seed=1), found)


def test_speeds_of_devices_are_log_normal() -> None:
    made = part(kind="flops", speeds=(1.0,), spread=0.3)
    drawn = np.log(seconds(made, clients=2000, passes=1, flops=1e9))
    assert stats.kstest(drawn / 0.3, "norm").pvalue > 1e-4


def test_a_table_of_clients(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("seconds,client,note\n0.5,2,slow\n0.1,0,\n0.25,1,\n".replace(",\n", ",-\n"))
    made = part(kind="table", path=str(file))
    assert seconds(made, clients=3).tolist() == [10.0, 25.0, 50.0]
    with pytest.raises(InputError, match=r"own\.csv: no row for client 3"):
        seconds(made, clients=5)


def test_a_table_of_classes(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("share,seconds\n3,0.1\n1,0.2\n")
    found = seconds(part(kind="table", path=str(file)), clients=2000)
    assert set(found.tolist()) == {10.0, 20.0}
    assert stats.binomtest(int((found == 10.0).sum()), 2000, 0.75).pvalue > 1e-4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("client,time\n0,1\n", "wanted are seconds, and client or share"),
        ("seconds\n1\n", "found the columns seconds"),
        ("client,seconds\n0,-1\n", "row 1, column 'seconds': -1, allowed is 0 s or more"),
        ("client,seconds\n0,1\n0.5,1\n", "row 2, column 'client': 0.5, allowed is a whole number"),
        ("client,seconds\n1,1\n1,2\n", "client 1 has two rows"),
        ("share,seconds\n0,1\n", "row 1, column 'share': 0, allowed is more than 0"),
        ("share,seconds\n1,nan\n", "seconds"),
    ],
)
def test_what_is_wrong_with_a_table_is_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "own.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=told):
        seconds(part(kind="table", path=str(file)))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "flops", "speeds": ()}, "speeds"),
        ({"kind": "flops", "speeds": (1.0, 0.0)}, "speeds"),
        ({"kind": "flops", "shares": (1.0, 2.0)}, "one for each of the 1 classes"),
        ({"kind": "board", "boards": ("raspbery_pi_4",)}, "did you mean 'raspberry_pi_4'"),
        ({"kind": "table", "path": "nowhere.csv"}, "compute.path = 'nowhere.csv': no such file"),
    ],
)
def test_what_does_not_fit_is_told(fields: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        seconds(part(**fields))


def test_a_device_has_a_speed() -> None:
    assert Flops(speeds=(3.0,)).speed(0, np.arange(2)).tolist() == [3e9, 3e9]
