"""Variants that studies of steered movement share: who moves how, in which network, with which split of the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedroam.study.claims import Test, all_of, over
from fedroam.study.items import Curves, Doses
from fedroam.study.measures import final
from fedroam.study.values import Measure, Settings, StudyVariant, Value

STATIC = "static"
STEERED = ("dam", "dcm")
MOVING = ("random", *STEERED)
PATTERNS = (STATIC, *MOVING)
# What the letters in the variants' names mean.
CODES = (
    "m: clients that move; Rc: communication radius; Rm: longest move of a round (inf: unconstrained), both in grid "
    "spacings; a: Dirichlet alpha of the split, smaller is more heterogeneous. Before them stands how they move, and "
    "before that the network, where it is not that of 20 clients on 18 x 18 with MNIST: "
)
# Labels in tables and figures.
LABELS = {"static": "static", "random": "random", "dam": "DAM", "dcm": "DCM"}
# Axes of figure 3 in both papers, ours: the few values are run at every scale.
FEW: dict[str, tuple[float, ...]] = {
    "mobile": (1, 3, 5),
    "radius": (1.0, 3.0, 5.0),
    "step": (1.0, 5.0, math.inf),
}
ALL: dict[str, tuple[float, ...]] = {
    "mobile": (1, 2, 3, 4, 5, 6, 7, 8),
    "radius": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
    "step": (1.0, 2.0, 3.0, 5.0, 7.0, 9.0, 12.0, math.inf),
}
AXES = {
    "mobile": "Mobile clients",
    "radius": "Communication radius Rc (grid spacings)",
    "step": "Longest move Rm (grid spacings)",
}
AXIS = "The paper's text does not print the values of this axis; they are ours."
# What both studies cut at scale quick, and why.
QUICK: Settings = {
    "rounds": 200,
    "evaluate_every": 20,
    "data": {"train_samples": 2000, "test_samples": 1000},
}
QUICK_IMAGES = (
    "2,000 training and 1,000 test images instead of 60,000 and 10,000, because a round of full-batch training costs "
    "in proportion to them."
)

# Of the test images. On CIFAR-10 an evaluation, 10,000 of them forward, has as much arithmetic as six and a half rounds
# of training on 512, forward and back.
ON_CURVE = 0.1
CURVE_OF_CIFAR = (
    "On CIFAR-10 evaluations of the first half of a run are on 1,000 of the 10,000 test images, classes in proportion "
    "and the same ones for all clients, variants and seeds: there an accuracy of one model on the curve is uncertain "
    "by up to 1.6 points. Those of the later half, which are all that claims and tables read, are on all of them, as "
    "is every evaluation on MNIST."
)


def later_half_whole(rounds: int, every: int = 10) -> Settings:
    """So many rounds, of whose evaluations those of the later half (see `measures.later_half`) are on all test images,
    and those before on `ON_CURVE` of them. It is for runs that are read by their later half or their end alone: the
    highest accuracy of a run is of all its evaluations, which then have to be on the same images.
    """
    later = [t for t in {*range(0, rounds, every), rounds} if t > rounds / 2]
    return {
        "rounds": rounds,
        "evaluate_every": every,
        "evaluate_share": ON_CURVE,
        "evaluate_whole": len(later),
    }


@dataclass(frozen=True)
class ClientGrid:
    """Clients on a square grid, and what else is set there. name: in variants' names; '' for the papers' own.

    side: grid points along a side; settings: laid over the base, e.g. another data set and model.
    """

    name: str
    side: int
    clients: int
    settings: Settings = field(default_factory=dict)


SMALL = ClientGrid("", 18, 20)


@dataclass(frozen=True)
class SteeredVariants:
    """The variants of a study, each made from who moves how; the same arguments give the same variant.

    dcm: settings of `dcm` that the other patterns do not have. Lengths are in grid spacings, as in the papers.
    """

    dcm: Settings = field(default_factory=dict)

    def variant(
        self,
        pattern: str,
        *,
        mobile: int = 5,
        radius: float = 3.0,
        step: float = 5.0,
        alpha: float = 0.05,
        network: ClientGrid = SMALL,
        knowledge: str = "oracle",
    ) -> StudyVariant:
        """A variant. Where nobody moves, how many would and how far makes no difference.

        pattern: one of PATTERNS; mobile: clients that move; radius: Rc; step: Rm; alpha: of the Dirichlet split;
        knowledge: how steered clients know of the static ones.
        """
        moves = pattern != STATIC
        parts = [network.name] if network.name else []
        parts += [pattern] + ([f"m={mobile}"] if moves else []) + [f"Rc={radius:g}"]
        parts += ([f"Rm={step:g}"] if moves else []) + [f"a={alpha:g}"]
        parts += [knowledge] if knowledge != "oracle" else []
        name = ",".join(parts)
        mobility: dict[str, Any] = {"kind": pattern, "grid": network.side}
        mobility |= {"mobile": mobile, "max_step": float(step)} if moves else {}
        mobility |= self.dcm if pattern == "dcm" else {}
        mobility |= {"knowledge": knowledge} if knowledge != "oracle" else {}
        settings = {
            **network.settings,
            "clients": network.clients,
            "partition": {"alpha": alpha},
            "contacts": {"radius": float(radius)},
            "mobility": mobility,
        }
        return StudyVariant(name, settings)

    def fully_connected(self, alpha: float = 0.05, network: ClientGrid = SMALL) -> StudyVariant:
        """The variant in which everybody reaches everybody (Rc infinite); places do not matter then."""
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

    def figure_3(
        self,
        *,
        whole: bool,
        measure: Measure = final,
        others: str = "",
        settings: Settings | None = None,
        heard: Iterable[str] = MOVING,
    ) -> tuple[Doses, ...]:
        """A measure over the number of mobile clients, over Rc and over Rm: of the few values or of all.

        settings: of the second and third figure, `others` says them in their titles; heard: the second's patterns.
        """
        axes, end = (ALL, "-all") if whole else (FEW, "")
        drawn = (
            ("a", "mobile", "How many move", "numbers", MOVING, None),
            ("b", "radius", f"How far they are heard{others}", "radii", heard, settings),
            ("c", "step", f"How far they move{others}", "steps", MOVING, settings),
        )
        return tuple(
            self.doses(
                f"figure-3{letter}{end}",
                f"{title}: all {plural}" if whole else title,
                key,
                axes[key],
                measure=measure,
                patterns=patterns,
                settings=fixed,
            )
            for letter, key, title, plural, patterns, fixed in drawn
        )


def shown(length: float) -> str:
    """A length in words: 5 or ∞."""
    return "∞" if math.isinf(length) else f"{length:g}"


def about(gains: Iterable[tuple[Value, float]]) -> Test:
    """Gains that a paper says are about so large (points), each tested as more than half of it.

    Of a gain that is exactly as large as said, a test of "at least as large" could never decide.
    """
    return all_of(over(value, points / 2) for value, points in gains)
