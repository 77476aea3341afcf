"""Pretrained weights from a local safetensors file with the usual ImageNet names (`conv1.weight`, ...)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError, safe_open

from fedroam.errors import InputError
from fedroam.models.network import Network
from fedroam.writing import checked_name

FirstConv = Literal["skip", "centre"]


@dataclass(frozen=True)
class Loaded:
    """What was taken from a file of weights. loaded: names in the file; skipped: name -> why."""

    path: str
    sha256: str
    loaded: tuple[str, ...]
    skipped: dict[str, str]

    def __str__(self) -> str:
        """One line for people: counts, and the skipped tensors by reason."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.skipped.items():
            reasons.setdefault(reason, []).append(name)
        said = [
            f"{', '.join(names) if len(names) < 4 else f'{len(names)} tensors'} ({reason})"
            for reason, names in reasons.items()
        ]
        return (
            f"weights {self.path} (sha256 {self.sha256[:12]}): loaded {len(self.loaded)} tensors; "
            f"skipped {'; '.join(said) or 'none'}"
        )


def load_weights(network: Network, path: str | Path, owner: str, first_conv: FirstConv = "skip") -> Loaded:
    """Copy the tensors of a safetensors file into a ResNet (numbers of any float type, converted to float32).

    Names: `fc.*` in the file is the head, all else the extractor. What may differ from the file:

    - `conv1.weight`: where the file's kernel is larger (7x7, ImageNet) than ours (3x3), "skip" keeps the
      random start and "centre" takes the middle 3x3. Another number of input channels: skipped.
    - `fc.*`: skipped where the number of classes differs.
    - norms: skipped where the file holds batch norms (running statistics) and the network group norms, since
      scales learnt for the one do not suit the other.

    Raises InputError, in one line with `owner` and the file, where the file is missing or not safetensors,
    lacks a tensor, has one too many, or has one of another shape or with values that are not finite. Then
    nothing has been copied.
    """
    where = f"{owner}: weights {path}"
    file = _read(Path(path), where)
    batch_norms = any(name.endswith("running_mean") for name in file)
    ours: dict[str, torch.Tensor] = {}
    norms: set[str] = set()
    for name, tensor in network.state_dict().items():  # its tensors share memory with the network
        ours[name.removeprefix("extractor.") if name.startswith("extractor.") else f"fc.{name[5:]}"] = tensor
    for name, layer in network.extractor.named_modules():
        if isinstance(layer, torch.nn.GroupNorm | torch.nn.BatchNorm2d):
            norms.add(name)
    skip_norms = batch_norms and not any(name.endswith("running_mean") for name in ours)

    taken: dict[str, torch.Tensor] = {}
    skipped: dict[str, str] = {}
    for name in sorted({*ours, *file}):
        if skip_norms and name.rpartition(".")[0] in norms:
            skipped[name] = "batch norms in the file, group norms here"
        elif name.endswith("num_batches_tracked"):
            continue  # a counter that default momentum never reads; old files lack it
        elif name not in file:
            raise InputError(f"{where}: lacks {name!r}, which the network needs; is it another architecture?")
        elif name not in ours:
            raise InputError(
                f"{where}: holds {name!r}, which the network has not; is it another architecture?"
            )
        else:
            fitted = _fit(name, file[name], ours[name], first_conv)
            if isinstance(fitted, str):
                skipped[name] = fitted
            elif fitted is None:
                raise InputError(
                    f"{where}: {name!r} has shape {_shape(file[name])}, allowed is {_shape(ours[name])}"
                )
            elif not fitted.isfinite().all():
                raise InputError(f"{where}: {name!r} holds values that are not finite")
            elif not fitted.to(ours[name].dtype).isfinite().all():
                raise InputError(f"{where}: {name!r} holds values beyond what {_type(ours[name])} can")
            else:
                taken[name] = fitted.to(ours[name].dtype)
    with torch.no_grad():
        for name, tensor in taken.items():
            ours[name].copy_(tensor)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return Loaded(str(path), digest, tuple(taken), skipped)


def _read(path: Path, where: str) -> dict[str, torch.Tensor]:
    if not checked_name(path).is_file():
        raise InputError(f"{where}: no such file; allowed is a local safetensors file")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{where}: not a safetensors file ({reason}); other formats are not read") from None


def _fit(
    name: str, theirs: torch.Tensor, ours: torch.Tensor, first_conv: FirstConv
) -> torch.Tensor | str | None:
    """The tensor to copy; or why it is skipped; or None where the shapes contradict each other."""
    if theirs.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        return None  # whole numbers, or 8-bit floats whose scale a file would have to say
    if theirs.shape == ours.shape:
        return theirs
    if name.startswith("fc.") and theirs.shape[1:] == ours.shape[1:]:
        return f"{theirs.shape[0]} classes in the file, {ours.shape[0]} here"
    if name == "conv1.weight" and theirs.dim() == 4 and theirs.shape[0] == ours.shape[0]:
        if theirs.shape[1] != ours.shape[1]:
            return f"{theirs.shape[1]} input channels in the file, {ours.shape[1]} here"
        kernel, small = theirs.shape[2], ours.shape[2]
        if theirs.shape[3] == kernel and kernel > small and (kernel - small) % 2 == 0:
            if first_conv == "skip":
                return f"{kernel}x{kernel} kernel in the file, {small}x{small} here"
            edge = (kernel - small) // 2
            return theirs[:, :, edge : edge + small, edge : edge + small]
    return None


def _type(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _shape(tensor: torch.Tensor) -> str:
    return f"{_type(tensor)} {list(tensor.shape)}"
