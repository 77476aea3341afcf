"""The parts of an experiment, each as its family's Protocol."""

# mypy: disable-error-code="type-abstract"
# Protocols are handed on as values below: parts are looked at through them, and none is ever made.

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import FunctionType
from typing import Any, Protocol, TypeGuard, TypeVar, get_type_hints

from typing_extensions import get_protocol_members

from fedroam.access_points import AccessPoints
from fedroam.attacks import Attack
from fedroam.clock import Clock
from fedroam.components import Part, build, ours
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

_METHODS = (FunctionType, property, staticmethod, classmethod)


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
    """The part, known to have all that its family's Protocol names, in a form that fedroam can call.

    Raises InputError where it lacks something, or where a class of the user's own has a method that fedroam would call
    in vain: by almost the name of one that it knows, or with other arguments.
    """
    if not ours(part) and (wrong := _misfit(part, protocol)):
        raise InputError(f"{part.family} {part.kind!r} ({type(part).__name__}): {wrong}")
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


def _misfit(part: Part, protocol: type) -> str:
    """What fedroam could not call of a part of the user's own, in a sentence; empty where there is nothing."""
    return _class_misfit(type(part), protocol)


@cache
def _class_misfit(part: type[Part], protocol: type) -> str:
    known = _called(part, protocol)
    own: dict[str, object] = {}
    for cls in reversed([cls for cls in part.__mro__ if not _of_fedroam(cls)]):
        own.update(vars(cls))
    said = set(own) | set(part.model_fields)
    for name, value in own.items():
        if name in known:
            if wrong := _unfit(name, value, known[name]):
                return wrong
        elif not name.startswith("_") and isinstance(value, _METHODS):
            near = difflib.get_close_matches(name, set(known) - said, n=1, cutoff=0.85)
            if near:
                return (
                    f"fedroam calls no {name}; is {near[0]} meant? "
                    f"(The name of a helper of your own begins with '_', or is less like one of fedroam's.)"
                )
    return ""


def _of_fedroam(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("fedroam", "pydantic", "builtins", "typing")


def _called(part: type[Part], protocol: type) -> dict[str, object]:
    """What fedroam calls or reads of a part, as it declares it: what its family's Protocol names, those of its room
    that only some parts have, and the classes of fedroam's that it builds on."""
    room, others = protocol.__module__.split(".")[:2], set(get_type_hints(Parts).values())
    known: dict[str, object] = {}
    for each in Protocol.__subclasses__():
        if each.__module__.split(".")[:2] == room and each not in others and _looked_for(each):
            known |= {name: inspect.getattr_static(each, name, None) for name in get_protocol_members(each)}
    for cls in reversed(part.__mro__):
        if cls.__module__.partition(".")[0] == "fedroam":
            known |= {name: value for name, value in vars(cls).items() if not name.startswith("_")}
    known |= {name: inspect.getattr_static(protocol, name, None) for name in get_protocol_members(protocol)}
    return known


def _looked_for(protocol: type) -> bool:
    """Whether fedroam may ask of a part if it is one of these: of what others are, no part is."""
    try:
        isinstance(None, protocol)
    except TypeError:  # it is for type checkers alone
        return False
    return True


def _unfit(name: str, own: object, declared: object) -> str:
    """Why what a part has by a name is not what fedroam takes it for, in a sentence; empty where it is."""
    if isinstance(declared, property) and isinstance(own, FunctionType):
        return f"{name} is read, not called: put @property above it"
    if not isinstance(declared, FunctionType):
        return ""
    if isinstance(own, property):
        return f"{name} is called, not read: take away its @property"
    if not isinstance(own, FunctionType):  # a static method, a partial: left to itself
        return ""
    asked = list(inspect.signature(declared).parameters.values())
    by_name = {each.name: None for each in asked if each.kind is each.KEYWORD_ONLY}
    in_order = [each for each in asked if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    least = sum(each.default is each.empty for each in in_order)
    signature = inspect.signature(own)
    try:
        for count in {least, len(in_order)}:
            signature.bind(*[None] * count, **by_name)
    except TypeError:
        return f"defines {name}{_bare(own)}, but fedroam calls {name}{_bare(declared)}"
    return ""


def _bare(function: FunctionType) -> inspect.Signature:
    """The signature of a function without types."""
    parameters = inspect.signature(function).parameters.values()
    return inspect.Signature([each.replace(annotation=each.empty) for each in parameters])
