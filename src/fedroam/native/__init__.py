"""Machine code for this machine: kernels, written as LLVM's instructions or as plain Python, compiled, kept, loaded."""

from fedroam.native.object_cache import ObjectCache as ObjectCache
from fedroam.native.object_cache import object_cache as object_cache
from fedroam.native.of_python import Compiled as Compiled
from fedroam.native.of_python import compiled as compiled
from fedroam.native.target import KEPT_TO as KEPT_TO
from fedroam.native.target import Kernel as Kernel
from fedroam.native.target import KernelSpec as KernelSpec
from fedroam.native.target import Target as Target
from fedroam.native.target import kernel as kernel
from fedroam.native.target import sources as sources
from fedroam.native.target import target as target
