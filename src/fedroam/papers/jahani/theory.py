"""Lemma 1, Corollary 1, Lemma 3 and Theorem 1 of Jahani et al. as items: what was measured beside what bounds it.

The theory is of convex learning by plain gradient descent, so these runs are of softmax regression on digits, with the
paper's network, movement and mixing. A measure that needs every round's models replays the run without recording it
(`analysis.connectivity.measure_run`); what the contacts tell is read from the run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedroam.experiment import Experiment
from fedroam.papers.jahani.runs import RUNS
from fedroam.papers.steered_variants import LABELS, PATTERNS, ClientGrid
from fedroam.recording import Run
from fedroam.study.claims import Claim, Test, all_of, order, over
from fedroam.study.findings import Finding
from fedroam.study.items import table
from fedroam.study.measures import column, smallest_b
from fedroam.study.values import Measure, Reader, Several, Value

if TYPE_CHECKING:
    from fedroam.analysis.connectivity.trajectory import Trajectory

# eta is below 1 / (2 L), where Theorem 1 holds, for L up to 12; here L is 7 to 9. Weight decay makes f strongly convex,
# so that it has a minimiser.
CONVEX = ClientGrid(
    "convex",
    18,
    20,
    {
        "rounds": 120,
        "evaluate_every": 1,
        "data": {"kind": "digits"},
        "model": "softmax_regression",
        "training": {"lr": 0.04, "momentum": 0.0, "weight_decay": 5e-4},
    },
)


def common_p(run: Run) -> float:
    """The mixing parameter p of all rounds: the smallest `1 - lambda_2(W^T W)`; 0 if a round is disconnected."""
    from fedroam.analysis.connectivity.contact_statistics import recorded
    from fedroam.analysis.connectivity.spectral import mixing_parameters

    return float(mixing_parameters(recorded(run).weights or ()).min())


def product_norm(run: Run) -> float:
    """The largest `||P - J||_F^2` of the product P of the mixing matrices of a window of B rounds (the whole run
    where there is no B).
    """
    from fedroam.analysis.connectivity.contact_statistics import recorded
    from fedroam.analysis.connectivity.spectral import window_distances

    contacts = recorded(run)
    weights = contacts.weights or ()
    return float(window_distances(weights, contacts.smallest_window().length or len(weights)).max())


def corollary_bound(run: Run) -> float:
    """Corollary 1's bound on `product_norm`: `C^2 N^2 lambda^(2 B)`; infinite without a B, where it says nothing."""
    from fedroam.analysis.connectivity.bounds import corollary_1

    b = smallest_b.number(run)
    return math.inf if math.isinf(b) else corollary_1(int(run.settings["clients"]), int(b))


def replayed(run: Run) -> dict[str, float]:
    """What only the models of every round tell, and the bounds made of it.

    consensus: the largest bound on the consensus distance by Lemma 1, measured products and gradients; lemma_3:
    Lemma 3's bound on it, infinite where p is 0; gap: the mean over the run of f(mean model) - inf f; gap_products:
    its bound by Theorem 1's proof, with the measured products in the place of Lemma 3; theorem_1: by Theorem 1,
    infinite where p is 0.
    """
    trajectory, apart = _replayed(run), common_p(run) == 0
    return {
        "consensus": float(trajectory.tight_consensus.max()),
        "lemma_3": math.inf if apart else trajectory.consensus_bound(),
        "gap": float(trajectory.gap[-1]),
        "gap_products": float(trajectory.tight_gap[-1]),
        "theorem_1": math.inf if apart else float(trajectory.gap_bound()[-1]),
    }


def _replayed(run: Run) -> Trajectory:
    from fedroam.analysis.connectivity.measure import measure_run

    return measure_run(Experiment(**run.settings))


lowest_p = Measure("mixing parameter p of all rounds", "", common_p, digits=3)
product = Measure("largest ‖P − J‖² of the product of B rounds", "", product_norm, digits=2)
corollary = Measure("its bound by Corollary 1", "", corollary_bound, digits=0)
# `||X - Xbar||_F^2`; every round is evaluated.
consensus = Measure(
    "largest consensus distance", "", lambda run: float(column(run, "consensus_distance").max()), digits=2
)
_REPLAY = Several(replayed)
consensus_lemma_1 = _REPLAY.pick("consensus", "its bound by Lemma 1 and measured products", "")
consensus_lemma_3 = _REPLAY.pick("lemma_3", "its bound by Lemma 3", "")
gap = _REPLAY.pick("gap", "mean of f(mean model) − f*", "", digits=2)
gap_products = _REPLAY.pick("gap_products", "its bound by measured products", "", digits=2)
gap_theorem = _REPLAY.pick("theorem_1", "its bound by Theorem 1", "", digits=2)

