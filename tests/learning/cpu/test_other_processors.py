"""Kernels written for other processors than this one: looked at, not run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fedroam.components import build
from fedroam.learning.cpu.kernels import (
    ChannelsConvolution,
    ContrastTerm,
    Conv1dMaxPool,
    Conv1dMaxPoolGradient,
    Conv1dSizes,
    DenseGradient,
    DenseLayer,
    DenseScores,
    DenseTraining,
    Descent,
    Gates,
    Images,
    MemoryAhead,
    PrototypeTerm,
    TiledConvolution,
    TiledWeightGradient,
    ValveAhead,
    ValveBack,
    Weights,
    leading,
    stages_of,
)
from fedroam.learning.cpu.kernels.calls import Chain
from fedroam.learning.cpu.kernels.convolution import ConvolutionKernel, Lattice, WeightGradient
from fedroam.learning.cpu.kernels.epilogue import Backward, Forward, Moments
from fedroam.learning.cpu.kernels.max_pool import MaxPool, MaxPoolBack, Window
from fedroam.learning.cpu.kernels.picked import Picked
from fedroam.learning.cpu.kernels.row_sums import RowDistances, RowProducts, RowSums, RowTotal
from fedroam.learning.cpu.kernels.standing import Standing
from fedroam.learning.cpu.kernels.tiled.by_samples import WinogradConvolution, WinogradWeightGradient
from fedroam.learning.cpu.sequential import sequence
from fedroam.learning.layout import Layout
from fedroam.native.target import KernelSpec, Target, cut_for
from support.assembly import assembly_of

pytest.importorskip("llvmlite")

PROCESSORS = {
    "aarch64": (Target("neoverse-n1", "+neon", 4, 6, 4, 32), "aarch64-linux-gnu"),
    "avx2": (Target("haswell", "+avx2,+fma", 8, 6, 2, 16), "x86_64-linux-gnu"),
    "avx512": (Target("skylake-avx512", "-prefer-256-bit", 16, 6, 4, 32), "x86_64-linux-gnu"),
}
# A multiplication and addition, and something on the stack, in each one's assembly.
MULTIPLIES = {"aarch64": r"\bfmla\b", "avx2": r"\bvfn?madd", "avx512": r"\bvfn?madd"}
STACKED = {"aarch64": r"\[sp[,\]]", "avx2": r"\(%rsp\).*%ymm", "avx512": r"\(%rsp\).*%zmm"}
CALLS = {"aarch64": r"^\s+bl\s+(\S+)", "avx2": r"^\s+call\S*\s+(\S+)", "avx512": r"^\s+call\S*\s+(\S+)"}
IMAGES = {"mnist_cnn": (1, 28, 28), "lenet_gn": (3, 32, 32), "conv5": (3, 32, 32)}


def assembly(spec: KernelSpec, processor: str) -> str:
    return assembly_of(spec, *PROCESSORS[processor])


def convolutions(model: str, samples: int = 16) -> Iterator[tuple[str, KernelSpec]]:
    """Every kernel of a network's convolutional part."""
    part: Any = build("model", {"kind": model})
    module = part.build(IMAGES[model], 10)
    named = sequence(module)
    assert named is not None
    entries = {entry.name: entry for entry in Layout.of(module).parameters}
    stages = stages_of(leading(named), IMAGES[model], entries)
    assert stages is not None
    yield "after", Picked(stages[0].x, 4)
    yield "after", Standing(stages[-1].y.pixels, 4)
    for stage in stages:
        yield "sums", ConvolutionKernel(stage.x, stage.raw, stage.weights, stage.above, stage.bias)
        yield "sums", WeightGradient(stage.x, stage.draw, stage.weights, stage.above)
        for spec in (stage.convolution(samples), stage.slope(samples), *stage.turned(samples)):
            tiled = isinstance(spec, WinogradConvolution | WinogradWeightGradient)
            yield "products" if tiled else "sums", spec
        yield "after", stage.epilogue(Forward, samples)
        yield "after", stage.epilogue(Backward, samples, dx=stage.draw, bias=stage.bias)
        if stage.groups:
            yield "after", stage.epilogue(Moments, samples)


