"""A kernel that picks samples by their indices and lays them side by side, as the convolutions read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.convolution import Images
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target


@dataclass(frozen=True)
class Picked(KernelSpec):
    """x[..., s] = the sample of index s, of which images hold as many as are asked for; the last index fills the rest.

    lanes: samples at a time, of which the number of samples must be a multiple. Kernel: (addresses of all samples
    float32 [all, height, width, channels], of the indices int64 [n], of x; n, samples).
    """

    x: Images
    lanes: int

    @override
    def write(self, module: Any, target: Target) -> int:
        k, x = KernelBuilder(module, self.lanes, 3, 2), self.x
        at_all, at_index, at_x, n, samples = k.arguments
        size = x.height * x.width * x.channels
        full = size // k.lanes * k.lanes

        def of_samples(first: Value, _: list[Value]) -> None:
            begins = []
            for j in range(k.lanes):
                there = k.smaller(k.sum(first, j), k.b.sub(n, k.number(1)))
                begins.append(k.at(at_all, k.times(k.whole_at(at_index, there), size)))

            def of_values(at: Value, some: int) -> None:
                rows = k.transposed([k.load_some(k.at(begin, at), some) for begin in begins])
                for j in range(some):
                    pixel, channel = self._split(k, k.sum(at, j), x.channels)
                    row, column = self._split(k, pixel, x.width)
                    line = k.sum(k.times(channel, x.height), row)
                    place = k.sum(k.times(line, x.row), column, x.border)
                    k.store(rows[j], k.at(at_x, k.times(place, samples), first))

            k.loop(0, full, k.lanes, [], lambda at, _: of_values(at, k.lanes))
            if full < size:
                of_values(k.number(full), size - full)

        k.loop(0, samples, k.lanes, [], of_samples)
        return k.end()

    @staticmethod
    def _split(k: KernelBuilder, value: Value, by: int) -> tuple[Value, Value]:
        """Quotient and rest."""
        return k.b.udiv(value, k.number(by)), k.b.urem(value, k.number(by))
