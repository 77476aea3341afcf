"""Push-sum: averages that need no answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.components import register
from fedroam.federation.aggregating import values
from fedroam.federation.decentralized import Decentralized
from fedroam.federation.gossip.delivered import Delivered
from fedroam.federation.protocol import (
    Arrays,
    Evaluated,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
    own_models,
)
from fedroam.learning import Learner, Models

# State: numerators, float64 [clients, parameters and buffers], and weights, float64 [clients].
NUMERATORS, WEIGHTS = "numerators", "push_weights"
BLOCK = 65536  # columns done at a time
NUMBER = 4  # bytes of the weight, a float32, that travels with a model


@register(
    "federation",
    "push_sum",
    source="Kempe, Dobra, Gehrke, FOCS 2003; Assran et al., ICML 2019, arXiv:1811.10792, Alg. 1",
)
class PushSum(Decentralized):
    """Stochastic Gradient Push: every client pushes shares of what it holds to those in contact, and needs no answer.

    A client holds a numerator x, a weight w (1 at first) and so the model z = x / w, on which it trains: what training
    changes in z is added to x. Then it divides x and w into 1 + d equal shares, keeps one and sends one to each of the
    d clients in contact; what it gets is added. A share that does not get through stays with its sender, which is
    assumed to know. So an exchange leaves the sums of x and w over all clients as they are, whatever breaks. Mixing
    rules have no say.

    Messages are float32, x and w themselves float64: a sender subtracts exactly what it has sent, so that both sums are
    kept up to the rounding of sums in float64. A client that is heard but hears nobody for long loses its weight, and
    what it learns then changes its own model by 1 / w of it: `push_weight_least` of the table of rounds is the smallest
    weight. The model that stands for all is the sum of x over that of w.
    """

    columns: ClassVar[tuple[str, ...]] = ("push_weight_least",)
    takes_pieces: ClassVar[bool] = False
    aggregates: ClassVar[bool] = False  # shares are added: by no rule

    @override
    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        models = start(range(context.clients))
        held = values(models.parameters, models.buffers).astype(np.float64)
        return InitialState(models, {NUMERATORS: held, WEIGHTS: np.ones(context.clients)})

    def sends(self, round: Round, meeting: Meeting) -> sparse.csr_array:
        """A model and a weight to everybody in contact."""
        return meeting.graph.astype(np.int64) * (round.models.bytes_each + NUMBER)

    @override
    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """x_i <- sum_j p_ij (x_j + change_j), w_i <- sum_j p_ij w_j, z_i <- x_i / w_i (Assran et al., Alg. 1)."""
        meeting, models = self._met(round, after), round.models
        found = Delivered.of(self, round, meeting)
        got = found.received.astype(np.float64)
        shares = 1.0 / (1.0 + np.diff(meeting.sends(self, round).tocsc().indptr))
        through = np.bincount(found.received.indices, minlength=len(shares)).astype(np.float64)
        x, w = round.state[NUMERATORS], round.state[WEIGHTS]
        parts = _on_the_air(shares * w)
        weights = w - through * parts + got @ parts
        numerators = np.empty_like(x)
        for columns, told, own in _trained(round):
            old = x[:, columns]
            begun = (old / w[:, None]).astype(np.float32)
            mine = old + (own.astype(np.float64) - begun)
            kept = pushed = _on_the_air(shares[:, None] * mine)
            if told is not own:  # attackers push what they say, and go on with what they have trained
                pushed = _on_the_air(shares[:, None] * (old + (told.astype(np.float64) - begun)))
            numerators[:, columns] = mine - through[:, None] * kept + got @ pushed
        _write(models, numerators, weights)
        state = {NUMERATORS: numerators, WEIGHTS: weights}
        facts = {"push_weight_least": float(weights.min())}
        return Exchanged(found.meeting, found.traffic, models, state, aggregated=found.heard, facts=facts)

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        total = state[NUMERATORS].sum(0, keepdims=True)
        mean = Models.empty(models.layout, 1, momentum=False, device=models.parameters.device)
        _write(mean, total, state[WEIGHTS].sum(keepdims=True))
        return {"own": own_models(models, mean)}


def _on_the_air(shares: np.ndarray) -> np.ndarray:
    """What arrives of shares: as float32 has them, float64."""
    return shares.astype(np.float32).astype(np.float64)


def _trained(round: Round) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Block by block of columns: what clients say that they have trained, and what they have, float32."""
    models, withheld = round.models, round.withheld
    size = models.layout.size
    for matrix, first in ((models.parameters, 0), (models.buffers, size)):
        for start in range(0, matrix.shape[1], BLOCK):
            part = slice(start, min(start + BLOCK, matrix.shape[1]))
            told = matrix[:, part].cpu().numpy()
            own = told
            if withheld is not None and first == 0:
                own = told.copy()
                own[withheld.rows] = withheld.parameters[:, part].cpu().numpy()
            yield slice(first + part.start, first + part.stop), told, own


def _write(models: Models, numerators: np.ndarray, weights: np.ndarray) -> None:
    """Make each row the model of its numerator and weight."""
    size = models.layout.size
    for matrix, columns in ((models.parameters, slice(0, size)), (models.buffers, slice(size, None))):
        found = (numerators[:, columns] / weights[:, None]).astype(np.float32)
        matrix.copy_(torch.from_numpy(found))
