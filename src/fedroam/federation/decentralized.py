"""Decentralized learning: clients in contact average their models, without any server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from fedroam.components import Part, field, register
from fedroam.contacts import degrees
from fedroam.federation.protocol import Exchanged, Meeting, Setting, Traffic
from fedroam.learning import Models, mix
from fedroam.mixing import Facts


@register(
    "federation",
    "decentralized",
    source="Reza et al., Sec. III (move_then_mix); Jahani et al., Alg. 1 (mix_then_move)",
)
class Decentralized(Part):
    """Every client trains its own model, then takes a weighted average with the clients it is in contact with.

    A round is: local update, move, consensus at the new places (`move_then_mix`, Reza et al.), or: local update,
    consensus at the present places, move (`mix_then_move`, Jahani et al.; it uses the start places too).
    """

    order: Literal["move_then_mix", "mix_then_move"] = field(
        "move_then_mix", "whether the consensus of a round uses the places after its move or before it"
    )

    def init(self, setting: Setting) -> dict[str, np.ndarray]:
        """See `Federation.init`: no state."""
        return {}

    def learners(
        self, state: Mapping[str, np.ndarray], setting: Setting, before: Meeting, round: int
    ) -> np.ndarray:
        """See `Federation.learners`: everybody who is present and holds samples."""
        return np.flatnonzero(before.paths.present & (setting.samples > 0))

    def exchange(
        self,
        models: Models,
        state: Mapping[str, np.ndarray],
        setting: Setting,
        before: Meeting,
        after: Meeting,
        round: int,
    ) -> Exchanged:
        """See `Federation.exchange`: x_i(t) = sum_j w_ij x_j(t - 1/2) (Reza et al., consensus update).

        Each client sends its model to each neighbour.
        """
        meeting = after if self.order == "move_then_mix" else before
        facts = Facts(samples=setting.samples, speed=meeting.paths.length)
        mix(models, setting.mixing.weights(meeting.graph, facts))
        receiver = np.repeat(np.arange(setting.clients, dtype=np.int32), degrees(meeting.graph))
        sender = meeting.graph.indices.astype(np.int32)
        size = np.full(len(sender), models.bytes_each, dtype=np.int64)
        return Exchanged(meeting, Traffic(sender, receiver, size), dict(state))
