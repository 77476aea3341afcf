"""The float64 reference of the benchmark of divergence, against closed forms and the engine `reference`."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.nn import functional

from fedroam.models.convolutional import MnistCNN

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def divergence() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "benchmark_divergence", ROOT / "benchmarks" / "divergence.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_curvature_of_a_quadratic(divergence: ModuleType) -> None:
    """Of x' diag(1, 2, -7) x / 2 at (1, 1, 0): the gradient is (1, 2, 0), along it (1 + 2 * 4) / 5."""
    diagonal = torch.tensor([1.0, 2.0, -7.0], dtype=torch.float64)
    at = [torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)]
    norm, eigenvalue, along = divergence.curvature(lambda model: (diagonal * model[0] ** 2).sum() / 2, at)
    assert norm == pytest.approx(5**0.5)
    assert eigenvalue == pytest.approx(-7.0)
    assert along == pytest.approx(9 / 5)


def test_its_network_step_and_averages_are_those_of_the_study(divergence: ModuleType) -> None:
    torch.manual_seed(0)
    networks = [MnistCNN().build((1, 28, 28), 10).double() for _ in range(3)]
    models = [[each.detach().clone() for each in network.parameters()] for network in networks]
    samples = [(torch.rand(n, 1, 28, 28, dtype=torch.float64), torch.arange(n) % 10) for n in (3, 5, 2)]
    reference = divergence.Reference.__new__(divergence.Reference)
    reference.samples, reference.sizes = samples, torch.tensor([3.0, 5.0, 2.0], dtype=torch.float64)
    met = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.bool).numpy()
    found, losses = reference.round(models, met)
    for network, (x, y), told in zip(networks, samples, losses, strict=True):
        loss = functional.cross_entropy(network(x), y)
        assert told == pytest.approx(loss.item())
        optimiser = torch.optim.SGD(network.parameters(), lr=0.3, weight_decay=5e-4)
        loss.backward()
        optimiser.step()
    for shares, model in zip(([3 / 8, 5 / 8, 0], [3 / 8, 5 / 8, 0], [0, 0, 1]), found, strict=True):
        for layers, layer in zip(
            zip(*(net.parameters() for net in networks), strict=True), model, strict=True
        ):
            wanted = sum(share * each for share, each in zip(shares, layers, strict=True))
            assert torch.allclose(layer, wanted, atol=1e-12)


def test_what_is_kept_shows_the_same_in_float64(divergence: ModuleType) -> None:
    """The page says so: float64 explodes in the same round as the run, by the same loss."""
    record = json.loads(divergence.RECORD.read_text(encoding="utf-8"))
    worst = max(record["rounds"], key=lambda row: row["loss"])
    assert worst["loss"] > 230 > record["rounds"][0]["loss"]
    for row in record["rounds"]:
        assert row["loss_float64"] == pytest.approx(row["loss"], rel=0.01), row["round"]
    assert worst["eigenvalue"] > 10 * record["stable_below"]
    effect = next(one.effect for one in divergence.STUDY.readings if one.about == "learning rate on MNIST")
    assert f"loss {worst['loss']:.0f} at a curvature of {worst['eigenvalue']:.0f}" in effect
    assert f"2 / 0.3 = {record['stable_below']:.1f}" in effect
    assert record["rounds"].index(worst) == 10
    fates = record["averages_float32"]
    told = f"Of {fates['averages']} averages of the two models that met, left alone, {fates['overshot']} overshoot"
    assert f"{told} and {fates['answers all alike']} end with one answer to all samples" in effect
    assert record["averages"] == {
        **record["averages_float32"],
        "round": record["averages"]["round"],
        "with": record["averages"]["with"],
    }
