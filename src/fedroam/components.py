"""Parts: small frozen classes whose fields are their hyperparameters, registered by family and kind.

`[mobility] kind = "random"` in an experiment file builds the class registered as ("mobility", "random"); the
other keys of the section are its fields. A new part is one class in one file:

    @register("mobility", "drift")
    class Drift(Part):
        "Everybody drifts east."
        speed: float = field(1.0, "speed", unit="m/s", ge=0)
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import inspect
import math
import numbers
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, field_validator
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from typing_extensions import override

from fedroam.checks.arguments import checked
from fedroam.errors import InputError, unknown
from fedroam.facts import BeyondLimits, within_limits


@dataclass(frozen=True)
class Family:
    """A kind of exchangeable part: what it decides, the kind used when none is named, its methods."""

    about: str
    default: str
    methods: tuple[str, ...]
    # Whether the family came when runs had their digests: then a run without a part of it keeps the digest it had.
    later: bool = False
    # Whether it can change results; if not, no part of it counts in a digest.
    identity: bool = True


FAMILIES: dict[str, Family] = {
    "data": Family("what is learnt: the samples and their classes", "digits", ("load",)),
    "partition": Family("who holds which training samples", "dirichlet", ("split",)),
    "model": Family("the network that every client trains", "mlp", ("build",)),
    "training": Family("the optimiser and the amount of local work", "sgd", ("batches", "keeps_momentum")),
    "objective": Family("the loss that local training lowers", "cross_entropy", ("loss",)),
    "engine": Family("how local training is computed", "auto", ("build",)),
    "mobility": Family("where everybody is, round by round", "random", ("start", "step", "bounds", "groups")),
    "activity": Family("who takes part, round by round: churn", "always", ("start", "step")),
    "access_points": Family("where access points stand", "none", ("places",)),
    "contacts": Family("who can talk to whom", "radius", ("meet", "reach")),
    "mixing": Family("the weights of an exchange", "metropolis", ("weights",)),
    "aggregation": Family(
        "what is made of the models that meet: their average, or a robust rule",
        "average",
        ("aggregate",),
        later=True,
    ),
    "attack": Family(
        "who sends something else than it learnt, and what",
        "none",
        ("attackers", "labels", "sent"),
        later=True,
    ),
    "federation": Family(
        "who trains, who aggregates, and when",
        "decentralized",
        ("init", "distribute", "exchange", "evaluation_models"),
    ),
    "radio": Family("what sending, receiving and training cost", "lte_wifi", ("spread", "cost", "training")),
    "link": Family("how fast a model gets from one to another", "instant", ("rate",), later=True),
    "compute": Family("how long local work takes", "instant", ("seconds",), later=True),
    "motion": Family("what moving costs the battery", "none", ("power",), later=True),
    "battery": Family(
        "how much energy devices have, what they draw and when they charge",
        "none",
        ("start", "step", "empty", "edges"),
        later=True,
    ),
    "clock": Family(
        "whether things take time: rounds, or seconds, and who waits for whom", "rounds", (), later=True
    ),
    "execution": Family(
        "where a run is computed: in one process, or spread over a cluster",
        "process",
        ("spread",),
        later=True,
        identity=False,
    ),
}

# Of a device, not of an experiment: `site.toml` names them.
NODE_FAMILIES: dict[str, Family] = {
    "meter": Family("how the power of a device is measured", "none", ("samples",)),
}
_NAME = re.compile(r"[^\W\d_][\w.+-]*")
_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_VALUES = ("true", "false", "inf", "nan")
_EVERY = {**FAMILIES, **NODE_FAMILIES}

# The rooms that register parts when they are imported. Named, not imported: this module knows none of them.
ROOMS = (
    "fedroam.data",
    "fedroam.models",
    "fedroam.mobility",
    "fedroam.traces",
    "fedroam.access_points",
    "fedroam.contacts",
    "fedroam.links",
    "fedroam.mixing",
    "fedroam.learning",
    "fedroam.devices",
    "fedroam.attacks",
    "fedroam.federation",
    "fedroam.cost",
    "fedroam.clock",
    "fedroam.execution",
)

# What pydantic would pass over that is misspelt; what `field` says itself is not said twice.
_FIELD_KNOWS = {*inspect.signature(Field).parameters} - {
    "default",
    "description",
    "json_schema_extra",
    "extra",
}
USED = "fedroam_use_"  # before the stem of a file: the name of the module that `use` makes of it

_registry: dict[str, dict[str, type[Part]]] = {family: {} for family in _EVERY}


class Part(BaseModel):
    """Base of every exchangeable part: frozen, validated when built, unknown keys refused.

    `kind` and `family` are set by `register`; `source` cites the paper and equation, if there is one.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, arbitrary_types_allowed=True
    )
    kind: ClassVar[str] = ""
    family: ClassVar[str] = ""
    source: ClassVar[str] = ""

    @classmethod
    @override
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Raise InputError where a part calls a setting as what every part has."""
        super().__pydantic_init_subclass__(**kwargs)
        taken = [name for name in ("kind", "family", "source") if name in cls.model_fields]
        if taken:
            raise InputError(
                f"{cls.__name__}: its setting {taken[0]!r} is called as what every part has; allowed is another name"
            )

    @field_validator("*")
    @classmethod
    def _a_number(cls, value: Any) -> Any:
        """NaN passes every limit that it is not compared with, so it is refused here, for all fields."""
        if isinstance(value, float) and math.isnan(value):
            raise ValueError("allowed is a number")
        return value

    def settings(self) -> dict[str, Any]:
        """The part as plain values: `kind` and every field (what an experiment file would say)."""
        return {"kind": self.kind, **{k: v for k, v in self.model_dump().items() if v is not None}}

    def reads(self) -> Mapping[str, Path]:
        """The files of the user's that it reads, by the setting that names them; a part that reads some overrides it.

        The digest knows only their names. A run records size and SHA-256 of each and is not gone on with, nor taken
        for finished, once they differ. May raise InputError where a file is not found.
        """
        return {}

    def check_clients(self, clients: int) -> None:
        """Raise InputError where its settings are not for so many clients; a part that counts some overrides it.

        Asked when a sweep is planned, so that nothing is computed before.
        """

    def imports(self) -> tuple[str, ...]:
        """The user's own modules that it imports by name; a part that does overrides it.

        A run records their source as it does that of parts of the user's own.
        """
        return ()


@checked()
def field(
    default: Any,
    about: str,
    *,
    unit: str = "",
    identity: bool = True,
    later: bool = False,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    **more: Any,
) -> Any:
    """A hyperparameter: default value, what it means, its unit, and limits (`gt`, `ge`, `lt`, `le`).

    `identity=False` marks a field that cannot change results (a number of threads): it is left out of the
    digest that identifies a run. `later=True` marks one that was added to a part whose digests are known: at its
    default, which must be what was done before, it is left out, too. Without default: `field(..., "about")`.
    `more` is what pydantic's `Field` knows.
    """
    for name in more:
        if name not in _FIELD_KNOWS:
            raise unknown("limit of a field", name, _FIELD_KNOWS)
    extra: JsonDict = {"unit": unit, "identity": identity, "later": later}
    limits = {"gt": gt, "ge": ge, "lt": lt, "le": le}
    given: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    return Field(default, description=about, json_schema_extra=extra, **given, **more)


def _declared(info: FieldInfo) -> JsonDict:
    """What `field` noted besides pydantic's own facts; nothing of a field made otherwise."""
    extra = info.json_schema_extra
    return extra if isinstance(extra, dict) else {}


