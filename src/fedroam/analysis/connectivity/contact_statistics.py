"""Who meets whom over a run, without training: degrees, components, mixing, and how long until everybody is linked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fedroam.analysis.connectivity.spectral import mixing_parameters, spectral_gaps, window_parameters
from fedroam.analysis.connectivity.windows import (
    SmallestWindow,
    connected_windows,
    first_contacts,
    latest_starts,
    smallest_window,
)
from fedroam.contacts import degrees, graph_of, met
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation.decentralized import Decentralized
from fedroam.mixing import Facts, Surroundings, weights_of
from fedroam.parts import Parts, mixing_of
from fedroam.recording import Run
from fedroam.scene import deal, movement, world_of


@dataclass(frozen=True)
class ContactSequence:
    """The contact graphs in which models are exchanged, and the weights of the exchanges, one a round (1, 2, ...).

    graphs: bool CSR [clients, clients], symmetric. weigh: gives the weights, once somebody asks for them; None where
    they cannot be told. Clients that are away are nodes without contacts.
    """

    clients: int
    graphs: tuple[sparse.csr_array, ...]
    weigh: Callable[[], tuple[sparse.csr_array, ...]] | None

    @cached_property
    def weights(self) -> tuple[sparse.csr_array, ...] | None:
        """Those of each exchange, float64 CSR [clients, clients], rows summing to 1; None where they cannot be told."""
        return None if self.weigh is None else self.weigh()

    @cached_property
    def latest(self) -> np.ndarray:
        """For each round the latest one from which on the graphs together connect all, as `latest_starts` gives it."""
        return latest_starts(self.graphs, self.clients)

    @cached_property
    def components(self) -> np.ndarray:
        """Connected components of each round's graph, int64 [rounds]; a client without contact is one."""
        return np.array(
            [connected_components(graph, directed=False, return_labels=False) for graph in self.graphs],
            dtype=np.int64,
        )

    def first(self, rounds: int) -> ContactSequence:
        """The same, cut after `rounds` rounds."""
        weigh = self.weigh
        return ContactSequence(
            self.clients, self.graphs[:rounds], None if weigh is None else lambda: weigh()[:rounds]
        )

    def smallest_window(self, *, sliding: bool = False, keep_last: bool = False) -> SmallestWindow:
        """The smallest B for B-strong connectivity; the options are those of `connected_windows`."""
        return smallest_window(self.latest, sliding=sliding, keep_last=keep_last)


def simulate(experiment: Experiment, rounds: int | None = None) -> ContactSequence:
    """The contacts of an experiment's first rounds (default: all of them), without any training.

    Movement, churn, contacts and weights are those of a run: the same draws from the same streams. The data are
    dealt out, because steered clients fly by them and weights may depend on them. Clients that are not active are
    away. Raises InputError where the federation is not decentralized: there clients do not mix with those they meet.
    """
    federation = experiment.federation
    _require_decentralized(federation.kind)
    dataset, split = deal(experiment)
    parts = Parts.of(experiment)
    total = experiment.rounds if rounds is None else rounds
    world = world_of(experiment, dataset, split, total)
    surroundings = []
    mix_first = isinstance(federation, Decentralized) and federation.order == "mix_then_move"
    for t, (before, after) in enumerate(itertools.pairwise(movement(experiment, world)), start=1):
        paths = before if mix_first else after
        graph = met(parts.contacts, t - 1 if mix_first else t, paths)
        surroundings.append(Surroundings(paths, graph, world.reach, world.class_counts))

    def weigh() -> tuple[sparse.csr_array, ...]:
        return tuple(
            weights_of(parts.mixing, around.graph, Facts.of(parts.mixing, split.sizes, around), t)
            for t, around in enumerate(surroundings, 1)
        )

    return ContactSequence(experiment.clients, tuple(around.graph for around in surroundings), weigh)


def recorded(run: Run) -> ContactSequence:
    """The contacts of a run, from its folder.

    Weights are None for a rule that needs to know how fast clients were, which a folder does not tell. Raises
    InputError where the run did not keep every round's contacts, or where its federation is not decentralized.
    """
    settings = run.settings
    if settings.get("record_movement") != "all":
        raise InputError(
            f"{run.folder}: keeps the contacts of {settings.get('record_movement')} rounds; connectivity needs "
            'record_movement = "all"'
        )
    _require_decentralized(str(settings["federation"]["kind"]))
    clients, rounds = int(settings["clients"]), int(run.status["round"])
    if rounds == 0:
        raise InputError(f"{run.folder}: has not finished any round yet")
    table = run.contacts
    met = table[table["round"].between(1, rounds)].sort_values("round", kind="stable")
    edges = np.searchsorted(met["round"].to_numpy(), np.arange(1, rounds + 2))
    pairs = met[["i", "j"]].to_numpy(np.int64)
    graphs = tuple(graph_of(pairs[a:b], clients) for a, b in itertools.pairwise(edges))
    if settings["mixing"]["kind"] not in ("plain", "metropolis", "data_size"):
        return ContactSequence(clients, graphs, None)
    mixing = mixing_of(settings["mixing"])
    train = run.partition[run.partition["part"] == "train"]
    samples = np.bincount(train["client"], weights=train["samples"], minlength=clients).astype(np.int64)
    facts = Facts(samples=samples, speed=np.zeros(clients))
    return ContactSequence(clients, graphs, lambda: tuple(mixing.weights(graph, facts) for graph in graphs))


