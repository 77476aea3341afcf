"""Data: sources, preprocessing, partition. What is learnt, and who holds which part of it."""

from fedroam.data import cifar10, digits, mnist, partition
from fedroam.data.dataset import Dataset, Split, as_batch, cut
from fedroam.data.partition import Partition

__all__ = ["Dataset", "Partition", "Split", "as_batch", "cifar10", "cut", "digits", "mnist", "partition"]
