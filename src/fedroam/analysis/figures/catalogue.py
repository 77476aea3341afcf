"""All figures of a report: what each shows, in words, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from fedroam.analysis.evaluated_model import describe_models, evaluated_models, shared_model
from fedroam.analysis.figures.affinity import affinity_figure
from fedroam.analysis.figures.client_accuracy import client_accuracy_figure, client_energy_figure
from fedroam.analysis.figures.clock import (
    client_time_figure,
    first_clients,
    gantt_figure,
    shown_rounds,
    transfers_figure,
)
from fedroam.analysis.figures.costs import cost_figure, energy_per_round_figure
from fedroam.analysis.figures.holdings import holdings_figure
from fedroam.analysis.figures.lines import column_figure
from fedroam.analysis.figures.places import places_figure
from fedroam.analysis.formatting import BYTES, JOULES, SECONDS, Units, percent
from fedroam.analysis.variants import Variant, uses
from fedroam.recording import Run

_AFFINITIES = 4  # variants whose affinities are drawn
_GANTTS = 2  # variants whose clients' timetables are drawn
_HOLDINGS = 4  # charts of who holds what; more variants with other data are named, not drawn


@dataclass(frozen=True)
class ReportFigure:
    """A figure with its file name, heading and caption; part is the section of the report it belongs to."""

    name: str
    title: str
    caption: str
    figure: Figure
    part: str = "curves"


@dataclass(frozen=True)
class FigureSpec:
    """A figure that compares variants: its file name, heading and caption, and what is drawn.

    That is a column of `rounds` over rounds, with its label and unit, its scale and whether it may be logarithmic (see
    `column_figure`); with `units` the accuracy over the column, which adds up what was spent (see `cost_figure`); or
    whatever `make` draws. In captions {model} stands for the model that clients are judged by,
    {mean_model} for what the accuracy of the averaged model is. needs: what a federation must look at (`places`,
    `contacts`) for the figure to tell anything.
    """

    name: str
    title: str
    caption: str
    column: str = ""
    label: str = ""
    scale: float = 1.0
    log: bool = False
    units: Units = ()
    make: Callable[[Sequence[Variant]], Figure | None] | None = None
    needs: str = ""

    def draw(self, compared: Sequence[Variant]) -> Figure | None:
        """The figure; None without numbers."""
        if self.make is not None:
            return self.make(compared)
        if self.units:
            return cost_figure(compared, self.column, self.label, self.units)
        return column_figure(compared, self.column, self.label, scale=self.scale, log=self.log)


def isolated_figure(compared: Sequence[Variant]) -> Figure | None:
    """Clients that are present and met nobody, mean over seeds, over rounds; None without numbers.

    As a share of all clients, %, where every variant has the same number of clients; else as a number.
    """
    label, scale = isolated_axis(compared)
    return column_figure(compared, "isolated", label, scale=scale)


def isolated_axis(compared: Sequence[Variant]) -> tuple[str, float]:
    """The label with its unit, and the factor from the column `isolated` to that unit (see `isolated_figure`)."""
    clients = {int(run.settings["clients"]) for variant in compared for run in variant.runs}
    unit, scale = ("% of all", 100 / clients.pop()) if len(clients) == 1 else ("number", 1.0)
    return f"Clients without contact ({unit})", scale


SPECS = (
    FigureSpec(
        "accuracy",
        "Accuracy",
        "Share of test samples classified correctly, mean over clients. Judged: {model}.",
        column="accuracy",
        label="Clients' test accuracy (%)",
        scale=100,
    ),
    FigureSpec(
        "mean_model",
        "Accuracy of the averaged model",
        "{mean_model}",
        column="accuracy_mean_model",
        label="Averaged model's accuracy (%)",
        scale=100,
    ),
    FigureSpec(
        "loss",
        "Test loss",
        "Mean over clients. Judged: {model}.",
        column="loss",
        label="Clients' test loss (nats)",
        log=True,
    ),
    FigureSpec(  # Jahani et al., Lemma 3
        "consensus",
        "Consensus distance",
        "How far the models are apart: sum over clients of the squared distance of parameters to their mean "
        "(no unit).",
        column="consensus_distance",
        label="Consensus distance Σ‖x − x̄‖²",
        log=True,
    ),
    FigureSpec(
        "degree",
        "Contacts",
        "Clients in contact with a client when models are exchanged, mean over clients, at evaluated rounds.",
        column="degree_mean",
        label="Mean degree (contacts per client)",
        needs="contacts",
    ),
    FigureSpec(
        "isolated",
        "Without contact",
        "Clients that are present and meet nobody when models are exchanged, at evaluated rounds.",
        make=isolated_figure,
        needs="contacts",
    ),
    FigureSpec(
        "spread",
        "Spread over clients",
        "Test accuracy of every client in the last recorded round, all seeds together. Judged: {model}.",
        make=client_accuracy_figure,
    ),
    FigureSpec(
        "time",
        "Accuracy over time",
        "How long an accuracy takes by the clock of the simulated world.",
        column="time",
        label="Simulated time since the start",
        units=SECONDS,
    ),
    FigureSpec(
        "transfers",
        "What gets through",
        "Of the contacts of a round, those in which all that was to be sent got through; of the transfers that were "
        "wanted, those whose model got through in its contact and in time, and the tries that broke.",
        make=transfers_figure,
    ),
    FigureSpec(
        "client_time",
        "What clients do with their time",
        "Training; sending or receiving, and not training meanwhile; waiting; away. Since the start, mean over seeds.",
        make=client_time_figure,
    ),
    FigureSpec(
        "staleness",
        "Staleness",
        "How old the model was that a client trained, mean over a round's updates: in models that the server or access "
        "point has had since; of ad_psgd in averagings, of delayed_mohawk in rounds.",
        column="staleness",
        label="Staleness of updates",
    ),
    FigureSpec(
        "traffic",
        "Accuracy against bytes",
        "What an accuracy costs: bytes sent by all clients since the start.",
        column="bytes",
        label="Sent by all clients since the start",
        units=BYTES,
    ),
    FigureSpec(
        "energy",
        "Accuracy against energy",
        "What an accuracy costs: joules of all clients since the start, for sending, receiving and training.",
        column="energy",
        label="Spent by all clients since the start",
        units=JOULES,
    ),
    FigureSpec(
        "battery",
        "Accuracy against what batteries gave",
        "What an accuracy costs: joules drawn from all batteries since the start, moving and idling among them.",
        column="battery_drawn",
        label="Drawn from all batteries since the start",
        units=JOULES,
    ),
    FigureSpec(
        "energy_per_round",
        "Energy by round",
        "Joules of all clients a round; between two evaluations their mean. Wasted is what went into updates that "
        "will never be aggregated, in the round in which they were lost.",
        make=energy_per_round_figure,
    ),
    FigureSpec(
        "client_energy",
        "Energy by client",
        "What every client has spent in all on sending, receiving and training, all seeds together.",
        make=client_energy_figure,
    ),
)


def draw_figure(name: str, compared: Sequence[Variant]) -> Figure | None:
    """One of `SPECS` by its file name; None without numbers."""
    return next(spec for spec in SPECS if spec.name == name).draw(compared)


def _mean_model(models: Mapping[str, str]) -> str:
    """What the figure of the averaged model shows, given which models clients are judged by."""
    if set(models.values()) <= {"own"}:
        return "The average of all clients' parameters, judged as one model. No client holds it."
    return (
        "The one model that stands for all: the global one, or else the average of all clients' parameters."
    )


def all_figures(compared: Sequence[Variant]) -> Iterator[ReportFigure]:
    """Every figure that the runs have numbers for, in the order of the report; made when asked for."""
    models = evaluated_models(compared)
    # One model that all are judged by on the same samples: its accuracy is the first figure already.
    shared = all(
        v.included[0].settings.get("evaluate_on", "shared") == "shared" for v in compared if v.included
    )
    one = shared_model(models)
    idle = {"mean_model": shared and one, "consensus": one}  # one model is at no distance from itself
    for spec in SPECS:
        if (spec.needs and not uses(compared, spec.needs)) or idle.get(spec.name):
            continue
        figure = spec.draw(compared)
        if figure is not None:
            caption = spec.caption.replace("{model}", describe_models(models))
            caption = caption.replace("{mean_model}", _mean_model(models))
            yield ReportFigure(spec.name, spec.title, caption, figure)
    yield from _gantts(compared)
    yield from _affinities(compared)
    yield from _holdings(compared)
    if not uses(compared, "places"):
        return
    # The first that has most to tell.
    label, run = max(_firsts(compared), key=lambda first: len(set(first[1].world["groups"])))
    caption = f"Where clients of {label}, seed {run.status['seed']}, are at the start, by group; numbers are clients."
    yield ReportFigure("places", "Start places", caption, places_figure(run), part="data")


def _firsts(compared: Sequence[Variant]) -> list[tuple[str, Run]]:
    """Each variant's label and the first of its runs that count."""
    return [(variant.label, variant.included[0]) for variant in compared if variant.included]


