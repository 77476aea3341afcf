"""What one client holds, and how it does what it is asked: by the ordinary engine, on its own samples alone."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from fedroam.deploy.messages import PROTOCOL, Expected, Hello, LocalJob, Order, Refused, layout_sum
from fedroam.experiment import Experiment
from fedroam.learning import Anchor, Held, Job, Layout, Learner, Models, Task
from fedroam.learning.held import Use
from fedroam.native import target
from fedroam.scene import Scene

USES: tuple[Use, ...] = ("train", "validation", "test")


def hello_of(experiment: Experiment, layout: Layout, samples: str) -> Hello:
    """How a client introduces itself."""
    kernels = ", no kernels" if target() is None else ""  # as on boards, which have other last digits
    version = f"torch {torch.__version__} on {platform.machine()}{kernels}"
    return Hello(
        protocol=PROTOCOL,
        digest=experiment.digest,
        layout=layout_sum(layout),
        samples=samples,
        version=version,
    )


NO_SAMPLES = hashlib.sha256().hexdigest()  # what an access point holds


def samples_sum(scene: Scene, client: int) -> str:
    """SHA-256 (hex) over the samples that a client holds, what for, and their classes."""
    total = hashlib.sha256()
    for held in _held(scene, client):
        index = torch.from_numpy(held)
        x, y = scene.task.x[index].contiguous().numpy(), scene.task.y[index].numpy()
        total.update(f"{len(held)} {x.dtype}{x.shape}".encode())
        total.update(np.ascontiguousarray(x).tobytes())
        total.update(y.tobytes())
    return total.hexdigest()


def _held(scene: Scene, client: int) -> tuple[np.ndarray, ...]:
    """A client's samples (indices into the task's), by what they are for, in the order of `USES`."""
    return scene.context.train[client], scene.split.validation[client], scene.split.test[client]


@dataclass
class Share:
    """A client at work.

    task: of its own samples alone. held: which of them are for what. kept: features for jobs of this round, by name.
    """

    client: int
    task: Task
    learner: Learner
    held: Mapping[Use, Held]
    hello: Hello
    round: int = 0
    kept: dict[str, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, scene: Scene, client: int) -> Share:
        """What is this client's, of what a scene deals out."""
        experiment = scene.experiment
        parts, own = _held(scene, client), {}
        begin = 0
        for use, part in zip(USES, parts, strict=True):
            own[use] = Held(client, use, np.arange(begin, begin + len(part)))
            begin += len(part)
        index = torch.from_numpy(np.concatenate(parts))
        task = replace(scene.task, x=scene.task.x[index], y=scene.task.y[index])
        hello = hello_of(experiment, task.layout, samples_sum(scene, client))
        learner = scene.parts.engine.build(task)
        return cls(client, task, learner, own, hello)

    def close(self) -> None:
        """Give back workers and memory."""
        self.learner.close()

    def expected(self, order: Order) -> Expected:
        """The arrays that come with an order."""
        layout = self.task.layout
        widths = {"parameters": layout.size, "buffers": layout.buffer_size}
        if order.work != "train":
            return {name: ("float32", (order.rows, width)) for name, width in widths.items()}
        if order.momentum:
            widths["momentum"] = layout.size
        found: dict[str, tuple[str, tuple[int, ...]]] = {}
        for k, job in enumerate(order.jobs):
            own = {"momentum"} if job.model else {*widths}
            found |= {f"{k}.{name}": ("float32", (width,)) for name, width in widths.items() if name in own}
            found |= {f"{k}.{name}": (array.kind, tuple(array.shape)) for name, array in job.arrays.items()}
        return found

    def work(self, order: Order, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Do what an order asks; the arrays of the answer. Raises `Refused` where it cannot be done."""
        if order.round != self.round:
            self.round = order.round
            self.kept.clear()
        if order.work == "train":
            return self._train(order, arrays)
        models = Models(self.task.layout, _tensor(arrays["parameters"]), _tensor(arrays["buffers"]), None)
        held = self.held[order.use]
        rows = range(order.rows)
        if order.work == "judge":
            scores = self.learner.judge(models, rows, [held] * order.rows)
            wide = np.zeros((3, order.rows, order.classes), np.int64)
            wide[:, :, : scores.hits.shape[1]] = scores.hits, scores.answers, scores.actual
            return {"hits": wide[0], "answers": wide[1], "actual": wide[2], "loss": scores.loss}
        if order.rows != 1:
            raise Refused(f"{order.work} of {order.rows} models, allowed is one")
        if order.work == "represent":
            (self.kept[order.keep],) = self.learner.represent(models, [0], [held])
            return {"width": np.array([self.kept[order.keep].shape[1]], np.int64)}
        if order.work == "class_means":
            means = self.learner.class_means(models, [0], [held], order.classes)
            return {"mean": means.mean[0], "held": means.held[0]}
        return {"mean": self.learner.mean_features(models, [0], [held])[0]}

    def _train(self, order: Order, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        def rows(name: str) -> torch.Tensor:
            return torch.from_numpy(np.stack([arrays[f"{k}.{name}"] for k in range(len(order.jobs))]))

        models = Models(
            self.task.layout,
            rows("parameters"),
            rows("buffers"),
            rows("momentum") if order.momentum else None,
        )
        jobs = [self._job(k, job, arrays) for k, job in enumerate(order.jobs)]
        found = {"loss": self.learner.train(models, jobs)}
        for k in range(len(jobs)):
            found[f"{k}.parameters"] = models.parameters[k].numpy()
            found[f"{k}.buffers"] = models.buffers[k].numpy()
            if models.momentum is not None:
                found[f"{k}.momentum"] = models.momentum[k].numpy()
        return found

    def _job(self, k: int, job: LocalJob, arrays: Mapping[str, np.ndarray]) -> Job:
        extra = {name: _tensor(arrays[f"{k}.{name}"]) for name in job.arrays}
        missing = [name for name in job.each.values() if name not in self.kept]
        if missing:  # this process began in the midst of the round
            raise Refused(f"it no longer has {missing[0]!r}")
        anchor = (
            None
            if job.pull is None
            else Anchor(job.pull, extra.pop("target", None), extra.pop("shift", None))
        )
        return Job(
            self.client,
            k,
            self.held["train"].samples,
            job.round,
            anchor=anchor,
            given={name.removeprefix("given."): value for name, value in extra.items()},
            each={name: self.kept[kept] for name, kept in job.each.items()},
        )


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array))
