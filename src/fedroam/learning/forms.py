"""What an objective is, where it is one of some known forms: then an engine may have kernels for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fedroam.learning.objective import Objective


@dataclass(frozen=True)
class Contrast:
    """A term (`AddsTerm`): weight times the mean over samples of log(1 + e^u), u = (cos(z, far) - cos(z, near)) /
    temperature, where z are the features.

    near, far: names of what is handed, float32 [n, features]. least: of the lengths that are divided by.
    """

    near: str
    far: str
    weight: float
    temperature: float
    least: float


@dataclass(frozen=True)
class ToPrototypes:
    """A term: weight times the mean over samples and features of (z - prototype of its class)^2; a sample of a class
    without one adds 0.

    prototypes, known: names of what is handed, float32 [classes, features] and bool [classes].
    """

    prototypes: str
    known: str
    weight: float


@dataclass(frozen=True)
class WithMemory:
    """A transformation (`TransformsFeatures`): the head gets z + memory. r <- (1 - momentum) r + momentum * mean of z
    over the batch, and weight times the mean over features of 0.5 (r - target)^2 is added.

    memory: name of a parameter, running: of a buffer (r), target: of what is handed, all float32 [features].
    """

    memory: str
    running: str
    target: str
    weight: float
    momentum: float


@dataclass(frozen=True)
class UnderConditions:
    """A transformation: the head gets v(z, personal), with v(z, c) = ReLU((gamma(c) + 1) z + beta(c)), gamma and beta
    each a linear layer, ReLU and layer norm.

    Of g = v(z, generic) and the embedding of each class are added: angle times the cross-entropy of their cosines;
    magnitude times the mean over samples of |g - frozen embedding of its class|, or the one norm of all these
    differences where they count `together`; and half of decay times the squares of embedding, gamma and beta.

    embedding: name of a parameter, float32 [classes, features]; gamma, beta: names of modules, with layers 0 and 2;
    personal, generic: of buffers, float32 [features]; frozen: of what is handed, shaped like the embedding. least: a
    shorter vector is divided by this for its direction. norm: added to a variance by a layer norm.
    """

    embedding: str
    gamma: str
    beta: str
    personal: str
    generic: str
    frozen: str
    angle: float
    magnitude: float
    decay: float
    together: bool
    least: float
    norm: float


Form = Contrast | ToPrototypes | WithMemory | UnderConditions


@runtime_checkable
class SaysItsForm(Protocol):
    """An objective that takes features as `AddsTerm` or `TransformsFeatures` do, and says which form that has."""

    @property
    def form(self) -> Form | None:
        """What stands between extractor and head; None where it is of no known form."""


def form_of(objective: Objective) -> Form | None:
    """What an objective says that it is; None where it says nothing, or a class of its own says only afterwards how it
    is computed: then that is what counts."""
    for kind in type(objective).__mro__:
        if "form" in vars(kind):
            return objective.form if isinstance(objective, SaysItsForm) else None
        if vars(kind).keys() & {"loss", "term", "transformed", "base"}:
            break
    return None
