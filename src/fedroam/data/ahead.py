"""A data set that is read while the rest of fedroam is loaded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from fedroam.components import Part, build, ours
from fedroam.data.cache import load_dataset

# s in which it gets to where it unpacks. Whoever loads a large library then gives nobody a turn for a quarter of one.
HEAD_START = 0.02


def read_ahead(given: Part | str | Mapping[str, Any]) -> None:
    """Begin to read a data set in another thread: that which `given` names, as an experiment's `data` would.

    Loading modules keeps one core busy for longer than unpacking, scaling and fingerprinting images does another, if
    that is done in few calls: each waits for its turn. Whoever asks for the data set next finds it, or waits for it
    (`data.cache.remember`), and is told what is wrong with it: nothing is told here. A source that is not fedroam's own
    is left alone, for it may read once for each who asks, or count how often it is asked.
    """
    # Settings that are none; checked again where the experiment is, and told with its name.
    with contextlib.suppress(Exception):
        part = build("data", given)  # in this thread: two that import modules could meet halfway
        if ours(part):
            reader = threading.Thread(target=_read, args=(part,), name="reads ahead", daemon=True)
            reader.start()
            reader.join(HEAD_START)


def _read(part: Part) -> None:
    # A file that is missing or damaged; no room in memory: whoever asks next meets them again.
    with contextlib.suppress(Exception):
        _ = load_dataset(part).fingerprint  # which is kept there
