"""A kernel of the contrast between two other networks' features, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.between.columns import (
    LEAST_NORMAL,
    alone,
    each,
    summed,
)
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target


@dataclass(frozen=True)
class ContrastTerm(KernelSpec):
    """slopes += f times the gradient of the sum over samples of log(1 + e^u), u = (cos(z, far) - cos(z, near)) / tau.

    With w = far / |far| - near / |near|, that of u in z is (w - (z w) z / |z|^2) / (tau |z|). Lengths that are divided
    by are `least` at least.

    Kernel: (addresses of the features z float32 [n, features], of near and far [all, features], of the places of the n
    samples among these int64, of f and tau, of the terms float32 [2, n], of the slopes [n, features]; n). f times a
    sample's term is the one plus f times the logarithm of the other.
    """

    features: int
    least: float

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 7, 1)
        at_z, at_near, at_far, at_places, settings, terms, slopes, n = k.arguments
        width, (factor, tau) = self.features, k.load_numbers(settings, 2)
        one, nothing, least = k.constant(1.0), k.constant(0.0), k.constant(self.least)

        def of_sample(sample: Value, _: list[Value]) -> None:
            there = k.times(k.whole_at(at_places, sample), width)
            z, slope = (k.at(begin, k.times(sample, width)) for begin in (at_z, slopes))
            near, far = k.at(at_near, there), k.at(at_far, there)

            def squares(at: Value, some: int) -> list[tuple[Value, Value]]:
                return [(v, v) for v in (k.load_some(k.at(row, at), some) for row in (z, near, far))]

            lengths = [k.root(total) for total in summed(k, width, 3, squares)]
            length, (at_least, by_near, by_far) = lengths[0], [k.maximum(v, least) for v in lengths]

            def direction(at: Value, some: int) -> Value:
                rows = (k.load_some(k.at(row, at), some) for row in (far, near))
                return k.b.fsub(*(k.b.fdiv(row, by) for row, by in zip(rows, (by_far, by_near), strict=True)))

            (product,) = summed(
                k, width, 1, lambda at, some: [(k.load_some(k.at(z, at), some), direction(at, some))]
            )
            along = k.b.fdiv(product, at_least)
            u = k.b.fdiv(along, tau)
            power = k.exp(k.b.fneg(k.maximum(u, k.b.fneg(u))))
            total = k.b.fadd(one, power)
            k.b.store(alone(k, k.b.fmul(factor, k.maximum(u, nothing))), k.at(terms, sample))
            k.b.store(alone(k, total), k.at(terms, n, sample))
            share = k.b.fdiv(k.b.select(k.b.fcmp_ordered(">=", u, nothing), one, power), total)
            share = k.b.fdiv(k.b.fdiv(k.b.fmul(share, factor), tau), at_least)
            # A length of 0 has no slope of its own.
            own = k.b.fneg(k.b.fdiv(along, k.maximum(length, k.constant(LEAST_NORMAL))))

            def add(at: Value, some: int) -> None:
                own_slope = k.fma(own, k.load_some(k.at(z, at), some), direction(at, some))
                before = k.load_some(k.at(slope, at), some)
                k.store_some(k.fma(own_slope, share, before), k.at(slope, at), some)

            each(k, width, add)

        k.loop(0, n, 1, [], of_sample)
        return k.end()
