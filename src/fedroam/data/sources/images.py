"""What image sources have in common: pixels to float32, statistics of the training images, subsets."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from fedroam.components import Part, field
from fedroam.data.cache import remember
from fedroam.data.dataset import Dataset
from fedroam.data.preparing import limit, pixel_statistics, scale_pixels
from fedroam.data.preprocessing import ArrayPreprocessing


class ImageArrays(NamedTuple):
    """Images as the files hold them: uint8 [n, height, width, channels] and classes int64 [n]."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


class ImageSource(Part):
    """Images from the publisher's files. Subclasses find the files and read them.

    class_names: in the order of the classes. published: how many training and test images the publisher has.
    """

    class_names: ClassVar[tuple[str, ...]]
    published: ClassVar[tuple[int, int]]

    root: str | None = field(
        None, "folder to look in first, before FEDROAM_DATA and the cache of downloads", identity=False
    )
    normalise: Literal["standardise", "unit"] = field(
        "standardise",
        "unit: pixels scaled to [0, 1]; standardise: then by each channel's mean and deviation over all "
        "training images",
    )
    train_samples: int | None = field(
        None, "keep this many training images, classes in proportion", unit="images", ge=1
    )
    test_samples: int | None = field(
        None, "keep this many test images, classes in proportion", unit="images", ge=1
    )

    @abstractmethod
    def files(self) -> tuple[Path, ...]:
        """The files to read. Raises InputError where they cannot be found."""

    @abstractmethod
    def read(self, files: tuple[Path, ...]) -> ImageArrays:
        """What the files hold. Raises InputError where one is damaged."""

    def load(self) -> Dataset:
        """The data set, read once per process. Raises InputError if missing or damaged."""
        files = self.files()
        return remember(self, files, lambda: self._prepared(self.read(files)))

    def _prepared(self, raw: ImageArrays) -> Dataset:
        statistics = pixel_statistics(raw.x_train) if self.normalise == "standardise" else None
        train = limit(raw.y_train, self.train_samples, "data.train_samples", f"{self.kind} training subset")
        test = limit(raw.y_test, self.test_samples, "data.test_samples", f"{self.kind} test subset")
        shape = raw.x_train.shape[1:]
        preprocessing = ArrayPreprocessing.plain(shape, 255.0)
        if statistics is not None:
            preprocessing = ArrayPreprocessing.standardised(shape, *statistics, 255.0)
        found = (len(raw.y_train), len(raw.y_test))
        notes = []
        if found != self.published:
            notes.append(
                f"{found[0]} training and {found[1]} test images found; the published data set has "
                f"{self.published[0]} and {self.published[1]}"
            )
        return Dataset(
            self.kind,
            scale_pixels(raw.x_train if len(train) == found[0] else raw.x_train[train], statistics),
            raw.y_train[train],
            scale_pixels(raw.x_test if len(test) == found[1] else raw.x_test[test], statistics),
            raw.y_test[test],
            self.class_names,
            notes=tuple(notes),
            preprocessing=preprocessing,
        )
