"""From samples side by side, as convolutions leave them, to samples one below the other, as linear layers read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target


def turned(
    k: KernelBuilder,
    width: int,
    samples: Value,
    abreast: int,
    body: Callable[[list[Value], list[Value], int], None],
) -> None:
    """Blocks of some of `width` inputs of `abreast` samples: body(where each input lies side by side, where each sample
    stands, inputs)."""
    full = width // k.lanes * k.lanes

    def of_samples(sample: Value, _: list[Value]) -> None:
        def of_inputs(at: Value, some: int) -> None:
            inputs = [k.sum(k.times(k.sum(at, j), samples), sample) for j in range(some)]
            below = [k.sum(k.times(k.sum(sample, q), width), at) for q in range(abreast)]
            body(inputs, below, some)

        k.loop(0, full, k.lanes, [], lambda at, _: of_inputs(at, k.lanes))
        if full < width:
            of_inputs(k.number(full), width - full)

    k.loop(0, samples, abreast, [], of_samples)


def stand(k: KernelBuilder, width: int, samples: Value, abreast: int, lying: Value, rows: Value) -> None:
    """Write inputs [width, samples], which lie side by side sample by sample, as rows [samples, width]."""

    def body(inputs: list[Value], below: list[Value], some: int) -> None:
        found = [k.load_some(k.at(lying, place), abreast) for place in inputs]
        for place, row in zip(below, k.transposed(found), strict=False):
            k.store_some(row, k.at(rows, place), some)

    turned(k, width, samples, abreast, body)


@dataclass(frozen=True)
class Standing(KernelSpec):
    """rows [samples, inputs] = features [inputs, samples], of samples that are a multiple of `lanes`.

    Kernel: (address of the features, of the rows; samples).
    """

    inputs: int
    lanes: int

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 2, 1)
        lying, rows, samples = k.arguments
        stand(k, self.inputs, samples, self.lanes, lying, rows)
        return k.end()
