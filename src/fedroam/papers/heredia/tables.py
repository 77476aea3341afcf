"""Tables 1 to 8 of de Heredia (2024), and ours on an alpha that each client chooses."""

from __future__ import annotations

from functools import partial

from fedroam.papers.heredia.measures import (
    advantage,
    against_plain,
    chosen_over,
    end,
    gain,
    met_high,
    met_low,
    steady,
)
from fedroam.papers.heredia.runs import ALPHAS, BOTH, SHARES, Alpha, percent, variant
from fedroam.study.items import table
from fedroam.study.values import Measure


def _column(numbers: tuple[float, ...]) -> tuple[tuple[float], ...]:
    return tuple((number,) for number in numbers)


_BY_SHARE = {f"p = {percent(share)}": share for share in SHARES}
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
        lambda share, measure: measure.of(variant(share)),
        _column((4.81, 4.13, 2.53, 2.04, 0.90)),
        source="Table 2",
        caption="Averaged over the run.",
    ),
    table(
        "table-3",
        "The same advantage by way of averaging (non-IID)",
        _AVERAGES,
        _MIXED,
        lambda alpha, share: advantage.of(variant(share, alpha)),
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
        lambda share, measure: measure.of(variant(share, iid=True)),
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
        lambda share, pair: pair[0].of(variant(share, pair[1])) - pair[0].of(variant(share)),
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
        lambda share, measure: measure.of(variant(share)),
        source="App. B shows them for two values of p, in figures",
    ),
)
