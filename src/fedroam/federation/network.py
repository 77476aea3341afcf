"""The network that a federation trains, made from the experiment's."""

from __future__ import annotations

from torch import nn

from fedroam.federation.protocol import AdaptsNetwork, Federation
from fedroam.models import ModelBuilder


def network_of(
    model: ModelBuilder, federation: Federation, shape: tuple[int, ...], classes: int
) -> nn.Module:
    """A network for samples of this shape (as networks see them), with start values of the moment."""
    network = model.build(shape, classes)
    return federation.adapt(network) if isinstance(federation, AdaptsNetwork) else network
