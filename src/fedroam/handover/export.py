"""Models as files of common formats, with what is needed to use them."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from safetensors.torch import save
from torch import nn

from fedroam.checks.arguments import checked
from fedroam.errors import FedroamError, InputError, MissingExtraError
from fedroam.facts import JsonObject
from fedroam.handover.final import FinalModel
from fedroam.randomness import stream
from fedroam.recording import write_json
from fedroam.recording.files import FileFacts, write_bytes
from fedroam.recording.models import DESCRIPTION
from fedroam.writing import make_folder

Format = Literal["safetensors", "state_dict", "onnx", "torchscript"]
MODEL = "model.json"
ONNX_NEEDS = ("onnx", "onnxscript", "onnxruntime")
LARGEST_ONNX = 2**31 - 1  # bytes: what one file of protocol buffers can hold


class Exported(JsonObject):
    """`model.json`: which model it is, in which file, and the settings that make its network.

    which, client: the group and whose (see `Run.model`). run: name, variant, seed, digest and round. accuracy: what the
    run recorded of it. settings: the sections `model` and `federation` of the experiment.
    """

    format: Literal[1] = 1
    to: Format
    file: str = Field(pattern=r"^[A-Za-z0-9_]+\.[a-z]+$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    which: str
    client: Annotated[int, Field(ge=0)] | None
    accuracy: Annotated[float, Field(ge=0, le=1)] | None
    run: dict[str, Any]
    settings: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class _Writer:
    """How a format is written: its name, the file's name, and its bytes."""

    format: Format
    file: str
    content: Callable[[nn.Module, tuple[int, ...]], bytes]


@checked(model="a model, as final_model(...) gives one")
def export_model(model: FinalModel, to: str, folder: str | Path) -> Path:
    """Write a model into a folder of its own (made if need be), and return the model's file.

    `safetensors` and `state_dict` hold the values of `module.state_dict()`; `onnx` and `torchscript` the computation,
    too: samples, float32 [n, *input_shape], to logits, float32 [n, classes]. Beside it go `preprocessing.json` (how
    values of a file become samples, and the classes' names) and `model.json`. What is computed elsewhere is compared
    with what the module computes before the folder is whole.

    Raises InputError where the folder holds anything, the format is unknown or cannot express the model;
    MissingExtraError where a package is missing.
    """
    if to not in FORMATS:
        raise InputError(f"--to {to!r}: allowed are {', '.join(FORMATS)}")
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there and not an empty folder; choose another --out")
    writer = FORMATS[to]
    content = writer.content(model.module, tuple(model.fed.input_shape))
    make_folder(folder)
    facts = write_bytes(folder / writer.file, content)
    write_json(folder / DESCRIPTION, model.fed.model_dump())
    write_json(folder / MODEL, _described(model, writer, facts).model_dump())
    return folder / writer.file


def _described(model: FinalModel, writer: _Writer, facts: FileFacts) -> Exported:
    status = model.run.status
    return Exported(
        to=writer.format,
        file=writer.file,
        sha256=facts.sha256,
        which=model.which,
        client=model.client,
        accuracy=model.accuracy,
        run={name: status[name] for name in ("name", "variant", "seed", "digest", "round")},
        settings={name: dict(model.run.settings[name]) for name in ("model", "federation")},
    )


def _values(module: nn.Module) -> dict[str, torch.Tensor]:
    """The state dict, in torch's usual order of dimensions, nothing shared."""
    return {
        k: v.detach().clone(memory_format=torch.contiguous_format) for k, v in module.state_dict().items()
    }


def _state_dict(module: nn.Module, shape: tuple[int, ...]) -> bytes:
    """A pickle, as `torch.save` writes it, which others read as weights only; fedroam itself reads none."""
    buffer = io.BytesIO()
    torch.save(_values(module), buffer)
    return buffer.getvalue()


def _torchscript(module: nn.Module, shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    with _quietly(), torch.no_grad():
        try:
            traced = torch.jit.trace(module, (_samples(2, shape),), check_trace=False)
            torch.jit.save(traced, buffer)
        except Exception as error:  # of the user's module, or of what torch cannot trace in it
            raise _cannot("torchscript", error) from None
    with torch.no_grad():
        _same("torchscript", module, shape, lambda x: np.asarray(traced(x).numpy()))
    return buffer.getvalue()


def _onnx(module: nn.Module, shape: tuple[int, ...]) -> bytes:
    if any(find_spec(name) is None for name in ONNX_NEEDS):
        raise MissingExtraError("--to onnx", "onnx")
    if sum(value.nbytes for value in module.state_dict().values()) > LARGEST_ONNX:
        raise InputError("--to onnx: allowed are models of up to 2 GB; safetensors has no limit")
    import onnxruntime

    with _quietly(), torch.no_grad():
        try:
            program = torch.onnx.export(
                module,
                (_samples(2, shape),),
                dynamo=True,
                verbose=False,
                input_names=["samples"],
                output_names=["logits"],
                dynamic_shapes=({0: torch.export.Dim("n")},),
            )
            assert program is not None  # with dynamo and without a file
            content: bytes = program.model_proto.SerializeToString()
        except Exception as error:  # of the user's module, or of what torch cannot export of it
            raise _cannot("onnx", error) from None
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        _same("onnx", module, shape, lambda x: np.asarray(session.run(None, {"samples": x.numpy()})[0]))
    return content


FORMATS: dict[str, _Writer] = {
    writer.format: writer
    for writer in (
        _Writer("safetensors", "model.safetensors", lambda module, shape: save(_values(module))),
        _Writer("state_dict", "model.pt", _state_dict),
        _Writer("onnx", "model.onnx", _onnx),
        _Writer("torchscript", "model.torchscript", _torchscript),
    )
}


def _samples(count: int, shape: tuple[int, ...]) -> torch.Tensor:
    draws = stream(0, "hand-over samples", count)
    return torch.from_numpy(draws.standard_normal((count, *shape)).astype(np.float32))


def _same(
    to: str, module: nn.Module, shape: tuple[int, ...], compute: Callable[[torch.Tensor], np.ndarray]
) -> None:
    """Raise InputError where what was written computes something else than the module, for one sample or several."""
    for count in (1, 2, 7):
        x = _samples(count, shape)
        expected = module(x).numpy()
        try:
            found = compute(x)
        except Exception as error:
            raise _cannot(to, error) from None
        if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-3, atol=1e-4):
            raise InputError(
                f"--to {to}: what was written computes other numbers than the module for {count} samples: does its "
                "forward depend on values or on the size of a batch? safetensors and state_dict hold its values alone"
            )


def _cannot(to: str, error: Exception) -> FedroamError:
    text = str(error).strip().splitlines()
    told = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return InputError(
        f"--to {to}: torch cannot express this model so ({told}); safetensors and state_dict hold its values alone"
    )


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the remarks of torch on its own affairs, such as packages that it would like and nobody needs."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
