"""Why runs of the study of Reza et al. diverge: the worst round of one, beside an independent float64 reference.

    python benchmarks/divergence.py          # some minutes of a core, with MNIST; docs/records/reza-divergence.json

Plays DCM without a limit (alpha = 0.05, seed 1) at scale medium, and finds the largest training loss of a client. From
the models of ten rounds before, a network and a loop of its own go on in float64 with the same samples and contacts;
then the worst client goes on alone from averages of its own model and that of whom it met last.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from fedroam.papers.reza.study import STUDY
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "reza-divergence.json"
VARIANT, SCALE, SEED, ROUNDS = "dcm,m=5,Rc=3,Rm=inf,a=0.05", "medium", 1, 440
BEFORE, AFTER, ALONE, SHARES = 10, 4, 15, 21
ITERATIONS = 40
Tensors = Sequence[torch.Tensor]


def outputs(model: Tensors, x: torch.Tensor) -> torch.Tensor:
    """The network of the study, written once more."""
    one, two, three, four = (model[k : k + 2] for k in (0, 2, 4, 6))
    x = functional.relu(functional.max_pool2d(functional.conv2d(x, *one), 2))
    x = functional.relu(functional.max_pool2d(functional.conv2d(x, *two), 2))
    return functional.linear(functional.relu(functional.linear(x.flatten(1), *three)), *four)


def loss_of(model: Tensors, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy."""
    logits = outputs(model, x)
    return (torch.logsumexp(logits, 1) - logits.gather(1, y[:, None])[:, 0]).mean()


def descended(model: Tensors, x: torch.Tensor, y: torch.Tensor) -> tuple[list[torch.Tensor], float]:
    """A model after a step of full-batch gradient descent with weight decay, and its loss before."""
    training = STUDY.experiment(VARIANT, SCALE).training
    free = [each.clone().requires_grad_() for each in model]
    loss = loss_of(free, x, y)
    gradient = torch.autograd.grad(loss, free)
    stepped = [p - training.lr * (g + training.weight_decay * p) for p, g in zip(free, gradient, strict=True)]
    return [each.detach() for each in stepped], float(loss.detach())


def curvature(loss: Callable[[Tensors], torch.Tensor], model: Tensors) -> tuple[float, float, float]:
    """Norm of the gradient, the Hessian's eigenvalue of largest magnitude, and the curvature along the gradient."""
    free = [each.clone().requires_grad_() for each in model]
    gradient = torch.autograd.grad(loss(free), free, create_graph=True)
    drawn = torch.Generator().manual_seed(0)
    start = [torch.randn(each.shape, generator=drawn, dtype=each.dtype) for each in free]

    def along(direction: Tensors) -> tuple[float, list[torch.Tensor]]:
        norm = torch.sqrt(sum(((each**2).sum() for each in direction), torch.zeros(())))
        unit = [each / norm for each in direction]
        turned = torch.autograd.grad(gradient, free, unit, retain_graph=True)
        return float(sum((a * b).sum() for a, b in zip(turned, unit, strict=True))), list(turned)

    value, direction = along(start)
    for _ in range(ITERATIONS):
        value, direction = along(direction)
    still = [each.detach() for each in gradient]
    return float(sum((each**2).sum() for each in still)) ** 0.5, value, along(still)[0]


class Reference:
    """Rounds of decentralized learning in float64, by the samples of a scene."""

    def __init__(self, scene: Scene) -> None:
        self.samples = [(scene.task.x[part].double(), scene.task.y[part]) for part in scene.split.train]
        self.sizes = torch.tensor([len(y) for _, y in self.samples], dtype=torch.float64)

    def round(
        self, models: Sequence[Tensors], met: np.ndarray
    ) -> tuple[list[list[torch.Tensor]], list[float]]:
        """Everybody's step, then averages by data sizes over whom each met (bool [clients, clients])."""
        done = [descended(model, *held) for model, held in zip(models, self.samples, strict=True)]
        weights = (torch.from_numpy(met) | torch.eye(len(met), dtype=torch.bool)) * self.sizes
        weights /= weights.sum(1, keepdim=True)
        layers = [
            torch.tensordot(weights, torch.stack(layer), 1)
            for layer in zip(*(m for m, _ in done), strict=True)
        ]
        return [[layer[i] for layer in layers] for i in range(len(met))], [loss for _, loss in done]


