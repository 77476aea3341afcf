"""A comparison of variants as a table of text: headings, cells, remarks; and on the terminal."""

from __future__ import annotations

import math

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedroam.analysis import fleet
from fedroam.analysis.evaluated_model import accuracy_meaning, mean_model_meaning, shared_model
from fedroam.analysis.formatting import NONE, duration, energy, number, percent, size
from fedroam.analysis.summary import Comparison
from fedroam.errors import one_line


def _means(comparison: Comparison) -> dict[str, str]:
    """The columns of means with errors that tell a reader something: name in the table, heading."""
    heads = {"final": "Final accuracy (%)"}
    table, one_model = comparison.table, shared_model(comparison.evaluated_models)
    if one_model and "own" in comparison.evaluated_on.values():
        heads["mean_model"] = "Samples pooled (%)"
    elif not one_model and bool(table["mean_model"].notna().any()):
        heads["mean_model"] = "Averaged model (%)"
    heads["best"] = "Best (%)"
    counted = _counted(comparison)
    if max(counted, default=0) > 1:  # else it is the final accuracy
        fewer = " or fewer" if len(counted) > 1 else ""
        heads["last_k"] = f"Mean of last {max(counted)}{fewer} (%)"
    return heads


def _counted(comparison: Comparison) -> list[int]:
    """Of how many evaluated rounds the means of the last are, each number once, ascending."""
    table = comparison.table
    return sorted({int(number) for number in table.loc[table["seeds"] > 0, "last_counted"]})


def columns(comparison: Comparison) -> list[str]:
    """The headings of a comparison, with units."""
    threshold = comparison.threshold
    heads = ["Variant", "Seeds", *_means(comparison).values()]
    at = percent(threshold) if math.isfinite(threshold) else "threshold"
    heads.append(f"Rounds to {at}")
    if _knows_time(comparison.table):
        heads.append(f"Time to {at}")
    if _knows_contacts(comparison.table):
        heads += ["Contacts that fit", "Broken a round"]
    heads.append("Sent")
    if _knows_energy(comparison.table):
        heads += [f"Sent to {at}", "Energy", f"Energy to {at}", "Wasted"]
    if _knows_batteries(comparison.table):
        heads += ["From batteries", f"From batteries to {at}"]
    if len(comparison.table) > 1:
        heads.insert(3, f"Difference to {comparison.first} (points)")
    return heads


def _knows_energy(table: pd.DataFrame) -> bool:
    """Whether any variant of a comparison has an account of energy."""
    return "energy" in table and bool(table["energy"].notna().any())


def _knows_time(table: pd.DataFrame) -> bool:
    """Whether any variant of a comparison has a clock of seconds."""
    return "time" in table and bool(table["time"].notna().any())


def _knows_contacts(table: pd.DataFrame) -> bool:
    """Whether any variant of a comparison tells in which contacts models fit."""
    return "fit" in table and bool(table["fit"].notna().any())


def _knows_batteries(table: pd.DataFrame) -> bool:
    """Whether any variant of a comparison has batteries."""
    return "drawn" in table and bool(table["drawn"].notna().any())


def cells(comparison: Comparison) -> list[list[str]]:
    """The rows of a comparison as text, in the order of `columns`."""
    table, means, rows = comparison.table, _means(comparison), []
    for _, row in table.iterrows():
        marks = ("" if not row["diverged"] else " †") + ("" if not row["unfinished"] else " *")
        texts = [str(row["variant"]) + marks, str(row["seeds"])]
        texts += [number(row[name], row[f"{name}_error"], scale=100) for name in means]
        never = "never" if row["seeds"] and not row["reached"] else ""
        texts.append(_rounds_to(row))
        if _knows_time(table):
            texts.append(never or duration(row["time_to"]))
        if _knows_contacts(table):
            texts.append(percent(row["fit"]) if math.isfinite(row["fit"]) else NONE)
            texts.append(f"{row['broken']:,.1f}" if math.isfinite(row["broken"]) else NONE)
        texts.append(size(row["bytes"]))
        if _knows_energy(table):
            spent, wasted = row["energy"], row["energy_wasted"]
            share = wasted / spent if spent > 0 else math.nan
            texts += [never or size(row["bytes_to"]), energy(spent), never or energy(row["energy_to"])]
            texts.append(percent(share) if math.isfinite(share) else NONE)
        if _knows_batteries(table):
            texts += [energy(row["drawn"]), never or energy(row["drawn_to"])]
        if len(table) > 1:
            gap = number(row["difference"], row["difference_error"], scale=100, sign=True)
            texts.insert(
                3, gap if row["difference_n"] in (0, row["seeds"]) else f"{gap} (n = {row['difference_n']})"
            )
        rows.append(texts)
    return rows


