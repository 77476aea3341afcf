"""Aggregation by a rule that sees the models: the bridge from the matrix of all models to plain arrays."""

from __future__ import annotations

import numpy as np
import torch

from fedroam.components import called, ours
from fedroam.errors import FedroamError
from fedroam.federation.holders import Gathered, KnownToHolders, Model
from fedroam.learning import Layout, Models
from fedroam.mixing import Aggregation, Average, Received


def averages(rule: Aggregation) -> bool:
    """Whether a rule is the weighted average itself, which is computed as a product of matrices."""
    return type(rule) is Average


def aggregated(
    known: KnownToHolders,
    own: np.ndarray,
    models: np.ndarray,
    weights: np.ndarray,
    holder: int,
    holders: np.ndarray,
) -> np.ndarray:
    """What the run's rule makes of models, float32 [values]; the arrays are those of `Received`."""
    rule = known.context.aggregation
    received = Received(own, models, weights, holder, holders, known.round, known.context.rounds)
    found = np.asarray(rule.aggregate(received, known.facts))
    if found.shape != own.shape or found.dtype != np.float32:
        raise FedroamError(
            f"aggregation {called(rule)}: aggregate gave {found.dtype} {list(found.shape)}; "
            f"expected float32 {list(own.shape)}"
        )
    if (
        not ours(rule)
        and not np.isfinite(found).all()
        and np.isfinite(models).all()
        and np.isfinite(own).all()
    ):
        raise FedroamError(
            f"aggregation {called(rule)}: aggregate gave {_no_number(found)} in round {known.round} at "
            f"{_place(holder)}; allowed are numbers, as all models are that it was given"
        )
    return found if ours(rule) else found.copy()  # it may give the same array to all


def _place(holder: int) -> str:
    """Where an aggregation happens, in words (see `Received.holder`)."""
    if holder == -1:
        return "the server or cloud"
    return f"client {holder}" if holder >= 0 else f"access point {-2 - holder}"


def _no_number(values: np.ndarray) -> str:
    """How many of some values are no numbers, and the first of them."""
    where = np.flatnonzero(~np.isfinite(values))
    return f"{values[where[0]]:g} as value {where[0]} of {len(values)} ({len(where)} are no numbers)"


def values(parameters: torch.Tensor, buffers: torch.Tensor) -> np.ndarray:
    """Parameters, then buffers, of the same rows (or of one model), as a rule sees them."""
    return torch.cat([parameters, buffers], dim=-1).cpu().numpy()


def models_of(layout: Layout, rows: np.ndarray) -> Models:
    """Models of these values, float32 [models, parameters and buffers]: copies."""
    parameters, buffers = (torch.from_numpy(part.copy()) for part in np.split(rows, [layout.size], axis=1))
    return Models(layout, parameters, buffers, None)


def made_by_rule(models: Models, gathered: Gathered, weights: np.ndarray, known: KnownToHolders) -> Model:
    """What the run's rule makes of the models that have reached a holder; weights: float64 [models]."""
    index = torch.from_numpy(gathered.rows).to(models.parameters.device)
    own = values(models.parameters[gathered.own], models.buffers[gathered.own])
    given = values(models.parameters.index_select(0, index), models.buffers.index_select(0, index))
    found = aggregated(known, own, given, weights, gathered.holder, gathered.holders)
    parameters, buffers = np.split(found, [models.layout.size])
    return torch.from_numpy(parameters), torch.from_numpy(buffers)
