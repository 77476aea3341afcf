"""How samples as a file holds them become what a network sees: kept with a run, applied to new rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter, model_validator

from fedroam.data.preparing import one_hot
from fedroam.errors import InputError
from fedroam.facts import JsonObject

Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Layout = Literal["channels_last", "channels_first"]


class NumericColumn(JsonObject):
    """A column of numbers: what a network sees is (value - mean) / scale."""

    name: str
    mean: Number = 0.0
    scale: Positive = 1.0


class CategoricalColumn(JsonObject):
    """A column of words: one input for each of `values`, 1 where it is that word; other words are all 0."""

    name: str
    values: list[str] = Field(min_length=1)


class TablePreprocessing(JsonObject):
    """Rows of named columns: the numeric ones in their order, then the categorical ones.

    label, separator: the column of classes, and what stands between cells, in the files that were learnt from.
    """

    kind: Literal["table"] = "table"
    numeric: list[NumericColumn]
    categorical: list[CategoricalColumn] = []
    label: str = "label"
    separator: str = Field(",", min_length=1, max_length=1)

    @model_validator(mode="after")
    def _one_input_at_least(self) -> TablePreprocessing:
        if not self.numeric and not self.categorical:
            raise ValueError("allowed is at least one column")
        return self

    @property
    def features(self) -> int:
        """Inputs of the network."""
        return len(self.numeric) + sum(len(column.values) for column in self.categorical)

    def apply(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """float32 [rows, features] of columns by name: numbers as float64 [rows], words as texts [rows]."""
        blocks = [one_hot(columns[column.name], column.values) for column in self.categorical]
        if self.numeric:
            x = np.stack([columns[column.name] for column in self.numeric], axis=1)
            mean = np.array([column.mean for column in self.numeric])
            scale = np.array([column.scale for column in self.numeric])
            blocks.insert(0, ((x - mean) / scale).astype(np.float32))
        return np.concatenate(blocks, axis=1)

    def unknown(self, columns: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
        """By categorical column, the words that were never learnt from; columns without any are left out."""
        found = {}
        for column in self.categorical:
            further = sorted(set(columns[column.name].tolist()) - set(column.values))
            if further:
                found[column.name] = further
        return found


class ArrayPreprocessing(JsonObject):
    """Arrays of samples: what a network sees is (value / divide - mean) / scale, by channel (or feature).

    shape: of one sample, (features,) or (height, width, channels). layout: where arrays hold the channels of images; by
    `channels_first` a sample is (channels, height, width) there. mean, scale: one number for each channel or feature.
    """

    kind: Literal["array"] = "array"
    shape: list[Annotated[int, Field(ge=1)]] = Field(min_length=1, max_length=3)
    layout: Layout = "channels_last"
    divide: Positive = 1.0
    mean: list[Number]
    scale: list[Positive]

    @model_validator(mode="after")
    def _one_of_each(self) -> ArrayPreprocessing:
        if not len(self.mean) == len(self.scale) == self.shape[-1]:
            raise ValueError(
                f"{len(self.mean)} means and {len(self.scale)} scales for {self.shape[-1]} channels or features"
            )
        if self.layout == "channels_first" and len(self.shape) != 3:
            raise ValueError(
                f"layout 'channels_first' for samples of shape {self.shape}: allowed is it for images"
            )
        return self

    @property
    def held(self) -> list[int]:
        """The shape of one sample as arrays hold it."""
        return self.shape if self.layout == "channels_last" else [self.shape[2], *self.shape[:2]]

    @classmethod
    def plain(
        cls, shape: Sequence[int], divide: float = 1.0, layout: Layout = "channels_last"
    ) -> ArrayPreprocessing:
        """Values that are only divided."""
        mean, scale = [0.0] * shape[-1], [1.0] * shape[-1]
        return cls(shape=list(shape), layout=layout, divide=divide, mean=mean, scale=scale)

    @classmethod
    def standardised(
        cls,
        shape: Sequence[int],
        mean: np.ndarray,
        scale: np.ndarray,
        divide: float = 1.0,
        layout: Layout = "channels_last",
    ) -> ArrayPreprocessing:
        """Values by each channel's (or feature's) mean and scale, float64 [channels]; a scale of 0 only centres."""
        scale = np.where(scale > 0, scale, 1.0)
        return cls(shape=list(shape), layout=layout, divide=divide, mean=mean.tolist(), scale=scale.tolist())

    def apply(self, values: np.ndarray) -> np.ndarray:
        """float32 [samples, *shape] of numbers [samples, *held]; [samples, height, width] for a single channel.

        Raises InputError where the shape is another.
        """
        x = np.asarray(values)
        if x.ndim == 3 and self.layout == "channels_first" and self.shape[-1] == 1:
            x = x[:, None]
        elif x.ndim == len(self.shape) and self.shape[-1] == 1:
            x = x[..., None]
        if x.dtype.kind not in "buif" or list(x.shape[1:]) != self.held:
            raise InputError(
                f"samples of shape {list(x.shape[1:])} and {x.dtype}: allowed are numbers of shape {self.held}"
            )
        if self.layout == "channels_first":
            x = x.transpose(0, 2, 3, 1)
        scaled: np.ndarray = (x / self.divide - np.array(self.mean)) / np.array(self.scale)
        return scaled.astype(np.float32)


Preprocessing = TablePreprocessing | ArrayPreprocessing


def preprocessing_of(value: Mapping[str, Any] | None) -> Preprocessing | None:
    """The preprocessing that plain values describe (`model_dump` gives them); None of None."""
    return None if value is None else _ANY.validate_python(value, strict=True)


_ANY: TypeAdapter[Preprocessing] = TypeAdapter(
    Annotated[TablePreprocessing | ArrayPreprocessing, Field(discriminator="kind")]
)
