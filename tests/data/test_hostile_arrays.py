"""Archives of arrays that are damaged, or say more than they hold: one line each, and no memory asked for."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedroam.components import build
from fedroam.errors import InputError


def read(file: Path) -> None:
    build("data", {"kind": "arrays", "path": str(file)}).load()  # type: ignore[attr-defined]


def whole(file: Path) -> bytes:
    np.savez(file, x_train=np.ones((40, 3)), y_train=np.arange(40) % 2)
    return file.read_bytes()


@pytest.mark.filterwarnings("error")
def test_values_too_large_for_float32(tmp_path: Path) -> None:
    """They are finite, and no warning of numpy's comes before what is told."""
    np.savez(tmp_path / "a.npz", x_train=np.full((4, 3), 1e300), y_train=np.arange(4) % 2)
    with pytest.raises(
        InputError, match="train sample 0 holds a value that is not finite, or too large for float32"
    ):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("flip", [1, 0xFF])
def test_damaged_first_bytes(at: int, flip: int, tmp_path: Path) -> None:
    data = bytearray(whole(tmp_path / "a.npz"))
    data[at] ^= flip
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"a.npz: not an .npz file of numpy.savez, or damaged \("):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize(("at", "value"), [(6, 0xFF), (8, 1), (8, 0x20), (10, 1), (10, 99), (11, 9)])
def test_a_directory_that_asks_for_what_is_not_known(at: int, value: int, tmp_path: Path) -> None:
    """The version, the flags (encryption among them) and the method of compression of the first array."""
    data = bytearray(whole(tmp_path / "a.npz"))
    data[data.index(b"PK\x01\x02") + at] ^= value
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"a.npz: not an .npz file of numpy.savez, or damaged \("):
        read(tmp_path / "a.npz")


def with_header(file: Path, header: str, data: bytes = b"") -> None:
    line = header.encode() + b"\n"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        magic = b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little")
        archive.writestr("x_train.npy", magic + line + data)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("<f8", "(10000000000,3)"),
        ("<f8", "(1000000000000000000,)"),
        ("<f8", "(99999999999999999999999999,)"),
        ("<f8", "(-1,3)"),
        ("<f8", "(-2,-4)"),
        ("<U100000000", "(40,)"),
        ("|u1", "(12000000000,)"),
    ],
)
def test_shapes_beyond_what_is_there(kind: str, shape: str, tmp_path: Path) -> None:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}"
    with_header(tmp_path / "a.npz", header, b"\0" * 64)
    with pytest.raises(InputError, match=r"a.npz: damaged: x_train of shape .* the file holds 64 of it"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("header", ["[" * 3_000, "{'descr':" + "-" * 9_000 + "1}", "", "{'shape': 'a'}"])
def test_headers_that_cannot_be_read(header: str, tmp_path: Path) -> None:
    with_header(tmp_path / "a.npz", header)
    with pytest.raises(InputError, match=r"a.npz: "):
        read(tmp_path / "a.npz")
