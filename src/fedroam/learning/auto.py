"""Where models and data live, and the choice of an engine by it."""

from __future__ import annotations

import torch

from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.learning.accelerator.batched import Batched
from fedroam.learning.cpu.engine import Cpu
from fedroam.learning.cpu.workers import MOST_WORKERS
from fedroam.learning.engine import Learner, Task


@register("engine", "auto")
class Auto(Part):
    """`cpu` where the device is the CPU, `batched` on any other; the learner's `notes` say which."""

    workers: int = field(0, "threads, 0 is one a core", identity=False, ge=0, le=MOST_WORKERS)
    native: bool = field(
        True, "compute by kernels compiled for this machine, where there are some: layers, losses, evaluation"
    )

    def build(self, task: Task) -> Learner:
        """Choose by where the data are."""
        if task.x.device.type == "cpu":
            return Cpu(workers=self.workers, native=self.native).build(task)
        return Batched().build(task)


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
