"""All figures of a report: what each shows, in words, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from fedroam.analysis.evaluated_model import judges, model_words
from fedroam.analysis.figures.accuracy import accuracy_figure
from fedroam.analysis.figures.affinity import affinity_figure
from fedroam.analysis.figures.client_accuracy import spread_figure
from fedroam.analysis.figures.consensus import consensus_figure
from fedroam.analysis.figures.degree import degree_figure
from fedroam.analysis.figures.energy import energy_per_round_figure
from fedroam.analysis.figures.holdings import holdings_figure
from fedroam.analysis.figures.isolated import isolated_figure
from fedroam.analysis.figures.loss import loss_figure
from fedroam.analysis.figures.mean_model import mean_model_figure
from fedroam.analysis.figures.places import places_figure
from fedroam.analysis.figures.traffic import energy_figure, traffic_figure
from fedroam.analysis.formatting import percent
from fedroam.analysis.variants import Variant
from fedroam.recording import Run

_AFFINITIES = 4  # variants whose affinities are drawn
_HOLDINGS = 4  # charts of who holds what; more variants with other data are named, not drawn


@dataclass(frozen=True)
class Drawn:
    """A figure with its file name, heading and caption; part is the section of the report it belongs to."""

    name: str
    title: str
    caption: str
    figure: Figure
    part: str = "curves"


# name, heading, caption, maker
_OVER_ROUNDS: tuple[tuple[str, str, str, Callable[[Sequence[Variant]], Figure | None]], ...] = (
    (
        "accuracy",
        "Accuracy",
        "Share of test samples classified correctly, mean over clients. Judged: {model}.",
        accuracy_figure,
    ),
    (
        "mean_model",
        "Accuracy of the averaged model",
        "{mean_model}",
        mean_model_figure,
    ),
    ("loss", "Test loss", "Mean over clients. Judged: {model}.", loss_figure),
    (
        "consensus",
        "Consensus distance",
        "How far the models are apart: sum over clients of the squared distance of parameters to their mean "
        "(no unit).",
        consensus_figure,
    ),
    (
        "degree",
        "Contacts",
        "Clients in contact with a client when models are exchanged, mean over clients, at evaluated rounds.",
        degree_figure,
    ),
    (
        "isolated",
        "Without contact",
        "Clients that are present and meet nobody when models are exchanged, at evaluated rounds.",
        isolated_figure,
    ),
    (
        "spread",
        "Spread over clients",
        "Test accuracy of every client in the last recorded round, all seeds together. Judged: {model}.",
        spread_figure,
    ),
    (
        "traffic",
        "Accuracy against bytes",
        "What an accuracy costs: bytes sent by all clients since the start.",
        traffic_figure,
    ),
    (
        "energy",
        "Accuracy against energy",
        "What an accuracy costs: joules of all clients since the start, for sending, receiving and training.",
        energy_figure,
    ),
    (
        "energy_per_round",
        "Energy by round",
        "Joules of all clients a round; between two evaluations their mean. Wasted is what went into updates that "
        "will never be aggregated, in the round in which they were lost.",
        energy_per_round_figure,
    ),
)


def _mean_model(names: Mapping[str, str]) -> str:
    """What the figure of the averaged model shows, given which models clients are judged by."""
    if set(names.values()) <= {"own"}:
        return "The average of all clients' parameters, judged as one model. No client holds it."
    return (
        "The one model that stands for all: the global one, or else the average of all clients' parameters."
    )


def all_figures(groups: Sequence[Variant]) -> Iterator[Drawn]:
    """Every figure that the runs have numbers for, in the order of the report; made when asked for."""
    names = judges(groups)
    words = {"{model}": model_words(names), "{mean_model}": _mean_model(names)}
    for name, title, caption, make in _OVER_ROUNDS:
        figure = make(groups)
        if figure is not None:
            for place, text in words.items():
                caption = caption.replace(place, text)
            yield Drawn(name, title, caption, figure)
    yield from _affinities(groups)
    yield from _holdings(groups)
    known = [(group.label, group.judged[0]) for group in groups if group.judged]
    label, run = max(
        known, key=lambda pair: len(set(pair[1].world["groups"]))
    )  # the first that has most to tell
    caption = f"Where clients of {label}, seed {run.status['seed']}, are at the start, by group; numbers are clients."
    yield Drawn("places", "Start places", caption, places_figure(run), part="data")


def _affinities(groups: Sequence[Variant]) -> Iterator[Drawn]:
    """Heat maps of each variant's first run that recorded affinities."""
    drawn = 0
    for group in groups:
        for run in group.judged[:1]:
            figure = affinity_figure(run.matrices, class_counts(run)[0]) if drawn < _AFFINITIES else None
            if figure is None:
                continue
            drawn += 1
            caption = (
                f"How useful each client of {group.label}, seed {run.status['seed']}, has found each other one's model "
                "(summed weights, no unit; grey: never weighed), and how alike their class mixes are. Neighbours on "
                "the axes have similar mixes. ρ: rank correlation of the two within a client's row, mean over clients."
            )
            name = "affinity" if drawn == 1 else f"affinity_{drawn}"
            yield Drawn(name, "Affinity between clients", caption, figure)


def class_counts(run: Run) -> tuple[np.ndarray, list[str]]:
    """Training samples by client and class, int64 [clients, classes], and the names of the classes."""
    names = [str(name) for name in run.world["classes"]]
    train = run.partition[run.partition["part"] == "train"]
    counts = np.zeros((int(run.settings["clients"]), len(names)), dtype=np.int64)
    column = {name: k for k, name in enumerate(names)}
    np.add.at(
        counts,
        (
            train["client"].to_numpy(),
            np.array([column[str(name)] for name in train["class"]], dtype=np.int64),
        ),
        train["samples"].to_numpy(),
    )
    return counts, names


def _holdings(groups: Sequence[Variant]) -> Iterator[Drawn]:
    """A chart for each different split of the data among the variants' first runs."""
    found: dict[bytes, tuple[list[str], Run]] = {}
    for group in groups:
        if group.judged:
            counts, names = class_counts(group.judged[0])
            key = repr((counts.shape, names)).encode() + counts.tobytes()
            found.setdefault(key, ([], group.judged[0]))[0].append(group.label)
    for k, (labels, run) in enumerate(list(found.values())[:_HOLDINGS]):
        counts, names = class_counts(run)
        who = "all variants" if len(found) == 1 else ", ".join(labels)
        share = counts.max(axis=1).sum() / max(counts.sum(), 1)
        caption = (
            f"Training samples of {who}, seed {run.status['seed']} (each seed deals anew): {counts.sum():,} over "
            f"{len(counts)} clients, {counts.sum(axis=1).min():,} to {counts.sum(axis=1).max():,} a client; "
            f"{percent(share, 0)} belong to their holder's largest class."
        )
        if len(found) > _HOLDINGS and k == _HOLDINGS - 1:
            caption += f" {len(found) - _HOLDINGS} other splits are not drawn."
        name = "holdings" if k == 0 else f"holdings_{k + 1}"
        yield Drawn(
            name, "Samples by client and class", caption, holdings_figure(counts, names, ""), part="data"
        )