SIZES = Conv1dSizes(1, 196, 32, 3, 64, 3)
# Of a residual network, whose weights at the points do not stay near a core.
WIDE = ChannelsConvolution(
    Images(128, 8, 8), Images(128, 8, 8), Weights(3, 3, (3 * 3 * 128, 1, 3 * 128, 128)), 1
)
SEEN, HALF = Images(32, 16, 16, 1), Images(64, 8, 8)
STEPPED = Weights(3, 3, (3 * 3 * 32, 1, 3 * 32, 32))
STEPS = (  # the second of a step of two backwards, for pixels that meet four weights
    ConvolutionKernel(SEEN, HALF, STEPPED, 1, True, 2, lanes=8),
    ConvolutionKernel(
        *(Images(64, 8, 8, 1), Images(32, 16, 16), STEPPED.every(2, 0, 0).turned(), 0, False),
        beside=0,
        into=Lattice(2, 1, 1),
        lanes=8,
    ),
    WeightGradient(SEEN, Images(64, 8, 8, 1), STEPPED, 1, 2, 8),
)
POOL = (Images(6, 9, 9), Images(6, 4, 4, 1), Window(3, 2), 4)
PERCEPTRON = (DenseLayer(37, 64, 0, 2368), DenseLayer(64, 10, 2432, 3072))
GATES = Gates(
    37, 10, 0, (2000, 4000), (2037, 4037), ((0, 370), (500, 3000)), together=True, least=1e-12, norm=1e-5
)
OTHERS = (
    Conv1dMaxPool(SIZES),
    Conv1dMaxPoolGradient(SIZES),
    DenseTraining(PERCEPTRON, True, True),
    DenseGradient(PERCEPTRON, 4),
    DenseTraining(PERCEPTRON, False, False, sparse=True),
    DenseScores(PERCEPTRON),
    DenseScores(PERCEPTRON, sparse=True),
    RowSums(),
    RowTotal(),
    RowDistances(),
    RowProducts(4096),
    TiledConvolution(WIDE, True),
    TiledConvolution(WIDE.turned, False),
    TiledWeightGradient(WIDE),
    *STEPS,
    ContrastTerm(37, 1e-8),
    PrototypeTerm(37),
    MemoryAhead(37),
    ValveAhead(GATES),
    ValveBack(GATES),
    Descent(True),
)


def check_calls(text: str, processor: str) -> None:
    """No library is called, but for what every process has (memset, by name or through a register)."""
    called = set(re.findall(CALLS[processor], text, re.MULTILINE))
    assert called <= {"memset", "memset@PLT", "*%rax"}


@pytest.mark.parametrize("model", IMAGES)
def test_convolutions_for_arm(model: str) -> None:
    for kind, spec in convolutions(model):
        text = assembly(spec, "aarch64")
        check_calls(text, "aarch64")
        assert not re.search(r"\bz\d+\.s\b", text)  # no vectors that only some ARM processors have
        if kind != "after":
            assert re.search(r"\bfmla\s+v\d+\.4s", text)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_pools_call_no_library(processor: str) -> None:
    for spec in (MaxPool(*POOL), MaxPoolBack(*POOL)):
        check_calls(assembly(spec, processor), processor)


@pytest.mark.parametrize("spec", OTHERS, ids=lambda spec: type(spec).__name__)
def test_other_kernels_for_arm(spec: KernelSpec) -> None:
    text = assembly(spec, "aarch64")
    check_calls(text, "aarch64")
    values = "2d" if isinstance(spec, RowTotal | RowDistances | RowProducts) else "4s"
    assert re.search(rf"\bfmla\s+v\d+\.{values}", text)


def test_kernels_are_called_by_their_addresses_on_arm() -> None:
    """No function by its name."""
    text = assembly(Chain(), "aarch64")
    check_calls(text, "aarch64")
    assert re.search(r"^\s+blr\s+x\d+", text, re.MULTILINE)


