"""Table II of Jahani et al., what more heterogeneous data cost, and how soon everybody is linked."""

from __future__ import annotations

from fedroam.papers.jahani.runs import ALPHAS, RUNS, drop
from fedroam.papers.steered_variants import LABELS, PATTERNS, STEERED
from fedroam.study.items import one_column, table
from fedroam.study.measures import final, later_half, smallest_b

# Table II: final accuracy (%) by pattern, at alpha 0.05 and 0.1, with 3 mobile clients, Rc 3, Rm 5.
TABLE_II = {"dcm": (80.83, 89.65), "dam": (79.85, 88.51), "random": (72.90, 86.90), "static": (47.50, 66.84)}
# Smallest B over 1,000 rounds of the study's first ten worlds at full scale, least and most, by pattern and number of
# mobile clients: of movement alone, by benchmarks/smallest_b.py (docs/records/smallest-b.json), not the paper's.
SMALLEST_B = {
    "random": {3: (40, 108), 5: (21, 99)},
    "dam": {3: (19, 84), 5: (16, 54)},
    "dcm": {3: (14, 34), 5: (9, 21)},
}

_ROWS = {LABELS[pattern]: pattern for pattern in TABLE_II}
_COLUMNS = {f"α = {alpha:g} (%)": alpha for alpha in ALPHAS}


def _b_words() -> str:
    """The ranges of SMALLEST_B in a sentence."""
    told = [
        f"{LABELS[pattern]} " + " and ".join(f"{low} to {high}" for low, high in ranges.values())
        for pattern, ranges in SMALLEST_B.items()
    ]
    return "; ".join(told)


TABLE_2 = table(
    "table-2",
    "Final accuracy on MNIST, 20 clients, 3 mobile",
    _ROWS,
    _COLUMNS,
    lambda pattern, alpha: RUNS.of(final, pattern, mobile=3, alpha=alpha),
    list(TABLE_II.values()),
    source="Table II",
)
LATER_HALF = table(
    "table-2-later-half",
    "The same runs over their later half",
    _ROWS,
    _COLUMNS,
    lambda pattern, alpha: RUNS.of(later_half, pattern, mobile=3, alpha=alpha),
    caption="Not in the paper: a steadier number, fixed before any run, for who is ahead.",
)
DROPS = one_column(
    "drops",
    "What more heterogeneous data cost",
    _ROWS,
    "α = 0.1 minus α = 0.05 (points)",
    drop,
    [round(mild - strong, 2) for strong, mild in TABLE_II.values()],
    source="Sec. V-B3; differences of Table II",
)
CONNECTIVITY = table(
    "smallest-b",
    "Smallest B: rounds after which everybody is linked, again and again",
    {LABELS[pattern]: pattern for pattern in PATTERNS},
    {f"{mobile} mobile": mobile for mobile in (3, 5)},
    lambda pattern, mobile: RUNS.of(smallest_b, pattern, mobile=mobile),
    source="Property 1",
    caption=(
        "“never”: somebody is apart for the whole run. From the recorded contacts; whole windows only. The paper "
        "prints none; over 1,000 rounds of ten worlds at full scale it is, with 3 and 5 mobile clients: "
        f"{_b_words()}; static none (docs/records/smallest-b.json). A shorter run has fewer windows, and a B that is "
        "smaller or none."
    ),
)

KNOWLEDGE = table(
    "knowledge",
    "What steered clients know of the others: all from the start, or what they met in a warm-up phase",
    {LABELS[pattern]: pattern for pattern in STEERED},
    {"all (%)": "oracle", "from 20 rounds of warm-up (%)": "warm_up"},
    lambda pattern, knowledge: RUNS.of(later_half, pattern, knowledge=knowledge),
    source="Sec. IV, in words",
    caption="Accuracy over the later half of the run, 5 mobile, α = 0.05. In the warm-up phase mobile clients move at "
    "random; who was not met then stays unknown.",
)

TABLES = (TABLE_2, LATER_HALF, DROPS, CONNECTIVITY, KNOWLEDGE)
