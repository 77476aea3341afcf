"""Which samples workers are sent: those that they lack."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedroam.execution.crew import FIRST, HeldSamples
from fedroam.execution.worker import WorkerSamples
from fedroam.models import as_batch
from fedroam.randomness import stream

CLIENTS, SAMPLES = 6, 30


def held(images: bool, seed: int) -> HeldSamples:
    """Clients with training and test samples, some of which several hold, and some nobody."""
    draws = stream(seed, "samples")
    x = draws.random((SAMPLES, 3, 2, 2) if images else (SAMPLES, 5), dtype=np.float32)

    def some() -> list[np.ndarray]:
        return [draws.choice(SAMPLES, draws.integers(0, 5), replace=False) for _ in range(CLIENTS)]

    return HeldSamples(as_batch(torch.from_numpy(x)), torch.arange(SAMPLES), some(), (some(), some()))


@pytest.mark.parametrize("images", [False, True])
@given(st.lists(st.sets(st.integers(0, CLIENTS - 1)), min_size=1, max_size=5), st.integers(0, 20))
def test_a_worker_that_is_sent_what_is_new_has_what_it_would_be_sent_at_once(
    images: bool, steps: list[set[int]], seed: int
) -> None:
    """Its clients come, leave, and come back."""
    all_of_them, nothing = held(images, seed), np.zeros(0, np.int64)
    worker: WorkerSamples | None = None
    for clients in steps:
        own = np.array(sorted(clients), dtype=np.int64)
        there = nothing if worker is None else worker.numbers
        sent, whole = all_of_them.of(own, there), all_of_them.of(own, nothing)
        assert set(sent.new) == set(whole.numbers) - set(there)
        assert len(sent.x) == len(sent.y) == len(sent.new)
        worker = sent.complete(worker)
        assert worker.numbers[:FIRST].tolist() == list(range(FIRST))
        for name in ("numbers", "x", "y"):
            found, wanted = getattr(worker, name), getattr(whole, name)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
        for i in clients:
            assert worker.numbers[worker.train[i]].tolist() == all_of_them.train[i].tolist()


def test_the_samples_of_each_client_are_counted() -> None:
    one = [np.arange(k) for k in range(CLIENTS)]
    found = HeldSamples(torch.zeros(SAMPLES, 1), torch.zeros(SAMPLES), one, (one, [np.arange(2)] * CLIENTS))
    assert found.counts.tolist() == [2 * k + 2 for k in range(CLIENTS)]