OLD = {
    "sandybridge": {"avx": True, "avx2": False, "fma": False},
    "nehalem": {"sse4.2": True},
    "one of neither": {},
    "avx2 without fma": {"avx2": True},
}


@pytest.mark.parametrize("name", OLD)
def test_none_are_cut_for_what_cannot_multiply_and_add_at_once(name: str) -> None:
    assert cut_for(name, OLD[name], "", "x86_64-unknown-linux-gnu") is None


@pytest.mark.parametrize("name", ["haswell", "skylake-avx512", "neoverse-n1"])
def test_those_that_are_cut_for_multiply_and_add_at_once(name: str) -> None:
    found = {
        "haswell": {"avx2", "fma"},
        "skylake-avx512": {"avx2", "fma", "avx512f"},
        "neoverse-n1": {"neon"},
    }[name]
    expected, triple = next(each for each in PROCESSORS.values() if each[0].name == name)
    here = cut_for(name, dict.fromkeys(found, True), "", triple)
    assert here is not None
    assert replace(here, features="") == replace(expected, features="")


@pytest.mark.parametrize(
    ("name", "triple"),
    [("apple-m1", "arm64-apple-darwin23.6.0"), ("generic", "aarch64-unknown-linux-gnu")],
    ids=["macOS", "emulated"],
)
def test_arm_has_its_vectors_also_where_none_are_found(
    name: str, triple: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = cut_for(name, {}, "", triple)
    assert here == replace(PROCESSORS["aarch64"][0], name=name, features="")
    monkeypatch.setitem(PROCESSORS, "here", (here, triple))
    assert re.search(r"\bfmla(\.4s|\s+v\d+\.4s)", assembly(RowSums(), "here"))


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("model", IMAGES)
def test_sums_stay_in_registers(model: str, processor: str) -> None:
    """The stretch of code with most multiplications adds up as many sums as it has registers for, or output channels,
    and uses no vector on the stack. That of weights needs registers for more than sums: half of them hold some."""
    for spec in dict.fromkeys(spec for kind, spec in convolutions(model) if kind == "sums"):
        check_inmost(spec, processor)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("spec", STEPS, ids=["forward", "back", "weights"])
def test_sums_of_steps_stay_in_registers(spec: KernelSpec, processor: str) -> None:
    check_inmost(spec, processor)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("model", ["lenet_gn", "conv5"])
def test_products_of_tiles_stay_in_registers(model: str, processor: str) -> None:
    """Of a wide layer's kernels by tiles: as many sums of the products as registers can hold, and none on the stack."""
    target, _ = PROCESSORS[processor]
    products: list[Any] = [spec for kind, spec in convolutions(model) if kind == "products"]
    found = [spec for spec in products if min(spec.x.channels, spec.y.channels) >= 32][:3]
    assert len(found) == 3
    for spec in found:
        text = assembly(spec, processor)
        check_calls(text, processor)
        counts = [
            len(re.findall(MULTIPLIES[processor], some))
            for some in stretches(text)
            if not re.search(STACKED[processor], some)
        ]
        many = 0.8 * target.channels * target.vectors
        assert any(many <= count < target.registers for count in counts)


def stretches(text: str) -> list[str]:
    """The code behind each label, up to the first jump that may be taken."""
    found = re.split(r"^\.?L\w+:.*$", text, flags=re.MULTILINE)
    return [
        re.split(r"^\s+(?:j\w+|b\.\w+|cbn?z)\s", some, maxsplit=1, flags=re.MULTILINE)[0] for some in found
    ]


def check_inmost(spec: KernelSpec, processor: str) -> None:
    target, _ = PROCESSORS[processor]
    least = target.channels * target.vectors // 2
    if isinstance(spec, ConvolutionKernel):
        least = min(spec.y.channels, target.channels) * target.vectors
    text = assembly(spec, processor)
    check_calls(text, processor)
    inmost = max(stretches(text), key=lambda some: len(re.findall(MULTIPLIES[processor], some)))
    assert len(re.findall(MULTIPLIES[processor], inmost)) >= least
    assert not re.search(STACKED[processor], inmost)
