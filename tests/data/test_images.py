"""MNIST, Fashion-MNIST and CIFAR-10: every accepted form of their files, and what is wrong with damaged ones."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedroam.components import build
from fedroam.data import forget
from fedroam.data.sources.cifar10 import BATCHES, CLASSES, Cifar10
from fedroam.data.sources.mnist import OPENINGS, STEMS, FashionMnist, Mnist
from fedroam.errors import InputError


@pytest.fixture(autouse=True)
def no_other_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this machine's data nor its cache."""
    monkeypatch.delenv("FEDROAM_DATA", raising=False)
    monkeypatch.setattr("fedroam.data.sources.places.cache_folder", lambda: tmp_path / "cache")
    forget()


def idx(array: np.ndarray) -> bytes:
    """The IDX format, written from its description."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def some_images(n: int, side: tuple[int, ...], salt: int = 0) -> np.ndarray:
    """Bytes with no pattern that a wrong order of axes would leave unchanged."""
    return ((np.arange(n * int(np.prod(side))) * 7919 + salt) % 251).astype(np.uint8).reshape(n, *side)


def write_idx(folder: Path, packed: bool = True, stems: tuple[str, ...] = STEMS, labels: bytes = b"") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stem, n in zip(stems, (30, 30, 20, 20), strict=True):
        array = some_images(n, (4, 3), n) if "images" in stem else (np.arange(n) % 10).astype(np.uint8)
        if "train-labels" in stem and labels:
            array[: len(labels)] = np.frombuffer(labels, np.uint8)
        data = gzip.compress(idx(array)) if packed else idx(array)
        (folder / (stem + (".gz" if packed else ""))).write_bytes(data)


@pytest.mark.parametrize("below", ["mnist", "MNIST/raw", "mnist/MNIST/raw", "mnist/raw", ""])
@pytest.mark.parametrize("packed", [True, False])
def test_mnist_from_every_place_and_form(tmp_path: Path, below: str, packed: bool) -> None:
    write_idx(tmp_path / below, packed)
    dataset = Mnist(root=str(tmp_path), normalise="unit").load()
    assert dataset.x_train.shape == (30, 4, 3, 1)
    assert dataset.x_train.flags.c_contiguous
    np.testing.assert_array_equal(
        dataset.x_train, (some_images(30, (4, 3), 30) / 255.0).astype(np.float32)[..., None]
    )
    np.testing.assert_array_equal(
        dataset.x_test, (some_images(20, (4, 3), 20) / 255.0).astype(np.float32)[..., None]
    )
    np.testing.assert_array_equal(dataset.y_train, np.arange(30) % 10)
    assert dataset.class_names == tuple("0123456789")
    assert "the published data set has 60000 and 10000" in dataset.notes[0]


def test_names_with_a_dot_and_wrong_suffixes_are_taken(tmp_path: Path) -> None:
    write_idx(tmp_path, False, tuple(stem.replace("-idx", ".idx") for stem in STEMS))
    packed = tmp_path / STEMS[0].replace("-idx", ".idx")
    packed.write_bytes(gzip.compress(packed.read_bytes()))  # packed, though its name does not say so
    assert len(Mnist(root=str(tmp_path)).load().y_train) == 30


def test_standardised_by_the_training_images_alone(tmp_path: Path) -> None:
    write_idx(tmp_path)
    dataset = Mnist(root=str(tmp_path)).load()
    pixels = some_images(30, (4, 3), 30) / 255.0
    np.testing.assert_allclose(
        dataset.x_train[..., 0], (pixels - pixels.mean()) / pixels.std(), rtol=0, atol=1e-6
    )
    test = (some_images(20, (4, 3), 20) / 255.0 - pixels.mean()) / pixels.std()
    np.testing.assert_allclose(dataset.x_test[..., 0], test, rtol=0, atol=1e-6)


def test_a_subset_keeps_the_scale_of_the_whole_and_the_classes_in_proportion(tmp_path: Path) -> None:
    write_idx(tmp_path)
    whole = Mnist(root=str(tmp_path)).load()
    part = Mnist(root=str(tmp_path), train_samples=20, test_samples=10).load()
    assert np.bincount(part.y_train).tolist() == [2] * 10
    assert np.bincount(part.y_test).tolist() == [1] * 10
    rows = {x.tobytes() for x in whole.x_train}
    assert all(x.tobytes() in rows for x in part.x_train)
    with pytest.raises(InputError, match=r"data.train_samples = 31: the data has 30"):
        Mnist(root=str(tmp_path), train_samples=31).load()


def test_mnist_and_fashion_mnist_are_not_mistaken_for_each_other(tmp_path: Path) -> None:
    write_idx(tmp_path, labels=OPENINGS["mnist"])
    assert len(Mnist(root=str(tmp_path)).load().y_train) == 30
    system = Path("/usr/share/datasets/fashion-mnist")
    if not system.exists():
        with pytest.raises(InputError, match=r"are those of mnist"):
            FashionMnist(root=str(tmp_path)).load()
    write_idx(tmp_path / "FashionMNIST" / "raw", labels=OPENINGS["fashion_mnist"])
    fashion = FashionMnist(root=str(tmp_path))
    assert fashion.files()[0].parent == tmp_path / "FashionMNIST" / "raw"
    assert fashion.load().class_names[9] == "Ankle boot"


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    plain = gzip.decompress(data)
    if how == "cut gzip":
        path.write_bytes(data[: len(data) // 2])
    elif how == "not gzip":
        path.write_bytes(data[:12] + bytes(len(data) - 12))
    elif how == "bad magic":
        path.write_bytes(b"\x00\x00\x0d\x03" + plain[4:])
    elif how == "cut content":
        path.write_bytes(plain[:-5])
    elif how == "header only":
        path.write_bytes(plain[:6])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "one more":
        path.write_bytes(idx(np.zeros((31, 4, 3), np.uint8)))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("cut gzip", "damaged gzip file"),
        ("not gzip", "damaged gzip file"),
        ("bad magic", "not an IDX file of 3-dimensional bytes: starts with 00000d03, wanted is 00000803"),
        ("cut content", "its header announces 30x4x3 = 360 bytes, 355 follow"),
        ("header only", "cut off within its header"),
        ("empty", "starts with nothing"),
        ("one more", "30 labels, but train-images-idx3-ubyte.gz holds 31 images"),
    ],
)
def test_damaged_files_give_one_clear_line(tmp_path: Path, how: str, said: str) -> None:
    write_idx(tmp_path)
    damage(tmp_path / f"{STEMS[0]}.gz", how)
    with pytest.raises(InputError) as error:
        Mnist(root=str(tmp_path)).load()
    assert said in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_label_beyond_nine_is_named(tmp_path: Path) -> None:
    write_idx(tmp_path, labels=bytes([0, 1, 12]))
    with pytest.raises(InputError, match=r"train-labels-idx1-ubyte.gz: label 2 is 12, allowed is 0 to 9"):
        Mnist(root=str(tmp_path)).load()


def test_what_is_missing_says_both_ways_out(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        build("data", {"kind": "mnist", "root": str(tmp_path)}).load()  # type: ignore[attr-defined]
    said = str(error.value)
    assert (
        "set FEDROAM_DATA or data.root to a folder that holds mnist/ with train-images-idx3-ubyte(.gz)"
        in said
    )
    assert "fedroam data fetch mnist" in said
    write_idx(tmp_path)
    (tmp_path / f"{STEMS[3]}.gz").unlink()
    with pytest.raises(
        InputError, match=r"holds only train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-im"
    ):
        Mnist(root=str(tmp_path)).load()


# --- CIFAR-10 ---------------------------------------------------------------------------------------------------


def cifar_batch(k: int) -> tuple[np.ndarray, np.ndarray]:
    return some_images(6, (32, 32, 3), 13 * k), ((np.arange(6) * 3 + k) % 10).astype(np.uint8)


def record_bytes(k: int) -> bytes:
    """The publisher's layout: label, then the red, the green and the blue plane, row by row."""
    x, y = cifar_batch(k)
    return b"".join(
        bytes([label]) + image[..., 0].tobytes() + image[..., 1].tobytes() + image[..., 2].tobytes()
        for image, label in zip(x, y, strict=True)
    )


