"""Kernels that weigh pieces, written for this processor and for others: looked at, not run."""

from __future__ import annotations

import re

import pytest

from fedroam.mobility.steered.sketches.piece_sums import SumsOfAll, SumsOfSome
from fedroam.native.target import KernelSpec, Target
from support.assembly import assembly_of

pytest.importorskip("llvmlite")

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
    text = assembly_of(spec, target, triple)
    assert re.search(root, text)
    assert not re.search(call, text, re.MULTILINE)
