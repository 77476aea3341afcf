"""The samples of a task, held once, and batches of them."""

from __future__ import annotations

import torch


class Samples:
    """The samples of a task, and how to pick some of them so that images stay channels-last."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        images = x.dim() == 4
        self.base = x.permute(0, 2, 3, 1).contiguous() if images else x.contiguous()
        self.images = images
        self.y = y

    def pick(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The samples with these indices, a copy."""
        x = self.base.index_select(0, index)
        return (x.permute(0, 3, 1, 2) if self.images else x), self.y.index_select(0, index)