def _affinities(compared: Sequence[Variant]) -> Iterator[ReportFigure]:
    """Heat maps of each variant's first run that recorded affinities."""
    drawn = 0
    for label, run in _firsts(compared):
        figure = affinity_figure(run.matrices, class_counts(run)[0]) if drawn < _AFFINITIES else None
        if figure is None:
            continue
        drawn += 1
        caption = (
            f"How useful each client of {label}, seed {run.status['seed']}, has found each other one's model (summed "
            "weights, no unit; grey: never weighed), and how alike their class mixes are. Neighbours on the axes have "
            "similar mixes. ρ: rank correlation of the two within a client's row, mean over clients."
        )
        name = "affinity" if drawn == 1 else f"affinity_{drawn}"
        yield ReportFigure(name, "Affinity between clients", caption, figure)


def timetables(compared: Sequence[Variant]) -> dict[str, tuple[str, Run]]:
    """Of each variant whose first run kept a timetable, the label and that run, by the name of its Gantt chart."""
    kept = [(label, run) for label, run in _firsts(compared) if first_clients(run)]
    return {"gantt" if k == 0 else f"gantt_{k + 1}": one for k, one in enumerate(kept[:_GANTTS])}


def _gantts(compared: Sequence[Variant]) -> Iterator[ReportFigure]:
    """A Gantt chart of each variant's first run that kept a timetable."""
    for name, (label, run) in timetables(compared).items():
        figure = gantt_figure(run)
        assert figure is not None  # it kept a timetable
        caption = (
            f"The first {first_clients(run)} of {run.settings['clients']} clients of {label}, seed "
            f"{run.status['seed']}. Sending is sending or receiving, and not training meanwhile. As a file: rounds 1 "
            f"to {shown_rounds(run, None)[1]}."
        )
        yield ReportFigure(name, "Who is at what when", caption, figure)


def class_counts(run: Run) -> tuple[np.ndarray, list[str]]:
    """Training samples by client and class, int64 [clients, classes], and the names of the classes."""
    names = [str(name) for name in run.world["classes"]]
    train = run.partition[run.partition["part"] == "train"]
    counts = np.zeros((int(run.settings["clients"]), len(names)), dtype=np.int64)
    column = {name: k for k, name in enumerate(names)}
    classes = np.array([column[str(name)] for name in train["class"]], dtype=np.int64)
    np.add.at(counts, (train["client"].to_numpy(), classes), train["samples"].to_numpy())
    return counts, names


def _holdings(compared: Sequence[Variant]) -> Iterator[ReportFigure]:
    """A chart for each different split of the data among the variants' first runs."""
    found: dict[bytes, tuple[list[str], Run]] = {}
    for label, run in _firsts(compared):
        counts, names = class_counts(run)
        key = repr((counts.shape, names)).encode() + counts.tobytes()
        found.setdefault(key, ([], run))[0].append(label)
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
        yield ReportFigure(
            name, "Samples by client and class", caption, holdings_figure(counts, names, ""), part="data"
        )
