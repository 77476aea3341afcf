"""fedroam side by side with others on the same work, each a process of its own; what they took is kept in a record.

    python benchmarks/peers/environments.py            # once: an environment for each peer, in .venv-peers
    python benchmarks/peers/measure.py --check         # do all compute the same? One round each, no times
    python benchmarks/peers/measure.py --budget 25     # times; what does not fit in waits for the next call
    python benchmarks/peers/measure.py --show          # the record as tables
    python benchmarks/peers/page.py                    # tables and figures of docs/performance.md

A, D and E are FedAvg on MNIST with those networks of `fedroam bench`, a step's batch and the number of clients as there
(E: 200, which is what Flower plays in some seconds a round); A-gossip and E-gossip the same with neighbours on a fixed
graph; S is a schedule of transfers in which nobody learns. All have the same samples, start model and
batches in the same rounds (`work.py`), the same learning rate, and are tested after each round.

A measurement is a command of 20 rounds. Peers take turns; five times, those of A, D and E first. It is kept as soon as
it is done, and not made again; the record has a part for each kind of vectors that a processor has (`AVX2`, `AVX512`),
and with `--only AVX2` one of a processor that has more, which all are told to leave alone. Nothing else should run
meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from environments import DEFAULT, python
from interface import Heard, Work
from ours import PACKAGES, recorded, words
from watch import Taken, take
from work import WORKLOADS, tiny, write

from fedroam.native import KEPT_TO
from fedroam.recording.environment import environment
from fedroam.writing import write_text

HERE = Path(__file__).parent
RECORD = HERE.parents[1] / "docs" / "records" / "peers.json"
ROUNDS, REPEATS, LIMIT = 20, 5, 1800.0  # LIMIT: s of a command
# How far models may be apart after a round, as a share of how far it took them (2-norm). Roundings alone are some 1e-7;
# but where one sample lies beside a kink (a tie in a pool, a zero of a ReLU), they turn a part of its gradient, and a
# client of 48 that is seldom one step behind is 1e-2.
CLOSE = 5e-3
NEAR = 1e-4  # how far a parameter may be apart, where a record was kept without that share


@dataclass(frozen=True)
class Peer:
    """Who does the work. script: its file. environment: None for that of fedroam itself. prior: s of a command, until
    there is a measurement."""

    about: str
    script: str
    environment: str | None
    kinds: tuple[str, ...]
    prior: float


PEERS = {
    "fedroam": Peer("fedroam", "ours.py", None, ("fedavg", "gossip", "schedule"), 30.0),
    "flower": Peer("Flower, simulation", "flower.py", "flower", ("fedavg",), 90.0),
    "loop": Peer("plain loop as in PFLlib", "loop.py", "plain", ("fedavg",), 60.0),
    "bare": Peer("the same without DataLoader", "loop_without_loader.py", "plain", ("fedavg",), 60.0),
    "blazefl": Peer("BlazeFL, threads", "blaze.py", "blazefl", ("fedavg",), 60.0),
    "neighbours": Peer(
        "plain loop as in decentralizepy", "loop_of_neighbours.py", "plain", ("gossip",), 60.0
    ),
    "simpy": Peer("SimPy, event queue", "events.py", "simpy", ("schedule",), 60.0),
}
FIRST = (("A", "D", "E"), ("fedroam", "flower", "loop"))  # what is measured first, three times


def order(repeats: int) -> Iterator[tuple[int, str, str]]:
    """Repeat, workload and peer of every measurement, in order."""
    first = [(w, p) for w in FIRST[0] for p in FIRST[1]]
    # Others with fedroam's turn beside theirs, so that they are neighbours in time.
    later = [
        (w, p) for w, each in WORKLOADS.items() for p, peer in PEERS.items() if each.kind in peer.kinds
        if (w, p) not in first
    ]  # fmt: skip
    early = min(3, repeats)
    yield from ((r, *which) for r in range(early) for which in first)
    yield from ((0, *which) for which in later if repeats)
    yield from ((r, *which) for r in range(early, repeats) for which in first)
    yield from ((r, *which) for r in range(1, repeats) for which in later)


def apart(theirs: np.ndarray, ours: np.ndarray, start: np.ndarray) -> dict[str, float]:
    """How far models are from ours (both [models, parameters]): the largest difference, and the distance as a share of
    ours from the start model."""
    if theirs.shape != ours.shape:
        return {"apart": float("inf"), "share": float("inf")}
    away, way = (np.linalg.norm(each.astype(np.float64)) for each in (theirs - ours, ours - start))
    return {"apart": float(np.abs(theirs - ours).max()), "share": float(away / way) if away else 0.0}


def same(check: dict[str, Any]) -> bool:
    """Whether what is kept of a check says that a peer computes what fedroam does."""
    return bool(check["share"] <= CLOSE if "share" in check else check["apart"] <= NEAR)


class Bench:
    """The record of a processor of this kind, and what is needed to add to it."""

    def __init__(
        self, record: Path, folder: Path, environments: Path, rounds: int, small: bool, only: str = ""
    ) -> None:
        """only: the kind of vectors that all are to keep to, of `KEPT_TO`; else they are as wide as they can be."""
        self.path, self.folder, self.environments = record, folder, environments
        self.rounds, self.small, self.only = rounds, small, only
        self.kinds: dict[str, Any] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
        nothing = {"machine": {}, "last": "", "works": {}, "versions": {}, "checks": {}, "runs": {}}
        self.part = f"{only}-only" if only else kind()
        self.record: dict[str, Any] = self.kinds.setdefault(self.part, nothing)

    def interpreter(self, name: str) -> Path | None:
        """Who runs a peer; None where its environment is missing."""
        environment = PEERS[name].environment
        return Path(sys.executable) if environment is None else python(self.environments, environment)

    def work(self, name: str) -> Path:
        """The folder of a workload, written if it is not there."""
        folder = self.folder / f"{name}-{self.rounds}{'-small' if self.small else ''}"
        if not (folder / "facts.json").exists():
            workload = WORKLOADS[name]
            write(name, tiny(workload) if self.small else workload, self.rounds, folder)
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        if facts["data"].endswith("digits.npz") and not self.small:
            raise SystemExit(
                f"{folder}: its samples are scikit-learn's digits, since MNIST was not found: set FEDROAM_DATA, and "
                "delete that folder (with --small digits will do)"
            )
        known = self.record["works"].get(name)
        if known and known["sha256"] != facts["sha256"]:
            raise SystemExit(
                f"{self.path}: its measurements of {name} are of other work (data, rounds or settings were others); "
                f"choose another --record, or delete its part {self.part}"
            )
        self.record["works"][name] = facts
        return folder

    def play(self, workload: str, name: str, rounds: int) -> tuple[Taken, dict[str, Any], np.ndarray | None]:
        """A command of a peer: what it took, told, and ended with. Raises SystemExit where it fails."""
        peer, folder, interpreter = PEERS[name], self.work(workload), self.interpreter(name)
        assert interpreter is not None
        work = Work(folder.resolve())
        own = name == "fedroam" and work.kind != "schedule"  # a command of fedroam itself
        with tempfile.TemporaryDirectory() as place:
            home = Path(place)
            out = home / "result.json"
            script = [str(HERE / peer.script), str(work.folder), "--rounds", str(rounds), "--out", str(out)]
            command = ["-m", "fedroam", *words(work, rounds, home)] if own else script
            took = take(
                [str(interpreter), *command], surroundings(peer, home, self.only), home / "log", LIMIT
            )
            if took.code or not (own or out.exists()):
                raise SystemExit(f"{workload}, {name}: ended with code {took.code}\n{took.words}")
            if own:
                heard = Heard()
                models = recorded(work, home, heard.tell)
                return took, heard.result(rounds, PACKAGES), models
            told, kept = json.loads(out.read_text(encoding="utf-8")), out.with_suffix(".npy")
            return took, told, np.load(kept) if kept.exists() else None

    def keep(self) -> None:
        """Write the record."""
        self.record |= {"machine": machine(self.only), "last": date.today().isoformat()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, json.dumps(self.kinds, indent=1) + "\n")

    def check(self, workloads: Iterable[str], peers: Iterable[str]) -> int:
        """Play one round of each, and hold models, or what got through, against fedroam's; 1 where any differ."""
        failed = 0
        for w in workloads:
            ours: tuple[list[float], np.ndarray | None] | None = None
            self.work(w)
            those = [
                p for p in PEERS if WORKLOADS[w].kind in PEERS[p].kinds and (p in peers or p == "fedroam")
            ]
            if all(self._checked(w, p) for p in those):
                continue
            for p in filter(partial(self._there, w), those):
                _, told, models = self.play(w, p, 1)
                ours = ours or (told["values"], models)
                values, own = ours
                if models is None or own is None:
                    found = apart(np.array(told["values"]), np.array(values), np.zeros(1))
                else:
                    found = apart(models, own, Work(self.work(w)).start)
                self.record["versions"][p] = told["versions"]
                self.record["checks"][f"{w} {p}"] = {
                    "sha256": self.record["works"][w]["sha256"], **found, "values": told["values"]
                }  # fmt: skip
                self.keep()
                failed += not same(found)
                print(
                    f"{w}, {p}: {found['apart']:.1e} apart after a round, {found['share']:.1e} of its way"
                    f"{'' if same(found) else ': NOT THE SAME'}",
                    flush=True,
                )
        return int(failed > 0)

    def measure(self, workloads: list[str], peers: list[str], repeats: int, budget: float) -> int:
        """Play what is not in the record yet, as long as it is expected to end within `budget` (s); 1 where any failed.

        Raises SystemExit where the record is of another machine.
        """
        if self.record["runs"] and self.record["machine"] != machine(self.only):
            raise SystemExit(
                f"{self.path}: {self.part} was measured on another machine; choose another --record, or delete it"
            )
        begun, left, failed = time.monotonic(), 0, 0
        for r, w, p in order(repeats):
            key = f"{w} {p} {self.rounds} {r}"
            if w not in workloads or p not in peers or key in self.record["runs"] or not self._there(w, p):
                continue
            if time.monotonic() - begun + self._expected(w, p) > budget:
                left += 1
                continue
            load = os.getloadavg()[0]
            try:
                took, told, _ = self.play(w, p, self.rounds)
            except SystemExit as error:
                failed += 1
                print(f"failed: {error}", flush=True)
                continue
            rounds = np.diff(told["at"]).tolist()
            self.record["versions"][p] = told["versions"]
            self.record["runs"][key] = {
                "workload": w, "peer": p, "rounds": self.rounds, "repeat": r, "command_s": took.seconds,
                "rounds_s": rounds, "cpu_s": took.cpu, "peak_bytes": took.memory, "processes": took.processes,
                "value": told["values"][-1], "load_before": load,
            }  # fmt: skip
            self.keep()
            told_of = f"{took.seconds:.1f} s, {middle(rounds):.3f} s a round"
            print(f"{key}: {told_of} (load before: {load:.1f})", flush=True)
        if left:
            print(f"{left} measurements did not fit: the same call goes on with them")
        return int(failed > 0)

    def _checked(self, workload: str, name: str) -> bool:
        kept = self.record["checks"].get(f"{workload} {name}", {})
        return kept.get("sha256") == self.record["works"][workload]["sha256"] and same(kept)

    def _there(self, workload: str, name: str) -> bool:
        if self.interpreter(name) is None:
            print(f"{workload}, {name}: left out, its environment is missing: environments.py makes it")
            return False
        return True

    def _expected(self, workload: str, name: str) -> float:
        runs = [
            run for run in self.record["runs"].values() if (run["workload"], run["peer"]) == (workload, name)
        ]
        return max((run["command_s"] for run in runs), default=PEERS[name].prior)


