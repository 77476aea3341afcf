"""The throughputs of Farcas et al.: by hand, and those that the radio of that name charges by."""

from __future__ import annotations

import numpy as np
import pytest

from fedroam.components import build
from fedroam.cost import DistanceDistribution
from fedroam.errors import InputError
from fedroam.federation import SERVER, Traffic, access_point
from fedroam.links.lte_wifi import LteWifiLink

AP = int(access_point(0))


def link(**fields: object) -> LteWifiLink:
    made = build("link", {"kind": "lte_wifi", "lte_near": 200.0, "lte_far": 600.0, **fields})
    assert isinstance(made, LteWifiLink)
    return made


def test_by_hand() -> None:
    ends = np.array([[0, AP], [0, AP], [0, AP], [AP, 0], [0, SERVER], [SERVER, 0], [0, 1]])
    distance = np.array([100.0, 400.0, 900.0, 150.0, np.nan, np.nan, 50.0])
    expected = [1000, 12, 7, 36, 12, 24, 250]
    np.testing.assert_allclose(link().rate(distance, 0, ends) * 8e-6, expected)
    falling = link(d2d_min=50.0, d2d_near=10.0, d2d_far=90.0)
    np.testing.assert_allclose(
        falling.rate(np.array([5.0, 50.0, 95.0]), 0, np.tile([0, 1], (3, 1))) * 8e-6, [250, 150, 50]
    )


def test_a_transfer_takes_the_time_that_the_radio_charges_for() -> None:
    draws = np.linspace(0.0, 900.0, 37)
    sender = np.concatenate([np.arange(37), np.full(37, AP), np.arange(37)])
    receiver = np.concatenate([np.full(37, AP), np.arange(37), np.arange(37) + 1])
    distance = np.tile(draws, 3)
    traffic = Traffic.of(sender, receiver, 5_000_000, distance)
    cost = build("radio", "lte_wifi").cost(traffic, DistanceDistribution(400.0, 200.0))  # type: ignore[attr-defined]
    rate = link().rate(distance, 0, np.stack([sender, receiver], axis=1))
    np.testing.assert_allclose(
        5_000_000 / rate, np.where(sender >= 0, cost.time_up, cost.time_down), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [({"lte_near": 600.0}, "lte_near = 600 is not below"), ({"d2d_min": 300.0}, "d2d_min = 300 is not")],
)
def test_what_does_not_fit_is_told(fields: dict[str, float], told: str) -> None:
    with pytest.raises(InputError, match=told):
        link(**fields)
