"""The user's own parts in a process that may not see the files that they stand in."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fedroam.components import USED, Part, use
from fedroam.errors import FedroamError

_loaded: set[tuple[str, str]] = set()  # own parts that this process has loaded


def load_parts(sources: Iterable[tuple[str, str]], modules: Iterable[str]) -> None:
    """The user's own parts, from their text: another machine may not see the files."""
    for name, text in sources:
        if (name, text) not in _loaded:
            with tempfile.TemporaryDirectory() as home:
                file = Path(home) / name
                file.write_text(text, encoding="utf-8")
                use(file)
            _loaded.add((name, text))
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise FedroamError(
                f"module {module} with own parts is not installed on this node: {error}"
            ) from None


def sources_of(parts: Iterable[Part]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """What `load_parts` needs for these parts: names and texts of files, and names of modules."""
    modules = {type(part).__module__ for part in parts}
    own = sorted(name for name in modules if name.startswith(USED))
    files = [Path(str(sys.modules[name].__file__)) for name in own]
    others = {name for name in modules if not name.startswith((USED, "fedroam.", "__main__", "__mp_main__"))}
    return tuple((file.name, file.read_text(encoding="utf-8")) for file in files), tuple(sorted(others))