def middle(rounds: list[float]) -> float:
    """Median seconds of a round, the first left out."""
    return statistics.median(rounds[1:] or rounds)


def surroundings(peer: Peer, home: Path, only: str = "") -> dict[str, str]:
    """The environment variables of a command: nothing that ties threads or vectors down, but to those of kind `only`,
    and nobody is told of it."""
    tied = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "FEDROAM_NATIVE"}
    tied |= {name for names in KEPT_TO.values() for name in names}
    found = {key: value for key, value in os.environ.items() if key not in tied} | KEPT_TO.get(only, {})
    if peer.environment is not None:
        found.pop("PYTHONPATH", None)
    quiet = {
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "FLWR_HOME": str(home / "flwr"),
        "RAY_TMPDIR": str(home),
    }
    return found | quiet | {"PYTHONDONTWRITEBYTECODE": ""}


def kind() -> str:
    """The vectors of this processor, as torch calls them."""
    import torch

    return torch.backends.cpu.get_cpu_capability()


def machine(only: str = "") -> dict[str, Any]:
    """What all of it ran on, and the kind of vectors that all kept to."""
    told = environment()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": told.get("processor", platform.processor()),
        "instructions": f"{only}; {kind()} switched off" if only else kind(),
        "cores": cores,
        "memory_gib": round(memory, 1),
        "system": platform.system(),
    }


