"""MNIST and Fashion-MNIST from the publishers' IDX files."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from typing_extensions import override

from fedroam.components import register
from fedroam.data.sources.images import ImageArrays, ImageSource
from fedroam.data.sources.places import find
from fedroam.data.sources.tables import is_packed, unpacked
from fedroam.errors import InputError

# In the order in which they are read: training images and labels, test images and labels.
STEMS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)

# The first training labels tell the two sets apart: their files have the same names.
OPENINGS = {
    "mnist": bytes([5, 0, 4, 1, 9, 2, 1, 3, 1, 4, 3, 5, 3, 6, 1, 7]),
    "fashion_mnist": bytes([9, 0, 0, 3, 0, 2, 7, 2, 5, 5, 0, 9, 5, 5, 7, 9]),
}


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if it is gzip."""
    try:
        found = path.read_bytes()
        # In one call, during which other threads go on: a `GzipFile` makes a thousand of a few kilobytes each.
        return gzip.decompress(found) if is_packed(found) else found
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged gzip file ({error}): fetch it again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """An IDX file of unsigned bytes with so many dimensions, packed or not, as a uint8 array.

    The format (Y. LeCun's MNIST page): two zero bytes, 8 for unsigned byte, the number of dimensions, then
    each dimension as a big-endian 32-bit number, then the values, last dimension fastest.
    """
    data = read_bytes(path)
    wanted = bytes([0, 0, 8, dimensions])
    if data[:4] != wanted:
        raise InputError(
            f"{path}: not an IDX file of {dimensions}-dimensional bytes: starts with "
            f"{data[:4].hex() or 'nothing'}, wanted is {wanted.hex()}"
        )
    header = 4 + 4 * dimensions
    if len(data) < header:
        raise InputError(f"{path}: cut off within its header ({len(data)} of {header} bytes)")
    shape = [int(n) for n in np.frombuffer(data, ">u4", dimensions, 4)]
    size = int(np.prod(shape, dtype=object))
    if len(data) - header != size:
        raise InputError(
            f"{path}: damaged: its header announces {'x'.join(map(str, shape))} = {size} bytes, "
            f"{len(data) - header} follow"
        )
    return np.frombuffer(data, np.uint8, size, header).reshape(shape)


def _look(name: str, folder: Path, remarks: list[str]) -> tuple[Path, ...] | None:
    """The four files in `folder`, or where torchvision puts them below it."""
    raw = {"mnist": "MNIST/raw", "fashion_mnist": "FashionMNIST/raw"}[name]
    for place in (folder, folder / "raw", folder / raw):
        files = []
        for stem in STEMS:
            names = [stem, stem + ".gz", stem.replace("-idx", ".idx"), stem.replace("-idx", ".idx") + ".gz"]
            files += [place / n for n in names if (place / n).is_file()][:1]
        if not files:
            continue
        if len(files) < len(STEMS):
            remarks.append(f"{place} holds only {', '.join(f.name for f in files)}")
            continue
        other = next((o for o in OPENINGS if o != name and _opens_with(files[1], OPENINGS[o])), None)
        if other:
            remarks.append(f"the files in {place} are those of {other}")
            continue
        return tuple(files)
    return None


def _opens_with(labels: Path, opening: bytes) -> bool:
    """Whether an IDX file of labels starts with these; a damaged file does not (reading it will say so)."""
    try:
        with unpacked(labels) as content:
            return bytes(content.read(8 + len(opening))[8:]) == opening
    except (OSError, EOFError, zlib.error):
        return False


def _found(source: ImageSource, aliases: Sequence[str], system: Sequence[str] = ()) -> tuple[Path, ...]:
    """The publisher's four files. aliases: other names of their folder; system: folders of packages."""
    return find(
        source.kind,
        source.root,
        lambda folder, remarks: _look(source.kind, folder, remarks),
        f"{STEMS[0]}(.gz) and its three companions",
        aliases=aliases,
        system=system,
    )


def _arrays(files: tuple[Path, ...]) -> ImageArrays:
    """What the four files hold."""
    parts: list[np.ndarray] = []
    for images, labels in (files[:2], files[2:]):
        x, y = read_idx(images, 3), read_idx(labels, 1)
        if len(x) != len(y):
            raise InputError(f"{labels}: {len(y)} labels, but {images.name} holds {len(x)} images")
        if not len(y):
            raise InputError(f"{images}: holds no images")
        if y.max() > 9:
            row = int(np.flatnonzero(y > 9)[0])
            raise InputError(f"{labels}: label {row} is {y[row]}, allowed is 0 to 9")
        parts += [x[..., None], y.astype(np.int64)]
    if parts[0].shape[1:] != parts[2].shape[1:]:
        raise InputError(
            f"{files[2]}: images of {parts[2].shape[1]}x{parts[2].shape[2]} pixels, "
            f"{files[0].name} has {parts[0].shape[1]}x{parts[0].shape[2]}"
        )
    return ImageArrays(*parts)


@register("data", "mnist", source="LeCun, Bottou, Bengio, Haffner, Proc. IEEE 86(11), 1998")
class Mnist(ImageSource):
    """MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey, ten classes.

    Reads the publisher's four IDX files, packed or not, from ROOT/mnist, ROOT, or torchvision's MNIST/raw.
    """

    class_names = tuple("0123456789")
    published = (60_000, 10_000)

    @override
    def files(self) -> tuple[Path, ...]:
        return _found(self, ("MNIST",))

    @override
    def read(self, files: tuple[Path, ...]) -> ImageArrays:
        return _arrays(files)


@register("data", "fashion_mnist", source="Xiao, Rasul, Vollgraf 2017 (arXiv:1708.07747), MIT licence")
class FashionMnist(ImageSource):
    """Fashion-MNIST: 60,000 + 10,000 articles of clothing, 28x28 grey, ten classes.

    Reads the publisher's four IDX files, packed or not, from ROOT/fashion_mnist, ROOT, torchvision's
    FashionMNIST/raw, or the folder of Debian's package dataset-fashion-mnist.
    """

    class_names = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )
    published = (60_000, 10_000)

    @override
    def files(self) -> tuple[Path, ...]:
        return _found(self, ("fashion-mnist", "FashionMNIST"), ("/usr/share/datasets/fashion-mnist",))

    @override
    def read(self, files: tuple[Path, ...]) -> ImageArrays:
        return _arrays(files)
