"""Contacts over rounds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from fedroam.analysis.figures.curves import curves_figure
from fedroam.analysis.variants import Variant


def degree_figure(groups: Sequence[Variant]) -> Figure | None:
    """Mean number of clients in contact with a client, over rounds; None without numbers."""
    return curves_figure(groups, "degree_mean", "Mean degree (contacts per client)")
