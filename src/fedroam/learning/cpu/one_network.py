"""Plain training of one network on samples at hand, as a server does it beside the clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedroam.learning.cpu.compiled.mlp import CompiledPerceptron, RowSteps
from fedroam.learning.cpu.mlp import recognise
from fedroam.learning.engine import Task
from fedroam.learning.layout import Layout
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.samples import Samples
from fedroam.learning.sums import torch_threads
from fedroam.learning.training import SGD
from fedroam.native import target


@torch_threads(1)
def descend(
    network: nn.Module, x: torch.Tensor, y: torch.Tensor, batches: Sequence[np.ndarray], lr: float
) -> None:
    """Train a network in place by SGD on the mean cross-entropy, a step for each of `batches`, int64 [samples] each.

    x: float32 [samples, ...]; y: int64 [samples]. Linear layers with ReLU between are one call of a kernel, where there
    is one: steps of one sample are so little arithmetic that autograd would take a hundred times as long.
    """
    batches = [batch for batch in batches if len(batch)]
    if not batches or _by_kernel(network, x, y, batches, lr):
        return
    parameters = [p for p in network.parameters() if p.requires_grad]
    for batch in map(torch.from_numpy, batches):
        gradients = torch.autograd.grad(functional.cross_entropy(network(x[batch]), y[batch]), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(gradient, alpha=lr)


def _by_kernel(
    network: nn.Module, x: torch.Tensor, y: torch.Tensor, batches: Sequence[np.ndarray], lr: float
) -> bool:
    """Whether a kernel has done it."""
    network = nn.Sequential(network)  # a layer alone has no name
    here, layout = target(), Layout.of(network)
    task = Task(lambda: network, layout, x, y, SGD(lr=lr), CrossEntropy(), 0)
    if here is None or x.device.type != "cpu" or (layers := recognise(network, task)) is None:
        return False
    kinds, inputs = (x.dtype, y.dtype), layers[0].weight.shape[1]
    if kinds != (torch.float32, torch.int64) or x.shape[1:] != (inputs,):
        return False  # torch says what is wrong, or can do it
    entries = [(layer.weight, layer.bias) for layer in layers]
    compiled = CompiledPerceptron(task, Samples(x, y), entries, 0.0, here, lambda: None)
    if max(map(len, batches)) > compiled.most:
        return False
    row, buffers = torch.zeros(layout.size), torch.zeros(layout.buffer_size)
    layout.write(network, row, buffers)
    compiled.train([RowSteps(row, None, None, 0.0, batches)], lr)
    layout.read(network, row, buffers)
    return True
