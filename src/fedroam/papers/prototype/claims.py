"""What Table 10 of Farcas et al. says of energy, and what was expected of an emulated site, each as a test."""

from __future__ import annotations

from fedroam.papers.mohawk.measures import consumed_all, wasted_all
from fedroam.papers.prototype.measures import of_both, off
from fedroam.papers.prototype.runs import DATA, METHODS, played
from fedroam.study.claims import Claim, all_of, ratio, under

# Improvement of what is wasted, and of what is consumed.
PRINTED = {"mnist": (2.56, 1.37), "cifar10": (2.47, 1.1)}
CLAIMS = tuple(
    claim
    for data, (label, k1) in DATA.items()
    for claim in (
        Claim(
            f"less-wasted-{data}",
            f"MOHAWK wastes less energy than HierFAVG ({label}, IID, k1 = {k1}, k2 = 5; printed {PRINTED[data][0]} "
            "times).",
            ratio(*of_both(wasted_all, data)),
            "Table 10",
        ),
        Claim(
            f"less-consumed-{data}",
            f"MOHAWK consumes less energy than HierFAVG over the experiment ({label}; printed "
            f"{PRINTED[data][1]} times).",
            ratio(*of_both(consumed_all, data)),
            "Table 10",
        ),
        Claim(
            f"time-as-simulated-{data}",
            f"The round on the network that is furthest from the simulated one is less than a tenth longer, or shorter "
            f"(mean over seeds; {label}).",
            all_of(under(off.of(played(data, method, "network")), 10.0) for method in METHODS),
            "expected by us",
        ),
    )
)
