"""Well-known layers, each with its backward pass written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized
from typing_extensions import override

from fedroam.learning.layout import Entry
from fedroam.models import Dropout

aten = torch.ops.aten
LANES = 16  # below so many channels torch's max-pool works on one value at a time
View = Callable[[Entry], torch.Tensor]


class Layer(Protocol):
    """One layer. `forward` keeps what `backward` needs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output, maybe in the memory of its input."""

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        """Add to the gradients of weight and bias; return that of the input where it is wanted."""


class Weighted:
    """A layer with weight and bias, views into a client's row; and with views into the gradient vector."""

    def __init__(self, layer: Any, weight: Entry, bias: Entry | None, gradient: View) -> None:
        self.layer, self.entries = layer, (weight, bias)
        self.for_weight, self.for_bias = gradient(weight), None if bias is None else gradient(bias)
        self.weight, self.bias = self.for_weight, self.for_bias  # until the first `attach`

    def attach(self, row: View) -> None:
        """Compute with a row's parameters from now on."""
        weight, bias = self.entries
        self.weight, self.bias = row(weight), None if bias is None else row(bias)


class Convolution(Weighted):
    """`nn.Conv2d`, of any stride, dilation and groups."""

    def __init__(self, layer: nn.Conv2d, weight: Entry, bias: Entry | None, gradient: View) -> None:
        super().__init__(layer, weight, bias, gradient)
        # Stride, padding, dilation, not transposed, groups: as torch's internal convolutions take them.
        self.how: Any = (
            list(layer.stride),
            list(layer.padding),
            list(layer.dilation),
            False,
            [0, 0],
            layer.groups,
        )
        self.sizes = None if bias is None else [layer.out_channels]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Correlate with the weights, by torch."""
        self.x = x
        return torch.convolution(x, self.weight, self.bias, *self.how)

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        """Add torch's gradients of weight and bias."""
        asked = [wanted, True, self.sizes is not None]
        x, weight, bias = aten.convolution_backward.default(
            gradient, self.x, self.weight, self.sizes, *self.how, asked
        )
        self.for_weight.add_(weight)
        if self.for_bias is not None:
            self.for_bias.add_(bias)
        del self.x
        return x if wanted else None


class Linear(Weighted):
    """`nn.Linear`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x W^T + b."""
        self.x = x
        return x.mm(self.weight.t()) if self.bias is None else torch.addmm(self.bias, x, self.weight.t())

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        """dW += g^T x and db += sum g; g W."""
        self.for_weight.addmm_(gradient.t(), self.x)
        if self.for_bias is not None:
            self.for_bias.add_(gradient.sum(0))
        del self.x
        return gradient.mm(self.weight) if wanted else None


class GroupNorm(Weighted):
    """`nn.GroupNorm` with weight and bias."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Norm by torch; means and scales are kept."""
        self.sizes = (x.shape[0], x.shape[1], math.prod(x.shape[2:]), self.layer.num_groups)
        y, mean, scale = torch.native_group_norm(x, self.weight, self.bias, *self.sizes, self.layer.eps)
        self.kept = (x, mean, scale)
        return y

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        """Add torch's gradients of weight and bias."""
        # Always all three: without the first, torch 2.13 writes it to where there is no memory.
        x, weight, bias = aten.native_group_norm_backward.default(
            gradient, *self.kept, self.weight, *self.sizes, [True, True, True]
        )
        self.for_weight.add_(weight)
        if self.for_bias is not None:
            self.for_bias.add_(bias)
        del self.kept
        return x if wanted else None


class MaxPool(Layer):
    """`nn.MaxPool2d`."""

    def __init__(self, layer: nn.MaxPool2d) -> None:
        settings = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        both = [[k, k] if isinstance(k, int) else list(k) for k in settings]
        self.how: Any = (*both, layer.ceil_mode)
        self.halves = both == [[2, 2], [2, 2], [0, 0], [1, 1]]
        self.halved: tuple[torch.Tensor, torch.Tensor] | None = None

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pixels = x.permute(0, 2, 3, 1)
        self.halved = None
        if (
            self.halves
            and x.shape[1] < LANES
            and x.shape[2] % 2 == x.shape[3] % 2 == 0
            and pixels.is_contiguous()
        ):
            return self._halve(pixels).permute(0, 3, 1, 2)
        y: torch.Tensor
        y, where = aten.max_pool2d_with_indices.default(x, *self.how)
        self.kept = (x, where)
        return y

    @override
    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        if self.halved is not None:
            return self._halve_backward(gradient.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) if wanted else None
        x, where = self.kept
        del self.kept
        if not wanted:
            return None
        back: torch.Tensor = aten.max_pool2d_with_indices_backward.default(gradient, x, *self.how, where)
        return back

    def _halve(self, x: torch.Tensor) -> torch.Tensor:
        """[n, height, width, channels], both even: the larger row of each two, then the larger column."""
        taller = torch.maximum(x[:, 0::2], x[:, 1::2])
        self.halved = x, taller
        return torch.maximum(taller[:, :, 0::2], taller[:, :, 1::2])

    def _halve_backward(self, gradient: torch.Tensor) -> torch.Tensor:
        assert self.halved is not None
        (x, taller), self.halved = self.halved, None
        # Among equal values the first one gets the gradient. threshold_backward(g, d, 0) is g where d > 0, else 0:
        # of torch's ways to mask, the fastest; but it must not write into every second column.
        between, result = torch.empty_like(taller), torch.empty_like(x)
        right = aten.threshold_backward.default(gradient, taller[:, :, 1::2] - taller[:, :, 0::2], 0)
        between[:, :, 1::2] = right
        torch.sub(gradient, right, out=between[:, :, 0::2])
        bottom = result[:, 1::2]
        aten.threshold_backward.grad_input(between, x[:, 1::2] - x[:, 0::2], 0, grad_input=bottom)
        torch.sub(between, bottom, out=result[:, 0::2])
        return result


class ReLU(Layer):
    """`nn.ReLU`."""

    def __init__(self, over: bool) -> None:
        self.over = over  # whether the input may be overwritten

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.y = x.relu_() if self.over else x.relu()
        return self.y

    @override
    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        y = self.y
        del self.y
        return aten.threshold_backward.default(gradient, y, 0) if wanted else None


class Flatten(Layer):
    """`nn.Flatten` of all but the samples."""

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.shape = x.shape
        return x.flatten(1)

    @override
    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        images = gradient.view(self.shape)
        return images.contiguous(memory_format=torch.channels_last) if len(self.shape) == 4 else images


class Unflatten(Layer):
    """`nn.Unflatten`, of samples: no gradient goes through it."""

    def __init__(self, layer: nn.Unflatten) -> None:
        self.layer = layer

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        return y

    @override
    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        return gradient.flatten(1) if wanted else None


class Dropped(Layer):
    """`models.Dropout` in training: it draws from the generator that the thread was lent."""

    def __init__(self, layer: Dropout) -> None:
        self.layer = layer

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mask = self.layer.mask(x)
        return x * self.mask

    @override
    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        mask = self.mask
        del self.mask
        return gradient * mask if wanted else None


def hooked(layer: nn.Module) -> bool:
    """Whether someone watches a layer, or its parameters are computed from others (weight norm and the like)."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return any(hooks) or is_parametrized(layer)


WEIGHTED: dict[type[nn.Module], Any] = {
    nn.Conv2d: Convolution,
    nn.Linear: Linear,
    nn.GroupNorm: GroupNorm,
}
