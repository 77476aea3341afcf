"""Does softmax regression have a minimiser? It has none where some parameters can grow for ever and f only falls.

A direction D (one row of parameters a class) does that if every sample's own class keeps ahead, (D_y - D_k) a >= 0 for
every class k, strictly for some sample and k: that pair's share of the loss then falls to 0 without ever reaching it.
The samples are separated, completely if all pairs are strict, else in part (Albert & Anderson, Biometrika 71 (1984) 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

MOST_PARAMETERS = 2000  # up to which `has_minimiser` is asked
_RANK = 1e-10


def separated_in_part(samples: Sequence[np.ndarray], labels: Sequence[np.ndarray], classes: int) -> bool:
    """Whether one feature alone, or an absent class, separates samples in part: then there is no minimiser.

    samples: float64 [samples, features] of each client, a constant feature (for the bias) among them; labels: int64
    [samples]. It is so where all samples of a class have the feature's smallest value and some other sample has not
    (a pixel that is always dark in images of a 1): the class's own parameter for it then only falls; likewise for the
    largest value; and where a class has no sample at all. Sufficient, not necessary.
    """
    holding = [(a, y) for a, y in zip(samples, labels, strict=True) if len(y)]
    if len(np.unique(np.concatenate([y for _, y in holding]))) < classes:
        return True
    low = np.min([a.min(axis=0) for a, _ in holding], axis=0)
    high = np.max([a.max(axis=0) for a, _ in holding], axis=0)
    at_low, at_high = np.ones((2, classes, len(low)), dtype=bool)
    for a, y in holding:
        for k in np.unique(y):
            at_low[k] &= (a[y == k] == low).all(axis=0)
            at_high[k] &= (a[y == k] == high).all(axis=0)
    return bool(((at_low | at_high).any(axis=0) & (low < high)).any())


def has_minimiser(samples: Sequence[np.ndarray], theta: np.ndarray, gradient: float) -> bool:
    """Whether f is curved enough at `theta` (float64 [classes, features]) to be sure that a minimiser exists.

    gradient: the norm of f's gradient there. Let D be a direction of unit length along which f falls for ever. Each
    pair's margin is at most R = sqrt(2) max ||a||, so that with s the model's shares D^T H D <= sum w s margin^2 <= R
    sum w s margin = -R <grad f, D> <= R ||grad f||. Where H exceeds that in every direction that changes the loss at
    all, there is no such D. Close to a minimiser the gradient vanishes and H does not; far out both vanish together.
    """
    clients, classes = len(samples), len(theta)
    every = np.concatenate(samples)
    weight = np.concatenate([np.full(len(a), 1 / (clients * max(len(a), 1))) for a in samples])
    _, size, directions = np.linalg.svd(every, full_matrices=False)
    reduced = every @ directions[size > _RANK * size[0]].T  # without features that no sample tells apart
    share = softmax(every @ theta.T, axis=1)
    rank = reduced.shape[1]
    hessian = np.zeros((classes, rank, classes, rank))
    for k in range(classes):
        for j in range(classes):
            factor = weight * share[:, k] * ((k == j) - share[:, j])
            hessian[k, :, j, :] = (reduced * factor[:, None]).T @ reduced
    curvature = np.linalg.eigvalsh(hessian.reshape(classes * rank, classes * rank))
    reach = np.sqrt(2) * float(np.linalg.norm(every, axis=1).max())
    certain = max(reach * gradient, 1e-12 * float(curvature[-1]))
    return bool(curvature[rank] > certain)  # the first `rank` are 0: all classes' parameters shifted together
