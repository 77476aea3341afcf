"""Rates by the power received: worked by hand, against the standards' tables, and how shadowing is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedroam.components import build
from fedroam.errors import InputError
from fedroam.links.path_loss import RADIOS, PathLoss

PAIR = np.array([[0, 1]])


def link(**fields: object) -> PathLoss:
    made = build("link", {"kind": "path_loss", "shadowing": 0.0, **fields})
    assert isinstance(made, PathLoss)
    return made


def rates(part: PathLoss, *distances: float) -> list[float]:
    """Mbps."""
    at = np.array(distances, dtype=np.float64)
    return list(part.rate(at, 0, np.tile(PAIR, (len(at), 1))) * 8e-6)


def test_power_by_hand() -> None:
    # Friis at 1 m and 2437 MHz: 20 log10(4 pi 2437e6 / c) = 40.18 dB. 100 m with exponent 3: 60 dB more.
    received = link().received(np.array([1.0, 10.0, 100.0]), 0, np.tile(PAIR, (3, 1)))
    np.testing.assert_allclose(received, [20 - 40.185, 20 - 70.185, 20 - 100.185], atol=0.01)


def test_free_space_is_the_formula_of_friis_at_any_reference() -> None:
    at, pairs = np.array([3.0, 30.0, 300.0]), np.tile(PAIR, (3, 1))
    near, far = (link(exponent=2.0, reference=reference).received(at, 0, pairs) for reference in (1.0, 100.0))
    expected = 20 + 20 * np.log10(299_792_458 / 2437e6 / (4 * math.pi * at))
    np.testing.assert_allclose(near, expected, atol=1e-9)
    np.testing.assert_allclose(far, expected, atol=1e-9)


@pytest.mark.parametrize("standard", [name for name, radio in RADIOS.items() if radio.steps])
def test_each_modulation_begins_at_its_least_power(standard: str) -> None:
    steps = RADIOS[standard].steps
    powers = np.array([power for power, _ in steps])
    part = link(standard=standard)
    assert part.megabits(powers).tolist() == [rate for _, rate in steps]
    assert part.megabits(powers - 1e-9).tolist() == [0.0, *(rate for _, rate in steps[:-1])]


def test_rates_of_802_11n_are_bits_in_a_symbol() -> None:
    """52 subcarriers, 4 us: bits of the constellation times code rate (IEEE 802.11, Sec. 19.5)."""
    codes = [(1, 1 / 2), (2, 1 / 2), (2, 3 / 4), (4, 1 / 2), (4, 3 / 4), (6, 2 / 3), (6, 3 / 4), (6, 5 / 6)]
    expected = [52 * bits * code / 4 for bits, code in codes]
    np.testing.assert_allclose([rate for _, rate in RADIOS["802.11n"].steps], expected)


def test_rates_of_802_11ac_are_bits_in_a_symbol() -> None:
    """234 subcarriers, 4 us; the table is rounded to a tenth."""
    codes = [(1, 1 / 2), (2, 1 / 2), (2, 3 / 4), (4, 1 / 2), (4, 3 / 4)]
    codes += [(6, 2 / 3), (6, 3 / 4), (6, 5 / 6), (8, 3 / 4), (8, 5 / 6)]
    expected = [234 * bits * code / 4 for bits, code in codes]
    np.testing.assert_allclose([rate for _, rate in RADIOS["802.11ac"].steps], expected, atol=0.051)


def test_bluetooth_by_the_microseconds_of_its_packets() -> None:
    """A packet of 251 bytes, 150 us, an empty packet, 150 us; 244 bytes of it are the value."""
    two = (2 + 4 + 2 + 251 + 3) * 4 + 150 + (2 + 4 + 2 + 3) * 4 + 150  # 2 M: 4 us a byte
    # Coded: preamble 80, address 256, coding indicator 16 and its end 24 us; then the rest at S us a bit, and its end.
    eight, half = (
        (336 + 16 + 24 + (2 + 251 + 3) * 8 * s + 3 * s)
        + 150
        + (336 + 16 + 24 + (2 + 3) * 8 * s + 3 * s)
        + 150
        for s in (8, 2)
    )
    np.testing.assert_allclose(
        [rate for _, rate in RADIOS["ble"].steps], [8 * 244 / t for t in (eight, half, two)], rtol=1e-12
    )


def test_shannon_by_hand() -> None:
    # 1 MHz under 4 dB: noise -174 + 60 + 4 = -110 dBm. At -110 + 10 log10(15) dBm: log2(16) = 4 Mbps.
    part = link(standard="shannon", bandwidth=1.0, noise_figure=4.0)
    assert part.megabits(np.array([-110 + 10 * math.log10(15)]))[0] == pytest.approx(4.0)


def test_the_rate_of_a_sidelink_is_truncated() -> None:
    part = link(standard="lte_sidelink")
    noise = -174 + 10 * math.log10(10e6) + 9
    low, just, high = part.megabits(noise + np.array([-10.001, -9.999, 60.0]))
    assert low == 0
    assert just == pytest.approx(0.4 * 10 * math.log2(1.1), rel=1e-3)
    assert high == pytest.approx(20.0)  # 2 bit/s/Hz
    new = link(standard="nr_sidelink").megabits(np.array([0.0]))[0]
    assert new == pytest.approx(0.4 * 20 * math.log2(1 + 10**2.2))


def test_what_is_set_takes_the_place_of_the_standard() -> None:
    assert rates(link(power=20.0, gain=6.0), 100.0) == rates(link(power=26.0), 100.0)
    assert rates(link(steps=((-90.0, 1.0), (-60.0, 10.0)), efficiency=0.5), 1.0, 100.0, 1e4) == [
        5.0,
        0.5,
        0.0,
    ]
    assert rates(link(elsewhere=7.0), math.nan) == [7.0]


@given(st.sampled_from(sorted(RADIOS)), st.lists(st.floats(0, 1e5), min_size=2, max_size=9), st.floats(2, 5))
def test_nearer_is_never_slower(standard: str, distances: list[float], exponent: float) -> None:
    found = rates(link(standard=standard, exponent=exponent), *sorted(distances))
    assert found == sorted(found, reverse=True)


def test_shadowing_is_normal_once_a_pair_and_the_same_both_ways() -> None:
    part, still = link(shadowing=6.0), link()
    i, j = np.triu_indices(150, k=1)
    pairs, at = np.stack([i, j], axis=1), np.full(len(i), 50.0)
    drawn = part.received(at, 7, pairs) - still.received(at, 7, pairs)
    assert stats.kstest(drawn / 6.0, "norm").pvalue > 1e-4
    np.testing.assert_array_equal(part.received(at, 7, pairs[:, ::-1]), part.received(at, 7, pairs))
    np.testing.assert_allclose(part.received(at * 3, 7, pairs) - still.received(at * 3, 7, pairs), drawn)
    other = part.received(at, 8, pairs) - still.received(at, 8, pairs)
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 4 / math.sqrt(len(i)), "another seed, other shadows"
    # Neither rows nor neighbours of pairs go together.
    matrix = np.zeros((150, 150))
    matrix[i, j] = drawn
    rows = matrix.sum(axis=1)[:-10] / (6.0 * np.sqrt(np.arange(149, 9, -1)))
    assert stats.kstest(rows, "norm").pvalue > 1e-4


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"bandwidth": 20.0}, "bandwidth has no meaning where rates have steps"),
        ({"standard": "shannon", "steps": ((-80.0, 1.0),), "noise_figure": 5.0}, "noise_figure has no"),
        ({"steps": ((-80.0, 1.0), (-90.0, 2.0))}, "the dBm rising"),
        ({"steps": ()}, "steps = "),
        ({"standard": "wifi"}, "802.11n"),
    ],
)
def test_what_does_not_fit_is_told(fields: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        link(**fields)
