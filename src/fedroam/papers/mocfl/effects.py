"""MoCFL against FedGH with the same server and start, and what each setting brings (see `papers.mocfl`)."""

from __future__ import annotations

from collections.abc import Callable

from fedroam.papers.mocfl.runs import (
    BASELINES,
    FEW,
    MANY,
    balanced,
    best,
    late,
    name,
)
from fedroam.study.items import Table, table
from fedroam.study.values import Measure, Value

_CLIENTS = {f"NC = {n}": n for n in (FEW, MANY)}
PARTS = {"no-affinity": "affinity step", "no-history": "historical features", "own-head": "global head"}

Contrast = Callable[[int, Measure], Value]


def _minus(first: tuple[str, str], second: tuple[str, str]) -> Contrast:
    """One variant minus another, all clients active: (method, what is changed in it) each."""

    def value(clients: int, measure: Measure = late) -> Value:
        one, other = (measure.of(name(kind, clients, without=key)) for kind, key in (first, second))
        return one - other

    return value


AS_DECLARED = _minus(("mocfl", ""), ("fedgh", ""))
AS_FEDGH = _minus(("mocfl", "as-fedgh"), ("fedgh", ""))
AT_64 = _minus(("mocfl", "equal-start"), ("fedgh", "server-batch-64"))
SERVER_AND_START = _minus(("mocfl", ""), ("mocfl", "as-fedgh"))

AGAINST_FEDGH: dict[str, Contrast] = {
    "as declared: 64 pairs a step and independent start against one pair and equal start": AS_DECLARED,
    "both with one pair a step and equal start": AS_FEDGH,
    "both with 64 pairs a step and equal start": AT_64,
}
BATCH: dict[str, Contrast] = {
    "MoCFL, independent start": _minus(("mocfl", "server-batch-1"), ("mocfl", "")),
    "MoCFL, equal start": _minus(("mocfl", "as-fedgh"), ("mocfl", "equal-start")),
    "FedGH": _minus(("fedgh", ""), ("fedgh", "server-batch-64")),
}
UNTRAINED = _minus(("fedgh", "untrained-head"), ("fedgh", ""))
START: dict[str, Contrast] = {
    "64 pairs a step": _minus(("mocfl", "equal-start"), ("mocfl", "")),
    "one pair a step": _minus(("mocfl", "as-fedgh"), ("mocfl", "server-batch-1")),
}
PART: dict[str, Contrast] = {
    word: _minus(("mocfl", "as-fedgh"), ("mocfl", f"as-fedgh-{key}")) for key, word in PARTS.items()
}

_ROWS: dict[str, tuple[str, str]] = {
    "MoCFL: 64 pairs, independent start": ("mocfl", ""),
    "MoCFL: 64 pairs, equal start": ("mocfl", "equal-start"),
    "MoCFL: one pair, independent start": ("mocfl", "server-batch-1"),
    "MoCFL: one pair, equal start": ("mocfl", "as-fedgh"),
    "… without affinity step": ("mocfl", "as-fedgh-no-affinity"),
    "… without historical features": ("mocfl", "as-fedgh-no-history"),
    "… without global head": ("mocfl", "as-fedgh-own-head"),
    "FedGH: one pair, equal start": ("fedgh", ""),
    "FedGH: 64 pairs, equal start": ("fedgh", "server-batch-64"),
    "FedGH: its server's head never trained": ("fedgh", "untrained-head"),
    **{label: (kind, "") for kind, label in BASELINES.items()},
}
_COLUMNS = {
    f"{head}, {word} (%)": (n, measure)
    for word, measure in (("last ten rounds", late), ("best round", best), ("balanced", balanced))
    for head, n in _CLIENTS.items()
}
_EFFECTS: dict[str, Contrast] = {
    **{f"MoCFL minus FedGH, {label}": value for label, value in AGAINST_FEDGH.items()},
    **{f"One pair a step instead of 64: {label}": value for label, value in BATCH.items()},
    **{f"Equal start instead of independent: MoCFL, {label}": value for label, value in START.items()},
    "FedGH: its server's head never trained": UNTRAINED,
    **{f"MoCFL's {label}, one pair a step and equal start": value for label, value in PART.items()},
}

EQUAL_SERVERS: tuple[Table, ...] = (
    table(
        "ablation-server",
        "MoCFL and FedGH by the server's batch and the start models, all clients active",
        _ROWS,
        _COLUMNS,
        lambda row, of: of[1].of(name(row[0], of[0], without=row[1])),
        source="not in the paper; added after the first run",
        caption="Pairs: class means that the server's head takes in a step. The rows with … are of one pair and equal "
        "start; without affinity step and history that is FedGH itself. In the public code of FedGH's authors the "
        "server's head is never trained: it steps other parameters than those it hands out. Balanced accuracy is the "
        "last ten rounds'.",
        baselines=tuple(BASELINES),
    ),
    table(
        "effects",
        "What the server's batch, the start models and MoCFL's parts bring, all clients active",
        _EFFECTS,
        {
            f"{head}, {word} (points)": (n, measure)
            for word, measure in (("last ten rounds", late), ("best round", best))
            for head, n in _CLIENTS.items()
        },
        lambda contrast, of: contrast(*of),
        source="not in the paper; added after the first run",
        caption="Differences paired by seed: below 0, what is named lowers accuracy.",
    ),
)