def played(
    until: int, since: int | None = None
) -> tuple[Scene, np.ndarray, list[list[Any]], list[np.ndarray]]:
    """A scene, the training loss of each client by round, and from round `since` on everybody's models before each
    round, in float64, and who met whom in it."""
    scene = prepare(STUDY.experiment(VARIANT, SCALE, SEED))
    state, clients = begin(scene), scene.experiment.clients
    losses, models, met = np.full((until + 1, clients), np.nan), [], []
    for t in range(1, until + 1):
        kept = since is not None and t >= since
        if kept:
            rows = state.models.parameters.double()
            entries = state.models.layout.parameters
            models.append([[entry.view(row).clone() for entry in entries] for row in rows])
        state, done = play_round(scene, state)
        losses[t, done.learners] = done.losses
        met += [done.meeting.graph.toarray().astype(bool)] * kept
    return scene, losses, models, met


def fates(first: Tensors, second: Tensors, x: torch.Tensor, y: torch.Tensor) -> dict[str, int]:
    """What becomes of averages of two models (shares 0 to 1) that go on alone: how many of them overshoot (a loss above
    5), and of these how many end with one answer to all samples, or as no number at all."""
    found: Counter[str] = Counter()
    for share in np.linspace(0, 1, SHARES):
        model = [(1 - share) * a + share * b for a, b in zip(first, second, strict=True)]
        worst = 0.0
        for _ in range(ALONE):
            model, loss = descended(model, x, y)
            worst = max(worst, loss)
        logits = outputs(model, x)
        found["averages"] += 1
        found["overshot"] += worst > 5
        found["answers all alike"] += bool((logits - logits[:1]).abs().max() < 1e-6)
        found["no number"] += not bool(torch.isfinite(logits).all())
    return dict(found)


def main() -> None:
    """Measure, and keep it."""
    _, losses, *_ = played(ROUNDS)
    worst, client = (int(k) for k in np.unravel_index(np.nanargmax(losses), losses.shape))
    first = worst - BEFORE
    scene, losses, models, met = played(worst + AFTER, first)
    reference = Reference(scene)
    x, y = reference.samples[client]
    going, rows, last = models[0], [], None
    for k, t in enumerate(range(first, worst + AFTER + 1)):
        norm, eigenvalue, along = curvature(lambda model: loss_of(model, x, y), models[k][client])
        neighbours = np.flatnonzero(met[k][client])
        going, told = reference.round(going, met[k])
        numbers = (losses[t, client], told[client], norm, eigenvalue, along)
        names = ("loss", "loss_float64", "gradient_norm", "eigenvalue", "along_gradient")
        row = {name: float(f"{number:.6g}") for name, number in zip(names, numbers, strict=True)}
        rows.append({"round": t, "met": neighbours.tolist(), **row})
        if len(neighbours) and t < worst:
            last = k, int(neighbours[0])
        print(rows[-1], flush=True)
    record = {
        "machine": f"{platform.machine()}, one core",
        "run": {
            "study": "reza",
            "scale": SCALE,
            "variant": VARIANT,
            "seed": SEED,
            "digest": scene.experiment.digest,
        },
        "stable_below": 2 / STUDY.experiment(VARIANT, SCALE).training.lr,
        "client": {"number": client, "samples": torch.bincount(y, minlength=10).tolist()},
        "rounds": rows,
    }
    if last is not None:
        k, other = last
        own, its = (descended(models[k][i], *reference.samples[i])[0] for i in (client, other))
        record["averages"] = {"round": first + k, "with": other, **fates(own, its, x, y)}
        single = [[each.float() for each in model] for model in (own, its)]
        record["averages_float32"] = fates(*single, x.float(), y)
    write_text(RECORD, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
