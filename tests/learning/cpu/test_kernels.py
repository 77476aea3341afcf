"""Kernels of our own against autograd in float64."""

from __future__ import annotations

import copy
import gc
import math
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedroam.errors import InputError
from fedroam.learning.cpu.kernels import ConvStack, conv_stack, leading, stages_of
from fedroam.learning.cpu.sequential import sequence, sequential_model
from fedroam.learning.layout import Layout
from fedroam.native import kernel, target
from fedroam.native.target import Kernel, KernelSpec, Target, narrowed
from support.learners import ONE_STEP, check_engine, learner_of, problem
from support.rounding import by_layer, decided, off, tolerance, values

pytest.importorskip("llvmlite")
HERE = target()
assert HERE is not None
# What kernels are cut for on machines with narrower vectors; these vectors can be computed here too.
NARROW = {lanes: narrowed(HERE, lanes) for lanes in (4, 8)}


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.empty(shape).normal_(generator=torch.Generator().manual_seed(seed))


class Bench:
    """A front of some layers, beside the same layers in float64."""

    def __init__(
        self, layers: Sequence[nn.Module], image: tuple[int, int, int], here: Target = HERE, seed: int = 0
    ) -> None:
        self.module, self.image = nn.Sequential(*layers), image
        self.layout = Layout.of(self.module)
        self.row, self.gradient = torch.empty(self.layout.size), torch.zeros(self.layout.size)
        self.set(
            torch.cat([drawn(entry.size, seed=seed + k) for k, entry in enumerate(self.layout.parameters)])
        )
        named = sequence(self.module)
        assert named is not None
        stages = stages_of(leading(named), image, {entry.name: entry for entry in self.layout.parameters})
        assert stages is not None
        self.stack = ConvStack(stages, here, lambda entry: entry.address(self.gradient))
        self.stack.attach(lambda entry: entry.address(self.row))

    def set(self, row: torch.Tensor) -> None:
        """Compute with these parameters."""
        self.row.copy_(row)
        self.layout.read(self.module, self.row, torch.empty(0))
        self.exact = copy.deepcopy(self.module).double()

    def samples(self, count: int, seed: int) -> torch.Tensor:
        """So many samples whose way through pools and ReLUs does not hang on rounding."""
        found = torch.empty(0, *self.image)
        for k in range(20):
            more = drawn(count + 2, *self.image, seed=seed + 1000 * k)
            found = torch.cat([found, decided(self.module, more)])
            if len(found) >= count:
                return found[:count]
        pytest.fail(f"{len(found)} of {count} samples: rounding decides too often")

    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        return self.stack.forward(x.contiguous(memory_format=torch.channels_last)).clone()

    def check(self, x: torch.Tensor, seed: int = 9) -> None:
        """Outputs and gradients are off by rounding alone, layer by layer."""
        found, expected = self.outputs(x), self.exact(x.double()).flatten(1)
        share = tolerance(self.module, x)
        assert off(found, expected.detach()) < share
        slope = drawn(*expected.shape, seed=seed)
        self.exact.zero_grad()
        expected.backward(slope.double())
        self.gradient.zero_()
        assert self.stack.backward(slope, False) is None
        parameters = dict(self.exact.named_parameters())
        for layer, entries in by_layer(self.layout):
            ours = values(entries, self.gradient)
            exact = torch.cat([parameters[entry.name].grad.flatten() for entry in entries])  # type: ignore[union-attr]
            assert off(ours, exact) < share, layer


def papers_layers(name: str) -> tuple[list[nn.Module], tuple[int, int, int]]:
    if name == "mnist":
        layers: list[nn.Module] = [nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU()]
        return [*layers, nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()], (1, 28, 28)
    if name in ("lenet", "lenet of 28 x 28"):  # a pool of which leaves the seventh row and column out
        image = (3, 32, 32) if name == "lenet" else (1, 28, 28)
        layers = []
        for i, o in ((image[0], 32), (32, 32), (32, 64)):
            layers += [nn.Conv2d(i, o, 5, padding=2), nn.GroupNorm(2, o), nn.MaxPool2d(2), nn.ReLU()]
        return layers, image
    layers = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2)]
    return [*layers, nn.Conv2d(8, 6, 3, padding=1), nn.ReLU()], (3, 12, 20)


