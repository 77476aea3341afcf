"""Tables of the study of Reza et al.: the paper prints gains in its text, so gains are what ours are compared with."""

from __future__ import annotations

from fedroam.papers.reza import runs
from fedroam.papers.reza.runs import RUNS
from fedroam.papers.steered_variants import ALL, AXIS, FEW, LABELS, PATTERNS, STEERED
from fedroam.study.items import Table, table
from fedroam.study.measures import final
from fedroam.study.values import Settings, average


def gains(
    name: str, title: str, rows: dict[str, Settings], paper: list[list[float | None]], source: str
) -> Table:
    """Gains over random movement; rows: arguments of `SteeredVariants.variant` by label."""
    return table(
        name,
        title,
        rows,
        {"DAM minus random (points)": "dam", "DCM minus random (points)": "dcm"},
        lambda settings, pattern: RUNS.gain(pattern, **settings),
        paper,
        source=source,
        caption="Final accuracy, paired by seed. The paper's gains are approximate and have no errors.",
    )


FINAL = table(
    "final",
    "Final accuracy on MNIST (%)",
    {LABELS[pattern]: pattern for pattern in PATTERNS},
    runs.PANELS,
    lambda pattern, settings: RUNS.of(final, pattern, **settings),
    source="Fig. 2",
    caption="The paper draws curves and prints no numbers. Static clients have no Rm: their runs are the same.",
)
GAINED = gains(
    "gains",
    "Gains on MNIST",
    runs.PANELS,
    [[runs.GAINS[s["alpha"]]] * 2 for s in runs.PANELS.values()],
    "Sec. V-B",
)
GAINED_MOBILE = table(
    "gains-mobile",
    "Gains averaged over numbers of mobile clients",
    {"1, 3 and 5 mobile": FEW["mobile"], "1 to 8 mobile": ALL["mobile"]},
    {f"{LABELS[pattern]} minus random (points)": pattern for pattern in STEERED},
    lambda numbers, pattern: average(RUNS.gain(pattern, mobile=m) for m in numbers),
    [[runs.MOBILE_GAINS[pattern] for pattern in STEERED]] * 2,
    source="Sec. V-B1, with Fig. 3a",
    caption=f"Final accuracy, paired by seed. {AXIS}",
)
GAINED_SPARSE = gains(
    "gains-sparse",
    "Gains in a sparse network",
    {"Rc = 1, 3 mobile": {**runs.THREE, "radius": 1.0}},
    [[runs.SPARSE_GAIN] * 2],
    "Sec. V-B2, with Fig. 3b",
)
GAINED_LARGE = gains(
    "gains-large",
    "Gains in the larger network",
    runs.LARGE_PANELS,
    [[None, points] for points in runs.LARGE_GAINS.values()],
    "Sec. V-B4, with Fig. 4",
)
GAINED_CIFAR = gains(
    "gains-cifar",
    "Gains on CIFAR-10",
    runs.CIFAR_PANELS,
    [[runs.CIFAR_GAINS[step, pattern] for pattern in STEERED] for step in runs.LIMITS],
    "Sec. V-B5, with Fig. 5",
)

TABLES = (FINAL, GAINED, GAINED_MOBILE, GAINED_SPARSE, GAINED_LARGE, GAINED_CIFAR)
