"""What Reza et al. claim of their experiments, each as a test over seeds."""

from __future__ import annotations

import math

from fedroam.papers.reza import runs
from fedroam.papers.reza.runs import RUNS
from fedroam.papers.steered_variants import FEW, MOVING, STATIC, STEERED, about
from fedroam.study.claims import Claim, Test, each_over, equal, order, rises
from fedroam.study.measures import final, later_half
from fedroam.study.values import Settings, Value, average


def ahead(first: str, second: str, panels: dict[str, Settings] = runs.PANELS) -> Test:
    """One pattern ahead of another over the later half of the run, averaged over panels (default: of figure 2)."""
    return order(*(average(RUNS.of(later_half, p, **s) for s in panels.values()) for p in (first, second)))


def both_limits(alpha: float) -> list[Value]:
    """Gains of DAM and of DCM, each averaged over both Rm."""
    return [average(RUNS.gain(p, alpha=alpha, step=step) for step in runs.LIMITS) for p in STEERED]


def of_three(key: str, value: float) -> Value:
    """Final accuracy with 3 mobile clients and one setting, averaged over the patterns that move."""
    return average(RUNS.of(final, p, **{**runs.THREE, key: value}) for p in MOVING)


def limited(step: float) -> Value:
    """Accuracy over the later half at one Rm, averaged over the patterns that move and both alphas."""
    return average(RUNS.of(later_half, p, alpha=alpha, step=step) for p in MOVING for alpha in runs.GAINS)


def limit_name(step: float) -> str:
    """How the paper calls a finite and an infinite Rm."""
    return "unconstrained" if math.isinf(step) else "constrained"


# The words in which the paper prints its gains over random movement.
PRINTED_GAINS = {
    0.05: '"approximately 8% in both constrained and unconstrained movements"',
    0.1: '"Similarly, ... 3% accuracy improvement over the baseline"',
}
_BOTH = {
    0.05: 'Sec. V-B: on average approximately, "in both constrained and unconstrained movements"',
    0.1: 'Sec. V-B, which says "in both constrained and unconstrained movements" of α = 0.05, and "similarly" of 0.1',
}
PRINTED_OF_BOTH = "; ".join(f"{words} (α = {alpha:g})" for alpha, words in PRINTED_GAINS.items())
PRINTED_LARGE = 'DCM "approximately 5% and 4% higher accuracy", unconstrained and constrained'
PRINTED_CIFAR = {
    math.inf: '"approximately 5% and 8% higher accuracy"',
    5.0: '"around 4% and 5% higher accuracy"',
}

