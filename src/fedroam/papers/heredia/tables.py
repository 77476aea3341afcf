"""Tables 1 to 8 of de Heredia (2024), and ours on an alpha that each client chooses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fedroam.papers.heredia import measures
from fedroam.papers.heredia.measures import gain
from fedroam.papers.heredia.runs import ALPHAS, BOTH, SHARES, Alpha, percent, variant
from fedroam.study.items import Table, one_column, table
from fedroam.study.values import Measure

_BY_SHARE = {f"p = {percent(share)}": share for share in SHARES}
_MOVING = {label: share for label, share in _BY_SHARE.items() if share}
_MIXED = {label: share for label, share in _BY_SHARE.items() if share in BOTH}
_BY_ALPHA: dict[str, Alpha] = {f"alpha = {alpha}": alpha for alpha in ALPHAS}
_AVERAGES: dict[str, Alpha] = {"plain": None, **_BY_ALPHA}
_CHOSEN: dict[str, tuple[Measure, Alpha]] = {
    "Final accuracy, alpha chosen": (measures.end, "auto"),
    "Final accuracy, alpha 0.4": (measures.end, 0.4),
    "Advantage, alpha chosen": (measures.advantage, "auto"),
    "Advantage, alpha 0.4": (measures.advantage, 0.4),
}


def _split(iid: bool) -> str:
    return "(IID)" if iid else "(non-IID)"


def _gains(number: int, numbers: Sequence[float], *, iid: bool = False) -> Table:
    return one_column(
        f"table-{number}",
        f"Final accuracy over that without high-mobility clients {_split(iid)}",
        _MOVING,
        "Improvement (points)",
        partial(gain, iid=iid),
        numbers,
        source=f"Table {number}",
    )


def _advantages(number: int, numbers: Sequence[float], *, iid: bool = False) -> Table:
    return one_column(
        f"table-{number}",
        f"Accuracy of high-mobility clients over that of low-mobility ones {_split(iid)}",
        _MIXED,
        "Advantage (points)",
        lambda share: measures.advantage.of(variant(share, iid=iid)),
        numbers,
        source=f"Table {number}",
        caption="Averaged over the run.",
    )


def _against_plain(number: int, numbers: Sequence[Sequence[float]], *, iid: bool = False) -> Table:
    return table(
        f"table-{number}",
        f"Final accuracy, mobility-aware minus plain averaging {_split(iid)}",
        _BY_ALPHA,
        _BY_SHARE,
        lambda alpha, share: measures.against_plain(share, alpha, iid),
        numbers,
        source=f"Table {number}",
        caption="In points.",
    )


TABLES = (
    _gains(1, (2.73, 4.64, 6.51, 6.71, 8.56, 8.97)),
    _advantages(2, (4.81, 4.13, 2.53, 2.04, 0.90)),
    table(
        "table-3",
        "The same advantage by way of averaging (non-IID)",
        _AVERAGES,
        _MIXED,
        lambda alpha, share: measures.advantage.of(variant(share, alpha)),
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
    one_column(
        "table-4",
        "Final accuracy with shares of speed (alpha = 1) minus that of plain averaging (non-IID)",
        _BY_SHARE,
        "Difference (points)",
        lambda share: measures.against_plain(share, 1.0),
        (-2.28, -4.20, -5.11, -4.51, -2.03, -1.20, -0.56),
        source="Table 4",
    ),
    _gains(5, (0.07, 1.12, 1.08, 1.43, 1.90, 2.11), iid=True),
    _advantages(6, (1.57, 1.21, 0.94, 0.85, 0.60), iid=True),
    _against_plain(
        7,
        (
            (0.02, 0.85, -1.53, 0.42, 1.33, -0.05, -0.70),
            (0.29, -0.37, 0.16, -0.07, 0.91, 0.01, -0.13),
            (0.91, -1.30, 0.05, -0.63, 0.53, 0.13, -0.30),
            (0.98, -1.40, -0.43, -1.05, 0.13, -1.17, -0.30),
            (-2.28, -4.20, -5.11, -4.51, -2.03, -1.20, -0.56),
        ),
    ),
    _against_plain(
        8,
        (
            (-0.23, 0.39, -0.53, 0.18, 0.18, -0.09, -0.05),
            (0.17, 0.23, -0.42, -0.01, 0.06, 0.02, -0.09),
            (-0.34, -0.05, -1.03, 0.01, -0.03, -0.03, -0.03),
            (-0.90, 0.12, -1.02, -0.14, -0.13, -0.01, -0.05),
            (-1.73, -2.26, -4.37, -1.98, -1.98, -0.76, -0.24),
        ),
        iid=True,
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
            "Final accuracy": measures.end,
            "Accuracy, last 3 evaluations": measures.steady,
            "Advantage of high mobility": measures.advantage,
        },
        measures.chosen_over,
        source="not in the paper",
        caption="In points, averaged over p from 5 % to 80 %. It is better where accuracy is above 0, and evens out "
        "more where the advantage is below.",
    ),
    table(
        "neighbours",
        "Neighbours a round (non-IID)",
        _MIXED,
        {"High mobility": measures.met_high, "Low mobility": measures.met_low},
        lambda share, measure: measure.of(variant(share)),
        source="App. B shows them for two values of p, in figures",
    ),
)
