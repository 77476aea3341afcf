"""Label skew by Dirichlet draws: classes dealt over clients, or a mix of classes drawn for each client."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np

from fedroam.components import Part, field, register
from fedroam.data.dataset import Dataset
from fedroam.data.partition import need
from fedroam.errors import InputError


@register(
    "partition", "dirichlet", source="Yurochkin et al., ICML 2019 (arXiv:1905.12022); Reza et al., Sec. V"
)
class Dirichlet(Part):
    """Each class is dealt over the clients in proportions drawn from Dirichlet(alpha).

    Redrawn until every client holds at least `min_samples`, at most `max_tries` times. Every sample has
    exactly one holder.
    """

    alpha: float = field(0.1, "concentration: small is uneven, large is even", gt=0, allow_inf_nan=False)
    min_samples: int = field(1, "fewest samples a client may hold", unit="samples", ge=0)
    max_tries: int = field(1000, "draws before giving up", ge=1)

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """Classes cut by drawn proportions, until everybody holds enough."""
        if self.min_samples:
            need(clients, self.min_samples, dataset, "lower partition.min_samples")
        by_class = [np.flatnonzero(dataset.y_train == c) for c in range(dataset.classes)]
        totals = np.array([len(members) for members in by_class])
        best = 0
        for _ in range(self.max_tries):
            shares = stream.dirichlet(np.full(clients, self.alpha), size=dataset.classes)
            cuts = (np.cumsum(shares, axis=1)[:, :-1] * totals[:, None] + 0.5).astype(np.int64)
            cuts = np.minimum(cuts, totals[:, None])  # sums of shares may pass 1 by rounding
            sizes = np.diff(cuts, axis=1, prepend=0, append=totals[:, None]).sum(axis=0)
            best = max(best, int(sizes.min()))
            if sizes.min() >= self.min_samples:
                mixed = [stream.permutation(members) for members in by_class]
                edges = np.column_stack([np.zeros_like(totals), cuts, totals]).T.tolist()
                return [
                    np.sort(np.concatenate([c[a:b] for c, a, b in zip(mixed, *ends, strict=True)]))
                    for ends in itertools.pairwise(edges)
                ]
        raise InputError(
            f"partition: no Dirichlet({self.alpha:g}) draw out of {self.max_tries} gave every one of {clients} "
            f"clients {self.min_samples} sample(s) (best: {best}): raise partition.alpha or "
            "partition.max_tries, or lower partition.min_samples or clients"
        )


@register("partition", "client_dirichlet", source="Farcas et al., IoTDI 2023, Sec. 4.1; Hsu, Qi, Brown 2019")
class ClientDirichlet(Part):
    """Each client draws its mix of classes from Dirichlet(alpha) and holds a fixed number of samples.

    The counts are the mix times `samples_per_client`, cut to whole numbers; the rest goes to one class drawn
    at random. Classes without samples take no part.

    Without sharing, clients are served in random order, and where a class runs short its missing samples are
    drawn by the client's mix over the classes that are left: the nearer the clients come to holding all the
    data, the more the last ones served get what is left over instead of what they drew.
    """

    alpha: float = field(
        0.1, "concentration: small is one class a client, large is even", gt=0, allow_inf_nan=False
    )
    samples_per_client: int = field(50, "samples that every client holds", unit="samples", ge=1)
    sharing: Literal["none", "clients", "replacement"] = field(
        "none",
        "none: a sample has at most one holder; clients: several clients may hold a sample, each once; "
        "replacement: every draw is from the whole class (MOHAWK), so a client may hold a sample twice, and "
        "its own held-out share may repeat its training samples. By either of the two, others may train on "
        "samples that a client holds out",
    )

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """Counts by each client's drawn mix, filled in random order of the clients."""
        wanted = self.samples_per_client
        if self.sharing == "none":
            share = 'let clients share samples (partition.sharing = "clients")'
            need(clients, wanted, dataset, "lower partition.samples_per_client", share)
        elif self.sharing == "clients":
            need(1, wanted, dataset, "lower partition.samples_per_client")
        classes = np.unique(dataset.y_train)
        pools = [stream.permutation(np.flatnonzero(dataset.y_train == c)) for c in classes]
        mixes = stream.dirichlet(np.full(len(classes), self.alpha), size=clients)
        left = np.array([len(pool) for pool in pools])
        parts: list[np.ndarray] = [np.empty(0, np.int64)] * clients
        for client in stream.permutation(clients):
            counts = np.floor(mixes[client] * wanted).astype(np.int64)
            counts[stream.integers(len(classes))] += wanted - counts.sum()
            if self.sharing == "replacement":
                drawn = [stream.choice(pool, k) for pool, k in zip(pools, counts, strict=True)]
            elif self.sharing == "clients":
                counts = _within(counts, np.array([len(pool) for pool in pools]), mixes[client], stream)
                drawn = [stream.choice(pool, k, replace=False) for pool, k in zip(pools, counts, strict=True)]
            else:
                counts = _within(counts, left, mixes[client], stream)
                left -= counts
                drawn = [pool[n : n + k] for pool, n, k in zip(pools, left, counts, strict=True)]
            parts[client] = np.sort(np.concatenate(drawn))
        return parts


def _within(
    counts: np.ndarray, available: np.ndarray, mix: np.ndarray, stream: np.random.Generator
) -> np.ndarray:
    """Counts no class of which exceeds what is available; what a class lacks goes to the others by `mix`.

    The sum stays; it must not exceed what is available in all. At most one pass a class.
    """
    counts, total = np.minimum(counts, available), counts.sum()
    while (short := int(total - counts.sum())) > 0:
        room = available - counts
        weights = np.where(room > 0, mix, 0.0)
        if weights.sum() <= 0:  # only classes that the mix leaves out have samples: by their samples
            weights = room.astype(np.float64)
        counts = np.minimum(counts + stream.multinomial(short, weights / weights.sum()), available)
    return counts
