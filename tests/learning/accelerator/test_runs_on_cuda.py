"""Whole runs on a CUDA device: every federation, the exchange, averages and checkpoints, held to the processor's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from scipy import sparse

from fedroam.components import kinds
from fedroam.errors import FedroamError
from fedroam.experiment import Experiment
from fedroam.learning import Models, consensus_distance, mix, weighted_sum
from fedroam.randomness import stream
from fedroam.recording import Run
from fedroam.recording.models import FILE
from fedroam.runner import run
from support.learners import problem
from support.tiny import example, own_data, same_tables, tiny

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
DEVICE = "cuda"
FEDERATIONS = list(kinds("federation"))
# What some federations need: an extractor with parameters, and validation samples.
SPLIT: dict[str, Any] = {"model": {"kind": "mlp", "hidden": (6,)}, "validation_share": 0.2}
NAMES = ("rounds", "clients", "positions", "contacts")


def settings(federation: str, **changed: Any) -> Experiment:
    return tiny(federation=example("federation", federation), **{**SPLIT, "rounds": 3, **changed})


def tables(found: Run) -> dict[str, Any]:
    return {name: found.table(name) for name in NAMES}


@pytest.mark.parametrize("federation", FEDERATIONS)
def test_every_federation_comes_to_what_it_comes_to_on_the_processor(federation: str, tmp_path: Path) -> None:
    here = run(settings(federation, engine="reference"), tmp_path / "here").rounds
    there = run(settings(federation, device=DEVICE, engine="batched"), tmp_path / "there").rounds
    assert list(here) == list(there)
    for name in here.columns.difference(["seconds"]):
        np.testing.assert_allclose(there[name], here[name], rtol=2e-3, atol=2e-3, err_msg=name)


IMAGES: dict[str, Any] = {"data": own_data((1, 16, 16)), "model": "mnist_cnn"}


@pytest.mark.parametrize(
    ("federation", "changed"), [*((kind, {}) for kind in FEDERATIONS), ("decentralized", IMAGES)]
)
def test_it_repeats_and_goes_on_from_a_checkpoint(
    federation: str, changed: dict[str, Any], tmp_path: Path
) -> None:
    """To the last bit, on one device."""

    def broken(round: int, rounds: int, measurement: object) -> None:
        if round == 2:
            raise FedroamError("killed")

    experiment = settings(federation, device=DEVICE, engine="batched", checkpoint_every=1, **changed)
    whole, again = (run(experiment, tmp_path / name) for name in ("whole", "again"))
    same_tables(tables(whole), tables(again))
    with pytest.raises(FedroamError, match="killed"):
        run(experiment, tmp_path / "parts", observer=broken)
    same_tables(tables(whole), tables(run(experiment, tmp_path / "parts")))


@pytest.mark.parametrize("held", ["float32", "float16"])
def test_models_that_a_device_leaves_are_read_anywhere(held: str, tmp_path: Path) -> None:
    """The same file as the processor's, whose values are near."""
    own = {"models_at_rest": held, "keep_models": "all", "engine": "batched"}
    here, there = (
        load_file(run(settings("decentralized", **own, device=device), tmp_path / name).folder / FILE)
        for name, device in (("here", "cpu"), ("there", DEVICE))
    )
    assert {name: values.shape for name, values in there.items()} == {
        name: values.shape for name, values in here.items()
    }
    for name, values in there.items():
        np.testing.assert_allclose(values, here[name], rtol=2e-3, atol=2e-3, err_msg=name)


def test_images_and_momentum(tmp_path: Path) -> None:
    """A network of convolutions, whose kernels are compiled for the device, with momentum that stays at home."""
    own = {
        **IMAGES,
        "training": {"kind": "sgd", "lr": 0.05, "momentum": 0.5, "momentum_state": "kept", "batch_size": 8},
    }
    here, there = (
        run(settings("decentralized", **own, device=device, engine=engine), tmp_path / engine).rounds
        for device, engine in (("cpu", "reference"), (DEVICE, "batched"))
    )
    np.testing.assert_allclose(there["loss"], here["loss"], rtol=5e-3)


def test_the_exchange_and_sums() -> None:
    """A row becomes the weighted sum of rows, whichever rows keep themselves; sums and distances are those of the
    processor, but for the order in which a device adds."""
    case = problem("mnist_cnn", sizes=(5,) * 7, shape=(20, 20, 1))
    models = case.start(equal=False)
    draws = stream(0, "weights")
    dense = draws.random((7, 7)) * (draws.random((7, 7)) < 0.5)
    dense[2] = np.eye(7)[2]
    weights = sparse.csr_array(dense / np.maximum(dense.sum(1, keepdims=True), 1e-9))
    copy = models.rows(torch.arange(7))
    there = Models(models.layout, copy.parameters.to(DEVICE), copy.buffers.to(DEVICE), None)
    rows, shares = np.array([4, 0, 3]), draws.random(3)
    summed, summed_there = (weighted_sum(each.parameters, rows, shares) for each in (models, there))
    np.testing.assert_allclose(summed_there.cpu(), summed, rtol=1e-9, atol=1e-12)
    apart = consensus_distance(models.parameters)
    assert consensus_distance(there.parameters) == pytest.approx(apart, rel=1e-9)
    mix(models, weights)
    mix(there, weights)
    np.testing.assert_allclose(there.parameters.cpu(), models.parameters, rtol=1e-5, atol=1e-7)
