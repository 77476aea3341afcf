"""Who holds which training samples: what a partition is, and the two that ignore the classes."""

from __future__ import annotations

from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
from pydantic import PrivateAttr

from fedroam.checks.answers import checked_whole, found_as
from fedroam.components import Part, answer_of, field, ours, register
from fedroam.data.dataset import Dataset
from fedroam.errors import InputError, unknown


@runtime_checkable
class Partition(Protocol):
    """Deals the training samples out to the clients."""

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """For each client, indices (int64, ascending) into the training samples.

        Every draw is from `stream`. Raises InputError where it cannot, with what to change.
        """


def split_of(
    rule: Partition, dataset: Dataset, clients: int, stream: np.random.Generator
) -> list[np.ndarray]:
    """What a partition deals to each client.

    That of a partition that does not come with fedroam is held against what `Partition.split` promises, but for the
    order, which `cut` makes: raises InputError where it is something else.
    """
    if ours(rule):
        return rule.split(dataset, clients, stream)
    found = rule.split(dataset.only_to_read(), clients, stream)
    with answer_of("partition", rule):
        return _checked(found, clients, len(dataset.y_train))


def _checked(found: Any, clients: int, samples: int) -> list[np.ndarray]:
    """What a partition gave, as it is to be: kernels read at the indices that they are told, wherever that lies."""
    if isinstance(found, np.ndarray) and found.ndim:  # a row of each client
        found = list(found)
    if not isinstance(found, list | tuple) or len(found) != clients:
        what = f"indices for {len(found)} client(s)" if isinstance(found, list | tuple) else found_as(found)
        raise InputError(f"split gave {what}, allowed is a list of indices for each of {clients} clients")
    return [checked_whole(f"split gave client {i}", part, samples, "sample") for i, part in enumerate(found)]


def need(clients: int, each: int, dataset: Dataset, *instead: str) -> None:
    """Raise InputError unless the data has `each` samples for every client; `instead`: what else to change."""
    samples = len(dataset.y_train)
    if clients * each > samples:
        fewer = [f"use at most {samples // each} client(s)"] if clients > 1 and samples >= each else []
        raise InputError(
            f"partition: {clients} client(s) with {each} sample(s) each need {clients * each}, data "
            f"{dataset.name!r} has {samples} training samples: {', or '.join([*fewer, *instead])}"
        )


@register("partition", "iid")
class IID(Part):
    """Equal shares of the shuffled samples (sizes differ by at most one); every sample has one holder."""

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """Equal cuts of a shuffle."""
        need(clients, 1, dataset)
        return [np.sort(part) for part in np.array_split(stream.permutation(len(dataset.y_train)), clients)]


@register("partition", "column")
class ByColumn(Part):
    """Natural: samples that share a value of one of the data's columns (writer, station) stay together.

    With more groups than clients each client gets several groups; every sample has one holder. Where a trace or an
    availability log name devices, too, each client holds the group of its own name instead (see `match`), and groups
    without a client are not dealt out.
    """

    column: str | None = field(None, "name of the column; may be left out where the data has just one")
    deal: Literal["random", "balanced"] = field(
        "random",
        "how groups are dealt: random, equally many a client; or balanced, the largest first, each to the "
        "client with the fewest samples so far",
    )
    _named: tuple[str, ...] | None = PrivateAttr(default=None)

    def device_names(self, dataset: Dataset) -> tuple[str, ...]:
        """The values of the column as texts: who may hold samples."""
        return self.names_of(dataset, np.arange(len(dataset.y_train)))

    def names_of(self, dataset: Dataset, samples: np.ndarray) -> tuple[str, ...]:
        """The values of these training samples (int64) as texts, each once."""
        return tuple(_texts(np.unique(self._values(dataset)[samples])))

    def of_devices(self, names: tuple[str, ...]) -> Self:
        """The same, but client i holds the samples of the value names[i], and nothing else is dealt out."""
        part = self.model_copy()
        part._named = names
        return part

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """Whole groups, dealt at random or to whoever holds least."""
        groups, group_of = np.unique(self._values(dataset), return_inverse=True)
        if self._named is not None:
            place = {name: k for k, name in enumerate(self._named)}
            own = np.array([place.get(name, -1) for name in _texts(groups)])
            return [np.flatnonzero(own[group_of] == client) for client in range(clients)]
        if len(groups) < clients:
            raise InputError(
                f"partition: column {self.column or next(iter(dataset.columns))!r} has {len(groups)} distinct "
                f"values for {clients} clients: use at most {len(groups)} clients, or another column"
            )
        holder = np.empty(len(groups), dtype=np.int64)
        mixed = stream.permutation(len(groups))
        if self.deal == "random":
            for client, dealt in enumerate(np.array_split(mixed, clients)):
                holder[dealt] = client
        else:
            sizes = np.bincount(group_of, minlength=len(groups))
            held = np.zeros(clients, dtype=np.int64)
            for group in mixed[np.argsort(-sizes[mixed], kind="stable")]:
                holder[group] = np.argmin(held)
                held[holder[group]] += sizes[group]
        return [np.flatnonzero(holder[group_of] == client) for client in range(clients)]

    def _values(self, dataset: Dataset) -> np.ndarray:
        if self.column is None and len(dataset.columns) == 1:
            return next(iter(dataset.columns.values()))
        if not dataset.columns:
            raise InputError(
                f"partition: data {dataset.name!r} has no columns to go by: use another partition, or data kinds "
                "csv, arrays or memory with columns"
            )
        if self.column is None:
            raise InputError(
                f"partition.column: not set, and data {dataset.name!r} has several: {', '.join(dataset.columns)}"
            )
        if self.column not in dataset.columns:
            raise unknown(f"partition.column of data {dataset.name!r}", self.column, dataset.columns)
        return dataset.columns[self.column]


def _texts(values: np.ndarray) -> list[str]:
    """Values of a column as names: whole numbers without a decimal point."""
    return [f"{v:.15g}" if isinstance(v, float) else str(v) for v in values.tolist()]
