"""What `fedroam list` and `fedroam show` tell, remembered between commands: the code is loaded once for each version.

Everything is told by the code itself, and loading it takes seconds (torch). So what it told is kept in the user's
cache, under the digest of the source that tells it: a changed file is a new name, and nothing stale is shown. What is
changed elsewhere (in analysis, studies, deployment, ...) does not count, and the last few versions are kept: whoever
goes back to one, or has two of them side by side, waits for neither. Where the cache cannot be written, or own parts
are loaded, the code is asked each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

import fedroam
from fedroam.components import ROOMS
from fedroam.writing import write_text

KEPT = 8  # versions
# Files that are loaded to tell it, beside the rooms that register parts.
GROUND = (
    "__init__",
    "components",
    "errors",
    "experiment",
    "facts",
    "randomness",
    "writing",
)
TELLING = (
    "checks",
    "terminal",
    "planning",
    "experiments",
    "native",
    *(f"cli/{name}.py" for name in ("known_parts", "describe", "starter")),
)


class KnownClass(BaseModel):
    """A class as it is shown: its docstring's paragraphs, its source, and for each setting name, default, unit, what is
    allowed and what it means.
    """

    paragraphs: list[str]
    source: str
    settings: list[tuple[str, str, str, str, str]]


class KnownFamily(BaseModel):
    """A family of parts."""

    about: str
    default: str
    methods: list[str]
    kinds: dict[str, KnownClass]


class KnownExperiment(BaseModel):
    """A named experiment: the first sentence of its comment, its file, and the folders of its runs."""

    headline: str
    text: str
    folders: list[str]


class KnownParts(BaseModel):
    """All that there is to choose from."""

    families: dict[str, KnownFamily]
    experiment: KnownClass
    experiments: dict[str, KnownExperiment]


def known_parts(use: list[str]) -> KnownParts:
    """What there is, from the cache if it holds that. use: files of own parts to load first."""
    if use or "torch" in sys.modules:  # own parts may be known, or nothing is to be gained
        return asked(use)
    path = _cache()
    with contextlib.suppress(OSError, ValidationError):
        return KnownParts.model_validate_json(path.read_bytes())
    found = asked([])
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, found.model_dump_json())
        kept = sorted(path.parent.glob("parts-*.json"), key=lambda one: one.stat().st_mtime_ns)
        for old in kept[:-KEPT]:
            old.unlink()
    return found


def asked(use: list[str]) -> KnownParts:
    """What the code itself tells, all of it loaded."""
    from fedroam.cli.starter import headline
    from fedroam.components import FAMILIES, kinds
    from fedroam.components import use as load
    from fedroam.experiment import Experiment
    from fedroam.planning import named_experiments, plan

    for file in use:
        load(file)
    return KnownParts(
        families={
            name: KnownFamily(
                about=family.about,
                default=family.default,
                methods=list(family.methods),
                kinds={kind: _class(cls) for kind, cls in kinds(name).items()},
            )
            for name, family in FAMILIES.items()
        },
        experiment=_class(Experiment),
        experiments={
            name: KnownExperiment(
                headline=headline(path),
                text=path.read_text(encoding="utf-8").rstrip(),
                folders=[planned.folder for planned in plan(name).runs],
            )
            for name, path in named_experiments().items()
        },
    )


def _class(cls: type[BaseModel]) -> KnownClass:
    from fedroam.cli.describe import details, fields_of, summary
    from fedroam.components import Part

    return KnownClass(
        paragraphs=[summary(cls), *details(cls)],
        source=cls.source if issubclass(cls, Part) else "",
        settings=[(one.name, one.shown_default, one.unit, one.allowed, one.about) for one in fields_of(cls)],
    )


def sources(home: Path) -> Iterator[Path]:
    """The files of fedroam, which lies in `home`, that decide what is told."""
    rooms = (room.rpartition(".")[2] for room in ROOMS)
    for name in (*(f"{file}.py" for file in GROUND), *rooms, *TELLING):
        path = home / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.suffix in (".py", ".toml"))


def _cache() -> Path:
    """Where this very source's parts are kept."""
    import platformdirs

    home = Path(fedroam.__file__).parent
    seen = hashlib.sha256(f"{platform.python_version()} {fedroam.__version__}".encode())
    for path in sources(home):
        told = hashlib.sha256(path.read_bytes()).hexdigest()
        seen.update(f"{path.relative_to(home).as_posix()} {told}\n".encode())
    return Path(platformdirs.user_cache_dir("fedroam")) / f"parts-{seen.hexdigest()[:32]}.json"
