"""Predictions for new rows, by a model that was exported."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.lib.format as npy
import torch
from safetensors import SafetensorError
from safetensors.torch import load

from fedroam.checks.arguments import checked
from fedroam.data import TablePreprocessing
from fedroam.data.sources.tables import (
    SEPARATORS,
    is_separator,
    other_separator,
    read_header,
    read_table,
)
from fedroam.errors import InputError, MissingExtraError
from fedroam.facts import checked_facts
from fedroam.handover.export import MODEL, Exported
from fedroam.recording import read_json
from fedroam.recording.models import DESCRIPTION, NetworkInput, filled, network, network_input

if TYPE_CHECKING:
    import pandas as pd

BATCH = 500
Compute = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Predictions:
    """What a model answers to samples.

    classes: names of the classes. probabilities: float64 [samples, classes]. correct: bool [samples], where the file
    told the class; else None. notes: what is worth telling of the file.
    """

    classes: tuple[str, ...]
    probabilities: np.ndarray
    correct: np.ndarray | None
    notes: tuple[str, ...]

    @property
    def answers(self) -> np.ndarray:
        """The likeliest class of each sample, int64 [samples]."""
        return np.asarray(self.probabilities.argmax(1))

    def table(self, all_classes: bool = False) -> pd.DataFrame:
        """row (from 1), class, probability; with `all_classes` also the probability of each, as `p(NAME)`."""
        import pandas as pd

        answers = self.answers
        columns = {
            "row": np.arange(1, len(answers) + 1),
            "class": np.array(self.classes, dtype=object)[answers],
            "probability": self.probabilities[np.arange(len(answers)), answers],
        }
        if all_classes:
            columns |= {f"p({name})": self.probabilities[:, k] for k, name in enumerate(self.classes)}
        return pd.DataFrame(columns)


@checked()
def predict(
    folder: str | Path, file: str | Path, label: str | None = None, separator: str | None = None
) -> Predictions:
    """What an exported model (a folder that `export_model` wrote: safetensors or onnx) answers to the rows of a file.

    file: CSV with a header line; or .npy, samples as the run's data source holds them: [n, features], [n, height,
    width] or [n, height, width, channels], with `layout = "channels_first"` [n, channels, height, width]. Values are
    those of the original files: `preprocessing.json` is applied. Columns of a table are found by name, others are not
    looked at. label: the column of classes, if there is one (default: as in the files that were learnt from), for
    `correct`. separator: what stands between cells of a CSV file (default: as in the files that were learnt from).

    Reading a model runs nothing: values are safetensors, and ONNX Runtime computes what a graph says. Raises
    InputError for what is wrong with the model or the file.
    """
    home, path = Path(folder), Path(file)
    if not (home / MODEL).exists():
        raise InputError(f"{home / MODEL}: missing; allowed is a folder that fedroam export wrote")
    facts = read_json(home / MODEL)
    checked_facts(facts, Exported, home / MODEL)
    exported, fed = Exported(**facts), network_input(home / DESCRIPTION)
    compute = _reader(home, exported, fed)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    notes: list[str] = []
    with np.errstate(all="ignore"):  # what is not finite is refused
        x, actual = _samples(path, fed, label, separator, notes)
    logits = []
    with torch.no_grad():
        for some in torch.from_numpy(x).split(BATCH):
            found = compute(some)
            if tuple(found.shape) != (len(some), len(fed.classes)):
                raise InputError(
                    f"{home / exported.file}: answers {list(found.shape)} to {len(some)} samples, expected "
                    f"[{len(some)}, {len(fed.classes)}]"
                )
            logits.append(found)
    probabilities = torch.cat(logits).double().softmax(1).numpy()
    correct = None
    if actual is not None:
        known = np.array(fed.classes, dtype=object)
        correct = np.asarray(known[torch.cat(logits).argmax(1).numpy()] == actual)
        strangers = sorted(set(actual.tolist()) - set(fed.classes))
        if strangers:
            notes.append(
                f"classes that the model does not know count as wrong answers: {', '.join(strangers[:5])}"
            )
    return Predictions(tuple(fed.classes), probabilities, correct, tuple(notes))


def _reader(home: Path, exported: Exported, fed: NetworkInput) -> Compute:
    """What computes the logits of samples."""
    path = home / exported.file
    if exported.to not in ("safetensors", "onnx"):
        raise InputError(
            f"{path}: {exported.to} can run code when it is read; predict reads safetensors and onnx: export the model "
            "once more"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if hashlib.sha256(content).hexdigest() != exported.sha256:
        raise InputError(f"{path}: damaged: its SHA-256 is not the one that {MODEL} says")
    return _graph(path, content, fed) if exported.to == "onnx" else _module(path, content, exported, fed)


def _module(path: Path, content: bytes, exported: Exported, fed: NetworkInput) -> Compute:
    try:
        values = {name: tensor.float().numpy() for name, tensor in load(content).items()}
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: damaged: {str(error).splitlines()[0]}") from None
    module = network(exported.settings, fed, str(path.parent))
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    stated = module.state_dict()
    # A parameter that two layers share has two names in a state dict, and one here; a buffer that is a constant, none.
    given = {name: tensor.numpy() for name, tensor in own.items() if name not in stated}
    given |= {name: value for name, value in values.items() if name in own or name not in stated}
    return filled(module, given, str(path))


def _graph(path: Path, content: bytes, fed: NetworkInput) -> Compute:
    if find_spec("onnxruntime") is None:
        raise MissingExtraError("Predicting with onnx", "onnx")
    import onnxruntime

    try:
        # From bytes, so that a graph can name no other file.
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
    except Exception as error:  # of onnxruntime's own kinds
        raise InputError(f"{path}: not a model that ONNX Runtime reads ({str(error)[:200]})") from None
    if len(names) != 1:
        raise InputError(f"{path}: a graph of {len(names)} inputs, allowed is one: samples")

    def compute(x: torch.Tensor) -> torch.Tensor:
        try:
            return torch.from_numpy(np.array(session.run(None, {names[0]: x.numpy()})[0]))
        except Exception as error:
            raise InputError(f"{path}: ONNX Runtime cannot compute it ({str(error)[:200]})") from None

    return compute


def _samples(
    path: Path, fed: NetworkInput, label: str | None, separator: str | None, notes: list[str]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Samples as the network sees them, float32 [n, *input_shape], and their classes, if the file tells them."""
    how = fed.samples
    if how is None:
        raise InputError(
            f"{path}: the run's data source did not tell how values of a file become samples; prepare them yourself "
            "and use the exported model directly"
        )
    if path.suffix == ".npy":
        if isinstance(how, TablePreprocessing):
            raise InputError(f"{path}: the model reads tables: allowed is a CSV file")
        if separator is not None:
            raise InputError(f"{path}: separator = {separator!r} has no meaning for .npy")
        return _seen(how.apply(array_in(path)), fed), None
    if separator is None:
        separator = how.separator if isinstance(how, TablePreprocessing) else ","
    elif not is_separator(separator):
        raise InputError(f"separator = {separator!r}: {SEPARATORS}")
    header = read_header(path, separator)
    if isinstance(how, TablePreprocessing):
        wanted = {column.name for column in how.numeric} | {column.name for column in how.categorical}
        found = wanted <= set(header)
    else:
        found = len(header) >= math.prod(how.held)
    if not (found and label in (None, *header)) and (mark := other_separator(header)):
        raise InputError(
            f"{path}, line 1: one column, {header[0]!r}, where {separator!r} stands between cells; if {mark!r} does, "
            f"say --separator {mark!r}"
        )
    default = how.label if isinstance(how, TablePreprocessing) else "label"
    target = label if label is not None else default if default in header else None
    if target is not None and target not in header:
        raise InputError(f"{path}: has no column {target!r}; found {', '.join(header)}")
    classes = [] if target is None else [target]
    if isinstance(how, TablePreprocessing):
        numbers, words = [c.name for c in how.numeric], [c.name for c in how.categorical]
        table = read_table(path, numbers, [*words, *classes], separator)
        for column, further in how.unknown(table).items():
            notes.append(
                f"{path}: column {column!r} holds values that were not learnt from ({', '.join(further[:5])}): they "
                "count as none of the known ones"
            )
        x = how.apply(table)
    else:
        numbers = [name for name in header if name not in classes]
        if len(numbers) != math.prod(how.held):
            raise InputError(
                f"{path}: {len(numbers)} columns of values, wanted are {math.prod(how.held)}: a sample of "
                f"{how.held}, last dimension fastest"
            )
        table = read_table(path, numbers, classes, separator)
        x = how.apply(np.stack([table[name] for name in numbers], axis=1).reshape(-1, *how.held))
    return _seen(x, fed), None if target is None else table[target]


def _seen(x: np.ndarray, fed: NetworkInput) -> np.ndarray:
    """Samples as networks see them: images [n, channels, height, width]. Raises InputError where they do not fit."""
    seen = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if x.ndim == 4 else x
    if list(seen.shape[1:]) != fed.input_shape:
        raise InputError(
            f"{DESCRIPTION}: damaged: samples become {list(seen.shape[1:])}, the network sees {fed.input_shape}"
        )
    if not np.isfinite(seen).all():
        raise InputError("a sample holds a value that is not finite, or too large for float32")
    return seen


def array_in(path: Path) -> np.ndarray:
    """The array in a .npy file, whose size is compared with what is there before memory is asked for."""
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(file)
            there = path.stat().st_size - file.tell()
            if dtype.hasobject or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != there:
                raise InputError(f"{path}: damaged, or Python objects: {there} bytes for {shape} of {dtype}")
        return np.asarray(np.load(path, allow_pickle=False))
    except InputError:
        raise
    except Exception as error:  # numpy raises half a dozen kinds for damaged headers
        raise InputError(f"{path}: not a .npy file of numpy.save ({str(error)[:200]})") from None
