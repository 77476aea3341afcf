"""The user's own table: a CSV file with a column of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import field_validator, model_validator
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.data.cache import remember
from fedroam.data.dataset import Dataset
from fedroam.data.preparing import column_statistics, held_out, none_held_out
from fedroam.data.preprocessing import CategoricalColumn, NumericColumn, TablePreprocessing
from fedroam.data.sources.places import find_file
from fedroam.data.sources.tables import (
    SEPARATORS,
    as_classes,
    check_classes,
    is_separator,
    label_order,
    other_separator,
    read_header,
    read_table,
)
from fedroam.errors import InputError, unknown

MOST_VALUES = 10_000  # distinct ones of a categorical column: more are names of rows, not categories
MOST_CELLS = 2**31  # inputs of all rows that come of categorical columns: 8 GiB


@register("data", "csv")
class Csv(Part):
    """Your own table: a CSV file (UTF-8, header line, packed with gzip or not), one row a sample.

    Every column is a numeric feature, but for the label, the columns in `categorical` (one-hot), those in
    `columns` (kept beside the samples for the partition kind "column", no features) and those in `ignore`.
    A hole, a word among numbers or a row of another length is an error that names line and column.
    """

    path: str = field(..., "the CSV file (relative: from here, data.root or FEDROAM_DATA)")
    root: str | None = field(None, "folder to look in first, before FEDROAM_DATA", identity=False)
    label: str = field("label", "the column of classes (numbers or words)")
    categorical: tuple[str, ...] = field((), "columns of words or codes: one input for each distinct value")
    columns: tuple[str, ...] = field((), "columns to keep for natural partitions, not features")
    ignore: tuple[str, ...] = field((), "columns to leave out")
    separator: str = field(",", "what stands between cells")
    normalise: Literal["standardise", "none"] = field(
        "standardise", "numeric columns by their mean and deviation over the training rows, or as they are"
    )
    test_path: str | None = field(None, "a CSV file with the shared test set (else test_share is cut off)")
    test_share: float = field(
        0.2, "share of each class cut off as shared test set if there is no test_path (0: none)", ge=0, lt=1
    )

    @field_validator("separator")
    @classmethod
    def _one_character(cls, value: str) -> str:
        if not is_separator(value):
            raise ValueError(SEPARATORS)
        return value

    @model_validator(mode="after")
    def _one_role_each(self) -> Csv:
        roles = [self.label, *self.categorical, *self.columns, *self.ignore]
        twice = sorted({name for name in roles if roles.count(name) > 1})
        if twice:
            raise ValueError(
                f"column {twice[0]!r} is named twice among label, categorical, columns and ignore: "
                "allowed is one role a column"
            )
        return self

    @override
    def reads(self) -> dict[str, Path]:
        given = {"path": self.path, "test_path": self.test_path}
        return {k: find_file(v, self.root, f"data.{k}") for k, v in given.items() if v is not None}

    def load(self) -> Dataset:
        """The data set, read once per process. Raises InputError for what is wrong with a file."""
        files = list(self.reads().values())
        return remember(self, files, lambda: self._read(files))

    def _read(self, files: list[Path]) -> Dataset:
        header = read_header(files[0], self.separator, also="arrays in .npz by data kind 'arrays'")
        for name in (self.label, *self.categorical, *self.columns, *self.ignore):
            if name not in header:
                if mark := other_separator(header):
                    raise InputError(
                        f"{files[0]}, line 1: one column, {header[0]!r}, where data.separator = {self.separator!r}; if "
                        f"{mark!r} stands between cells, set data.separator = {mark!r}"
                    )
                raise unknown(f"column of {files[0]}", name, header)
        apart = {self.label, *self.categorical, *self.columns, *self.ignore}
        numbers = [name for name in header if name not in apart]
        if not numbers and not self.categorical:
            raise InputError(f"{files[0]}: no column is left to learn from")
        words = [self.label, *self.categorical]
        advice = "name a column of words in data.categorical, data.columns or data.ignore"
        table = read_table(files[0], numbers, [*words, *self.columns], self.separator, advice=advice)
        kept = {name: table[name] for name in self.columns}
        is_test = np.zeros(len(table[self.label]), dtype=bool)
        if len(files) > 1:
            further = read_table(files[1], numbers, words, self.separator, advice=advice)
            table = {name: np.concatenate([table[name], further[name]]) for name in (*numbers, *words)}
            is_test = np.arange(len(table[self.label])) >= len(is_test)
        classes = label_order(table[self.label])
        check_classes(
            f"{files[0]}: column {self.label!r}",
            len(classes),
            len(is_test),
            "set data.label to a column of classes",
        )
        y = as_classes(table[self.label], classes)
        if len(files) == 1:
            is_test = held_out(y, self.test_share, "own table test set")
        if is_test.all():
            raise InputError(f"{files[0]}: data.test_share = {self.test_share:g} leaves no training rows")
        preprocessing = self._preprocessing(table, numbers, is_test)
        x = preprocessing.apply(table)
        if len(files) == 1:
            kept = {name: values[~is_test] for name, values in kept.items()}
        return Dataset(
            str(files[0]),
            x[~is_test],
            y[~is_test],
            x[is_test],
            y[is_test],
            tuple(classes),
            columns=kept,
            preprocessing=preprocessing,
            untested=none_held_out(y, self.test_share) if len(files) == 1 else "",
        )

    def _preprocessing(
        self, table: dict[str, np.ndarray], numbers: list[str], is_test: np.ndarray
    ) -> TablePreprocessing:
        """Numeric columns in the file's order by their training rows, then the words of the categorical ones."""
        values = {name: [str(v) for v in np.unique(table[name])] for name in self.categorical}
        for name, distinct in values.items():
            if len(distinct) > MOST_VALUES:
                raise InputError(
                    f"{self.path}: column {name!r} of data.categorical has {len(distinct)} distinct values in "
                    f"{len(is_test)} rows; allowed are up to {MOST_VALUES}: leave it out with data.ignore"
                )
        wide = sum(map(len, values.values()))
        if wide * len(is_test) > MOST_CELLS:
            raise InputError(
                f"{self.path}: the columns of data.categorical have {wide} distinct values, in {len(is_test)} rows "
                f"{wide * len(is_test)} inputs; allowed are up to {MOST_CELLS}: leave some out with data.ignore"
            )
        numeric = [NumericColumn(name=name) for name in numbers]
        if numbers and self.normalise == "standardise":
            x = np.stack([table[name] for name in numbers], axis=1)
            statistics = zip(numbers, *column_statistics(x[~is_test]), strict=True)
            numeric = [
                NumericColumn(name=name, mean=float(mean), scale=float(deviation))
                for name, mean, deviation in statistics
            ]
        return TablePreprocessing(
            numeric=numeric,
            categorical=[CategoricalColumn(name=name, values=distinct) for name, distinct in values.items()],
            label=self.label,
            separator=self.separator,
        )
