"""The table of `fedroam emulate --check`: how far a run on a network is the simulated one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from fedroam.deploy.emulation.agreement import Compared


def agreement_table(compared: Sequence[Compared]) -> Table:
    """A row for each thing that was compared."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("network against simulation", "rounds", "values", "differ by", "allowed", ""):
        grid.add_column(
            title, justify="right" if title in ("rounds", "values", "differ by", "allowed") else "left"
        )
    for each in compared:
        word = "the same bits" if each.identical else "agrees" if each.agrees else "DIFFERS"
        share = " of it" if each.relative else ""
        grid.add_row(
            each.what,
            f"{each.rounds}",
            f"{each.values:,}",
            f"{each.difference:.3g}{share}",
            f"{each.allowed:g}{share}",
            word,
        )
    return grid