def write_cifar(folder: Path, form: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if form == "archive":
        with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
            for k, batch in enumerate(BATCHES):
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{batch}.bin")
                member.size = len(record_bytes(k))
                archive.addfile(member, io.BytesIO(record_bytes(k)))
    for k, batch in enumerate(BATCHES):
        if form == "binary":
            (folder / f"{batch}.bin").write_bytes(record_bytes(k))
        if form == "mosaic":
            x, y = cifar_batch(k)
            mosaic = np.concatenate([np.concatenate(list(row), axis=1) for row in x.reshape(2, 3, 32, 32, 3)])
            Image.fromarray(mosaic).save(folder / f"{batch}.webp", lossless=True)
            (folder / f"{batch}.labels.u8").write_bytes(y.tobytes())


@pytest.mark.parametrize(
    ("form", "below"),
    [
        ("binary", "cifar10"),
        ("binary", "cifar-10-batches-bin"),
        ("archive", ""),
        ("mosaic", "cifar10"),
        ("archive", "cifar10"),
    ],
)
def test_cifar10_from_every_form(tmp_path: Path, form: str, below: str) -> None:
    write_cifar(tmp_path / below, form)
    dataset = Cifar10(root=str(tmp_path), normalise="unit").load()
    batches = [cifar_batch(k) for k in range(6)]
    x = np.concatenate([b[0] for b in batches[:5]])
    np.testing.assert_array_equal(dataset.x_train, (x / 255.0).astype(np.float32))
    np.testing.assert_array_equal(dataset.y_train, np.concatenate([b[1] for b in batches[:5]]))
    np.testing.assert_array_equal(dataset.x_test, (batches[5][0] / 255.0).astype(np.float32))
    assert dataset.x_train.flags.c_contiguous
    assert dataset.input_shape == (3, 32, 32)
    assert dataset.class_names == CLASSES
    scaled = Cifar10(root=str(tmp_path)).load()
    for c in range(3):
        channel = x[..., c] / 255.0
        wanted = (channel - channel.mean()) / channel.std()
        np.testing.assert_allclose(scaled.x_train[..., c], wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1"])
def test_the_python_version_of_cifar10_is_never_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'false'\ntR.")  # a pickle that would run a command
    with pytest.raises(
        InputError, match=r"is the Python version, which is a pickle and never opened: the binary version"
    ):
        Cifar10(root=str(tmp_path)).load()


def test_damaged_cifar10_files_give_one_clear_line(tmp_path: Path) -> None:
    write_cifar(tmp_path / "a", "binary")
    short = tmp_path / "a" / "data_batch_3.bin"
    short.write_bytes(short.read_bytes()[:-1])
    with pytest.raises(
        InputError, match=r"data_batch_3.bin: damaged: 18437 bytes are not a whole number of 3073-byte"
    ):
        Cifar10(root=str(tmp_path / "a")).load()
    short.unlink()
    with pytest.raises(InputError, match=r"lacks data_batch_3.bin"):
        Cifar10(root=str(tmp_path / "a")).load()
    write_cifar(tmp_path / "b", "archive")
    archive = tmp_path / "b" / "cifar-10-binary.tar.gz"
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(InputError, match=r"cifar-10-binary.tar.gz: damaged archive"):
        Cifar10(root=str(tmp_path / "b")).load()
    write_cifar(tmp_path / "c", "mosaic")
    (tmp_path / "c" / "data_batch_2.labels.u8").write_bytes(b"\x01\x02")
    with pytest.raises(InputError, match=r"data_batch_2.webp: 96x64 pixels hold 6 images .* holds 2 labels"):
        Cifar10(root=str(tmp_path / "c")).load()
    (tmp_path / "c" / "data_batch_2.webp").write_bytes(b"RIFF")
    with pytest.raises(InputError, match=r"data_batch_2.webp: cannot be read as a picture"):
        Cifar10(root=str(tmp_path / "c")).load()
    shutil.rmtree(tmp_path / "c")


# --- lookup and memory ------------------------------------------------------------------------------------------


def test_root_comes_before_the_environment_and_the_environment_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("root", "environment", "cache"):
        write_idx(tmp_path / place / "mnist")
    monkeypatch.setenv("FEDROAM_DATA", str(tmp_path / "environment"))
    found = []
    for place in ("root", "environment", "cache"):
        found.append(Mnist(root=str(tmp_path / "root")).files()[0].parent.parent.name)
        shutil.rmtree(tmp_path / place / "mnist")
    assert found == ["root", "environment", "cache"]


def test_a_misspelt_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(tmp_path / "cache" / "mnist")
    with pytest.raises(InputError, match=r"data.root = '.*nowhere': no such folder"):
        Mnist(root=str(tmp_path / "nowhere")).load()
    monkeypatch.setenv("FEDROAM_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"FEDROAM_DATA = '.*nowhere': no such folder"):
        Mnist().load()


def test_the_same_settings_and_files_give_the_same_object(tmp_path: Path) -> None:
    write_idx(tmp_path)
    one = Mnist(root=str(tmp_path)).load()
    assert Mnist(root=str(tmp_path)).load() is one
    assert Mnist(root=str(tmp_path), normalise="unit").load() is not one
    write_idx(tmp_path, packed=True, labels=bytes([9]))  # another file in the same place
    assert Mnist(root=str(tmp_path)).load().y_train[0] == 9


def test_a_data_set_in_use_is_never_read_twice_and_an_unused_one_is_let_go(tmp_path: Path) -> None:
    import gc
    import weakref

    write_idx(tmp_path)
    used = Mnist(root=str(tmp_path)).load()
    unused = weakref.ref(Mnist(root=str(tmp_path), train_samples=1).load())
    for n in range(2, 6):
        Mnist(root=str(tmp_path), train_samples=n).load()
    assert Mnist(root=str(tmp_path)).load() is used
    gc.collect()
    assert unused() is None


def test_root_does_not_change_what_a_run_is(tmp_path: Path) -> None:
    from fedroam.experiment import Experiment

    assert Experiment(data=Mnist(root=str(tmp_path))).digest == Experiment(data=Mnist()).digest
    assert Experiment(data=Mnist(train_samples=5)).digest != Experiment(data=Mnist()).digest
