"""The house rules that can be read off the source: flow of imports, no unsafe calls, small modules, flat classes."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedroam
from fedroam.components import ROOMS, Part

SOURCE = Path(fedroam.__file__).parent
# A room or module knows those before it, never those after.
ORDER = (
    "errors", "interrupts", "randomness", "components", "experiment", "planning", "data", "models", "mobility",
    "traces", "access_points", "contacts", "mixing", "learning", "federation", "cost", "recording", "parts", "scene",
    "state", "measurement", "simulation", "runner", "bench", "analysis", "study", "papers", "sweep", "cli", "__main__",
)  # fmt: skip
MODULES = sorted(SOURCE.rglob("*.py"))
IDS = [str(path.relative_to(SOURCE)) for path in MODULES]
MAX_LINES = 350


def room(path: Path) -> str:
    """The first part of a module's name below fedroam; '' for fedroam itself."""
    first = path.relative_to(SOURCE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def imported(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    """The rooms of fedroam that a module imports, anywhere in it, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "fedroam":
                    yield node.lineno, ".".join(name.name.split(".")[1:2])
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            parts = (node.module or "").split(".")
            if parts[0] == "fedroam" and len(parts) > 1:
                yield node.lineno, parts[1]
            elif parts == ["fedroam"]:
                for name in node.names:
                    yield (
                        node.lineno,
                        name.name
                        if (SOURCE / name.name).exists() or (SOURCE / f"{name.name}.py").exists()
                        else "",
                    )


def wrong_way(source: str, path: Path) -> list[str]:
    """Imports of a module against the flow."""
    own = room(path)
    if own == "":
        return []  # the public names, loaded when asked for
    found = []
    for line, other in imported(ast.parse(source), path):
        if other == own:
            continue
        if other == "":
            if ORDER.index(own) < ORDER.index("bench"):
                found.append(f"{path.name}:{line} imports fedroam itself")
        elif other not in ORDER:
            found.append(f"{path.name}:{line} imports {other}, which has no place in the flow: see ORDER")
        elif ORDER.index(other) > ORDER.index(own):
            found.append(f"{path.name}:{line} ({own}) imports {other}, a later room")
    return found


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_imports_run_along_the_flow(path: Path) -> None:
    assert room(path) in ("", *ORDER), f"{room(path)} has no place in the flow: add it to ORDER"
    assert wrong_way(path.read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize(
    "line",
    [
        "from fedroam.federation import Meeting",
        "import fedroam.simulation",
        "def f():\n    from fedroam.learning.matrix import Models",
        "from fedroam import recording",
        "import fedroam",
    ],
)
def test_an_import_against_the_flow_is_noticed(line: str) -> None:
    assert wrong_way(line, SOURCE / "mobility" / "x.py")
    assert not wrong_way("from fedroam.randomness import stream", SOURCE / "mobility" / "x.py")


# --- what no module may do ----------------------------------------------------------------------------------------

UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "random"}
UNSAFE_BUILTINS = {"eval", "exec", "compile", "__import__", "breakpoint"}
# Functions of torch that draw from the global generator unless told otherwise.
TORCH_DRAWS = {
    "rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "normal", "poisson", "rand_like",
    "randn_like", "randint_like",
}  # fmt: skip
TORCH_GLOBAL = {"manual_seed", "seed", "default_generator"}
NUMPY_RANDOM = {
    "Generator",
    "Philox",
    "BitGenerator",
}  # types; everything else of numpy.random draws or seeds


def dotted(node: ast.AST) -> str:
    """`np.random.rand` of an attribute chain, '' of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def unsafe(source: str, name: str) -> list[str]:
    """What a module does that none may do."""
    found = []
    drawing_is_its_job = name == "randomness.py"
    for node in ast.walk(ast.parse(source)):
        at = f"{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            found += [f"{at} imports {n.name}" for n in node.names if n.name.split(".")[0] in UNSAFE_MODULES]
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.split(".")[0] in UNSAFE_MODULES or module in ("numpy.random", "torch.random"):
                found.append(f"{at} imports from {module}")
            if module == "torch":
                bad = {n.name for n in node.names} & (TORCH_DRAWS | TORCH_GLOBAL | {"load", "save"})
                found += [f"{at} imports torch.{n}" for n in sorted(bad)]
        if isinstance(node, ast.Call):
            call = dotted(node.func)
            keywords = {k.arg: k.value for k in node.keywords}
            if call in UNSAFE_BUILTINS:
                found.append(f"{at} calls {call}")
            if call in ("torch.load", "torch.save", "torch.hub.load", "yaml.load", "os.system"):
                found.append(f"{at} calls {call}")
            if call.split(".")[-1] in ("read_pickle", "to_pickle"):
                found.append(f"{at} calls {call}")
            if "allow_pickle" in keywords:
                value = keywords["allow_pickle"]
                if not (isinstance(value, ast.Constant) and value.value is False):
                    found.append(f"{at} allows pickles")
            if "shell" in keywords:
                found.append(f"{at} calls a shell")
            first, _, last = call.partition(".")
            if first == "torch" and last in TORCH_DRAWS and "generator" not in keywords:
                found.append(f"{at} draws from torch's global generator")
        if isinstance(node, ast.Attribute) and not drawing_is_its_job:
            chain = dotted(node)
            for root in ("np.random.", "numpy.random."):
                if chain.startswith(root) and chain.removeprefix(root).split(".")[0] not in NUMPY_RANDOM:
                    found.append(f"{at} uses {chain}: draw through fedroam.randomness")
            if chain.startswith("torch.") and chain.split(".")[-1] in TORCH_GLOBAL:
                found.append(f"{at} uses {chain}: draw through fedroam.randomness")
    return found


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_nothing_unsafe_and_no_global_randomness(path: Path) -> None:
    assert unsafe(path.read_text(encoding="utf-8"), path.name) == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from joblib import load", "eval('1')", "exec('x = 1')", "torch.load('f')",
        "from torch import load", "np.load('f', allow_pickle=True)", "np.random.rand(3)", "np.random.seed(0)",
        "np.random.default_rng(1)", "from numpy.random import default_rng", "import random", "torch.randn(3)",
        "torch.manual_seed(1)", "torch.random.manual_seed(1)", "torch.default_generator.seed()",
        "pd.read_pickle('f')", "subprocess.run('ls', shell=True)",
    ],
)  # fmt: skip
def test_unsafe_lines_are_noticed(line: str) -> None:
    assert unsafe(line, "x.py")


