"""What Jahani et al. print for a claim, in words for its card."""

from __future__ import annotations

from collections.abc import Iterable

from fedroam.papers.jahani.runs import ALPHAS
from fedroam.papers.jahani.tables import TABLE_II
from fedroam.papers.steered_variants import LABELS

# Gains over random movement with 5 mobile clients, by alpha.
GAINS = {0.05: 'DCM and DAM "8% and 5% higher accuracy"', 0.1: '"the gain remains around 4%"'}
BOTH_GAINS = "; ".join(f"{words} (α = {alpha:g})" for alpha, words in GAINS.items())
ON_IMAGES = '"a consistent gain of DCM and DAM over the baseline"'
IN_LARGER = '"the superiority of our methodology over the baseline in larger networks"'


def table_ii(pattern: str, other: str) -> str:
    """Two rows of Table II side by side."""
    rows = zip(ALPHAS, TABLE_II[pattern], TABLE_II[other], strict=True)
    told = [f"{first:.2f} % against {second:.2f} % (α = {alpha:g})" for alpha, first, second in rows]
    return f"Table II, 3 mobile: {', '.join(told)}"


def drops(patterns: Iterable[str]) -> str:
    """What more heterogeneous data cost, as differences of Table II, which the paper does not print of all."""
    lost = {LABELS[pattern]: TABLE_II[pattern][1] - TABLE_II[pattern][0] for pattern in patterns}
    return f"by Table II {' and '.join(f'{label} {points:.2f}' for label, points in lost.items())} points"
