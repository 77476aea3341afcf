"""Parts that are not fedroam's own, and what another process must load to have them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedroam.components import USED, load_rooms
from fedroam.experiment import Experiment


def _foreign_modules(experiments: Iterable[Experiment]) -> Iterator[str]:
    """The modules that hold parts of experiments and are none of fedroam's."""
    load_rooms()
    for experiment in experiments:
        for part in experiment.parts.values():
            module = type(part).__module__
            if not module.startswith("fedroam."):
                yield module


def has_own_parts(experiments: Iterable[Experiment]) -> bool:
    """Whether any part of any experiment is none of fedroam's."""
    return any(True for _ in _foreign_modules(experiments))


def files_of(experiments: Iterable[Experiment]) -> list[str]:
    """The files (absolute paths) that were loaded by `components.use` and hold parts of these experiments."""
    modules = [sys.modules.get(name) for name in _foreign_modules(experiments) if name.startswith(USED)]
    files = [module.__file__ for module in modules if module is not None]
    return list(dict.fromkeys(str(Path(file).resolve()) for file in files if file))


def modules_of(experiments: Iterable[Experiment]) -> list[str]:
    """The modules that can be imported by name and hold parts of these experiments that are not fedroam's own."""
    names = set(_foreign_modules(experiments))
    return sorted(n for n in names if n not in ("__main__", "__mp_main__") and not n.startswith(USED))
