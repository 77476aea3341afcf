"""What parts of one's own answer, as arrays, held against what their families promise (see `components.answer_of`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from fedroam.errors import InputError


def as_array(found: Any) -> np.ndarray:
    """What a part gave, as an array: of an object where it is none, as rows of unequal length are."""
    try:
        return np.asarray(found)
    except ValueError:
        return np.empty((), dtype=object)


def found_as(found: Any) -> str:
    """What a part gave, in words."""
    values, name = as_array(found), type(found).__name__
    return name if values.dtype.kind == "O" else f"{name} of shape {list(values.shape)}, {values.dtype}"


def checked_numbers(
    what: str,
    found: Any,
    count: int,
    each: str,
    name: Callable[[int], str] | None = None,
    *,
    infinite: bool = False,
) -> np.ndarray:
    """Numbers from 0 on as float64 [count], one for `each`; `name` says which the one at a place is for.

    Raises InputError where they are something else, and where they are not finite unless `infinite` ones are allowed.
    """
    values = as_array(found)
    if values.shape != (count,) or values.dtype.kind not in "biuf":
        raise InputError(
            f"{what}: gave {found_as(found)}, allowed is one number for each {each}, float64 [{count}]"
        )
    wrong = ~(values >= 0) if infinite else ~(values >= 0) | np.isinf(values)
    if wrong.any():
        k = int(np.flatnonzero(wrong)[0])
        whose = f"{each} {k}" if name is None else name(k)
        allowed = "numbers from 0 on, or inf" if infinite else "finite numbers from 0 on"
        raise InputError(f"{what}: gave {values[k]:g} for {whose}, allowed are {allowed}")
    return values.astype(np.float64)


def checked_number(what: str, found: Any, *, infinite: bool = False) -> float:
    """One number from 0 on. Raises InputError where it is something else, and where it is not finite unless that is
    allowed."""
    value = as_array(found)
    number = float(value) if value.shape == () and value.dtype.kind in "iuf" else np.nan
    if not number >= 0 or (np.isinf(number) and not infinite):
        raise InputError(
            f"{what} is {found!r}, allowed is a number from 0 on{', or inf' if infinite else ''}"
        )
    return number


def checked_whole(what: str, found: Any, below: int, noun: str) -> np.ndarray:
    """Whole numbers from 0 to `below` - 1, each the number of a `noun`, as int64 [any number].

    Raises InputError where they are something else. Truth values are none: as numbers they would be 0 and 1.
    """
    values = as_array(found)
    whole = values.dtype.kind in "iu" or not values.size  # an empty list is float64 to numpy
    if values.ndim != 1 or not whole:
        raise InputError(f"{what} {found_as(found)}; allowed are whole numbers, int64 [any number]")
    wrong = np.flatnonzero((values < 0) | (values >= below))
    if len(wrong):
        raise InputError(f"{what} {noun} {values[wrong[0]]}; allowed are numbers from 0 to {below - 1}")
    return values.astype(np.int64)


def plain_arrays(state: Any, needed: str) -> dict[str, np.ndarray]:
    """A state as arrays of numbers. Raises InputError where it is no mapping of such; it is to have one `needed`."""
    if not isinstance(state, Mapping):
        raise InputError(f"its state is {type(state).__name__}, expected is a mapping with `{needed}`")
    arrays = {name: as_array(value) for name, value in state.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"the state's {name!r} is {array.dtype}, allowed are arrays of numbers")
    return arrays


def check_sparse(found: Any, what: str) -> None:
    """Raise InputError where a sparse array in rows or columns does not hold together: scipy reads at the indices that
    it is told."""
    if isinstance(found, sparse.csr_array | sparse.csr_matrix | sparse.csc_array | sparse.csc_matrix):
        try:
            found.check_format(full_check=True)
        except ValueError as error:
            raise InputError(f"{what} gave a damaged {type(found).__name__}: {error}") from error


def kept_state(
    found: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray] | None, **fixed: type
) -> dict[str, np.ndarray]:
    """A state as a checkpoint holds it, and gives it back: copies in the machine's own order of bytes, of the names,
    kinds and numbers of axes that the state before has (None: it is the first), and those that are `fixed` of their
    type. Raises InputError where it has others: such a run could not be gone on with."""
    arrays = {name: np.array(array, dtype=fixed.get(name), order="C") for name, array in found.items()}
    for name, array in arrays.items():
        if array.dtype.itemsize > 8:
            raise InputError(f"the state's {name!r} is {array.dtype}, allowed are at most 64 bits")
        if not array.dtype.isnative:
            arrays[name] = array.astype(array.dtype.newbyteorder("="))
    if before is None:
        return arrays
    if lacking := before.keys() - arrays.keys():
        raise InputError(
            f"the state that step gave lacks {', '.join(sorted(lacking))}, allowed is all that the one before it has"
        )
    for name, was in before.items():
        array = arrays[name]
        if array.dtype != was.dtype or array.ndim != was.ndim:
            raise InputError(
                f"the state's {name!r} is {array.dtype} with {array.ndim} axes and was {was.dtype} with {was.ndim} "
                "before; allowed is the same in all rounds, as what checkpoints hold"
            )
    return arrays


def same_again(first: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    """Raise InputError where a part, asked twice with the same, gave two answers: a run of it could not be repeated or
    resumed. Of draws from elsewhere than its stream, and of what it keeps, nothing else can be seen."""
    for name in (*first, *(again.keys() - first.keys())):
        one, other = as_array(first.get(name)), as_array(again.get(name))
        if one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes():
            continue
        differ = ""
        if one.shape == other.shape and one.dtype.kind in "biuf" and other.dtype.kind in "biuf":
            apart = np.flatnonzero(~((one == other) | ((one != one) & (other != other))).ravel())
            if len(apart):  # else they differ in the sign of 0, or in their type
                differ = f" ({one.ravel()[apart[0]]:g}, then {other.ravel()[apart[0]]:g})"
        raise InputError(
            f"asked twice with the same, it gave another {name}{differ}; allowed are draws from fedroam.randomness."
            "stream alone, made anew for each answer, and nothing that is kept from one answer to the next"
        )


def only_to_read(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same arrays, into which nobody can write: a state changed in place would be lost to who still needs it."""
    shown = {name: np.asarray(array).view() for name, array in state.items()}
    for array in shown.values():
        array.flags.writeable = False
    return shown
