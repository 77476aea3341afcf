"""Figures 2, 3, 5, 6 and 7 of Farcas et al., and ours on access points and traces (see `papers.mohawk`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from matplotlib.figure import Figure as Drawing

from fedroam.papers.mohawk.drawings import against_energy, availability, charged_energy, maps, printed_energy
from fedroam.papers.mohawk.measures import DAY, end, energy_as_printed, energy_true, exchange, of
from fedroam.papers.mohawk.runs import (
    BY_LABEL,
    DATA,
    K2,
    LEARNT,
    SPLITS,
    TRACE_LABELS,
    main,
    on_trace,
    present,
    with_access_points,
)
from fedroam.papers.mohawk.tables import ACCESS_POINTS
from fedroam.study.items import BANDS, Curves, Doses, Figure, OwnFigure
from fedroam.study.values import Kind, Measure, Reader

MONTH = {
    "HierFAVG, MACFL": present("month", "hierfavg"),
    **{f"MOHAWK, k2 = {k2}": present("month", "mohawk", k2) for k2 in K2},
}


FIGURE_2 = OwnFigure(
    "figure-2",
    "Points of interest",
    (present("month", "mohawk"),),
    maps,
    "Venues of the trace within the square. As many spread uniformly beside them.",
)
_NORMALISED = (
    'Normalised: 1 is the most that any of the four aggregates then. The paper says no more than "1.0 as the maximum '
    'number of devices available for aggregation at every time".'
)
FIGURE_3 = (
    OwnFigure(
        "figure-3",
        "Devices aggregated an hour, mean of each day",
        tuple(MONTH.values()),
        partial(availability, lines=MONTH, hours=DAY),
        f"Stand-in month. {_NORMALISED}",
    ),
    OwnFigure(
        "figure-3-week",
        "Devices aggregated in each hour of the first week",
        tuple(MONTH.values()),
        partial(availability, lines=MONTH, hours=1, until=7 * DAY),
        "Stand-in month. In hours in which nobody is aggregated all lines are at zero.",
    ),
)


def _panels(data: str, splits_by_k2: Sequence[int]) -> dict[str, dict[str, str]]:
    return {
        f"{SPLITS[split][0]}, k2 = {k2}": {
            word: main(data, split, method, k2) for word, method in BY_LABEL.items()
        }
        for split in SPLITS
        for k2 in splits_by_k2
    }


def _energy(data: str, split: str, measure: Measure, name: str, title: str) -> Doses:
    return Doses(
        f"{name}-{data}-{split}",
        f"{title}: {DATA[data]}, {SPLITS[split][0]}",
        {word: {k2: of(measure, data, split, method, k2) for k2 in K2} for word, method in BY_LABEL.items()},
        "Edge rounds per global round, k2",
        "Energy per device (J)",
        caption="No point where some seed never reaches it.",
    )


@dataclass(frozen=True)
class AgainstEnergy:
    """Accuracy against energy in a panel for each split and k2: as the paper reckons it, or what was charged."""

    kind: ClassVar[Kind] = "figure"
    partial: ClassVar[bool] = False
    marks: ClassVar[str] = BANDS
    name: str
    title: str
    caption: str
    panels: Mapping[str, Mapping[str, str]]
    charged: bool

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants of its lines."""
        return tuple(dict.fromkeys(v for lines in self.panels.values() for v in lines.values()))

    def draw(self, read: Reader) -> Drawing | None:
        """A line for each method, its accuracy and its energy averaged over seeds."""
        printed = printed_energy(partial(read.measured, exchange))
        found = {variant: read.runs(variant) for variant in self.variants}
        if not any(found.values()):
            return None
        return against_energy(
            found, tuple(self.panels.items()), charged_energy if self.charged else printed, len(K2)
        )


def _against(data: str, name: str, title: str, caption: str = "", *, charged: bool = False) -> AgainstEnergy:
    shown = "Up to where the slowest reaches the threshold (dashed); a dot is where the mean does."
    return AgainstEnergy(
        f"{name}-{data}",
        f"{title}: {DATA[data]}",
        f"{shown} {caption}".strip(),
        _panels(data, K2),
        charged,
    )


_TRUE = "Energy spent until the threshold"
FIGURES: tuple[Figure, ...] = (
    FIGURE_2,
    *FIGURE_3,
    *(
        Curves(
            f"figure-5-{data}",
            f"Accuracy on {word}, k2 = 5",
            _panels(data, (5,)),
            ylabel="Accuracy of the cloud's model (%)",
        )
        for data, word in DATA.items()
    ),
    *(
        Curves(
            f"figure-6-{data}",
            f"Loss on {word}",
            _panels(data, K2),
            "loss",
            "Test loss of the cloud's model",
            1.0,
        )
        for data, word in DATA.items()
    ),
    *(
        _against(
            data,
            "figure-7",
            "Accuracy against energy as the paper reckons",
            "Rounds x joules of one full exchange. The figure itself was not at hand; its text speaks of energy until "
            "the threshold, with each k2.",
        )
        for data in DATA
    ),
    *(
        _energy(data, split, energy_as_printed, "figure-7", "Energy to the threshold as the paper reckons")
        for data in DATA
        for split in SPLITS
    ),
    *(
        _against(data, "energy-true", "Accuracy against what devices were charged for", charged=True)
        for data in DATA
    ),
    *(_energy("mnist", split, energy_true, "energy-true", _TRUE) for split in SPLITS),
    Doses(
        "access-points",
        "How many access points there are: MNIST, non-IID, k2 = 5",
        {
            word: {n: end.of(with_access_points("mnist", "non-iid", m, n)) for n in ACCESS_POINTS}
            for word, m in BY_LABEL.items()
        },
        "Access points",
        "Final accuracy (%)",
    ),
    Curves(
        "traces-learnt-curves",
        "Accuracy on each trace (MNIST, non-IID, k2 = 5)",
        {TRACE_LABELS[t]: {word: on_trace(t, m) for word, m in BY_LABEL.items()} for t in LEARNT},
        ylabel="Accuracy of the cloud's model (%)",
    ),
)
