"""Which device each client is, where data, movement and availability all know devices by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self, runtime_checkable

import numpy as np

from fedroam.data import Dataset
from fedroam.errors import InputError

Rule = Literal["names", "order"]
SHOWN = 8  # names that a message lists


@runtime_checkable
class NamesDevices(Protocol):
    """A mobility pattern or an activity whose clients are devices with names."""

    def device_names(self, seed: int) -> tuple[str, ...]:
        """All devices that may be clients; without names to go by, client i would be the i-th."""

    def of_devices(self, names: tuple[str, ...]) -> Self:
        """The same part, but client i is the device called names[i]."""


@runtime_checkable
class NamesHolders(Protocol):
    """A partition that deals out the samples of devices with names."""

    def device_names(self, dataset: Dataset) -> tuple[str, ...]:
        """All devices that hold samples."""

    def names_of(self, dataset: Dataset, samples: np.ndarray) -> tuple[str, ...]:
        """The devices that these training samples (int64) are of, each once."""

    def of_devices(self, names: tuple[str, ...]) -> Self:
        """The same partition, but client i holds the samples of names[i]."""


@dataclass(frozen=True)
class Matching:
    """devices: each client's device by name; None where clients follow the order of each source. notes: what is worth
    telling, a sentence each."""

    devices: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def match(names: Mapping[str, Sequence[str]], clients: int, rule: Rule | None) -> Matching:
    """Match clients of several sources by the names of devices.

    names: by source (as messages call it), its devices; clients are the first common ones, in the order of the first
    source. Of fewer than two sources nothing is matched, nor with the rule "order", nor without a rule where no name is
    common to all. Raises InputError where there are fewer common names than clients; with the rule "names" also for no
    common name, and for a single source.
    """
    told = " and ".join(names) if names else "nothing"
    if len(names) < 2:
        if rule == "names":
            raise InputError(
                f'match = "names": {told} knows devices by name; wanted are two of data (partition.kind = "column"), '
                'movement (mobility.kind = "trace") and availability (activity.kind = "trace")'
            )
        return Matching()
    if rule == "order":
        return Matching()
    first, *others = ([*dict.fromkeys(each)] for each in names.values())
    everywhere = set(first).intersection(*others)
    common = [name for name in first if name in everywhere]
    apart = [
        f"not in all of them, only in {source}: {_listed([name for name in each if name not in everywhere])}"
        for source, each in names.items()
        if not everywhere.issuperset(each)
    ]
    if not common and rule is None:
        return Matching(
            None,
            (f"no device has the same name in {told}: clients follow the order of each", *apart),
        )
    if len(common) < clients:
        allowed = f"allowed is 1 to {len(common)}" if common else "wanted are common names"
        raise InputError(
            f"clients = {clients}: {len(common)} device(s) have the same name in {told}, {allowed}"
            f' (or match = "order"); {"; ".join(apart) or "every name is in all of them"}'
        )
    notes = [f"clients are matched by the names of devices in {told}", *apart]
    if common[clients:]:
        notes.append(f"in all of them, but no client: {_listed(common[clients:])}")
    return Matching(tuple(common[:clients]), tuple(notes))


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
