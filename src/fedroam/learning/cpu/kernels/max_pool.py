"""Kernels of max-pools of any windows, which may overlap: a pass over memory of its own, and back.

Pools of 2x2 pixels side by side are part of what follows a convolution at once (`epilogue`). Images lie as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.convolution import Images
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target


@dataclass(frozen=True)
class Window:
    """Pixels of a window, down as across, from one to the next, and those of the first one that lie outside.

    beyond: whether a last one that begins within the image may reach beyond it, and beyond the padding.
    """

    size: int
    step: int
    padding: int = 0
    beyond: bool = False

    def after(self, x: Images, border: int) -> Images:
        """The largest values of images x."""
        return Images(x.channels, self._along(x.height), self._along(x.width), border)

    def _along(self, pixels: int) -> int:
        steps, rest = divmod(pixels + 2 * self.padding - self.size, self.step)
        one_more = self.beyond and rest and (steps + 1) * self.step < pixels + self.padding
        return steps + 2 if one_more else steps + 1


@dataclass(frozen=True)
class Pool:
    """From images x to the largest value y of each window, NaN where one is NaN.

    lanes: samples in a vector, of which the number of samples must be a multiple.
    """

    x: Images
    y: Images
    window: Window
    lanes: int

    def places(self, k: KernelBuilder, of: Images, channel: Value, row: Value, column: Value) -> list[Value]:
        """How far a window's pixels lie in images shaped as x, in torch's order of looking at them.

        For one that lies outside stands the nearest one inside, which is of the window too: it is looked at twice.
        """
        samples, window = k.arguments[-1], self.window

        def inside(begin: Value, pixels: int) -> list[Value]:
            first = k.times(begin, window.step)
            found = [k.sum(first, more - window.padding) for more in range(window.size)]
            return (
                [k.larger(0, k.smaller(pixels - 1, at)) for at in found]
                if window.padding or window.beyond
                else found
            )

        lines = [k.sum(k.times(channel, of.height), line) for line in inside(row, of.height)]
        columns = inside(column, of.width)
        return [
            k.times(k.sum(k.times(line, of.row), at, of.border), samples) for line in lines for at in columns
        ]

    def windows(self, k: KernelBuilder, channel: Value, of: Images, body: Any) -> None:
        """Every window: body(row, column, how far its pixel lies in images shaped as y, sample)."""

        def of_row(row: Value, _: list[Value]) -> None:
            def of_column(column: Value, _: list[Value]) -> None:
                line = k.sum(k.times(channel, of.height), row)
                pixel = k.times(k.sum(k.times(line, of.row), column, of.border), k.arguments[-1])
                k.loop(0, k.arguments[-1], k.lanes, [], lambda n, _: body(row, column, pixel, n))

            k.loop(0, of.width, 1, [], of_column)

        k.loop(0, of.height, 1, [], of_row)


@dataclass(frozen=True)
class MaxPool(Pool, KernelSpec):
    """Kernel: (address of x, of y; samples)."""

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, self.lanes, 2, 1)
        at_x, at_y, _ = k.arguments

        def of_channel(channel: Value, _: list[Value]) -> None:
            def of_window(row: Value, column: Value, pixel: Value, n: Value) -> None:
                best: Value = None
                for place in self.places(k, self.x, channel, row, column):
                    seen = k.load(k.at(at_x, place, n))
                    best = seen if best is None else k.maximum(best, seen)
                k.store(best, k.at(at_y, pixel, n))

            self.windows(k, channel, self.y, of_window)

        k.loop(0, self.x.channels, 1, [], of_channel)
        return k.end()


@dataclass(frozen=True)
class MaxPoolBack(Pool, KernelSpec):
    """The gradient's way back: of each window's equal largest pixels the first gets it, as torch does it.

    Kernel: (address of x, of y, of dy, of dx; samples); dy and dx are shaped as y and x without borders.
    """

    @override
    def write(self, module: Any, target: Target) -> int:
        k, x, y = KernelBuilder(module, self.lanes, 4, 1), self.x, self.y
        at_x, at_y, at_dy, at_dx, samples = k.arguments
        dx, dy = (Images(each.channels, each.height, each.width) for each in (x, y))
        nothing = k.constant(0.0)

        def of_channel(channel: Value, _: list[Value]) -> None:
            first = k.at(at_dx, k.times(k.times(channel, dx.plane), samples))
            size = k.times(dx.plane, samples)
            k.loop(0, size, k.lanes, [], lambda at, _: k.store(nothing, k.at(first, at)))

            def of_window(row: Value, column: Value, pixel: Value, n: Value) -> None:
                slope = k.load(k.at(at_dy, pixel, n))
                line = k.sum(k.times(channel, y.height), row)
                place_of_y = k.times(k.sum(k.times(line, y.row), column, y.border), samples)
                largest = k.load(k.at(at_y, place_of_y, n))
                for seen, into in zip(
                    self.places(k, x, channel, row, column),
                    self.places(k, dx, channel, row, column),
                    strict=True,
                ):
                    it = k.b.fcmp_ordered("==", k.load(k.at(at_x, seen, n)), largest)
                    there = k.at(at_dx, into, n)
                    k.store(k.b.fadd(k.load(there), k.b.select(it, slope, nothing)), there)
                    slope = k.b.select(it, nothing, slope)

            self.windows(k, channel, dy, of_window)

        k.loop(0, x.channels, 1, [], of_channel)
        return k.end()
