"""The user's own `torch.nn.Module` as a model."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.errors import FedroamError, InputError, own_line
from fedroam.models.dropout import noise, own_dropout
from fedroam.models.network import FROZEN, check
from fedroam.models.trial import state_of_its_own


@register("model", "torch_module")
class TorchModule(Part):
    """Any `torch.nn.Module` that maps samples [n, *shape] to logits [n, classes], all float32.

    The class (or a function annotated to return a module) is called with `arguments`, and with `shape` and `classes`
    if it has parameters of these names. Its dropout layers are replaced by `fedroam.models.Dropout`. For
    personalised methods it must declare submodules `extractor` and `head`, forward(x) = head(extractor(x)).

    Instead of using this part, a file loaded with `--use` can register a model of its own: see
    `fedroam.models`.
    """

    target: str = field(..., "what to build: 'package.module:Class'; the package must be importable")
    arguments: dict[str, Any] = field({}, "keyword arguments of the class")

    @override
    def imports(self) -> tuple[str, ...]:
        return (self.target.partition(":")[0],)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The module, on the CPU and in training mode, after one trial batch of two samples.

        Raises InputError where the target cannot be imported, called or trained as fedroam trains: not a
        module, wrong input or output shape, parameters that are missing, not float32 or all frozen, random draws
        outside `fedroam.models.Dropout`.
        """
        check(self.kind, shape, classes)
        maker = self._maker()
        try:
            accepted: Any = inspect.signature(maker).parameters
        except (TypeError, ValueError):  # classes written in C tell no signature
            accepted = ()
        given = {k: v for k, v in (("shape", shape), ("classes", classes)) if k in accepted}
        try:
            module = maker(**{**given, **self.arguments})
        except Exception as error:
            handed = " and ".join(f"{name} = {value}" for name, value in given.items())
            given_it = handed and f"; it was given {handed}"
            raise self._wrong(f"calling it failed: {_line(error)}{given_it}") from error
        if not isinstance(module, nn.Module):
            raise self._wrong(f"gives a {type(module).__name__}, allowed is a torch.nn.Module")
        module = own_dropout(module).train()
        self._try(module, shape, classes)
        return module

    def _maker(self) -> Callable[..., Any]:
        name, colon, attribute = self.target.partition(":")
        if not (name and colon and attribute):
            raise self._wrong("allowed is 'package.module:Class'")
        try:
            found: Any = importlib.import_module(name)
        except ImportError as error:
            raise self._wrong(f"cannot import {name!r} ({_line(error)}); is it on PYTHONPATH?") from error
        except Exception as error:
            raise self._wrong(f"importing {name!r} failed: {_line(error)}") from error
        for step in attribute.split("."):
            if not hasattr(found, step):
                raise self._wrong(f"{name!r} has no {attribute!r}")
            found = getattr(found, step)
        if not callable(found):
            raise self._wrong(f"is a {type(found).__name__}, allowed is a class or function")
        if not self._makes_modules(found):
            raise self._wrong(
                "is not called: allowed is a class of torch.nn.Module, or a function that says that it returns one "
                "(def make(...) -> torch.nn.Module)"
            )
        maker: Callable[..., Any] = found
        return maker

    def _makes_modules(self, found: Callable[..., Any]) -> bool:
        """Whether calling it can only be meant to make a module: an experiment file may have named anything."""
        given: Any = found
        if inspect.isfunction(found):
            try:
                given = get_type_hints(found).get("return")
            except Exception as error:
                raise self._wrong(f"its return annotation cannot be read: {_line(error)}") from None
        return isinstance(given, type) and issubclass(given, nn.Module)

    def _try(self, module: nn.Module, shape: tuple[int, ...], classes: int) -> None:
        """Train-mode forward of two samples on a copy, so that running statistics stay untouched."""
        x = torch.zeros(2, *shape)
        try:
            if any(is_lazy(p) for p in module.parameters()):
                with torch.no_grad():
                    module.eval()(x)  # lazy layers take their shapes (and start values) from a first batch
                module.train()
            with torch.random.fork_rng(devices=[]), torch.no_grad(), noise(torch.Generator()):
                before = torch.get_rng_state()
                logits = copy.deepcopy(module)(x)
                drew = not torch.equal(before, torch.get_rng_state())
        except FedroamError:
            raise
        except Exception as error:
            raise self._wrong(f"a batch of shape {list(x.shape)} fails: {_line(error)}") from error
        if not isinstance(logits, torch.Tensor) or logits.shape != (2, classes):
            found = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise self._wrong(f"output for 2 samples is {found}, allowed is [2, {classes}]")
        if drew:
            raise self._wrong(
                "draws from torch's global generator in training, where threads would share it; "
                "allowed is fedroam.models.Dropout"
            )
        if kept := state_of_its_own(module, x):
            raise self._wrong(kept)
        kinds = {p.dtype for p in module.parameters()}
        if kinds != {torch.float32}:
            raise self._wrong(
                f"parameters are {', '.join(sorted(map(str, kinds))) or 'missing'}, allowed is float32"
            )
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise self._wrong(FROZEN)

    def _wrong(self, what: str) -> InputError:
        return InputError(f"model.target = {self.target!r}: {what}")


def _line(error: BaseException) -> str:
    """The first line of an error, with its type, and where in the user's own file it was raised."""
    text = str(error).strip()
    return f"{type(error).__name__}{': ' + text.splitlines()[0] if text else ''}{own_line(error)}"
