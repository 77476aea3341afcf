"""What a rule may know of the clients and of the round, where it declares it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
from scipy import sparse

from fedroam.contacts import contact_durations
from fedroam.errors import InputError, unknown
from fedroam.mobility import Paths

Fact = Literal["paths", "contact_durations", "radius", "class_counts"]


@runtime_checkable
class DeclaresFacts(Protocol):
    """A rule that needs to know more than samples and speeds."""

    @property
    def needs(self) -> tuple[Fact, ...]:
        """The facts that it reads; whatever is not named here is neither computed nor given."""


def needs_of(rule: object) -> tuple[Fact, ...]:
    """The facts that a rule declares. Raises InputError where it declares what there is not."""
    needs = tuple(rule.needs) if isinstance(rule, DeclaresFacts) else ()
    for name in needs:
        if name not in get_args(Fact):
            raise unknown(f"fact in `needs` of {type(rule).__name__}", name, get_args(Fact))
    return needs


@dataclass(frozen=True)
class Surroundings:
    """Where an exchange happens: the paths of its round, who is in contact (bool CSR [clients, clients]), the radio
    range (metres), and the training samples of each client by class (int64 [clients, classes]).
    """

    paths: Paths
    graph: sparse.csr_array
    radius: float
    class_counts: np.ndarray


@dataclass(frozen=True)
class Facts:
    """What a rule may know of the clients: training samples held (int64 [clients]) and present speed (way of the
    round per round, float64 [clients], metres), and what it declares besides. Reading an undeclared fact raises
    InputError.
    """

    samples: np.ndarray
    speed: np.ndarray
    declared: tuple[Fact, ...] = ()
    around: Surroundings | None = None

    @classmethod
    def of(cls, rule: object, samples: np.ndarray, around: Surroundings) -> Facts:
        """Those that a rule declares. Raises InputError where it declares what there is not."""
        return cls.declaring(needs_of(rule), samples, around)

    @classmethod
    def declaring(cls, needs: tuple[Fact, ...], samples: np.ndarray, around: Surroundings) -> Facts:
        """These, which some rule declares."""
        return cls(samples, around.paths.length, needs, around)

    def copied(self) -> Facts:
        """The same in arrays of their own, for a rule that may write into them."""
        around = self.around
        if around is not None and "paths" in self.declared:
            around = replace(around, paths=around.paths.copied())
        if around is not None and "class_counts" in self.declared:
            around = replace(around, class_counts=around.class_counts.copy())
        return replace(self, samples=self.samples.copy(), speed=self.speed.copy(), around=around)

    def only_to_read(self) -> Facts:
        """The same in arrays into which nobody can write, for a rule that is asked many times with the same facts."""
        found = self.copied()
        arrays = [found.samples, found.speed]
        if found.around is not None and "paths" in self.declared:
            found.around.paths.only_to_read()
        if found.around is not None and "class_counts" in self.declared:
            arrays.append(found.around.class_counts)
        if found.around is not None and "contact_durations" in self.declared:
            arrays.append(found.contact_durations.data)
        for array in arrays:
            array.flags.writeable = False
        return found

    @property
    def paths(self) -> Paths:
        """The way of each client in the round."""
        return self._known("paths").paths

    @cached_property
    def contact_durations(self) -> sparse.csr_array:
        """For each pair in contact, the share of the round's time in which it is within the radius, float64 CSR
        [clients, clients], 0 to 1, symmetric. A pair that only touches has an entry of 0.
        """
        around = self._known("contact_durations")
        return contact_durations(around.paths, around.graph, around.radius)

    @property
    def radius(self) -> float:
        """The radio range, metres; infinite where everybody hears everybody."""
        return self._known("radius").radius

    @property
    def class_counts(self) -> np.ndarray:
        """Training samples of each client by class, int64 [clients, classes]."""
        return self._known("class_counts").class_counts

    def _known(self, name: Fact) -> Surroundings:
        if name not in self.declared:
            raise InputError(
                f"a rule reads facts.{name} without declaring it: give its class `needs = ({name!r},)`"
            )
        if self.around is None:
            raise InputError(f"facts.{name} is not known here")
        return self.around
