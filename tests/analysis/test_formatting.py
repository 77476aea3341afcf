"""Numbers as readers want them."""

from __future__ import annotations

import math

from fedroam.analysis.formatting import energy, number, size


def test_joules_have_a_unit_that_fits() -> None:
    amounts = (0, 4.461e3, 12.4, 0.0133, 2.5e6, float("nan"), 999.6)
    assert [energy(amount) for amount in amounts] == [
        "0 J", "4.46 kJ", "12.4 J", "13.3 mJ", "2.5 MJ", "–", "1000 J",
    ]  # fmt: skip


def test_numbers_as_words() -> None:
    assert number(0.256, 0.031, scale=100) == "25.6 ± 3.1"
    assert number(-0.1, scale=100, sign=True) == "−10.0"
    assert number(math.nan, 1.0) == "–"
    assert [size(v) for v in (12, 999, 1000, 34_700_000, 999_700_000, 2e12, math.nan)] == [
        "12 B", "999 B", "1 kB", "34.7 MB", "1000 MB", "2 TB", "–",
    ]  # fmt: skip
