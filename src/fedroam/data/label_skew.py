"""Label skew: how unequal the clients' samples and classes are, as a table and in a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedroam.data.dataset import Dataset, Split, never_taught_note, one_class_note

if TYPE_CHECKING:
    import pandas as pd


def label_entropy(class_counts: np.ndarray) -> np.ndarray:
    """Shannon entropy of each client's class mix in bits, float64 [clients]; 0 where nothing is held.

    0 is one class only, log2(classes) is all classes alike. class_counts: [clients, classes].
    """
    mix = _mixes(class_counts)
    return np.asarray(-(mix * np.log2(np.where(mix > 0, mix, 1.0))).sum(axis=1) + 0.0)


def mix_distance(class_counts: np.ndarray, overall: np.ndarray) -> np.ndarray:
    """Total variation between each client's class mix and the overall one, float64 [clients].

    Half the sum of absolute differences: 0 is the same mix, 1 is no class in common; NaN where nothing is
    held. class_counts: [clients, classes], overall: counts [classes].
    """
    distance = 0.5 * np.abs(_mixes(class_counts) - overall / overall.sum()).sum(axis=1)
    return np.where(class_counts.sum(axis=1) > 0, distance, np.nan)


def _mixes(class_counts: np.ndarray) -> np.ndarray:
    return np.asarray(class_counts / np.maximum(class_counts.sum(axis=1, keepdims=True), 1))


def client_table(dataset: Dataset, split: Split, sites: Sequence[str] = ()) -> pd.DataFrame:
    """One row a client: `client, train, validation, test, classes, entropy_bits, distance`.

    sites: whose samples each client holds, a column `site` after `client`; empty where samples have no names.
    train, validation, test: samples; classes: different classes among the training samples; entropy_bits:
    `label_entropy`; distance: `mix_distance` from all training samples of the data set.
    """
    import pandas as pd

    counts = split.class_counts(dataset.y_train, dataset.classes)
    return pd.DataFrame(
        {
            "client": np.arange(len(split.train)),
            **({"site": list(sites)} if sites else {}),
            "train": split.sizes,
            "validation": [len(part) for part in split.validation],
            "test": [len(part) for part in split.test],
            "classes": (counts > 0).sum(axis=1),
            "entropy_bits": label_entropy(counts),
            "distance": mix_distance(counts, np.bincount(dataset.y_train, minlength=dataset.classes)),
        }
    )


def describe_split(dataset: Dataset, split: Split) -> list[str]:
    """A few lines on the data set and on who holds what."""
    table = client_table(dataset, split)
    dealt = np.concatenate([*split.train, *split.validation, *split.test])
    distinct = len(np.unique(dealt))
    shape = "x".join(str(n) for n in dataset.shape)
    lines = [
        f"{dataset.name}: {len(dataset.y_train):,} training and {len(dataset.y_test):,} test samples of {shape}, "
        f"{dataset.classes} classes",
        *dataset.notes,
        *([note] if (note := one_class_note(dataset.class_names)) else []),
        *([never_taught_note(dataset.never_taught, len(dataset.y_test))] if dataset.never_taught else []),
        f"{len(table)} clients hold {distinct:,} of the training samples ({distinct / len(dataset.y_train):.1%})"
        + (f", {len(dealt) - distinct:,} of them more than once" if len(dealt) > distinct else ""),
    ]
    out = np.unique(np.concatenate([*split.validation, *split.test]))
    taught = int(np.isin(out, np.concatenate(split.train)).sum())
    if taught:
        lines.append(
            f"{taught:,} of {len(out):,} held-out samples (validation, own test) are among somebody's training "
            "samples, too: they are not unseen"
        )
    for name, column in (("training", "train"), ("validation", "validation"), ("own test", "test")):
        if table[column].any():
            lines.append(f"{name} samples a client: {_range(table[column], ',.0f')}")
    lines.append(f"classes a client: {_range(table['classes'], '.0f')}")
    lines.append(
        f"label entropy: {_range(table['entropy_bits'], '.2f')} bits (all classes alike: "
        f"{np.log2(dataset.classes):.2f})"
    )
    lines.append(
        f"distance of the class mix from the whole (total variation): {_range(table['distance'], '.2f')}"
    )
    empty = int((table["train"] == 0).sum())
    if empty:
        lines.append(f"{empty} client(s) hold no training sample")
    return lines


def _range(values: pd.Series, form: str) -> str:
    return f"{values.min():{form}} to {values.max():{form}}, median {values.median():{form}}"
