"""The smallest key that reaches a bound."""

from __future__ import annotations

import numpy as np
import pytest

from fedroam.analysis.statistics.threshold import smallest_reaching
from fedroam.errors import InputError


def test_smallest_reaching_by_hand() -> None:
    keys = [5, 1, 3, 2]  # any order
    values = np.array([[99, 10, 91, 60], [98, 14, 93, 64], [97, 12, 92, 95]], dtype=float)
    found = smallest_reaching(keys, values, 100.0, share=0.9)
    assert found.keys == (1, 2, 3, 5)
    assert found.first == 3  # means 12, 73, 92, 98 against 90
    assert found.sure == 3  # 3 and 5 are beyond doubt, t(2) = 2 / (1 / sqrt 3) = 3.46, p = .037
    assert found.ruled_out == 1  # 73 ± 11 is not
    assert found.by_seed == (3, 3, 2)
    assert "reached on average from 3 on" in found.words()
    never = smallest_reaching([1, 2], np.array([[1.0, 2.0], [1.5, 2.5]]), [10.0, 11.0])
    assert (never.first, never.sure, never.by_seed) == (None, None, (None, None))
    assert never.ruled_out == 2
    with pytest.raises(InputError, match="share"):
        smallest_reaching([1], np.ones((2, 1)), 1.0, share=2)