@pytest.mark.parametrize("name", ["mnist", "lenet", "small"])
def test_what_the_way_back_needs_is_made_when_it_is_gone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluation has neither its memory nor its kernels; and a gradient is the same whenever it is first asked for."""
    made, room = [], []

    def noted(spec: KernelSpec, target: Target) -> Kernel:
        made.append(type(spec).__name__)
        return kernel(spec, target)

    def counted(*size: int) -> torch.Tensor:
        room.append(4 * math.prod(size))
        return zeros(*size)

    zeros = torch.zeros
    layers, image = papers_layers(name)
    early, late = Bench(layers, image), Bench(layers, image)
    x, seen = drawn(8, *image, seed=3), []
    with monkeypatch.context() as patched:
        patched.setattr(conv_stack, "kernel", noted)
        patched.setattr(torch, "zeros", counted)
        for _ in range(2):
            seen.append(late.outputs(x))
        ahead, memory = list(made), sum(room)
        late.stack.backward(slope := drawn(8, seen[0].shape[1], seed=4), False)
    slopes, convolutions = (
        {"WeightGradient", "WinogradWeightGradient"},
        {"ConvolutionKernel", "WinogradConvolution"},
    )
    assert ({"Backward"} | slopes) & set(ahead) == set()
    stages = late.stack.stages
    images = [stages[0].x, *(image for stage in stages for image in (stage.raw, stage.y))]
    moments = sum(2 * max(stage.groups, 1) for stage in stages)
    assert memory == 4 * 8 * (moments + sum(each.channels * each.height * each.row for each in images))
    back = made[len(ahead) :]
    assert (back.count("Backward"), sum(each in slopes for each in back)) == (len(stages), len(stages))
    assert sum(each in convolutions for each in back) == len(stages) - 1
    early.outputs(x)
    early.stack.backward(slope, False)
    early.gradient.zero_()
    assert torch.equal(early.outputs(x), seen[1])
    early.stack.backward(slope, False)
    assert torch.equal(early.gradient, late.gradient)


@pytest.mark.parametrize("lanes", sorted({4, 8, HERE.lanes}))
@pytest.mark.parametrize("samples", [1, 5, 8, 16])
@pytest.mark.parametrize("name", ["mnist", "lenet", "lenet of 28 x 28", "small"])
def test_papers_networks(name: str, samples: int, lanes: int) -> None:
    layers, image = papers_layers(name)
    bench = Bench(layers, image, NARROW.get(lanes, HERE))
    x = bench.samples(samples, seed=1)
    bench.check(x)
    bench.check(x[-max(samples - 1, 1) :])  # in other memory


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[nn.Module], tuple[int, int, int], int]:
    channels, height, width = draw(st.integers(1, 7)), draw(st.integers(3, 14)), draw(st.integers(3, 17))
    image, layers = (channels, height, width), list[nn.Module]()
    for _ in range(draw(st.integers(1, 3))):
        out = draw(st.integers(1, 14))
        kernel = (draw(st.integers(1, min(5, height))), draw(st.integers(1, min(9, width))))
        padding = (draw(st.integers(0, kernel[0] - 1)), draw(st.integers(0, kernel[1] - 1)))
        step = draw(st.integers(1, min(3, *kernel)))
        layers.append(
            nn.Conv2d(channels, out, kernel, stride=step, padding=padding, bias=draw(st.booleans()))
        )
        height, width = (
            (size + 2 * around - of_kernel) // step + 1
            for size, around, of_kernel in zip((height, width), padding, kernel, strict=True)
        )
        groups = draw(st.sampled_from([n for n in range(out + 1) if n == 0 or out % n == 0]))
        # Of fewer values, rounding decides the norm; of fewer weights, whose scale a norm undoes, no gradient is left.
        weights = layers[-1].weight[0].numel()
        if groups and out // groups * min(height * width, weights) >= 8:
            layers.append(nn.GroupNorm(groups, out))
        after: list[nn.Module] = [nn.ReLU()] if draw(st.booleans()) else []
        if min(height, width) > 1 and draw(st.booleans()):
            window = draw(st.integers(2, min(3, height, width)))
            every = draw(st.integers(1, 4))
            outside = draw(st.integers(0, window // 2))
            after.insert(
                draw(st.integers(0, len(after))),
                nn.MaxPool2d(window, every, outside, ceil_mode=draw(st.booleans())),
            )
            height, width = nn.Sequential(*after)(torch.zeros(1, height, width)).shape[1:]
        layers += after
        channels = out
    return layers, image, draw(st.integers(1, 19))


@settings(max_examples=25, deadline=None)
@given(cases(), st.sampled_from([4, 8, 16]), st.integers(0, 1000))
def test_any_sizes(case: tuple[list[nn.Module], tuple[int, int, int], int], lanes: int, seed: int) -> None:
    """Any channels, sizes, steps, paddings, norms, pools, samples."""
    layers, image, samples = case
    bench = Bench(layers, image, NARROW.get(lanes, HERE), seed)
    bench.check(bench.samples(samples, seed), seed + 1)


STEPPED: dict[str, tuple[list[nn.Module], tuple[int, int, int]]] = {
    "a step of two": (
        [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 10, 3, 2, padding=1)],
        (3, 9, 11),
    ),
    "all pixels once": ([nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 6, 3, 3)], (3, 12, 10)),
    "large weights": ([nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 7, 2, padding=3), nn.ReLU()], (1, 16, 15)),
    "1x1": ([nn.Conv2d(3, 9, 1), nn.ReLU(), nn.Conv2d(9, 7, 1), nn.ReLU()], (3, 7, 5)),
    "windows that overlap": (
        [nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(6, 9, 3)],
        (1, 15, 14),
    ),
    "windows that reach outside": (
        [
            nn.Conv2d(2, 5, 3, padding=1),
            nn.MaxPool2d(3, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(5, 3, 3, padding=1),
        ],
        (2, 9, 8),
    ),
    "windows that reach beyond the end": (
        [nn.Conv2d(2, 5, 3), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU(), nn.Conv2d(5, 3, 3, padding=1)],
        (2, 9, 8),
    ),
    "a pool between a norm and a border": (
        [
            nn.Conv2d(2, 6, 3),
            nn.GroupNorm(3, 6),
            nn.MaxPool2d(3, 2),
            nn.ReLU(),
            nn.Conv2d(6, 4, 3, 2, padding=2),
        ],
        (2, 13, 12),
    ),
}


@pytest.mark.parametrize("samples", [1, 5, 8, 19, 40])
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("name", STEPPED)
def test_steps_and_windows(name: str, lanes: int, samples: int) -> None:
    """Samples fill vectors, or parts of them: of 4, 8 or 16."""
    layers, image = STEPPED[name]
    bench = Bench(layers, image, NARROW.get(lanes, HERE), samples)
    bench.check(bench.samples(samples, lanes), samples + 1)


@pytest.mark.parametrize("name", STEPPED)
def test_a_network_with_steps_and_windows(name: str) -> None:
    """Compiled whole; trained and judged as the reference does, by any number of workers."""
    layers, image = STEPPED[name]

    def network() -> nn.Module:
        body = nn.Sequential(*copy.deepcopy(layers), nn.Flatten())
        return nn.Sequential(body, nn.Linear(body(torch.zeros(1, *image)).shape[1], 10))

    case = problem(network, (*image[1:], image[0]), (11, 7), training=ONE_STEP)
    model = sequential_model(case.task.network(), case.task, torch.zeros(case.task.layout.size))
    assert model is not None
    assert model.compiled
    check_engine(case)


@pytest.mark.parametrize(
    "pool", [nn.MaxPool2d(2), nn.MaxPool2d(3, 2), nn.MaxPool2d(3), nn.MaxPool2d(3, 2, 1)], ids=str
)
def test_among_equal_pixels_the_first_gets_the_gradient(pool: nn.MaxPool2d) -> None:
    layers: list[nn.Module] = [nn.Conv2d(2, 3, 1), pool]
    bench = Bench(layers, (2, 6, 8))
    bench.set(bench.row.round())
    x = drawn(7, 2, 6, 8, seed=3).round()
    size, step = pool.kernel_size, pool.stride
    padded = nn.functional.pad(bench.exact[0](x.double()), [pool.padding] * 4, value=-math.inf)
    pooled = padded.unfold(2, size, step).unfold(3, size, step).flatten(4)
    assert bool((pooled == pooled.amax(-1, keepdim=True)).sum(-1).gt(1).any())  # there are equal ones
    bench.check(x)


def test_a_norm_far_from_zero() -> None:
    """Variances of values near 1000: nothing is lost by subtracting squares."""
    bench = Bench([nn.Conv2d(1, 4, 1), nn.GroupNorm(2, 4)], (1, 8, 8))
    far = torch.tensor([1, 2, 1, 2, 1000, 1001, 999, 1000.0])
    bench.set(torch.cat([far, bench.row[len(far) :]]))
    x = drawn(8, 1, 8, 8, seed=0)
    torch.testing.assert_close(
        bench.outputs(x).double(), bench.exact(x.double()).flatten(1).detach(), rtol=2e-3, atol=2e-3
    )


def test_a_samples_outputs_do_not_hang_on_its_neighbours() -> None:
    layers, image = papers_layers("lenet")
    bench, x = Bench(layers, image), drawn(8, *image, seed=1)
    whole = bench.outputs(x)
    assert torch.equal(bench.outputs(x[2:6]), whole[2:6])
    assert torch.equal(bench.outputs(x.flip(0)), whole.flip(0))


@pytest.mark.parametrize(
    ("layers", "image"),
    [*(papers_layers(name) for name in ("mnist", "lenet", "lenet of 28 x 28")), *STEPPED.values()],
    ids=["mnist", "lenet", "lenet of 28 x 28", *STEPPED],
)
def test_what_was_computed_before_leaves_no_trace(
    layers: list[nn.Module], image: tuple[int, int, int]
) -> None:
    bench, x = Bench(layers, image), drawn(5, *image, seed=1)
    slope = drawn(*bench.outputs(x).shape, seed=2)

    def gradient() -> torch.Tensor:
        bench.gradient.zero_()
        bench.outputs(x)
        bench.stack.backward(slope, False)
        return bench.gradient.clone()

    first = gradient()
    bench.outputs(torch.full((8, *image), math.inf))  # into the same memory, where 5 samples are padded to 8
    bench.stack.backward(torch.full((8, slope.shape[1]), math.nan), False)
    assert torch.equal(gradient(), first)


@pytest.mark.parametrize("name", ["mnist", "lenet"])
def test_values_that_are_no_numbers_are_not_hidden(name: str) -> None:
    layers, image = papers_layers(name)
    bench, x = Bench(layers, image), drawn(4, *image, seed=1)
    x[1, 0, 14, 14] = math.nan
    found = bench.outputs(x)
    assert bool(found[1].isnan().any())
    assert not bool(found[[0, 2, 3]].isnan().any())


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(2, 3, 3, stride=(2, 1))],
        [nn.Conv2d(2, 3, 1, stride=2)],
        [nn.Conv2d(2, 4, 3, groups=2)],
        [nn.Conv2d(2, 3, 3, dilation=2)],
        [nn.Conv2d(2, 3, 3, padding=3)],
        [nn.Conv2d(2, 3, (1, 10), padding=(0, 3))],
        [nn.Conv2d(2, 3, 3), nn.MaxPool2d(2), nn.MaxPool2d(2)],
        [nn.Conv2d(2, 3, 3), nn.MaxPool2d(3, 2, padding=(1, 0))],
        [nn.Conv2d(2, 3, 3), nn.MaxPool2d((3, 2))],
        [nn.Conv2d(2, 3, 3), nn.MaxPool2d(2, dilation=2)],
        [nn.MaxPool2d(2), nn.Conv2d(2, 3, 3)],
    ],
    ids=lambda layers: "-".join(str(layer).partition("(")[0] for layer in layers),
)
def test_what_kernels_cannot_do_is_left_to_torch(layers: list[nn.Module]) -> None:
    def network() -> nn.Module:
        body = nn.Sequential(*layers, nn.Flatten())
        return nn.Sequential(body, nn.Linear(body(torch.zeros(1, 2, 10, 10)).shape[1], 10))

    task = problem(network, (10, 10, 2), (4,)).task
    model = sequential_model(task.network(), task, torch.zeros(task.layout.size))
    assert model is not None
    assert not model.native


def test_a_layer_used_twice_is_left_to_autograd() -> None:
    def network() -> nn.Module:
        shared = nn.Conv2d(2, 2, 3, padding=1)
        return nn.Sequential(shared, nn.ReLU(), shared, nn.Flatten(), nn.Linear(72, 10))

    task = problem(network, (6, 6, 2), (4,)).task
    assert sequential_model(task.network(), task, torch.zeros(task.layout.size)) is None


def test_kernels_outlive_the_worker_that_made_them() -> None:
    """Several workers ask for the same new kernels at once; nobody's code may be thrown away."""
    layers, image = papers_layers("small")
    images, results = (image[0], image[1] + 2, image[2] + 4), dict[int, torch.Tensor]()
    benches = [Bench(layers, images) for _ in range(4)]
    x = drawn(4, *images, seed=1)

    def work(k: int) -> None:
        results[k] = benches[k].outputs(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    for k in range(4):
        assert torch.equal(benches[k].outputs(x), results[k])
        assert torch.equal(results[k], results[0])


def test_vectors_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for lanes in (4, 8, 16):
        monkeypatch.setenv("FEDROAM_VECTOR", str(lanes))
        asked = target()
        assert asked is not None
        assert asked.lanes == lanes
    monkeypatch.setenv("FEDROAM_VECTOR", "")
    assert target() is not None
    monkeypatch.setenv("FEDROAM_VECTOR", "wide")
    with pytest.raises(InputError, match=r"^FEDROAM_VECTOR = wide: allowed is 4, 8 or 16"):
        learner_of(problem("softmax_regression", (4,), (4,)).task, "cpu")


@pytest.mark.parametrize("model", ["mnist_cnn", "lenet_gn"])
def test_training_with_and_without(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (20, 20, 1) if model == "mnist_cnn" else (32, 32, 3)
    case = problem(model, shape, (12, 9), seed=3)

    def trained(**settings: Any) -> torch.Tensor:
        return case.trained("cpu", **settings)[0].parameters

    with_kernels, without = trained(workers=2), trained(workers=2, native=False)
    assert torch.equal(with_kernels, trained(workers=1))
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    switched_off = trained(workers=1)
    assert torch.equal(without, switched_off)
    assert not torch.equal(without, with_kernels)  # it is another way of computing


@pytest.mark.parametrize("model", ["mnist_cnn", "lenet_gn"])
def test_outputs_of_many_samples_in_slices(model: str) -> None:
    """More samples than are computed at a time, the last slice not full."""
    shape = (28, 28, 1) if model == "mnist_cnn" else (32, 32, 3)
    task = problem(model, shape, (4,)).task
    module = task.network()
    model = sequential_model(module, task, torch.zeros(task.layout.size))
    assert model is not None
    assert model.native
    row = torch.empty(task.layout.size)
    task.layout.write(module, row, torch.empty(0))
    model.attach(row)
    x = drawn(2 * model.many + 3, shape[2], shape[0], shape[1], seed=4)
    with torch.no_grad():
        expected = module(x)
    found = model.outputs(x.contiguous(memory_format=torch.channels_last))
    assert found.shape == (len(x), 10)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
