"""What the study of de Heredia measures, and the differences of variants that its tables and claims are about."""

from __future__ import annotations

from dataclasses import replace

from fedroam.papers.heredia.runs import BOTH, Alpha, variant
from fedroam.study.measures import degree_over_run, final, gap_over_run, last
from fedroam.study.values import Measure, Value, average

end = replace(final, digits=2)
late = last(3)
steady = replace(late, digits=2)
advantage = replace(gap_over_run("high", "low"), digits=2)
met_high, met_low = degree_over_run("high"), degree_over_run("low")


def gain(share: float, iid: bool = False, measure: Measure = end) -> Value:
    """Accuracy over that without high-mobility clients."""
    return measure.of(variant(share, iid=iid)) - measure.of(variant(0.0, iid=iid))


def step(lower: float, higher: float, iid: bool = False, measure: Measure = late) -> Value:
    """What a larger share of high-mobility clients brings over a smaller one."""
    return measure.of(variant(higher, iid=iid)) - measure.of(variant(lower, iid=iid))


def cost(share: float, alpha: Alpha = 1.0, measure: Measure = late) -> Value:
    """What plain averaging is ahead of weights by speed."""
    return measure.of(variant(share)) - measure.of(variant(share, alpha))


def chosen_over(alpha: Alpha, measure: Measure = late) -> Value:
    """Weights whose alpha each client chooses, minus those of a fixed alpha (None: plain), averaged over p.

    A fixed value has to do for every p.
    """
    return average(measure.of(variant(p, "auto")) - measure.of(variant(p, alpha)) for p in BOTH)


def against_plain(share: float, alpha: Alpha, iid: bool = False) -> Value:
    """Final accuracy with weights by speed minus that of plain averaging."""
    return end.of(variant(share, alpha, iid)) - end.of(variant(share, iid=iid))
