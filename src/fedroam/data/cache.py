"""Data sets stay in memory: the same settings and files give the same object, for every run of a process."""

from __future__ import annotations

import functools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from fedroam.components import Part, jsonable
from fedroam.data.dataset import Dataset, DataSource

# As many data sets as a comparison of two needs; one that is in use stays known however many follow it.
CAPACITY = 2

_recent: OrderedDict[str, Dataset] = OrderedDict()
_alive: WeakValueDictionary[str, Dataset] = WeakValueDictionary()
_offered: dict[str, Callable[[], Dataset]] = {}
_lock = threading.RLock()


def name_of(part: Part) -> str:
    """What identifies a data part in every process of a sweep: its class and all its settings."""
    cls = type(part)
    module = cls.__module__.replace("__mp_main__", "__main__")  # a child process calls its parent's script so
    return json.dumps([f"{module}.{cls.__qualname__}", jsonable(part.settings())], sort_keys=True)


def offer(name: str, give: Callable[[], Dataset]) -> None:
    """From now on `give()` is the data set of the part with this name (`name_of`): its own files are not read.

    For processes that share data sets that another has read. Called at most once; the data set is kept.
    """
    with _lock:
        _offered[name] = functools.cache(give)


def load_dataset(part: Part) -> Dataset:
    """The data set of a data part: the one that was offered, or else what the part itself loads."""
    with _lock:
        given = _offered.get(name_of(part))
        if given is not None:
            return given()
    assert isinstance(part, DataSource)  # `register` has seen to it
    return part.load()


def remember(part: Part, files: Sequence[Path], read: Callable[[], Dataset]) -> Dataset:
    """What `read()` gives, read once for equal settings of `part` and unchanged `files`.

    A file counts as changed when its place, size or time of modification differ. The last `CAPACITY` data
    sets are kept, and any that somebody still uses. Callers share the arrays: nobody may write into them.
    """
    stamps = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    cls = type(part)
    key = json.dumps(
        [f"{cls.__module__}.{cls.__qualname__}", id(cls), jsonable(part.settings()), stamps], sort_keys=True
    )
    with _lock:  # held while reading: two threads that ask for one data set must not both read it
        dataset = _alive.get(key)
        if dataset is None:
            dataset = read()
            _alive[key] = dataset
        _recent[key] = dataset
        _recent.move_to_end(key)
        while len(_recent) > CAPACITY:
            _recent.popitem(last=False)
        return dataset


def forget() -> None:
    """Let go of every data set that nobody uses, and of every offer."""
    with _lock:
        _offered.clear()
        _recent.clear()
        _alive.clear()
