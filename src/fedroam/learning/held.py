"""Samples that one client holds, and what it makes of them: all that a federation ever asks about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

Use = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Held:
    """Some samples of a client's own: whose they are, what they are for, and which (indices into the task's)."""

    client: int
    use: Use
    samples: np.ndarray


@dataclass(frozen=True)
class ClassMeans:
    """Mean features of each class by client.

    mean: float32 [k, classes, features], zero where nothing is held. held: bool [k, classes].
    """

    mean: np.ndarray
    held: np.ndarray


def class_means(features: list[torch.Tensor], labels: list[np.ndarray], classes: int) -> ClassMeans:
    """f_i[c] = 1 / |D_ic| sum of phi_i(x) over client i's samples of class c, accumulated in float64.

    features: float32 [samples, features], and labels: int64 [samples], of each client.
    """
    mean = np.zeros((len(features), classes, features[0].shape[1]), np.float32)
    held = np.zeros((len(features), classes), bool)
    for k, (some, own) in enumerate(zip(features, labels, strict=True)):
        if not len(own):
            continue
        # Class after class, in one sum each, as a mean of each class would have it.
        counts, order = np.bincount(own, minlength=classes), np.argsort(own, kind="stable")
        there = np.flatnonzero(counts)
        begins = np.cumsum(counts[there]) - counts[there]
        sums = np.add.reduceat(some.cpu().numpy()[order], begins, axis=0, dtype=np.float64)
        mean[k, there], held[k, there] = sums / counts[there, None], True
    return ClassMeans(mean, held)
