"""Networks without convolutions: softmax regression and the multilayer perceptron."""

from __future__ import annotations

import itertools
import math
from typing import Annotated

from pydantic import Field
from torch import nn

from fedroam.components import Part, field, register
from fedroam.models.network import INIT, Init, Network, check, initialise, within


@register("model", "softmax_regression")
class SoftmaxRegression(Part):
    """Multinomial logistic regression: one linear layer over the flattened sample. Its loss is convex."""

    def build(self, shape: tuple[int, ...], classes: int) -> Network:
        """A network for samples of any `shape`; the extractor only flattens."""
        check(self.kind, shape, classes)
        return Network(nn.Flatten(), nn.Linear(math.prod(shape), classes))


@register("model", "mlp")
class MLP(Part):
    """Multilayer perceptron: the flattened sample, hidden layers with ReLU, a linear output."""

    hidden: tuple[Annotated[int, Field(gt=0)], ...] = field(
        (64,), "widths of the hidden layers", unit="units"
    )
    init: Init = field("default", INIT)

    def build(self, shape: tuple[int, ...], classes: int) -> Network:
        """A network for samples of any `shape`; its features are the last hidden layer."""
        check(self.kind, shape, classes)
        widths = (math.prod(shape), *self.hidden)
        within(self.kind, sum(a * b for a, b in itertools.pairwise((*widths, classes))))
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs, outputs in itertools.pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return initialise(Network(nn.Sequential(*layers), nn.Linear(widths[-1], classes)), self.init)
