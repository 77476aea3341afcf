"""The user's own arrays: from Python (`memory`) or from an .npz file (`arrays`)."""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.lib.format as npy
from pydantic import PrivateAttr
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.data.cache import remember
from fedroam.data.dataset import Dataset
from fedroam.data.preprocessing import Layout
from fedroam.data.sources.assembly import ALLOWED, Normalise, assemble
from fedroam.data.sources.places import find_file
from fedroam.errors import InputError

_COLUMN = "column_"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# A byte of deflate never unpacks to more (1032, says zlib): whoever declares more has made it up.
DEFLATED = 1100


@dataclass(frozen=True)
class _Held:
    """A data set in memory; two are equal if their fingerprints are."""

    fingerprint: str
    dataset: Dataset = member(compare=False)


_held: WeakValueDictionary[str, _Held] = WeakValueDictionary()


@register("data", "memory")
class InMemoryArrays(Part):
    """Arrays given from Python: made by `fedroam.data.memory(...)`, known by the fingerprint of the arrays.

    An experiment file that names this kind can only be run where the same arrays are in memory.
    """

    fingerprint: str = field(..., "SHA-256 of the arrays, as fedroam.data.memory computes it")
    name: str = field("memory", "a name for people", identity=False)
    _holder: _Held | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Take hold of the arrays, if they are in memory."""
        self._holder = _held.get(self.fingerprint)

    def load(self) -> Dataset:
        """The data set. Raises InputError where the arrays are not in this process."""
        holder = self._holder or _held.get(self.fingerprint)
        if holder is None:
            raise InputError(
                f"data memory: the arrays with fingerprint {self.fingerprint[:12]}... are not in memory: call "
                "fedroam.data.memory(x_train, y_train, ...) with the same arrays first, or save them as .npz and "
                'use kind = "arrays"'
            )
        return holder.dataset


def memory(
    x_train: Any,
    y_train: Any,
    x_test: Any = None,
    y_test: Any = None,
    *,
    class_names: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
    normalise: Normalise = "none",
    layout: Layout = "channels_last",
    test_share: float = 0.2,
    name: str = "memory",
) -> InMemoryArrays:
    """A data part that holds arrays (numpy, or anything numpy can read).

    x_train, x_test: numbers [samples, features], [samples, height, width] or [samples, height, width,
    channels] (`layout = "channels_first"`: [samples, channels, height, width]). y_train, y_test: whole
    numbers or texts [samples]. Without `class_names` the classes are the distinct labels, in order; with
    them, numbers are 0 .. len - 1 and texts are looked up. columns: further facts about the training samples
    [samples], for natural partitions. normalise: `none`, `unit` (uint8 / 255) or `standardise` (each channel
    or feature by its mean and deviation over the training samples). test_share: share of each class cut off
    as the shared test set where no x_test is given (0: no shared test set).

    Raises InputError that names the array, what was found and what is allowed.
    """
    if not 0 <= test_share < 1:
        raise InputError(f"{name}: test_share = {test_share:g}, allowed is 0 up to but not including 1")
    dataset = assemble(
        name,
        {
            "x_train": x_train,
            "y_train": y_train,
            "x_test": x_test,
            "y_test": y_test,
            "class_names": class_names,
            "columns": columns,
        },
        normalise=normalise,
        layout=layout,
        test_share=test_share,
    )
    digest = hashlib.sha256(dataset.fingerprint.encode())
    digest.update("\0".join(dataset.class_names).encode())
    for column, values in sorted(dataset.columns.items()):
        digest.update(f"{column} {values.dtype} ".encode() + np.ascontiguousarray(values).tobytes())
    held = _held.setdefault(digest.hexdigest(), _Held(digest.hexdigest(), dataset))
    return InMemoryArrays(fingerprint=held.fingerprint, name=name)


@register("data", "arrays")
class Arrays(Part):
    """Your own arrays from an .npz file, as numpy.savez writes it.

    x_train and y_train, if you like x_test and y_test, class_names, and further facts about the training
    samples as column_NAME (for the partition kind "column"). Shapes as for `fedroam.data.memory`. The file
    is read without unpickling: arrays of Python objects are refused.
    """

    path: str = field(..., "the .npz file (relative: from here, data.root or FEDROAM_DATA)")
    root: str | None = field(None, "folder to look in first, before FEDROAM_DATA", identity=False)
    normalise: Normalise = field(
        "none",
        "none; unit: bytes / 255; standardise: each channel or feature by its mean and deviation over the "
        "training samples",
    )
    layout: Layout = field("channels_last", "how images with four dimensions are stored")
    test_share: float = field(
        0.2, "share of each class cut off as shared test set if the file has no x_test (0: none)", ge=0, lt=1
    )

    @override
    def reads(self) -> dict[str, Path]:
        return {"path": find_file(self.path, self.root, "data.path")}

    def load(self) -> Dataset:
        """The data set, read once per process. Raises InputError if missing or damaged."""
        file = self.reads()["path"]
        return remember(self, (file,), lambda: self._read(file))

    def _read(self, file: Path) -> Dataset:
        return assemble(
            str(file),
            _read_npz(file),
            normalise=self.normalise,
            layout=self.layout,
            test_share=self.test_share,
        )


def _read_npz(file: Path) -> dict[str, Any]:
    """The arrays of an .npz file, by the names that `assemble` knows."""
    arrays: dict[str, Any] = {"columns": {}}
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                key = member.filename.removesuffix(".npy")
                if key.startswith(_COLUMN):
                    arrays["columns"][key.removeprefix(_COLUMN)] = _array(file, archive, member, key)
                elif key in ("x_train", "y_train", "x_test", "y_test", "class_names"):
                    arrays[key] = _array(file, archive, member, key)
                else:
                    raise InputError(f"{file}: holds an array {key!r}, allowed are {ALLOWED}")
    except InputError:
        raise
    except MemoryError:
        raise InputError(f"{file}: does not fit into the memory of this machine") from None
    except Exception as error:  # zipfile, its decompressors and numpy raise a dozen kinds for damaged files
        told = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{file}: not an .npz file of numpy.savez, or damaged ({told})") from None
    return arrays


def _array(file: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, key: str) -> np.ndarray:
    """One array of the archive, whose size is compared with what is there before memory is asked for."""
    with archive.open(member) as content:
        version = npy.read_magic(content)
        # The third is for names of fields beyond Latin-1, and there are no fields here.
        if version not in _HEADERS:
            raise InputError(
                f"{file}: {key} has the .npy format {version}, allowed are {(1, 0)} and {(2, 0)}"
            )
        shape, _, dtype = _HEADERS[version](content)
        if dtype.hasobject:
            raise InputError(
                f"{file}: {key} holds Python objects, which would have to be unpickled: save plain numbers or "
                "fixed-length texts instead"
            )
        wanted, there = math.prod(shape) * dtype.itemsize, member.file_size - content.tell()
    if wanted != there or min(shape, default=0) < 0 or there > DEFLATED * (member.compress_size + 1):
        raise InputError(
            f"{file}: damaged: {key} of shape {shape} and {dtype} takes {wanted} bytes, the file holds {there} "
            f"of it, packed into {member.compress_size}"
        )
    with archive.open(member) as content:
        array: np.ndarray = npy.read_array(content, allow_pickle=False)
    return array
