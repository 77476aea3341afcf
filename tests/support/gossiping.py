"""Exchanges between neighbours by themselves: rounds made of arrays, without data, movement or training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse

from fedroam.federation import FederationContext, InitialState, Meeting, Round
from fedroam.federation.protocol import NOBODY, Exchanged
from fedroam.learning import Layout, Models
from fedroam.learning.layout import Entry
from fedroam.mobility import Paths

NOTHING: Any = None


def models_of(rows: np.ndarray) -> Models:
    """Models with these values, float [clients, values]; the last value is a buffer."""
    parameters = rows.shape[1] - 1
    layout = Layout((Entry("w", (parameters,), 0, parameters),), (Entry("b", (1,), 0, 1),))
    values = torch.from_numpy(np.array(rows, dtype=np.float32))
    return Models(layout, values[:, :-1].clone(), values[:, -1:].clone(), None)


def rows_of(models: Models) -> np.ndarray:
    """The values of models, float64 [clients, values]."""
    return torch.cat([models.parameters, models.buffers], 1).double().numpy()


def context_of(samples: np.ndarray, seed: int = 1) -> FederationContext:
    """Clients with so many samples."""
    return FederationContext(
        seed, samples, NOTHING, NOTHING, (), (), np.zeros((len(samples), 2), np.int64), (0.0, 0.0, 1.0, 1.0)
    )


def meeting_of(graph: np.ndarray, present: np.ndarray | None = None) -> Meeting:
    """Who is in contact, bool [clients, clients]; client i stands at (i, 0)."""
    places = np.stack([np.arange(len(graph), dtype=float), np.zeros(len(graph))], axis=1)
    here = np.ones(len(graph), bool) if present is None else present
    return Meeting(Paths.still(places, here), directed_graph(graph))


def directed_graph(graph: np.ndarray) -> sparse.csr_array:
    """Who (row) gets whose model (column)."""
    found = sparse.csr_array(np.asarray(graph, dtype=bool))
    found.sort_indices()
    return found


def begun(federation: Any, rows: np.ndarray, context: FederationContext) -> InitialState:
    """Before round 1."""
    found: InitialState = federation.init(context, lambda _: models_of(rows), NOTHING)
    return found


def round_of(
    number: int,
    models: Models,
    state: dict[str, np.ndarray],
    context: FederationContext,
    received: np.ndarray | None = None,
    training: np.ndarray = NOBODY,
) -> Round:
    """A round in which everybody has trained; received: what got through, bool [clients, clients], or all."""
    before = Meeting.nowhere(context.clients)
    got = None if received is None else directed_graph(received)
    return Round(number, models, state, context, before, NOTHING, received=got, training=training)


def drawn_graph(draws: np.random.Generator, clients: int) -> np.ndarray:
    """Contacts at random, bool [clients, clients], symmetric."""
    upper = np.triu(draws.random((clients, clients)) < draws.random(), k=1)
    return np.asarray(upper | upper.T)


def same_exchanges(one: Exchanged, other: Exchanged) -> None:
    """The same models, state and bytes, bit for bit."""
    for name, array in one.state.items():
        np.testing.assert_array_equal(array, other.state[name])
    np.testing.assert_array_equal(rows_of(one.models), rows_of(other.models))
    assert one.traffic.total == other.traffic.total