@dataclass(frozen=True)
class Row:
    """A peer's measurements of a workload. Each list has a value for each repeat."""

    workload: str
    peer: str
    round_s: list[float]
    first_s: list[float]
    command_s: list[float]
    cpu_s: list[float]
    peak: list[float]
    value: float


def rows(record: dict[str, Any], workload: str) -> list[Row]:
    """The rows of a workload's table, in the order of PEERS."""
    found = []
    for name in PEERS:
        runs = [run for run in record["runs"].values() if (run["workload"], run["peer"]) == (workload, name)]
        if runs:
            columns = {
                "round_s": [middle(run["rounds_s"]) for run in runs],
                "first_s": [run["rounds_s"][0] for run in runs],
                "command_s": [run["command_s"] for run in runs],
                "cpu_s": [run["cpu_s"] for run in runs],
                "peak": [run["peak_bytes"] / 2**30 for run in runs],
            }
            found.append(Row(workload, name, **columns, value=runs[-1]["value"]))
    return found


def times(theirs: list[float], ours: list[float]) -> str:
    """How many times fedroam's, by medians."""
    ratio = statistics.median(theirs) / statistics.median(ours)
    return f"{ratio:.1f}" if ratio >= 1 else f"**{ratio:.2g}**"


def spread(values: list[float], form: str) -> str:
    """The median, and from where to where the repeats go."""
    told = format(statistics.median(values), form)
    return (
        told if len(values) == 1 else f"{told} ({format(min(values), form)} to {format(max(values), form)})"
    )


