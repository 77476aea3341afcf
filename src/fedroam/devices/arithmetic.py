"""The arithmetic of training, counted: floating-point operations of one pass of one sample."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules import batchnorm, instancenorm, pooling
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry
from typing_extensions import override

from fedroam.errors import InputError
from fedroam.learning.objective import IsHanded, Objective
from fedroam.models.dropout import Dropout

NORM = 7  # for each value: mean 1, variance 2, normalise 2, scale and shift 2
_NORMS = (batchnorm._BatchNorm, instancenorm._InstanceNorm, nn.GroupNorm, nn.LayerNorm)
_POOLS = (pooling._MaxPoolNd, pooling._AvgPoolNd)
_ADAPTIVE = (pooling._AdaptiveMaxPoolNd, pooling._AdaptiveAvgPoolNd)
_FUSED = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Transformer)
_POINTWISE = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, Dropout)


@dataclass(frozen=True)
class Arithmetic:
    """Floating-point operations of one sample, counted as `training_flops` does.

    training: of a pass of plain training, forward and backward. objective: the same where the objective is the run's,
    with whatever that computes beside it. network, extractor: of a forward pass through the whole network, and through
    the part of it that makes features (0 where it declares none).
    """

    training: float
    objective: float
    network: float
    extractor: float

    @classmethod
    def of(cls, network: nn.Module, input_shape: tuple[int, ...], objective: Objective) -> Arithmetic:
        """Those of a network as it is trained, and of the loss that it lowers.

        Raises InputError where the objective is handed something of which it does not say the shape.
        """
        extractor = dict(network.named_children()).get("extractor")
        return cls(
            training_flops(network, input_shape),
            objective_flops(network, input_shape, objective),
            forward_flops(network, input_shape),
            0.0 if extractor is None else forward_flops(extractor, input_shape),
        )


def objective_flops(network: nn.Module, input_shape: tuple[int, ...], objective: Objective) -> float:
    """Floating-point operations of training a network on one sample by an objective, counted as `training_flops` does:
    whatever the objective has pass through parts of the network or multiplies, forward and backward.

    It is asked for a batch of that sample alone: what it computes once a batch counts once a sample. Raises InputError
    where the objective is handed something of which it does not say the shape (`IsHanded`).
    """

    def work(module: nn.Module, sample: torch.Tensor) -> Callable[[], torch.Tensor]:
        handed = objective.handed_like(module, sample) if isinstance(objective, IsHanded) else {}
        y = torch.zeros(1, dtype=torch.int64, device=sample.device)
        return lambda: objective.loss(module, sample, y, **handed)

    try:
        return _forward_and_back(network, input_shape, work)
    except KeyError as error:
        raise InputError(
            f"objective {type(objective).__name__}: it is handed {error}, and does not say of which shape; it needs "
            "the method handed_like"
        ) from None


def forward_flops(network: nn.Module, input_shape: tuple[int, ...]) -> float:
    """Floating-point operations of passing one sample forward through a network, counted as `training_flops` does."""

    def work(module: nn.Module, sample: torch.Tensor) -> Callable[[], torch.Tensor]:
        return lambda: module(sample).detach()

    products, small = _looked_at(network, input_shape, work)
    return float(products + small)


def training_flops(network: nn.Module, input_shape: tuple[int, ...]) -> float:
    """Floating-point operations of training a network on one sample: forward and backward.

    input_shape: of a sample as the network sees it, without the batch. Products are counted as they are computed, an
    addition and a multiplication each, by torch's own counter: convolutions, linear layers, whatever else multiplies
    matrices, forward and for the gradients of weights and inputs (none for the samples themselves). So backward costs
    twice forward, but for the first layer, and nothing where weights are frozen. Besides, for layers known by their
    class: norms cost 7 for each value, pooling one for each value looked at, activations one for each value; backward
    twice that. The update by the optimiser is not counted: it is one of a batch, not of a sample.

    A copy is looked at, and the network stays as it was. Nothing is computed but shapes, where the network allows it,
    and it is not one of plain layers: for shapes torch imports its compiler, which takes as long as many samples.
    """
    return _forward_and_back(network, input_shape, lambda module, sample: lambda: module(sample))


# work(network, sample): makes the computation that is counted; what it does itself is not.
Work = Callable[[nn.Module, torch.Tensor], Callable[[], torch.Tensor]]


def _forward_and_back(network: nn.Module, input_shape: tuple[int, ...], work: Work) -> float:
    products, small = _looked_at(network, input_shape, work)
    return float(products + 3 * small)


def _looked_at(network: nn.Module, input_shape: tuple[int, ...], work: Work) -> tuple[int, int]:
    """The operations of products, and forward those of norms, pooling and activations, by a copy of a network."""
    if _plain(network):
        return _counted(copy.deepcopy(network), input_shape, work)
    try:
        return _counted(copy.deepcopy(network).to("meta"), input_shape, work)
    except Exception:  # a network that looks at values, which shapes do not have
        return _counted(copy.deepcopy(network), input_shape, work)


def _plain(network: nn.Module) -> bool:
    """Whether torch computes a network product by product, which the table of operations knows, on a processor, too."""
    known = ("torch.nn.modules.", "fedroam.models.")
    return not any(
        isinstance(module, _FUSED) or not type(module).__module__.startswith(known)
        for module in network.modules()
    )


def _counted(network: nn.Module, input_shape: tuple[int, ...], work: Work) -> tuple[int, int]:
    """The same by a network whose gradients and statistics nobody needs."""
    network.eval()  # one sample is no batch to normalise by, and dropout must not draw
    like = next(network.parameters(), torch.zeros(0))
    sample = torch.zeros((1, *input_shape), dtype=like.dtype, device=like.device)
    with torch.no_grad():
        computed = work(network, sample)
    with _small(network) as small, _Products() as products, torch.enable_grad():
        outputs = computed()
        if outputs.requires_grad:
            outputs.sum().backward()
    return products.flops, sum(small)


class _Products(TorchDispatchMode):
    """Counts the operations of products within by torch's table. `FlopCounterMode` counts the same, by module, and
    imports torch's compiler to be left out of it, which takes seconds before every run."""

    @override
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    @override
    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        count = flop_registry.get(func._overloadpacket)
        if count is None and func is not torch.ops.prim.device.default:
            with self:  # what is made of others is counted by them
                parts = func.decompose(*args, **named)
            if parts is not NotImplemented:
                return parts
        output = func(*args, **named)
        if count is not None:
            self.flops += count(*args, **named, out_val=output)
        return output


@contextlib.contextmanager
def _small(network: nn.Module) -> Iterator[list[int]]:
    """Collects within what norms, pooling and activations cost, forward."""
    found: list[int] = []

    def told(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        found.append(_forward(module, inputs[0], output))

    handles = [
        module.register_forward_hook(told)
        for module in network.modules()
        if isinstance(module, (*_NORMS, *_POOLS, *_ADAPTIVE, *_POINTWISE))
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _forward(module: nn.Module, given: torch.Tensor, output: torch.Tensor) -> int:
    """Operations of a norm, pooling or activation."""
    if isinstance(module, _NORMS):
        return NORM * output.numel()
    if isinstance(module, _POOLS):
        size: Any = module.kernel_size  # one width for all directions, or one for each
        window = math.prod(size) if isinstance(size, tuple) else size ** (output.dim() - 2)
        return int(window * output.numel())
    return given.numel()
