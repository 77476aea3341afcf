"""What a peer is: a script whose `play` does the work of a folder, and tells what it has after each round.

    python PEER.py WORK --rounds 20 --out RESULT.json

`play(work, rounds, tell)` calls `tell(value)` before the first round and after each one: the accuracy of the model, or
the mean of those of all models (or, of a schedule, how many transfers got through). It returns the models that it
ends with, float32 [models, parameters] in the order of `Work.start`, or None where there are none. A round is what
lies between two calls. This file needs torch and numpy only, and those only where they are asked for.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn

Tell = Callable[[float], None]
Play = Callable[["Work", int, Tell], "np.ndarray | None"]
JUDGED = 500  # test samples in one pass


class Work:
    """The folder that `work.write` wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        self.kind, self.clients, self.lr = self.facts["kind"], self.facts["clients"], self.facts["lr"]

    def array(self, name: str) -> np.ndarray:
        """One of its arrays, mapped, not read."""
        import numpy as np

        found: np.ndarray = np.load(self.folder / f"{name}.npy", mmap_mode="c")
        return found

    def tensor(self, name: str) -> torch.Tensor:
        """The same as a tensor."""
        import torch

        return torch.from_numpy(self.array(name))

    @cached_property
    def x(self) -> torch.Tensor:
        """Training samples, float32 [samples, 1, 28, 28]."""
        return self.tensor("x")

    @cached_property
    def y(self) -> torch.Tensor:
        """Their classes, int64 [samples]."""
        return self.tensor("y")

    @cached_property
    def test(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Test samples and their classes."""
        return self.tensor("test_x"), self.tensor("test_y")

    @cached_property
    def samples(self) -> list[int]:
        """How many training samples each client holds."""
        return [int(count) for count in self.array("samples")]

    @cached_property
    def start(self) -> np.ndarray:
        """The start model, float32 [parameters]: weight and bias of each layer, one after the other."""
        return self.array("start")

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        lengths = self.array("lengths")
        return np.cumsum(lengths.reshape(-1)).reshape(lengths.shape), self.array("batches")

    def batches(self, round: int, client: int) -> list[np.ndarray]:
        """The batches of a client in a round (from 1), in order: indices of training samples."""
        (ends, flat), lengths = self._ends, self.array("lengths")
        return [
            flat[end - size : end]
            for end, size in zip(ends[round - 1, client], lengths[round - 1, client], strict=True)
        ]

    def loader(self, round: int, client: int) -> Any:
        """The same as a torch DataLoader over the client's samples, one after the other, as such loops have it."""
        from torch.utils.data import DataLoader

        indices = [batch.tolist() for batch in self.batches(round, client)]
        return DataLoader(Samples(self.x, self.y), batch_sampler=indices)  # type: ignore[arg-type]

    def network(self) -> nn.Module:
        """The network, with the start model."""
        module = network(self.facts["model"]["kind"])
        put(module, self.start)
        return module

    def judge(self, module: nn.Module) -> float:
        """The accuracy of a module on all test samples."""
        import torch

        x, y = self.test
        module.eval()
        with torch.inference_mode():
            parts = zip(x.split(JUDGED), y.split(JUDGED), strict=True)
            hits = sum(int((module(some).argmax(1) == classes).sum()) for some, classes in parts)
        module.train()
        return hits / len(y)


class Samples:
    """A map-style data set: one sample and its class at a time."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[k], self.y[k]


def network(kind: str) -> nn.Module:
    """The networks of the workloads, as a textbook writes them."""
    from torch import nn

    def block(inputs: int, outputs: int, padding: int, norm: bool) -> Iterator[nn.Module]:
        yield nn.Conv2d(inputs, outputs, 5, padding=padding)
        if norm:
            yield nn.GroupNorm(2, outputs)
        yield nn.ReLU()
        yield nn.MaxPool2d(2)

    if kind == "mnist_cnn":
        layers = [*block(1, 10, 0, False), *block(10, 20, 0, False), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10))
    if kind == "lenet_gn":
        layers = [layer for i, o in ((1, 32), (32, 32), (32, 64)) for layer in block(i, o, 2, True)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(576, 10))
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    raise ValueError(f"{kind}: no such network; there are mnist_cnn, lenet_gn, mlp")


def put(module: nn.Module, values: np.ndarray) -> None:
    """Give a module these parameters."""
    import torch
    from torch.nn.utils import vector_to_parameters

    vector_to_parameters(torch.from_numpy(values.copy()), module.parameters())


def taken(module: nn.Module) -> np.ndarray:
    """A module's parameters."""
    from torch.nn.utils import parameters_to_vector

    found: np.ndarray = parameters_to_vector(module.parameters()).detach().numpy().copy()
    return found


class Heard:
    """What was told: moments (s) and values, before the first round and after each one."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.values: list[float] = []

    def tell(self, value: float, moment: float | None = None) -> None:
        """A `Tell`. moment: when it was, if not now."""
        self.at.append(time.perf_counter() if moment is None else moment)
        self.values.append(value)

    def result(self, rounds: int, packages: Sequence[str]) -> dict[str, Any]:
        """All of it, and the versions of these packages. Raises SystemExit where it is not of so many rounds."""
        if len(self.at) != rounds + 1:
            raise SystemExit(f"{len(self.at)} moments were told, {rounds + 1} belong to {rounds} rounds")
        versions = {name: importlib.metadata.version(name) for name in packages}
        versions["python"] = platform.python_version()
        return {"at": self.at, "values": self.values, "versions": versions}


def main(play: Play, *packages: str) -> int:
    """The command line of a peer. packages: whose versions are told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    heard = Heard()
    models = play(Work(given.work), given.rounds, heard.tell)
    result = heard.result(given.rounds, packages)
    if models is not None:
        import numpy as np

        np.save(given.out.with_suffix(".npy"), models)
    given.out.write_text(json.dumps(result) + "\n", encoding="utf-8")
    return 0


def run(play: Play, *packages: str) -> None:
    """As `main`, and the end of the process."""
    sys.exit(main(play, *packages))
