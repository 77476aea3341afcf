"""What de Heredia (2024) ran and printed: the variants, tables 1 to 8 and figures 3 to 8 (see `papers.heredia`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from fedroam.study.items import Curves, table
from fedroam.study.measures import (
    by_group,
    degree_over_run,
    final,
    gap_over_run,
    last,
    neighbours_by_group,
)
from fedroam.study.values import Measure, Value, average

Alpha = float | Literal["auto"] | None

SHARES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.0)
BOTH = SHARES[1:-1]  # where there are clients of both groups
ALPHAS = (0.1, 0.2, 0.3, 0.4, 1.0)


def name(share: float, alpha: Alpha = None, iid: bool = False) -> str:
    """The variant with a share of high-mobility clients; alpha None: plain averaging."""
    return ("iid," if iid else "") + f"p={share:g}" + ("" if alpha is None else f",alpha={alpha}")


def _changes(share: float, alpha: Alpha, iid: bool) -> Mapping[str, Any]:
    found: dict[str, Any] = {"mobility": {"high_share": share}}
    if alpha is not None:
        found["mixing"] = {"kind": "mobility_aware", "alpha": alpha}
    if iid:
        found["partition"] = "iid"
    return found


_RUNS: list[tuple[float, Alpha, bool]] = [
    *((share, alpha, iid) for iid in (False, True) for alpha in (None, *ALPHAS) for share in SHARES),
    *((share, "auto", False) for share in BOTH),
]
VARIANTS = {name(*key): _changes(*key) for key in _RUNS}

end = replace(final, digits=2)
late = last(3)
steady = replace(late, digits=2)
advantage = replace(gap_over_run("high", "low"), digits=2)
met_high, met_low = degree_over_run("high"), degree_over_run("low")


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def gain(share: float, iid: bool = False, measure: Measure = end) -> Value:
    """Accuracy over that without high-mobility clients."""
    return measure.of(name(share, iid=iid)) - measure.of(name(0.0, iid=iid))


def cost(share: float, alpha: Alpha = 1.0, measure: Measure = late) -> Value:
    """What plain averaging is ahead of weights by speed."""
    return measure.of(name(share)) - measure.of(name(share, alpha))


def chosen_over(alpha: Alpha, measure: Measure = late) -> Value:
    """Weights whose alpha each client chooses, minus those of a fixed alpha (None: plain), averaged over p.

    A fixed value has to do for every p.
    """
    return average(measure.of(name(p, "auto")) - measure.of(name(p, alpha)) for p in BOTH)


def against_plain(share: float, alpha: Alpha, iid: bool = False) -> Value:
    """Final accuracy with weights by speed minus that of plain averaging."""
    return end.of(name(share, alpha, iid)) - end.of(name(share, iid=iid))


def _column(numbers: tuple[float, ...]) -> tuple[tuple[float], ...]:
    return tuple((number,) for number in numbers)


_BY_SHARE = {f"p = {_percent(share)}": share for share in SHARES}
_MOVING = {label: share for label, share in _BY_SHARE.items() if share}
_MIXED = {label: share for label, share in _BY_SHARE.items() if share in BOTH}
_BY_ALPHA: dict[str, Alpha] = {f"alpha = {alpha}": alpha for alpha in ALPHAS}
_AVERAGES: dict[str, Alpha] = {"plain": None, **_BY_ALPHA}
_CHOSEN: dict[str, tuple[Measure, Alpha]] = {
    "Final accuracy, alpha chosen": (end, "auto"),
    "Final accuracy, alpha 0.4": (end, 0.4),
    "Advantage, alpha chosen": (advantage, "auto"),
    "Advantage, alpha 0.4": (advantage, 0.4),
}

TABLES = (
    table(
        "table-1",
        "Final accuracy over that without high-mobility clients (non-IID)",
        _MOVING,
        {"Improvement (points)": gain},
        lambda share, value: value(share),
        _column((2.73, 4.64, 6.51, 6.71, 8.56, 8.97)),
        source="Table 1",
    ),
    table(
        "table-2",
        "Accuracy of high-mobility clients over that of low-mobility ones (non-IID)",
        _MIXED,
        {"Advantage (points)": advantage},
        lambda share, measure: measure.of(name(share)),
        _column((4.81, 4.13, 2.53, 2.04, 0.90)),
        source="Table 2",
        caption="Averaged over the run.",
    ),
    table(
        "table-3",
        "The same advantage by way of averaging (non-IID)",
        _AVERAGES,
        _MIXED,
        lambda alpha, share: advantage.of(name(share, alpha)),
        (
            (4.81, 4.13, 2.53, 2.04, 0.90),
            (4.66, 3.79, 2.84, 1.90, 1.27),
            (3.35, 3.70, 3.00, 2.35, 1.20),
            (4.26, 3.92, 2.81, 1.97, 1.24),
            (3.16, 3.17, 2.64, 2.28, 1.19),
            (3.76, 3.45, 3.47, 3.44, 2.89),
        ),
        source="Table 3",
        caption="In points, averaged over the run.",
    ),
    table(
        "table-4",
        "Final accuracy with shares of speed (alpha = 1) minus that of plain averaging (non-IID)",
        _BY_SHARE,
        {"Difference (points)": 1.0},
        against_plain,
        _column((-2.28, -4.20, -5.11, -4.51, -2.03, -1.20, -0.56)),
        source="Table 4",
    ),
    table(
        "table-5",
        "Final accuracy over that without high-mobility clients (IID)",
        _MOVING,
        {"Improvement (points)": partial(gain, iid=True)},
        lambda share, value: value(share),
        _column((0.07, 1.12, 1.08, 1.43, 1.90, 2.11)),
        source="Table 5",
    ),
    table(
        "table-6",
        "Accuracy of high-mobility clients over that of low-mobility ones (IID)",
        _MIXED,
        {"Advantage (points)": advantage},
        lambda share, measure: measure.of(name(share, iid=True)),
        _column((1.57, 1.21, 0.94, 0.85, 0.60)),
        source="Table 6",
        caption="Averaged over the run.",
    ),
    table(
        "table-7",
        "Final accuracy, mobility-aware minus plain averaging (non-IID)",
        _BY_ALPHA,
        _BY_SHARE,
        lambda alpha, share: against_plain(share, alpha),
        (
            (0.02, 0.85, -1.53, 0.42, 1.33, -0.05, -0.70),
            (0.29, -0.37, 0.16, -0.07, 0.91, 0.01, -0.13),
            (0.91, -1.30, 0.05, -0.63, 0.53, 0.13, -0.30),
            (0.98, -1.40, -0.43, -1.05, 0.13, -1.17, -0.30),
            (-2.28, -4.20, -5.11, -4.51, -2.03, -1.20, -0.56),
        ),
        source="Table 7",
        caption="In points.",
    ),
    table(
        "table-8",
        "Final accuracy, mobility-aware minus plain averaging (IID)",
        _BY_ALPHA,
        _BY_SHARE,
        lambda alpha, share: against_plain(share, alpha, iid=True),
        (
            (-0.23, 0.39, -0.53, 0.18, 0.18, -0.09, -0.05),
            (0.17, 0.23, -0.42, -0.01, 0.06, 0.02, -0.09),
            (-0.34, -0.05, -1.03, 0.01, -0.03, -0.03, -0.03),
            (-0.90, 0.12, -1.02, -0.14, -0.13, -0.01, -0.05),
            (-1.73, -2.26, -4.37, -1.98, -1.98, -0.76, -0.24),
        ),
        source="Table 8",
        caption="In points.",
    ),
    table(
        "auto",
        "Weights by speed whose alpha each client chooses, and alpha = 0.4, minus plain averaging (non-IID)",
        _MIXED,
        _CHOSEN,
        lambda share, pair: pair[0].of(name(share, pair[1])) - pair[0].of(name(share)),
        source="not in the paper",
        caption="In points. Negative: a smaller advantage of high-mobility clients than with plain averaging.",
    ),
    table(
        "auto-over-fixed",
        "Weights by speed whose alpha each client chooses, minus each fixed alpha (non-IID)",
        {"alpha = 0 (plain)": None, **_BY_ALPHA},
        {
            "Final accuracy": end,
            "Accuracy, last 3 evaluations": steady,
            "Advantage of high mobility": advantage,
        },
        chosen_over,
        source="not in the paper",
        caption="In points, averaged over p from 5 % to 80 %. It is better where accuracy is above 0, and evens out "
        "more where the advantage is below.",
    ),
    table(
        "neighbours",
        "Neighbours a round (non-IID)",
        _MIXED,
        {"High mobility": met_high, "Low mobility": met_low},
        lambda share, measure: measure.of(name(share)),
        source="App. B shows them for two values of p, in figures",
    ),
)


def _curves(item: str, title: str, shares: tuple[float, ...]) -> Curves:
    lines = {f"p = {_percent(share)}": name(share) for share in shares}
    return Curves(
        item, title, {"": lines}, caption="Mean over clients of the accuracy of each one's own model."
    )


def _by_mobility(item: str, share: float) -> Curves:
    lines = {f"{group} mobility": (name(share), partial(by_group, group=group)) for group in ("high", "low")}
    return Curves(item, f"High-mobility and low-mobility clients, p = {_percent(share)}", {"": lines})


def _neighbours(item: str, share: float) -> Curves:
    lines = {
        f"{group} mobility": (name(share), partial(neighbours_by_group, group=group, name="cumulated"))
        for group in ("high", "low")
    }
    return Curves(
        item,
        f"Cumulated neighbours, p = {_percent(share)}",
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
