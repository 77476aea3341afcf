"""CIFAR-10 from the publisher's binary version, or from lossless mosaics of its batches."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path

import numpy as np
from typing_extensions import override

from fedroam.components import register
from fedroam.data.sources.images import ImageArrays, ImageSource
from fedroam.data.sources.places import find
from fedroam.errors import InputError

BATCHES = (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
SIDE = 32  # pixels
RECORD = 1 + 3 * SIDE * SIDE  # bytes: the label, then red, green and blue, row by row
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARCHIVE = "cifar-10-binary.tar.gz"


def from_records(data: bytes, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [n, 32, 32, 3] and labels int64 [n] of a batch of the binary version."""
    if not data or len(data) % RECORD:
        raise InputError(
            f"{where}: damaged: {len(data)} bytes are not a whole number of {RECORD}-byte records"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    planes = records[:, 1:].reshape(-1, 3, SIDE, SIDE)
    return planes.transpose(0, 2, 3, 1), _checked(records[:, 0], where)


def from_mosaic(picture: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a batch kept as one lossless picture, its images in rows, and raw label bytes."""
    from PIL import Image, UnidentifiedImageError

    try:
        y = _checked(np.frombuffer(labels.read_bytes(), np.uint8), str(labels))
        with Image.open(picture) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, UnidentifiedImageError, SyntaxError) as error:
        raise InputError(f"{picture}: cannot be read as a picture with labels: {error}") from None
    height, width = pixels.shape[:2]
    rows, columns = height // SIDE, width // SIDE
    if height % SIDE or width % SIDE or rows * columns != len(y):
        raise InputError(
            f"{picture}: {width}x{height} pixels hold {rows * columns} images of {SIDE}x{SIDE}, "
            f"but {labels.name} holds {len(y)} labels"
        )
    grid = pixels.reshape(rows, SIDE, columns, SIDE, 3)
    return grid.transpose(0, 2, 1, 3, 4).reshape(-1, SIDE, SIDE, 3), y


def _checked(labels: np.ndarray, where: str) -> np.ndarray:
    if not len(labels):
        raise InputError(f"{where}: holds no labels")
    if labels.max() > 9:
        row = int(np.flatnonzero(labels > 9)[0])
        raise InputError(f"{where}: the label of image {row} is {labels[row]}, allowed is 0 to 9")
    return labels.astype(np.int64)


def _look(folder: Path, remarks: list[str]) -> tuple[Path, ...] | None:
    """The files of one of the accepted forms: batches, mosaics with labels, or the archive."""
    for place in (folder, folder / "cifar-10-batches-bin"):
        for ends in ((".bin",), (".webp", ".labels.u8")):
            files = [place / (batch + end) for batch in BATCHES for end in ends]
            there = [f for f in files if f.is_file()]
            if len(there) == len(files):
                return tuple(files)
            if there:
                missing = next(f for f in files if f not in there)
                remarks.insert(0, f"{place} lacks {missing.name}")
    if (folder / ARCHIVE).is_file():
        return (folder / ARCHIVE,)
    for python in ("cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1"):
        if (folder / python).exists():
            remarks.append(
                f"{folder / python} is the Python version, which is a pickle and never opened: "
                "the binary version is wanted"
            )
    return None


def _from_archive(path: Path) -> dict[str, bytes]:
    """The batches in the publisher's archive, read without unpacking it to disk."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                stem = Path(member.name).name.removesuffix(".bin")
                if member.isfile() and stem in BATCHES and member.name.endswith(".bin"):
                    content = archive.extractfile(member)
                    found[stem] = content.read() if content else b""
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise InputError(f"{path}: damaged archive ({error}): fetch it again") from None
    missing = [batch for batch in BATCHES if batch not in found]
    if missing:
        raise InputError(f"{path}: holds no {missing[0]}.bin: the publisher's binary version is wanted")
    return found


@register("data", "cifar10", source="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009")
class Cifar10(ImageSource):
    """CIFAR-10: 50,000 + 10,000 colour photographs, 32x32, ten classes.

    Reads the publisher's binary version (data_batch_1.bin ... test_batch.bin in ROOT/cifar10, ROOT or
    cifar-10-batches-bin, or cifar-10-binary.tar.gz), or one lossless data_batch_N.webp with
    data_batch_N.labels.u8 per batch. The Python version is a pickle and is never opened.
    """

    class_names = CLASSES
    published = (50_000, 10_000)

    @override
    def files(self) -> tuple[Path, ...]:
        return find(
            "cifar10",
            self.root,
            _look,
            f"{ARCHIVE} or data_batch_1.bin ... test_batch.bin",
            aliases=("cifar-10", "CIFAR10", "cifar-10-batches-bin"),
        )

    @override
    def read(self, files: tuple[Path, ...]) -> ImageArrays:
        if len(files) == 1:
            content = _from_archive(files[0])
            batches = [from_records(content[batch], f"{files[0]}: {batch}.bin") for batch in BATCHES]
        elif len(files) == len(BATCHES):
            batches = [from_records(f.read_bytes(), str(f)) for f in files]
        else:
            batches = [from_mosaic(*pair) for pair in zip(files[::2], files[1::2], strict=True)]
        x, y = (np.concatenate(arrays) for arrays in zip(*batches[:-1], strict=True))
        x_test, y_test = batches[-1]
        return ImageArrays(x, y, x_test, y_test)
