"""The map of regimes: in which share of the contacts a model fits, over size, bandwidth, speed and reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure as Drawing

from fedroam.analysis.figures.drawing import empty_figure, log_ticks, style
from fedroam.mobility import World
from fedroam.papers.contact_limits.passing import Contacts, closed_form, roaming
from fedroam.papers.contact_limits.runs import (
    CLASSES,
    INPUTS,
    LOWEST,
    MOST_FIT,
    NONE_FITS,
    ROUND,
    SIDE,
    SPEEDS,
    bytes_of,
)
from fedroam.study.values import Kind, Reader

CLIENTS, ROUNDS = 100, 100  # of whom contacts are counted; nobody is in another's way
REACHES = (15.0, 50.0, 150.0)  # m
PACES = {"slow": SPEEDS["slow"], "middle": 300.0, "fast": SPEEDS["fast"]}  # m/round, the highest of new ways
HIDDEN = tuple(2**k for k in range(3, 17))  # of the network: 2 kB to 20 MB
BANDWIDTHS = tuple(10.0 ** (k / 4) for k in range(-8, 9))  # Mbps
SAMPLES, DEVICE = 50, 0.05  # a round's training: passes of a sample, by a device of so many GFLOP/s


def training_seconds(hidden: int) -> float:
    """How long a round's training of the network takes a device."""
    # Imported here: torch, which a study that is only listed does not need.
    from fedroam.devices.arithmetic import training_flops
    from fedroam.models.dense import MLP

    network = MLP(hidden=(hidden,)).build((INPUTS,), CLASSES)
    return SAMPLES * training_flops(network, (INPUTS,)) / (1e9 * DEVICE)


@dataclass(frozen=True)
class RegimeMap:
    """Panels by speed and reach, each of size and bandwidth, with the borders of the regimes, counted and reckoned.

    It needs no run: who meets when follows from movement alone, and from that what gets through.
    """

    kind: ClassVar[Kind] = "figure"
    partial: ClassVar[bool] = False
    marks: ClassVar[str] = ""
    name: str
    title: str
    caption: str

    @property
    def variants(self) -> tuple[str, ...]:
        """None."""
        return ()

    def draw(self, read: Reader) -> Drawing:
        """The map, of one world."""
        world = World(0, CLIENTS, np.ones((CLIENTS, 1), dtype=np.int64), max(REACHES), ROUNDS)
        trained = [training_seconds(hidden) for hidden in HIDDEN]
        megabytes = [1e-6 * bytes_of(hidden) for hidden in HIDDEN]
        with style():
            figure = empty_figure((9.6, 7.6))
            panels = figure.subplots(len(REACHES), len(PACES), sharex=True, sharey=True, squeeze=False)
            for row, reach in enumerate(REACHES):
                for column, (name, pace) in enumerate(PACES.items()):
                    met = Contacts.of(roaming((LOWEST * pace, pace), SIDE), reach, ROUND, world, ROUNDS)
                    speeds = (LOWEST * pace / ROUND, pace / ROUND)
                    counted, reckoned = [], []
                    for size, late in zip(megabytes, trained, strict=True):
                        times = [8 * size / bandwidth for bandwidth in BANDWIDTHS]
                        counted.append(met.fit(times, late))
                        reckoned.append([closed_form(one, reach, speeds, ROUND, late) for one in times])
                    ax: Axes = panels[row, column]
                    ax.set_title(f"{name}, {speeds[0]:.2g} to {speeds[1]:.2g} m/s; {reach:g} m", fontsize=9)
                    _panel(ax, megabytes, np.array(counted).T, np.array(reckoned).T)
            for ax in panels[-1]:
                ax.set_xlabel("Model (MB)")
            for ax in panels[:, 0]:
                ax.set_ylabel("Bandwidth (Mbps)")
            shades = ScalarMappable(Normalize(0, 100), "viridis")
            figure.colorbar(shades, ax=panels, label="Contacts in which a model fits (%)", shrink=0.6)
        return figure


def _panel(ax: Axes, megabytes: list[float], counted: np.ndarray, reckoned: np.ndarray) -> None:
    """Shares by bandwidth (rows) and size: shaded as counted, with the borders of both."""
    ax.pcolormesh(
        megabytes, BANDWIDTHS, counted, cmap="viridis", vmin=0, vmax=100, shading="nearest", rasterized=True
    )
    borders = (NONE_FITS, MOST_FIT)
    # Fixed colours: the field behind them does not follow the page's theme.
    ax.contour(megabytes, BANDWIDTHS, counted, levels=borders, colors="#e8410c", linewidths=1.8)
    ax.contour(
        megabytes, BANDWIDTHS, reckoned, levels=borders, colors="#fefefe", linestyles="dashed", linewidths=1.1
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    log_ticks(ax.xaxis)
    log_ticks(ax.yaxis)
    ax.grid(visible=False)


REGIME_MAP = RegimeMap(
    "regime-map",
    "Where a model fits: size, bandwidth, speed and reach",
    f"Random waypoint in a square of {SIDE / 1000:g} km, rounds of {ROUND:g} s, {CLIENTS} clients over {ROUNDS} "
    f"rounds; nothing is learnt. Before it sends, a device of {1000 * DEVICE:g} MFLOP/s trains on {SAMPLES} samples. "
    "So size and bandwidth count by their ratio alone where training is short, and borders bend where it is long. "
    f"Red: borders of the regimes as counted, {NONE_FITS:g} % (none) and {MOST_FIT:g} % (nearly all); white: by the "
    "closed form of straight passes, which last 2 sqrt(R² − d²) / v.",
)
