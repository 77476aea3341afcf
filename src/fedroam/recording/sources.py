"""The source of the user's own parts: which files it lies in, and what is in them.

Not only the file of a part counts, but every file of the user's that it imports, and those that these import. What is
installed (Python's own library, site-packages) and fedroam itself does not: `environment.json` tells their versions.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from fedroam import components
from fedroam.components import USED, Part
from fedroam.errors import InputError

MAIN = "__main__"
SEEN = "fedroam_source"  # on a module's spec: the SHA-256 of its file when it was first asked for


def source_facts(parts: Iterable[Part]) -> dict[str, dict[str, Any]]:
    """What a run records of the source of its parts that are none of fedroam's, by module: file, bytes, SHA-256.

    Of the script that is run itself (`__main__`) only the definitions count that the parts' classes need: whatever else
    stands there, such as what is done with results, changes none. A file that was loaded by `use` may hold more, too,
    such as the claims of a study: beside its sum stands that of what the parts need (`needed`). A class typed into an
    interpreter has no file, and no entry. Raises InputError where a file was changed after this process had imported
    it.
    """
    parts = list(parts)
    found: dict[str, dict[str, Any]] = {}
    script = [part for part in parts if _module_of(part) == MAIN]
    if script:
        file = getattr(sys.modules.get(MAIN), "__file__", None)
        if file is not None and Path(file).is_file():
            text = _definitions(
                Path(file).read_text(encoding="utf-8"), {type(part).__name__ for part in script}
            )
            found[MAIN] = _facts(Path(file), text.encode("utf-8"))
    waiting = [_module_of(part) for part in parts] + [name for part in parts for name in part.imports()]
    if MAIN in found:
        waiting += _imported(ast.parse(Path(found[MAIN]["file"]).read_text(encoding="utf-8")), "")
    looked: set[str] = {MAIN}
    while waiting:
        name = waiting.pop()
        if name in looked or name.partition(".")[0] in ("fedroam", *sys.stdlib_module_names):
            continue
        looked.add(name)
        spec = _spec(name)
        if spec is None or spec.origin is None or not _own(Path(spec.origin)):
            continue
        path = Path(spec.origin)
        content = path.read_bytes()
        facts = _facts(path, content)
        if name in sys.modules:
            _unchanged(spec, facts["sha256"], path)
        imported = name.removeprefix(USED) in found  # by its own name, so that all of it counts
        found[name.removeprefix(USED)] = facts
        if name.startswith(USED) and not imported:
            classes = {type(part).__qualname__ for part in parts if _module_of(part) == name}
            needed = _needed(content, classes)
            if needed is not None:
                facts["needed"] = hashlib.sha256(needed.encode("utf-8")).hexdigest()
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        try:
            waiting += _imported(ast.parse(content), package)
        except (SyntaxError, ValueError):  # whoever imports it will say so
            continue
    return dict(sorted(found.items()))


def _facts(path: Path, content: bytes) -> dict[str, Any]:
    return {"file": str(path), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _module_of(part: Part) -> str:
    """The module of a part's class; a child process calls its parent's script by another name."""
    return type(part).__module__.replace("__mp_main__", MAIN)


def _spec(name: str) -> ModuleSpec | None:
    """Where a module comes from, without importing anything."""
    module = sys.modules.get(name)
    if module is not None:
        spec: ModuleSpec | None = getattr(module, "__spec__", None)
        return spec
    places, found = None, None
    steps = name.split(".")
    for k in range(len(steps)):
        found = PathFinder.find_spec(".".join(steps[: k + 1]), places)
        if found is None:
            return None
        places = found.submodule_search_locations
        if places is None and k + 1 < len(steps):
            return None
    return found


def _own(path: Path) -> bool:
    """Whether a file is source of the user's: Python, not installed, and not of fedroam."""
    path = path.resolve()
    installed = {
        Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    ours = Path(components.__file__).resolve().parent
    return (
        path.suffix == ".py"
        and path.is_file()
        and not {"site-packages", "dist-packages"} & set(path.parts)
        and not any(path.is_relative_to(folder) for folder in (*installed, ours))
    )


def _unchanged(spec: ModuleSpec, now: str, path: Path) -> None:
    """Raise InputError where a module's file is not what it was when this process first asked."""
    was = getattr(spec, SEEN, now)
    if was != now:
        raise InputError(
            f"{path}: has changed since this process imported it (its SHA-256 was {was[:12]}, now {now[:12]}): what "
            "would run is the old one; begin a new process, or reload the module"
        )
    setattr(spec, SEEN, now)


def _imported(tree: ast.AST, package: str) -> list[str]:
    """Every module that a source may import, by full names; those within `package` also from relative ones."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found += _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                home = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*home, *([base] if base else [])])
            found += _with_parents(base)
            found += [f"{base}.{alias.name}" for alias in node.names if base]
    return found


def _with_parents(name: str) -> Iterator[str]:
    """`a`, `a.b`, `a.b.c` of `a.b.c`: importing the last runs them all."""
    steps = name.split(".")
    for k in range(len(steps)):
        yield ".".join(steps[: k + 1])


def same_source(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the facts of two files say the same of what parts need of them (see `source_facts`)."""
    return before["sha256"] == now["sha256"] or sum_of_source(before) == sum_of_source(now)


def sum_of_source(facts: Mapping[str, Any]) -> str:
    """The SHA-256 of what parts need of a file: of all of it, unless the facts tell better."""
    return str(facts.get("needed") or facts["sha256"])


def _needed(source: bytes, classes: set[str]) -> str | None:
    """What the classes of a file need of it, as text: definitions, and all that is done there beside defining, for it
    may change anything. None where a class is not defined at the top, or the file cannot be read."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # whoever imports it will say so
        return None
    if not classes or not classes <= {node.name for node in tree.body if isinstance(node, ast.ClassDef)}:
        return None
    return _kept(tree, classes, done=True)


def _definitions(source: str, names: set[str]) -> str:
    """The top-level definitions and assignments of a script that these names need, and its imports, as text."""
    return _kept(ast.parse(source), names)


def _kept(tree: ast.Module, names: set[str], done: bool = False) -> str:
    """The statements at the top that define what these names need; done: and those that define nothing, and what is
    named as text. (Of a script neither counts: sums of it are kept.)"""
    defined: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                defined.setdefault((alias.asname or alias.name).partition(".")[0], []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for part in ast.walk(node):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    defined.setdefault(part.id, []).append(node)
    defining = [node for nodes in defined.values() for node in nodes]
    others = [node for node in tree.body if node not in defining and not _is_text(node)] if done else []
    waiting = [*names, *(name for node in others for name in _names_in(node, done))]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += [found for node in defined.get(name, ()) for found in _names_in(node, done)]
    kept = [node for name in needed for node in defined.get(name, ())] + others
    return "\n".join(ast.unparse(node) for node in tree.body if node in kept)


def _names_in(node: ast.stmt, texts: bool) -> Iterator[str]:
    """Every name in a statement; texts: and every text, for it may be a name, as that of a type is."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif texts and isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a text alone, as what a file says of itself."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
