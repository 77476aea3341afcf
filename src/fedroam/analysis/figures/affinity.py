"""Whom does a client find useful? The affinity matrix over time, beside how alike the clients' class mixes are."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedroam.analysis.figures.drawing import GRID, bare_field, colour_bar, empty_figure, style

_PANELS = 3  # rounds shown, beside the class mixes
_TICKS = 20  # clients; with more, the axes carry no numbers
_OUTLIERS = 98  # percentile of |P| at which colours end: a few entries are far larger than the rest


def class_similarity(counts: np.ndarray) -> np.ndarray:
    """Cosine of the class counts (whole numbers [clients, classes]) of each two clients, float64 [clients, clients].

    NaN for a client without samples.
    """
    values = counts.astype(np.float64)
    with np.errstate(invalid="ignore"):
        unit = values / np.sqrt(np.square(values).sum(1, keepdims=True))
    return np.asarray(np.clip(unit @ unit.T, None, 1.0))


def matrix_of(matrices: pd.DataFrame, name: str, round: int, size: int) -> np.ndarray:
    """One recorded matrix, float64 [size, size], 0 where it has no row."""
    rows = matrices[(matrices["name"] == name) & (matrices["round"] == round)]
    found = np.zeros((size, size))
    found[rows["i"].to_numpy(), rows["j"].to_numpy()] = rows["value"].to_numpy()
    return found


def agreement(affinity: np.ndarray, similarity: np.ndarray) -> float:
    """How well a client's affinities order the others by similarity: Spearman's rank correlation, mean over clients i.

    Over the others j that i weighed at all (affinity not 0). Clients with fewer than three of them, or with equal
    values of one of the two for all of them, are left out; NaN where none is left.
    """
    pairs = (affinity != 0) & ~np.eye(len(affinity), dtype=bool) & np.isfinite(similarity)
    found = []
    for i, there in enumerate(pairs):
        ranks = np.stack([_ranks(affinity[i, there]), _ranks(similarity[i, there])])
        if ranks.shape[1] >= 3 and (np.ptp(ranks, axis=1) > 0).all():
            found.append(float(np.corrcoef(ranks)[0, 1]))
    return float(np.mean(found)) if found else float("nan")


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1 on, equal values sharing theirs."""
    return pd.Series(values).rank().to_numpy()


def rounds_shown(matrices: pd.DataFrame) -> list[int]:
    """Up to three rounds whose affinities have an entry off the diagonal: the first, the middle one and the last."""
    own = matrices[(matrices["name"] == "affinity") & (matrices["i"] != matrices["j"])]
    there = np.unique(own["round"].to_numpy())
    if not len(there):
        return []
    return [int(there[k]) for k in dict.fromkeys(np.linspace(0, len(there) - 1, _PANELS).round().astype(int))]


def affinity_figure(matrices: pd.DataFrame, counts: np.ndarray) -> Figure | None:
    """Heat maps of the recorded affinities at up to three rounds, and of the class mixes' similarity.

    matrices: as `Run.matrices`. counts: training samples, whole numbers [clients, classes]. Clients are in the same
    order everywhere: neighbours have similar class mixes. The diagonal and pairs that were never weighed are grey.
    Each round has its own scale; ρ is `agreement`. None where no round has an entry off the diagonal.
    """
    rounds = rounds_shown(matrices)
    if not rounds:
        return None
    similarity = class_similarity(counts)
    order = _order(similarity)
    with style():
        figure = empty_figure((6.6, 6.2) if len(rounds) > 1 else (6.6, 3.5))
        axes = figure.subplots(2 if len(rounds) > 1 else 1, 2, squeeze=False).ravel()
        for ax in axes[len(rounds) + 1 :]:
            ax.set_visible(False)
        for ax, round in zip(axes, rounds, strict=False):
            found = matrix_of(matrices, "affinity", round, len(counts))
            shown = np.where((found == 0) | np.eye(len(found), dtype=bool), np.nan, found)
            limit = float(np.nanpercentile(np.abs(shown), _OUTLIERS)) or 1.0
            alike = agreement(found, similarity)
            known = f", ρ = {alike:.2f}" if np.isfinite(alike) else ""
            _draw_field(figure, ax, shown[np.ix_(order, order)], order, "RdBu", (-limit, limit))
            ax.set_xlabel("client whose model is weighed")
            ax.set_ylabel("client that weighs")
            ax.set_title(f"Affinity, round {round}{known}", fontsize=10)
        last = axes[len(rounds)]
        _draw_field(figure, last, similarity[np.ix_(order, order)], order, "viridis", (0.0, 1.0))
        last.set_xlabel("client")
        last.set_ylabel("client")
        last.set_title("Cosine of class counts", fontsize=10)
    return figure


def _draw_field(
    figure: Figure, ax: Axes, values: np.ndarray, order: np.ndarray, colours: str, limits: tuple[float, float]
) -> None:
    """Draw one panel."""
    image = ax.imshow(values, cmap=matplotlib.colormaps[colours], vmin=limits[0], vmax=limits[1])
    bare_field(ax)
    ax.tick_params(labelsize=7)
    names = [str(i) for i in order] if len(order) <= _TICKS else []
    ax.set_xticks(range(len(names)), names)
    ax.set_yticks(range(len(names)), names)
    ax.set_facecolor(GRID)
    bar = colour_bar(figure, image, ax, shrink=0.85, extend="both" if limits[0] < 0 else "neither")
    bar.ax.tick_params(labelsize=7)


def _order(similarity: np.ndarray) -> np.ndarray:
    """Clients (int64) such that neighbours have similar class mixes: leaves of an average-linkage tree."""
    if len(similarity) < 3:
        return np.arange(len(similarity))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distance = 1.0 - np.nan_to_num(similarity, nan=0.0)
    distance = np.maximum((distance + distance.T) / 2, 0.0)
    np.fill_diagonal(distance, 0.0)
    return np.asarray(leaves_list(linkage(squareform(distance), "average", optimal_ordering=True)), np.int64)
