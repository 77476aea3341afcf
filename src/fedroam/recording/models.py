"""The models that a run ends with: kept beside its tables, each parameter as torch names and shapes it.

In `models.safetensors` the tensor `GROUP/PARAMETER` has a row for each model of a group. Groups are what clients are
judged by (`own`, `global`, ...; see `Federation.evaluation_models`) and `mean`, the model that stands for all. Which
row is a client's, the header says. Weights of convolutions lie there in torch's usual order, whatever order the run
computed in, so that no reader can mistake one for the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as made_in_memory
from torch import nn

from fedroam.components import Part, build
from fedroam.data import ArrayPreprocessing, TablePreprocessing
from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_facts
from fedroam.federation import EvaluationModels, Federation, network_of
from fedroam.learning import Models, make_network
from fedroam.models import ModelBuilder
from fedroam.recording.files import SHORT, FileFacts, read_json, save_tensors, write_bytes
from fedroam.writing import write_aside

FILE, DESCRIPTION = "models.safetensors", "preprocessing.json"
MEAN = "mean"  # the group of the model that stands for all
Keep = Literal["all", "mean", "none"]


class Groups(JsonObject):
    """The header of `models.safetensors`.

    headline: the group that `accuracy` is about. rows: by group, the row of each client's model, -1 for none.
    """

    format: Literal[1] = 1
    headline: str
    rows: dict[str, list[Annotated[int, Field(ge=-1)]]]


class NetworkInput(JsonObject):
    """`preprocessing.json`: what a network is fed, and what it answers.

    input_shape: of one sample as the network sees it, (channels, height, width) or (features,). classes: their names,
    in the order of the network's outputs. samples: how values of a file become what the network sees; None where the
    data source does not tell.
    """

    format: Literal[1] = 1
    input_shape: list[Annotated[int, Field(ge=1)]] = Field(min_length=1, max_length=3)
    classes: list[str] = Field(min_length=1)
    samples: Annotated[TablePreprocessing | ArrayPreprocessing, Field(discriminator="kind")] | None = None


@dataclass(frozen=True)
class FinalModels:
    """Models by group: `tensors["GROUP/PARAMETER"]` is float32 [models of the group, ...] or can be sliced like one."""

    groups: Groups
    tensors: Mapping[str, Any]
    source: str

    @classmethod
    def of(cls, models: Mapping[str, EvaluationModels], keep: Keep, source: str) -> FinalModels:
        """What clients are judged by, each model once; with `keep = "mean"` only what stands for all of them."""
        rows: dict[str, list[int]] = {}
        tensors: dict[str, Any] = {}
        headline = next(iter(models))
        clients = len(models[headline].row)
        for group, each in models.items():
            used, place = np.unique(each.row[each.row >= 0], return_inverse=True)
            if keep == "all" or (keep == "mean" and len(used) == 1):
                own = np.full(clients, -1)
                own[each.row >= 0] = place
                rows[group] = own.tolist()
                tensors |= {f"{group}/{k}": v for k, v in _in_torchs_order(each.models, used).items()}
        mean = models[headline].mean
        if mean is not None and MEAN not in rows and keep != "none":
            rows[MEAN] = [0] * clients
            tensors |= {f"{MEAN}/{k}": v for k, v in _in_torchs_order(mean, np.zeros(1, np.int64)).items()}
        return cls(Groups(headline=headline, rows=rows), tensors, source)

    def values(self, which: str | None = None, client: int | None = None) -> dict[str, np.ndarray]:
        """The parameters and buffers (float32, by torch's names) of one model.

        which: a group, by default the headline; client: whose, where a group has several. Raises InputError where there
        is no such model.
        """
        group = self.groups.headline if which is None else which
        there = self.groups.rows.get(group)
        if there is None:
            known = ", ".join(map(repr, self.groups.rows)) or "none"
            kept = (
                "" if group != self.groups.headline else " (the run was told to keep no others: keep_models)"
            )
            raise InputError(f"{self.source}: holds no model {group!r}; there are: {known}{kept}")
        if client is not None and not 0 <= client < len(there):
            raise InputError(f"{self.source}: client = {client}: allowed is 0 to {len(there) - 1}")
        if client is None:
            distinct = set(there) - {-1}
            if len(distinct) != 1:
                shared = [name for name, rows in self.groups.rows.items() if len(set(rows) - {-1}) == 1]
                said = f", or {' or '.join(map(repr, shared))}" if shared else ""
                raise InputError(
                    f"{self.source}: {group!r} are {len(distinct)} models: say whose, a client from 0 to "
                    f"{len(there) - 1}{said}"
                )
            row = distinct.pop()
        else:
            row = there[client]
        if row < 0:
            raise InputError(
                f"{self.source}: client {client} has no model {group!r}: it was never judged by one"
            )
        try:
            return {
                name.removeprefix(f"{group}/"): np.array(tensor[row])
                for name, tensor in self.tensors.items()
                if name.startswith(f"{group}/")
            }
        except (SafetensorError, IndexError) as error:
            raise InputError(f"{self.source}: damaged: {group!r} has no row {row} ({error})") from None

    def write(self, path: Path) -> FileFacts:
        """Write `models.safetensors`. Returns what a manifest says of it."""
        metadata = {"fedroam": json.dumps(self.groups.model_dump(), sort_keys=True)}
        tensors = dict(self.tensors)
        if sum(tensor.nbytes for tensor in tensors.values()) <= SHORT:
            return write_bytes(path, made_in_memory(tensors, metadata=metadata))
        write_aside(path, lambda aside: save_tensors(tensors, aside, metadata))
        return FileFacts.on_disk(path)


def _in_torchs_order(models: Models, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Each parameter and buffer of these rows, float32 [rows, ...], in torch's usual order of dimensions."""
    index, found = torch.from_numpy(rows), {}
    parts = ((models.layout.parameters, models.parameters), (models.layout.buffers, models.buffers))
    for entries, matrix in parts:
        for entry in entries:
            block = torch.empty(len(rows), *entry.shape)
            for k, row in enumerate(index.tolist()):
                block[k] = entry.view(matrix[row])
            found[entry.name] = block.numpy()
    return found


def read_models(path: Path) -> FinalModels:
    """The models in a file; values are read when they are asked for. Raises InputError where it is damaged."""
    try:
        file = safe_open(path, framework="numpy")
        header = json.loads((file.metadata() or {})["fedroam"])
        tensors = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except FileNotFoundError:
        raise InputError(f"{path}: missing") from None
    except (SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: damaged: {reason}") from None
    if not isinstance(header, dict):
        raise InputError(f"{path}: damaged: its header is no JSON object")
    checked_facts(header, Groups, path)
    return FinalModels(Groups(**header), tensors, str(path))


def network_input(path: Path) -> NetworkInput:
    """What `preprocessing.json` says. Raises InputError where it is missing or damaged."""
    facts = read_json(path)
    checked_facts(facts, NetworkInput, path)
    return NetworkInput(**facts)


def network(settings: Mapping[str, Any], fed: NetworkInput, source: str) -> nn.Module:
    """The network that a run's settings describe, on the CPU and in evaluation mode, with values of the moment.

    settings: of them, the sections `model` and `federation`. Nothing is imported: a model of the user's own must be
    known already (`fedroam.use`, or an `import` of what a `torch_module` names). Raises InputError, beginning with
    `source`, where it is not, or where it does not fit.
    """
    sections = [settings.get(name) for name in ("model", "federation")]
    if not all(isinstance(section, Mapping) for section in sections):
        raise InputError(f"{source}: its settings lack the section model or federation")
    # Start values from a file, which need not be here, are left out: others follow.
    described = {name: value for name, value in settings["model"].items() if name != "weights"}
    try:
        model = build("model", described)
        federation = build("federation", settings["federation"])
    except InputError as error:
        own = "; a part of your own is made known by --use FILE.py" if " kind " in str(error) else ""
        raise InputError(f"{source}: {error}{own}") from None
    assert isinstance(model, ModelBuilder)  # `register` has seen to it
    assert isinstance(federation, Federation)
    for name in model.imports() if isinstance(model, Part) else ():
        if name not in sys.modules:
            raise InputError(
                f"{source}: its model is made by the module {name!r}, and files import nothing by themselves: import "
                f"{name} first (on the command line: --import {name})"
            )
    shape, classes = tuple(fed.input_shape), len(fed.classes)
    try:
        return make_network(lambda: network_of(model, federation, shape, classes), seed=0).eval()
    except (RuntimeError, MemoryError, OverflowError) as error:  # of torch, where a size is absurd
        raise InputError(f"{source}: its network cannot be made ({error})") from None


def filled(module: nn.Module, values: Mapping[str, np.ndarray], source: str) -> nn.Module:
    """The module with these values. Raises InputError, beginning with `source`, where they are not those of it."""
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name in sorted({*own, *values}):
        if name not in own or name not in values:
            here = "the file" if name in values else "the network"
            raise InputError(f"{source}: only {here} has {name!r}: is the model another one?")
        if tuple(values[name].shape) != tuple(own[name].shape) or values[name].dtype.kind != "f":
            found = f"{values[name].dtype} {list(values[name].shape)}"
            raise InputError(f"{source}: {name!r} is {found}, expected {list(own[name].shape)}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(torch.from_numpy(np.asarray(values[name])))
    return module
