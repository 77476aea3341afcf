"""Who holds which training samples."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fedroam.components import Part, field, register
from fedroam.data.dataset import Dataset
from fedroam.errors import InputError


class Partition(Protocol):
    """Deals the training samples out to the clients."""

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """For each client, indices (int64) into the training samples. Raises InputError where it cannot."""


@register("partition", "iid")
class IID(Part):
    """Equal shares of the shuffled samples (sizes differ by at most one)."""

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """See `Partition.split`."""
        if clients > len(dataset.y_train):
            raise InputError(
                f"partition: {clients} clients but {len(dataset.y_train)} training samples: use fewer clients"
            )
        return [np.sort(part) for part in np.array_split(stream.permutation(len(dataset.y_train)), clients)]


@register("partition", "dirichlet", source="Hsu, Qi, Brown 2019 (arXiv:1909.06335); Reza et al., Sec. V")
class Dirichlet(Part):
    """Each class is dealt over the clients in proportions drawn from Dirichlet(alpha).

    Redrawn until every client holds at least `min_samples`, at most `max_tries` times.
    """

    alpha: float = field(0.1, "concentration: small is uneven, large is even", gt=0)
    min_samples: int = field(1, "fewest samples a client may hold", unit="samples", ge=0)
    max_tries: int = field(1000, "draws before giving up", ge=1)

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """See `Partition.split`."""
        labels = dataset.y_train
        by_class = [np.flatnonzero(labels == c) for c in range(dataset.classes)]
        if self.min_samples * clients > len(labels):
            raise InputError(
                f"partition.min_samples = {self.min_samples}: {clients} clients would need "
                f"{self.min_samples * clients} samples, the data has {len(labels)}"
            )
        fewest = 0
        for _ in range(self.max_tries):
            shares = stream.dirichlet(np.full(clients, self.alpha), size=dataset.classes)
            cuts = [
                (np.cumsum(share)[:-1] * len(members) + 0.5).astype(np.int64)
                for share, members in zip(shares, by_class, strict=True)
            ]
            sizes = sum(
                np.diff(cut, prepend=0, append=len(members))
                for cut, members in zip(cuts, by_class, strict=True)
            )
            fewest = max(fewest, int(np.min(sizes)))
            if np.min(sizes) >= self.min_samples:
                dealt = [
                    np.split(stream.permutation(members), cut)
                    for cut, members in zip(cuts, by_class, strict=True)
                ]
                return [np.sort(np.concatenate([c[k] for c in dealt])) for k in range(clients)]
        raise InputError(
            f"partition: no Dirichlet({self.alpha:g}) draw out of {self.max_tries} gave every one of {clients} "
            f"clients {self.min_samples} sample(s) (best: {fewest}): raise partition.alpha or "
            "partition.max_tries, or lower partition.min_samples or clients"
        )
