"""Aggregation by a rule that sees the models: the bridge from the matrix of all models to plain arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from scipy import sparse

from fedroam.errors import FedroamError
from fedroam.federation.protocol import FederationContext, Meeting
from fedroam.learning import Models
from fedroam.mixing import Aggregation, Average, Facts, Received


def averages(rule: Aggregation) -> bool:
    """Whether a rule is the weighted average itself, which is computed as a product of matrices."""
    return type(rule) is Average


def aggregated(
    context: FederationContext,
    facts: Facts,
    own: np.ndarray,
    models: np.ndarray,
    weights: np.ndarray,
    holder: int,
    holders: np.ndarray,
    round: int,
) -> np.ndarray:
    """What the run's rule makes of models, float32 [values]; the arrays are those of `Received`."""
    received = Received(own, models, weights, holder, holders, round, context.rounds)
    found = np.asarray(context.aggregation.aggregate(received, facts))
    if found.shape != own.shape or found.dtype != np.float32:
        raise FedroamError(
            f"aggregation {type(context.aggregation).__name__}: aggregate gave {found.dtype} {list(found.shape)}; "
            f"expected float32 {list(own.shape)}"
        )
    return found


def values(parameters: torch.Tensor, buffers: torch.Tensor) -> np.ndarray:
    """Parameters, then buffers, of the same rows (or of one model), as a rule sees them."""
    return torch.cat([parameters, buffers], dim=-1).cpu().numpy()


def aggregate_at_clients(
    models: Models,
    context: FederationContext,
    weights: sparse.csr_array,
    meeting: Meeting,
    clients: Iterable[int],
    round: int,
) -> None:
    """Each of these clients that is in contact replaces its model by what the rule makes of its neighbourhood's.

    weights: those of the mixing rule, float64 CSR [clients, clients]. All models are read before any is replaced.
    """
    graph, facts = meeting.graph, context.facts(context.aggregation, meeting)
    everything, found = values(models.parameters, models.buffers), {}
    for i in clients:
        near = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        if len(near):
            members = np.sort(np.append(near, i)).astype(np.int64)
            row = weights[[i]].toarray()[0, members]
            found[i] = aggregated(context, facts, everything[i], everything[members], row, i, members, round)
    for i, value in found.items():
        write(models, i, value)


def write(models: Models, row: int, value: np.ndarray) -> None:
    """Replace a row's parameters and buffers by values that a rule gave."""
    size = models.layout.size
    models.parameters[row] = torch.from_numpy(value[:size])
    models.buffers[row] = torch.from_numpy(value[size:])
