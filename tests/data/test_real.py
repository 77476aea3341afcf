"""The real data sets, where they are: FEDROAM_DATA names the folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from fedroam.components import build
from fedroam.data import Dataset, cut, memory
from fedroam.data.dirichlet import Dirichlet
from fedroam.data.sources.cifar10 import BATCHES, Cifar10, from_mosaic
from fedroam.data.sources.fetching import DOWNLOADS
from fedroam.data.sources.mnist import FashionMnist, Mnist
from fedroam.data.sources.unsw_nb15 import UnswNb15
from fedroam.errors import InputError
from fedroam.randomness import stream

pytestmark = pytest.mark.data


def needs(kind: str) -> None:
    """Skip where this one data set is not in the folder."""
    try:
        build("data", kind).files()  # type: ignore[attr-defined]
    except InputError as error:
        if "not found" not in str(error):
            raise
        pytest.skip(str(error))


def test_mnist_is_the_publishers() -> None:
    needs("mnist")
    files = {path.name: path for path in Mnist().files()}
    for download in DOWNLOADS["mnist"]:
        if download.name in files:
            assert hashlib.sha256(files[download.name].read_bytes()).hexdigest() == download.checksum[7:]
    dataset = Mnist().load()
    assert dataset.x_train.shape == (60_000, 28, 28, 1)
    assert dataset.x_test.shape == (10_000, 28, 28, 1)
    assert dataset.notes == ()
    assert np.bincount(dataset.y_train).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]
    assert np.bincount(dataset.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    unit = Mnist(normalise="unit").load()
    assert unit.x_train.mean(dtype=np.float64) == pytest.approx(0.1306604762738429, abs=1e-8)
    assert unit.x_train.std(dtype=np.float64) == pytest.approx(0.3081078, abs=1e-6)
    assert dataset.x_train.std(dtype=np.float64) == pytest.approx(1, abs=1e-6)


def test_fashion_mnist_is_the_publishers() -> None:
    needs("fashion_mnist")
    dataset = FashionMnist(normalise="unit").load()
    assert np.bincount(dataset.y_train).tolist() == [6000] * 10
    assert np.bincount(dataset.y_test).tolist() == [1000] * 10
    assert dataset.x_train.mean(dtype=np.float64) == pytest.approx(0.2860406, abs=1e-6)


def test_cifar10_batches_are_the_publishers_byte_for_byte() -> None:
    needs("cifar10")
    published = {
        "data_batch_1": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
        "test_batch": "67eb016db431130d61cd03c7ad570b013799c88c",
    }
    files = {path.name: path for path in Cifar10().files()}
    for batch, digest in published.items():
        if f"{batch}.bin" in files:
            data = files[f"{batch}.bin"].read_bytes()
        elif f"{batch}.webp" in files:
            x, y = from_mosaic(files[f"{batch}.webp"], files[f"{batch}.labels.u8"])
            planes = x.transpose(0, 3, 1, 2).reshape(len(y), -1)
            data = np.concatenate([y.astype(np.uint8)[:, None], planes], axis=1).tobytes()
        else:
            pytest.skip("the archive form")
        assert hashlib.sha1(data).hexdigest() == digest
    assert len(BATCHES) == 6


def test_unsw_nb15_rows_inputs_and_repeats() -> None:
    needs("unsw_nb15")
    if "testing" not in UnswNb15().files():
        pytest.skip("the partition of 82,332 records is not here")
    whole = UnswNb15(records="testing", test="none").load()
    assert whole.x_train.shape == (82_332, 196)
    assert np.bincount(whole.y_train).tolist() == [37000, 18871, 11132, 6062, 4089, 3496, 677, 583, 378, 44]
    assert not any("beyond" in note for note in whole.notes)
    varying = whole.x_train[:, :39].std(axis=0, dtype=np.float64)
    np.testing.assert_allclose(varying, 1, atol=1e-4)
    assert (whole.x_train[:, 39:].sum(axis=1) == 3).all()
    distinct = UnswNb15(records="testing", test="none", deduplicate=True).load()
    assert len(distinct.y_train) == 82_332 - 26_387
    binary = UnswNb15(records="testing", test="none", label="label").load()
    assert np.bincount(binary.y_train).tolist() == [37_000, 45_332]


def test_unsw_nb15_cut_four_one_one() -> None:
    """MoCFL's setting: no shared test set, every client's share cut 4:1:1."""
    needs("unsw_nb15")
    dataset = UnswNb15(records="found", test="none").load()
    parts = Dirichlet(alpha=0.5, min_samples=60).split(dataset, 10, stream(0, "partition"))
    split = cut(parts, 1 / 6, 1 / 6, [stream(0, "cut", client=i) for i in range(10)])
    for part, train, validation, test in zip(parts, split.train, split.validation, split.test, strict=True):
        assert len(train) + len(validation) + len(test) == len(part)
        assert abs(len(validation) - len(part) / 6) <= 0.5
        assert len(validation) == len(test)


def test_a_pixel_table_read_as_csv_equals_the_images(tmp_path: Path) -> None:
    """`digits.csv.gz` (64 pixels and the class, no header) against the digits that scikit-learn ships."""
    source = Path(os.environ["FEDROAM_DATA"]) / "embedded_candidates" / "digits.csv.gz"
    if not source.is_file():
        pytest.skip("no digits.csv.gz")
    import gzip

    text = gzip.decompress(source.read_bytes()).decode()
    header = ",".join([*(f"p{k}" for k in range(64)), "label"])
    (tmp_path / "digits.csv").write_text(f"{header}\n{text}")
    part = build(
        "data", {"kind": "csv", "path": str(tmp_path / "digits.csv"), "normalise": "none", "test_share": 0.0}
    )
    table: Dataset = part.load()  # type: ignore[attr-defined]
    from sklearn.datasets import load_digits

    raw = load_digits()
    same = memory(raw.data, raw.target, test_share=0.0).load()
    assert table.fingerprint == same.fingerprint
