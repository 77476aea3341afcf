"""Numbers as readers want them: with unit, error, and no more digits than the error allows."""

from __future__ import annotations

import math

import pandas as pd

from fedroam.analysis.evaluated_model import mean_model_meaning, meaning

NONE = "–"


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage, its sign kept on the same line: `71.9 %`."""
    return f"{share * 100:.{digits}f}\u00a0%"


def number(
    mean: float, error: float = math.nan, *, scale: float = 1.0, sign: bool = False, digits: int = 1
) -> str:
    """`79.9 ± 1.3`; without an error `79.9`; a dash for no number."""
    if not math.isfinite(mean):
        return NONE
    text = f"{mean * scale:{'+' if sign else ''}.{digits}f}".replace("-", "−")
    return f"{text} ± {error * scale:.{digits}f}" if math.isfinite(error) else text


Units = tuple[tuple[str, float], ...]
BYTES: Units = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
JOULES: Units = (("MJ", 1e6), ("kJ", 1e3), ("J", 1.0), ("mJ", 1e-3))


def largest(amount: float, units: Units) -> tuple[str, float]:
    """The largest unit, and its factor, that the amount is at least one of; else the smallest."""
    return next((unit for unit in units if abs(amount) >= unit[1]), units[-1])


def size(amount: float) -> str:
    """Bytes with a decimal unit: `34.7 MB`."""
    return f"{amount:.0f} B" if abs(amount) < 1e3 else _in_units(amount, BYTES)


def energy(amount: float) -> str:
    """Joules with a decimal unit: `4.46 kJ`."""
    return "0 J" if amount == 0 else _in_units(amount, JOULES)


def _in_units(amount: float, units: Units) -> str:
    if not math.isfinite(amount):
        return NONE
    unit, factor = largest(amount, units)
    value = amount / factor
    return f"{value:.3g} {unit}" if abs(value) < 999.5 else f"{value:.0f} {unit}"


def rounds_to(row: pd.Series) -> str:
    """When a variant reached the threshold: `34.0 ± 2.1`, `34.0 (2 of 3 seeds)`, `never`."""
    if not row["seeds"]:
        return NONE
    if not row["reached"]:
        return "never"
    text = number(row["rounds_to"], row["rounds_to_error"])
    return text if row["reached"] == row["seeds"] else f"{text} ({row['reached']} of {row['seeds']} seeds)"


# Columns of means with errors that a reader sees: name in the table, heading.
_MEANS = {
    "final": "Final accuracy (%)",
    "mean_model": "Averaged model (%)",
    "best": "Best (%)",
    "last_k": "Mean of last {last} (%)",
}


def columns(table: pd.DataFrame) -> list[str]:
    """The headings of a comparison table, with units."""
    threshold = table.attrs["threshold"]
    heads = ["Variant", "Seeds", *(text.format(last=table.attrs["last"]) for text in _MEANS.values())]
    heads += [
        f"Rounds to {percent(threshold)}" if math.isfinite(threshold) else "Rounds to threshold",
        "Sent",
    ]
    if knows_energy(table):
        at = percent(threshold) if math.isfinite(threshold) else "threshold"
        heads += [f"Sent to {at}", "Energy", f"Energy to {at}", "Wasted"]
    if len(table) > 1:
        heads.insert(3, f"Difference to {table.attrs['first']} (points)")
    return heads


def knows_energy(table: pd.DataFrame) -> bool:
    """Whether any variant of a comparison table has an account of energy."""
    return "energy" in table and bool(table["energy"].notna().any())


def cells(table: pd.DataFrame) -> list[list[str]]:
    """The rows of a comparison table as text, in the order of `columns`."""
    rows = []
    for _, row in table.iterrows():
        marks = ("" if not row["diverged"] else " †") + ("" if not row["unfinished"] else " *")
        texts = [str(row["variant"]) + marks, str(row["seeds"])]
        texts += [number(row[name], row[f"{name}_error"], scale=100) for name in _MEANS]
        texts += [rounds_to(row), size(row["bytes"])]
        if knows_energy(table):
            spent, wasted = row["energy"], row["energy_wasted"]
            share = wasted / spent if spent > 0 else math.nan
            never = "never" if row["seeds"] and not row["reached"] else ""
            texts += [never or size(row["bytes_to"]), energy(spent), never or energy(row["energy_to"])]
            texts.append(percent(share) if math.isfinite(share) else NONE)
        if len(table) > 1:
            gap = number(row["difference"], row["difference_error"], scale=100, sign=True)
            texts.insert(
                3, gap if row["difference_n"] in (0, row["seeds"]) else f"{gap} (n = {row['difference_n']})"
            )
        rows.append(texts)
    return rows


def remarks(table: pd.DataFrame) -> list[str]:
    """What the numbers of a comparison table mean, and which runs need a second look."""
    threshold, rule = table.attrs["threshold"], table.attrs["threshold_rule"]
    lines = [
        meaning(table.attrs["judges"]),
        mean_model_meaning(table.attrs["judges"]),
        "Best: the highest of all evaluated rounds, picked on the test samples themselves, so it flatters.",
        "Means ± standard error over seeds (no error where there is one seed).",
    ]
    if math.isfinite(threshold):
        lines.append(
            f"Rounds to {percent(threshold)} ({rule}): the first evaluated round with at least that accuracy, "
            "over the seeds that reached it."
        )
    if knows_energy(table):
        lines.append(
            "Energy: what all clients together spent on sending, receiving and training; servers and access points are "
            "not counted. Wasted: the share of it that went into updates that will never be aggregated."
        )
    if len(table) > 1:
        lines.append("Difference: final accuracy minus that of the first variant, paired by seed.")
    if (table["diverged"] != "").any():
        lines.append("† diverged in at least one seed.")
    if (table["unfinished"] != "").any():
        lines.append("* unfinished in at least one seed.")
    return lines
