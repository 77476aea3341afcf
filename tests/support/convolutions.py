"""A user's own network with all that an export may trip over: convolutions, running statistics, dropout, a constant."""

from __future__ import annotations

import torch
from torch import nn


class OwnConvolutions(nn.Module):
    """For `torch_module`, samples [n, channels, height, width]."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.extractor = nn.Sequential(
            nn.Conv2d(shape[0], 6, (2, 3)), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.3), nn.Flatten()
        )
        self.head = nn.Linear(6 * (shape[1] - 1) * (shape[2] - 2), classes)
        self.register_buffer("shrunk", torch.tensor([0.5]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.extractor(x * self.shrunk))
        return logits


class Normalised(nn.Module):
    """Features that are normalised over a batch, as those of a single sample cannot be."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.extractor = nn.Sequential(nn.Linear(shape[0], 4), nn.BatchNorm1d(4), nn.ReLU())
        self.head = nn.Linear(4, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.extractor(x))
        return logits


class BatchDependent(nn.Module):
    """What it computes depends on the number of samples: no graph of one batch tells that."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(shape[0] * shape[1] * shape[2], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(x.flatten(1)) * float(len(x))
        return logits
