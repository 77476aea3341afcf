"""Data: sources, preprocessing, partition. What is learnt, and who holds which part of it."""

from fedroam.data import (
    cifar10,
    csv_table,
    digits,
    dirichlet,
    holdings,
    mnist,
    own,
    partition,
    shards,
    unsw_nb15,
)
from fedroam.data.cache import forget, load_dataset, name_of, offer
from fedroam.data.dataset import Dataset, Split, as_batch, cut
from fedroam.data.fetching import fetch
from fedroam.data.own import memory
from fedroam.data.partition import Partition

__all__ = [
    "Dataset",
    "Partition",
    "Split",
    "as_batch",
    "cifar10",
    "csv_table",
    "cut",
    "digits",
    "dirichlet",
    "fetch",
    "forget",
    "holdings",
    "load_dataset",
    "memory",
    "mnist",
    "name_of",
    "offer",
    "own",
    "partition",
    "shards",
    "unsw_nb15",
]
