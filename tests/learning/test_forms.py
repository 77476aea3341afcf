"""What an objective says that it is counts as long as nobody says otherwise later."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from typing_extensions import override

from fedroam.federation.server.fedavgdbe import FedAvgDBE
from fedroam.federation.server.gpfl import GPFL
from fedroam.federation.server.moon import Contrastive, Moon
from fedroam.learning.forms import Contrast, WithMemory, form_of
from fedroam.learning.objective import CrossEntropy

PLAIN = CrossEntropy()


class Relabelled(Contrastive):
    """As it was."""


class Otherwise(Contrastive):
    """With another term."""

    @override
    def term(
        self, features: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        value, slope = super().term(features, y, **handed)
        return 2 * value, 2 * slope


class OtherLoss(Contrastive):
    """With another loss."""

    @override
    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        return 2 * super().loss(module, x, y, **handed)


class SaysSo(Otherwise):
    """With another term, and its form."""

    @property
    @override
    def form(self) -> Contrast:
        return Contrast("z_global", "z_previous", 2 * self.mu, self.temperature, 1e-8)


@dataclass(frozen=True)
class Silent:
    """Of no known form."""

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        return PLAIN.loss(module, x, y)


def test_what_an_objective_says_counts() -> None:
    found = form_of(Moon(mu=1.5, temperature=0.4).objective(PLAIN))
    assert found == Contrast("z_global", "z_previous", 1.5, 0.4, 1e-8)
    assert form_of(Relabelled(PLAIN, 1.5, 0.4)) == found
    assert isinstance(form_of(FedAvgDBE().objective(PLAIN)), WithMemory)


def test_an_objective_of_ones_own_goes_the_general_way() -> None:
    assert form_of(Silent()) is None
    assert form_of(PLAIN) is None
    assert form_of(Otherwise(PLAIN, 1.0, 0.5)) is None
    assert form_of(OtherLoss(PLAIN, 1.0, 0.5)) is None
    assert form_of(SaysSo(PLAIN, 1.0, 0.5)) == Contrast("z_global", "z_previous", 2.0, 0.5, 1e-8)


def test_what_is_of_no_known_form_says_so() -> None:
    assert form_of(FedAvgDBE(memory=False).objective(PLAIN)) is None
    assert form_of(GPFL(valve=False).objective(PLAIN)) is None
    assert form_of(GPFL(angle=0.0, magnitude=0.0).objective(PLAIN)) is None
