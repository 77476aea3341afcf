"""Functions compiled from their Python give what Python gives, bit for bit, and say what cannot be compiled."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.native import compiled, target
from fedroam.native.of_python import OfPython

pytestmark = pytest.mark.skipif(target() is None, reason="needs llvmlite")

Whole = Annotated[np.ndarray, np.int64, 1]
Real = Annotated[np.ndarray, np.float64, 1]
Rows = Annotated[np.ndarray, np.float64, 3]
Flags = Annotated[np.ndarray, np.bool_, 1]
ITEM = np.dtype((np.record, [("weight", np.float64), ("number", np.int64)]))
Items = Annotated[np.ndarray, ITEM, 1]
SHIFT, HALF = 3, 0.5


class Both(NamedTuple):
    """Arrays and numbers together."""

    whole: Whole
    real: Real
    factor: float
    turned: bool


def everything(both: Both, rows: Rows, flags: Flags, items: Items, length: int) -> int:
    """Each operation that there is."""
    whole, real = both.whole, both.real
    found, total = 0, 0.0
    for k in range(length):
        value, number = real[k], whole[k]
        if value != value:  # NaN
            flags[k] = True
            continue
        if number == 7 or (number > 7 and number in (9, 11)):
            found += number << SHIFT
        elif not number < 0:
            found -= (number >> 1) * 3
        else:
            found += -number
        share = value / 3 if value > HALF else max(value, -1.0) - HALF
        total = total + share * both.factor
        rows[k, 0], rows[k, 1] = share, min(total, value)
        rows[k, 2] += 1 + number
        items[k].weight = items[k].number = number
        items[k].weight *= 1.5 if value >= math.inf else -value
        flags[k] = both.turned
    while found > 100:
        found -= 7
        if found == 105:
            break
    _least_first(real, length)
    return found + _twice(found)


def _least_first(real: Real, length: int) -> None:
    """Sort."""
    for k in range(1, length):
        at = k
        while at > 0 and real[at - 1] > real[at]:
            real[at - 1], real[at] = real[at], real[at - 1]
            at -= 1


def _twice(number: int) -> int:
    """Of those above 0, and the number of times 9 below it."""
    times = 0
    for k in range(4):
        for s in range(k):
            if s == 2:
                break
            times += 1
        k = 9  # the loop goes its own way
        times += k
    return 2 * number if number > 0 else times


def told(values: list[float], numbers: list[int], factor: float, turned: bool) -> tuple[Any, ...]:
    n = len(values)
    whole, real = np.array(numbers, dtype=np.int64), np.array(values, dtype=np.float64)
    items = np.zeros(n, dtype=ITEM)
    return Both(whole, real, factor, turned), np.zeros((n, 3)), np.zeros(n, dtype=np.bool_), items, n


FLOATS = st.floats(width=64)
LISTS = st.integers(0, 8).flatmap(
    lambda n: st.tuples(
        st.lists(FLOATS, min_size=n, max_size=n), st.lists(st.integers(-20, 20), min_size=n, max_size=n)
    )
)


@given(LISTS, FLOATS, st.booleans())
def test_compiled_is_python_bit_for_bit(
    lists: tuple[list[float], list[int]], factor: float, turned: bool
) -> None:
    fast = compiled(everything)
    assert fast is not None
    one, other = told(*lists, factor, turned), told(*lists, factor, turned)
    with np.errstate(all="ignore"):
        assert fast(*one) == everything(*other)
    for found, expected in zip((*one[0][:2], *one[1:4]), (*other[0][:2], *other[1:4]), strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)


def test_the_first_arguments_may_be_given_once_and_for_all() -> None:
    fast = compiled(everything)
    assert fast is not None
    one, other = (told([1.0, -2.5, 3.0], [3, 4, -1], 0.5, True) for _ in range(2))
    for some in (1, 4, 5):
        given_once = fast.given(*one[:some])
        for _ in range(2):  # what the arrays hold now counts, not what they held then
            assert given_once(*one[some:]) == everything(*other)
            np.testing.assert_array_equal(one[1], other[1], strict=True)
            np.testing.assert_array_equal(one[0].real, other[0].real, strict=True)
    both, rows, *rest = one
    with pytest.raises(TypeError, match="allowed is float64"):
        fast.given(both, rows.astype(np.float32))
    with pytest.raises(TypeError, match="allowed is float64"):
        fast.given(both)(rows.astype(np.float32), *rest)
    with pytest.raises(ValueError, match="zip"):
        fast.given(*one[:4])()
    with pytest.raises(TypeError, match=f"found {len(one) + 1} arguments, allowed are {len(one)}"):
        fast(*one, 1)


def test_arrays_of_another_kind_are_refused() -> None:
    fast = compiled(everything)
    assert fast is not None
    both, rows, flags, items, length = told([1.0, 2.0], [3, 4], 1.0, False)
    wrong: list[tuple[Any, ...]] = [
        (both._replace(whole=both.whole.astype(np.int32)), rows, flags, items, length),
        (both._replace(real=both.real[::2]), rows, flags, items, length),
        (both, np.zeros((2, 4)), flags, items, length),
        (both, np.asfortranarray(np.zeros((2, 3))), flags, items, length),
        (both, rows, flags.astype(np.int64), items, length),
    ]
    for arguments in wrong[:1] + wrong[2:]:
        with pytest.raises(TypeError, match="allowed is"):
            fast(*arguments)
    with pytest.raises(TypeError, match="allowed is float64"):
        fast(both._replace(real=np.zeros(4)[::2]), *wrong[1][1:])


HEAD = """from __future__ import annotations
from typing import Annotated
import numpy as np
Real = Annotated[np.ndarray, np.float64, 1]
NUMBER, NAME = {number}, "name"

