"""Federated learning for things that move: the public names."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedroam.analysis.figures.plotting import plot
    from fedroam.analysis.figures.publishing import save_figure
    from fedroam.components import Part, field, register, use
    from fedroam.errors import FedroamError, InputError
    from fedroam.experiment import Experiment
    from fedroam.handover import export_model, final_model, predict
    from fedroam.planning import Plan, SweepPlan, plan, sweep_plan
    from fedroam.recording import Run, open_run, open_runs
    from fedroam.runner import run, run_plan
    from fedroam.sweep import Sweep, open_sweep
    from fedroam.sweep.running import run_sweep
    from fedroam.terminal.interrupts import Interrupted

# Loaded when first asked for, so that `fedroam --help` does not wait for torch.
_NAMES = {
    "analysis.figures.plotting": ("plot",),
    "analysis.figures.publishing": ("save_figure",),
    "components": ("Part", "field", "register", "use"),
    "errors": ("FedroamError", "InputError"),
    "experiment": ("Experiment",),
    "handover": ("export_model", "final_model", "predict"),
    "terminal.interrupts": ("Interrupted",),
    "planning": ("Plan", "SweepPlan", "plan", "sweep_plan"),
    "recording": ("Run", "open_run", "open_runs"),
    "runner": ("run", "run_plan"),
    "sweep": ("Sweep", "open_sweep"),
    "sweep.running": ("run_sweep",),
}
_LIGHT = ("errors", "terminal.interrupts")  # which load no other library
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
__version__ = "0.1.0"
__all__ = [
    "Experiment",
    "FedroamError",
    "InputError",
    "Interrupted",
    "Part",
    "Plan",
    "Run",
    "Sweep",
    "SweepPlan",
    "__version__",
    "export_model",
    "field",
    "final_model",
    "open_run",
    "open_runs",
    "open_sweep",
    "plan",
    "plot",
    "predict",
    "register",
    "run",
    "run_plan",
    "run_sweep",
    "save_figure",
    "sweep_plan",
    "use",
]


def __getattr__(name: str) -> Any:
    """A public name, from the module that holds it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedroam' has no attribute {name!r}")
    home = f"fedroam.{_HOMES[name]}"
    if _HOMES[name] in _LIGHT or home in sys.modules:
        return getattr(import_module(home), name)
    from fedroam.components import collecting_nothing  # not at the top: it loads pydantic

    with (
        collecting_nothing()
    ):  # what is loaded with torch would be looked through for garbage many times over
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    """The public names, those not loaded yet among them."""
    return sorted({*globals(), *__all__})
