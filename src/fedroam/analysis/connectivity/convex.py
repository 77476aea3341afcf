"""Softmax regression as a convex problem: its loss, gradients, smoothness and minimum, in float64.

f = mean over clients of f_i (Jahani et al., Eq. 1: every client counts once), and f_i = mean over the client's samples
of the cross-entropy of softmax(Theta a), plus (weight_decay / 2) ||Theta||^2; a is the flattened sample with a 1 for
the bias. A client without samples has f_i = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import optimize
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import logsumexp, softmax

from fedroam.analysis.connectivity.separability import MOST_PARAMETERS, has_minimiser, separated_in_part

_WORK = 3e11  # samples x inputs x classes x evaluations that the search for a minimum may cost
_TOLERANCE = 1e-9  # of the gradient's norm at a minimum
_UNSURE = 1e-7  # a norm above which a search has stopped early
_minimise: Any = optimize.minimize  # typed too narrowly for a function that gives its gradient as well


@dataclass(frozen=True)
class Optimum:
    """The minimum of f.

    point: parameters [parameters]; value: f there; infimum: the greatest lower bound of f; gradient: the gradient's
    norm at the point. attained: whether a minimiser exists. It does not where some parameters put every training
    sample into its class: then f falls to 0 along their direction for ever; nor where they do so with some samples
    and leave the others as they are: then f falls for ever, towards a larger number. The point is merely one on the
    way then, and `infimum`, unless it is 0, the value there. Up to 2,000 parameters a minimiser is proven where it is
    said to exist; beyond, only the plainest reasons against one are looked for (`separability`).
    uncertainty: by how much inf f may at most lie below `infimum`; 0 unless the solver had to stop early.
    """

    point: np.ndarray
    value: float
    infimum: float
    gradient: float
    attained: bool
    uncertainty: float = 0.0


@dataclass(frozen=True)
class SoftmaxProblem:
    """features: float32 [samples, inputs] of each client; labels: int64 [samples]; classes: their number.

    Parameters are one vector: weights [classes, inputs], then biases [classes], as a row of the model matrix.
    """

    features: tuple[np.ndarray, ...]
    labels: tuple[np.ndarray, ...]
    classes: int
    weight_decay: float = 0.0

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.features)

    @cached_property
    def samples(self) -> tuple[np.ndarray, ...]:
        """The samples of each client in float64, with the constant 1 that carries the bias."""
        return tuple(np.column_stack([x.astype(np.float64), np.ones(len(x))]) for x in self.features)

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return int(self.classes * (self.features[0].shape[1] + 1))

    def client(
        self, i: int, parameters: np.ndarray, batch: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """f_i and its gradient [parameters] at `parameters`; batch: positions in the client's own samples (all)."""
        value, gradient, _ = self._client(i, parameters, batch)
        return value, gradient

    def value(self, parameters: np.ndarray) -> float:
        """f."""
        return self._mean(parameters)[0]

    def gradient(self, parameters: np.ndarray) -> np.ndarray:
        """The gradient of f, [parameters]."""
        return self._mean(parameters)[1]

    def smoothness(self) -> np.ndarray:
        """L_i of each client, float64 [clients]: the Hessian of f_i never exceeds it.

        0.5 lambda_max(A_i^T A_i / n_i) + weight_decay with A_i the samples [n_i, inputs + 1]. A sample's Hessian is
        (diag(s) - s s^T) x a a^T, and the first factor's largest eigenvalue is at most 1/2, which two classes at 1/2
        reach (Boehning, Ann. Inst. Statist. Math. 44 (1992) 197). Assumption 1 asks for an L of every sample's
        loss; the proofs use that of f_i only.
        """
        return np.array([self._smoothness(i) for i in range(self.clients)])

    def variance(self, i: int, parameters: np.ndarray, batch_size: int) -> float:
        """E ||g_i - grad f_i||^2 for a batch drawn without replacement, exact: S^2 (n - b) / ((n - 1) b).

        S^2 is the mean squared distance of the samples' gradients to their mean; 0 for the full batch.
        """
        n = len(self.labels[i])
        if batch_size == 0 or batch_size >= n:
            return 0.0
        a = self.samples[i]
        off = softmax(a @ self._matrix(parameters).T, axis=1)
        off[np.arange(n), self.labels[i]] -= 1.0
        mean = off.T @ a / n
        square = ((off**2).sum(axis=1) * (a**2).sum(axis=1)).mean() - (mean**2).sum()
        return float(max(square, 0.0) * (n - batch_size) / ((n - 1) * batch_size))

    def gradient_limits(self, batch_size: int = 0) -> np.ndarray:
        """A bound on ||g_i|| wherever and of whatever batch it is taken, float64 [clients]; infinite with decay.

        sqrt(2) mean ||a|| over the batch (0: all samples) of the longest samples that a client can draw.
        """
        if self.weight_decay:
            return np.full(self.clients, np.inf)
        lengths = [np.sort(np.linalg.norm(a, axis=1))[-batch_size:] for a in self.samples]
        return np.asarray(np.sqrt(2) * np.array([own.mean() if len(own) else 0.0 for own in lengths]))

    def optimum(self, start: np.ndarray) -> Optimum:
        """The minimum of f, from `start` by L-BFGS, finished by a trust-region Newton method (conjugate gradients).

        Where minimisers are many (all classes' parameters may be shifted together, a pixel may always be 0), this
        is the one nearest to `start`: no gradient points along those directions. The gradient's norm is to
        be 1e-9. Large problems are given a few hundred evaluations (a minute or two); where the gradient is then above
        1e-7, `uncertainty` says what is not known (a cross-entropy is never below 0).
        """
        budget = int(_WORK / max(1, sum(x.size for x in self.features) * self.classes))
        separated: list[np.ndarray] = []

        def both(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient, margin = self._mean(parameters)
            if margin > 0 and not self.weight_decay:
                separated.append(parameters.copy())
            return value, gradient

        def stop(_: np.ndarray) -> None:
            if separated:
                raise StopIteration

        options = {
            "maxiter": min(5000, max(20, budget)),
            "ftol": 0.0,
            "gtol": _TOLERANCE / np.sqrt(len(start)),
        }
        point = _minimise(both, start, jac=True, method="L-BFGS-B", callback=stop, options=options).x
        if not separated and budget > 5000 and np.linalg.norm(self.gradient(point)) > _TOLERANCE:
            point = _minimise(
                both,
                point,
                jac=True,
                hessp=self._curvature,
                method="trust-ncg",
                callback=stop,
                options={"gtol": _TOLERANCE, "maxiter": 300},
            ).x
            if not separated:
                point = self._newton(point)
        if separated:
            point = separated[-1]
        value, gradient, _ = self._mean(point)
        norm = float(np.linalg.norm(gradient))
        if separated:
            return Optimum(point, value, 0.0, norm, attained=False)
        uncertainty = value if norm > _UNSURE else 0.0
        return Optimum(point, value, value, norm, self._attained(point, norm), uncertainty)

    def _newton(self, point: np.ndarray) -> np.ndarray:
        """The point after Newton steps, judged by the gradient alone, until its norm is 1e-9 or falls no more.

        So close to the minimum the value changes by less than its rounding error, so that methods which compare
        values stop at a gradient of about 1e-8, some processors' arithmetic a little before others'.
        """
        gradient = self._mean(point)[1]
        for _ in range(20):
            norm = np.linalg.norm(gradient)
            if norm <= _TOLERANCE:
                break
            hessian = LinearOperator(
                (len(point),) * 2, matvec=partial(self._curvature, point), dtype=np.float64
            )
            # Conjugate gradients from 0 stay within the directions in which f is curved, as the gradient does.
            trial = point + cg(hessian, -gradient, rtol=1e-6, maxiter=2 * len(point))[0]
            at_trial = self._mean(trial)[1]
            if not np.linalg.norm(at_trial) < norm:
                break
            point, gradient = trial, at_trial
        return point

    def _attained(self, point: np.ndarray, gradient: float) -> bool:
        """Whether f has a minimiser, seen from a point close to its minimum, as far as `Optimum` tells."""
        if self.weight_decay:
            return True
        if separated_in_part(self.samples, self.labels, self.classes):
            return False
        return len(point) > MOST_PARAMETERS or has_minimiser(self.samples, self._matrix(point), gradient)

    def proximal(self, start: np.ndarray, pull: float) -> np.ndarray:
        """The minimiser of f(x) + pull ||x - start||^2: there is always exactly one; pull > 0."""

        def both(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient, _ = self._mean(parameters)
            offset = parameters - start
            return value + pull * float(offset @ offset), gradient + 2 * pull * offset

        options = {"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9}
        return np.asarray(_minimise(both, start, jac=True, method="L-BFGS-B", options=options).x)

    def _matrix(self, parameters: np.ndarray) -> np.ndarray:
        """[classes, inputs + 1], biases last."""
        weights = parameters[: -self.classes].reshape(self.classes, -1)
        return np.column_stack([weights, parameters[-self.classes :]])

    def _client(
        self, i: int, parameters: np.ndarray, batch: np.ndarray | None = None
    ) -> tuple[float, np.ndarray, float]:
        """f_i, its gradient, and the smallest margin by which a sample's own class is ahead of the others."""
        a, y = self.samples[i], self.labels[i]
        if batch is not None:
            a, y = a[batch], y[batch]
        if not len(y):
            return 0.0, np.zeros_like(parameters), np.inf
        rows = np.arange(len(y))
        scores = a @ self._matrix(parameters).T
        own = scores[rows, y]
        value = float((logsumexp(scores, axis=1) - own).mean())
        off = softmax(scores, axis=1)
        off[rows, y] -= 1.0
        scores[rows, y] = -np.inf
        gradient = _vector(off.T @ a / len(y))
        if self.weight_decay:
            value += self.weight_decay / 2 * float(parameters @ parameters)
            gradient = gradient + self.weight_decay * parameters
        return value, gradient, float((own - scores.max(axis=1)).min())

    def _mean(self, parameters: np.ndarray) -> tuple[float, np.ndarray, float]:
        parts = [self._client(i, parameters) for i in range(self.clients)]
        value = sum(part[0] for part in parts) / self.clients
        gradient = sum((part[1] for part in parts), np.zeros_like(parameters)) / self.clients
        return float(value), gradient, min(part[2] for part in parts)

    def _curvature(self, parameters: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """The Hessian of f times a direction."""
        theta, step = self._matrix(parameters), self._matrix(direction)
        total, holding = np.zeros_like(theta), 0
        for a in self.samples:
            if len(a):
                holding += 1
                s, z = softmax(a @ theta.T, axis=1), a @ step.T
                total += (s * (z - (s * z).sum(axis=1, keepdims=True))).T @ a / len(a)
        return (_vector(total) + holding * self.weight_decay * direction) / self.clients

    def _smoothness(self, i: int) -> float:
        a = self.samples[i]
        if not len(a):
            return 0.0
        small = a.T @ a if a.shape[1] <= len(a) else a @ a.T
        return float(0.5 * np.linalg.eigvalsh(small)[-1] / len(a) + self.weight_decay)


def _vector(matrix: np.ndarray) -> np.ndarray:
    """The parameters in the order of a row: weights, then biases."""
    return np.concatenate([matrix[:, :-1].ravel(), matrix[:, -1]])


def client_gradients(
    problem: SoftmaxProblem, models: np.ndarray, batches: Sequence[np.ndarray | None]
) -> np.ndarray:
    """The gradient of each client at its own model, on its own batch: float64 [clients, parameters]."""
    return np.stack([problem.client(i, models[i], batch)[1] for i, batch in enumerate(batches)])
