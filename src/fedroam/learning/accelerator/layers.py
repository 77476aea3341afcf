"""Convolutions, max-pools and group normalisation that `torch.func.vmap` computes for many models at once: on CUDA by
our own kernels.

`torch.func` makes one grouped convolution of those of many models. That is what is computed here, too, where there are
no kernels: on other devices, where Triton, which torch brings along for CUDA, is missing, and where kernels disagree.
"""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import nn
from torch.nn import functional
from typing_extensions import override

from fedroam.learning.sums import settled
from fedroam.models import Network
from fedroam.models.resnet import ResidualBlock

TRIED = 3, 16  # models, and samples of each, on which kernels are tried
Ints = tuple[int, ...]
Dims = tuple[int | None, ...]
Tensors = tuple[torch.Tensor, ...]
Compute = Callable[[], Tensors]


class Geometry(NamedTuple):
    """Stride, padding and dilation of a convolution, one number for each dimension of an image."""

    stride: Ints
    padding: Ints
    dilation: Ints


class Convolution(nn.Module):
    """In place of a convolution of torch, whose weights it takes."""

    def __init__(self, layer: nn.Conv1d | nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        assert not isinstance(layer.padding, str)  # see `_is_plain`
        self.geometry = Geometry(layer.stride, layer.padding, layer.dilation)
        self.plain = True

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [n, channels, ...] -> [n, outputs, ...]."""
        weight, bias = self.weight, self.bias
        if torch.is_autocast_enabled(x.device.type):
            kind = torch.get_autocast_dtype(x.device.type)
            x, weight, bias = x.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
        found: torch.Tensor = _Outputs.apply(x, weight, bias, self.geometry, self.plain)
        return found


def _is_plain(layer: nn.Module) -> TypeGuard[nn.Conv1d | nn.Conv2d]:
    """Whether a layer is a convolution that `Convolution` can stand for."""
    return (
        isinstance(layer, (nn.Conv1d, nn.Conv2d))
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )


class Pool(nn.Module):
    """In place of a max-pool of torch whose windows lie side by side. window: None is the whole image or sequence."""

    def __init__(self, window: Ints | None) -> None:
        super().__init__()
        self.window, self.plain = window, True

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [n, channels, ...] -> [n, channels, ...], each size divided by the window's."""
        y: torch.Tensor = _Pooled.apply(x, self.window or tuple(x.shape[2:]), self.plain)[0]
        return y


def _pool_for(layer: nn.Module) -> Pool | None:
    """What computes the same as a max-pool; None for other layers and for windows that do not lie side by side."""
    if isinstance(layer, (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d)):
        return Pool(None) if layer.output_size in (1, (1, 1)) and not layer.return_indices else None
    if not isinstance(layer, nn.MaxPool2d):
        return None
    window, stride, padding, dilation = (
        (each, each) if isinstance(each, int) else tuple(each)
        for each in (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    )
    plain = stride == window and padding == (0, 0) and dilation == (1, 1)
    return Pool(window) if plain and not layer.ceil_mode and not layer.return_indices else None


class Norm(nn.Module):
    """In place of torch's group normalisation, whose weights it takes."""

    def __init__(self, layer: nn.GroupNorm) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.groups, self.epsilon, self.plain = layer.num_groups, layer.eps, True

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [n, channels, ...], and so what comes out: float32 where others compute in 16 bits, as of torch's."""
        if torch.is_autocast_enabled(x.device.type):
            x = x.float()
        y: torch.Tensor = _Normed.apply(x, self.weight, self.bias, self.groups, self.epsilon, self.plain)[0]
        return y


# What computes the same whether channels lie first or last, and gives on what it got. Others, torch's own among them,
# may ask for their usual order without a word where `vmap` hides from them how values lie.
EASY = (
    *(nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.ELU, nn.LeakyReLU, nn.SiLU, nn.Identity),
    *(nn.Flatten, nn.Unflatten, nn.Linear, nn.ZeroPad2d, nn.Sequential, Network, ResidualBlock),
)


def in_place(
    module: nn.Module, ours: Callable[[nn.Module], nn.Module | None], easy: tuple[type, ...]
) -> nn.Module:
    """Put layers that `ours` or we have for some of a network in their places; returns the network.

    What ours compute lies channels-last in memory where all others are known not to mind. easy: more such kinds.
    """
    made: dict[int, nn.Module] = {}

    def replaced(layer: nn.Module) -> nn.Module:
        if id(layer) not in made:
            made[id(layer)] = ours(layer) or _ours_for(layer) or layer
        return made[id(layer)]

    for owner in list(module.modules()):
        for name, layer in owner._modules.items():
            if layer is not None:
                owner._modules[name] = replaced(layer)
    module = replaced(module)
    plain = not all(type(layer) in easy or _is_easy(layer) for layer in module.modules())
    for layer in module.modules():
        if isinstance(layer, (Convolution, Pool, Norm)):
            layer.plain = plain
    return module


def _is_easy(layer: nn.Module) -> bool:
    if type(layer) is nn.AdaptiveAvgPool2d:
        return layer.output_size in (1, (1, 1))  # a mean
    return type(layer) in (*EASY, Convolution, Pool, Norm)


def _ours_for(layer: nn.Module) -> nn.Module | None:
    """What computes the same as a layer of torch; None where there is nothing of ours."""
    own = not type(layer).__module__.startswith("torch.nn.modules.")  # whose class may compute something else
    if own or layer._forward_hooks or layer._forward_pre_hooks:
        return None
    found: nn.Module | None = None
    if _is_plain(layer):
        found = Convolution(layer)
    elif isinstance(layer, nn.GroupNorm) and layer.affine:
        found = Norm(layer)
    else:
        found = _pool_for(layer)
    return None if found is None else found.train(layer.training)


class _Outputs(torch.autograd.Function):
    """The outputs of a convolution; x: [n, channels, ...]."""

    generate_vmap_rule = False

    @staticmethod
    @override
    def forward(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, geometry: Geometry, plain: bool
    ) -> torch.Tensor:
        y = _outputs(x[None], weight[None], None if bias is None else bias[None], geometry, plain)
        return y[0].clone()  # not a view, which may not be changed in place

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        x, weight, _, ctx.geometry, ctx.plain = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    @override
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = _OfInputs.apply(gradient, x, weight, ctx.geometry, ctx.plain)
        if ctx.needs_input_grad[1]:
            of_weight = _OfWeights.apply(gradient, x, weight, ctx.geometry)
        if ctx.needs_input_grad[2]:
            of_bias = gradient.sum((0, *range(2, gradient.ndim)))
        return of_x, of_weight, of_bias, None, None

    @staticmethod
    @override
    def vmap(
        info: Any, dims: Dims, x: Any, weight: Any, bias: Any, geometry: Geometry, plain: bool
    ) -> tuple[torch.Tensor, int]:
        x, weight, bias = _rows(info, dims, x, weight, bias)
        return _outputs(x, weight, bias, geometry, plain), 0


class _Once(torch.autograd.Function):
    """A gradient, of which there is none."""

    generate_vmap_rule = False

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        return

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise NotImplementedError("the gradient of a convolution's gradient: engine `reference` computes it")


class _OfInputs(_Once):
    """The gradient of the inputs, from that of the outputs."""

    @staticmethod
    @override
    def forward(
        gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, geometry: Geometry, plain: bool
    ) -> torch.Tensor:
        return _of_inputs(gradient[None], x[None], weight[None], geometry, plain)[0]

    @staticmethod
    @override
    def vmap(
        info: Any, dims: Dims, gradient: Any, x: Any, weight: Any, geometry: Geometry, plain: bool
    ) -> tuple[torch.Tensor, int]:
        gradient, x, weight = _rows(info, dims, gradient, x, weight)
        return _of_inputs(gradient, x, weight, geometry, plain), 0


class _OfWeights(_Once):
    """The gradient of the weights, from that of the outputs."""

    @staticmethod
    @override
    def forward(
        gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, geometry: Geometry
    ) -> torch.Tensor:
        return _of_weights(gradient[None], x[None], weight[None], geometry)[0]

    @staticmethod
    @override
    def vmap(
        info: Any, dims: Dims, gradient: Any, x: Any, weight: Any, geometry: Geometry
    ) -> tuple[torch.Tensor, int]:
        gradient, x, weight = _rows(info, dims, gradient, x, weight)
        return _of_weights(gradient, x, weight, geometry), 0


class _Pooled(torch.autograd.Function):
    """The largest values of windows side by side, and where they are."""

    generate_vmap_rule = False

    @staticmethod
    @override
    def forward(x: torch.Tensor, window: Ints, plain: bool) -> tuple[torch.Tensor, torch.Tensor]:
        y, where = _pooled(x[None], window, plain)
        return y[0].clone(), where[0]

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        x, ctx.window, ctx.plain = inputs
        ctx.size = tuple(x.shape[2:])
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    @override
    def backward(ctx: Any, gradient: torch.Tensor, none: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (where,) = ctx.saved_tensors
        return _OfPooled.apply(gradient, where, ctx.window, ctx.size, ctx.plain), None, None

    @staticmethod
    @override
    def vmap(
        info: Any, dims: Dims, x: Any, window: Ints, plain: bool
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[int, int]]:
        (x,) = _rows(info, dims, x)
        return _pooled(x, window, plain), (0, 0)


class _OfPooled(_Once):
    """The gradient of a pool's inputs, from that of its outputs and from where these were found."""

    @staticmethod
    @override
    def forward(
        gradient: torch.Tensor, where: torch.Tensor, window: Ints, size: Ints, plain: bool
    ) -> torch.Tensor:
        return _of_pooled(gradient[None], where[None], window, size, plain)[0]

    @staticmethod
    @override
    def vmap(
        info: Any, dims: Dims, gradient: Any, where: Any, window: Ints, size: Ints, plain: bool
    ) -> tuple[torch.Tensor, int]:
        gradient, where = _rows(info, dims, gradient, where)
        return _of_pooled(gradient, where, window, size, plain), 0


class _Normed(torch.autograd.Function):
    """Group normalisation; beside it means and 1 / deviations."""

    generate_vmap_rule = False

    @staticmethod
    @override
    def forward(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, groups: int, epsilon: float, plain: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y, mean, rate = _normed(x[None], weight[None], bias[None], groups, epsilon, plain)
        return y[0].clone(), mean[0], rate[0]

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        x, weight, *_, ctx.plain = inputs
        _, mean, rate = output
        ctx.mark_non_differentiable(mean, rate)
        ctx.save_for_backward(x, mean, rate, weight)

    @staticmethod
    @override
    def backward(ctx: Any, gradient: torch.Tensor, *none: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return *_OfNormed.apply(gradient, *ctx.saved_tensors, ctx.plain), None, None, None

    @staticmethod
    @override
    def vmap(
        info: Any, dims: Dims, x: Any, weight: Any, bias: Any, groups: int, epsilon: float, plain: bool
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        x, weight, bias = _rows(info, dims, x, weight, bias)
        return _normed(x, weight, bias, groups, epsilon, plain), (0, 0, 0)


class _OfNormed(_Once):
    """The gradients of inputs, weights and bias of a group normalisation."""

    @staticmethod
    @override
    def forward(
        gradient: torch.Tensor,
        x: torch.Tensor,
        mean: torch.Tensor,
        rate: torch.Tensor,
        weight: torch.Tensor,
        plain: bool,
    ) -> tuple[torch.Tensor, ...]:
        found = _of_normed(gradient[None], x[None], mean[None], rate[None], weight[None], plain)
        return tuple(each[0] for each in found)

    @staticmethod
    @override
    def vmap(
        info: Any, dims: Dims, gradient: Any, x: Any, mean: Any, rate: Any, weight: Any, plain: bool
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        gradient, x, mean, rate, weight = _rows(info, dims, gradient, x, mean, rate, weight)
        return _of_normed(gradient, x, mean, rate, weight, plain), (0, 0, 0)


def _rows(info: Any, dims: Dims, *each: Any) -> list[Any]:
    """With the dimension of models first, also of what all of them share."""
    found: list[Any] = []
    for one, dim in zip(each, dims, strict=False):
        if one is None:
            found.append(None)
        elif dim is None:
            found.append(one.expand(info.batch_size, *one.shape))
        else:
            found.append(one.movedim(dim, 0))
    return found


# --- of many models: everything with a first dimension more; by our kernels, or else by torch -----------------------


def _outputs(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, geometry: Geometry, plain: bool
) -> torch.Tensor:
    if "outputs" in trusted_convolution(Sizes.of(x, weight, geometry)):
        return _ordered(_our_outputs(x, weight, bias, geometry), plain)
    return _torch_outputs(x, weight, bias, geometry)


def _of_inputs(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, geometry: Geometry, plain: bool
) -> torch.Tensor:
    size = tuple(x.shape[3:])
    if "inputs" in trusted_convolution(Sizes.of(x, weight, geometry)):
        return _ordered(_our_of_inputs(gradient, weight, geometry, size), plain)
    return _torch_of_inputs(gradient, x, weight, geometry)


def _of_weights(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, geometry: Geometry
) -> torch.Tensor:
    if "weights" in trusted_convolution(Sizes.of(x, weight, geometry)):
        return _our_of_weights(gradient, x, weight, geometry)
    return _torch_of_weights(gradient, x, weight, geometry)


def _pooled(x: torch.Tensor, window: Ints, plain: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if trusted_pool(tuple(x.shape[2:]), window, x.dtype, x.device):
        y, where = _our_pooled(x, window)
        return _ordered(y, plain), where
    return _torch_pooled(x, window)


def _of_pooled(
    gradient: torch.Tensor, where: torch.Tensor, window: Ints, size: Ints, plain: bool
) -> torch.Tensor:
    if trusted_pool((gradient.shape[2], *size), window, gradient.dtype, gradient.device):
        return _ordered(_our_of_pooled(gradient, where, window, size), plain)
    return _torch_of_pooled(gradient, where, window, size)


def _normed(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, groups: int, epsilon: float, plain: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if trusted_norm(tuple(x.shape[2:]), groups, x.dtype, x.device):
        y, mean, rate = _our_normed(x, weight, bias, groups, epsilon)
        return _ordered(y, plain), mean, rate
    return _torch_normed(x, weight, bias, groups, epsilon)


def _of_normed(
    gradient: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rate: torch.Tensor,
    weight: torch.Tensor,
    plain: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if trusted_norm(tuple(x.shape[2:]), mean.shape[2], x.dtype, x.device):
        of_x, of_weight, of_bias = _our_of_normed(gradient, x, mean, rate, weight)
        return _ordered(of_x, plain), of_weight, of_bias
    return _torch_of_normed(gradient, x, mean, rate, weight)


def _ordered(y: torch.Tensor, plain: bool) -> torch.Tensor:
    """As it lies, or `plain`, in torch's usual order."""
    return y.contiguous() if plain else y


# --- whether our kernels do what torch does ---------------------------------------------------------------------------
# Compilers of kernels are young, and gave wrong numbers for some shapes and not for others (see `tile_of_sums`). So
# whatever is computed by ours for the first time is computed by torch, too, on random numbers, and left to torch where
# they disagree.


class Sizes(NamedTuple):
    """What a kernel for a convolution is compiled for."""

    channels: int
    size: Ints
    outputs: int
    kernel: Ints
    geometry: Geometry
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, x: torch.Tensor, weight: torch.Tensor, geometry: Geometry) -> Sizes:
        """That of x, [models, n, channels, ...], and weights, [models, outputs, channels, ...]."""
        size, kernel = tuple(x.shape[3:]), tuple(weight.shape[3:])
        return cls(x.shape[2], size, weight.shape[1], kernel, geometry, x.dtype, x.device)


@functools.cache
def trusted_convolution(sizes: Sizes) -> frozenset[str]:
    """What of a convolution our kernels compute as torch does: "outputs", gradients of "inputs" and of "weights"."""
    if not _has_kernels(sizes.device):
        return frozenset()
    with settled():
        return _tried(sizes)


def _tried(sizes: Sizes) -> frozenset[str]:
    channels, size, outputs, kernel, geometry, dtype, device = sizes
    draws, models, samples = torch.Generator(device).manual_seed(0), *TRIED

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, generator=draws).to(dtype)

    x, weight = numbers(models, samples, channels, *size), numbers(models, outputs, channels, *kernel)
    y = _torch_outputs(x, weight, None, geometry)
    gradient = numbers(*y.shape)
    biases = None, numbers(models, outputs + 1)[:, 1:]  # one is a part of a row of parameters
    ours: dict[str, Compute] = {
        "outputs": lambda: tuple(_our_outputs(x, weight, bias, geometry) for bias in biases),
        "inputs": lambda: (_our_of_inputs(gradient, weight, geometry, size),),
        "weights": lambda: (_our_of_weights(gradient, x, weight, geometry),),
    }
    truth = {
        "outputs": tuple(_torch_outputs(x, weight, bias, geometry) for bias in biases),
        "inputs": (_torch_of_inputs(gradient, x, weight, geometry),),
        "weights": (_torch_of_weights(gradient, x, weight, geometry),),
    }
    return _alike(ours, truth, f"a convolution of {channels} channels, {size}, by weights {kernel}")


@functools.cache
def trusted_pool(shape: Ints, window: Ints, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether our kernels pool samples of this shape as torch does."""
    if not _has_kernels(device):
        return False
    draws, size = torch.Generator(device).manual_seed(0), tuple(shape[1:])
    x = torch.randn((1, 3, *shape), device=device, generator=draws).to(dtype)

    def ours() -> Tensors:
        y, where = _our_pooled(x, window)
        return y, _our_of_pooled(y, where, window, size)

    y, where = _torch_pooled(x, window)
    truth = y, _torch_of_pooled(y, where, window, size)
    return bool(
        _alike({"values or gradients": ours}, {"values or gradients": truth}, f"a max-pool of {shape}")
    )


@functools.cache
def trusted_norm(shape: Ints, groups: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether our kernels normalise samples of this shape as torch does."""
    if not _has_kernels(device):
        return False
    draws = torch.Generator(device).manual_seed(0)
    x, gradient = (torch.randn((2, 3, *shape), device=device, generator=draws).to(dtype) for _ in range(2))
    weight, bias = (torch.randn((2, shape[0]), device=device, generator=draws).to(dtype) for _ in range(2))

    def ours() -> Tensors:
        found = _our_normed(x, weight, bias, groups, 1e-5)
        return *found, *_our_of_normed(gradient, x, *found[1:], weight)

    found = _torch_normed(x, weight, bias, groups, 1e-5)
    truth = *found, *_torch_of_normed(gradient, x, *found[1:], weight)
    what = f"a group normalisation of {shape} in {groups} groups"
    return bool(_alike({"values or gradients": ours}, {"values or gradients": truth}, what))


def _alike(ours: Mapping[str, Compute], truth: Mapping[str, Tensors], what: str) -> frozenset[str]:
    """What is the same but for rounding; what is not, or cannot be compiled, is told."""
    wrong: dict[str, str] = {}
    for name, compute in ours.items():
        try:
            pairs = zip(compute(), truth[name], strict=True)
            if not all(_same(one, other) for one, other in pairs):
                wrong[name] = "are off here"
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a compiler raises
            wrong[name] = f"cannot be compiled here ({error})"
    for name, why in wrong.items():
        warnings.warn(f"{name} of {what}: our kernels {why}, torch computes it", stacklevel=3)
    return frozenset(ours) - wrong.keys()


def _same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    most = 1e-5 if ours.dtype == torch.float32 else 3e-2
    return bool((ours - theirs).float().norm() <= most * theirs.float().norm())


def _has_kernels(device: torch.device) -> bool:
    return device.type == "cuda" and _has_triton()


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


# --- by our kernels ---------------------------------------------------------------------------------------------------


def _our_outputs(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, geometry: Geometry
) -> torch.Tensor:
    from fedroam.learning.accelerator import kernels

    flat = len(geometry.stride) == 1
    return _first(kernels.outputs(_last(x, flat), _last(weight, flat), bias, _shape(weight, geometry)), flat)


def _our_of_inputs(
    gradient: torch.Tensor, weight: torch.Tensor, geometry: Geometry, size: Ints
) -> torch.Tensor:
    from fedroam.learning.accelerator import kernels

    flat, shape = len(geometry.stride) == 1, _shape(weight, geometry)
    found = kernels.input_gradient(_last(gradient, flat), _last(weight, flat), shape, *_image(size))
    return _first(found, flat)


def _our_of_weights(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, geometry: Geometry
) -> torch.Tensor:
    from fedroam.learning.accelerator import kernels

    flat = len(geometry.stride) == 1
    found = kernels.weight_gradient(_last(x, flat), _last(gradient, flat), _shape(weight, geometry))
    return _first(found, flat).to(weight.dtype)


def _our_pooled(x: torch.Tensor, window: Ints) -> tuple[torch.Tensor, torch.Tensor]:
    from fedroam.learning.accelerator import kernels

    both, flat = x.shape[:2], len(window) == 1
    y, where = kernels.pool(_last(x, flat).flatten(0, 1), _image(window))
    return _first(y.unflatten(0, both), flat), _first(where.unflatten(0, both), flat)


def _our_of_pooled(gradient: torch.Tensor, where: torch.Tensor, window: Ints, size: Ints) -> torch.Tensor:
    from fedroam.learning.accelerator import kernels

    both, flat = gradient.shape[:2], len(window) == 1
    own, places = (_last(each, flat).flatten(0, 1) for each in (gradient, where))
    found = kernels.pool_gradient(own, places, _image(window), *_image(size))
    return _first(found.unflatten(0, both), flat)


def _our_normed(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, groups: int, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    from fedroam.learning.accelerator import kernels

    y, mean, rate = kernels.normed(_places(x), weight, bias, groups, epsilon)
    return _unplaced(y, x), mean, rate


def _our_of_normed(
    gradient: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, rate: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    from fedroam.learning.accelerator import kernels

    of_x, of_weight, of_bias = kernels.norm_gradient(_places(gradient), _places(x), mean, rate, weight)
    return _unplaced(of_x, x), of_weight.to(weight.dtype), of_bias.to(weight.dtype)


def _shape(weight: torch.Tensor, geometry: Geometry) -> Any:
    """The sizes of a convolution as the kernels know them."""
    from fedroam.learning.accelerator import kernels

    stride, padding, dilation = geometry
    return kernels.Shape(
        _image(tuple(weight.shape[3:])), _image(stride), _image(padding, 0), _image(dilation)
    )


def _image(sizes: Ints, height: int = 1) -> tuple[int, int]:
    """Sizes of an image, of which sequences are such of height 1."""
    return (height, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def _last(x: torch.Tensor, flat: bool) -> torch.Tensor:
    """With the channels last, as they lie in memory; of sequences, images of height 1."""
    return (x.unsqueeze(3) if flat else x).permute(0, 1, 3, 4, 2).contiguous()


def _first(x: torch.Tensor, flat: bool) -> torch.Tensor:
    """The other way round; a view."""
    y = x.permute(0, 1, 4, 2, 3)
    return y.squeeze(3) if flat else y


def _places(x: torch.Tensor) -> torch.Tensor:
    """[models, n, channels, ...] as [models, n, places, channels], as it lies in memory."""
    return x.flatten(3).transpose(2, 3).contiguous() if x.ndim > 3 else x.unsqueeze(2).contiguous()


def _unplaced(y: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The other way round; a view."""
    if like.ndim == 3:
        return y.squeeze(2)
    found: torch.Tensor = y.transpose(2, 3).unflatten(3, like.shape[3:])
    return found


# --- by torch ---------------------------------------------------------------------------------------------------------


def _torch_outputs(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, geometry: Geometry
) -> torch.Tensor:
    models = len(x)
    own = None if bias is None else bias.flatten()
    convolve: Any = functional.conv2d if x.ndim == 5 else functional.conv1d
    return _ungrouped(convolve(_grouped(x), weight.flatten(0, 1), own, *geometry, models), models)


def _torch_of_inputs(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, geometry: Geometry
) -> torch.Tensor:
    return _ungrouped(_backward(gradient, x, weight, geometry, (True, False, False))[0], len(x))


def _torch_of_weights(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, geometry: Geometry
) -> torch.Tensor:
    return _backward(gradient, x, weight, geometry, (False, True, False))[1].view(weight.shape)


def _backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    geometry: Geometry,
    wanted: tuple[bool, bool, bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    models = len(x)
    found: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.ops.aten.convolution_backward(
        *(_grouped(gradient), _grouped(x), weight.flatten(0, 1), None),
        *(*(list(each) for each in geometry), False, [0] * len(geometry.stride), models, wanted),
    )
    return found


def _grouped(x: torch.Tensor) -> torch.Tensor:
    """[models, n, channels, ...] as [n, models x channels, ...]."""
    return x.transpose(0, 1).flatten(1, 2)


def _ungrouped(x: torch.Tensor, models: int) -> torch.Tensor:
    """The other way round."""
    return x.view(len(x), models, -1, *x.shape[2:]).transpose(0, 1)


def _torch_pooled(x: torch.Tensor, window: Ints) -> tuple[torch.Tensor, torch.Tensor]:
    both, flat = x.shape[:2], len(window) == 1
    own = x.flatten(0, 1).unsqueeze(2) if flat else x.flatten(0, 1)
    y, where = torch.ops.aten.max_pool2d_with_indices(own, _image(window))
    y, where = (each.unflatten(0, both) for each in (y, where))
    return (y.squeeze(3), where.squeeze(3)) if flat else (y, where)


def _torch_of_pooled(gradient: torch.Tensor, where: torch.Tensor, window: Ints, size: Ints) -> torch.Tensor:
    both, flat, kernel = gradient.shape[:2], len(window) == 1, _image(window)
    own, places = (
        each.flatten(0, 1).unsqueeze(2) if flat else each.flatten(0, 1) for each in (gradient, where)
    )
    like = own.new_empty((*own.shape[:2], *_image(size)))
    of_x: torch.Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
        own.contiguous(), like, kernel, kernel, (0, 0), (1, 1), False, places.contiguous()
    ).unflatten(0, both)
    return of_x.squeeze(3) if flat else of_x


def _torch_normed(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, groups: int, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    models, samples, channels = x.shape[:3]
    own = x.flatten(0, 1).contiguous()
    y, mean, rate = torch.native_group_norm(
        *(own, None, None, models * samples, channels, own[0, 0].numel(), groups, epsilon)
    )
    y = y.view(x.shape) * _by_channel(weight, x) + _by_channel(bias, x)
    return y, mean.view(models, samples, groups), rate.view(models, samples, groups)


def _torch_of_normed(
    gradient: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, rate: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    models, samples, channels = x.shape[:3]
    groups = mean.shape[2]
    sizes = (models * samples, channels, x[0, 0, 0].numel(), groups)
    own = (gradient * _by_channel(weight, x)).flatten(0, 1).contiguous()
    of_x, _, _ = torch.ops.aten.native_group_norm_backward(
        *(own, x.flatten(0, 1).contiguous(), mean.flatten(0, 1), rate.flatten(0, 1), None, *sizes),
        [True, False, False],
    )
    ones, rest = (1,) * (x.ndim - 3), tuple(range(3, x.ndim))
    middle, by = (
        each.repeat_interleave(channels // groups, 2).view(models, samples, channels, *ones)
        for each in (mean, rate)
    )
    of_weight = (gradient * (x - middle) * by).sum((1, *rest))
    return of_x.view(x.shape), of_weight, gradient.sum((1, *rest))


def _by_channel(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Values [models, channels] to go with x, [models, n, channels, ...]."""
    return values.view(len(values), 1, -1, *(1,) * (x.ndim - 3))
