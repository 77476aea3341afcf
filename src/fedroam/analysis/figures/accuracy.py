"""Test accuracy over rounds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from fedroam.analysis.figures.curves import curves_figure
from fedroam.analysis.variants import Variant


def accuracy_figure(groups: Sequence[Variant]) -> Figure | None:
    """Mean over clients of the test accuracy of each one's own model, %, over rounds; None without numbers."""
    return curves_figure(groups, "accuracy", "Clients' test accuracy (%)", scale=100)
