"""Data: sources, preprocessing, partition. What is learnt, and who holds which part of it."""

from fedroam.data import dirichlet, label_skew, partition, shards, sources
from fedroam.data.cache import forget, load_dataset, name_of, offer
from fedroam.data.dataset import Dataset, DataSource, Split, as_batch, cut
from fedroam.data.partition import Partition
from fedroam.data.preprocessing import (
    ArrayPreprocessing,
    Preprocessing,
    TablePreprocessing,
    preprocessing_of,
)
from fedroam.data.sources.fetching import fetch
from fedroam.data.sources.own import memory

__all__ = [
    "ArrayPreprocessing",
    "DataSource",
    "Dataset",
    "Partition",
    "Preprocessing",
    "Split",
    "TablePreprocessing",
    "as_batch",
    "cut",
    "dirichlet",
    "fetch",
    "forget",
    "label_skew",
    "load_dataset",
    "memory",
    "name_of",
    "offer",
    "partition",
    "preprocessing_of",
    "shards",
    "sources",
]
