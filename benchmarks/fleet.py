"""36 devices, 20 access points and a cloud on one machine: memory, time, and whether it is the simulation.

    python benchmarks/fleet.py --record docs/records/fleet.json          # 50 rounds, one hidden layer of 32
    python benchmarks/fleet.py --model conv5 --rounds 5 --record docs/records/fleet-conv5.json   # that of Farcas et al.

36 devices, 20 access points, MNIST dealt IID, one local epoch and k2 = 5 are those of the prototype of Farcas et al.
(Sec. 4.4, Table 10), for MOHAWK; 100 images a device, the network and random walks are not. Then the same is simulated
and held against it. Memory is the proportional set size of all processes together, looked at every 20 seconds; time
depends on what else runs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fedroam.analysis.agreement import agreement
from fedroam.deploy.emulation import emulate
from fedroam.experiment import Experiment
from fedroam.runner import run


def prototype(model: str, rounds: int, devices: int, access_points: int) -> Experiment:
    """The experiment."""
    return Experiment(
        name="fleet",
        clients=devices,
        rounds=rounds,
        evaluate_every=5,
        data={"kind": "mnist"},
        partition={
            "kind": "client_dirichlet",
            "alpha": 100.0,
            "samples_per_client": 100,
            "sharing": "replacement",
        },
        model={"kind": "conv5"} if model == "conv5" else {"kind": "mlp", "hidden": [32]},
        training={"kind": "sgd", "lr": 0.01, "batch_size": 8, "epochs": 1},
        mobility={"kind": "random", "grid": 20, "mobile": devices},
        access_points={"kind": "uniform", "number": access_points},
        federation={"kind": "mohawk", "k2": 5},
    )


def main() -> int:
    """Emulate, simulate, compare; 1 where the two differ."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--model", choices=("mlp", "conv5"), default="mlp")
    reader.add_argument("--rounds", type=int, default=50)
    reader.add_argument("--devices", type=int, default=36)
    reader.add_argument("--access-points", type=int, default=20)
    reader.add_argument("--record", type=Path)
    given = reader.parse_args()
    experiment = prototype(given.model, given.rounds, given.devices, given.access_points)
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as home:
        began = time.monotonic()
        network = emulate(experiment, Path(home) / "network", tell=lines.append, status=lambda line: None)
        took = time.monotonic() - began
        compared = agreement(network, run(experiment, Path(home) / "simulated"))
        accuracy = float(network.rounds["accuracy"].iloc[-1])
        sent = int(network.rounds["bytes"].iloc[-1])
    memory = next(found for line in lines if (found := re.match(r"(\d+) processes, ([\d.]+) GiB", line)))
    found: dict[str, Any] = {
        "devices": given.devices,
        "access_points": given.access_points,
        "model": given.model,
        "rounds": given.rounds,
        "processes": int(memory[1]),
        "gib": float(memory[2]),
        "seconds": round(took, 1),
        "accuracy": accuracy,
        "bytes": sent,
        "told": [line for line in lines if "processes" not in line],
        "agreement": {
            each.what: {"values": each.values, "difference": each.difference, "identical": each.identical}
            for each in compared
        },
    }
    print(json.dumps(found, indent=2))
    if given.record:
        given.record.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0 if all(each.agrees for each in compared) else 1


if __name__ == "__main__":
    sys.exit(main())
