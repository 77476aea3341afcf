"""Papers: studies declared as settings, tables, figures and claims, and the judge that compares them with a paper."""

from fedroam.papers.claims import Claim, all_of, equal, falls, order, over, ratio, rises, size, under
from fedroam.papers.files import make_files
from fedroam.papers.findings import Finding
from fedroam.papers.items import Cell, Curves, Doses, Heat, OwnFigure, Search, Table, table
from fedroam.papers.judging import Judgement, judge_study
from fedroam.papers.library import find_study, studies
from fedroam.papers.measures import (
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
from fedroam.papers.study import Scale, Study
from fedroam.papers.values import Measure, Quotient, Value, average, total

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
    "find_study",
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
    "studies",
    "table",
    "total",
    "under",
]