def unit_of(info: FieldInfo) -> str:
    """The unit of a field made by `field`."""
    return str(_declared(info).get("unit", ""))


def changes_results(info: FieldInfo) -> bool:
    """Whether a field can change results."""
    return bool(_declared(info).get("identity", True))


def identifies(info: FieldInfo, value: Any) -> bool:
    """Whether a value of a field is part of the identity of a run: it can change results, and is not the default of a
    field that was added later.
    """
    extra = _declared(info)
    return bool(extra.get("identity", True)) and not (extra.get("later") and value == info.default)


P = TypeVar("P", bound=type[Part])


@checked(kind="a name of letters, digits, '_', '-', '+' and '.'")
def register(family: str, kind: str, source: str = "") -> Callable[[P], P]:
    """Class decorator: make a part known as `kind` of `family` (see `FAMILIES` and `NODE_FAMILIES`).

    Raises InputError where the family is unknown, the kind is no name that a file and the command line can ask for or
    is taken by another class, or a method that the family needs is missing.
    """
    if family not in _EVERY:
        raise unknown("family of parts", family, _EVERY)
    if not _NAME.fullmatch(kind) or kind in _VALUES:
        raise InputError(
            f"{family} kind {kind!r}: allowed is a name of letters, digits, '_', '-', '+' and '.' that begins with "
            f"a letter, but not {', '.join(_VALUES)}, which are values in TOML"
        )

    def add(cls: P) -> P:
        if not (isinstance(cls, type) and issubclass(cls, Part)):
            raise InputError(
                f"{family} {kind!r}: {getattr(cls, '__name__', cls)!s} is no Part; allowed is class Name(Part)"
            )
        missing = [m for m in _EVERY[family].methods if not callable(getattr(cls, m, None))]
        if missing:
            raise InputError(
                f"{family} {kind!r} ({cls.__name__}) lacks the method(s) {', '.join(missing)}; "
                f"{'an' if family[0] in 'aeiou' else 'a'} {family} part needs {', '.join(_EVERY[family].methods)}"
            )
        known = _registry[family].get(kind)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            file = getattr(sys.modules.get(known.__module__), "__file__", None)
            where = f" of {file}" if file and known.__module__.startswith(USED) else ""
            raise InputError(
                f"{family} kind {kind!r} is already taken by {known.__module__}.{known.__name__}{where}"
            )
        cls.kind, cls.family = kind, family
        if source or "source" not in vars(cls):  # a citation is not inherited: the rule is another one
            cls.source = source
        _registry[family][kind] = cls
        return cls

    return add


