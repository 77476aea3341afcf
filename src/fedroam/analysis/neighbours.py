"""Neighbours over rounds by group: how many at a time, and how many different ones so far."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedroam.errors import InputError
from fedroam.recording import Run


def neighbours(run: Run) -> pd.DataFrame:
    """Neighbours by group, from a run's contacts; one row for each round (1, 2, ...) and group.

    Columns, each a mean over the clients of the group: `degree`, the clients met in the round (the client itself
    not counted); `cumulated`, the sum of degrees so far, which counts a neighbour again in each round; `distinct`,
    the different clients met so far. The contacts are those in which models were exchanged; those of the start
    places (round 0) are none. Source: de Heredia, App. B, Figs. 7 and 8.

    Raises InputError where the run did not keep every round's contacts.
    """
    if run.settings.get("record_movement") != "all":
        raise InputError(
            f"{run.folder}: keeps the contacts of {run.settings.get('record_movement')} rounds; neighbours so far "
            'need record_movement = "all"'
        )
    return count_neighbours(run.contacts, np.array(run.world["groups"]), int(run.status["round"]))


def count_neighbours(contacts: pd.DataFrame, groups: np.ndarray, rounds: int) -> pd.DataFrame:
    """The table of `neighbours` from contacts (round, i, j; each pair once in a round), each client's group (str
    [clients]) and the number of rounds played.
    """
    names, member = np.unique(groups, return_inverse=True)
    sizes = np.bincount(member, minlength=len(names))
    met = contacts[(contacts["round"] >= 1) & (contacts["round"] <= rounds)].sort_values(
        "round", kind="stable"
    )

    def per_client(rows: pd.DataFrame) -> np.ndarray:
        """New neighbours in each round, mean over the group: float64 [rounds, groups]."""
        both = np.concatenate([rows["i"].to_numpy(), rows["j"].to_numpy()])
        when = np.tile(rows["round"].to_numpy(np.int64) - 1, 2)
        counts = np.bincount(when * len(names) + member[both], minlength=rounds * len(names))
        return counts.reshape(rounds, len(names)) / sizes

    degree, first_met = per_client(met), per_client(met.drop_duplicates(["i", "j"]))
    return pd.DataFrame(
        {
            "round": np.repeat(np.arange(1, rounds + 1), len(names)),
            "group": np.tile(names, rounds),
            "degree": degree.ravel(),
            "cumulated": degree.cumsum(axis=0).ravel(),
            "distinct": first_met.cumsum(axis=0).ravel(),
        }
    )
