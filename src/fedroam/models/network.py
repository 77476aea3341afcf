"""The shape every network of fedroam shares: a feature extractor followed by a head."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import torch
from torch import nn

from fedroam.errors import InputError

Init = Literal["default", "kaiming_normal"]
MOST_PARAMETERS = 10**9  # of a network of fedroam's own: 4 GB for each client's
INIT = "start values: torch's own, or He et al. 2015 (normal, fan-in, biases 0)"


@runtime_checkable
class ModelBuilder(Protocol):
    """A kind of network."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A network for samples of this shape (as networks see them). Raises InputError where the shape does not fit.

        Start values are drawn from torch's default generator, which whoever builds lends.
        """


# What is said of a network that training could not change.
FROZEN = (
    "all parameters are frozen (requires_grad is False), so nothing can be learnt; allowed is one that is not"
)


class Network(nn.Module):
    """A feature extractor and a head: `forward(x) = head(extractor(x))`.

    extractor: samples [n, *shape] -> features [n, features]. head: the last linear layer, features ->
    logits [n, classes]. Personalised methods keep, share or swap the two (see `split`).
    notes: what is worth telling about how it was made, such as which pretrained weights were loaded.
    """

    def __init__(self, extractor: nn.Module, head: nn.Module, notes: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.extractor = extractor
        self.head = head
        self.notes = notes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [n, classes] of samples [n, *shape]."""
        logits: torch.Tensor = self.head(self.extractor(x))
        return logits


def split(module: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The `(extractor, head)` of a network, the very submodules (not copies).

    Raises InputError where the module does not declare both as submodules.
    """
    parts = dict(module.named_children())
    missing = [name for name in ("extractor", "head") if name not in parts]
    if missing:
        raise InputError(
            f"model {type(module).__name__} has no submodule {' and no '.join(missing)}: this method needs "
            f"both, with forward(x) = head(extractor(x)); found {', '.join(parts) or 'no submodules'}"
        )
    return parts["extractor"], parts["head"]


def image_shape(kind: str, shape: tuple[int, ...], classes: int, smallest: int = 1) -> tuple[int, int, int]:
    """`shape` as (channels, height, width), or InputError where model `kind` cannot take it.

    smallest: least height and width in pixels.
    """
    check(kind, shape, classes)
    if len(shape) != 3:
        raise InputError(f"model {kind!r}: input shape {shape}, allowed are images (channels, height, width)")
    channels, height, width = shape
    if min(height, width) < smallest:
        raise InputError(
            f"model {kind!r}: input shape {shape}, allowed are images of at least "
            f"{smallest}x{smallest} pixels"
        )
    return channels, height, width


def check(kind: str, shape: tuple[int, ...], classes: int) -> None:
    """InputError where `shape` has no or empty dimensions, or there is no class."""
    if not shape or min(shape) < 1:
        raise InputError(
            f"model {kind!r}: input shape {shape}, allowed are (features,) or (channels, height, width), "
            "all at least 1"
        )
    if classes < 1:
        raise InputError(f"model {kind!r}: {classes} classes, allowed is at least 1")


def within(kind: str, parameters: int) -> None:
    """InputError where a network would have more parameters than `MOST_PARAMETERS`."""
    if parameters > MOST_PARAMETERS:
        raise InputError(f"model {kind!r}: {parameters} parameters, allowed are up to {MOST_PARAMETERS}")


def initialise(network: Network, init: Init) -> Network:
    """Set the start values of all convolutions and linear layers, in place; returns the network.

    "default" leaves what torch drew. "kaiming_normal": weights from N(0, 2 / fan-in), biases 0; He et al.,
    "Delving deep into rectifiers", ICCV 2015, Eq. 10. Draws from torch's default generator, as torch's own
    initialisers do: whoever builds a network lends one (`fedroam.randomness.torch_default_stream`).
    """
    for layer in network.modules() if init == "kaiming_normal" else ():
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return network


def as_batch(x: torch.Tensor) -> torch.Tensor:
    """Rows of a data set as a network sees them: images become [n, channels, height, width], channels-last.

    A view: the memory stays [n, height, width, channels], which is what fast convolutions read.
    """
    return x.permute(0, 3, 1, 2) if x.dim() == 4 else x
