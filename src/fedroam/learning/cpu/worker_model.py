"""A worker's own network, through which it computes every client's model, and what is found out about it first."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from torch import nn

from fedroam.components import ours
from fedroam.learning.cpu.fused_layers import quicken
from fedroam.learning.engine import Task
from fedroam.learning.half_precision import HalfPrecision, widened
from fedroam.learning.layout import Layout
from fedroam.learning.objective import NeedsWholeBatches
from fedroam.learning.samples import Samples, standard
from fedroam.models import draws, noise
from fedroam.randomness import torch_default_stream, torch_stream

ALIGNED = 64  # bytes: what torch allocates begins at a multiple


@dataclass(frozen=True)
class Nature:
    """What decides how a network may be computed.

    apart: each sample's output depends on that sample alone, nothing is drawn, and the objective does not ask for
    whole batches: a large batch may be computed in pieces. foreign: training draws from torch's global generator, so
    that only one may train at a time. plain: the network cannot work with channels-last images (it calls `view` on
    them, for instance). native: convolutions may be computed by kernels of ours.
    """

    apart: bool = False
    foreign: bool = False
    plain: bool = False
    native: bool = True


def worker_model(task: Task, nature: Nature) -> nn.Module:
    """A network of a worker's own, with quicker layers."""
    with torch_default_stream(task.seed, "worker's network"):
        module = task.network()
    if not nature.plain:
        return quicken(module, nature.native)
    for layer in module.modules():
        # Weights in rows are channels-last, and a convolution's result follows.
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(lambda _layer, _inputs, output: standard(output))
    return module


def aligned(row: torch.Tensor) -> torch.Tensor:
    """The row, or a copy of it where it does not begin as what torch allocates does, or is held in 16 bits.

    The bits of a product with a vector, such as a batch of one sample, depend on where in memory its matrix lies.
    """
    if isinstance(row, HalfPrecision):
        return widened(row)
    return row.clone() if row.data_ptr() % ALIGNED else row


def attach(module: nn.Module, layout: Layout, row: torch.Tensor) -> None:
    """Make the network's parameters views into a row."""
    parameters = dict(module.named_parameters())
    for entry in layout.parameters:
        # `.data` gives each view a version counter of its own; views of one base share theirs, and autograd
        # would take another worker's update for a change of this row.
        parameters[entry.name].data = entry.view(row.data)


@torch.no_grad()
def read_buffers(module: nn.Module, layout: Layout, row: torch.Tensor) -> None:
    """Copy a row of buffers into the network. (They stay copies: counters in them are whole numbers.)"""
    buffers = dict(module.named_buffers()) if layout.buffers else {}
    for entry in layout.buffers:
        buffers[entry.name].copy_(entry.view(row))


@torch.no_grad()
def write_buffers(module: nn.Module, layout: Layout, row: torch.Tensor) -> None:
    """Copy the network's buffers into a row."""
    buffers = dict(module.named_buffers()) if layout.buffers else {}
    for entry in layout.buffers:
        entry.view(row).copy_(buffers[entry.name])


def probe(task: Task) -> Nature:
    """Find out by training-mode forward passes on up to four samples of the task.

    Not every dependence between samples can be seen so; batch norms, and whatever acts like one, are.
    """
    nature = Nature()
    with torch_default_stream(task.seed, "probe"):
        for plain in (False, True):
            nature, works = _probe(task, plain)
            if works:
                return nature
    return Nature(foreign=nature.foreign)  # training itself will say what is wrong


def _probe(task: Task, plain: bool) -> tuple[Nature, bool]:
    module = worker_model(task, Nature(plain=plain)).train()
    row = torch.empty(task.layout.size)
    task.layout.write(module, row, torch.empty(task.layout.buffer_size))
    attach(module, task.layout, row)
    few = Samples(task.x[:4], task.y[:4], plain=plain)
    works, apart, before = False, False, torch.random.get_rng_state()
    with noise(torch_stream(task.seed, "probe")):
        try:
            whole, works = module(few.cut(0, 4)[0]), True
            whole_batches = isinstance(task.objective, NeedsWholeBatches) and task.objective.whole_batches
            if not draws(module) and not whole_batches and len(few) > 1:
                pieces = torch.cat([module(few.cut(k, k + 1)[0]) for k in range(len(few))])
                apart = pieces.shape == whole.shape and torch.allclose(pieces, whole, rtol=1e-3, atol=1e-4)
        except (RuntimeError, ValueError):  # a batch norm refuses a batch of one sample, for instance
            pass
        if not ours(task.objective):
            # One of the user's own may draw, too. It may need what jobs hand to it: training says what is wrong.
            with contextlib.suppress(Exception):
                task.objective.loss(module, *few.cut(0, len(few)))
    foreign = not torch.equal(before, torch.random.get_rng_state())
    return Nature(apart and not foreign, foreign, plain), works
