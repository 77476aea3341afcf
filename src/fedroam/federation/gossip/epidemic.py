"""Epidemic Learning: models go to a few, drawn anew in each round."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from scipy import sparse
from typing_extensions import override

from fedroam.components import field, register
from fedroam.federation.decentralized import Decentralized, truth_of
from fedroam.federation.gossip.delivered import Delivered, directed, drawn_each
from fedroam.federation.protocol import Exchanged, FederationContext, Meeting, Round
from fedroam.randomness import stream


@register(
    "federation", "epidemic", source="de Vos et al., NeurIPS 2023, arXiv:2310.01972: EL-Oracle and EL-Local"
)
class Epidemic(Decentralized):
    """Epidemic Learning: every client sends its model to a few random others, and averages what it got with its own.

    The others are drawn anew in each round, of those in contact; with everybody in contact this is the paper's. With
    `draw = "local"` (EL-Local) each client draws `fanout` by itself, all where there are fewer; so some get many models
    and some none. With `draw = "oracle"` (EL-Oracle) somebody who knows all contacts draws for all: nobody sends
    or gets more than `fanout` models, and as many are sent as contacts then allow; with everybody in contact each
    client sends and gets `fanout`. All models that are averaged count alike; mixing rules have no say.

    How the oracle draws is ours: a maximum flow over the contacts in random order, by which all pairs are equally
    likely where everybody is in contact.
    """

    takes_pieces: ClassVar[bool] = True
    aggregates: ClassVar[bool] = True

    fanout: int = field(7, "clients that each one sends its model to (s); 7 in the paper, for 96", ge=1)
    draw: Literal["local", "oracle"] = field(
        "local", "who draws them: each for itself, or one for all, so that all get as many as they send"
    )

    def sends(self, round: Round, meeting: Meeting) -> sparse.csr_array:
        """A model to each of those drawn."""
        oracle = self.draw == "oracle"
        drawn = (
            self._oracle(round, meeting) if oracle else drawn_each("epidemic", round, meeting, self.fanout)
        )
        return drawn.astype(np.int64) * round.models.bytes_each

    def _oracle(self, round: Round, meeting: Meeting) -> sparse.csr_array:
        """As many pairs in contact as there can be, nobody in more than `fanout` as sender or as receiver: a maximum
        flow from the senders, who stand first, to the receivers."""
        n = round.context.clients
        if not meeting.graph.nnz:
            return meeting.graph
        from scipy.sparse.csgraph import maximum_flow

        draws = stream(round.context.seed, "epidemic oracle", round.number)
        # which flow there is depends on order
        place = np.concatenate([draws.permutation(n), n + draws.permutation(n)])
        receiver, sender = (ends.astype(np.int64) for ends in meeting.graph.nonzero())
        source, sink = 2 * n, 2 * n + 1
        low = np.concatenate([place[sender], np.full(n, source), place[n:]])
        high = np.concatenate([place[n + receiver], place[:n], np.full(n, sink)])
        most = np.concatenate([np.ones(len(sender), np.int32), np.full(2 * n, self.fanout, np.int32)])
        network = sparse.csr_array((most, (low, high)), shape=(2 * n + 2, 2 * n + 2))
        network.sort_indices()
        flow = maximum_flow(network, source, sink).flow
        drawn = np.asarray(flow[place[sender], place[n + receiver]]).reshape(-1) > 0
        return directed(receiver[drawn], sender[drawn], n)

    @override
    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """x_i <- (x_i + sum_j x_j) / (1 + |S_i|) over the senders S_i whose model client i got."""
        if round.pieces is not None:
            return self._of_pieces(round, after, round.pieces)
        meeting, models, truth = self.met(round, after), round.models, truth_of(round)
        found = Delivered.of(self, round, meeting)
        receiver, sender, apart = Meeting(meeting.paths, found.received).links
        arrived = self._delivered(round, receiver, sender, apart, truth)
        if not arrived.all():
            received = directed(receiver[arrived], sender[arrived], len(models))
            found = Delivered.of(self, replace(round, received=received), meeting)
        weights = _alike(found.received)
        self._combine(round, Meeting(meeting.paths, found.received), weights, truth)
        return Exchanged(found.meeting, found.traffic, models, dict(round.state), aggregated=found.heard)

    @override
    def _weights_of(
        self, context: FederationContext, meeting: Meeting, one_way: sparse.csr_array, round: int
    ) -> sparse.csr_array:
        return _alike(one_way)


def _alike(received: sparse.csr_array) -> sparse.csr_array:
    """Equal weights of the own model and all that were received (bool CSR [clients, clients])."""
    everybody = received.astype(np.float64) + sparse.eye_array(received.shape[0], format="csr")
    return sparse.csr_array(sparse.diags_array(1.0 / np.diff(everybody.indptr)) @ everybody)
