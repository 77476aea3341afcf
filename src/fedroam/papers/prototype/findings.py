"""What the prototype's runs say beyond its claims: whether a network is its simulation."""

from __future__ import annotations

from collections.abc import Sequence

from fedroam.papers.prototype.measures import COMPARED, LIMIT, TIMES, difference, identical
from fedroam.papers.prototype.runs import DATA, METHODS, played
from fedroam.study.findings import Finding, listed
from fedroam.study.values import Measure, Reader


def _numbers(read: Reader, measure: Measure) -> list[float]:
    """A measure of every run on a network that there is."""
    return [
        number
        for data in DATA
        for method in METHODS
        for number in read(measure.of(played(data, method, "network"))).values()
    ]


def describe(read: Reader) -> Sequence[Finding]:
    """What runs on the network came to, beside their simulations; nothing where there are none."""
    same = {what: _numbers(read, identical(what)) for what in COMPARED}
    runs = len(same[COMPARED[0]])
    if not runs:
        return ()
    bits = [what for what, shares in same.items() if all(share == 100.0 for share in shares)]
    sentences = [
        f"{runs} {'run was' if runs == 1 else 'runs were'} played by nodes, and simulated with the same seed, "
        f"movement, radio and devices. The same bits in each: {listed(bits) if bits else 'nothing'}."
    ]
    for what in COMPARED:
        if what not in bits:
            most = max(_numbers(read, difference(what)))
            sentences.append(
                f"{what}: the same bits in {sum(share == 100.0 for share in same[what])} of {runs}, elsewhere "
                f"{most:.3g} millionths apart at most."
            )
    network, simulated = (_numbers(read, measure) for measure in list(TIMES.values())[:2])
    if all(simulated):
        shares = [100 * (a / b - 1) for a, b in zip(network, simulated, strict=True)]
        sentences.append(
            f"Averaged over a run, a round took {min(shares):+.1f} to {max(shares):+.1f} % of the simulated time "
            f"longer on the network (simulated {min(simulated):.1f} to {max(simulated):.1f} s)."
        )
    sentences.append(f"Allowed are {LIMIT:g} millionths of models and what is measured of them.")
    return (Finding("Is the network its simulation?", tuple(sentences)),)
