"""Test loss over rounds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from fedroam.analysis.figures.curves import curves_figure
from fedroam.analysis.variants import Variant


def loss_figure(groups: Sequence[Variant]) -> Figure | None:
    """Mean over clients of the test loss of each one's own model, nats, over rounds; None without numbers."""
    return curves_figure(groups, "loss", "Clients' test loss (nats)", log=True)
