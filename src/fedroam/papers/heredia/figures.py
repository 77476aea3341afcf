"""Figures 3 to 8 of de Heredia (2024)."""

from __future__ import annotations

from functools import partial

from fedroam.papers.heredia.runs import percent, variant
from fedroam.study.items import Curves
from fedroam.study.measures import by_group, neighbours_by_group


def _curves(item: str, title: str, shares: tuple[float, ...]) -> Curves:
    lines = {f"p = {percent(share)}": variant(share) for share in shares}
    return Curves(
        item, title, {"": lines}, caption="Mean over clients of the accuracy of each one's own model."
    )


def _by_mobility(item: str, share: float) -> Curves:
    lines = {
        f"{group} mobility": (variant(share), partial(by_group, group=group)) for group in ("high", "low")
    }
    return Curves(item, f"High-mobility and low-mobility clients, p = {percent(share)}", {"": lines})


def _neighbours(item: str, share: float) -> Curves:
    lines = {
        f"{group} mobility": (variant(share), partial(neighbours_by_group, group=group, name="cumulated"))
        for group in ("high", "low")
    }
    return Curves(
        item,
        f"Cumulated neighbours, p = {percent(share)}",
        {"": lines},
        ylabel="Cumulated neighbours",
        factor=1.0,
        caption="Mean over the clients of a group; whoever is met again counts again.",
    )


FIGURES = (
    _curves("figure-3", "Accuracy over rounds up to p = 60 %", (0.0, 0.2, 0.4, 0.6)),
    _curves("figure-4", "Accuracy over rounds from p = 60 %", (0.6, 0.8, 1.0)),
    _by_mobility("figure-5", 0.05),
    _by_mobility("figure-6", 0.8),
    _neighbours("figure-7", 0.05),
    _neighbours("figure-8", 0.8),
)
