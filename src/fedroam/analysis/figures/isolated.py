"""Clients without contact, over rounds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from fedroam.analysis.figures.curves import curves_figure
from fedroam.analysis.variants import Variant


def isolated_figure(groups: Sequence[Variant]) -> Figure | None:
    """Clients that are present and met nobody, mean over seeds, over rounds; None without numbers.

    As a share of all clients, %, where every variant has the same number of clients; else as a number.
    """
    clients = {int(run.settings["clients"]) for group in groups for run in group.runs}
    if len(clients) == 1:
        return curves_figure(
            groups, "isolated", "Clients without contact (% of all)", scale=100 / clients.pop()
        )
    return curves_figure(groups, "isolated", "Clients without contact (number)")
