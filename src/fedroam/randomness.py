"""Every random draw of the program comes from here.

A stream is derived from (seed, purpose, round, client) alone: never from a global state, never from who drew
before whom. Results therefore do not depend on the number of threads or processes, nor on a kill and resume,
and two experiments with the same seed get the same split, places and start model whatever else differs.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import threading
from collections.abc import Iterator

import numpy as np
import torch

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
    return np.random.Generator(np.random.Philox(key=key(seed, purpose, round, client)))


def torch_stream(
    seed: int, purpose: str, round: int = 0, client: int = 0, device: torch.device | str = "cpu"
) -> torch.Generator:
    """The same for draws made by torch on `device`."""
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
    with _lent, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key(seed, purpose, round, client) & 0x7FFF_FFFF_FFFF_FFFF)
        yield
