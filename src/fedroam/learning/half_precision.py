"""Models at rest in half precision: a matrix that is held in 16 bits, and with which all is computed in float32.

IEEE 754's binary16 (float16) and not bfloat16, though both take two bytes. What local training changes must survive the
rounding to be learnt at all: half a step of the format is 2^-12 to 2^-11 of a value in float16, 2^-9 to 2^-8 in
bfloat16, and a round may change a weight by less than the latter (Micikevicius et al., ICLR 2018, arXiv:1710.03740,
Sec. 3.1, on updates that are lost next to the weights that they are added to; Zamirai et al. 2020, arXiv:2010.06192, on
bfloat16 weights that stand still where they are rounded to the nearest). What bfloat16 has more of is range, which
weights do not need: float16 reaches to 65504, beyond which a value becomes infinite, and steps of 6e-8 near zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from typing_extensions import override

# What gives the same values, or facts about the matrix: done with the 16 bits, and values stay in them.
_SAME = frozenset((
    "__get__", "__getitem__", "__iter__", "__len__", "as_strided", "chunk", "clone", "contiguous", "cpu", "detach",
    "dim", "element_size", "expand", "flatten", "index_select", "is_contiguous", "narrow", "numel", "permute",
    "reshape", "select", "size", "split", "split_with_sizes", "squeeze", "storage_offset", "stride", "to", "transpose",
    "unbind", "unsqueeze", "untyped_storage", "view", "view_as",
))  # fmt: skip
# What only writes: other values are rounded, and go where they are written.
_WRITES = frozenset(("__setitem__", "copy_", "index_copy_", "index_put_", "zero_"))


class HalfPrecision(torch.Tensor):
    """A tensor whose values are held as float16, and which otherwise behaves as a float32 tensor of these values.

    Views of it (rows, columns, `view`) are views into the same 16 bits, and copies by index are 16 bits, too. Whatever
    computes is handed the values as float32 and gives what it gives for those. What writes into it rounds to the
    nearest (of two equally near, to the even one), by way of float32; an operation in place is computed in float32 and
    then written. Beyond 65504 a value becomes infinite. `numpy()` is a float32 copy that may not be written into. Where
    it lies in memory is not told: nothing may take 16 bits for 32.
    """

    @classmethod
    @override
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """See "Extending torch with a Tensor-like type" of torch's documentation."""
        kwargs, name = dict(kwargs or {}), func.__name__
        own = args[0] if args and isinstance(args[0], cls) else None
        if name == "data_ptr":
            raise TypeError("a tensor in half precision has no float32 values in memory: copy it by float()")
        with torch._C.DisableTorchFunctionSubclass():
            if own is not None and name in _SAME:
                return _as_half(func(*args, **kwargs))
            if own is not None and name in _WRITES:
                func(*args[:1], *map(_rounded, args[1:]), **{k: _rounded(v) for k, v in kwargs.items()})
                return own
            plain = [_widened(each) for each in args]
            found = func(*plain, **{k: _widened(each) for k, each in kwargs.items()})
            if own is not None and _in_place(name):
                torch.Tensor.copy_(own, plain[0])
                return own
            if name in ("numpy", "__array__"):
                found.setflags(write=False)
            return found


def in_half_precision(matrix: torch.Tensor) -> torch.Tensor:
    """The same memory (float16) as a matrix that is computed with in float32."""
    return matrix.as_subclass(HalfPrecision)


def held(matrix: torch.Tensor) -> torch.Tensor:
    """The same memory, as the values are held: float16 or float32."""
    return matrix.as_subclass(torch.Tensor) if isinstance(matrix, HalfPrecision) else matrix


def widened(matrix: torch.Tensor) -> torch.Tensor:
    """The values as float32 in memory: the matrix (or row) itself, or a copy where it is held in 16 bits."""
    return matrix.float() if isinstance(matrix, HalfPrecision) else matrix


def _in_place(name: str) -> bool:
    """Whether torch's function of this name changes its first argument."""
    if name.startswith("__"):
        return name.startswith("__i") and name not in ("__index__", "__int__", "__invert__", "__iter__")
    return name.endswith("_")


def _as_half(found: Any) -> Any:
    """Tensors of 16 bits, alone or in a row, as half precision."""
    if isinstance(found, torch.Tensor):
        return found.as_subclass(HalfPrecision) if found.dtype == torch.float16 else held(found)
    if isinstance(found, tuple | list) and any(isinstance(each, torch.Tensor) for each in found):
        return tuple(map(_as_half, found))
    return found


def _widened(given: Any) -> Any:
    """What a function is handed, with float32 in the place of half precision."""
    if isinstance(given, HalfPrecision):
        return given.as_subclass(torch.Tensor).float()
    if isinstance(given, tuple | list) and any(isinstance(each, HalfPrecision) for each in given):
        return tuple(map(_widened, given))
    return given


def _rounded(given: Any) -> Any:
    """What is written, rounded to float32 and then to 16 bits; indices as they are."""
    if isinstance(given, HalfPrecision):
        return given.as_subclass(torch.Tensor)
    if isinstance(given, torch.Tensor) and given.is_floating_point():
        return given.float().half()
    return torch.tensor(given, dtype=torch.float32).half() if isinstance(given, float) else given
