"""AveragingWeights of averages: cosines by hand and by torch, softmax, averages of unlike tensors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedroam.federation.attention import AveragingWeights, attention, average, cosines, groups, softmax
from fedroam.learning import Layout, Models
from fedroam.randomness import stream

NETWORK = nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 4))
LAYOUT = Layout.of(NETWORK)
PAIR = Layout.of(nn.Linear(2, 1, bias=False))
FORMS = ("flat", "per_tensor", "per_slice", "squared_norms")


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def drawn(rows: int, seed: int = 1, layout: Layout = LAYOUT) -> Models:
    models = Models.empty(layout, rows, momentum=False)
    draws = stream(seed, "test attention")
    models.parameters[:] = torch.from_numpy(draws.standard_normal((rows, layout.size)).astype(np.float32))
    models.buffers[:] = torch.from_numpy(draws.standard_normal((rows, layout.buffer_size)).astype(np.float32))
    return models


def together(*vectors: torch.Tensor) -> tuple[torch.Tensor, int, np.ndarray]:
    """A matrix of these rows, the first, and the others."""
    return torch.stack(vectors), 0, np.arange(1, len(vectors))


def tensors(models: Models, row: int) -> list[torch.Tensor]:
    return [entry.view(models.parameters[row]).double() for entry in LAYOUT.parameters]


def test_cosines_by_hand() -> None:
    reference, others = vector(3, 4), [vector(4, 3), vector(-3, -4), vector(4, -3), vector(0, 0)]
    given = together(reference, *others)
    assert cosines(*given, PAIR, "flat")[:, 0] == pytest.approx([24 / 25, -1, 0, 0])
    assert cosines(*given, PAIR, "squared_norms")[:, 0] == pytest.approx([24 / 625, -1 / 25, 0, 0])
    assert cosines(*together(vector(0, 0), *others), PAIR, "flat").tolist() == [[0]] * 4


def test_groups_follow_the_tensors_wherever_their_values_lie_in_a_row() -> None:
    assert not groups(LAYOUT, "flat").any()
    by_tensor = groups(LAYOUT, "per_tensor")
    assert [int(by_tensor[entry.offset]) for entry in LAYOUT.parameters] == list(range(6))
    assert np.bincount(by_tensor).tolist() == [entry.size for entry in LAYOUT.parameters]
    # conv [3, 2, 2, 2] has 8 slices of 3, each vector is one, linear [4, 3] has 3 slices of 4.
    assert np.bincount(groups(LAYOUT, "per_slice")).tolist() == [3] * 8 + [3, 3, 3] + [4] * 3 + [4]


@pytest.mark.parametrize("form", FORMS)
def test_cosines_agree_with_torch(form: Any) -> None:
    models = drawn(3)
    found = cosines(models.parameters, 0, np.array([1, 2]), LAYOUT, form)
    for row in (1, 2):
        a, b = models.parameters[0].double(), models.parameters[row].double()
        if form == "flat":
            wanted = [torch.cosine_similarity(a, b, dim=0)]
        elif form == "squared_norms":
            wanted = [a @ b / (a @ a) / (b @ b)]
        elif form == "per_tensor":
            wanted = [
                torch.cosine_similarity(x.reshape(-1), y.reshape(-1), dim=0)
                for x, y in zip(tensors(models, 0), tensors(models, row), strict=True)
            ]
        else:
            wanted = [
                torch.cosine_similarity(x, y, dim=0).reshape(-1)
                for x, y in zip(tensors(models, 0), tensors(models, row), strict=True)
            ]
        np.testing.assert_allclose(found[row - 1], torch.cat([w.reshape(-1) for w in wanted]), rtol=1e-12)


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=6), st.data())
def test_softmax_counts_equal_models_as_one(values: list[float], data: Any) -> None:
    counts = data.draw(st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values)))
    found = softmax(np.array(values)[:, None], np.array(counts))[:, 0]
    single = [math.exp(v - max(values)) for v, n in zip(values, counts, strict=True) for _ in range(n)]
    ends = np.cumsum([0, *counts])
    wanted = [sum(single[a:b]) / sum(single) for a, b in itertools.pairwise(ends)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_the_sign_decides_whom_attention_favours() -> None:
    given = together(vector(1, 0), vector(2, 0), vector(0, 1))
    printed = attention(*given, PAIR, "flat", -math.log(2))
    assert printed.buffers == pytest.approx([1 / 3, 2 / 3])
    assert printed.parameters[:, 0] == pytest.approx([1 / 3, 2 / 3])
    assert attention(*given, PAIR, "flat", math.log(2)).buffers == pytest.approx([2 / 3, 1 / 3])
    assert attention(*given, PAIR, "flat", 0.0).buffers.tolist() == [0.5, 0.5]


def test_weights_are_nearly_uniform_at_the_paper_s_sigma() -> None:
    """Models in training are much alike: with cosines from 0.98 to 1 and sigma 0.1, weights differ by 0.2%."""
    weights = softmax(np.array([[-0.098], [-0.1]]), np.ones(2))[:, 0]
    assert abs(weights[0] / weights[1] - 1) < 0.0021


@pytest.mark.parametrize("form", FORMS)
def test_averages_agree_with_a_slow_version(form: Any) -> None:
    models, rows = drawn(5), np.array([4, 1, 2])
    weights = attention(models.parameters, 0, rows, LAYOUT, form, -3.0)
    parameters, buffers = average(models, rows, weights, form)
    group = groups(LAYOUT, form)
    wanted = sum(
        weights.parameters[k][group] * models.parameters[r].double().numpy() for k, r in enumerate(rows)
    )
    np.testing.assert_allclose(parameters, wanted, rtol=1e-6)
    wanted = sum(weights.buffers[k] * models.buffers[r].double().numpy() for k, r in enumerate(rows))
    np.testing.assert_allclose(buffers, wanted, rtol=1e-6)
    if form in ("per_tensor", "per_slice"):
        assert np.ptp(weights.parameters, axis=1).min() > 0, "weights do not vary"
        flat = attention(models.parameters, 0, rows, LAYOUT, "flat", -3.0)
        assert (weights.buffers == flat.buffers).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [1, 2, 3, 7, 10])
def test_averages_of_equal_models_are_those_models(form: Any, number: int) -> None:
    models = drawn(1).rows(torch.zeros(number, dtype=torch.int64))
    rows = np.arange(number)
    for weights in (
        attention(models.parameters, 0, rows, LAYOUT, form, -0.1),
        AveragingWeights.by(np.arange(number) + 1),
    ):
        parameters, buffers = average(models, rows, weights, form)
        assert torch.equal(parameters, models.parameters[0])
        assert torch.equal(buffers, models.buffers[0])