CLAIMS = (
    Claim(
        "random-beats-static",
        "Clients that move, even at random, are ahead of static ones.",
        ahead("random", STATIC),
        "Sec. V-B, Fig. 2",
        paper='Sec. V-B, in words only: "significantly higher accuracy"',
    ),
    Claim(
        "dam-beats-random",
        "DAM is ahead of random movement.",
        ahead("dam", "random"),
        "Sec. V-B, Fig. 2",
        paper=f"Sec. V-B, of DAM and DCM: {PRINTED_OF_BOTH}",
    ),
    Claim(
        "dcm-beats-random",
        "DCM is ahead of random movement.",
        ahead("dcm", "random"),
        "Sec. V-B, Fig. 2",
        paper=f"Sec. V-B, of DAM and DCM: {PRINTED_OF_BOTH}",
    ),
    Claim(
        "dcm-beats-dam",
        "DCM outperforms DAM.",
        ahead("dcm", "dam"),
        "Sec. V-B",
        paper='Sec. V-B, in words only: "the proposed DCM outperforms DAM"',
    ),
    *(
        Claim(
            f"gain-alpha-{alpha:g}".replace(".", "_"),
            f"At α = {alpha:g}, DAM and DCM are about {points:g} points above random movement, on average over finite "
            "and infinite Rm.",
            about((value, points) for value in both_limits(alpha)),
            "Sec. V-B",
            paper=f"Sec. V-B: {PRINTED_GAINS[alpha]}",
        )
        for alpha, points in runs.GAINS.items()
    ),
    *(
        Claim(
            f"gain-alpha-{alpha:g}-{limit_name(step)}".replace(".", "_"),
            f"At α = {alpha:g} that is so in {limit_name(step)} movement, too: DAM and DCM are about {points:g} points "
            "above random movement.",
            about((RUNS.gain(p, alpha=alpha, step=step), points) for p in STEERED),
            _BOTH[alpha],
            paper=f"Sec. V-B: {PRINTED_GAINS[alpha]}",
        )
        for alpha, points in runs.GAINS.items()
        for step in runs.LIMITS
    ),
    Claim(
        "unconstrained-is-better",
        "Unconstrained movement converges better than constrained movement.",
        order(limited(math.inf), limited(5.0)),
        "Sec. V-B",
        paper='Sec. V-B, in words only: "better convergence compared to their constrained counterparts"',
    ),
    Claim(
        "more-mobile-is-better",
        "The more clients move, the higher the accuracy (mean of random, DAM and DCM).",
        rises({m: average(RUNS.of(final, p, mobile=m) for p in MOVING) for m in FEW["mobile"]}),
        "Sec. V-B1",
        paper='Sec. V-B1 and Fig. 3a, in words only: it "enhances overall model performance"',
    ),
    Claim(
        "gain-over-numbers",
        "Over the numbers of mobile clients, DAM gains 5.3 points on average and DCM 7.",
        about(
            (average(RUNS.gain(p, mobile=m) for m in FEW["mobile"]), g) for p, g in runs.MOBILE_GAINS.items()
        ),
        "Sec. V-B1",
        paper='Sec. V-B1: DCM and DAM "on average, 7% and 5.3%"',
    ),
    Claim(
        "steering-wins-whatever-the-number",
        "DAM and DCM consistently outperform random movement, whatever the number of mobile clients.",
        each_over(RUNS.gain(p, mobile=m) for p in STEERED for m in FEW["mobile"]),
        "Sec. V-B1",
        paper='Sec. V-B1: they "consistently outperform"; DCM and DAM "on average, 7% and 5.3%"',
    ),
    Claim(
        "larger-radius-is-better",
        "The larger the communication radius, the higher the accuracy (mean of random, DAM and DCM).",
        rises({radius: of_three("radius", radius) for radius in FEW["radius"]}),
        "Sec. V-B2",
        paper='Sec. V-B2 and Fig. 3b, in words only: "higher accuracy is obtained"',
    ),
    Claim(
        "gain-sparse",
        "At Rc = 1, DAM and DCM are about 15 points above random movement.",
        about((RUNS.gain(p, radius=1.0, **runs.THREE), runs.SPARSE_GAIN) for p in STEERED),
        "Sec. V-B2",
        paper='Sec. V-B2: "around 15% higher accuracy"',
    ),
    Claim(
        "farther-is-better",
        "With Rm = 5 accuracy is higher than with Rm = 1 (mean of random, DAM and DCM).",
        order(of_three("step", 5.0), of_three("step", 1.0)),
        "Sec. V-B3",
        paper='Sec. V-B3 and Fig. 3c, in words only: "accuracy improves with the increase of" Rm',
    ),
    Claim(
        "saturates",
        "Accuracy approaches that of unconstrained clients: at Rm = 12 it is within 2 points of it.",
        equal(of_three("step", 12.0), of_three("step", math.inf), margin=2.0),
        "Sec. V-B3; 12 and the margin are ours",
        paper='Sec. V-B3 and Fig. 3c, in words only: it "gradually approaches the performance" without constraints',
    ),
    Claim(
        "steering-wins-large",
        "With 50 clients on 35 x 35, DAM and DCM outperform random movement, unconstrained and constrained.",
        each_over(
            RUNS.gain(p, measure=later_half, **panel) for p in STEERED for panel in runs.LARGE_PANELS.values()
        ),
        "Sec. V-B4",
        paper=f"Sec. V-B4: {PRINTED_LARGE}; of DAM in words only",
    ),
    *(
        Claim(
            f"gain-large-{limit_name(step)}",
            f"With 50 clients on 35 x 35, DCM is about {points:g} points above random movement, {limit_name(step)}.",
            about([(RUNS.gain("dcm", network=runs.LARGE, radius=5.0, step=step), points)]),
            "Sec. V-B4",
            paper=f"Sec. V-B4: {PRINTED_LARGE}",
        )
        for step, points in runs.LARGE_GAINS.items()
    ),
    Claim(
        "random-beats-static-cifar",
        "On CIFAR-10, too, clients that move are ahead of static ones.",
        ahead("random", STATIC, runs.CIFAR_PANELS),
        "Sec. V-B5",
        paper='Sec. V-B5 and Fig. 5, in words only: mobility "significantly enhances convergence"',
    ),
    *(
        Claim(
            f"gain-cifar-{limit_name(step)}",
            f"On CIFAR-10, DAM and DCM are about {runs.CIFAR_GAINS[step, 'dam']:g} and "
            f"{runs.CIFAR_GAINS[step, 'dcm']:g} points above random movement, {limit_name(step)}.",
            about(
                (RUNS.gain(p, network=runs.CIFAR, alpha=0.1, step=step), runs.CIFAR_GAINS[step, p])
                for p in STEERED
            ),
            "Sec. V-B5",
            paper=f"Sec. V-B5: DAM and DCM {PRINTED_CIFAR[step]}",
        )
        for step in runs.LIMITS
    ),
)
