"""Label skew by construction: chunks of the samples sorted by class, or a number of classes a client."""

from __future__ import annotations

import numpy as np

from fedroam.components import Part, field, register
from fedroam.data.dataset import Dataset
from fedroam.errors import InputError


@register("partition", "shards", source="McMahan et al., AISTATS 2017, Sec. 3")
class Shards(Part):
    """Samples sorted by class and cut into chunks; each client gets some chunks at random. No sample has two holders.

    Without `shard_size` the chunks are equal (sizes differ by at most one) and hold all samples. With it,
    what does not fill a chunk, and chunks that nobody needs, stay undealt.
    """

    shards_per_client: int = field(2, "chunks that every client gets", ge=1)
    shard_size: int | None = field(
        None, "samples in a chunk; left out: all samples, in equal chunks", unit="samples", ge=1
    )

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """Random chunks of the samples sorted by class."""
        order = np.argsort(dataset.y_train, kind="stable")
        count = clients * self.shards_per_client
        size = self.shard_size or 1
        if count * size > len(order):
            lower = "partition.shards_per_client" + (" or partition.shard_size" if self.shard_size else "")
            raise InputError(
                f"partition: {clients} clients with {self.shards_per_client} shards of {size} sample(s) need "
                f"{count * size}, data {dataset.name!r} has {len(order)} training samples: lower {lower} or "
                "clients"
            )
        if self.shard_size is None:
            chunks = np.array_split(order, count)
        else:
            chunks = np.split(order[: len(order) // size * size], len(order) // size)
        dealt = stream.permutation(len(chunks))[:count].reshape(clients, -1)
        return [np.sort(np.concatenate([chunks[k] for k in mine])) for mine in dealt]


@register("partition", "classes")
class Classes(Part):
    """Every client holds exactly k classes; each class is divided equally among those who hold it.

    Classes have equally many holders (numbers differ by at most one) and no sample has two holders. Where
    clients times k is less than the number of classes, the classes that nobody drew stay undealt.
    """

    classes_per_client: int = field(2, "classes that every client holds", ge=1)

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """Equal shares of each class for those who drew it."""
        present, sizes = np.unique(dataset.y_train, return_counts=True)
        k, count = self.classes_per_client, len(present)
        if k > count:
            raise InputError(
                f"partition.classes_per_client = {k}: data {dataset.name!r} has {count} classes, allowed is 1 to "
                f"{count}"
            )
        holders = self._holders(clients, count, stream)
        parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for c, size in enumerate(sizes):
            mine = np.flatnonzero(holders[:, c])
            if not len(mine):
                continue
            if size < len(mine):
                raise InputError(
                    f"partition: class {dataset.class_names[present[c]]!r} has {size} training samples for "
                    f"{len(mine)} holders: lower partition.classes_per_client or clients"
                )
            members = stream.permutation(np.flatnonzero(dataset.y_train == present[c]))
            for client, share in zip(
                stream.permutation(mine), np.array_split(members, len(mine)), strict=True
            ):
                parts[client].append(share)
        return [np.sort(np.concatenate(part)) for part in parts]

    def _holders(self, clients: int, count: int, stream: np.random.Generator) -> np.ndarray:
        """Who holds what, bool [clients, classes]: k in every row, columns equal to within one.

        Each client takes the k classes that lack most holders, ties at random: that never runs into a dead
        end (Gale, Ryser: a class never lacks more holders than clients are left).
        """
        lacking = np.full(count, clients * self.classes_per_client // count)
        lacking[stream.permutation(count)[: clients * self.classes_per_client % count]] += 1
        holders = np.zeros((clients, count), dtype=bool)
        for client in range(clients):
            mixed = stream.permutation(count)
            mine = mixed[np.argsort(-lacking[mixed], kind="stable")[: self.classes_per_client]]
            holders[client, mine] = True
            lacking[mine] -= 1
        return holders
