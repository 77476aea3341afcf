"""Seconds of local work by a device of one's own, held against what it promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedroam.devices import seconds_of
from fedroam.errors import InputError

FROM_0 = "allowed are finite numbers from 0 on"


class Given:
    """Work that takes as long as it is told."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def seconds(self, seed: int, clients: np.ndarray, passes: np.ndarray, flops: float) -> Any:
        return self.found


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "gave NoneType, allowed is one number for each job, float64 [2]"),
        (0.5, "gave float of shape [], float64, allowed is one number for each job, float64 [2]"),
        (
            np.ones((2, 1)),
            "gave ndarray of shape [2, 1], float64, allowed is one number for each job, float64 [2]",
        ),
        ([1.0, -0.5], f"gave -0.5 for client 7, {FROM_0}"),
        ([np.nan, 1.0], f"gave nan for client 4, {FROM_0}"),
        ([1.0, np.inf], f"gave inf for client 7, {FROM_0}"),
    ],
)
def test_what_a_device_of_ones_own_takes_is_held_against_what_it_promises(found: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        seconds_of(Given(found), 0, np.array([4, 7]), np.array([10, 20]), 1e6)
    assert str(raised.value) == f"compute kind 'Given': seconds: {told}"


def test_whole_seconds_are_seconds() -> None:
    found = seconds_of(Given([0, 3]), 0, np.array([4, 7]), np.array([10, 20]), 1e6)
    assert found.tolist() == [0.0, 3.0]
    assert found.dtype == np.float64
