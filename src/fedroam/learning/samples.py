"""Samples held once, and batches of them as networks see them."""

from __future__ import annotations

import math

import torch


def standard(x: torch.Tensor) -> torch.Tensor:
    """A copy in torch's usual order of dimensions. `contiguous` alone leaves images of one channel as they are."""
    return x.clone(memory_format=torch.contiguous_format)


LOOKED_AT, BESIDE = 256, 8


def mostly_zeros(x: torch.Tensor) -> bool:
    """Whether a quarter or more of all stretches of eight values beside each other in samples [n, ...] are zeros.

    So far as some hundreds of samples tell: then it saves time to look for those that can be left out.
    """
    # By numpy: torch would begin its threads for it, and what a process with threads forks may wait for them for ever.
    some = x[:: max(1, len(x) // LOOKED_AT)].detach().cpu().numpy()
    values = math.prod(some.shape[1:])
    stretches = some.reshape(len(some), values)[:, : values // BESIDE * BESIDE].reshape(-1, BESIDE)
    return len(stretches) > 0 and bool((stretches == 0).all(1).mean() >= 0.25)


class Samples:
    """Samples and their classes, and how to take some of them so that images stay channels-last.

    x, y: as in `Task`. plain: give images in torch's usual order, [n, channels, height, width], instead.
    """

    def __init__(self, x: torch.Tensor, y: torch.Tensor, *, plain: bool = False) -> None:
        self.images = x.dim() == 4
        self.base = x.permute(0, 2, 3, 1).contiguous() if self.images else x.contiguous()
        # Side by side, as kernels read them: classes may be a column of a table.
        self.y, self.plain = y.contiguous(), plain

    def __len__(self) -> int:
        return len(self.y)

    def pick(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The samples with these indices (int64 [n]): a copy."""
        return self._seen(self.base.index_select(0, index)), self.y.index_select(0, index)

    def cut(self, begin: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The samples begin .. end - 1: a copy, since a network may overwrite what it is given."""
        return self._seen(self.base[begin:end].clone()), self.y[begin:end]

    @property
    def shape(self) -> torch.Size:
        """Of a sample, as `Task.x` has them."""
        channels_first = self.base.permute(0, 3, 1, 2) if self.images else self.base
        return channels_first.shape[1:]

    def rows(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Samples [some, values] in the order in which `nn.Flatten` has them, their classes, and the places (int64 [n])
        of those with these indices among them: all samples as they lie, but where images have several channels a copy
        of those that are asked for."""
        if not self.images or self.base.shape[3] == 1:
            return self.base.flatten(1), self.y, index
        x, y = self.pick(index)
        return x.flatten(1), y, torch.arange(len(index))

    def _seen(self, x: torch.Tensor) -> torch.Tensor:
        if not self.images:
            return x
        x = x.permute(0, 3, 1, 2)
        return standard(x) if self.plain else x
