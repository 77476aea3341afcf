"""Models whose rows lie with workers: who has which row, and which rows of a worker's matrix are in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from typing_extensions import override

from fedroam.learning import Layout, Models

if TYPE_CHECKING:
    from fedroam.execution.crew import Crew

HERE = -1  # in the place of a worker: this process


class Slots:
    """The rows of a worker's matrix: by how many models each is used, and which are free."""

    def __init__(self) -> None:
        self.uses = np.zeros(0, np.int64)
        self._free = np.zeros(0, np.int64)

    def take(self, count: int) -> np.ndarray:
        """So many rows that nobody uses, int64: used once from now on."""
        lacking = count - len(self._free)
        if lacking > 0:
            fresh = np.arange(len(self.uses), len(self.uses) + lacking)
            self.uses = np.concatenate([self.uses, np.zeros(lacking, np.int64)])
            self._free = np.concatenate([fresh[::-1], self._free])
        found, self._free = self._free[::-1][:count], self._free[: len(self._free) - count]
        self.uses[found] = 1
        return found.copy()

    def use(self, slots: np.ndarray) -> None:
        """These rows (int64, with repeats) are used once more."""
        np.add.at(self.uses, slots, 1)

    def drop(self, slots: np.ndarray) -> None:
        """These rows (int64, with repeats) are used once less."""
        np.add.at(self.uses, slots, -1)
        distinct = np.unique(slots)
        self._free = np.concatenate([self._free, distinct[self.uses[distinct] == 0][::-1]])


class SpreadModels(Models):
    """Models whose rows lie with workers, or here; equal rows may lie there once.

    holder: int64 [rows], the worker, or `HERE`. slot: int64 [rows], the row of that worker's matrix, or of `here`.
    still: bool [rows], whose momentum is zero, whatever lies there. Asking for a matrix brings all rows here, where
    they may be written into.
    """

    def __init__(
        self,
        crew: Crew,
        layout: Layout,
        holder: np.ndarray,
        slot: np.ndarray,
        still: np.ndarray,
        here: Models | None,
        keeps: bool,
    ) -> None:
        self.layout, self.crew, self.keeps, self.here = layout, crew, keeps, here
        self.holder, self.slot, self.still = holder, slot, still
        self.life = crew.life
        self._sums: tuple[int, torch.Tensor] | None = None
        crew.use(holder, slot)

    @classmethod
    def of(cls, crew: Crew, models: Models, rows: np.ndarray) -> SpreadModels:
        """The rows (int64, with repeats) of models that are here."""
        nothing = np.zeros(len(rows), dtype=bool)
        return cls(
            crew,
            models.layout,
            np.full(len(rows), HERE),
            rows.copy(),
            nothing,
            models,
            models.momentum is not None,
        )

    def __del__(self) -> None:
        if self.life == self.crew.life:
            self.crew.drop(self.holder, self.slot)

    # --- what is asked of models ------------------------------------------------------------------------------

    @property
    @override
    def parameters(self) -> torch.Tensor:
        return self._gathered().parameters

    @property
    @override
    def buffers(self) -> torch.Tensor:
        return self._gathered().buffers

    @property
    @override
    def momentum(self) -> torch.Tensor | None:
        return self._gathered().momentum if self.keeps else None

    @override
    def __len__(self) -> int:
        return len(self.holder)

    @property
    @override
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    @override
    def half(self) -> bool:
        return False

    @override
    def rows(self, index: torch.Tensor) -> Models:
        found = self._some(index.numpy())
        own = np.flatnonzero(found.holder == HERE)
        if found.here is not None:  # which may be written into
            slots, found.slot[own] = np.unique(found.slot[own], return_inverse=True)
            found.here = found.here.rows(torch.from_numpy(slots)) if len(slots) else None
        return found

    @override
    def at_hand(self, rows: np.ndarray) -> tuple[Models, np.ndarray]:
        return self._copies(rows), np.arange(len(rows))

    @override
    def copied(self, sources: np.ndarray, most: int) -> Models:
        found = self._some(np.append(np.arange(len(self)), sources))
        found.still[len(self) :] = True
        return found

    @override
    def kept(self, rows: np.ndarray) -> Models:
        return self._some(rows)

    @override
    def arrays(self) -> dict[str, np.ndarray]:
        if (self.holder == HERE).all():
            return super().arrays()
        return self._copies(np.arange(len(self))).arrays()

    @override
    def mean(self) -> Models:
        if (self.holder == HERE).all():
            return super().mean()
        means = (self.column_sums() / len(self)).to(torch.float32)
        parameters, buffers = means[None].split([self.layout.size, self.layout.buffer_size], dim=1)
        return Models(self.layout, parameters, buffers, None)

    @override
    def consensus_distance(self, mean: Models | None = None) -> float:
        if (self.holder == HERE).all():
            return super().consensus_distance(mean)
        return self.crew.consensus_distance(self)

    def column_sums(self) -> torch.Tensor:
        """Sum of the rows' parameters and buffers in row order, float64; found once while nothing changes."""
        if self._sums is None or self._sums[0] != self.crew.changes:
            self._sums = self.crew.changes, self.crew.column_sums(self)
        return self._sums[1]

    # --- where they lie ---------------------------------------------------------------------------------------

    def moved(self, rows: np.ndarray, holder: Sequence[int] | np.ndarray, slot: np.ndarray) -> None:
        """These rows (int64) lie elsewhere now, in slots that have been taken for them."""
        self.crew.drop(self.holder[rows], self.slot[rows])
        self.holder[rows], self.slot[rows] = holder, slot
        if not (self.holder == HERE).any():
            self.here = None

    def _copies(self, rows: np.ndarray) -> Models:
        found = Models.empty(self.layout, len(rows), momentum=self.keeps)
        self.crew.fetch(self, rows, found, np.arange(len(rows)))
        if found.momentum is not None:
            found.momentum[torch.from_numpy(self.still[rows])] = 0.0
        return found

    def _some(self, rows: np.ndarray) -> SpreadModels:
        holder, slot, still = (each[rows].copy() for each in (self.holder, self.slot, self.still))
        return SpreadModels(self.crew, self.layout, holder, slot, still, self.here, self.keeps)

    def _gathered(self) -> Models:
        """All of them here, each in its own row; whoever asked may write into them."""
        self.crew.changes += 1
        everybody, away = np.arange(len(self)), self.holder != HERE
        here = self.here
        if here is None or len(here) != len(self) or (self.slot != everybody)[~away].any():
            here, away = Models.empty(self.layout, len(self), momentum=self.keeps), everybody >= 0
        rows = np.flatnonzero(away)
        self.crew.fetch(self, rows, here, rows)
        self.crew.drop(self.holder, self.slot)
        if here.momentum is not None and self.still.any():
            here.momentum[torch.from_numpy(np.flatnonzero(self.still))] = 0.0
        self.here = here
        self.holder[:], self.slot[:], self.still[:] = HERE, everybody, False
        return here
