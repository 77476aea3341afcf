"""Weights of an average of models: all equal, by samples, or by likeness to the model that is replaced."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from fedroam.learning import Layout, Models, products, rounded, weighted_sum

Cosine = Literal["flat", "per_tensor", "per_slice", "squared_norms"]


@dataclass(frozen=True)
class AveragingWeights:
    """The weight of each model in an average.

    parameters: float64 [models, groups], where each parameter belongs to one group (see `groups`), buffers: float64
    [models]. Columns sum to 1.
    """

    parameters: np.ndarray
    buffers: np.ndarray

    @classmethod
    def by(cls, shares: np.ndarray) -> AveragingWeights:
        """One weight a model, in proportion to `shares` (>= 0, [models]); equal ones where all shares are 0."""
        shares = np.asarray(shares, dtype=np.float64)
        total = shares.sum()
        weights = shares / total if total > 0 else np.full(len(shares), 1 / len(shares))
        return cls(weights[:, None], weights)


@functools.lru_cache(maxsize=8)
def groups(layout: Layout, form: Cosine) -> np.ndarray:
    """Which cosine weighs each parameter of a row, int64 [parameters], from 0.

    `flat`, `squared_norms`: one for the whole model. `per_tensor`: one for each tensor. `per_slice`: each tensor has
    one for every index but the first, the cosine along its dimension 0 (Farcas et al., their code).
    """
    group = np.zeros(layout.size, dtype=np.int64)
    if form in ("per_tensor", "per_slice"):
        count = 0
        for entry in layout.parameters:
            row = torch.zeros(layout.size, dtype=torch.int64)
            rest = entry.shape[1:] if form == "per_slice" else ()
            size = int(np.prod(rest, dtype=np.int64))
            entry.view(row).copy_((count + torch.arange(size)).view(rest))
            group[entry.offset : entry.offset + entry.size] = row[entry.offset : entry.offset + entry.size]
            count += size
    group.setflags(write=False)
    return group


def cosines(matrix: torch.Tensor, own: int, others: np.ndarray, layout: Layout, form: Cosine) -> np.ndarray:
    """cos(own, other) of each other model and group, float64 [others, groups]; 0 where one of the two is zero.

    matrix: float32 [models, parameters], own: the row of the model that is replaced, others: rows (int64).
    `squared_norms` divides by the squares of the norms, as Farcas et al. print it (Eq. 5). Sums are in float64.
    """
    power, rows = 2 if form == "squared_norms" else 1, np.append(own, others)
    alone = form in ("flat", "squared_norms")
    sums = (
        products(matrix, own, rows)[:, None] if alone else _by_group(matrix, own, rows, groups(layout, form))
    )
    shared, squares = sums[..., 0], sums[..., 1]
    norms = (np.sqrt(squares[0]) * np.sqrt(squares[1:])) ** power
    found: np.ndarray = np.divide(shared[1:], norms, out=np.zeros_like(norms), where=norms > 0)
    return found


def _by_group(matrix: torch.Tensor, own: int, rows: np.ndarray, group: np.ndarray) -> np.ndarray:
    """What `products` gives of whole rows, of each group (int64 [parameters]): float64 [rows, groups, 2]."""
    first, given = matrix[own].cpu().numpy(), [matrix[row].cpu().numpy() for row in rows.tolist()]

    def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.bincount(group, np.multiply(a, b, dtype=np.float64))

    return np.stack([np.stack([dot(first, row), dot(row, row)], axis=1) for row in given])


def softmax(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """exp(score) over their sum, where row k of `scores` (float64 [models, ...]) stands for counts[k] equal models.

    A row's result is the weight of all its models together.
    """
    counts = counts.reshape(-1, *[1] * (scores.ndim - 1))
    powers = np.exp(scores - scores.max(axis=0)) * counts
    weights: np.ndarray = powers / powers.sum(axis=0)
    return weights


def attention(
    matrix: torch.Tensor,
    own: int,
    others: np.ndarray,
    layout: Layout,
    form: Cosine,
    strength: float,
    counts: np.ndarray | None = None,
) -> AveragingWeights:
    """softmax(strength * cos(own, other)) over the other models (Farcas et al., Eqs. 5 and 6, strength = -sigma).

    matrix, own, others: as `cosines` is given them.
    Buffers, which have no cosine of their own, are weighed by the cosine of the whole model. counts: how many equal
    models each other one stands for ([others], default 1).
    """
    counts = np.ones(len(others)) if counts is None else counts
    found = softmax(strength * cosines(matrix, own, others, layout, form), counts)
    if found.shape[1] == 1:
        return AveragingWeights(found, found[:, 0])
    whole = softmax(strength * cosines(matrix, own, others, layout, "flat"), counts)
    return AveragingWeights(found, whole[:, 0])


def average(
    models: Models, rows: np.ndarray, weights: AveragingWeights, form: Cosine
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weighted average of these rows (int64 [models]): float32 [parameters] and [buffers].

    Added up in float64, in the order of `rows`: averages of equal models are those models.
    """
    buffers = weighted_sum(models.buffers, rows, weights.buffers)
    if weights.parameters.shape[1] == 1:
        total = weighted_sum(models.parameters, rows, weights.parameters[:, 0])
    else:
        device = models.parameters.device
        total = torch.zeros(models.layout.size, dtype=torch.float64, device=device)
        column = torch.from_numpy(np.array(groups(models.layout, form))).to(device)
        for row, shares in zip(rows.tolist(), weights.parameters, strict=True):
            total.addcmul_(models.parameters[row].double(), torch.from_numpy(shares).to(device)[column])
    return rounded(total), rounded(buffers)
