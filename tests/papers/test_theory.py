"""The theory of Jahani et al. as items of its study: each number against the formula, from the run itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fedroam.analysis.connectivity.contact_statistics import recorded
from fedroam.experiment import Experiment
from fedroam.papers.jahani import theory
from fedroam.papers.jahani.study import STUDY
from fedroam.recording import Run
from fedroam.runner import run
from fedroam.study.measures import smallest_b
from fedroam.study.values import Reader


def made(folder: Path, radius: float) -> Run:
    """A run of the study, cut down: four clients near each other for four rounds."""
    settings = STUDY.experiment("convex,random,m=5,Rc=3,Rm=5,a=0.05", "quick").settings()
    settings |= {"clients": 4, "rounds": 4}
    settings["mobility"] |= {"grid": 4, "mobile": 3}
    settings["contacts"]["radius"] = radius
    settings["data"]["test_share"] = 0.9
    settings["partition"]["alpha"] = 1.0
    return run(Experiment(**settings), folder)


@pytest.mark.parametrize("radius", [2.0, 9.0])
def test_each_bound_is_its_formula(radius: float, tmp_path: Path) -> None:
    found = made(tmp_path / "run", radius)
    matrices = [one.toarray() for one in recorded(found).weights or ()]
    second = [np.sort(np.linalg.eigvalsh(one.T @ one))[-2] for one in matrices]
    p = 1 - max(second)
    assert theory.lowest_p.number(found) == pytest.approx(p, abs=1e-9)
    b = smallest_b.number(found)
    length = len(matrices) if math.isinf(b) else int(b)
    norms = []
    for begin in range(0, len(matrices) - length + 1, length):
        product = np.eye(4)
        for one in matrices[begin : begin + length]:
            product = one @ product
        norms.append(np.sum((product - 0.25) ** 2))
    assert theory.product.number(found) == pytest.approx(max(norms))
    bound = theory.corollary.number(found)
    if math.isinf(b):
        assert math.isinf(bound)
    else:  # C^2 N^2 (1 - 1 / N^(N B))^2
        assert bound == pytest.approx(16 * 16 * (1 - 4.0 ** -(4 * b)) ** 2)
        assert max(norms) < bound
    if p > 1e-9:
        trajectory = theory._replayed(found)
        head = (1 + 2 / p) * (2 / p) * 0.04**2 * trajectory.tau.sum()
        assert theory.consensus_lemma_3.number(found) == pytest.approx(
            head * ((1 - p) / p + 16 * 16 * (1 - 4.0**-4) ** 2)
        )
        assert math.isfinite(theory.gap_theorem.number(found))
    else:
        assert math.isinf(theory.consensus_lemma_3.number(found))
        assert math.isinf(theory.gap_theorem.number(found))
    assert theory.consensus.number(found) <= theory.consensus_lemma_1.number(found) * (1 + 1e-4) + 1e-9
    assert 0 < theory.gap.number(found) < theory.gap_products.number(found)


def test_findings_tell_which_bounds_are_infinite() -> None:
    numbers = {
        theory.lowest_p.name: {0: 0.0, 1: 0.0},
        smallest_b.name: {0: math.inf, 1: 12.0},
        theory.product.name: {0: 6.0, 1: 2.0},
        theory.corollary.name: {0: math.inf, 1: 6400.0},
    }

    def read(value: Any) -> dict[int, float]:
        (term,) = value.terms
        return numbers[term.measure.name] if "dcm" in term.variant else {}

    (finding,) = theory.findings(cast(Reader, read))
    assert finding.sentences == (
        "DCM: in 2 of 2 worlds some round is disconnected, so that p = 0 and Lemma 3 and Theorem 1 are infinite; B "
        "exists in 1 of 2, and there Corollary 1 is 3,200 to 3,200 times the measured norm.",
    )
    assert theory.findings(cast(Reader, lambda value: {})) == []


def test_the_theory_is_of_every_scale() -> None:
    for scale in STUDY.scales:
        assert STUDY.can(STUDY.item("theory"), scale)
        one = STUDY.experiment("convex,dcm,m=5,Rc=3,Rm=5,a=0.05", scale).settings()
        assert (one["model"]["kind"], one["rounds"], one["evaluate_every"]) == ("softmax_regression", 120, 1)
        assert one["training"] | {"lr": 0.04, "momentum": 0.0, "batch_size": 0} == one["training"]
        assert (one["mixing"]["kind"], one["federation"]["order"]) == ("metropolis", "mix_then_move")
