"""Files that a study's runs need beside data sets, such as traces: made once, from what the user has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fedroam.data.sources.places import find_file, search_path
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.study.study import Study
from fedroam.traces import import_trace, write_trace


def make_files(study: Study, experiments: Iterable[Experiment]) -> Iterator[str]:
    """Make those of `study.files` that the experiments name and that are not there yet; gives a line for each one made.

    There is one if it lies where a setting would find it: at its path, from here, or below FEDROAM_DATA.
    """
    if not study.files:
        return
    parts = [part for experiment in experiments for part in experiment.settings().values()]
    named = {
        value for part in parts if isinstance(part, dict) for value in part.values() if isinstance(value, str)
    }
    for path, make in study.files.items():
        if path in named and not any((base / path).is_file() for base in (Path(), *search_path(None))):
            make(Path(path))
            yield f"made: {path}"


def imported(source: str, command: str, **options: Any) -> Callable[[Path], None]:
    """What makes a trace of a file below FEDROAM_DATA.

    options: of `import_trace`; command: the same as options of `fedroam trace import`, for the error where the source
    is not there.
    """

    def make(target: Path) -> None:
        try:
            file = find_file(source, None, "source")
        except InputError:
            words = " ".join(filter(None, ["fedroam trace import", source, str(target), command]))
            raise InputError(
                f"{target}: no such trace, and no {source} in FEDROAM_DATA to make it of; set FEDROAM_DATA to the "
                f"folder that holds it, or: {words}"
            ) from None
        target.parent.mkdir(parents=True, exist_ok=True)
        write_trace(import_trace(file, **options), target)

    return make
