"""The table of `fedroam energy`: what Table 10 of Farcas et al. has, measured here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table

from fedroam.cli.console import grid

if TYPE_CHECKING:
    from fedroam.deploy.metering.measured import Measured


def energy_table(found: Measured) -> tuple[Table, list[str]]:
    """The table, and what is to be known beside it, a line each."""
    from fedroam.deploy.metering.readings import WORK

    shown = grid("energy", "J", "+- J")
    rows = [(str(r[0]), float(r[1]), float(r[2])) for r in found.totals().itertuples(index=False)]
    rows += [(f"of it, {what}", float(found.table[what].sum()), math.nan) for what in WORK]
    rows.append(("pending at the end", found.pending, math.nan))
    for name, joules, deviation in rows:
        shown.add_row(name, f"{joules:,.3f}", "" if math.isnan(deviation) else f"{deviation:,.3f}")
    table, notes = found.table, []
    seconds, seen = float(table["seconds"].sum()), float(table["measured"].sum())
    nodes = table["client"].nunique()
    notes.append(
        f"{nodes} of {found.clients} clients have a meter; it saw {seen:,.1f} of {seconds:,.1f} s of their work"
    )
    if not math.isnan(found.rest):
        notes.append(f"outside their work they drew {found.rest:.3f} W on average")
    if found.idle:
        notes.append(f"{found.idle:g} W are taken off while they work")
    return shown, notes
