"""What tests of networks share."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pytest

from fedroam.data.sources import digits


@pytest.fixture(scope="module", autouse=True)
def digits_are_read_once() -> Iterator[None]:
    """Nodes that share a process let go of each other's samples: each would read the file again, which takes longer
    than all else that it does before it begins."""
    read = digits._rows

    @functools.cache
    def once() -> np.ndarray:
        rows = read()
        rows.setflags(write=False)  # all nodes have them
        return rows

    digits._rows = once
    yield
    digits._rows = read
