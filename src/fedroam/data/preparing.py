"""Preprocessing that several sources share: scaling of pixels and columns, subsets, one-hot columns."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedroam.errors import InputError
from fedroam.randomness import stream

AT_ONCE = 1024  # images
PIECE = 6 * AT_ONCE  # images that one thread scales
THREADS = 2  # more wait for memory
COUNTED = 2048  # images


def pixel_statistics(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each channel, of pixels scaled to [0, 1]; float64 [channels] each.

    `images` are uint8 [n, h, w, c]. Computed from counts of the 256 values, so exact but for rounding.
    """
    values = np.arange(256) / 255.0
    counts = np.zeros((images.shape[-1], 256), dtype=np.int64)
    for first in range(0, len(images), COUNTED):  # `bincount` writes its input out as 64-bit numbers
        for c, found in enumerate(counts):
            found += counts_of_bytes(images[first : first + COUNTED, ..., c].reshape(-1))
    mean = counts @ values / counts.sum(axis=1)
    variance = (counts * (values - mean[:, None]) ** 2).sum(axis=1) / counts.sum(axis=1)
    return mean, np.sqrt(variance)


def counts_of_bytes(values: np.ndarray) -> np.ndarray:
    """How often each of the 256 values is there; int64 [256]. values: uint8 [n]."""
    values = np.ascontiguousarray(values)
    pairs = values[: len(values) // 2 * 2].view(np.uint16)
    if len(pairs) < 256 * 256:
        return np.bincount(values, minlength=256)
    # Two at a time, which takes half as long; which of a pair's bytes comes first does not matter.
    both = np.bincount(pairs, minlength=256 * 256).reshape(256, 256)
    return np.asarray(
        both.sum(axis=0) + both.sum(axis=1) + np.bincount(values[2 * len(pairs) :], minlength=256)
    )


def scale_pixels(images: np.ndarray, statistics: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """uint8 images [n, h, w, c] as contiguous float32: in [0, 1], then standardised per channel if asked.

    One table look-up per pixel: no copy of the images but the result. A channel without spread is only
    centred.
    """
    channels = images.shape[-1]
    mean, deviation = statistics if statistics is not None else (np.zeros(channels), np.ones(channels))
    deviation = np.where(deviation > 0, deviation, 1.0)
    table = ((np.arange(256)[:, None] / 255.0 - mean) / deviation).astype(np.float32)  # [256, channels]
    scaled = np.empty(images.shape, dtype=np.float32)

    # A look-up writes its indices out as 64-bit numbers: image by image they stay in the cache, all at once they
    # would be eight times the images, in fresh pages. Every byte is in the table, so nothing is ever clipped.
    def look_up(begin: int) -> None:
        for first in range(begin, min(begin + PIECE, len(images)), AT_ONCE):
            some = slice(first, min(first + AT_ONCE, begin + PIECE))
            for c in range(channels):
                table[:, c].take(images[some, ..., c], out=scaled[some, ..., c], mode="clip")

    if len(images) <= PIECE:
        look_up(0)
    else:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(look_up, range(0, len(images), PIECE)))
    return scaled


def column_statistics(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column of x [n, features], in float64; [features] each.

    A column that is constant (up to rounding) has deviation 1, so that scaling only centres it; so has one without
    rows, whose mean is 0. Raises InputError where values are too large to have a deviation.
    """
    if not len(x):
        return np.zeros(x.shape[1]), np.ones(x.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    beyond = np.flatnonzero(~np.isfinite(mean) | ~np.isfinite(deviation))
    if len(beyond):
        most = np.abs(x[:, beyond[0]]).max()
        raise InputError(
            f"data: column {beyond[0]} of the numbers has values up to {most:.3g}, too large for a mean and a standard "
            "deviation; allowed are finite ones up to 1e150"
        )
    flat = deviation <= 1e-12 * np.abs(mean)
    return mean, np.where(flat | (deviation == 0), 1.0, deviation)


def one_hot(values: np.ndarray, vocabulary: Sequence[str]) -> np.ndarray:
    """float32 [n, words]: 1 in the column of each value; a value outside the vocabulary is all zeros."""
    words = np.asarray(vocabulary, dtype=object)  # texts of one width would all be as wide as the longest
    order = np.argsort(words)
    at = np.searchsorted(words[order], values).clip(max=len(words) - 1)
    columns = order[at]
    hit = words[columns] == values
    hot = np.zeros((len(values), len(words)), dtype=np.float32)
    hot[np.flatnonzero(hit), columns[hit]] = 1.0
    return hot


def held_out(labels: np.ndarray, share: float, purpose: str) -> np.ndarray:
    """A fixed share of each class (rounded), the same for every seed: bool [n], true where held out."""
    chosen = np.zeros(len(labels), dtype=bool)
    for c in np.unique(labels):
        members = stream(0, purpose, client=int(c)).permutation(np.flatnonzero(labels == c))
        chosen[members[: round(share * len(members))]] = True
    return chosen


def none_held_out(labels: np.ndarray, share: float) -> str:
    """Why `held_out` held out nothing, in words; empty where it holds out samples."""
    most = int(np.unique(labels, return_counts=True)[1].max(initial=0))
    if share == 0:
        return "its test_share is 0"
    if round(share * most):
        return ""
    return f"its test_share of {share:g} of each class rounds to no sample, as no class has more than {most}"


def limit(labels: np.ndarray, count: int | None, setting: str, purpose: str) -> np.ndarray:
    """Indices (int64, ascending) of `count` samples with the classes in proportion; all if `count` is None.

    Class shares are rounded by largest remainder; within a class the choice is fixed, the same for every
    seed. Raises InputError where there are fewer samples than asked for.
    """
    if count is None or count == len(labels):
        return np.arange(len(labels))
    if count > len(labels):
        raise InputError(f"{setting} = {count}: the data has {len(labels)} (leave it out to take all)")
    classes, sizes = np.unique(labels, return_counts=True)
    exact = count * sizes / len(labels)
    take = np.floor(exact).astype(np.int64)
    take[np.argsort(take - exact, kind="stable")[: count - take.sum()]] += 1
    chosen = [
        stream(0, purpose, client=int(c)).permutation(np.flatnonzero(labels == c))[:k]
        for c, k in zip(classes, take, strict=True)
    ]
    return np.sort(np.concatenate(chosen))
