"""Where each tensor of a network lies in a row of the model matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from fedroam.errors import InputError


@dataclass(frozen=True)
class Entry:
    """One tensor of a network within a row: its name, shape and place."""

    name: str
    shape: tuple[int, ...]
    offset: int
    size: int

    def view(self, row: torch.Tensor) -> torch.Tensor:
        """The tensor as a view into `row` (1-D). 4-D weights lie channels-last, as fast convolutions read them."""
        flat = row[self.offset : self.offset + self.size]
        if len(self.shape) == 4:
            out, channels, height, width = self.shape
            return flat.view(out, height, width, channels).permute(0, 3, 1, 2)
        return flat.view(self.shape)

    def address(self, row: torch.Tensor) -> int:
        """Where in memory the tensor begins in `row`, whose values lie side by side."""
        return row.data_ptr() + self.offset * row.element_size()


@dataclass(frozen=True)
class Layout:
    """Where each parameter and each buffer of a network lies in a row. Shared parameters lie there once."""

    parameters: tuple[Entry, ...]
    buffers: tuple[Entry, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """The layout of a network, in the order of its `named_parameters` and `named_buffers`."""
        return cls(_entries(module.named_parameters()), _entries(module.named_buffers()))

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(entry.size for entry in self.parameters)

    @property
    def buffer_size(self) -> int:
        """Number of buffer values (running statistics; integers are held as float32)."""
        return sum(entry.size for entry in self.buffers)

    def columns(self, part: str) -> slice:
        """Where the parameters of a submodule (`"extractor"`, `"head"`) lie in a row, side by side.

        Raises InputError where there are none, or they do not lie side by side.
        """
        return _columns(self.parameters, part)

    def buffer_columns(self, part: str) -> slice:
        """Where the buffers of a submodule lie in a row of buffers; an empty slice where it has none."""
        found = [entry for entry in self.buffers if _belongs(entry, part)]
        return _columns(self.buffers, part) if found else slice(0, 0)

    @torch.no_grad()
    def write(self, module: nn.Module, parameters: torch.Tensor, buffers: torch.Tensor) -> None:
        """Copy a network's values into a row of each matrix."""
        _copy(self.parameters, dict(module.named_parameters()), parameters, to_row=True)
        _copy(self.buffers, dict(module.named_buffers()), buffers, to_row=True)

    @torch.no_grad()
    def read(self, module: nn.Module, parameters: torch.Tensor, buffers: torch.Tensor) -> None:
        """Copy a row of each matrix into a network."""
        _copy(self.parameters, dict(module.named_parameters()), parameters, to_row=False)
        _copy(self.buffers, dict(module.named_buffers()), buffers, to_row=False)


def _belongs(entry: Entry, part: str) -> bool:
    return entry.name == part or entry.name.startswith(f"{part}.")


def _columns(entries: tuple[Entry, ...], part: str) -> slice:
    own = [entry for entry in entries if _belongs(entry, part)]
    if not own:
        known = ", ".join(dict.fromkeys(entry.name.partition(".")[0] for entry in entries))
        raise InputError(f"the model has no parameters under {part!r}; found {known or 'none at all'}")
    begin, end = own[0].offset, own[-1].offset + own[-1].size
    if sum(entry.size for entry in own) != end - begin:
        raise InputError(f"the model's parameters under {part!r} do not lie side by side (are some shared?)")
    return slice(begin, end)


def _entries(tensors: Iterator[tuple[str, torch.Tensor]]) -> tuple[Entry, ...]:
    entries, offset = [], 0
    for name, tensor in tensors:
        entries.append(Entry(name, tuple(tensor.shape), offset, tensor.numel()))
        offset += tensor.numel()
    return tuple(entries)


def _copy(
    entries: tuple[Entry, ...], tensors: dict[str, torch.Tensor], row: torch.Tensor, *, to_row: bool
) -> None:
    for entry in entries:
        view = entry.view(row)
        if to_row:
            view.copy_(tensors[entry.name])
        else:
            tensors[entry.name].copy_(view)
