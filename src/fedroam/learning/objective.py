"""The loss that local training lowers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional

from fedroam.components import Part, field, register
from fedroam.errors import FedroamError


@runtime_checkable
class Objective(Protocol):
    """A loss as a mean over the samples of a batch."""

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        """Mean loss (a scalar with a gradient) of `module` on inputs x [n, ...] and classes y (int64 [n]).

        handed: what the federation gives this client's job by name (see `Job.given` and `Job.each`); nothing in a
        federation that gives nothing. It must be a mean over samples: large batches are computed in pieces and added
        up by their sizes, unless the objective says otherwise (`NeedsWholeBatches`).
        """


def scalar(loss: object, objective: Objective) -> torch.Tensor:
    """The loss that an objective gave. Raises FedroamError where it is no tensor without dimensions."""
    if isinstance(loss, torch.Tensor) and loss.dim() == 0:
        return loss
    found = (
        f"a tensor of shape {list(loss.shape)}"
        if isinstance(loss, torch.Tensor)
        else f"a {type(loss).__name__}"
    )
    raise FedroamError(
        f"{type(objective).__name__}: loss gave {found}; allowed is a mean, a tensor without dimensions"
    )


@runtime_checkable
class NeedsWholeBatches(Protocol):
    """An objective that is not the mean of its values over pieces of a batch."""

    @property
    def whole_batches(self) -> bool:
        """Whether a batch must not be cut into pieces."""


@runtime_checkable
class AddsTerm(Protocol):
    """An objective that adds a term of the features to a loss of the head's outputs, for networks with an extractor and
    a head (see `models.split`). Engines may take it apart, since it says what the term's gradient is.
    """

    @property
    def base(self) -> Objective:
        """The loss of the head's outputs."""

    def term(
        self, features: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The term, a mean over samples (a scalar without a gradient), and its gradient [n, features].

        features: float32 [n, features], the extractor's outputs; y: int64 [n]; handed: as in `Objective.loss`.
        """


class Transformed(Protocol):
    """What the head of a network gets in place of the extractor's features, with what the loss adds for them."""

    @property
    def outputs(self) -> torch.Tensor:
        """What the head gets, float32 [n, features]."""

    @property
    def term(self) -> float:
        """What is added to the loss of the head's outputs: a mean over samples."""

    def backward(self, slope: torch.Tensor, share: float, into: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The gradient [n, features] of the extractor's features.

        slope: the loss's gradient of `outputs`, float32 [n, features]. share: what the term counts. into: gradients of
        the parameters in between, by name, to which is added.
        """


@runtime_checkable
class TransformsFeatures(Protocol):
    """An objective of networks with an extractor, a head (see `models.split`) and something in between, whose head gets
    other features than the extractor's. Engines may take it apart, since it says what the gradients are.
    """

    @property
    def base(self) -> Objective:
        """The loss of the head's outputs."""

    @property
    def idle(self) -> tuple[str, ...]:
        """Names of the parameters in between that get no gradient at all."""

    def transformed(
        self,
        between: Mapping[str, torch.Tensor],
        features: torch.Tensor,
        y: torch.Tensor,
        **handed: torch.Tensor,
    ) -> Transformed:
        """What the head gets.

        between: parameters and buffers that belong neither to the extractor nor to the head, by name; features: float32
        [n, features], the extractor's outputs; y: int64 [n]; handed: as in `Objective.loss`.
        """


@runtime_checkable
class IsHanded(Protocol):
    """An objective that its federation hands tensors, and whose arithmetic can be counted beforehand."""

    def handed_like(self, module: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Tensors as it is handed them with inputs x [n, ...], by name, on the device of x; values do not matter."""


@register("objective", "cross_entropy")
class CrossEntropy(Part):
    """Softmax cross-entropy, averaged over the batch."""

    label_smoothing: float = field(0.0, "share of the target spread evenly over all classes", ge=0, lt=1)

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        """Cross-entropy of the logits; what a federation gives is ignored."""
        return functional.cross_entropy(module(x), y, label_smoothing=self.label_smoothing)