def asked(real: Real, count: int) -> int:
"""


def written(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str, number: int = 3) -> ModuleType:
    """A module with one function."""
    name = f"asked_of_{number}"
    file = folder / f"{name}.py"
    file.write_text(HEAD.format(number=number) + "".join(f"    {line}\n" for line in body.splitlines()))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("return count % 2", "count % 2"),
        ("return count // 2", "count // 2"),
        ("return 1 / count", "return 1 / count"),
        ("return NAME", "NAME"),
        ("return unknown", "unknown"),
        ("return 0 < count < 3", "0 < count < 3"),
        ("if count:\n    return 1\nreturn 0", "count"),
        ("count = 0.5\nreturn count", "count"),
        ("real = 1\nreturn count", "real"),
        ("real = real\nreturn count", "real"),
        ("return real[0, 1]", "real[0, 1]"),
        ("return real[0.5]", "real[0.5]"),
        ("return real.size", "real.size"),
        ("return len(real)", "len(real)"),
        ("return max(count, 1, 2)", "max(count, 1, 2)"),
        ("return [count][0]", "[count]"),
        ("with count:\n    return 1", "with count:"),
        ("for k in real:\n    return 1\nreturn 0", "for k in real:"),
        ("first, second = count\nreturn first", "(first, second)"),
        ("return count if count > 1 else real", "count if count > 1 else real"),
        ("return count and 1", "count"),
    ],
)
def test_what_cannot_be_compiled_is_told_with_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, what: str
) -> None:
    asked = vars(written(monkeypatch, tmp_path, body))["asked"]
    with pytest.raises(TypeError, match=r"line \d+: ") as told:
        compiled(asked)
    assert f"{what!r} cannot be compiled here" in str(told.value)


def test_another_number_is_another_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The numbers that a module names are in its kernels, and in what those are kept under."""
    found: list[tuple[Callable[..., int], OfPython]] = []
    for number in (3, 4):
        asked = vars(written(monkeypatch, tmp_path, "return NUMBER + count", number))["asked"]
        fast, spec = compiled(asked), OfPython.of(asked)
        assert fast is not None
        assert spec is not None
        found.append((fast, spec))
    assert [fast(np.zeros(1), 10) for fast, _ in found] == [13, 14]
    assert found[0][1] != found[1][1]


def test_nothing_is_compiled_where_it_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    assert compiled(everything) is None
