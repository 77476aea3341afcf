"""What to run: one frozen, validated description; the same description gives the same numbers.

An experiment file is TOML: top-level keys are the fields of `Experiment`, each section is a part. What makes several
runs of one file (`seeds = 3`, `[variants.NAME]`, `[sweep]`) is resolved by `planning`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import tomli_w
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator

from fedroam.checks.arguments import checked
from fedroam.components import (
    FAMILIES,
    Part,
    build,
    explain,
    field,
    identifies,
    identity_settings,
    jsonable,
    plain,
    unused,
)
from fedroam.errors import InputError
from fedroam.facts import BeyondLimits, within_limits

MOST_CLIENTS = 1_000_000
MOST_ROUNDS = 10**8 - 1  # names of checkpoints and pieces of tables have eight digits


@runtime_checkable
class KnowsDeviceNames(Protocol):
    """A part that knows devices by name; what it is asked by differs between families (see `traces.matching`)."""

    def device_names(self, *arguments: Any, **named: Any) -> tuple[str, ...]:
        """Their names."""
        ...


class Experiment(BaseModel):
    """One run, described completely: the same description gives the same numbers.

    Parts may be given as part objects, as the name of a kind, or as a mapping with `kind` and its fields;
    a family left out gets its default kind. Raises InputError with one clear line for anything wrong.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)

    name: str = field(
        "experiment",
        "a name for people: default folder, titles of figures; up to 80 letters, digits, dots, dashes and underscores",
        identity=False,
    )
    seed: int = field(0, "every random draw derives from it", ge=0, lt=2**62)
    clients: int = field(20, "number of clients", ge=1, le=MOST_CLIENTS)
    rounds: int = field(100, "communication rounds", ge=1, le=MOST_ROUNDS)
    evaluate_every: int = field(10, "rounds between evaluations (the first and last are evaluated)", ge=1)
    evaluate_on: Literal["shared", "own"] = field(
        "shared",
        "test samples: the data's shared test set, or each client's own held-out share (test_share above 0)",
    )
    evaluate_share: float = field(
        1.0,
        "share of the test samples (classes in proportion, the same for every seed) that evaluations but the last are "
        "on",
        gt=0,
        le=1,
        later=True,
    )
    evaluate_whole: int = field(
        10,
        "how many of the last evaluations are on all test samples, whatever evaluate_share",
        ge=1,
        later=True,
    )
    validation_share: float = field(0.0, "share of each client's samples held out for validation", ge=0, lt=1)
    test_share: float = field(0.0, "share of each client's samples held out for its own test", ge=0, lt=1)
    start_models: Literal["equal", "independent"] = field(
        "equal", "whether all clients start from one model (Jahani et al.) or each from its own draw"
    )
    models_at_rest: Literal["float32", "float16"] = field(
        "float32",
        "how models are held between training and exchange: float16 takes half the memory; they are computed with in "
        "float32 all the same and rounded to the nearest whenever one is written",
        later=True,
    )
    device: str = field("cpu", "where models and data live: cpu, cuda, cuda:N, or mps (not yet measured)")
    checkpoint_every: int = field(
        10,
        "rounds between checkpoints: what a kill can lose; in a sweep at least 5 s pass, too",
        ge=1,
        identity=False,
    )
    record_movement: Literal["all", "evaluated", "none"] = field(
        "all", "which rounds' positions and contacts are kept in the run folder"
    )
    record_schedule: int = field(
        24,
        "clients, the first ones, whose timetable is kept under a clock of seconds: who is at what when",
        unit="clients",
        ge=0,
        identity=False,
    )
    keep_models: Literal["all", "mean", "none"] = field(
        "all",
        "which final models are kept in the run folder: every client's and those that stand for all, only the latter, "
        "or none",
        identity=False,
    )
    match: Literal["names", "order"] | None = field(
        None,
        "how clients of data (partition kind column), trace and availability log are matched: by the names of devices "
        "(what lacks a match is told, too few are an error), or each in its own order; not set: by name where any name "
        "is common to all of them, else by order",
        later=True,
    )
    data: Part = field("digits", FAMILIES["data"].about)
    partition: Part = field("dirichlet", FAMILIES["partition"].about)
    model: Part = field("mlp", FAMILIES["model"].about)
    training: Part = field("sgd", FAMILIES["training"].about)
    objective: Part = field("cross_entropy", FAMILIES["objective"].about)
    engine: Part = field("auto", FAMILIES["engine"].about)
    mobility: Part = field("random", FAMILIES["mobility"].about)
    activity: Part = field("always", FAMILIES["activity"].about)
    access_points: Part = field("none", FAMILIES["access_points"].about)
    contacts: Part = field("radius", FAMILIES["contacts"].about)
    mixing: Part = field("metropolis", FAMILIES["mixing"].about)
    aggregation: Part = field("average", FAMILIES["aggregation"].about)
    attack: Part = field("none", FAMILIES["attack"].about)
    federation: Part = field("decentralized", FAMILIES["federation"].about)
    radio: Part = field("lte_wifi", FAMILIES["radio"].about)
    link: Part = field("instant", FAMILIES["link"].about)
    compute: Part = field("instant", FAMILIES["compute"].about)
    motion: Part = field("none", FAMILIES["motion"].about)
    battery: Part = field("none", FAMILIES["battery"].about)
    clock: Part = field("rounds", FAMILIES["clock"].about)
    execution: Part = field("process", FAMILIES["execution"].about)

    def __init__(self, **settings: Any) -> None:
        try:
            within_limits(settings)
            settings = {k: build(k, v) if k in FAMILIES else plain(v) for k, v in settings.items()}
            super().__init__(**settings)
        except BeyondLimits as error:
            raise InputError(f"experiment: {error}") from None
        except ValidationError as error:
            raise InputError(explain(error, "", type(self), "an experiment")) from None

    @field_validator(*FAMILIES, mode="before")
    @classmethod
    def _default_part(cls, value: Any, info: ValidationInfo) -> Part:
        return build(str(info.field_name), value)

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        if not re.fullmatch(r"cpu|cuda(:\d+)?|mps", value):
            raise ValueError("allowed are cpu, cuda, cuda:N and mps")
        return value

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", value):
            raise ValueError("allowed are up to 80 letters, digits, dots, dashes and underscores")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Experiment:
        if self.validation_share + self.test_share >= 1:
            raise ValueError(
                f"validation_share + test_share = {self.validation_share + self.test_share:g} "
                "leaves nothing to train on: allowed is a sum below 1"
            )
        if self.evaluate_on == "own" and self.test_share == 0:
            raise ValueError('evaluate_on = "own" needs test samples: set test_share above 0, e.g. 0.2')
        return self

    @property
    def whole_from(self) -> int:
        """The round from which on evaluations are on all test samples."""
        if self.evaluate_share == 1:
            return 0
        first = -(-self.rounds // self.evaluate_every) - self.evaluate_whole + 1
        return min(max(first * self.evaluate_every, 0), self.rounds)

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by family."""
        return {name: value for name, value in self if isinstance(value, Part)}

    def settings(self) -> dict[str, Any]:
        """The whole description as plain values, as an experiment file would say it."""
        return {
            name: value.settings() if isinstance(value, Part) else value
            for name, value in self
            if value is not None
        }

    def toml(self) -> str:
        """The resolved experiment as TOML: every setting, defaults included."""
        return tomli_w.dumps(_lists(self.settings()))

    @property
    def digest(self) -> str:
        """What identifies a run: SHA-256 over every setting that can change its results (hex)."""
        return _digest(self._identity())

    @checked()
    def digests(self, seeds: Iterable[int]) -> list[str]:
        """The digests of this experiment with other seeds: what a seed does not change is collected once."""
        identity = self._identity()
        return [_digest({**identity, "seed": seed}) for seed in seeds]

    def _identity(self) -> dict[str, Any]:
        """Every setting that can change results, as JSON can hold it."""
        identity = {
            name: identity_settings(value) if isinstance(value, Part) else value
            for name, value in self
            if identifies(type(self).model_fields[name], value)
            and not (isinstance(value, Part) and unused(value))
        }
        # Two parts that know devices by name are matched by it; before they were, such runs gave other numbers.
        known = (issubclass(type(part), KnowsDeviceNames) for part in self.parts.values())
        if self.match is None and sum(known) > 1:
            identity["match"] = "names"
        return {name: jsonable(value) for name, value in identity.items()}

    def replace(self, **settings: Any) -> Experiment:
        """A copy with other settings: `experiment.replace(seed=3, mobility="static")`."""
        return Experiment(**{**dict(self), **settings})


def _digest(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _lists(value: Any) -> Any:
    """Tuples as lists, for TOML."""
    if isinstance(value, Mapping):
        return {k: _lists(v) for k, v in value.items()}
    return [_lists(v) for v in value] if isinstance(value, list | tuple) else value
