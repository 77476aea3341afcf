"""The 1,797 handwritten digits of scikit-learn: small, always there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np

from fedroam.components import Part, field, register
from fedroam.data.cache import remember
from fedroam.data.dataset import Dataset
from fedroam.data.preparing import held_out
from fedroam.data.preprocessing import ArrayPreprocessing
from fedroam.errors import InputError


def _rows() -> np.ndarray:
    """What scikit-learn's `load_digits` reads, float64 [samples, 65]: 64 pixels, then the class.

    Its file is read where it lies: to import scikit-learn for it takes longer than all the rest of a short run. Raises
    InputError where there is no scikit-learn, as on a device with the light install.
    """
    found = find_spec("sklearn")
    for place in found.submodule_search_locations or () if found is not None else ():
        path = Path(place) / "datasets/data/digits.csv.gz"
        if path.exists():
            return np.loadtxt(path, delimiter=",")
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            "data.kind = 'digits': comes with scikit-learn, which is not installed here: pip install scikit-learn, "
            "or choose other data"
        ) from None

    raw = load_digits()
    return np.column_stack([raw.data, raw.target])


@register("data", "digits", source="Alpaydin, Kaynak 1998, UCI, doi:10.24432/C50P49 (CC BY 4.0)")
class Digits(Part):
    """Handwritten digits of scikit-learn: 1,797 grey images of 8x8, ten classes; no download.

    A fixed fifth of each class (the same for every seed) is the test set.
    """

    test_share: float = field(0.2, "share of each class kept as the shared test set", gt=0, lt=1)
    normalise: Literal["standardise", "unit"] = field(
        "standardise", "pixels scaled to [0, 1], then standardised by the training images' mean and deviation"
    )

    def load(self) -> Dataset:
        """The data set, read once per process."""
        return remember(self, (), self._read)

    def _read(self) -> Dataset:
        rows = _rows()
        x = (rows[:, :-1].reshape(-1, 8, 8) / 16.0).astype(np.float32)[..., None]
        y = rows[:, -1].astype(np.int64)
        is_test = held_out(y, self.test_share, "digits test set")
        if is_test.all():
            raise InputError(
                f"data.test_share = {self.test_share:g}: leaves none of {len(y)} samples for training"
            )
        preprocessing = ArrayPreprocessing.plain(x.shape[1:], 16.0)
        if self.normalise == "standardise":
            mean, deviation = x[~is_test].mean(dtype=np.float64), x[~is_test].std(dtype=np.float64)
            x = ((x - mean) / deviation).astype(np.float32)
            preprocessing = ArrayPreprocessing.standardised(
                x.shape[1:], np.array([mean]), np.array([deviation]), 16.0
            )
        return Dataset(
            "digits",
            x[~is_test],
            y[~is_test],
            x[is_test],
            y[is_test],
            tuple(str(c) for c in range(10)),
            preprocessing=preprocessing,
        )
