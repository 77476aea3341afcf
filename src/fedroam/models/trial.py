"""A trial of a registered model part before anything is learnt with it: what kernels compute, they do not check."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from hashlib import sha256

import numpy as np
import torch
from torch import nn

from fedroam.errors import FedroamError, InputError, own_line
from fedroam.models.dropout import noise
from fedroam.models.network import FROZEN, ModelBuilder
from fedroam.randomness import torch_default_stream


def try_out(
    part: ModelBuilder, kind: str, shape: tuple[int, ...], classes: int, seed: int, *, logits: bool = True
) -> None:
    """Build a network twice, and compute two samples of this shape with it (as networks see them).

    logits: whether its output must be [2, classes], as it need not be where an objective of the user's own reads it.
    Raises InputError, with the kind and the line of the user's own file, where that fails, where the output is another,
    where no parameter can be trained, where building it sets torch's default generator, where the network keeps
    something in Python between batches, or the trial cannot be repeated: where start values differ though torch's
    default generator is the same, or evaluating the same samples twice gives other numbers.
    """

    def wrong(what: str) -> InputError:
        return InputError(f"model kind {kind!r}: {what}")

    networks = []
    for _ in range(2):
        with torch_default_stream(seed, "trial of a model"):
            given = torch.initial_seed()
            networks.append(part.build(shape, classes))
            if torch.initial_seed() != given:
                raise wrong(
                    "its build sets torch's default generator (torch.manual_seed), so that all seeds begin alike; "
                    "allowed are draws from it: it is set before a network is built"
                )
    network, again = networks
    if not isinstance(network, nn.Module):
        raise wrong(f"build gives a {type(network).__name__}, allowed is a torch.nn.Module")
    values, others = network.state_dict(), again.state_dict()
    kinds = {value.dtype for value in network.parameters()}
    if kinds != {torch.float32}:
        found = ", ".join(sorted(map(str, kinds))) or "missing"
        raise wrong(f"parameters are {found}, allowed is float32")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise wrong(FROZEN)
    if values.keys() != others.keys() or not all(torch.equal(values[k], others[k]) for k in values):
        raise wrong(
            "two networks that are built alike have different start values: allowed are draws from torch's default "
            "generator, which is set before a network is built"
        )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
        try:
            with noise(torch.Generator()):
                trained = copy.deepcopy(network).train()(x)
            network.eval()
            first, second = network(x), network(x)
        except FedroamError:
            raise
        except Exception as error:
            line = " ".join(f"{type(error).__name__}: {error}".split())
            raise wrong(f"a batch of shape {list(x.shape)} fails: {line}{own_line(error)}") from error
    for found in (trained, first):
        if not isinstance(found, torch.Tensor) or (logits and found.shape != (2, classes)):
            told = list(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            raise wrong(f"the output of 2 samples is {told}, allowed is [2, {classes}]")
    if kept := state_of_its_own(network, x):
        raise wrong(kept)
    if not torch.equal(first, second):
        raise wrong(
            "the same samples give other numbers each time they are evaluated: allowed are draws in training"
        )


# What each module has of torch's: parameters and buffers are each model's own, and modules are looked at themselves.
TORCHS_OWN = frozenset(vars(nn.Module()))


def _as_text(value: object) -> str:
    """What a module keeps, as text that is another one when it has changed; empty for what cannot be looked into."""
    if isinstance(value, bool | int | float | str | bytes | complex):
        return repr(value)  # as text NaN is what it was
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.device.type == "meta":
            return ""
        bits = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)  # numpy knows no bfloat16
        return f"{value.dtype}{list(value.shape)}{sha256(bits.numpy().tobytes()).hexdigest()}"
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return ""
        return f"{value.dtype}{value.shape}{sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, torch.Generator):
        return sha256(value.get_state().numpy().tobytes()).hexdigest()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, Mapping):
        return repr([(repr(key), _as_text(each)) for key, each in value.items()])
    if isinstance(value, list | tuple | deque | set | frozenset):
        return repr([_as_text(each) for each in value])
    return ""


def state_of_its_own(network: nn.Module, x: torch.Tensor) -> str:
    """What a network keeps in Python from one batch to the next in training, in words; empty where it is nothing.

    A count of batches, say, by which something is annealed, a tensor that is no buffer, or a generator: a network
    computes for whichever client comes to its thread, and no row of the models and no checkpoint has it. What is the
    same after each batch (a shape) does no harm.
    """
    tried, seen = copy.deepcopy(network).train(), []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for _ in range(3):
            with noise(torch.Generator()):
                tried(x)
            seen.append(
                {
                    (place, type(module).__name__, name): _as_text(value)
                    for place, module in tried.named_modules()
                    for name, value in vars(module).items()
                    if name not in TORCHS_OWN
                }
            )
    for (place, owner, name), value in seen[2].items():
        if seen[1].get((place, owner, name)) != value:
            return (
                f"{owner}.{name} changes from batch to batch, and those who train would share it; allowed is what each "
                f"model has of its own: self.register_buffer({name!r}, torch.tensor(...))"
            )
    return ""


def one_sample_fails(network: nn.Module, shape: tuple[int, ...]) -> str:
    """How training with a batch of one sample of this shape fails, in a line, where one of two samples does not; else
    nothing. Batch normalisation has no variance of one value.
    """
    trained = copy.deepcopy(network).train()  # running statistics stay as they are
    with torch.random.fork_rng(devices=[]), torch.no_grad(), noise(torch.Generator()):
        try:
            trained(torch.zeros(2, *shape))
        except Exception:  # it fails for another reason, which whoever trains it tells
            return ""
        try:
            trained(torch.zeros(1, *shape))
        except Exception as error:
            return " ".join(f"{type(error).__name__}: {error}".split())
    return ""