@cache
def load_rooms() -> None:
    """Import the rooms that register fedroam's own parts (once; later calls cost nothing)."""
    with collecting_nothing():
        for room in ROOMS:
            _load_room(room)


@cache
def _load_room(room: str) -> None:
    with collecting_nothing():
        importlib.import_module(room)


@contextlib.contextmanager
def collecting_nothing() -> Iterator[None]:
    """While modules are loaded: the garbage collector would look through all that they make a dozen times, and again
    when they are there. What is made meanwhile counts as old afterwards, as if it had been looked through."""
    if not gc.isenabled() or gc.get_freeze_count():  # somebody has taken it in hand
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # into the oldest generation: what is garbage will be found in its time
        gc.enable()


class _AsItStands(SourceFileLoader):
    """Compiles a file whenever it is loaded: what was compiled of it is known by second and size, and an edit may keep
    both."""

    @override
    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError("not asked for")


@checked()
def use(file: str | Path, owner: str = "--use") -> None:
    """Load the parts in a user's own Python file (`--use my_part.py`); `owner` is what messages say that it is of."""
    path = Path(file).absolute()
    if not path.is_file():
        raise InputError(
            f"{owner} {file}: {'is a folder, allowed is a file' if path.is_dir() else 'no such file'}"
        )
    load_rooms()
    name = f"{USED}{path.stem}"
    if path.suffix != ".py":
        raise InputError(f"{owner} {file}: not a Python file (its name must end in .py)")
    loader = _AsItStands(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None  # a loader is given
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line = _line_in(error, path)
        if isinstance(error, InputError):
            raise InputError(f"{file}{line}: {error}" if line else str(error)) from error
        if isinstance(error, PydanticUserError) and error.code == "model-field-missing-annotation":
            name = (re.search(r"`(\w+) = ", error.message) or ["", "a name"])[1]
            raise InputError(
                f"{owner} {file}{line}: {name} = ... has no type: write {name}: ClassVar = ... if it is no setting, "
                f"and {name}: TYPE = field(...) if it is one"
            ) from error
        raise InputError(f"{owner} {file}{line}: {type(error).__name__}: {error}") from error


def _line_in(error: BaseException, path: Path) -> str:
    """', line N' for the innermost frame of `error` that lies in `path`."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f", line {error.lineno}"
    line, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    return line


def ours(part: object) -> bool:
    """Whether a part comes with fedroam, and not from a file or a module of the user's."""
    return type(part).__module__.startswith("fedroam.")


def called(part: object) -> str:
    """What messages call a part: its kind, or the name of its class where that is no part."""
    return part.kind if isinstance(part, Part) and part.kind else type(part).__name__


@contextlib.contextmanager
def answer_of(family: str, part: object, round: int | None = None) -> Iterator[None]:
    """What is found wrong within is the work of this part, in this round, if in any: told by its family and kind.

    What comes with fedroam is held against what its family promises by tests, and pays nothing for that.
    """
    try:
        yield
    except InputError as error:
        when = "" if round is None else f", round {round}"
        raise InputError(f"{family} kind {called(part)!r}{when}: {error}") from error


def kinds(family: str) -> dict[str, type[Part]]:
    """Every known kind of a family, by name."""
    if family not in _EVERY:
        raise unknown("family of parts", family, _EVERY)
    load_rooms()
    return dict(sorted(_registry[family].items()))


def lookup(family: str, kind: str) -> type[Part]:
    """The class registered as `kind` of `family`. Rooms are loaded in their order until one has it."""
    known = _registry.get(family, {})
    for room in ROOMS:
        if kind in known:
            return known[kind]
        _load_room(room)
    if kind not in known:
        raise unknown(f"{family} kind", kind, kinds(family))
    return known[kind]


def build(family: str, value: Part | str | Mapping[str, Any]) -> Part:
    """A part from itself, from the name of its kind, or from a mapping with `kind` and its fields."""
    if isinstance(value, Part):
        if value.family != family:
            raise InputError(f"[{family}]: a {value.family or type(value).__name__} part cannot stand here")
        _registered(value)
        return value
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InputError(f"[{family}]: found {value!r}, allowed is the name of a kind or a table of settings")
    fields = dict(value)
    kind = fields.pop("kind", _EVERY[family].default)
    if not isinstance(kind, str):
        raise InputError(f"{family}.kind = {kind!r}: allowed is the name of a kind")
    cls = lookup(family, kind)
    try:
        within_limits(fields)
        return cls(**{k: plain(v) for k, v in fields.items()})
    except BeyondLimits as error:
        raise InputError(f"[{family}]: {error}") from None
    except ValidationError as error:
        raise InputError(explain(error, f"{family}.", cls, f"{family} kind {kind!r}")) from None


def _registered(part: Part) -> None:
    """Raise InputError where a part's class was not registered itself.

    A subclass of a registered part inherits `kind`, so that its runs would have the digest of its parent's.
    """
    cls = type(part)
    if "kind" not in vars(cls):
        raise InputError(
            f"[{part.family}]: {cls.__qualname__} is not registered, and its runs could not be told from those of "
            f'{part.kind!r}: put @register("{part.family}", "NAME") above the class, NAME being one of its own'
        )


def plain(value: Any) -> Any:
    """Lists as tuples, all the way down, as fields are frozen; numbers of numpy as those of Python."""
    if isinstance(value, list | tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, int | float | str):  # most are, and bool must not become a number
        return value
    if isinstance(value, numbers.Integral):  # numpy's say that they are, without numpy being loaded here
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def explain(error: ValidationError, prefix: str, cls: type[BaseModel], owner: str) -> str:
    """The first complaint of a validation error as one line: key, what was found, what is allowed."""
    problem = error.errors()[0]
    where = prefix + ".".join(str(step) for step in problem["loc"])
    if problem["type"] == "extra_forbidden":
        bad = str(problem["loc"][-1])
        known = [*cls.model_fields, *(["kind"] if issubclass(cls, Part) else [])]
        told = unknown(f"key of {owner}", bad, known)
        return f"{where}: {told}" if where else str(told)
    if problem["type"] == "missing":
        return f"{where}: missing; {owner} needs it{_about(cls, problem)}"
    message = problem["msg"].removeprefix("Value error, ")
    found, given = "" if not problem["loc"] else f" = {_shown(problem['input'])}", problem["input"]
    if problem["type"] in _BOUNDS and isinstance(given, float) and math.isnan(given):  # which exceeds any
        message = "allowed is a number"
    message = f"{message[0].lower()}{message[1:]}{_about(cls, problem)}"
    about = f"{where.rstrip('.')}{found}"
    return f"{about}: {message}" if about else message  # some settings do not fit together


def _about(cls: type[BaseModel], problem: ErrorDetails) -> str:
    info = cls.model_fields.get(str(problem["loc"][0])) if problem["loc"] else None
    if info is None or not info.description:
        return ""
    unit = unit_of(info)
    return f" ({info.description}{', ' + unit if unit else ''})"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def identity_settings(part: Part) -> dict[str, Any]:
    """The settings that can change results: what the digest of a run is made of."""
    fields = type(part).model_fields
    return {k: v for k, v in part.settings().items() if k not in fields or identifies(fields[k], v)}


def unused(part: Part) -> bool:
    """Whether a part says nothing that was not so before its family came, or that changes results: it is left out of
    the digest."""
    family = FAMILIES[part.family]
    return not family.identity or (family.later and part.kind == family.default)


def jsonable(value: Any) -> Any:
    """Plain values that JSON can hold: tuples as lists, infinities as text."""
    if value is None or isinstance(value, str | int):  # most are, and to ask for a mapping takes long
        return value
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
