"""Kept runs read as plain lines, copies of some of them, and tables reckoned from them again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedroam.study.items import Cell, Curves, Doses, Figure, Heat, Table
from fedroam.study.kept import FILE, MOST_SEEDS
from fedroam.study.values import Quotient, Term, Value
from support.pages import ROOT

RESULTS = ROOT / "results"


def lines(record: str) -> list[dict[str, Any]]:
    """The kept runs of a record of the project, read in the plainest way."""
    return plain_lines(RESULTS / record)


def plain_lines(folder: Path) -> list[dict[str, Any]]:
    """The kept runs in a folder, with the numbers by their names, read in the plainest way."""
    head, *found = map(json.loads, (folder / FILE).read_text(encoding="utf-8").splitlines())
    for line in found:
        line["numbers"] = {head["names"][int(place)]: values for place, values in line["numbers"].items()}
    return found


def copied(
    record: str,
    root: Path,
    seeds: int = MOST_SEEDS,
    wanted: Callable[[dict[str, Any]], bool] = lambda line: True,
) -> Path:
    """The folder of a copy of a record below `root`, with the wanted runs of the first so many seeds alone."""
    (folder := root / record).mkdir(parents=True)
    first, *rest = (RESULTS / record / FILE).read_text(encoding="utf-8").splitlines()
    head = json.loads(first)
    head["seeds"] = min(head["seeds"], seeds)
    there = [text for text in rest if wanted(run := json.loads(text)) and run["seed"] < seeds]
    (folder / FILE).write_text("\n".join([json.dumps(head), *there, ""]), encoding="utf-8")
    return folder


class ByHand:
    """What the lines of a record say of tables, by a slow and plain reckoning that shares nothing with the reader."""

    def __init__(self, kept: Any) -> None:
        self.kept, self.seeds = kept, range(len(kept.result.seeds))
        found = lines(f"{kept.study.name}/{kept.scale}")
        self.numbers = {
            line["digest"] + ("@network" if "where" in line else ""): line["numbers"] for line in found
        }
        self.curves = {line["digest"]: line.get("curves", {}) for line in found}
        self.variants = set(kept.study.needs(kept.scale))
        self.keys = {
            (variant, seed): kept.study.key(variant, kept.scale, seed)
            for variant in self.variants
            for seed in self.seeds
        }

    def _of(self, term: Term, seed: int) -> float | None:
        found = self.numbers.get(self.keys.get((term.variant, seed), ""), {}).get(term.measure.name)
        return None if found is None else float(found[-1])

    def _value(self, value: Value | Quotient, seed: int) -> float | None:
        if isinstance(value, Quotient):
            first, second = self._value(value.first, seed), self._value(value.second, seed)
            if first is None or second is None:
                return None
            return first / second if second and math.isfinite(second) else math.nan
        found = [(term.weight, self._of(term, seed)) for term in value.terms]
        if any(one is None for _, one in found):
            return None
        return sum(weight * one for weight, one in found if one is not None)

    def values(self, cell: Cell) -> list[float]:
        """The numbers of a cell, one a seed that has all it needs."""
        if not set(cell.value.variants) <= self.variants:
            return []
        found = [self._value(cell.value, seed) for seed in self.seeds]
        return [one for one in found if one is not None]

    def filled(self, table: Table) -> int:
        """How many of its cells have a number."""
        found = [self.values(cell) for cell in table.cells]
        return sum(bool(values) and not any(map(math.isnan, values)) for values in found)

    def state(self, item: Table | Figure) -> str:
        """How many of the runs that an item needs there are: of how many seeds and variants."""
        asked = {self.keys[v, s] for v in item.variants if v in self.variants for s in self.seeds}
        runs, each = len(asked & self.numbers.keys()), []
        for variant in item.variants:
            if variant in self.variants:
                each.append(sum(self.keys[variant, seed] in self.numbers for seed in self.seeds))
        there = [seeds for seeds in each if seeds]
        if not there:
            return f"{runs} runs kept"
        low, high = min(there), max(there)
        seeds = f"{low} to {high} seeds" if low < high else f"{low} seed{'' if low == 1 else 's'}"
        variants = f"{len(each)} variant{'' if len(each) == 1 else 's'}"
        if len(there) < len(each):
            variants = f"{len(there)} of {variants}"
        return f"{runs} run{'' if runs == 1 else 's'} kept ({seeds} of {variants})"

    def drawn(self, figure: Figure) -> list[int]:
        """Of how many seeds each line, point or cell of a figure is that is drawn; of other figures, how many seeds of
        each variant there are."""
        if isinstance(figure, Curves):
            found = []
            for lines_of_panel in figure.panels.values():
                for label, line in lines_of_panel.items():
                    variant, by_round = (line, figure.by_round) if isinstance(line, str) else line
                    name = by_round if isinstance(by_round, str) else f"{figure.name}: {label}"
                    keys = [self.keys.get((variant, seed), "") for seed in self.seeds]
                    found.append(sum(name in self.curves.get(key, {}) for key in keys))
            return [n for n in found if n]
        if isinstance(figure, Doses | Heat):
            values = (
                list(figure.cells.values())
                if isinstance(figure, Heat)
                else [value for line in figure.lines.values() for value in line.values()]
            )
            if isinstance(figure, Doses) and isinstance(figure.bound, Value):
                values.append(figure.bound)
            return [
                n for value in values if (n := sum(self._value(value, s) is not None for s in self.seeds))
            ]
        there = [sum(self.keys.get((v, s), "") in self.numbers for s in self.seeds) for v in figure.variants]
        return [n for n in there if n]
