"""Many calls of kernels by one: what stands between them costs as much as a small kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from fedroam.learning.cpu.kernels.ir import KernelBuilder, Value
from fedroam.learning.cpu.kernels.target import Kernel, KernelSpec, Target, address, ir, kernel

MOST = 14  # arguments of a kernel
WIDTH = MOST + 2

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
        rest = [0] * MOST
        rows = [[address(run), len(given), *given, *rest[len(given) :]] for run, given in calls]
        self.program = np.array(rows, dtype=np.int64)
        self._all = kernel(Chain(), target)
        self._given = self.program.ctypes.data, len(rows)

    def __call__(self) -> None:
        """Do them all."""
        self._all(*self._given)
