"""Rates of links of one's own, held against what a link promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedroam.errors import InputError
from fedroam.links import everywhere_of, rates_of
from fedroam.links.link import Fixed, InstantLink, TimedLink


class Given(TimedLink):
    """A link of the rates that it is told."""

    rates: Any = None

    def rate(self, distance: np.ndarray, seed: int, pair: np.ndarray) -> Any:
        return self.rates


class Everywhere(Given):
    """One that says that it has one rate."""

    everywhere: float = 1.0


DISTANCE, PAIR = np.array([1.5, np.nan]), np.array([[0, 1], [2, -1]])
FROM_0 = "allowed are numbers from 0 on, or inf"


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        (None, "gave NoneType, allowed is one number for each transfer, float64 [2]"),
        (7.0, "gave float of shape [], float64, allowed is one number for each transfer, float64 [2]"),
        (
            np.ones(3),
            "gave ndarray of shape [3], float64, allowed is one number for each transfer, float64 [2]",
        ),
        (np.array([-2.0, 1.0]), f"gave -2 for the pair 0, 1 at 1.5 m, {FROM_0}"),
        (np.array([1.0, np.nan]), f"gave nan for the pair 2, -1 at nan m, {FROM_0}"),
    ],
)
def test_what_a_link_of_ones_own_gives_is_held_against_what_it_promises(rates: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        rates_of(Given(rates=rates), DISTANCE, 0, PAIR)
    assert str(raised.value) == f"link kind 'Given': rate: {told}"


def test_a_link_may_carry_nothing_or_take_no_time() -> None:
    assert rates_of(Given(rates=[0, np.inf]), DISTANCE, 0, PAIR).tolist() == [0.0, np.inf]


@pytest.mark.parametrize("wrong", [-1.0, -np.inf])
def test_so_is_the_one_rate_of_a_link(wrong: float) -> None:
    with pytest.raises(InputError) as raised:
        everywhere_of(Everywhere(everywhere=wrong))
    assert str(raised.value) == f"link kind 'Everywhere': everywhere: gave {wrong:g} for every pair, {FROM_0}"


def test_the_one_rate_of_a_link_is_known() -> None:
    assert everywhere_of(InstantLink()) == np.inf
    assert everywhere_of(Fixed(throughput=8.0)) == 1e6
    assert everywhere_of(Everywhere(everywhere=3.0)) == 3.0
    assert everywhere_of(Given()) is None
