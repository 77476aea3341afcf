"""The house rules that can be read off the source: flow of imports, no unsafe calls, no state, flat classes."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import fedroam
from fedroam.components import ROOMS, Part

SOURCE = Path(fedroam.__file__).parent
# A room or module knows those before it, never those after.
ORDER = (
    "errors", "terminal", "writing", "checks", "facts", "randomness", "components", "experiment",
    "planning", "data", "native", "models", "mobility", "traces", "access_points", "contacts", "links", "mixing",
    "learning", "devices", "attacks", "federation", "cost", "clock", "execution", "recording", "parts", "scene",
    "state", "measurement", "simulation", "tracking", "runner", "handover", "bench", "analysis", "study", "papers",
    "sweep", "deploy", "live", "cli", "__main__",
)  # fmt: skip
MODULES = sorted(SOURCE.rglob("*.py"))
TEXTS = {path: path.read_text(encoding="utf-8") for path in MODULES}
NAMES = {
    ".".join(("fedroam", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in MODULES
}
MOST_FILES = 16


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


def test_imports_run_along_the_flow() -> None:
    homeless = {room(path) for path in MODULES} - {"", *ORDER}
    assert not homeless, f"{homeless} have no place in the flow: add them to ORDER"
    assert [line for path, text in TEXTS.items() for line in wrong_way(text, path)] == []


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


# What one module may do all the same, and why.
ALLOWED = {
    "handover/export.py": "torch.save",  # a state dict for others to read; nothing of fedroam ever reads one
    "randomness.py": "random",  # which it looks at, to tell whether others drew from it
}


def unsafe(source: str, name: str, allowed: str = "") -> list[str]:
    """What a module does that none may do."""
    found = []
    drawing_is_its_job = name == "randomness.py"
    for node in ast.walk(ast.parse(source)):
        at = f"{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            found += [
                f"{at} imports {n.name}"
                for n in node.names
                if n.name.split(".")[0] in UNSAFE_MODULES - {allowed}
            ]
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
            if call in {
                "torch.load",
                "torch.save",
                "torch.hub.load",
                "torch.jit.load",
                "yaml.load",
                "os.system",
            } - {allowed}:
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


def test_nothing_unsafe_and_no_global_randomness() -> None:
    found = []
    for path, text in TEXTS.items():
        found += unsafe(text, path.name, ALLOWED.get(path.relative_to(SOURCE).as_posix(), ""))
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from joblib import load", "eval('1')", "exec('x = 1')", "torch.load('f')",
        "from torch import load", "torch.save({}, 'f')", "torch.jit.load('f')",
        "np.load('f', allow_pickle=True)", "np.random.rand(3)", "np.random.seed(0)",
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


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES}), ids=lambda f: f.name)
def test_a_folder_is_seen_at_a_glance(folder: Path) -> None:
    files = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MOST_FILES, f"{len(files)} files; at {MOST_FILES} a folder has two subjects"


def modules_imported(path: Path) -> set[str]:
    """The modules of fedroam that a module needs in order to be imported."""

    def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
        for node in body:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                yield from statements(node.orelse)
            elif isinstance(node, ast.If | ast.Try | ast.With):
                yield from statements(node.body)
            else:
                yield node

    found = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {
                whole if (whole := f"{node.module}.{name.name}") in NAMES else str(node.module)
                for name in node.names
            }
    return found & NAMES.keys()


def test_no_module_waits_for_itself() -> None:
    """A package's own modules may be imported while the package is; everything else has one order."""
    needs = {
        name: {
            other for other in modules_imported(path) if not name.startswith(f"{other}.") and other != name
        }
        for name, path in NAMES.items()
    }
    assert len(list(TopologicalSorter(needs).static_order())) == len(NAMES)


# --- importing changes nothing ------------------------------------------------------------------------------------

CHANGES = {"append", "extend", "insert", "remove", "pop", "clear", "update", "setdefault", "add", "discard"}
# What a module may remember between calls, and why.
REMEMBERED = {
    "components._registry": "the registry of parts, filled by @register",
    "data/cache._offered": "data sets stay in memory, for every run of a process",
    "data/cache._recent": "data sets stay in memory, for every run of a process",
    "data/cache._alive": "data sets stay in memory, for every run of a process",
    "data/sources/own._held": "the user's own arrays, which no file holds",
    "models/dropout._lent": "which generator this thread draws from",
    "execution/loading._loaded": "which of the user's files this worker process has loaded",
}


def remembers(source: str) -> set[str]:
    """Names of a module that its functions change, and functions that are given back what they once returned."""
    tree, found = ast.parse(source), set()
    own = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        local = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        local |= {
            n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        for node in ast.walk(function):
            root: ast.AST | None = None
            if isinstance(node, ast.Global):
                found |= set(node.names)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                root = node.func.value if node.func.attr in CHANGES else None
            elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
                root = node.value
            while isinstance(root, ast.Subscript | ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in own - local:
                found.add(root.id)
    return found


def test_modules_remember_nothing() -> None:
    found = {
        f"{path.relative_to(SOURCE).with_suffix('').as_posix()}.{name}"
        for path, text in TEXTS.items()
        for name in remembers(text)
    }
    assert found <= REMEMBERED.keys(), "state that outlives a run: hand it on as a value instead"


def test_what_is_remembered_is_there() -> None:
    for name in REMEMBERED:
        place, _, variable = name.rpartition(".")
        assert variable in remembers((SOURCE / f"{place}.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "line",
    [
        "ALL = {}\ndef f():\n    ALL['a'] = 1",
        "ALL = []\ndef f():\n    ALL.append(1)",
        "ALL: dict[str, int] = {}\ndef f():\n    ALL.setdefault('a', []).append(2)",
        "N = 0\ndef f():\n    global N\n    N = 1",
    ],
)
def test_a_module_that_remembers_is_noticed(line: str) -> None:
    assert remembers(line)
    assert not remembers("ALL = {}\ndef f(ALL):\n    ALL['a'] = 1\ndef g():\n    return ALL['a']")


def test_docstrings_tell_and_do_not_point() -> None:
    """What only points elsewhere is @override's to say."""
    for path, text in TEXTS.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                told = ast.get_docstring(node) or ""
                assert not told.startswith("See `"), f"{path.name}:{node.lineno} {node.name}: {told}"


def depth(cls: type) -> int:
    """How many classes of fedroam lie on the longest way from `cls` to `Part` or a foreign class."""
    if cls is Part or not cls.__module__.startswith("fedroam"):
        return 0
    return 1 + max((depth(base) for base in cls.__bases__), default=0)


def classes() -> Iterator[type]:
    for info in pkgutil.walk_packages([str(SOURCE)], "fedroam."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as missing:
            if missing.name != "triton":  # which torch brings along for CUDA alone
                raise
            continue
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