_STEERING = ("random", "dam", "dcm")


def _of(measure: Measure, pattern: str) -> Value:
    return RUNS.of(measure, pattern, network=CONVEX)


def _bounded(bound: Measure, measured: Measure) -> Test:
    """What was measured is below its bound, with each pattern that moves."""
    return all_of(over(_of(bound, pattern) - _of(measured, pattern)) for pattern in _STEERING)


TABLE = table(
    "theory",
    "Lemma 1, Corollary 1, Lemma 3 and Theorem 1 beside what was measured",
    {LABELS[pattern]: pattern for pattern in PATTERNS},
    {
        "Smallest B": smallest_b,
        "p of all rounds": lowest_p,
        "‖P − J‖², largest": product,
        "Corollary 1": corollary,
        "Consensus distance, largest": consensus,
        "by Lemma 1, measured products": consensus_lemma_1,
        "Lemma 3": consensus_lemma_3,
        "Mean error": gap,
        "by measured products": gap_products,
        "Theorem 1": gap_theorem,
    },
    lambda pattern, measure: _of(measure, pattern),
    source="Sec. III",
    caption="Softmax regression on digits by full-batch gradient descent, 5 mobile, η = 0.04 below 1 / (2 L), 120 "
    "rounds. J = 11ᵀ/N. A bound that is ∞ says nothing: Lemma 3 and Theorem 1 need one p > 0 for every round, and p is "
    "0 where a round is disconnected; Corollary 1 is above N − 1 = 19, which no such product exceeds. The paper prints "
    "no numbers.",
)
CLAIMS = (
    Claim(
        "corollary-1-bounds",
        "Corollary 1: the product of the mixing matrices of B rounds is as near to full averaging as its bound says.",
        _bounded(corollary, product),
        "Corollary 1",
        paper="Corollary 1: ‖product − 11ᵀ/N‖² ≤ C² N² λ^(2B), with C = 4 and λ = (1 − 1/N^(NB))^(1/B)",
        caveat="With so many clients the bound is some 16 N², which no product of such matrices can come near: that it "
        "holds checks our reckoning, and tells nothing of learning.",
    ),
    Claim(
        "lemma-1-bounds",
        "Lemma 1: the consensus distance is below what the matrices and gradients of the rounds before make of it.",
        _bounded(consensus_lemma_1, consensus),
        "Lemma 1; the step to a bound is ours",
        paper="Lemma 1, Eq. 5: an identity of models, mixing matrices and gradients, without numbers",
        caveat="It is proved: that it holds checks the proof's premises in our runs, and is no finding.",
    ),
    Claim(
        "products-bound-the-error",
        "Theorem 1 with measured products in the place of Lemma 3 bounds the error (its own bound is infinite where "
        "any round is disconnected).",
        _bounded(gap_products, gap),
        "Theorem 1; the measured products are ours",
        paper="Theorem 1, Eqs. 7 and 8: a formula, without numbers",
        caveat="It is proved: that it holds checks the proof's premises in our runs, and is no finding.",
    ),
    Claim(
        "smaller-b-lower-bound",
        "Where everybody is linked sooner (DCM, then DAM, then random movement), the bound on the error is lower.",
        all_of(
            order(_of(gap_products, slow), _of(gap_products, fast))
            for slow, fast in (("random", "dam"), ("dam", "dcm"))
        ),
        'Sec. V-B4: "faster satisfaction of strong connectivity (i.e., smaller B) leads to a lower error bound"',
        paper='Sec. V-B4, in words only: "leads to a lower error bound"',
    ),
)


def findings(read: Reader) -> list[Finding]:
    """Which bounds are finite, and how far above the measurement they are."""
    told = []
    for pattern in PATTERNS:
        p, b = (list(read(_of(measure, pattern)).values()) for measure in (lowest_p, smallest_b))
        if not p:
            continue
        apart = sum(one == 0 for one in p)
        linked = [one for one in b if math.isfinite(one)]
        words = (
            f"{LABELS[pattern]}: in {apart} of {len(p)} worlds some round is disconnected, so that p = 0 and Lemma 3 "
            "and Theorem 1 are infinite"
        )
        words += f"; B exists in {len(linked)} of {len(b)}"
        norms, bounds = (read(_of(measure, pattern)).values() for measure in (product, corollary))
        times = [bound / norm for norm, bound in zip(norms, bounds, strict=True) if math.isfinite(bound)]
        if times:
            words += (
                f", and there Corollary 1 is {min(times):,.0f} to {max(times):,.0f} times the measured norm"
            )
        told.append(f"{words}.")
    return [Finding("What the bounds of the theory say", tuple(told))] if told else []
