"""The parts of an experiment, each as its family's Protocol."""

# mypy: disable-error-code="type-abstract"
# Protocols are handed on as values below: parts are looked at through them, and none is ever made.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeGuard, TypeVar

from typing_extensions import get_protocol_members

from fedroam.access_points import AccessPoints
from fedroam.attacks import Attack
from fedroam.clock import Clock
from fedroam.components import Part, build
from fedroam.contacts import Contacts
from fedroam.cost import Radio
from fedroam.data import DataSource, Partition
from fedroam.devices import Battery, Compute, Motion
from fedroam.errors import InputError
from fedroam.execution import Execution
from fedroam.experiment import Experiment
from fedroam.federation import Federation
from fedroam.learning import Engine
from fedroam.learning.objective import Objective
from fedroam.learning.training import Training
from fedroam.links import Link
from fedroam.mixing import Aggregation, Mixing
from fedroam.mobility import Activity, Mobility
from fedroam.models import ModelBuilder
from fedroam.traces import NamesDevices, NamesHolders

P = TypeVar("P")


@dataclass(frozen=True)
class Parts:
    """The parts of an experiment, one of each family."""

    data: DataSource
    partition: Partition
    model: ModelBuilder
    training: Training
    objective: Objective
    engine: Engine
    mobility: Mobility
    activity: Activity
    access_points: AccessPoints
    contacts: Contacts
    mixing: Mixing
    aggregation: Aggregation
    attack: Attack
    federation: Federation
    radio: Radio
    link: Link
    compute: Compute
    motion: Motion
    battery: Battery
    clock: Clock
    execution: Execution

    @classmethod
    def of(cls, experiment: Experiment) -> Parts:
        """Those of an experiment. Raises InputError where one lacks what is asked of its family."""
        return cls(
            data=_as(DataSource, experiment.data),
            partition=_as(Partition, experiment.partition),
            model=_as(ModelBuilder, experiment.model),
            training=_as(Training, experiment.training),
            objective=_as(Objective, experiment.objective),
            engine=_as(Engine, experiment.engine),
            mobility=_as(Mobility, experiment.mobility),
            activity=_as(Activity, experiment.activity),
            access_points=_as(AccessPoints, experiment.access_points),
            contacts=_as(Contacts, experiment.contacts),
            mixing=_as(Mixing, experiment.mixing),
            aggregation=_as(Aggregation, experiment.aggregation),
            attack=_as(Attack, experiment.attack),
            federation=_as(Federation, experiment.federation),
            radio=_as(Radio, experiment.radio),
            link=_as(Link, experiment.link),
            compute=_as(Compute, experiment.compute),
            motion=_as(Motion, experiment.motion),
            battery=_as(Battery, experiment.battery),
            clock=_as(Clock, experiment.clock),
            execution=_as(Execution, experiment.execution),
        )

    def of_devices(self, names: tuple[str, ...] | None) -> Parts:
        """The same, but in all parts that know devices by name client i is names[i]; None: as they are."""
        if names is None:
            return self
        mobility, activity, partition = self.mobility, self.activity, self.partition
        return replace(
            self,
            mobility=mobility.of_devices(names) if isinstance(mobility, NamesDevices) else mobility,
            activity=activity.of_devices(names) if isinstance(activity, NamesDevices) else activity,
            partition=partition.of_devices(names) if isinstance(partition, NamesHolders) else partition,
        )


def mixing_of(settings: str | Mapping[str, Any]) -> Mixing:
    """The mixing rule that settings describe, alone. Raises InputError where they describe none."""
    return _as(Mixing, build("mixing", settings))


def _as(protocol: type[P], part: Part) -> P:
    """The part, known to have all that its family's Protocol names. Raises InputError where it lacks something."""
    if not _has_all(part, protocol):
        missing = ", ".join(_lacking(part, protocol))
        raise InputError(f"{part.family} {part.kind!r} ({type(part).__name__}) lacks {missing}")
    return part


def _has_all(part: Part, protocol: type[P]) -> TypeGuard[P]:
    return not _lacking(part, protocol)


def _lacking(part: Part, protocol: type) -> tuple[str, ...]:
    """What a part lacks of what a Protocol names."""
    return _class_lacks(type(part), protocol)


@cache  # a run asks a hundred times, and `isinstance` would look through all members each time
def _class_lacks(part: type[Part], protocol: type) -> tuple[str, ...]:
    return tuple(sorted(get_protocol_members(protocol) - {*dir(part), *part.model_fields}))
