"""What kernels become on processors that are not here, to be looked at."""

from __future__ import annotations

from typing import Any

import pytest

from fedroam.native.target import KernelSpec, Target, written


def assembly_of(spec: KernelSpec, target: Target, triple: str) -> str:
    """A kernel's assembly for a target on the system of a triple; skips the test where llvmlite writes none for it."""
    binding: Any = pytest.importorskip("llvmlite").binding
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        chosen = binding.Target.from_triple(triple)
    except RuntimeError as error:
        pytest.skip(f"this llvmlite writes no code for {triple}: {error}")
    machine = chosen.create_target_machine(cpu=target.name, features=target.features, opt=3)
    code, _ = written(spec, target, machine)
    text: str = machine.emit_assembly(code)
    return text
