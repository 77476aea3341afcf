"""Dropout whose masks come from a named stream, so that threads cannot disturb each other's draws.

torch's own dropout layers draw from one generator per process. Two workers that train clients at the same
time would share it, and results would depend on who drew first. Here a worker lends its own to the layers:

    with noise(torch_stream(seed, "dropout", round, client)):
        loss = objective(network(x), y)
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch
from torch import nn

from fedroam.errors import FedroamError, InputError


class _LentGenerator(threading.local):
    """The generator of the present thread. Thread-local, not a context variable: some Python builds copy the
    context into new threads, which would make two workers share one generator.
    """

    generator: torch.Generator | None = None


_lent = _LentGenerator()


@contextlib.contextmanager
def noise(generator: torch.Generator) -> Iterator[None]:
    """Let the dropout layers called by this thread draw from `generator`, until the block ends.

    Blocks nest; other threads do not see it. The generator must live on the device of the activations.
    """
    before = _lent.generator
    _lent.generator = generator
    try:
        yield
    finally:
        _lent.generator = before


class Dropout(nn.Module):
    """Set entries to zero with probability `p` and scale the others by 1/(1-p); nothing in evaluation mode.

    With `channels`, whole channels fall together: an input [n, channels, ...] gets one draw for each sample
    and channel. Shape and type are kept. The mask depends on the generator and the shape alone, not on how
    the input lies in memory, so that engines with different layouts drop the same entries.
    Raises FedroamError in training mode if no generator is lent (see `noise`).

    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 15, 2014;
    whole channels: Tompson et al., CVPR 2015.
    """

    def __init__(self, p: float = 0.5, channels: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise InputError(f"dropout probability = {p}, allowed is 0 to 1")
        self.p = p
        self.channels = channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` of any shape; with `channels`, [n, channels, ...] of at least two dimensions."""
        return x if not self.training or self.p == 0 else x * self.mask(x)

    def mask(self, x: torch.Tensor) -> torch.Tensor:
        """What training multiplies `x` by, drawn anew with each call; where p is 1 a single 0, which nobody draws."""
        generator = _lent.generator
        if generator is None:
            raise FedroamError(
                "dropout in training mode has no random stream: wrap the call in "
                "`with fedroam.models.noise(generator):`, or call .eval() first"
            )
        if self.p == 1:
            return x.new_zeros(())
        like = x[(...,) + (slice(1),) * (x.dim() - 2)] if self.channels else x
        # empty_like, not empty(shape): under torch.func.vmap it keeps the mapped dimension.
        mask = torch.empty_like(like, memory_format=torch.contiguous_format)
        return mask.bernoulli_(1 - self.p, generator=generator).mul_(1 / (1 - self.p))

    def extra_repr(self) -> str:
        """What `repr` shows inside the brackets."""
        return f"p={self.p}" + (", channels=True" if self.channels else "")


_TORCHS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)  # all but the first drop whole channels


def own_dropout(module: nn.Module) -> nn.Module:
    """Replace torch's dropout layers (plain, 1d, 2d, 3d) in `module` by `Dropout`, in place; returns it.

    A layer that stands at several places is replaced by one layer. If `module` is itself a dropout layer, its
    replacement is returned. Calls of `torch.nn.functional.dropout` and subclasses of the layers are not seen.
    """
    ours: dict[int, Dropout] = {}

    def replacement(layer: nn.Module) -> nn.Module:
        if not isinstance(layer, _TORCHS) or type(layer) not in _TORCHS:
            return layer
        if id(layer) not in ours:
            channels = not isinstance(layer, nn.Dropout)
            ours[id(layer)] = Dropout(layer.p, channels).train(layer.training)
        return ours[id(layer)]

    for owner in list(module.modules()):
        # Not named_children(): it shows a layer once, however many names it has.
        for name, layer in owner._modules.items():
            if layer is not None:
                owner._modules[name] = replacement(layer)
    return replacement(module)


def draws(module: nn.Module) -> bool:
    """Whether training `module` needs a generator: it holds a `Dropout` with p above 0."""
    return any(isinstance(layer, Dropout) and layer.p > 0 for layer in module.modules())
