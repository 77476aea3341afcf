"""Where everybody starts."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator

from fedroam.analysis.figures.drawing import (
    GRID,
    INK,
    MARKERS,
    MUTED,
    colour_of,
    legend,
    new_figure,
    short,
    style,
)
from fedroam.analysis.variants import looks_at
from fedroam.errors import InputError
from fedroam.recording import Run

_NUMBERED, _RINGED = 60, 200  # clients; with more, the map carries no numbers, no circles


def places_figure(run: Run) -> Figure:
    """A map of the start places of a run's clients by group, with radio range and the contacts of the start, metres.

    Where the range is infinite, or the federation asks for nobody's contacts, no circles are drawn. Kilometres where
    the world is larger than 5 km.
    """
    first = run.clients[run.clients["round"] == run.clients["round"].min()]
    here, groups = first[["x", "y"]].to_numpy(np.float64), first["group"].astype(str).to_numpy()
    reach = float(run.world["reach"])
    x0, y0, x1, y1 = (float(v) for v in run.world["bounds"])
    factor, unit = (1e-3, "km") if max(x1 - x0, y1 - y0) > 5000 else (1.0, "m")
    here, reach = here * factor, reach * factor
    low, high = np.array([x0, y0]) * factor, np.array([x1, y1]) * factor
    low, high = np.fmin(low, np.nanmin(here, axis=0)), np.fmax(high, np.nanmax(here, axis=0))
    pad = 0.06 * max(float((high - low).max()), 1e-9)
    with style():
        figure, ax = new_figure((5.8, 5.4))
        meets = looks_at(run, "contacts")
        ringed = meets and math.isfinite(reach) and len(here) <= _RINGED
        if ringed:
            for x, y in np.unique(here, axis=0):
                ax.add_patch(Circle((x, y), reach, facecolor=MUTED, alpha=0.05, edgecolor="none"))
                ax.add_patch(Circle((x, y), reach, fc="none", alpha=0.35, ec=MUTED, linewidth=0.6))
        lines = _lines(run, here) if meets else np.zeros((0, 2, 2))
        ax.add_collection(LineCollection(list(lines), colors=MUTED, linewidths=1.0, zorder=2))
        for k, group in enumerate(dict.fromkeys(groups)):
            mine = here[groups == group]
            label = f"{short(group, 30)} ({len(mine)})"
            ax.scatter(
                mine[:, 0],
                mine[:, 1],
                s=46 if len(here) <= _RINGED else 12,
                color=colour_of(k),
                marker=MARKERS[k % 6],
                zorder=3,
                label=label,
            )
        if len(here) <= _NUMBERED:
            for x, y in np.unique(here, axis=0):
                # Clients may share a place: their numbers then stand together.
                numbers = ", ".join(str(i) for i in first["client"].to_numpy()[(here == (x, y)).all(axis=1)])
                ax.annotate(
                    numbers, (x, y), (4, 4), textcoords="offset points", fontsize=8, color=INK, zorder=4
                )
        ax.set_xlim(low[0] - pad, high[0] + pad)
        ax.set_ylim(low[1] - pad, high[1] + pad)
        if 0.2 < (high[0] - low[0] + pad) / (high[1] - low[1] + pad) < 5:
            ax.set_aspect("equal")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
        ax.set_xlabel(f"x ({unit})")
        ax.set_ylabel(f"y ({unit})")
        ax.grid(color=GRID)
        known = f"radio range {reach:g} {unit}" if math.isfinite(reach) else "unlimited radio range"
        words = "line: contact at the start; " if len(lines) else ""
        legend(figure, ax, words + ("circle: " if ringed else "") + known if meets else "")
    return figure


def _lines(run: Run, here: np.ndarray) -> np.ndarray:
    """The contacts of the start, float64 [contacts, 2, 2]; none where the run did not record them, or too many."""
    try:
        contacts = run.contacts
    except InputError:
        return np.zeros((0, 2, 2))
    pairs = contacts.loc[contacts["round"] == run.clients["round"].min(), ["i", "j"]].to_numpy()
    return here[pairs] if len(pairs) <= 5000 else np.zeros((0, 2, 2))
