"""This machine's vectors and registers, and the compiling of kernels for it."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from fedroam.errors import InputError
from fedroam.native.object_cache import object_cache

try:
    import llvmlite
    from llvmlite import binding
    from llvmlite import ir as ir  # the other kernels have it from here
except ImportError:  # a platform without it: the layers are then torch's
    llvmlite = binding = ir = None


# Kinds of vectors that a processor with wider ones can keep to, and the environment variables that tell torch, its
# libraries and fedroam so; most of them look as they are loaded.
KEPT_TO = {
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "FEDROAM_VECTOR": "8",
    }
}


@dataclass(frozen=True)
class Target:
    """What kernels are cut for.

    lanes: float32 values in a vector. channels, vectors: sums that a convolution keeps in registers, output channels
    times vectors. registers: of vectors.
    """

    name: str
    features: str
    lanes: int
    channels: int
    vectors: int
    registers: int


def target() -> Target | None:
    """This machine; None where kernels cannot be compiled (no llvmlite, or `FEDROAM_NATIVE=0`), or would be slow.

    `FEDROAM_VECTOR` (4, 8 or 16 float32 values) asks for the kernels of a machine with other vectors, which can be
    computed here too, as narrower machines would. Raises InputError for any other value.
    """
    if ir is None or os.environ.get("FEDROAM_NATIVE") == "0":
        return None
    asked = os.environ.get("FEDROAM_VECTOR", "")
    if asked not in ("", "4", "8", "16"):
        raise InputError(f"FEDROAM_VECTOR = {asked}: allowed is 4, 8 or 16, the float32 values of a vector")
    here = _here()
    return here if here is None or not asked else narrowed(here, int(asked))


@cache
def _here() -> Target | None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    found = binding.get_host_cpu_features()
    return cut_for(binding.get_host_cpu_name(), dict(found), found.flatten(), binding.get_default_triple())


def cut_for(name: str, found: Mapping[str, bool], features: str, triple: str) -> Target | None:
    """What kernels for a processor of this name and these features are cut for, on the system of this triple.

    None where it cannot multiply and add at once (x86 before 2013): each number would be a call of a library then, and
    torch is many times as fast.
    """
    # 32 registers of 16 values, of 4 values (ARM), or 16 of 8 values; a few are left for what is multiplied.
    if found.get("avx512f"):
        return Target(name, features + ",-prefer-256-bit", 16, 6, 4, 32)
    # Every ARM processor of 64 bits has its vectors. LLVM finds none on macOS, nor in QEMU with x86's /proc/cpuinfo.
    if triple.startswith(("aarch64", "arm64")):
        return Target(name, features, 4, 6, 4, 32)
    if found.get("avx2") and found.get("fma"):
        return Target(name, features, 8, 6, 2, 16)
    return None


def narrowed(here: Target, lanes: int) -> Target:
    """The same machine with vectors of `lanes` values, and with 16 registers where they are narrower than its own."""
    if lanes >= here.lanes:
        return replace(here, lanes=lanes)
    features = here.features + (",-avx512f" if "+avx512f" in here.features else "")
    return Target(here.name, features, lanes, 6, 2, 16)


Kernel = Callable[..., None]  # takes addresses and whole numbers


class KernelSpec(ABC):
    """What a kernel computes, for which sizes: a frozen description, equal ones being the same kernel."""

    @abstractmethod
    def write(self, module: Any, target: Target) -> int:
        """Put the function `kernel` into an LLVM module; the number of its arguments."""


@cache
def _loaded(spec: KernelSpec, target: Target) -> Kernel:
    """A kernel that gives up Python's lock while it computes: kept since an earlier process, or compiled now."""
    made_for = binding.Target.from_default_triple().create_target_machine(
        cpu=target.name, features=target.features, opt=3
    )
    kept, name = object_cache(), _name(spec, target)
    found = kept.read(name) if kept and name else None
    if found is None:
        found = _compiled(spec, target, made_for)
        if kept and name:
            kept.write(name, found)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), made_for)
    engine.add_object_file(binding.ObjectFileRef.from_data(found[1:]))
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * found[0])  # an address is a whole number too
    kernel: Any = prototype(begin := engine.get_function_address("kernel"))
    kernel.engine, kernel.begin = engine, begin  # the engine owns the code
    called: Kernel = kernel
    return called


def address(of: Kernel) -> int:
    """Where a kernel's code begins."""
    begin: int = vars(of)["begin"]
    return begin


def _compiled(spec: KernelSpec, target: Target, made_for: Any) -> bytes:
    """The number of a kernel's arguments, as one byte, and its machine code as an object file."""
    code, arguments = written(spec, target, made_for)
    return bytes([arguments]) + bytes(made_for.emit_object(code))


def written(spec: KernelSpec, target: Target, made_for: Any) -> tuple[Any, int]:
    """A kernel as LLVM's optimised code for a target machine, maybe another than this; the number of its arguments."""
    module = ir.Module()
    arguments = spec.write(module, target)
    module.triple, module.data_layout = made_for.triple, str(made_for.target_data)
    code = binding.parse_assembly(str(module))
    code.verify()
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    # The loops are written as they should be.
    tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = binding.create_pass_builder(made_for, tuning)
    builder.getModulePassManager().run(code, builder)
    return code, arguments


def _name(spec: KernelSpec, target: Target) -> str:
    """What a compiled kernel is kept under: the digest of all that decides its code; "" where that is not known.

    That is its description, machine, compiler, and what writes it. The last is known of kernels whose package has
    `SOURCES`: to write one only to look it up would take a quarter of the time of compiling it.
    """
    writers = _writers(type(spec).__module__)
    if not all(writers):
        return ""
    versions = (*writers, llvmlite.__version__, *binding.llvm_version_info)
    decides = (*versions, binding.get_default_triple(), target, type(spec).__module__, spec)
    return hashlib.sha256(repr(decides).encode()).hexdigest()


def _writers(module: str) -> tuple[str, ...]:
    """What writes the kernels of a module: the digests of this package and of the one around it that has `SOURCES`."""
    if module.startswith(f"{__package__}."):
        return (SOURCES,)
    around = itertools.accumulate(module.split("."), "{}.{}".format)
    found = (vars(sys.modules[name]).get("SOURCES") for name in around if name in sys.modules)
    return SOURCES, next(filter(None, found), "")


def sources(folder: Path) -> str:
    """The digest of the files of a folder that write kernels; "" where they are not there as files.

    For a constant of its package, `SOURCES`: read as its modules are, since a file that changes later is not what
    writes kernels here.
    """
    seen = hashlib.sha256()
    files = sorted(folder.rglob("*.py"))
    for file in files:
        seen.update(f"{file.relative_to(folder)}\n".encode() + hashlib.sha256(file.read_bytes()).digest())
    return seen.hexdigest() if files else ""


SOURCES = sources(Path(__file__).parent)

_lock = threading.Lock()


def kernel(spec: KernelSpec, target: Target) -> Kernel:
    """The kernel of a description; compiled when it is first asked for, on this machine or, unkept, in this process."""
    with _lock:  # LLVM's memory is not made for several threads
        return _loaded(spec, target)
