"""A kernel that tells how linear layers with ReLU between do on samples: their losses, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from fedroam.learning.cpu.kernels.dense.forward import DenseForward, DenseLayer, Nonzero, lists
from fedroam.native.ir import KernelBuilder, Value
from fedroam.native.target import KernelSpec, Target, ir


@dataclass(frozen=True)
class DenseScores(KernelSpec):
    """Softmax cross-entropy of n samples; hits, answers and samples of each class are counted.

    The answer is the class with the largest logit, the first of equal ones; a NaN is larger than all. sparse: inputs
    that are zeros are looked for and left out, with the same result. Kernel:
    (addresses of inputs float32 [all, inputs], of the n samples' places among them int64, of their classes int64 [n],
    of the row, of memory for `scratch(n)` values, of the losses float32 [n] and the sums of exponentials [n], of counts
    int64 [3, classes] that are added to; n). A sample's loss is the one plus the logarithm of the other.
    """

    layers: tuple[DenseLayer, ...]
    sparse: bool = False

    def scratch(self, n: int) -> int:
        """Values of memory for n samples: outputs of each layer, and lists."""
        own = n * sum(layer.outputs for layer in self.layers)
        return own + lists(self.layers[0].inputs, n) * self.sparse

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 7, 1)
        at_x, at_index, at_y, row, scratch, losses, counts, n = k.arguments
        classes, outputs = self.layers[-1].outputs, []
        for layer in self.layers:
            outputs.append(scratch)
            scratch = k.at(scratch, k.times(n, layer.outputs))

        def inputs(sample: Value) -> Value:
            return k.at(at_x, k.times(k.whole_at(at_index, sample), self.layers[0].inputs))

        values = k.times(n, sum(layer.outputs for layer in self.layers))
        nonzero = Nonzero(k, scratch, values) if self.sparse else None
        ahead = DenseForward(self.layers, k, target, n, row, inputs, outputs, nonzero=nonzero)

        def add_one(kind: int, of: Value, one: Value) -> None:
            place = k.b.gep(counts, [k.sum(of, kind * classes)], source_etype=k.whole)
            k.b.store(k.b.add(k.b.load(place, typ=k.whole), one), place)

        def of_sample(sample: Value, _: list[Value]) -> None:
            largest, total, _below = ahead.softmax(sample, lambda *_: None)
            own, answer = k.whole_at(at_y, sample), self._answer(k, ahead, sample, largest)
            lead = k.b.fsub(k.b.load(k.at(ahead.logits(sample), own), typ=k.float), largest)
            k.b.store(k.b.fneg(lead), k.at(losses, sample))
            k.b.store(total, k.at(losses, n, sample))
            add_one(0, own, k.b.zext(k.b.icmp_signed("==", own, answer), k.whole))
            add_one(1, answer, k.number(1))
            add_one(2, own, k.number(1))

        ahead.write()
        k.loop(0, n, 1, [], of_sample)
        return k.end()

    @staticmethod
    def _answer(k: KernelBuilder, ahead: DenseForward, sample: Value, largest: Value) -> Value:
        """The first class whose logit is the largest. (Numbers of classes are exact as float32.)"""
        logits, least, top = ahead.logits(sample), float("-inf"), k.spread(largest)
        own = ir.Constant(k.vector, [-float(lane) for lane in range(k.lanes)])

        def below(at: Value, best: list[Value], some: int) -> list[Value]:
            seen = k.load_some(k.at(logits, at), some, least)
            it = k.b.or_(k.b.fcmp_ordered("==", seen, top), k.b.fcmp_unordered("uno", seen, seen))
            here = k.b.fsub(own, k.spread(k.b.sitofp(at, k.float)))
            return [k.maximum(best[0], k.b.select(it, here, k.constant(least)))]

        last = k.constant(
            1.0 - ahead.layers[-1].outputs
        )  # so that nothing behind the classes is ever counted
        (first,) = ahead.over_classes([last], below)
        return k.b.fptosi(k.b.fneg(k.fold(first, k.maximum)), k.whole)
