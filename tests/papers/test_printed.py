"""What a claim's card says that its paper prints: some of each study, held against the papers' text by hand."""

from __future__ import annotations

import pytest

from fedroam.papers import studies

PAPERS = ("heredia", "reza", "jahani", "mocfl", "mohawk")
BY_HAND = {
    ("heredia", "more-is-better"): (
        "Table 1: +2.73 points (p = 5 %), +4.64 (20 %), +6.51 (40 %), +6.71 (60 %), +8.56 (80 %), +8.97 (100 %)"
    ),
    ("heredia", "most-up-to-20-percent"): (
        "Table 1: +4.64 points (p = 20 %); by its differences 1.87 more up to 40 %, 0.20 up to 60 %, 1.85 up to 80 %, "
        "0.41 up to 100 %"
    ),
    ("heredia", "fast-ones-ahead"): (
        "Table 2: +4.81 points (p = 5 %), +4.13 (20 %), +2.53 (40 %), +2.04 (60 %), +0.90 (80 %); their mean +2.88"
    ),
    ("heredia", "naive-weights-lose"): (
        "Table 4, of alpha = 1 minus plain averaging: −2.28 points (p = 0 %), −4.20 (5 %), −5.11 (20 %), −4.51 (40 %), "
        "−2.03 (60 %), −1.20 (80 %), −0.56 (100 %); their mean −2.84 (here: the loss, so with the opposite sign)"
    ),
    ("heredia", "small-alpha-narrows-the-gap"): (
        "Table 3: +3.16 points (p = 5 %), +3.17 (20 %); with plain averaging +4.81 points (p = 5 %), +4.13 (20 %)"
    ),
    ("heredia", "every-alpha-narrows-the-gap"): (
        "Table 3, p = 5 and 20 %: +4.81 and +4.13 points with plain averaging, +4.66 and +3.79 (alpha = 0.1), +3.35 "
        "and +3.70 (alpha = 0.2), +4.26 and +3.92 (alpha = 0.3), +3.16 and +3.17 (alpha = 0.4), +3.76 and +3.45 "
        "(alpha = 1.0)"
    ),
    ("heredia", "iid-weights-change-nothing"): (
        "Table 8, minus plain averaging: +0.12 points (p = 5 %), −1.02 (20 %), −0.14 (40 %), −0.13 (60 %), −0.01 "
        "(80 %); their mean −0.24"
    ),
    ("heredia", "iid-gains-less"): "Tables 1 and 5, from p = 0 to 100 %: +8.97 points, with IID data +2.11",
    ("reza", "gain-over-numbers"): 'Sec. V-B1: DCM and DAM "on average, 7% and 5.3%"',
    ("reza", "gain-sparse"): 'Sec. V-B2: "around 15% higher accuracy"',
    ("reza", "gain-cifar-constrained"): 'Sec. V-B5: DAM and DCM "around 4% and 5% higher accuracy"',
    ("jahani", "random-beats-static"): (
        'Sec. V-B1: "significantly improves accuracy"; Table II, 3 mobile: 72.90 % against 47.50 % (α = 0.05), 86.90 % '
        "against 66.84 % (α = 0.1)"
    ),
    ("jahani", "random-drops-more"): (
        'Sec. V-B3: "19.34% and 14.00% drops" against "under 10%"; by Table II DAM 8.66 and DCM 8.82 points'
    ),
    ("jahani", "gain-sparse"): 'Sec. V-B4: "up to 20% higher accuracy than random mobility"',
    ("mocfl", "first-10"): "Table 1: 0.8990 against 0.8447 of FedGH, the best of the others",
    ("mocfl", "first-50"): "Table 1: 0.8645 against 0.8238 of FedGH, the best of the others",
    ("mocfl", "personalised-ahead"): (
        "Table 1, NC = 10: 0.7764 to 0.8990 against 0.7333 to 0.7387; Table 1, NC = 50: 0.6963 to 0.8645 against "
        "0.6722 to 0.6781"
    ),
    ("mocfl", "slight-increase-in-time"): (
        "Table 2, NC = 10: 327.61 s against 186.16 s of FedAvg and 215.97 s of FedProx, so 1.76 and 1.52 times; Table "
        "2, NC = 50: 1247.55 s against 812.41 s of FedAvg and 774.79 s of FedProx, so 1.54 and 1.61 times; "
        '"only a slight increase in runtime"'
    ),
    ("mohawk", "fewer-rounds-mnist"): (
        "Table 4, k2 = 2, 5, 10: IID 12, 20, 30 rounds against 46, 50, 70 (HierFAVG) and 42, 45, 50 (MACFL); non-IID "
        "40, 75, 110 rounds against 162, 185, 210 (HierFAVG) and 142, 165, 180 (MACFL)"
    ),
    ("mohawk", "times-fewer-cifar10-iid"): "Table 4: 3.88 times, 212 and 192 rounds against 52",
    ("mohawk", "lead-shrinks-cifar10-non-iid"): "Table 4, k2 = 2, 5, 10: 2.85, 1.99, 1.58 times",
    ("mohawk", "never-behind-mnist"): (
        "Table 3, at the least: 99.13 % against 99.16 % (MACFL, IID, k2 = 10), so −0.03 points"
    ),
    ("mohawk", "less-energy-cifar10"): (
        "Table 6, k2 = 2, 5, 10: IID 655.16, 1,250.28, 1,881.72 J against 2,659.61, 3,606.83, 2,764.25 (HierFAVG) and "
        "2,416.3, 2,629.54, 2,629.54 (MACFL); non-IID 1,704.53, 2,974.56, 4,143.05 J against 4,461.25, 6,242.22, "
        "6,629.33 (HierFAVG) and 5,325.98, 5,665.64, 6,356.33 (MACFL)"
    ),
    ("mohawk", "non-iid-costs-less-cifar10"): (
        "Sec. 4.2: 4.77% against 7.89% (HierFAVG) and 7.73% (MACFL); Table 3, by its differences: +4.60 points against "
        "+5.56 (HierFAVG) and +7.57 (MACFL)"
    ),
    ("mohawk", "baselines-not-robust-cifar10-non-iid"): (
        "Table 9: HierFAVG from 62.23 to 45.22 %, so 17.01 points; MACFL from 65.26 to 45.5 %, so 19.76 points"
    ),
    ("mohawk", "batch-8-best-cifar10"): (
        "Table 7, batches of 64, 32, 16, 8: IID 50.67, 64.93, 68.88, 60.7 %; non-IID 44.55, 47.95, 52.13, 55.88 %"
    ),
    ("mohawk", "k1-saturates-cifar10"): (
        "Table 8, means of its rows: 48.34 % (k1 = 1), 63.80 % (k1 = 5), 69.57 % (k1 = 10)"
    ),
    ("mohawk", "includes-more"): (
        'Table 5, k2 = 2, 5, 10: 18, 22, 26 devices against 15, 15, 15; "up to 39.78% more devices"'
    ),
    ("mohawk", "shorter-distance"): (
        "Table 5: 0.91 ± 0.75 km against 7.08 ± 3.92 (HierFAVG) and 7.01 ± 3.83 (MACFL), 7.74 times"
    ),
}


@pytest.mark.parametrize(("study", "claim"), BY_HAND, ids=":".join)
def test_a_card_has_what_the_paper_prints(study: str, claim: str) -> None:
    (found,) = (each for each in studies()[study].claims if each.name == claim)
    assert found.paper == BY_HAND[study, claim]


@pytest.mark.parametrize("study", PAPERS)
def test_every_claim_of_a_paper_has_it_and_none_of_our_own(study: str) -> None:
    for claim in studies()[study].claims:
        ours = claim.source.startswith("not in the paper") or claim.source.endswith("; not in the paper")
        assert bool(claim.paper) != ours, claim.name


def test_a_paper_whose_table_is_of_other_data_is_not_said_to_print_ours() -> None:
    for claim in studies()["mohawk"].claims:
        if "not in the paper on MNIST" in claim.source:
            assert claim.paper.endswith("(on CIFAR-10; it has no such table of MNIST)")