def table(record: dict[str, Any]) -> str:
    """The record of a processor as Markdown: a table for each kind of work."""
    heads = {
        "fedavg": "accuracy at the end",
        "gossip": "accuracy at the end",
        "schedule": "transfers through, last round",
    }
    parts = []
    for kind, last in heads.items():
        lines = [
            f"| | peer | runs | seconds a round | times fedroam's | first round | whole command | times fedroam's | "
            f"processor time | peak memory | {last} | apart after a round |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for workload in (name for name, each in WORKLOADS.items() if each.kind == kind):
            found = rows(record, workload)
            ours = next((row for row in found if row.peer == "fedroam"), None)
            for row in found if ours else []:
                assert ours is not None
                check = record["checks"].get(f"{workload} {row.peer}")
                apart = "" if check is None or row.peer == "fedroam" else f"{check['apart']:.0e}"
                value = f"{row.value:,.0f}" if kind == "schedule" else f"{100 * row.value:.1f} %"
                same = row.peer == "fedroam"
                lines.append(
                    f"| {workload} | {PEERS[row.peer].about} | {len(row.round_s)} | {spread(row.round_s, '.3f')} | "
                    f"{'' if same else times(row.round_s, ours.round_s)} | {statistics.median(row.first_s):.2f} s | "
                    f"{spread(row.command_s, '.1f')} s | {'' if same else times(row.command_s, ours.command_s)} | "
                    f"{statistics.median(row.cpu_s):.0f} s | {statistics.median(row.peak):.2f} GiB | {value} | "
                    f"{apart} |"
                )
        if len(lines) > 2:
            parts.append("\n".join(lines))
    told = record["machine"]
    versions = {name: value for each in record["versions"].values() for name, value in each.items()}
    named = ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
    cores = f"{told['cores']} cores of {told['processor']} ({told['instructions']})" if told else ""
    return "\n\n".join([*(parts or ["No times are kept yet."]), f"On {cores}, {record['last']}; {named}."])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", nargs="*", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of a command (20)")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="commands of each (5)")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="MINUTES", help="for this call")
    parser.add_argument("--environments", type=Path, default=DEFAULT, help="where environments.py made them")
    parser.add_argument("--folder", type=Path, default=Path("runs/peers"), help="where the work is written")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--small", action="store_true", help="few clients and steps: to try whether it runs")
    parser.add_argument("--only", choices=list(KEPT_TO), default="", help="no wider vectors than these")
    parser.add_argument("--check", action="store_true", help="one round each: do all compute the same?")
    parser.add_argument("--show", action="store_true", help="only print the record")
    given = parser.parse_args()
    bench = Bench(given.record, given.folder, given.environments, given.rounds, given.small, given.only)
    if given.check:
        return bench.check(given.workloads, given.peers)
    code = 0
    if not given.show:
        code = bench.measure(given.workloads, given.peers, given.repeats, 60 * given.budget)
    print(table(bench.record))
    return code


if __name__ == "__main__":
    sys.exit(main())
