"""Consensus distance over rounds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from fedroam.analysis.figures.curves import curves_figure
from fedroam.analysis.variants import Variant


def consensus_figure(groups: Sequence[Variant]) -> Figure | None:
    """Sum over clients of the squared distance of parameters to their mean (no unit), over rounds.

    Jahani et al., Lemma 3. None without numbers."""
    return curves_figure(groups, "consensus_distance", "Consensus distance Σ‖x − x̄‖²", log=True)
