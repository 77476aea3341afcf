"""Every random draw of the program comes from here.

A stream is derived from (seed, purpose, round, client) alone: never from a global state, never from who drew
before whom. Results therefore do not depend on the number of threads or processes, nor on a kill and resume,
and two experiments with the same seed get the same split, places and start model whatever else differs.

torch is imported by the first draw that torch makes: whoever only reads what a run left, or moves and meets without
learning, does not wait for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import struct
import sys
import threading
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

_WORD = (1 << 64) - 1
_lent = threading.RLock()  # held by the thread that torch's default generator is lent to


def key(seed: int, purpose: str, round: int = 0, client: int = 0) -> int:
    """A 128-bit key, the BLAKE2b digest of the four coordinates of a stream."""
    label = purpose.encode()
    packed = struct.pack("<qqqI", seed, round, client, len(label)) + label
    return int.from_bytes(hashlib.blake2b(packed, digest_size=16).digest(), "little")


def stream(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """An independent generator for one purpose, round and client.

    The generator is counter-based (Philox4x64, Salmon et al., SC 2011), keyed by `key`.
    """
    words = _Words(key(seed, purpose, round, client))
    return np.random.Generator(np.random.Philox(words))  # type: ignore[arg-type]  # allowed, but not in numpy's stubs


class _Words(np.random.bit_generator.ISeedSequence):
    """A key as numpy asks a seed for it: `Philox(key=...)` is the same generator, but first draws 128 bits that nobody
    uses from the operating system, which takes three times as long.
    """

    def __init__(self, key: int) -> None:
        self.key = key

    @override
    def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint32) -> np.ndarray:
        """The key's two words of 64 bits, the lower one first."""
        if n_words != 2 or np.dtype(dtype) != np.uint64:
            raise ValueError(f"{n_words} words of {np.dtype(dtype)}: a key of Philox has two of uint64")
        return np.array([self.key & _WORD, self.key >> 64], dtype=np.uint64)


def pair_normals(seed: int, purpose: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A standard normal number for each pair (a[k], b[k]) of whole numbers, float64 [pairs].

    It depends on seed, purpose and the pair alone, so that any number of pairs costs no stream each: the first word of
    the block of Philox4x64-10 (Salmon et al., SC 2011) with the counter (a, b, 0, 0), as a uniform number through the
    normal quantile.
    """
    from scipy.special import ndtri

    whole = key(seed, purpose)
    low, high = whole & _WORD, whole >> 64
    counter = [np.asarray(part, dtype=np.int64).view(np.uint64) for part in (a, b)]
    x = [*counter, np.zeros_like(counter[0]), np.zeros_like(counter[0])]
    for _ in range(10):
        first, second = _multiplied(0xD2E7470EE14C6C93, x[0]), _multiplied(0xCA5A826395121157, x[2])
        x = [
            second[0] ^ x[1] ^ np.uint64(low),
            second[1],
            first[0] ^ x[3] ^ np.uint64(high),
            first[1],
        ]
        low, high = (low + 0x9E3779B97F4A7C15) & _WORD, (high + 0xBB67AE8584CAA73B) & _WORD
    uniform = ((x[0] >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return np.asarray(ndtri(uniform))


def _multiplied(factor: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The high and the low 64 bits of factor times x, uint64."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    f_low, f_high = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    x_low, x_high = x & mask, x >> half
    low, cross = x_low * f_low, x_high * f_low
    middle = (low >> half) + (cross & mask) + x_low * f_high
    high = x_high * f_high + (cross >> half) + (middle >> half)
    return high, x * np.uint64(factor)


def torch_stream(
    seed: int, purpose: str, round: int = 0, client: int = 0, device: torch.device | str = "cpu"
) -> torch.Generator:
    """The same for draws made by torch on `device`."""
    import torch

    generator = torch.Generator(device=device)
    generator.manual_seed(key(seed, purpose, round, client) & 0x7FFF_FFFF_FFFF_FFFF)
    return generator


@contextlib.contextmanager
def torch_default_stream(seed: int, purpose: str, round: int = 0, client: int = 0) -> Iterator[None]:
    """Lend foreign code (a `torch.nn.Module`'s initialiser) a torch default generator of its own.

    Such code draws from torch's global generator and cannot be told otherwise. The global state is put back
    on leaving, so that nothing outside can notice. One thread at a time: there is only one such generator, and a
    thread that meets another one inside waits for it.
    """
    import torch

    with _lent, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key(seed, purpose, round, client) & 0x7FFF_FFFF_FFFF_FFFF)
        yield


def global_states() -> Mapping[str, Hashable]:
    """The states of the generators that Python, numpy and torch (once it is loaded) keep for everybody, by name.

    fedroam leaves them as they are: whoever finds one changed has met foreign code that draws from it. Python's is left
    out as long as Ray is at work, which draws from it for its own purposes.
    """
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002  (it is looked at, not drawn from)
    found: dict[str, Hashable] = {
        "numpy.random": (numpy["state"]["key"].tobytes(), numpy["state"]["pos"], numpy["has_gauss"]),
    }
    # Of any module: somebody's own may have this name, too.
    at_work = getattr(sys.modules.get("ray"), "is_initialized", None)
    if at_work is None or not at_work():
        found["random"] = random.getstate()
    if "torch" in sys.modules:
        import torch

        with _lent:
            found["torch"] = torch.get_rng_state().numpy().tobytes()
    return found
