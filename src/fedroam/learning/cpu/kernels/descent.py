"""A kernel of one step of gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target


@dataclass(frozen=True)
class Descent(KernelSpec):
    """SGD as torch.optim.SGD, v <- m v + g + d w; w <- w - lr v, after which the gradient g is 0.

    momentum: whether there are velocities v. Kernel: (addresses of the row float32 [parameters], of the gradient, of
    the velocities, of lr, d and m; parameters).
    """

    momentum: bool

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 4, 1)
        row, gradient, velocities, settings, size = k.arguments
        rate, decay, kept = k.load_numbers(settings, 3)
        down, nothing = k.b.fneg(rate), k.constant(0.0)

        def of_columns(at: Value, some: int | Value) -> None:
            weight, slope = (k.load_some(k.at(begin, at), some) for begin in (row, gradient))
            slope = k.fma(decay, weight, slope)
            if self.momentum:
                slope = k.fma(kept, k.load_some(k.at(velocities, at), some), slope)
                k.store_some(slope, k.at(velocities, at), some)
            k.store_some(k.fma(down, slope, weight), k.at(row, at), some)
            k.store_some(nothing, k.at(gradient, at), some)

        whole = k.b.sub(size, k.b.srem(size, k.number(k.lanes)))
        k.loop(0, whole, k.lanes, [], lambda at, _: of_columns(at, k.lanes))
        k.loop(whole, size, k.lanes, [], lambda at, _: of_columns(at, k.b.sub(size, at)))
        return k.end()
