"""Parts that are known for as long as a test runs: others ask what all parts keep to, which these need not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedroam import components
from fedroam.components import Part, register


@contextlib.contextmanager
def registered(*parts: tuple[str, str, type[Part]]) -> Iterator[None]:
    """Family, kind and class of each."""
    for family, kind, part in parts:
        register(family, kind)(part)
    try:
        yield
    finally:
        for family, kind, _ in parts:
            del components._registry[family][kind]


class Standing(Part):
    """Begins in the midst of a square of 4 m; what its steps do is said below it."""

    def start(self, world: Any) -> dict[str, Any]:
        return {"position": np.full((world.clients, 2), 2.0)}

    def bounds(self) -> tuple[float, float, float, float]:
        return (0.0, 0.0, 4.0, 4.0)

    def groups(self, world: Any) -> np.ndarray:
        return np.full(world.clients, "all")
