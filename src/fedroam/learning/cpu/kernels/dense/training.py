"""Kernels of linear layers with ReLU between: whole local training, or one gradient, as the end of a network or as a
part of one.

A step of such layers is so little arithmetic that a call of a library for each product costs as much again. Here the
lanes are inputs of a layer, which lie side by side in samples and weights; in training a weight is brought up to date
where its gradient is summed up, in registers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import override

from fedroam.learning.cpu.kernels.dense.forward import DenseForward, DenseLayer, Nonzero, lists
from fedroam.learning.cpu.kernels.standing import stand, turned
from fedroam.native.ir import KernelBuilder, Value, parts
from fedroam.native.target import KernelSpec, Target, ir


@dataclass(frozen=True)
class DenseTraining(KernelSpec):
    """Steps of softmax cross-entropy, SGD as torch.optim.SGD: v <- m v + g + d w + s; w <- w - lr v.

    momentum: there are velocities v. steady: there is a vector s added to every gradient. sparse: inputs that are zeros
    are looked for and left out, with the same result. Kernel: (addresses of the
    samples float32 [all, inputs], of their classes int64, of the indices of the samples int64 [steps, n], of the row,
    of its velocities, of s, of memory for `scratch(n)` values, of lr, d, m and label smoothing, of the losses float32
    [steps, n] and the sums of exponentials [steps, n]; n, steps). A sample's loss is the one plus the logarithm of the
    other.
    """

    layers: tuple[DenseLayer, ...]
    momentum: bool
    steady: bool
    sparse: bool = False

    def scratch(self, n: int) -> int:
        """Values of memory for n samples: outputs of each layer, their gradients, and lists."""
        own = 2 * n * sum(layer.outputs for layer in self.layers)
        return own + lists(self.layers[0].inputs, n) * self.sparse

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 9, 2)
        _Training(self, k, target).write()
        return k.end()


@dataclass(frozen=True)
class DenseGradient(KernelSpec):
    """The gradient of a share of the mean softmax cross-entropy of n samples, for parameters and inputs.

    Inputs lie as convolutions leave them, [inputs, samples] with samples that are a multiple of `lanes`; those behind
    the n count for nothing, and their gradient is 0. Where `lanes` is 0 they stand as rows, [n, inputs], and so does
    their gradient; `samples` is n. Kernel: (addresses of the inputs, of the n samples' classes int64,
    of the row, of the gradient vector that is added to, of the inputs' gradient [inputs, samples], of memory for
    `scratch(samples)` values that were 0 at first, of share / n and label smoothing, of the losses float32 [n] and the
    sums of exponentials [n]; n, samples). Losses as in `DenseTraining`.
    """

    layers: tuple[DenseLayer, ...]
    lanes: int

    def scratch(self, samples: int) -> int:
        """Values of memory: inputs and outputs of each layer, and their gradients."""
        return 2 * samples * (self.layers[0].inputs + sum(layer.outputs for layer in self.layers))

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 8, 2)
        _Gradient(self, k, target).write()
        return k.end()


@dataclass(frozen=True)
class DenseRows(KernelSpec):
    """Linear layers with ReLU between as a part of a network, ahead or back; with another ReLU behind the last where
    they are `activated`. back: with the gradient of their inputs where it is "to inputs". sparse: as of
    `DenseTraining`.

    Kernel: (addresses of the samples float32 [all, inputs], of the indices of n of them int64, of the row, of the
    gradient vector that is added to, of the gradient of what they gave, [n, outputs], which is overwritten, of the
    inputs' gradient [n, inputs], of memory for `scratch(n)` values; n). What they give stands in the memory from
    `given(n)` on, [n, outputs]. The way back finds there what the way ahead left, which does not look at gradients.
    """

    layers: tuple[DenseLayer, ...]
    activated: bool
    way: Literal["ahead", "back", "to inputs"]
    sparse: bool = False

    def scratch(self, n: int) -> int:
        """Values of memory for n samples: outputs of each layer, their gradients, and lists."""
        own = 2 * n * sum(layer.outputs for layer in self.layers)
        return own + lists(self.layers[0].inputs, n) * self.sparse

    def given(self, n: int) -> int:
        """Where in the memory the outputs of the last layer begin."""
        return 2 * n * sum(layer.outputs for layer in self.layers[:-1])

    @override
    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 7, 1)
        _Rows(self, k, target).write()
        return k.end()


class _Writer(ABC):
    """Writes the loops of linear layers with ReLU between, forward and back, and of the loss.

    at_x, at_y: addresses of inputs and classes. losses, later: of the samples' losses, and how far behind them the sums
    of exponentials lie. ahead: the way to the logits. slopes: addresses of the gradients of what each layer gives.
    share: by what a sample's loss counts. gradient: the vector that gradients are added to, unless a variant says
    what else becomes of them. A variant says which samples they are. sparse: whether zeros of the first layer's inputs
    are looked for.
    """

    at_x: Value
    at_y: Value
    row: Value
    losses: Value
    later: Value
    share: Value
    smoothing: Value
    gradient: Value

    def __init__(
        self,
        layers: tuple[DenseLayer, ...],
        k: KernelBuilder,
        target: Target,
        n: Value,
        scratch: Value,
        activated: bool = False,
        sparse: bool = False,
    ) -> None:
        self.k, self.layers, self.target, self.n = k, layers, target, n
        outputs: list[Value] = []
        self.slopes: list[Value] = []
        for layer in self.layers:
            for found in (outputs, self.slopes):
                found.append(scratch)
                scratch = k.at(scratch, k.times(self.n, layer.outputs))
        # All that stands before the lists is of an even number.
        self.nonzero = Nonzero(k, scratch, k.number(0)) if sparse else None
        self.ahead = DenseForward(
            layers, k, target, n, self.row, self._inputs, outputs, activated, self.nonzero
        )

    @abstractmethod
    def _index(self, sample: Value) -> Value:
        """The place of a sample among inputs and classes."""

    def _into(self, sample: Value) -> Value:
        """The place of a sample among losses."""
        return sample

    def _gave(self, place: Value, gradient: Value, some: int) -> None:
        """Do what is to be done with the gradient of so many parameters at a place of the row."""
        k, at = self.k, self.k.at(self.gradient, place)
        k.store_some(k.b.fadd(k.load_some(at, some), gradient), at, some)

    def _ahead(self) -> None:
        """Outputs, and losses with their gradients."""
        self.ahead.write()
        self.k.loop(0, self.n, 1, [], self._loss)

    def _inputs(self, sample: Value) -> Value:
        return self.k.at(self.at_x, self.k.times(self._index(sample), self.layers[0].inputs))

    def _vectors(self, width: int, body: Callable[[Value, list[int]], None]) -> None:
        """0 .. width - 1 in blocks of vectors: body(first, values in each vector)."""
        k, lanes, most = self.k, self.k.lanes, self.target.vectors
        blocks, left = divmod(width, lanes * most)
        k.loop(0, blocks * lanes * most, lanes * most, [], lambda at, _: body(at, [lanes] * most))
        if left:
            tail = [lanes] * (left // lanes) + [left % lanes] * (left % lanes > 0)
            body(k.number(blocks * lanes * most), tail)

    def _loss(self, sample: Value, _: list[Value]) -> None:
        """A sample's loss, and the gradient of the mean loss: (softmax - target) / n."""
        k, ahead, classes = self.k, self.ahead, self.layers[-1].outputs
        logits, slopes = ahead.logits(sample), k.at(self.slopes[-1], k.times(sample, classes))
        largest, total, below = ahead.softmax(
            sample, lambda at, powers, some: k.store_some(powers, k.at(slopes, at), some)
        )
        even = k.b.fdiv(self.smoothing, ir.Constant(k.float, float(classes)))
        factor, level = k.spread(k.b.fdiv(self.share, total)), k.spread(k.b.fneg(k.b.fmul(even, self.share)))

        def slope(at: Value, _: list[Value], some: int) -> list[Value]:
            power = k.load_some(k.at(slopes, at), some)
            k.store_some(k.fma(power, factor, level), k.at(slopes, at), some)
            return []

        ahead.over_classes([], slope)
        own = k.whole_at(self.at_y, self._index(sample))
        certain = k.b.fsub(ir.Constant(k.float, 1.0), self.smoothing)
        right = k.at(slopes, own)
        k.b.store(k.b.fsub(k.b.load(right, typ=k.float), k.b.fmul(certain, self.share)), right)
        lead = k.b.fsub(k.b.load(k.at(logits, own), typ=k.float), largest)
        loss = k.b.fneg(k.b.fadd(k.b.fmul(certain, lead), k.b.fmul(even, below)))
        into = self._into(sample)
        k.b.store(loss, k.at(self.losses, into))
        k.b.store(total, k.at(self.losses, self.later, into))

    def _back(self, number: int, given: Value) -> None:
        """The gradient of a layer's input, given at an address; a ReLU gave all but the first's."""
        k, layer = self.k, self.layers[number]

        def of_vectors(at: Value, sizes: list[int]) -> None:
            def of_samples(sample: Value, count: int) -> None:
                slopes = [
                    k.at(self.slopes[number], k.times(k.sum(sample, q), layer.outputs)) for q in range(count)
                ]

                def of_output(out: Value, sums: list[Value]) -> list[Value]:
                    line = k.at(self.row, layer.weight, k.times(out, layer.inputs), at)
                    weights = [k.load_some(k.at(line, v * k.lanes), some) for v, some in enumerate(sizes)]
                    for q in range(count):
                        slope = k.load_spread(k.at(slopes[q], out))
                        for v in range(len(sizes)):
                            n = q * len(sizes) + v
                            sums[n] = k.fma(slope, weights[v], sums[n])
                    return sums

                nothing = k.constant(0.0)
                sums = k.loop(0, layer.outputs, 1, [nothing] * (count * len(sizes)), of_output)
                for q in range(count):
                    place = k.sum(k.times(k.sum(sample, q), layer.inputs), at)
                    for v, some in enumerate(sizes):
                        value = sums[q * len(sizes) + v]
                        if number:
                            seen = k.load_some(k.at(self.ahead.outputs[number - 1], place, v * k.lanes), some)
                            passed = k.b.fcmp_unordered(">", seen, nothing)
                            value = k.b.select(passed, value, nothing)
                        k.store_some(value, k.at(given, place, v * k.lanes), some)

            k.blocks(k.number(0), self.n, self.target.channels, of_samples)

        self._vectors(layer.inputs, of_vectors)

    def _parameters(self, number: int) -> None:
        """Gradients of weights and bias, and what becomes of them."""
        k, layer, nonzero = self.k, self.layers[number], None if number else self.nonzero

        def of_inputs(at: Value, sizes: list[int]) -> None:
            def inputs(sample: Value) -> list[Value]:
                x = k.at(self.ahead.input(number, sample), at)
                return [k.load_some(k.at(x, v * k.lanes), some) for v, some in enumerate(sizes)]

            if nonzero is not None:
                listed = nonzero.place(0, 0)
                nonzero.write(listed, self.n, 1, inputs)

            def channels(first: int, size: int) -> Any:
                def of_group(group: Value, _: list[Value]) -> None:
                    out = k.sum(first, k.times(group, size))

                    def of_sample(sample: Value, sums: list[Value]) -> list[Value]:
                        seen = inputs(sample)
                        slopes = k.at(self.slopes[number], k.times(sample, layer.outputs), out)
                        for j in range(size):
                            slope = k.load_spread(k.at(slopes, j))
                            for v in range(len(sizes)):
                                n = j * len(sizes) + v
                                sums[n] = k.fma(slope, seen[v], sums[n])
                        return sums

                    sums = [k.constant(0.0)] * (size * len(sizes))
                    if nonzero is None:
                        sums = k.loop(0, self.n, 1, sums, of_sample)
                    else:
                        sums = nonzero.entries(listed, sums, of_sample)
                    for j in range(size):
                        place = k.sum(layer.weight, k.times(k.sum(out, j), layer.inputs), at)
                        for v, some in enumerate(sizes):
                            self._gave(k.sum(place, v * k.lanes), sums[j * len(sizes) + v], some)

                return of_group

            for first, size, groups in parts(layer.outputs, self.target.channels):
                k.loop(0, groups, 1, [], channels(first, size))

        self._vectors(layer.inputs, of_inputs)
        if layer.bias < 0:
            return

        def of_bias(at: Value, sizes: list[int]) -> None:
            def of_sample(sample: Value, sums: list[Value]) -> list[Value]:
                slopes = k.at(self.slopes[number], k.times(sample, layer.outputs), at)
                return [
                    k.b.fadd(total, k.load_some(k.at(slopes, v * k.lanes), some))
                    for v, (total, some) in enumerate(zip(sums, sizes, strict=True))
                ]

            sums = k.loop(0, self.n, 1, [k.constant(0.0)] * len(sizes), of_sample)
            for v, (total, some) in enumerate(zip(sums, sizes, strict=True)):
                self._gave(k.sum(layer.bias, at, v * k.lanes), total, some)

        self._vectors(layer.outputs, of_bias)


class _Training(_Writer):
    """Steps one after the other, of samples by their indices; parameters descend."""

    def __init__(self, spec: DenseTraining, k: KernelBuilder, target: Target) -> None:
        self.at_x, self.at_y, self.at_index, self.row, self.velocity, self.steady, scratch, *rest = (
            k.arguments
        )
        settings, self.losses, n, self.steps = rest
        super().__init__(spec.layers, k, target, n, scratch, sparse=spec.sparse)
        self.spec = spec
        rate, decay, kept, self.smoothing = (k.b.load(k.at(settings, j), typ=k.float) for j in range(4))
        one = ir.Constant(k.float, 1.0)
        self.wide = [k.spread(value) for value in (rate, decay, kept)]
        self.share = k.b.fdiv(one, k.b.sitofp(n, k.float))
        # w keeps 1 - lr d of itself where there are no velocities.
        self.keeps = k.spread(k.b.fsub(one, k.b.fmul(rate, decay)))
        self.later = k.times(self.steps, n)

    def write(self) -> None:
        k = self.k

        def of_step(step: Value, _: list[Value]) -> None:
            self.first = k.times(step, self.n)  # of the step's samples
            self._ahead()
            for number in range(len(self.layers) - 1, -1, -1):
                if number:
                    self._back(number, self.slopes[number - 1])
                self._parameters(number)

        k.loop(0, self.steps, 1, [], of_step)

    @override
    def _index(self, sample: Value) -> Value:
        return self.k.whole_at(self.at_index, self._into(sample))

    @override
    def _into(self, sample: Value) -> Value:
        return self.k.sum(self.first, sample)

    @override
    def _gave(self, place: Value, gradient: Value, some: int) -> None:
        """One step of these parameters."""
        k, (rate, decay, kept) = self.k, self.wide
        weight = k.load_some(k.at(self.row, place), some)
        if self.spec.steady:
            gradient = k.b.fadd(gradient, k.load_some(k.at(self.steady, place), some))
        down = k.b.fneg(rate)
        if self.spec.momentum:
            velocity = k.fma(kept, k.load_some(k.at(self.velocity, place), some), gradient)
            velocity = k.fma(decay, weight, velocity)
            k.store_some(velocity, k.at(self.velocity, place), some)
            weight = k.fma(down, velocity, weight)
        else:
            weight = k.fma(down, gradient, k.b.fmul(self.keeps, weight))
        k.store_some(weight, k.at(self.row, place), some)


class _Gradient(_Writer):
    """One step of samples in order; gradients of parameters are added up, and those of inputs are given."""

    def __init__(self, spec: DenseGradient, k: KernelBuilder, target: Target) -> None:
        self.lying, self.at_y, self.row, self.gradient, self.given, scratch, settings, self.losses, *rest = (
            k.arguments
        )
        n, self.samples = rest
        self.width, self.abreast = spec.layers[0].inputs, spec.lanes
        self.at_x, self.slope_x = self.lying, self.given
        if self.abreast:
            self.at_x, self.slope_x = scratch, k.at(scratch, k.times(self.samples, self.width))
            scratch = k.at(self.slope_x, k.times(self.samples, self.width))
        super().__init__(spec.layers, k, target, n, scratch)
        self.share, self.smoothing = (k.b.load(k.at(settings, j), typ=k.float) for j in range(2))
        self.later = n

    def write(self) -> None:
        k = self.k

        def lie(inputs: list[Value], samples: list[Value], some: int) -> None:
            """Their gradients, back again."""
            rows = [k.load_some(k.at(self.slope_x, place), some) for place in samples]
            for place, row in zip(inputs, k.transposed(rows), strict=False):
                k.store_some(row, k.at(self.given, place), self.abreast)

        if self.abreast:
            stand(k, self.width, self.samples, self.abreast, self.lying, self.at_x)
        self._ahead()
        for number in range(len(self.layers) - 1, -1, -1):
            self._back(number, self.slopes[number - 1] if number else self.slope_x)
            self._parameters(number)
        if self.abreast:
            turned(k, self.width, self.samples, self.abreast, lie)

    @override
    def _index(self, sample: Value) -> Value:
        return sample


class _Rows(_Writer):
    """One way through the layers, of samples by their indices."""

    def __init__(self, spec: DenseRows, k: KernelBuilder, target: Target) -> None:
        self.at_x, self.at_index, self.row, self.gradient, given, self.slope_x, scratch, n = k.arguments
        super().__init__(spec.layers, k, target, n, scratch, spec.activated, spec.sparse)
        self.spec = spec
        self.slopes[-1] = given

    def write(self) -> None:
        if self.spec.way == "ahead":
            self.ahead.write()
            return
        if self.spec.activated:
            self.k.loop(0, self.n, 1, [], self._pass)
        for number in range(len(self.layers) - 1, -1, -1):
            if number or self.spec.way == "to inputs":
                self._back(number, self.slopes[number - 1] if number else self.slope_x)
            self._parameters(number)

    def _pass(self, sample: Value, _: list[Value]) -> None:
        """The gradient of what the last ReLU was given, of a sample."""
        k, width = self.k, self.layers[-1].outputs

        def of_vectors(at: Value, sizes: list[int]) -> None:
            place = k.sum(k.times(sample, width), at)
            for v, some in enumerate(sizes):
                here = k.sum(place, v * k.lanes)
                slope = k.load_some(k.at(self.slopes[-1], here), some)
                seen = k.load_some(k.at(self.ahead.outputs[-1], here), some)
                passed = k.b.fcmp_unordered(">", seen, k.constant(0.0))
                k.store_some(k.b.select(passed, slope, k.constant(0.0)), k.at(self.slopes[-1], here), some)

        self._vectors(width, of_vectors)

    @override
    def _index(self, sample: Value) -> Value:
        return self.k.whole_at(self.at_index, sample)
