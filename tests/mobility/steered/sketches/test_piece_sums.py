"""Kernels that weigh pieces, written for this processor and for others: looked at, not run."""

from __future__ import annotations

import re

import pytest

from fedroam.mobility.steered.sketches.piece_sums import SumsOfAll, SumsOfSome
from fedroam.native.target import KernelSpec, Target, written

binding = pytest.importorskip("llvmlite").binding

PROCESSORS = {
    "aarch64-linux-gnu": (Target("neoverse-n1", "+neon", 4, 6, 4, 32), r"\bfsqrt\s+v\d+\.2d", r"^\s+bl\s"),
    "x86_64-linux-gnu": (
        Target("haswell", "+avx2,+fma", 8, 6, 2, 16),
        r"\bvsqrtpd\s.*%ymm",
        r"^\s+call",
    ),
}


@pytest.mark.parametrize("triple", list(PROCESSORS))
@pytest.mark.parametrize("spec", [SumsOfAll(10, 2), SumsOfAll(40, 1), SumsOfSome(10, 2), SumsOfSome(40, 1)])
def test_roots_are_those_of_vectors_and_no_library_is_called(spec: KernelSpec, triple: str) -> None:
    target, root, call = PROCESSORS[triple]
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        chosen = binding.Target.from_triple(triple)
    except RuntimeError as error:
        pytest.skip(f"this llvmlite writes no code for {triple}: {error}")
    machine = chosen.create_target_machine(cpu=target.name, features=target.features, opt=3)
    text = machine.emit_assembly(written(spec, target, machine)[0])
    assert re.search(root, text)
    assert not re.search(call, text, re.MULTILINE)
