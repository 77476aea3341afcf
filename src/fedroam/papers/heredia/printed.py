"""What the tables of de Heredia (2024) print for a claim, in words for its card."""

from __future__ import annotations

from collections.abc import Sequence

from fedroam.papers.heredia.runs import BOTH, Alpha, percent
from fedroam.papers.heredia.tables import TABLES

_TABLES = {table.source: table for table in TABLES}
_BY_ALPHA = (3, 7, 8)  # tables with a row for each way of averaging


def number(table: int, share: float, alpha: Alpha = None) -> float:
    """What a table prints for a share of high-mobility clients. alpha: in tables 3, 7 and 8 (None: plain averaging)."""
    found, label = _TABLES[f"Table {table}"], f"p = {percent(share)}"
    if table in _BY_ALPHA:
        return found.printed("plain" if alpha is None else f"alpha = {alpha}", label)
    return found.printed(label, found.cells[0].column)


def points(value: float) -> str:
    """A number as the tables print it, which give all of theirs a sign: `+2.73`."""
    return f"{value:+.2f}".replace("-", "−")


def some(table: int, shares: Sequence[float], alpha: Alpha = None) -> str:
    """The numbers of some shares: `+4.81 points (p = 5 %), +4.13 (20 %)`."""
    first, *others = shares
    told = [f"{points(number(table, first, alpha))} points (p = {percent(first)})"]
    told += [f"{points(number(table, share, alpha))} ({percent(share)})" for share in others]
    return ", ".join(told)


def pair(table: int, alpha: Alpha = None) -> str:
    """The numbers of the two smallest shares: `+4.81 and +4.13`."""
    return " and ".join(points(number(table, share, alpha)) for share in BOTH[:2])


def mean(table: int, shares: Sequence[float], alpha: Alpha = None) -> str:
    """The mean of those numbers, which the paper does not print."""
    return points(sum(number(table, share, alpha) for share in shares) / len(shares))


def apart(table: int, share: float, other: float) -> str:
    """How far the numbers of two shares are apart, which the paper does not print, without a sign."""
    return f"{abs(number(table, share) - number(table, other)):.2f}"
