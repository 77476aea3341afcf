"""A kernel of how far features are from the prototypes of their classes, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.between.columns import alone, over
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target


@dataclass(frozen=True)
class PrototypeTerm(KernelSpec):
    """slopes += 2 f (z - prototype of the class), and f times the squared distance, of samples whose class has one.

    Kernel: (addresses of the features z float32 [n, features], of the n samples' classes int64, of the prototypes
    [classes, features], of whether each is known int64 [classes], of f, of the terms float32 [n], of the slopes
    [n, features]; n).
    """

    features: int

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 7, 1)
        at_z, at_y, prototypes, known, settings, terms, slopes, n = k.arguments
        width, (factor,) = self.features, k.load_numbers(settings, 1)
        twice, nothing = k.b.fadd(factor, factor), k.constant(0.0)

        def of_sample(sample: Value, _: list[Value]) -> None:
            own = k.whole_at(at_y, sample)
            there = k.b.icmp_signed("!=", k.whole_at(known, own), k.number(0))
            z, slope = (k.at(begin, k.times(sample, width)) for begin in (at_z, slopes))
            prototype = k.at(prototypes, k.times(own, width))

            def add(at: Value, sums: list[Value], some: int) -> list[Value]:
                seen, middle = (k.load_some(k.at(row, at), some) for row in (z, prototype))
                # Features that are no numbers are not told of a class without a prototype.
                away = k.b.select(there, k.b.fsub(seen, middle), nothing)
                before = k.load_some(k.at(slope, at), some)
                k.store_some(k.fma(twice, away, before), k.at(slope, at), some)
                return [k.fma(away, away, sums[0])]

            (total,) = over(k, width, [nothing], add)
            term = k.b.fmul(factor, k.spread(k.fold(total, k.b.fadd)))
            k.b.store(alone(k, term), k.at(terms, sample))

        k.loop(0, n, 1, [], of_sample)
        return k.end()