@pytest.mark.parametrize(
    "line",
    [
        "module.eval()",
        "re.compile('a')",
        "x: np.random.Generator",
        "torch.randn(3, generator=g)",
        "np.load('f')",
    ],
)
def test_safe_lines_pass(line: str) -> None:
    assert unsafe(line, "x.py") == []


# --- size and shape -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_modules_are_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{lines} lines; at {MAX_LINES} a module has two subjects"


def depth(cls: type) -> int:
    """How many classes of fedroam lie on the longest way from `cls` to `Part` or a foreign class."""
    if cls is Part or not cls.__module__.startswith("fedroam"):
        return 0
    return 1 + max((depth(base) for base in cls.__bases__), default=0)


def classes() -> Iterator[type]:
    for info in pkgutil.walk_packages([str(SOURCE)], "fedroam."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == info.name:
                yield cls


def test_classes_are_flat() -> None:
    found = list(classes())
    assert len(found) > 40
    deep = [
        f"{cls.__module__}.{cls.__qualname__}"
        for cls in found
        if depth(cls) > 2
        and not issubclass(cls, BaseException)  # errors are a tree: FedroamError, InputError, ...
    ]
    assert deep == []


def test_every_room_has_its_place_in_the_loading_order() -> None:
    places = [ORDER.index(name.removeprefix("fedroam.")) for name in ROOMS]
    assert places == sorted(places)


def test_a_deep_class_is_noticed() -> None:
    one = type("One", (Part,), {"__module__": "fedroam.x", "__doc__": "One."})
    two = type("Two", (one,), {"__module__": "fedroam.x", "__doc__": "Two."})
    three = type("Three", (two,), {"__module__": "fedroam.x", "__doc__": "Three."})
    assert [depth(cls) for cls in (one, two, three)] == [1, 2, 3]
