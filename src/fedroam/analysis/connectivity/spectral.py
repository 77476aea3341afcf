"""How far an exchange, or a window of exchanges, brings models together: mixing parameter and spectral gap.

Mixing weights act on rows here: X is [clients, parameters] and an exchange is X <- W X, x_i <- sum_j w_ij x_j, with
rows of W summing to 1. (In Jahani et al. models are columns and an exchange is X W; their W is the transpose of
this one, and Metropolis-Hastings weights are symmetric.) J = 11^T / N is the average of all.

Assumption 3 asks for ||W M - Mbar||_F^2 <= (1 - p) ||M - Mbar||_F^2 for every M with mean Mbar = J M. Since W Mbar =
Mbar, only D = M - Mbar counts, which is orthogonal to 1, so the largest such p is

    p = 1 - ||W (I - J)||_2^2,

1 minus the largest eigenvalue of W^T W on the complement of 1. For a doubly stochastic W that is the paper's
1 - lambda_2(W^T W). For rows that sum to 1 while columns do not (`plain`, `data_size`), lambda_2 may be another number,
W moves the mean itself, and p may be negative: then no p of 0 .. 1 exists, and Theorem 1, whose proof keeps the mean,
does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from fedroam.randomness import stream

DENSE = 256  # clients; up to here matrices are dense, beyond it eigen-solvers see products with vectors only
_BYTES = 64e6  # of dense matrices held at a time
_EXACT = 1e-12

MixingMatrix = sparse.csr_array  # float64 [clients, clients], rows summing to 1


def doubly_stochastic(weights: MixingMatrix) -> bool:
    """Whether rows and columns sum to 1 (to 1e-12) and no weight is negative."""
    sums = [weights.sum(axis=axis) for axis in (0, 1)]
    return bool(
        (weights.data >= 0).all() and all(np.abs(each - 1).max(initial=0.0) <= _EXACT for each in sums)
    )


def mixing_parameter(chain: Sequence[MixingMatrix], *, dense: bool | None = None) -> float:
    """p of the product W_last ... W_first of the rounds in `chain` (one round: a chain of one).

    weights: float64 CSR [clients, clients], rows summing to 1. dense: whether to form matrices (default: up to
    256 clients); otherwise Lanczos iteration on products with vectors. What cannot be told from 0 (1e-12) is 0: so
    it is where doubly stochastic weights leave two groups of clients without any exchange.
    """
    clients = chain[0].shape[0]
    if clients <= DENSE if dense is None else dense:
        product = chain[0].toarray()
        for weights in chain[1:]:
            product = weights @ product
        return float(_parameters(product[None])[0])
    if not connects(chain) and all(doubly_stochastic(weights) for weights in chain):
        # Known without computing: what is constant on each group stays as it is, and nothing grows.
        return 0.0
    p = 1 - _largest(_gram(chain))
    return 0.0 if abs(p) < _EXACT else p


def mixing_parameters(weights: Sequence[MixingMatrix]) -> np.ndarray:
    """p of each round by itself, float64 [rounds]."""
    return _each(weights, _parameters, lambda one: mixing_parameter([one]))


def window_parameters(weights: Sequence[MixingMatrix], length: int, *, keep_last: bool = False) -> np.ndarray:
    """p of the product of each aligned window of `length` rounds, float64 [windows]."""
    ends = range(length, len(weights) + 1, length)
    chains = [weights[end - length : end] for end in ends]
    if keep_last and len(weights) % length:
        chains.append(weights[len(weights) - len(weights) % length :])
    return np.array([mixing_parameter(chain) for chain in chains])


def window_distances(weights: Sequence[MixingMatrix], length: int) -> np.ndarray:
    """||P - J||_F^2 of the product P of each aligned window of `length` rounds, float64 [windows]."""
    found = []
    for end in range(length, len(weights) + 1, length):
        product = weights[end - length].toarray()
        for one in weights[end - length + 1 : end]:
            product = one @ product
        found.append(((product - 1 / len(product)) ** 2).sum())
    return np.array(found)


def spectral_gap(weights: MixingMatrix, *, dense: bool | None = None) -> float:
    """1 - |lambda_2|, the second largest modulus of W's eigenvalues (its eigenvalue 1 of the vector 1 left out).

    Where W is symmetric it is 1 - sqrt(1 - p).
    """
    clients = weights.shape[0]
    if not connects([weights]):
        return 0.0  # every group has an eigenvalue 1 of its own
    if clients <= DENSE if dense is None else dense:
        return float(_gaps(weights.toarray()[None])[0])
    operator = LinearOperator(
        (clients, clients), matvec=lambda x: weights @ (np.ravel(x) - np.mean(x)), dtype=np.float64
    )
    return 1 - _largest(operator, symmetric=abs(weights - weights.T).max() <= _EXACT)


def spectral_gaps(weights: Sequence[MixingMatrix]) -> np.ndarray:
    """The spectral gap of each round, float64 [rounds]."""
    return _each(weights, _gaps, spectral_gap)


def deviations(product: np.ndarray) -> np.ndarray:
    """||(I - J) P||_2 of each of a stack of products P [..., clients, clients] of row-stochastic weights.

    It is how much of the distance from the mean is left after the product, at most, measured from the new mean; for
    doubly stochastic weights ||P - J||_2, so that p = 1 - its square.
    """
    return _norms(np.swapaxes(product, -1, -2))


def connects(chain: Sequence[MixingMatrix]) -> bool:
    """Whether the exchanges of a chain, taken together, leave no group of clients apart."""
    union = sum((abs(weights) for weights in chain[1:]), abs(chain[0]))
    count, _ = connected_components(union, directed=False)
    return bool(count == 1)


def _each(
    weights: Sequence[MixingMatrix],
    dense: Callable[[np.ndarray], np.ndarray],
    single: Callable[[MixingMatrix], float],
) -> np.ndarray:
    """A number for each round: by stacks of dense matrices, or one by one where they are large.

    Rounds that equal the one before, as those of clients who stand still, are computed once.
    """
    fresh = [k == 0 or not _equal(weights[k - 1], one) for k, one in enumerate(weights)]
    some = [one for one, new in zip(weights, fresh, strict=True) if new]
    if some and some[0].shape[0] <= DENSE:
        step = max(1, int(_BYTES // (8 * some[0].shape[0] ** 2)))
        stacks = (np.stack([one.toarray() for one in some[k : k + step]]) for k in range(0, len(some), step))
        values = np.concatenate([dense(stack) for stack in stacks])
    else:
        values = np.array([single(one) for one in some], dtype=np.float64)
    return np.asarray(values[np.cumsum(fresh) - 1])


def _equal(one: MixingMatrix, other: MixingMatrix) -> bool:
    return (
        np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.indices, other.indices)
        and np.array_equal(one.data, other.data)
    )


def _parameters(some: np.ndarray) -> np.ndarray:
    """p of a stack of matrices."""
    p = 1 - _norms(some) ** 2
    return np.where(np.abs(p) < _EXACT, 0.0, p)


def _gaps(some: np.ndarray) -> np.ndarray:
    """The spectral gaps of a stack of matrices."""
    if np.abs(some - some.transpose(0, 2, 1)).max() <= _EXACT:
        gaps = 1 - _norms(some)
    else:
        gaps = 1 - np.abs(np.linalg.eigvals(_centred(some))).max(axis=1)
    return np.where(np.abs(gaps) < _EXACT, 0.0, gaps)


def _centred(matrix: np.ndarray) -> np.ndarray:
    """W (I - J)."""
    return np.asarray(matrix - matrix.mean(axis=-1, keepdims=True))


def _norms(some: np.ndarray) -> np.ndarray:
    """||W (I - J)||_2 of a stack of matrices."""
    return np.asarray(np.linalg.norm(_centred(some), ord=2, axis=(-2, -1)))


def _gram(chain: Sequence[MixingMatrix]) -> LinearOperator:
    """(I - J) P^T P (I - J) for the product P of a chain, as an operator on vectors."""
    clients = chain[0].shape[0]
    turned = [weights.T.tocsr() for weights in chain]

    def apply(x: np.ndarray) -> np.ndarray:
        y = np.ravel(x) - np.mean(x)
        for weights in chain:
            y = weights @ y
        for weights in reversed(turned):
            y = weights @ y
        return np.asarray(y - y.mean())

    return LinearOperator((clients, clients), matvec=apply, dtype=np.float64)


def _largest(operator: LinearOperator, *, symmetric: bool = True) -> float:
    """The largest modulus of an operator's eigenvalues."""
    clients = operator.shape[0]
    start = stream(0, "start vector").standard_normal(clients)  # fixed, so that the answer is repeatable
    start -= start.mean()
    if np.linalg.norm(operator @ start) <= 1e-14 * np.linalg.norm(start):
        return 0.0  # everybody hears everybody: nothing is left after one exchange, and ARPACK refuses that
    solve = eigsh if symmetric else eigs
    for width in (40, 160, 640):
        try:
            found = solve(
                operator, k=1, which="LM", v0=start, ncv=min(clients, width), return_eigenvectors=False
            )
            return float(np.abs(found[0]))
        except ArpackNoConvergence:
            continue
    matrix = operator @ np.eye(clients)
    return float(np.abs(np.linalg.eigvalsh(matrix) if symmetric else np.linalg.eigvals(matrix)).max())
