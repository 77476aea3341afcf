"""What a server or access point makes of an update at the moment when it arrives: the rules of FedAsync and FedBuff.

They are the same wherever the holder of a model stands, and whatever else it does: it hands over its model and its
books, and gets them back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

import numpy as np
import torch

from fedroam.components import Part, field
from fedroam.federation.aggregating import values
from fedroam.federation.holders import Model
from fedroam.learning import Anchor, Job

STALENESS = "staleness"  # a column; and what access points are told of updates, int64


@dataclass(frozen=True)
class Holder:
    """A server or access point with its model (float32 tensors).

    version: how many models it has had before this one. changes: float64 [parameters and buffers], the sum of what it
    gathers for the next one; None where the rule gathers nothing. held: of how many updates.
    """

    model: Model
    version: int = 0
    changes: np.ndarray | None = None
    held: int = 0


class ArrivalRule(Protocol):
    """Takes updates one by one."""

    gathers: ClassVar[bool]  # changes, from the models that clients were given

    @property
    def size(self) -> int:
        """How many updates make a new model."""

    def held_to(self, job: Job, given: torch.Tensor) -> Job:
        """The local work of a client that was given these parameters."""

    def take(self, holder: Holder, update: Model, given: np.ndarray | None, staleness: int) -> Holder:
        """The holder once it has taken a trained model. given: float32 [parameters and buffers], what it was trained
        from; None unless the rule gathers changes."""


def polynomial(staleness: int, exponent: float) -> float:
    """(1 + staleness)^-exponent (Xie et al. 2019, Sec. 5.2)."""
    return float((1.0 + staleness) ** -exponent)


class MixesAtOnce(Part):
    """FedAsync (Xie et al. 2019, Alg. 1): each model that arrives is mixed into the holder's own."""

    gathers: ClassVar[bool] = False
    size: ClassVar[int] = 1

    alpha: float = field(0.6, "weight of an update that is not stale", gt=0, le=1)
    weighting: Literal["constant", "polynomial", "hinge"] = field(
        "polynomial", "how the weight falls with staleness"
    )
    exponent: float = field(0.5, "a of the polynomial and of the hinge", ge=0, allow_inf_nan=False)
    b: int = field(4, "staleness up to which a hinge does not fall", unit="models", ge=0)
    rho: float = field(
        0.0, "how strongly clients are held to the model they were given", ge=0, allow_inf_nan=False
    )

    def weight(self, staleness: int) -> float:
        """alpha s(staleness)."""
        if self.weighting == "hinge":
            return self.alpha / (self.exponent * max(staleness - self.b, 0) + 1.0)
        return self.alpha * (polynomial(staleness, self.exponent) if self.weighting == "polynomial" else 1.0)

    def held_to(self, job: Job, given: torch.Tensor) -> Job:
        """Held by `rho` to what it was given."""
        return replace(job, anchor=Anchor(self.rho, given)) if self.rho else job

    def take(self, holder: Holder, update: Model, given: np.ndarray | None, staleness: int) -> Holder:
        """x <- (1 - a s) x + a s x_i."""
        weight = self.weight(staleness)
        parameters, buffers = (
            torch.lerp(own, new, weight) for own, new in zip(holder.model, update, strict=True)
        )
        return replace(holder, model=(parameters, buffers), version=holder.version + 1)


class Gathers(Part):
    """FedBuff (Nguyen et al. 2022, Alg. 1): changes are gathered, and so many of them make a new model."""

    gathers: ClassVar[bool] = True

    size: int = field(10, "updates that make a new model (K)", unit="updates", ge=1)
    rate: float = field(1.0, "learning rate of the server", gt=0, allow_inf_nan=False)
    exponent: float = field(
        0.5, "how fast weights fall with staleness; 0: not at all", ge=0, allow_inf_nan=False
    )

    def held_to(self, job: Job, given: torch.Tensor) -> Job:
        """As it is."""
        return job

    def take(self, holder: Holder, update: Model, given: np.ndarray | None, staleness: int) -> Holder:
        """Add s (x_i - x_b) to what is held; with `size` of them, x <- x + rate * that / size."""
        assert given is not None  # as it gathers
        assert holder.changes is not None
        change = values(*update).astype(np.float64) - given
        changes, held = holder.changes + polynomial(staleness, self.exponent) * change, holder.held + 1
        if held < self.size:
            return replace(holder, changes=changes, held=held)
        own, buffers = holder.model
        new = torch.from_numpy((values(own, buffers) + self.rate * changes / self.size).astype(np.float32))
        model = (new[: len(own)].to(own.device), new[len(own) :].to(own.device))
        return Holder(model, holder.version + 1, np.zeros_like(changes))
