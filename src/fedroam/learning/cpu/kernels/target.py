"""This machine's vectors and registers, and the compiling of kernels for it."""

from __future__ import annotations

import ctypes
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fedroam.errors import InputError

try:
    from llvmlite import binding
    from llvmlite import ir as ir  # the other kernels have it from here
except ImportError:  # a platform without it: the layers are then torch's
    binding = ir = None


@dataclass(frozen=True)
class Target:
    """What kernels are cut for.

    lanes: float32 values in a vector. channels, vectors: sums that a convolution keeps in registers, output channels
    times vectors. products: sums that a weight gradient keeps.
    """

    name: str
    features: str
    lanes: int
    channels: int
    vectors: int
    products: int


def target() -> Target | None:
    """This machine; None where kernels cannot be compiled (no llvmlite, or `FEDROAM_NATIVE=0`).

    `FEDROAM_VECTOR` (4, 8 or 16 float32 values) asks for the kernels of a machine with other vectors, which can be
    computed here too, as narrower machines would. Raises InputError for any other value.
    """
    if ir is None or os.environ.get("FEDROAM_NATIVE") == "0":
        return None
    asked = os.environ.get("FEDROAM_VECTOR", "")
    if asked not in ("", "4", "8", "16"):
        raise InputError(f"FEDROAM_VECTOR = {asked}: allowed is 4, 8 or 16, the float32 values of a vector")
    return _here() if not asked else narrowed(_here(), int(asked))


@cache
def _here() -> Target:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    name, found = binding.get_host_cpu_name(), binding.get_host_cpu_features()
    # 32 registers of 16 values, of 4 values (ARM), or 16 of 8 values; a few are left for what is multiplied.
    if found.get("avx512f"):
        return Target(name, found.flatten() + ",-prefer-256-bit", 16, 6, 4, 25)
    if found.get("neon"):
        return Target(name, found.flatten(), 4, 6, 4, 25)
    return Target(name, found.flatten(), 8, 6, 2, 12)


def narrowed(here: Target, lanes: int) -> Target:
    """The same machine with vectors of `lanes` values, and with 16 registers where they are narrower than its own."""
    if lanes >= here.lanes:
        return replace(here, lanes=lanes)
    features = here.features + (",-avx512f" if "+avx512f" in here.features else "")
    return Target(here.name, features, lanes, 6, 2, 12)


Kernel = Callable[..., None]  # takes addresses and whole numbers


class KernelSpec(ABC):
    """What a kernel computes, for which sizes: a frozen description, equal ones being the same kernel."""

    @abstractmethod
    def write(self, module: Any, target: Target) -> int:
        """Put the function `kernel` into an LLVM module; the number of its arguments."""


@cache
def _compiled(spec: KernelSpec, target: Target) -> Kernel:
    """A kernel that gives up Python's lock while it computes."""
    module = ir.Module()
    arguments = spec.write(module, target)
    triple = binding.Target.from_default_triple()
    made_for = triple.create_target_machine(cpu=target.name, features=target.features, opt=3)
    module.triple, module.data_layout = binding.get_default_triple(), str(made_for.target_data)
    code = binding.parse_assembly(str(module))
    code.verify()
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    # The loops are written as they should be.
    tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = binding.create_pass_builder(made_for, tuning)
    builder.getModulePassManager().run(code, builder)
    engine = binding.create_mcjit_compiler(code, made_for)
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * arguments)  # an address is a whole number too
    kernel: Any = prototype(engine.get_function_address("kernel"))
    kernel.engine = engine  # owns the code
    called: Kernel = kernel
    return called


_lock = threading.Lock()


def kernel(spec: KernelSpec, target: Target) -> Kernel:
    """The kernel of a description, compiled when it is first asked for."""
    with _lock:  # LLVM's memory is not made for several threads
        return _compiled(spec, target)
