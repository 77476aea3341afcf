"""What is kept of a data set's preparation, applied to the files' own values, gives what networks saw, bit for bit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.datasets import load_digits

from fedroam.components import build
from fedroam.data import ArrayPreprocessing, Dataset, TablePreprocessing, memory, preprocessing_of
from fedroam.data.preparing import (
    AT_ONCE,
    PIECE,
    counts_of_bytes,
    held_out,
    pixel_statistics,
    scale_pixels,
)
from fedroam.data.sources import digits
from fedroam.data.sources.images import ImageArrays
from fedroam.data.sources.unsw_nb15 import NUMBERS, WORDS
from fedroam.errors import InputError
from fedroam.sweep.sharing import arrays_of, describe, rebuild


def loaded(kind: str, **fields: Any) -> Dataset:
    part: Any = build("data", {"kind": kind, **fields})
    dataset: Dataset = part.load()
    return dataset


def raw(shape: tuple[int, ...], dtype: str, seed: int = 3) -> np.ndarray:
    draw = np.random.default_rng(seed)
    if dtype == "uint8":
        return draw.integers(0, 256, (30, *shape)).astype(np.uint8)
    return draw.normal(5, 3, (30, *shape)).astype(dtype)


@pytest.mark.parametrize("normalise", ["none", "unit", "standardise"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("shape", [(4,), (3, 5), (3, 5, 2)])
def test_arrays(normalise: Any, dtype: str, shape: tuple[int, ...]) -> None:
    if normalise == "unit" and dtype != "uint8":
        return
    x, y = raw(shape, dtype), np.arange(30) % 3
    dataset = memory(x[:20], y[:20], x[20:], y[20:], normalise=normalise).load()
    assert isinstance(dataset.preprocessing, ArrayPreprocessing)
    for part, own in ((x[:20], dataset.x_train), (x[20:], dataset.x_test)):
        found = dataset.preprocessing.apply(part)
        assert found.dtype == np.float32
        assert np.array_equal(found, own)


@pytest.mark.parametrize("normalise", ["none", "standardise"])
@pytest.mark.parametrize("channels", [1, 2])
def test_arrays_whose_channels_come_first(normalise: Any, channels: int) -> None:
    x, y = raw((channels, 3, 5), "float32", seed=4), np.arange(30) % 3
    dataset = memory(x[:20], y[:20], x[20:], y[20:], normalise=normalise, layout="channels_first").load()
    how = preprocessing_of(dataset.preprocessing.model_dump())
    assert isinstance(how, ArrayPreprocessing)
    assert (how.shape, how.held) == ([3, 5, channels], [channels, 3, 5])
    assert np.array_equal(how.apply(x[20:]), dataset.x_test)
    if channels == 1:
        assert np.array_equal(how.apply(x[20:, 0]), dataset.x_test)
    with pytest.raises(InputError, match=rf"allowed are numbers of shape \[{channels}, 3, 5\]"):
        how.apply(x[20:].transpose(0, 2, 3, 1))


def test_preprocessing_without_a_layout_has_channels_last() -> None:
    """As versions wrote it that knew of no other; and features have no channels."""
    plain = {"kind": "array", "shape": [3, 5, 2], "divide": 1.0, "mean": [0.0] * 2, "scale": [1.0] * 2}
    how = preprocessing_of(plain)
    assert isinstance(how, ArrayPreprocessing)
    assert how.held == [3, 5, 2]
    with pytest.raises(ValueError, match="allowed is it for images"):
        preprocessing_of(
            plain | {"shape": [2], "layout": "channels_first"},
        )


@settings(max_examples=40, deadline=None)
@given(
    arrays.arrays(
        np.float32, st.tuples(st.integers(2, 6), st.integers(1, 4)), elements=st.floats(-1e6, 1e6, width=32)
    )
)
def test_standardised_arrays_of_any_values(x: np.ndarray) -> None:
    dataset = memory(x, np.zeros(len(x), int), normalise="standardise", test_share=0.0).load()
    assert isinstance(dataset.preprocessing, ArrayPreprocessing)
    assert np.array_equal(dataset.preprocessing.apply(x), dataset.x_train)


@pytest.mark.parametrize("normalise", ["standardise", "unit"])
def test_digits(normalise: str) -> None:
    dataset, bunch = loaded("digits", normalise=normalise), load_digits()
    is_test = held_out(bunch.target, 0.2, "digits test set")
    assert isinstance(dataset.preprocessing, ArrayPreprocessing)
    assert np.array_equal(dataset.preprocessing.apply(bunch.images[is_test]), dataset.x_test)


@pytest.mark.parametrize("normalise", ["standardise", "unit"])
@pytest.mark.parametrize(("kind", "channels"), [("mnist", 1), ("cifar10", 3)])
def test_images(normalise: str, kind: str, channels: int) -> None:
    x, y = raw((6, 7, channels), "uint8"), np.arange(30) % 10
    x[..., 0] = 9  # a channel without spread is only centred
    part: Any = build("data", {"kind": kind, "normalise": normalise, "train_samples": 10})
    dataset = part._prepared(ImageArrays(x[:20], y[:20], x[20:], y[20:]))
    assert len(dataset.x_train) == 10
    assert np.array_equal(dataset.preprocessing.apply(x[20:]), dataset.x_test)


def test_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "b": [1.5, 2.5, -3.0, 0.1, 0.2, 7.0],
            "word": ["x", "y", "x", "z", "z", "x"],
            "label": list("uvuvuv"),
            "same": [4.0] * 6,
            "site": list("ppqqrr"),
        }
    )
    frame.to_csv(tmp_path / "a.csv", index=False, sep=";")
    given: dict[str, Any] = {"path": str(tmp_path / "a.csv"), "categorical": ("word",), "columns": ("site",)}
    for normalise in ("standardise", "none"):
        dataset = loaded("csv", **given, normalise=normalise, separator=";", test_share=0.0)
        how = dataset.preprocessing
        assert isinstance(how, TablePreprocessing)
        assert [column.name for column in how.numeric] == ["b", "same"]
        assert [column.values for column in how.categorical] == [["x", "y", "z"]]
        assert (how.label, how.separator, how.features) == ("label", ";", 5)
        columns = {name: frame[name].to_numpy() for name in ("b", "same")} | {
            "word": frame["word"].to_numpy(object)
        }
        assert np.array_equal(how.apply(columns), dataset.x_train)
    # By hand, without scaling: b, same, then one input a word.
    assert dataset.x_train[3].tolist() == pytest.approx([0.1, 4.0, 0, 0, 1])


def test_flow_records() -> None:
    draw, n = np.random.default_rng(1), 40
    words = {name: np.array([known[k % 7] for k in range(n)], dtype=object) for name, known in WORDS.items()}
    words["proto"][0] = "beyond"
    numbers = {name: draw.normal(size=n) for name in NUMBERS}
    records = pd.DataFrame(numbers | words | {"attack_cat": ["Normal"] * n, "label": 0})
    part: Any = build("data", "unsw_nb15")
    is_test = np.arange(n) >= 30
    dataset = part._scaled(records, np.zeros(n, np.int64), is_test, ("normal", "attack"), [])
    assert np.array_equal(dataset.preprocessing.apply(numbers | words)[30:], dataset.x_test)
    assert dataset.x_test.shape[1] == 39 + sum(map(len, WORDS.values())) + 1  # one word more


def test_unknown_words_are_none_of_the_known_and_are_told() -> None:
    how = TablePreprocessing(numeric=[], categorical=[{"name": "c", "values": ["a", "b"]}])  # type: ignore[list-item]
    columns = {"c": np.array(["b", "new", "a"], dtype=object)}
    assert how.apply(columns).tolist() == [[0, 1], [0, 0], [1, 0]]
    assert how.unknown(columns) == {"c": ["new"]}


@pytest.mark.parametrize("x", [np.zeros((3, 4)), np.zeros((3, 2, 2, 2)), np.array([["a"] * 2] * 3)])
def test_samples_of_another_shape_are_refused(x: np.ndarray) -> None:
    with pytest.raises(InputError, match="allowed are numbers of shape"):
        ArrayPreprocessing.plain((2, 2, 1)).apply(x)


def test_processes_that_share_data_share_how_they_were_made() -> None:
    part = build("data", "digits")
    dataset = loaded("digits")
    assert rebuild(describe(part, dataset), arrays_of(dataset)).preprocessing == dataset.preprocessing
    assert preprocessing_of(None) is None


def test_digits_without_scikit_learn_are_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(
        InputError, match=r"data.kind = 'digits': comes with scikit-learn, which is not installed"
    ):
        digits._rows()


@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("count", [0, 1, 2, 1001, 2**17 - 1, 2**17, 2**17 + 1])
def test_bytes_are_counted_as_one_at_a_time(count: int, begin: int) -> None:
    values = np.random.default_rng(count).integers(0, 200, begin + count, dtype=np.uint8)[begin:]
    found = counts_of_bytes(values)
    assert found.shape == (256,)
    assert found.tolist() == [int((values == value).sum()) for value in range(256)]
    assert counts_of_bytes(np.repeat(values, 3)[1::3]).tolist() == found.tolist()  # one channel of three


@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("count", [0, 1, AT_ONCE, 2 * AT_ONCE + 3])
def test_scaled_pixels_are_those_of_one_at_a_time(count: int, channels: int, standardised: bool) -> None:
    draws = np.random.default_rng(count)
    images = draws.integers(0, 256, (count, 5, 4, channels), dtype=np.uint8)
    told = pixel_statistics(draws.integers(0, 256, (9, 5, 4, channels), dtype=np.uint8))
    statistics = told if standardised else None
    found = scale_pixels(images, statistics)
    mean, deviation = told if standardised else (np.zeros(channels), np.ones(channels))
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    assert found.shape == images.shape
    for place in np.ndindex(images.shape):
        channel = place[-1]
        exact = (int(images[place]) / 255.0 - mean[channel]) / deviation[channel]
        assert found[place] == np.float32(exact)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("more", [-1, 0, 1, AT_ONCE + 1, PIECE, 2 * PIECE + 5])
def test_threads_scale_each_pixel_once(more: int, channels: int) -> None:
    draws = np.random.default_rng(channels)
    images = draws.integers(0, 256, (PIECE + more, 1, 2, channels), dtype=np.uint8)
    mean, deviation = statistics = pixel_statistics(images)
    exact = (np.arange(256)[:, None] / 255.0 - mean) / deviation
    wanted = np.stack([exact[images[..., c], c] for c in range(channels)], axis=-1).astype(np.float32)
    assert np.array_equal(scale_pixels(images, statistics), wanted)