def _require_decentralized(kind: str) -> None:
    if kind != "decentralized":
        raise InputError(
            f"federation.kind = {kind!r}: connectivity is that of clients who mix with whom they meet; allowed is "
            "'decentralized'"
        )


def round_table(sequence: ContactSequence) -> pd.DataFrame:
    """One row a round: round, degree_mean, degree_min, degree_max, isolated (clients without contact), components,
    and, where weights are known, p and gap (spectral gap).
    """
    degree = np.stack([degrees(graph) for graph in sequence.graphs])
    table = pd.DataFrame(
        {
            "round": np.arange(1, len(degree) + 1),
            "degree_mean": degree.mean(axis=1),
            "degree_min": degree.min(axis=1),
            "degree_max": degree.max(axis=1),
            "isolated": (degree == 0).sum(axis=1),
            "components": sequence.components,
        }
    )
    if sequence.weights is not None:
        table["p"], table["gap"] = mixing_parameters(sequence.weights), spectral_gaps(sequence.weights)
    return table


def window_table(
    sequence: ContactSequence, lengths: Iterable[int], *, keep_last: bool = False
) -> pd.DataFrame:
    """One row a window length: length (rounds), windows, connected (share of them that connects everybody), and p
    of their products: p_min, p_mean (NaN where weights are not known).
    """
    rows = []
    for length in lengths:
        connected = connected_windows(sequence.latest, length, keep_last=keep_last)
        p = np.full(1, np.nan)
        if sequence.weights is not None:
            p = window_parameters(sequence.weights, length, keep_last=keep_last)
        rows.append((length, len(connected), connected.mean(), p.min(), p.mean()))
    return pd.DataFrame(rows, columns=["length", "windows", "connected", "p_min", "p_mean"])


def contact_table(sequence: ContactSequence) -> pd.DataFrame:
    """Every pair of clients that ever meets, and the first round in which it does: i, j, round."""
    return pd.DataFrame(first_contacts(sequence.graphs), columns=["i", "j", "round"])


def summary(sequence: ContactSequence, *, sliding: bool = False, keep_last: bool = False) -> dict[str, float]:
    """A run in one row.

    rounds; degree (mean); components (mean); connected (share of rounds whose graph is); p_mean over rounds; b: the
    smallest B (NaN: none) and windows: how many windows of that length there are; together: the first round by
    which everybody is linked through those met so far (NaN: never); met: share of all pairs that ever meet; first:
    median round of their first meeting, over all pairs (infinite where most never meet).
    """
    table, smallest = round_table(sequence), sequence.smallest_window(sliding=sliding, keep_last=keep_last)
    pairs, when = sequence.clients * (sequence.clients - 1) // 2, contact_table(sequence)["round"].to_numpy()
    every = np.append(when.astype(np.float64), np.full(pairs - len(when), np.inf))
    linked = np.flatnonzero(sequence.latest >= 0)
    return {
        "rounds": len(sequence.graphs),
        "degree": table["degree_mean"].mean(),
        "components": table["components"].mean(),
        "connected": (table["components"] == 1).mean(),
        "p_mean": table["p"].mean() if "p" in table else np.nan,
        "b": np.nan if smallest.length is None else float(smallest.length),
        "windows": smallest.windows,
        "together": float(linked[0] + 1) if len(linked) else np.nan,
        "met": len(when) / pairs if pairs else 1.0,
        "first": float(np.quantile(every, 0.5, method="inverted_cdf")) if pairs else 0.0,
    }


def pattern_table(rows: Sequence[Mapping[str, object]], by: Sequence[str]) -> pd.DataFrame:
    """Summaries of several worlds, grouped `by` columns (a pattern, a number of mobile clients), in order.

    seeds; b_min, b_median, b_max over the seeds that have a B at all; without: how many have none; and the means
    over seeds of degree, components, connected, p_mean, met.
    """
    found = []
    for key, group in pd.DataFrame(rows).groupby(list(by), sort=False, dropna=False):
        known = group["b"].dropna()
        row = dict(zip(by, key, strict=True))
        row |= {"seeds": len(group), "without": int(group["b"].isna().sum())}
        row |= {"b_min": known.min(), "b_median": known.median(), "b_max": known.max()}
        means = ("degree", "components", "connected", "p_mean", "met")
        found.append(row | {name: group[name].mean() for name in means})
    return pd.DataFrame(found)
