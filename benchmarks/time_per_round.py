"""How long the rounds of a paced network take beside those that the simulation reckons, for six kinds of federation.

    python benchmarks/time_per_round.py --record docs/records/time-per-round.json          # ten minutes
    python benchmarks/time_per_round.py --netns --record docs/records/time-per-round.json  # as root: the kernel's links

Twelve rounds of the experiment on the page "Learn over a network": two classes of devices, one half as fast as the
other, that train for some seconds, links of a tenth of that, and a round that ends when everybody is done. A round of
the network is longer by messages, checks and aggregation, and by whatever else this machine does: run it alone.
The exit code is 1 where anything but the time differs in a bit, or a round is further off than a tenth.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from fedroam.analysis.agreement import agreement, round_times
from fedroam.deploy.emulation import emulate
from fedroam.experiment import Experiment
from fedroam.runner import run

HIERARCHICAL = {"access_points": {"kind": "uniform", "number": 2}}
KINDS: dict[str, dict[str, Any]] = {
    "mohawk": {**HIERARCHICAL, "federation": {"kind": "mohawk", "k2": 2}},
    "hierfavg": {**HIERARCHICAL, "federation": {"kind": "hierfavg", "k2": 2}},
    "macfl": {**HIERARCHICAL, "federation": {"kind": "macfl", "k2": 2}},
    "fedavg": {"federation": {"kind": "fedavg"}},
    "mocfl": {"federation": {"kind": "mocfl"}, "validation_share": 0.2},
    "gossip": {"federation": {"kind": "decentralized"}, "mixing": {"kind": "metropolis"}},
}
NAMES = {
    "mohawk": "MOHAWK",
    "hierfavg": "HierFAVG",
    "macfl": "MACFL",
    "fedavg": "FedAvg",
    "mocfl": "MoCFL",
    "gossip": "gossip, Metropolis-Hastings weights",
}


def timed(kind: str, rounds: int, times: int = 1) -> Experiment:
    """The experiment of the page with another federation; one by contacts has Metropolis-Hastings weights. times: as
    wide is its hidden layer, and as fast are links and devices: everything takes as long."""
    return Experiment(
        name="timed",
        clients=4,
        rounds=rounds,
        evaluate_every=1,
        data={"kind": "digits", "test_share": 0.5},
        model={"kind": "mlp", "hidden": [32 * times]},
        mobility={"kind": "random", "mobile": 4},
        clock={"kind": "seconds", "length": 0.5, "wait": "all"},
        link={"kind": "fixed", "throughput": 0.2 * times},
        compute={"kind": "flops", "speeds": [2e-3 * times, 1e-3 * times]},
        **KINDS[kind],
    )


def measured(kind: str, rounds: int, times: int, apart: bool) -> dict[str, Any]:
    """Seconds on average, those of each round on the network and simulated, and what else agrees."""
    experiment = timed(kind, rounds, times)
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as home:
        network = emulate(
            experiment,
            Path(home) / "network",
            paced=True,
            netns=apart,
            tell=lines.append,
            status=lambda line: None,
        )
        simulated = run(experiment, Path(home) / "simulated")
        took = round_times(network, simulated)
        compared = agreement(network, simulated)
    assert took is not None  # it was paced by a clock
    return {
        "seconds": {name: round(float(value), 3) for name, value in took.mean().items()},
        "network": [round(float(value), 3) for value in took["network"]],
        "simulated": [round(float(value), 3) for value in took["simulated"]],
        "told": [line for line in lines if "processes" not in line],
        "agreement": {
            each.what: {"values": each.values, "difference": each.difference, "identical": each.identical}
            for each in compared
        },
    }


def table(record: dict[str, Any]) -> str:
    """A record as the documentation's table: seconds of a round, mean, and how far the furthest one is off."""
    lines = [
        "| | simulated | network | furthest round | with `--netns` | furthest round |",
        "|---|---|---|---|---|---|",
    ]
    for kind, name in NAMES.items():
        plain, apart = (record[how][kind] for how in ("paced", "netns"))
        cells = [f"{plain['seconds']['simulated']:.2f} s"]
        for found in (plain, apart):
            off = found["agreement"]["time per round"]["difference"]
            cells += [f"{found['seconds']['network']:.2f} s", f"{off:.1%}".replace("%", " %")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Play, simulate and compare each; 1 where any differs, or a round is further off than a tenth."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    reader.add_argument("--rounds", type=int, default=12)
    reader.add_argument(
        "--times", type=int, default=1, help="a network so many times as wide, and all as fast"
    )
    reader.add_argument("--netns", action="store_true", help="nodes in network namespaces: needs root")
    reader.add_argument("--record", type=Path)
    given = reader.parse_args()
    how = ("netns" if given.netns else "paced") + (f" x {given.times}" if given.times > 1 else "")
    agree = True
    for kind in given.kinds:
        found = measured(kind, given.rounds, given.times, given.netns)
        agree &= all(
            one["difference"] <= 0.1 if what == "time per round" else one["identical"]
            for what, one in found["agreement"].items()
        )
        apart = found["agreement"]["time per round"]["difference"]
        means = found["seconds"]
        print(
            f"{how} {kind}: a round {means['network']:.2f} s, simulated {means['simulated']:.2f} s, none further off "
            f"than {apart:.1%}",
            flush=True,
        )
        if given.record:
            kept = json.loads(given.record.read_text(encoding="utf-8")) if given.record.exists() else {}
            kept.setdefault(how, {})[kind] = found
            given.record.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
