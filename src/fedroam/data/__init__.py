"""Data: sources, preprocessing, partition. What is learnt, and who holds which part of it."""

from fedroam.data import dirichlet as dirichlet
from fedroam.data import label_skew as label_skew
from fedroam.data import partition as partition
from fedroam.data import shards as shards
from fedroam.data import sources as sources
from fedroam.data.cache import forget as forget
from fedroam.data.cache import load_dataset as load_dataset
from fedroam.data.cache import name_of as name_of
from fedroam.data.cache import offer as offer
from fedroam.data.dataset import Dataset as Dataset
from fedroam.data.dataset import DataSource as DataSource
from fedroam.data.dataset import Split as Split
from fedroam.data.dataset import cut as cut
from fedroam.data.partition import Partition as Partition
from fedroam.data.partition import split_of as split_of
from fedroam.data.preprocessing import ArrayPreprocessing as ArrayPreprocessing
from fedroam.data.preprocessing import Preprocessing as Preprocessing
from fedroam.data.preprocessing import TablePreprocessing as TablePreprocessing
from fedroam.data.preprocessing import preprocessing_of as preprocessing_of
from fedroam.data.sources.fetching import fetch as fetch
from fedroam.data.sources.own import memory as memory
