"""Data sets in memory once, however many processes learn from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from fedroam.components import Part
from fedroam.data import Dataset, forget, load_dataset, name_of, offer, preprocessing_of
from fedroam.errors import InputError
from fedroam.recording import read_json, write_json

PARTS = ("x_train", "y_train", "x_test", "y_test")
COLUMN = "column "  # before the name of a column among the arrays


class DatasetFacts(TypedDict):
    """All of a data set but its arrays, as JSON values; part is `data.name_of` its part."""

    part: str
    name: str
    class_names: list[str]
    notes: list[str]
    fingerprint: str
    preprocessing: dict[str, Any] | None
    untested: str


class StoredDataset(DatasetFacts):
    """The same of one whose arrays lie in files, by name."""

    files: dict[str, str]


def describe(part: Part, dataset: Dataset) -> DatasetFacts:
    """What `rebuild` needs to know of a data set besides its arrays."""
    return {
        "part": name_of(part),
        "name": dataset.name,
        "class_names": list(dataset.class_names),
        "notes": list(dataset.notes),
        "fingerprint": dataset.fingerprint,
        "preprocessing": None if dataset.preprocessing is None else dataset.preprocessing.model_dump(),
        "untested": dataset.untested,
    }


def arrays_of(dataset: Dataset) -> dict[str, np.ndarray]:
    """The arrays of a data set by name."""
    columns = {f"{COLUMN}{name}": values for name, values in dataset.columns.items()}
    samples = (dataset.x_train, dataset.y_train, dataset.x_test, dataset.y_test)
    return {**dict(zip(PARTS, samples, strict=True)), **columns}


def rebuild(facts: DatasetFacts, arrays: Mapping[str, np.ndarray]) -> Dataset:
    """The data set of `describe` and `arrays_of`; it shares the arrays' memory."""
    dataset = Dataset(
        name=facts["name"],
        class_names=tuple(facts["class_names"]),
        columns={k.removeprefix(COLUMN): v for k, v in arrays.items() if k.startswith(COLUMN)},
        notes=tuple(facts["notes"]),
        preprocessing=preprocessing_of(facts["preprocessing"]),
        untested=facts.get("untested", ""),  # not in folders of an older version
        **{name: arrays[name] for name in PARTS},
    )
    # what the cached property would find by reading all
    dataset.__dict__["fingerprint"] = facts["fingerprint"]
    return dataset


def load_all(parts: Iterable[Part], take: Callable[[Part, Dataset], None]) -> list[str]:
    """Load each distinct data part once and hand it to `take(part, dataset)`, holding one at a time.

    Gives a note for each that cannot be loaded or shared: its runs will say why, or load it themselves. Raises
    InputError where not a single one can be loaded.
    """
    distinct = {name_of(part): part for part in parts}
    notes: list[str] = []
    failures: list[InputError] = []
    for name, part in distinct.items():
        try:
            take(part, load_dataset(part))  # no name for it here: it is let go before the next one is read
        except InputError as error:
            failures.append(error)
            notes.append(str(error))
        except (ValueError, TypeError) as error:
            # e.g. columns of Python objects, which no plain file can hold
            notes.append(f"data {name}: not shared between processes, each loads its own: {error}")
        forget()
    if failures and len(failures) == len(distinct):
        raise failures[0]
    return notes


def write_shared(folder: Path, parts: Iterable[Part]) -> tuple[int, list[str]]:
    """Write the parts' data sets as .npy files into `folder`, for `offer_shared`; bytes in all, and notes."""
    total = 0
    listing: list[StoredDataset] = []

    def take(part: Part, dataset: Dataset) -> None:
        nonlocal total
        home = f"data-{len(listing)}"
        (folder / home).mkdir(parents=True, exist_ok=True)
        files = {}
        for k, (name, array) in enumerate(arrays_of(dataset).items()):
            files[name] = f"{home}/{k}.npy"
            np.save(folder / files[name], array, allow_pickle=False)
            total += array.nbytes
        listing.append({**describe(part, dataset), "files": files})

    folder.mkdir(parents=True, exist_ok=True)
    notes = load_all(parts, take)
    write_json(folder / "data.json", {"bytes": total, "sets": listing})
    return total, notes


def offer_shared(folder: Path) -> int:
    """Offer this process the data sets that `write_shared` wrote; bytes in all.

    The files are mapped, not read: every process sees the same pages of memory. Copy-on-write, so that a process
    that did write into them would harm nobody but itself.
    """
    listing = read_json(folder / "data.json")
    stored: list[StoredDataset] = listing["sets"]
    for facts in stored:
        offer(facts["part"], partial(_open, folder, facts))
    return int(listing["bytes"])


def _open(folder: Path, facts: StoredDataset) -> Dataset:
    return rebuild(facts, {name: _map(folder / file) for name, file in facts["files"].items()})


def _map(path: Path) -> np.ndarray:
    array: np.ndarray = np.load(path, mmap_mode="c", allow_pickle=False) if _filled(path) else np.load(path)
    return array.view(np.ndarray)


def _filled(path: Path) -> bool:
    """Whether a .npy file holds any element: nothing cannot be mapped."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, _ = read(file)
    return bool(np.prod(shape))
