"""Test accuracy of the averaged model over rounds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from fedroam.analysis.figures.curves import curves_figure
from fedroam.analysis.variants import Variant


def mean_model_figure(groups: Sequence[Variant]) -> Figure | None:
    """Test accuracy of the average of all clients' models, %, over rounds; None without numbers."""
    return curves_figure(groups, "accuracy_mean_model", "Averaged model's accuracy (%)", scale=100)
