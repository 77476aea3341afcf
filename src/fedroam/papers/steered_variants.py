"""Variants that studies of steered movement share: who moves how, in which network, with which split of the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedroam.study.claims import Beyond, Test, all_of
from fedroam.study.items import Curves, Doses
from fedroam.study.measures import final
from fedroam.study.study import Item
from fedroam.study.values import Measure, Value

STATIC = "static"
STEERED = ("dam", "dcm")
MOVING = ("random", *STEERED)
PATTERNS = (STATIC, *MOVING)
# Labels in tables and figures.
LABELS = {"static": "static", "random": "random", "dam": "DAM", "dcm": "DCM"}


@dataclass(frozen=True)
class Network:
    """Clients on a square grid, and what else is set there. name: in variants' names; '' for the papers' own.

    side: grid points along a side; settings: laid over the base, e.g. another data set and model.
    """

    name: str
    side: int
    clients: int
    settings: Mapping[str, Any] = field(default_factory=dict)


SMALL = Network("", 18, 20)


@dataclass(frozen=True)
class Catalogue:
    """Variants by name, each declared where it is first asked for; asked for twice it is one, whose runs are shared.

    dcm: settings of `dcm` that the other patterns do not have. Lengths are in grid spacings, as in the papers.
    """

    dcm: Mapping[str, Any] = field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)

    def variant(
        self,
        pattern: str,
        *,
        mobile: int = 5,
        radius: float = 3.0,
        step: float = 5.0,
        alpha: float = 0.05,
        network: Network = SMALL,
    ) -> str:
        """The name of a variant. Where nobody moves, how many would and how far makes no difference.

        pattern: one of PATTERNS; mobile: clients that move; radius: Rc; step: Rm; alpha: of the Dirichlet split.
        """
        moves = pattern != STATIC
        parts = [network.name] if network.name else []
        parts += [pattern] + ([f"m={mobile}"] if moves else []) + [f"Rc={radius:g}"]
        parts += ([f"Rm={step:g}"] if moves else []) + [f"a={alpha:g}"]
        name = ",".join(parts)
        mobility: dict[str, Any] = {"kind": pattern, "grid": network.side}
        mobility |= {"mobile": mobile, "max_step": float(step)} if moves else {}
        mobility |= self.dcm if pattern == "dcm" else {}
        self.variants[name] = {
            **network.settings,
            "clients": network.clients,
            "partition": {"alpha": alpha},
            "contacts": {"radius": float(radius)},
            "mobility": mobility,
        }
        return name

    def fully_connected(self, alpha: float = 0.05, network: Network = SMALL) -> str:
        """The name of the variant in which everybody reaches everybody (Rc infinite); places do not matter then."""
        return self.variant(STATIC, radius=math.inf, alpha=alpha, network=network)

    def of(self, measure: Measure, pattern: str, **settings: Any) -> Value:
        """A measure of a variant; settings: arguments of `variant`."""
        return measure.of(self.variant(pattern, **settings))

    def gain(self, pattern: str, over: str = "random", measure: Measure = final, **settings: Any) -> Value:
        """What one pattern is ahead of another, all else equal."""
        return self.of(measure, pattern, **settings) - self.of(measure, over, **settings)

    def along(
        self, measure: Measure, pattern: str, key: str, values: Iterable[float], **settings: Any
    ) -> dict[Any, Value]:
        """A measure of a pattern for each value of one argument of `variant`."""
        return {value: self.of(measure, pattern, **{**settings, key: value}) for value in values}

    def curves(
        self, name: str, title: str, panels: Mapping[str, Mapping[str, Any]], caption: str = ""
    ) -> Curves:
        """Accuracy of the four patterns over rounds; panels: {title: arguments of `variant`}."""
        drawn = {
            head: {LABELS[pattern]: self.variant(pattern, **settings) for pattern in PATTERNS}
            for head, settings in panels.items()
        }
        return Curves(name, title, drawn, caption=caption)

    def doses(
        self,
        name: str,
        title: str,
        key: str,
        values: Iterable[float],
        *,
        measure: Measure = final,
        patterns: Iterable[str] = MOVING,
        settings: Mapping[str, Any] | None = None,
        **drawing: Any,
    ) -> Doses:
        """A measure of patterns over one argument of `variant`; settings: the others; drawing: of `Doses`."""
        keys = tuple(values)
        lines = {LABELS[p]: self.along(measure, p, key, keys, **(settings or {})) for p in patterns}
        ylabel = f"{measure.name.capitalize()} ({measure.unit})"
        return Doses(name, title, lines, AXES[key], ylabel, caption=AXIS, **drawing)

    def all_but(self, items: Iterable[Item]) -> tuple[str, ...]:
        """The variants that none of these items needs."""
        needed = {variant for item in items for variant in item.variants}
        return tuple(name for name in self.variants if name not in needed)


AXES = {"mobile": "Mobile clients", "radius": "Communication radius Rc", "step": "Longest move Rm"}
AXIS = "The paper's text does not print the values of this axis; they are ours."


def shown(length: float) -> str:
    """A length in words: 5 or ∞."""
    return "∞" if math.isinf(length) else f"{length:g}"


def about(gains: Iterable[tuple[Value, float]]) -> Test:
    """Gains that a paper says are about so large (points), each tested as more than half of it.

    Of a gain that is exactly as large as said, a test of "at least as large" could never decide.
    """
    return all_of([Beyond(value, points / 2) for value, points in gains])
