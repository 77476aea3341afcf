"""What is made of the models that meet: their weighted average, or a rule that sees the models themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from fedroam.components import Part, register
from fedroam.mixing.facts import Facts


@dataclass(frozen=True)
class Received:
    """The models at hand where one aggregation happens: at a client, an access point, the server or the cloud.

    own: float32 [values], the model of whoever aggregates: a client's own after training; the one that the server,
    access point or cloud handed out last. models: float32 [models, values], those to be aggregated; at a client its own
    is among them. weights: float64 [models], how much each counts in the average (by `mixing` at a client, by the
    federation elsewhere); they sum to 1. holder: who aggregates; holders: int64 [models], whose the models are (clients
    are 0, 1, ..., the server or cloud is -1, access point a is -2 - a). round: 1, 2, ... of `rounds`. A model's values
    are its parameters, then its buffers. No array may be written into.
    """

    own: np.ndarray
    models: np.ndarray
    weights: np.ndarray
    holder: int
    holders: np.ndarray
    round: int
    rounds: int


@runtime_checkable
class Aggregation(Protocol):
    """A rule that makes one model of several."""

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        """The model that whoever aggregates holds from now on, float32 [values].

        It must not depend on the order of the models but for rounding, and draws nothing. It is not asked where there
        is nothing to aggregate: a client without contacts keeps its model.
        """


@register("aggregation", "average")
class Average(Part):
    """The weighted average: x <- sum_j w_j x_j, weights by the mixing rule or the federation.

    Federations compute it at once for everybody, as the product of a sparse matrix with the matrix of all models.
    """

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        """sum_j w_j x_j, added up in float64."""
        return mean(received.models, received.weights)


def mean(models: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The average of models (float32 [models, values]), by weights that sum to 1 or plain; float32 [values].

    Added up in float64 in the order of the models: the same for any number of threads.
    """
    shares = np.full(len(models), 1 / len(models)) if weights is None else weights
    total = np.zeros(models.shape[1])
    for model, share in zip(models, shares, strict=True):
        total += np.multiply(model, share, dtype=np.float64)
    return total.astype(np.float32)


def distances(models: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """||x_j - origin|| of each model (float32 [models, values]), float64 [models]; added up in float64."""
    gaps = (np.subtract(model, origin, dtype=np.float64) for model in models)
    return np.array([np.sqrt(np.square(gap).sum()) for gap in gaps])
