"""Study: settings, tables, figures and claims, declared before they are run, and how they are judged."""

from fedroam.study.claims import Claim, all_of, equal, falls, order, over, ratio, rises, size, under
from fedroam.study.evaluation import Judgement, judge_study
from fedroam.study.files import make_files
from fedroam.study.findings import Finding
from fedroam.study.items import Cell, Curves, Doses, Heat, OwnFigure, Search, Table, table
from fedroam.study.measures import (
    best,
    by_group,
    degree_over_run,
    final,
    gap_over_run,
    group_over_run,
    last,
    mean_model,
    measure,
    neighbours_by_group,
    over_run,
    rounds_to,
    spent_to,
)
from fedroam.study.study import Scale, Study
from fedroam.study.values import Measure, Quotient, Value, average, total

__all__ = [
    "Cell",
    "Claim",
    "Curves",
    "Doses",
    "Finding",
    "Heat",
    "Judgement",
    "Measure",
    "OwnFigure",
    "Quotient",
    "Scale",
    "Search",
    "Study",
    "Table",
    "Value",
    "all_of",
    "average",
    "best",
    "by_group",
    "degree_over_run",
    "equal",
    "falls",
    "final",
    "gap_over_run",
    "group_over_run",
    "judge_study",
    "last",
    "make_files",
    "mean_model",
    "measure",
    "neighbours_by_group",
    "order",
    "over",
    "over_run",
    "ratio",
    "rises",
    "rounds_to",
    "size",
    "spent_to",
    "table",
    "total",
    "under",
]