def remarks(comparison: Comparison) -> list[str]:
    """What the numbers of a comparison mean, and which runs need a second look."""
    table, threshold = comparison.table, comparison.threshold
    lines = [
        accuracy_meaning(comparison.evaluated_models),
        *_meaning_of_mean_model(comparison),
        "Best: the highest of all evaluated rounds, picked on the test samples themselves, so it flatters.",
        "Means over seeds; ± is the standard error (none where there is one seed). Bytes, energy and times have theirs "
        + "in the file of `fedroam compare --csv`.",
    ]
    counted = _counted(comparison)
    if counted and counted[0] < comparison.last:
        which = "; ".join(f"{row['variant']}: {row['last_counted']}" for _, row in table.iterrows())
        lines.append(
            f"There are fewer than {comparison.last} evaluated rounds after round 0, which does not count ({which}): "
            "lower evaluate_every for more."
        )
    if math.isfinite(threshold):
        lines.append(
            f"Rounds to {percent(threshold)} ({comparison.threshold_rule}): the first evaluated round with at least "
            "that accuracy, over the seeds that reached it."
        )
    if _knows_time(table) and math.isfinite(threshold):
        lines.append("Time: by the clock of the simulated world, to the end of that round.")
    if _knows_contacts(table):
        timed = table[table["fit"].notna()]
        lines += fleet.remarks(["fit", "broken"])
        lines.append(fleet.which_rounds(all_told=bool((timed["every_round"] == timed["seeds"]).all())))
    if _knows_energy(table):
        lines.append(
            "Energy: what all clients together spent on sending, receiving and training; servers and access points are "
            "not counted. Wasted: the share of it that went into updates that will never be aggregated."
        )
    if _knows_batteries(table):
        lines.append(
            "From batteries: what all clients together drew by being on, training, sending and moving, to the end and "
            "to that round."
        )
    if len(table) > 1:
        lines.append("Difference: final accuracy minus that of the first variant, paired by seed.")
    if (table["diverged"] != "").any():
        lines.append("† diverged in at least one seed.")
    if (table["unfinished"] != "").any():
        lines.append("* unfinished in at least one seed.")
    return lines


def _meaning_of_mean_model(comparison: Comparison) -> list[str]:
    """What the column of the averaged model says, nothing where it is not shown."""
    if "mean_model" not in _means(comparison):
        return []
    return [mean_model_meaning(comparison.evaluated_models, comparison.evaluated_on)]


def _rounds_to(row: pd.Series) -> str:
    """When a variant reached the threshold: `34.0 ± 2.1`, `34.0 (2 of 3 seeds)`, `never`."""
    if not row["seeds"]:
        return NONE
    if not row["reached"]:
        return "never"
    text = number(row["rounds_to"], row["rounds_to_error"])
    return text if row["reached"] == row["seeds"] else f"{text} ({row['reached']} of {row['seeds']} seeds)"


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print a comparison, what its numbers mean, and the runs that diverged or did not finish.

    Variants are rows; where the terminal is too narrow for that and holds them side by side, they are columns.
    """
    lying = [[one_line(text) for text in row] for row in (columns(comparison), *cells(comparison))]
    standing = [list(column) for column in zip(*lying, strict=True)]
    shown = lying if _width(lying) <= console.width or _width(standing) > console.width else standing
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for k, head in enumerate(shown[0]):
        grid.add_column(escape(head), justify="left" if k == 0 else "right", overflow="fold")
    for row in shown[1:]:
        grid.add_row(*(escape(text) for text in row))
    console.print(grid)
    for line in remarks(comparison):
        console.print(escape(one_line(line)), style="dim", highlight=False)
    for note in comparison.notes:
        console.print(escape(one_line(f"Note: {note}")), style="yellow", highlight=False)


def _width(rows: list[list[str]]) -> int:
    """Characters that a table needs on one line: its widest cells and two spaces between columns."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2
