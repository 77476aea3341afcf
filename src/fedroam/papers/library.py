"""The studies that come with fedroam, and studies in a user's own file."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

from fedroam.components import use
from fedroam.errors import InputError, unknown
from fedroam.study.study import Study

# Modules of this room that hold a STUDY, by the study's name.
NAMES = {
    "quickstart": "fedroam.papers.quickstart",
    "heredia": "fedroam.papers.heredia.study",
    "reza": "fedroam.papers.reza.study",
    "jahani": "fedroam.papers.jahani.study",
    "mohawk": "fedroam.papers.mohawk.study",
    "mocfl": "fedroam.papers.mocfl.study",
    "contact-limits": "fedroam.papers.contact_limits.study",
    "prototype": "fedroam.papers.prototype.study",
}


def studies() -> dict[str, Study]:
    """Every study that comes with fedroam, by name."""
    return {name: find_study(name)[0] for name in NAMES}


def find_study(source: str) -> tuple[Study, tuple[str, ...]]:
    """A study by its name or by a Python file that defines STUDY, and the files that workers must load for it.

    Raises InputError where there is none.
    """
    if source in NAMES:
        study: Study = importlib.import_module(NAMES[source]).STUDY
        return study, ()
    path = Path(source)
    if path.suffix != ".py" and path.name == source:
        raise unknown("study", source, NAMES)
    if path.suffix != ".py":
        raise InputError(f"{source}: allowed are {', '.join(NAMES)}, or a Python file that defines STUDY")
    use(path)
    found = vars(sys.modules[f"fedroam_use_{path.stem}"]).get("STUDY")
    if not isinstance(found, Study):
        holds = "it does not" if found is None else f"it holds {type(found).__name__}"
        raise InputError(f"{source}: must define STUDY, a fedroam.study.Study; {holds}")
    if found.name in NAMES:
        raise InputError(f"{source}: the name {found.name!r} is taken by a study of fedroam; choose another")
    return replace(found, asked=source), (str(path.resolve()),)
