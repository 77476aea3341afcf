"""FedAsync and FedBuff at access points."""

from __future__ import annotations

from fedroam.components import register
from fedroam.federation.asynchronous.access_points import TakesAtOnce
from fedroam.federation.asynchronous.rules import Gathers, MixesAtOnce
from fedroam.federation.hierarchical import Hierarchical


@register(
    "federation",
    "hierarchical_fedasync",
    source="Xie, Koyejo, Gupta 2019, arXiv:1903.03934, Alg. 1, Sec. 5.2, at the access points of Farcas et al., Alg. 1",
)
class HierarchicalFedAsync(MixesAtOnce, TakesAtOnce, Hierarchical):
    """Access points mix each model into their own as it arrives, as the server of `fedasync` does.

    Devices roam, and after every `k2` rounds the cloud averages, as in `hierarchical`, with whose other settings it
    goes; `weights` are the cloud's alone. Updates are never lost to a global aggregation: with `carry_over` they wait
    until they are delivered.

    Staleness k counts models of the access point that takes the update: those that it made of updates, and those that
    it got of the cloud. For a device that has stayed, they are those since it got its model; for one that has moved,
    those since the last global aggregation before that, where the two access points last had a model in common. The
    combination is ours. It adds the column `staleness`: the mean of k over the updates that were taken in a round.
    """


@register(
    "federation",
    "hierarchical_fedbuff",
    source="Nguyen et al., AISTATS 2022, arXiv:2106.06639, Alg. 1, at the access points of Farcas et al., Alg. 1",
)
class HierarchicalFedBuff(Gathers, TakesAtOnce, Hierarchical):
    """Access points gather updates as they arrive, and make a new model of every `size` of them, as `fedbuff`'s server.

    Each access point has a buffer of its own. What it holds waits for the next update, also beyond global
    aggregations, and is added to the model that the access point has by then; so does an update that is under way, with
    `carry_over`. An update counts as aggregated once an access point has it. All else is as in `hierarchical`, with
    whose other settings it goes (`weights` are the cloud's alone), and staleness as in `hierarchical_fedasync`. The
    combination is ours.

    The models that devices were given are kept as long as they are under way. It adds the column `staleness`: the mean
    over the updates that were taken in a round.
    """
