"""Whatever a public function is given: what it can use, or one line that says what is allowed.

Every name of `fedroam.__all__` and of `docs/python.md`, and every method of theirs, is tried, a new one unasked: it
needs an entry in `CALLS`, a call that works. Each argument in turn is replaced by each of the `ODD` values. What
`FITS` names may be of use, and must raise nothing but our own errors; all else must be refused, and leave no trace.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
from pydantic import BaseModel

import fedroam
from fedroam import FedroamError, InputError, Plan, Run, Sweep, SweepPlan
from fedroam.errors import visible
from fedroam.experiment import Experiment
from fedroam.handover import FinalModel
from support.commands import contents
from support.pages import PAGES
from support.tiny import tiny

ODD: dict[str, Any] = {
    "None": None,
    "True": True,
    "3": 3,
    "x": "x",
    "no text": "",
    "no list": [],
    "no table": {},
    "list of 3": [3],
    "table of 3": {3: 3},
    "nan": float("nan"),
    "other folder": Path("other"),
    "nowhere": Path("nowhere"),
    "below a file": Path("other/file/below.svg"),
    "NUL": "a\0b",
    "thing": object(),
}
NUMBER, SWITCH, NONE = ("3",), ("True",), ("None",)
TEXT = ("x", "no text", "NUL")
EMPTY = ("no list", "no table")
NEW = ("x", "nowhere")  # folders that can be made


@dataclass(frozen=True)
class Made:
    """What calls are made with: what a tiny experiment gives, in the folder `home`."""

    home: Path

    @cached_property
    def experiment(self) -> Experiment:
        return tiny(name="asked", rounds=1)

    @cached_property
    def plan(self) -> Plan:
        return fedroam.plan(self.experiment)

    @cached_property
    def swept(self) -> SweepPlan:
        return fedroam.sweep_plan(self.experiment)

    @cached_property
    def run(self) -> Run:
        return fedroam.run_plan(self.plan, self.home / "plan")[0]

    @cached_property
    def sweep(self) -> Sweep:
        return fedroam.run_sweep(self.swept, self.home / "sweep", only=[])

    @cached_property
    def model(self) -> FinalModel:
        return fedroam.final_model(self.run, client=0)

    @cached_property
    def exported(self) -> Path:
        return fedroam.export_model(self.model, "safetensors", self.home / "exported").parent

    @cached_property
    def samples(self) -> Path:
        np.save(self.home / "samples.npy", np.zeros((3, 64)))
        return self.home / "samples.npy"

    @cached_property
    def part(self) -> Path:
        (self.home / "mine.py").write_text("")
        return self.home / "mine.py"

    @cached_property
    def figure(self) -> matplotlib.figure.Figure:
        return matplotlib.figure.Figure()


Call = Callable[[Made], tuple[Callable[..., Any], dict[str, Any]]]
# By name, a call that works; None: it takes whatever there is.
CALLS: dict[str, Call | None] = {
    "Experiment": lambda made: (Experiment, {}),
    "Experiment.digests": lambda made: (made.experiment.digests, {"seeds": [1]}),
    "FedroamError": None,
    "InputError": None,
    "Interrupted": None,
    "Part": lambda made: (fedroam.Part, {}),
    "Part.check_clients": None,  # what parts of one's own may override; fedroam asks it
    "Plan": lambda made: (Plan, {"name": "asked", "runs": made.plan.runs}),
    "Run": lambda made: (Run, {"folder": made.run.folder}),
    "Run.model": lambda made: (made.run.model, {"client": 0}),
    "Run.plot": lambda made: (made.run.plot, {}),
    "Run.table": lambda made: (made.run.table, {"name": "rounds"}),
    "Sweep": lambda made: (Sweep, {"folder": made.sweep.folder}),
    "SweepPlan": lambda made: (SweepPlan, {"name": "asked", "runs": made.swept.runs, "varied": ()}),
    "TrackedRun": lambda made: (
        fedroam.tracking.TrackedRun,
        {"experiment": made.experiment, "folder": made.home},
    ),
    "Use": None,  # fedroam makes it, and hands it to batteries
    "Use.and_then": None,
    "export_model": lambda made: (
        fedroam.export_model,
        {"model": made.model, "to": "safetensors", "folder": "new"},
    ),
    "field": lambda made: (fedroam.field, {"default": 1, "about": "a number"}),
    "final_model": lambda made: (fedroam.final_model, {"run": made.run, "client": 0}),
    "open_run": lambda made: (fedroam.open_run, {"folder": made.run.folder}),
    "open_runs": lambda made: (fedroam.open_runs, {"folder": made.home / "plan"}),
    "open_sweep": lambda made: (fedroam.open_sweep, {"folder": made.sweep.folder}),
    "plan": lambda made: (fedroam.plan, {"source": made.experiment}),
    "plot": lambda made: (fedroam.plot, {"runs": [made.run]}),
    "predict": lambda made: (fedroam.predict, {"folder": made.exported, "file": made.samples}),
    "register": lambda made: (fedroam.register, {"family": "mobility", "kind": "asked"}),
    "run": lambda made: (fedroam.run, {"experiment": made.experiment, "out": made.run.folder}),
    "run_plan": lambda made: (fedroam.run_plan, {"plan": made.plan, "out": made.home / "plan"}),
    "run_sweep": lambda made: (
        fedroam.run_sweep,
        {"plan": made.swept, "out": made.sweep.folder, "only": []},
    ),
    "save_figure": lambda made: (fedroam.save_figure, {"figure": made.figure, "path": "new.svg"}),
    "sweep_plan": lambda made: (fedroam.sweep_plan, {"source": made.experiment}),
    "use": lambda made: (fedroam.use, {"file": made.part}),
}
# Of the odd values those that may be of use, by name and argument; "*": of any argument that is not named.
FITS: dict[str, Mapping[str, Collection[str]]] = {
    "Experiment": {"*": (*NUMBER, *SWITCH, *NONE, *EMPTY, "x")},
    "Experiment.digests": {"seeds": (*EMPTY, "list of 3", "table of 3")},
    "Part.check_clients": {"*": ODD},
    "Plan": {"name": TEXT, "source": TEXT},
    "Run": {"folder": ("other folder", "nowhere", "below a file")},
    "Run.model": {"which": (*NONE, *TEXT), "client": (*NONE, *NUMBER)},
    "Sweep": {"folder": ("other folder", "nowhere", "below a file")},
    "SweepPlan": {"name": TEXT, "source": TEXT},
    "TrackedRun": {"folder": ("other folder", "nowhere", "below a file"), "variant": TEXT},
    "export_model": {"folder": NEW},
    "field": {
        "default": ODD,
        "about": TEXT,
        "unit": TEXT,
        "identity": SWITCH,
        "later": SWITCH,
        **dict.fromkeys(("gt", "ge", "lt", "le"), (*NONE, *NUMBER)),
    },
    "final_model": {"which": NONE, "client": (*NONE, *NUMBER)},
    "plan": {
        "source": EMPTY,
        "assignments": EMPTY,
        "seeds": (*NONE, *NUMBER),
        "use": EMPTY,
        "common_data": NONE,
    },
    "plot": {"by": ("no list",), "ax": NONE, "width": NONE, "height": NONE},
    "predict": {"label": NONE, "separator": NONE},
    "register": {"kind": "x", "source": TEXT},
    "run": {
        "out": (*NONE, *NEW),
        "variant": TEXT,
        "order": NUMBER,
        "observer": NONE,
        "on_interrupt": NONE,
        "facts": (*NONE, "no table"),
        "checkpoint_pause": NUMBER,
        "trackers": ("no list",),
        "where": TEXT,
        "cores": NONE,
    },
    "run_plan": {
        "out": (*NONE, *NEW),
        "observer": NONE,
        "on_interrupt": NONE,
        "facts": (*NONE, "no table"),
    },
    "run_sweep": {
        "out": (*NONE, *NEW),
        "workers": NUMBER,
        "memory_gib": (*NONE, *NUMBER),
        "ray": (*NONE, "x", "NUL"),
        "observer": NONE,
        "on_interrupt": NONE,
        "fresh": SWITCH,
        "retry_failed": SWITCH,
        "only": (*NONE, *EMPTY),
        "track": ("no list",),
    },
    "sweep_plan": {
        "source": EMPTY,
        "over": EMPTY,
        "assignments": EMPTY,
        "seeds": (*NONE, *NUMBER),
        "use": EMPTY,
        "to_run": SWITCH,
    },
    "use": {"owner": TEXT},
}


def public() -> Iterator[tuple[str, Any]]:
    """What can be called, by name: functions, classes, and the methods that these have of their own."""
    documented = re.findall(r"^::: fedroam\.(.+)\.(\w+)$", PAGES["docs/python.md"], re.M)
    found = {name: getattr(importlib.import_module(f"fedroam.{home}"), name) for home, name in documented}
    found |= {name: getattr(fedroam, name) for name in fedroam.__all__}
    for name, each in sorted(found.items()):
        if not callable(each) or getattr(each, "_is_protocol", False):
            continue
        yield name, each
        for method, inner in vars(each).items() if isinstance(each, type) else ():
            if not method.startswith("_") and inspect.isfunction(inner) and len(arguments(inner)) > 1:
                yield f"{name}.{method}", inner


def arguments(call: Any) -> list[str]:
    """The names of arguments: of a function as it says them, of an experiment its settings."""
    if isinstance(call, type) and issubclass(call, BaseModel):
        return [*call.model_fields]
    many = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [name for name, each in inspect.signature(call).parameters.items() if each.kind not in many]


PUBLIC = dict(public())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that one is in, with a folder in it that holds something else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("something else")
    return tmp_path


def test_every_public_name_is_tried() -> None:
    lacking = [name for name in PUBLIC if name not in CALLS]
    assert not lacking, f"{', '.join(lacking)}: public, and never given anything wrong: add a call to CALLS"
    gone = [name for name in {*CALLS, *FITS} if name not in PUBLIC]
    assert not gone, f"{', '.join(gone)}: in CALLS or FITS, and not public"
    for name, fits in FITS.items():
        known = {*arguments(PUBLIC[name]), "*"}
        assert known >= {*fits}, f"{name}: FITS names what is no argument: {', '.join({*fits} - known)}"


def raised(call: Callable[[], Any]) -> Exception | None:
    """What a call raises, None where it gives something."""
    try:
        call()
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("name", [name for name in CALLS if CALLS[name] is not None])
def test_an_argument_is_of_use_or_refused(name: str, made: Made, here: Path) -> None:
    make = CALLS[name]
    assert make is not None
    call, good = make(made)
    fits = FITS.get(name, {})
    for argument in arguments(call):
        for label, odd in ODD.items():
            tried, before = f"{name}({argument}={label})", contents(here)
            error = raised(partial(call, **{**good, argument: odd}))
            if label in fits.get(argument, fits.get("*", ())):
                assert error is None or isinstance(error, FedroamError), f"{tried}: {error!r}"
                continue
            assert error is not None, f"{tried} is taken for something"
            assert isinstance(error, InputError), f"{tried}: {error!r}"
            assert contents(here) == before, f"{tried} left something behind"
            assert any(word in str(error) for word in (argument, "allowed", visible(str(odd)))), (
                f"{tried}: {error}"
            )


@pytest.mark.parametrize("kind", [Run, Sweep])
@pytest.mark.parametrize("folder", ["other", "nowhere", "other/file/below"])
def test_a_folder_of_something_else_has_nothing_to_tell(kind: type[Any], folder: str, here: Path) -> None:
    for name, each in vars(kind).items():
        if isinstance(each, property | cached_property):
            error = raised(lambda name=name: getattr(kind(Path(folder)), name))
            assert error is None or isinstance(error, InputError), f"{kind.__name__}.{name}: {error!r}"
            assert error is None or folder in str(error), f"{kind.__name__}.{name}: {error}"
