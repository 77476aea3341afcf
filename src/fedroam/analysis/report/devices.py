"""What the fleet does with its time and energy, and what every device has spent: tables of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import pandas as pd

from fedroam.analysis.fleet import (
    ENERGY,
    HEADS,
    first_empty_words,
    last_clients,
    of_every_round,
    of_run,
    remarks,
    shown,
    told,
    which_rounds,
)
from fedroam.analysis.formatting import JOULES, NONE, largest, number
from fedroam.analysis.report.page import folded, table_html
from fedroam.analysis.variants import Variant, mean_and_error

_ROWS = 200  # devices in the table; of more, those that spent most


def energy_by_client(variant: Variant) -> pd.DataFrame:
    """client, mean, error and n: joules of each client in the last recorded round, mean over the runs that count.

    Empty where they have no account. `device` is its name, where the runs call it by one, and by the same.
    """
    found = []
    for run in variant.included:
        clients = run.clients
        if "energy" in clients:
            found.append(clients[clients["round"] == clients["round"].max()].set_index("client"))
    if not found:
        return pd.DataFrame(columns=["client", "device", "mean", "error", "n"])
    rows = []
    for client in found[0].index:
        values = [float(table["energy"].loc[client]) for table in found if client in table.index]
        names = {
            str(table["device"].loc[client]) for table in found if "device" in table and client in table.index
        }
        mean, error = mean_and_error(values)
        rows.append((int(client), names.pop() if len(names) == 1 else "", mean, error, len(values)))
    return pd.DataFrame(rows, columns=["client", "device", "mean", "error", "n"])


def fleet_table(compared: Sequence[Variant]) -> str:
    """What the fleet of each variant does with its time and energy, and who ran empty first (HTML): nothing where no
    run has a clock of seconds, or nobody spent anything."""
    worlds = [[of_run(run) for run in variant.included] for variant in compared]
    known = told([world for each in worlds for world in each])
    if not known:
        return ""
    tables = [
        _facts(compared, worlds, [name for name in known if (name in ENERGY) is of_energy])
        for of_energy in (False, True)
    ]
    lines = ["Means over seeds.", *remarks(known)]
    timed = [run.rounds for variant in compared for run in variant.included if "fit" in run.rounds]
    if timed:
        lines.append(which_rounds(all_told=all(of_every_round(rounds) for rounds in timed)))
    for variant in compared:
        for run in variant.included[:1]:
            if words := first_empty_words(last_clients(run)):
                lines.append(f"First to run empty, {variant.label}, seed {run.status['seed']}: {words}.")
    listed = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<h3 id="fleet">The fleet</h3>{"".join(tables)}<ul class="remarks">{listed}</ul>'


def _facts(
    compared: Sequence[Variant], worlds: Sequence[Sequence[Mapping[str, float]]], names: Sequence[str]
) -> str:
    """A table of some facts, a row a variant (HTML); nothing without facts."""
    if not names:
        return ""
    rows = [
        [escape(variant.label), *(escape(shown(name, each).replace(" ", "\u00a0")) for name in names)]
        for variant, each in zip(compared, worlds, strict=True)
    ]
    return table_html(["Variant", *(HEADS[name][0] for name in names)], rows, "numbers")


def energy_table(compared: Sequence[Variant]) -> str:
    """Energy by client and variant, those that spent most first, folded (HTML); nothing where nobody spent any."""
    tables = [energy_by_client(variant).set_index("client") for variant in compared]
    every = pd.concat([table["mean"] for table in tables], axis=1) if tables else pd.DataFrame()
    means = every.to_numpy(np.float64)
    if not np.isfinite(means).any() or not np.nanmax(means) > 0:
        return ""
    unit, factor = largest(float(np.nanmax(means)), JOULES)
    order = every.mean(axis=1).sort_values(ascending=False, kind="stable").index
    devices = {client: name for table in tables for client, name in table["device"].items() if name}
    rows = []
    for client in order[:_ROWS]:
        name = f" ({devices[client]})" if client in devices else ""
        row = [escape(f"Client {client}{name}")]
        for table in tables:
            there = client in table.index
            mean, error = (
                (float(table[part].loc[client]) for part in ("mean", "error")) if there else (np.nan, np.nan)
            )
            row.append(escape(number(mean / factor, error / factor, digits=2)) if there else NONE)
        rows.append(row)
    heads = ["Client", *(f"{variant.label} ({unit})" for variant in compared)]
    cut = f", the {_ROWS} that spent most" if len(order) > _ROWS else ""
    told = (
        '<p class="small">Sent, received and trained since the start; mean ± standard error over seeds. With other '
        "seeds client 7 is another device with other data, unless devices have names.</p>"
    )
    return folded(f"Energy of each client ({len(order)}{cut})", told + table_html(heads, rows, "numbers"))
