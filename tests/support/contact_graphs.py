"""Contact graphs and the mixing weights on them, to test connectivity."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fedroam.components import build
from fedroam.contacts import graph_of
from fedroam.mixing import Facts


def graph(clients: int, *pairs: tuple[int, int]) -> sparse.csr_array:
    return graph_of(np.array(pairs, dtype=np.int64).reshape(-1, 2), clients)


def random_graph(draws: np.random.Generator, clients: int, share: float) -> sparse.csr_array:
    i, j = np.triu_indices(clients, k=1)
    met = draws.random(len(i)) < share
    return graph_of(np.stack([i[met], j[met]], axis=1), clients)


def weights_of(kind: str, one: sparse.csr_array, samples: np.ndarray | None = None) -> sparse.csr_array:
    n = one.shape[0]
    facts = Facts(samples=np.ones(n, dtype=np.int64) if samples is None else samples, speed=np.ones(n))
    return build("mixing", kind).weights(one, facts)  # type: ignore[attr-defined, no-any-return]
