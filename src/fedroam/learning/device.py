"""Where models and data live."""

from __future__ import annotations

import torch

from fedroam.errors import InputError


def device_of(name: str) -> torch.device:
    """The device of a setting. Raises InputError where this machine, or this build of torch, does not have it."""
    device = torch.device(name)
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= there.get(device.type, 0):
        known = ["cpu"] + [f"cuda:{k}" for k in range(there["cuda"])] + ["mps"] * there["mps"]
        kind = {"cuda": "no CUDA", "mps": "no MPS"}.get(device.type, "none")
        found = f"only {there['cuda']} of CUDA" if device.type == "cuda" and there["cuda"] else kind
        raise InputError(
            f"device = {name!r}: this machine or this torch has {found}; allowed here: {', '.join(map(repr, known))}"
        )
    return device
