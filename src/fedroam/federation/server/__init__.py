"""Server-based methods, one short file each on one loop."""

from fedroam.federation.server import (
    baselines,
    ditto,
    fedavg,
    fedavgdbe,
    fedfomo,
    fedgh,
    fedproto,
    fedprox,
    gpfl,
    mocfl,
    moon,
    scaffold,
)
from fedroam.federation.server.loop import ServerLoop, ServerRound, weighted_mean

__all__ = [
    "ServerLoop",
    "ServerRound",
    "baselines",
    "ditto",
    "fedavg",
    "fedavgdbe",
    "fedfomo",
    "fedgh",
    "fedproto",
    "fedprox",
    "gpfl",
    "mocfl",
    "moon",
    "scaffold",
    "weighted_mean",
]
