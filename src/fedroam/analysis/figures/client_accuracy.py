"""How evenly accuracy and energy are spread over clients at the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedroam.analysis.figures.drawing import INK, MUTED, colour_of, jitter, new_figure, short_each, style
from fedroam.analysis.formatting import JOULES, largest
from fedroam.analysis.variants import Variant

_DOTS = 600  # clients a variant; more are not drawn one by one


def client_accuracy_figure(compared: Sequence[Variant]) -> Figure | None:
    """Accuracy of every client in the last recorded round, all seeds together, one row a variant (None: no numbers)."""
    found = [final_values(variant, "accuracy") * 100 for variant in compared]
    return _spread(compared, found, "Test accuracy of each client at the end (%)")


def client_energy_figure(compared: Sequence[Variant]) -> Figure | None:
    """Energy of every client since the start, all seeds together, one row a variant.

    None where nobody has spent any, or nobody kept an account.
    """
    found = [final_values(variant, "energy") for variant in compared]
    most = max((float(values.max()) for values in found if len(values)), default=0.0)
    if not most > 0:
        return None
    unit, factor = largest(most, JOULES)
    return _spread(compared, [values / factor for values in found], f"Energy of each client ({unit})")


def _spread(compared: Sequence[Variant], found: Sequence[np.ndarray], label: str) -> Figure | None:
    """One row a variant: dots are clients, the bar spans the quartiles, the stroke is the median."""
    if not any(len(values) for values in found):
        return None
    with style():
        figure, ax = new_figure((5.8, min(1.5 + 0.62 * len(compared), 9.0)))
        for k, values in enumerate(found):
            if not len(values):
                continue
            low, median, high = np.percentile(values, [25, 50, 75])
            if len(values) <= _DOTS:
                rows = k + jitter(len(values), 0.62)
                ax.scatter(np.sort(values), rows, s=13, color=colour_of(k), alpha=0.55, linewidth=0)
            ax.plot([values.min(), values.max()], [k, k], color=MUTED, linewidth=1, zorder=3)
            ax.plot([low, high], [k, k], color=INK, linewidth=4, solid_capstyle="butt", zorder=4)
            ax.plot([median] * 2, [k - 0.3, k + 0.3], color=INK, linewidth=2.2, zorder=5)
        names = short_each([variant.label for variant in compared], 28)
        told = [_who(variant, len(values)) for variant, values in zip(compared, found, strict=True)]
        labels = [f"{name}\n{who}" for name, who in zip(names, told, strict=True)]
        ax.set_yticks(range(len(compared)), labels)
        ax.set_ylim(len(compared) - 0.45, -0.55)
        ax.grid(visible=False, axis="y")
        ax.set_xlabel(label)
        handles = [
            Line2D([], [], marker="o", linestyle="", markersize=4, color=MUTED, label="client"),
            Line2D([], [], color=INK, linewidth=4, label="quartiles"),
            Line2D([], [], marker="|", ls="", markersize=11, markeredgewidth=2.2, color=INK, label="median"),
            Line2D([], [], color=MUTED, linewidth=1, label="lowest to highest"),
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=4, handlelength=1.4, columnspacing=1.2)
    return figure


def _who(variant: Variant, found: int) -> str:
    """How many clients a row shows."""
    runs = len(variant.included)
    if runs > 1 and found % runs == 0:
        return f"{found // runs} clients × {runs} seeds"
    return f"{found} clients"


def final_values(variant: Variant, column: str) -> np.ndarray:
    """A column of `clients` in the last round of each run that counts, all clients; those without are left out."""
    parts = [np.zeros(0)]
    for run in variant.included:
        clients = run.clients
        if column in clients:
            parts.append(clients.loc[clients["round"] == clients["round"].max(), column].to_numpy(np.float64))
    values = np.concatenate(parts)
    return values[np.isfinite(values)]
