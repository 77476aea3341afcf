"""Kernels of a vector that is added to all features, and of their running mean, which is drawn to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.between.columns import each, over
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target, ir


@dataclass(frozen=True)
class MemoryAhead(KernelSpec):
    """outputs = z + memory; mean = kept mean + new sum of z over samples; pull = slope (mean - target).

    Kernel: (addresses of the features z float32 [n, features], of memory, mean and target [features], of kept, new,
    slope and f, of the term float32, of the outputs [n, features], of the pull [features]; n). The term is f times the
    squared distance of mean and target.
    """

    features: int

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 8, 1)
        at_z, memory, mean, wanted, settings, term, outputs, pull, n = k.arguments
        kept, new, slope, factor = k.load_numbers(settings, 4)

        def of_columns(at: Value, before: list[Value], some: int) -> list[Value]:
            added = k.load_some(k.at(memory, at), some)

            def of_sample(sample: Value, sums: list[Value]) -> list[Value]:
                place = k.sum(k.times(sample, self.features), at)
                seen = k.load_some(k.at(at_z, place), some)
                k.store_some(k.b.fadd(seen, added), k.at(outputs, place), some)
                return [k.b.fadd(sums[0], seen)]

            (total,) = k.loop(0, n, 1, [k.constant(0.0)], of_sample)
            running = k.fma(new, total, k.b.fmul(kept, k.load_some(k.at(mean, at), some)))
            k.store_some(running, k.at(mean, at), some)
            away = k.b.fsub(running, k.load_some(k.at(wanted, at), some))
            k.store_some(k.b.fmul(slope, away), k.at(pull, at), some)
            return [k.fma(away, away, before[0])]

        (total,) = over(k, self.features, [k.constant(0.0)], of_columns)
        first = k.b.extract_element(factor, ir.Constant(k.half, 0))
        k.b.store(k.b.fmul(first, k.fold(total, k.b.fadd)), term)
        return k.end()


@dataclass(frozen=True)
class MemoryBack(KernelSpec):
    """gradient += sum of the slopes over samples; slopes += pull.

    Kernel: (addresses of the slopes float32 [n, features], of the pull [features], of the memory's gradient [features];
    n).
    """

    features: int

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 3, 1)
        slopes, pull, gradient, n = k.arguments

        def of_columns(at: Value, some: int) -> None:
            added = k.load_some(k.at(pull, at), some)

            def of_sample(sample: Value, sums: list[Value]) -> list[Value]:
                place = k.at(slopes, k.times(sample, self.features), at)
                slope = k.load_some(place, some)
                k.store_some(k.b.fadd(slope, added), place, some)
                return [k.b.fadd(sums[0], slope)]

            (total,) = k.loop(0, n, 1, [k.constant(0.0)], of_sample)
            into = k.at(gradient, at)
            k.store_some(k.b.fadd(k.load_some(into, some), total), into, some)

        each(k, self.features, of_columns)
        return k.end()
