"""What the runs of a study say beyond its claims, in sentences that are made of the measured numbers each time.

Nothing here is a test: a sentence describes the runs that there are, and changes with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedroam.analysis.statistics.paired import interval
from fedroam.analysis.variants import mean_and_error
from fedroam.study.values import Reader, Value


@dataclass(frozen=True)
class Finding:
    """A heading and the sentences below it."""

    title: str
    sentences: tuple[str, ...]


# What a study has to say of its runs; a finding whose runs are missing is left out by the function.
Describe = Callable[[Reader], Sequence[Finding]]


@dataclass(frozen=True)
class Effect:
    """A value over the seeds that have run, with a label.

    mean, error: NaN without a seed, the error also with one; side: 1 or -1 where the 95 % interval of the mean
    (Student's t over seeds, not corrected for how many are looked at) lies above or below 0, else 0, as where seeds
    agree exactly and have no interval.
    """

    label: str
    unit: str
    numbers: tuple[float, ...]
    digits: int = 1

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return mean_and_error(list(self.numbers))[0]

    @property
    def side(self) -> int:
        """The side of 0 on which the interval lies."""
        low, high = interval(list(self.numbers)) if self.numbers else (math.nan, math.nan)
        return 1 if low > 0 else -1 if high < 0 else 0

    @property
    def size(self) -> str:
        """`+1.2 ± 0.3 points, n = 4` of four seeds; a unit of % has no sign."""
        mean, error = mean_and_error(list(self.numbers))
        sign = "" if self.unit == "%" else "+"
        text = f"{mean:{sign}.{self.digits}f}".replace("-", "−")
        text += f" ± {error:.{self.digits}f}" if math.isfinite(error) else ""
        return f"{text} {self.unit}".rstrip() + f", n = {len(self.numbers)}"

    @property
    def words(self) -> str:
        """`label (+1.2 ± 0.3 points, n = 4)`."""
        return f"{self.label} ({self.size})"


def effects(read: Reader, values: Mapping[str, Value]) -> list[Effect]:
    """Values by label, read from the runs; those of which no seed has run, or that are no number, are left out."""
    found = [Effect(k, v.unit, tuple(read(v).values()), v.digits) for k, v in values.items()]
    return [one for one in found if one.numbers and math.isfinite(one.mean)]


def by_side(found: Iterable[Effect]) -> dict[int, list[Effect]]:
    """Effects above 0, below 0, and not told apart from it (see `Effect.side`), each from the largest downwards."""
    ordered = sorted(found, key=lambda one: -one.mean)
    return {side: [one for one in ordered if one.side == side] for side in (1, -1, 0)}


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`; `none` of nothing."""
    if not parts:
        return "none"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def named(found: Iterable[Effect]) -> str:
    """Effects with their sizes, in one list."""
    return listed([one.words for one in found])
