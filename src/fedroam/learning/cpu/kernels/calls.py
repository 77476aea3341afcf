"""Many calls of kernels by one: what stands between them costs as much as a small kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import Kernel, KernelSpec, Target, address, ir, kernel

MOST = 14  # arguments of a kernel
WIDTH = MOST + 2
PLACES = 56  # bits of an address that is not known yet which tell no more than how far behind it

Call = tuple[Kernel, Sequence[int]]


@dataclass(frozen=True)
class Chain(KernelSpec):
    """Kernels one after the other. Kernel: (address of the calls int64 [calls, WIDTH]; calls).

    A call holds where the kernel's code lies, the number of its arguments, and these.
    """

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 1, 1)
        program, calls = k.arguments

        def of_call(i: Value, _: list[Value]) -> None:
            begin = k.times(i, WIDTH)
            code = k.whole_at(program, begin)
            after = k.b.append_basic_block()
            chosen = k.b.switch(k.whole_at(program, k.sum(begin, 1)), after)
            for count in range(1, MOST + 1):
                block = k.b.append_basic_block()
                chosen.add_case(ir.Constant(k.whole, count), block)
                k.b.position_at_end(block)
                given = [k.whole_at(program, k.sum(begin, 2 + each)) for each in range(count)]
                k.call_at(code, given)
                k.b.branch(after)
            k.b.position_at_end(after)

        k.loop(0, calls, 1, [], of_call)
        return k.end()


class Calls:
    """Calls of kernels, done in turn by one. What their addresses stand for must be kept by whoever gave them."""

    def __init__(self, calls: Sequence[Call], target: Target) -> None:
        self.kernels = [run for run, _ in calls]  # they own their code
        self.program = _rows(calls)
        self._all = kernel(Chain(), target)
        self._given = self.program.ctypes.data, len(calls)

    def __call__(self) -> None:
        """Do them all."""
        self._all(*self._given)


class Pattern:
    """Calls that are done again and again, each time at other places.

    For addresses that differ `unknown` gives what stands for them, to which bytes may be added. kept: what lies at the
    others.
    """

    def __init__(self, calls: Sequence[Call], kept: object = None) -> None:
        self.kernels, self.kept = [run for run, _ in calls], kept  # kernels own their code
        rows = _rows(calls)
        # The first column is where code lies.
        self.which = rows >> PLACES
        self.which[:, 0] = 0
        self.rest = rows - (self.which << PLACES)

    @staticmethod
    def unknown(places: int) -> list[int]:
        """What stands for so many addresses."""
        return [number << PLACES for number in range(1, places + 1)]

    def at(self, addresses: np.ndarray) -> np.ndarray:
        """The calls for each row of addresses, int64 [times, places]: as `Chain` reads them, int64
        [times, calls, WIDTH]."""
        known = np.concatenate([np.zeros((len(addresses), 1), np.int64), addresses], axis=1)
        found: np.ndarray = np.take(known, self.which, axis=1) + self.rest
        return found


def run(program: np.ndarray, target: Target) -> None:
    """Do calls as `Pattern.at` gives them, one after the other."""
    rows = np.ascontiguousarray(program)
    kernel(Chain(), target)(rows.ctypes.data, rows.size // WIDTH)


def _rows(calls: Sequence[Call]) -> np.ndarray:
    """Calls as `Chain` reads them, int64 [calls, WIDTH]."""
    rest = [0] * MOST
    rows = [[address(run), len(given), *given, *rest[len(given) :]] for run, given in calls]
    return np.array(rows, dtype=np.int64)
