"""Let faults loose between and in the nodes of small sites: `python -m chaos --faults 1000`, with tests/ on PYTHONPATH.

Nodes are processes of their own, with links between that fail: they are killed and come back or not, cut off, damaged,
slowed down and stalled, send again what they have sent, and what is wrong; strangers come with every certificate that
is good for nothing. After each run its states and tables are held, array for array, against those of the simulated run
in which exactly the affected updates did not arrive.

Prints how many of each kind struck, and findings: an update that is lost without a reason or arrives in spite of one,
a run that is another or does not end, a stranger who is heard, handles, threads or memory that stay. The exit code is 1
where there is a finding. One run again: `python -m chaos --seed 1 --run 17`.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from attack.__main__ import add_record
from chaos.play import play

SETTLED = 3  # runs after which libraries have what they keep
ENDING = 10.0  # seconds that threads and handles have to end
GROWTH = 64 * 2**20  # bytes that a campaign may grow by


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--faults", type=int, default=200, help="that strike, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", type=int, help="only this run of the campaign")
    parser.add_argument("--record", type=Path, help="add a line of JSON with the figures to this file")
    options = parser.parse_args()
    os.fsync = lambda handle: None  # type: ignore[assignment]
    begin, kinds, findings, late = time.perf_counter(), Counter[str](), [""][:0], 0
    number, first = options.run or 0, held()
    while sum(kinds.values()) < options.faults:
        with tempfile.TemporaryDirectory(prefix="fedroam-chaos-") as folder:
            found = play(options.seed, number, Path(folder))
        kinds += found.kinds
        findings += found.findings
        late += found.late
        print(f"run {number}: {len(found.faults)} faults, {len(found.findings)} findings", flush=True)
        number += 1
        if number == SETTLED:
            first = held()
        if options.run is not None or any("does not end" in what for what in findings):
            break
    now = held(first)
    if options.run is None and number > SETTLED:
        findings += leaks(first, now)
    for what in findings:
        print(f"finding: {what}")
    for kind, count in sorted(kinds.items()):
        print(f"{kind:<12} {count:>6}")
    print(
        f"{sum(kinds.values())} faults in {number} runs, {len(findings)} findings, {late} updates late in rounds of "
        f"short limits; handles {first[0]} to {now[0]}, threads {first[1]} to {now[1]}, "
        f"memory {(now[2] - first[2]) / 2**20:+.1f} MiB; {time.perf_counter() - begin:.0f} s"
    )
    if options.record is not None:
        line: dict[str, object] = {
            "what": "chaos",
            "seed": options.seed,
            "all": sum(kinds.values()),
            "findings": len(findings),
            "kinds": dict(sorted(kinds.items())),
            "runs": number,
            "handles": [first[0], now[0]],
            "memory": [first[2], now[2]],
        }
        add_record(options.record, line)
    return 1 if findings else 0


def held(first: tuple[int, int, int] | None = None) -> tuple[int, int, int]:
    """Handles, threads and bytes of memory of this process now; first: what it held once.

    What has grown since may be about to end, as threads of gRPC are whose calls were cancelled: it has `ENDING` for it.
    """
    end = time.monotonic() + ENDING
    while True:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        handles, threads = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
        now = handles, threads, pages * resource.getpagesize()
        if first is None or not leaks(first, (handles, threads, first[2])) or time.monotonic() > end:
            return now
        time.sleep(0.05)


def leaks(first: tuple[int, int, int], now: tuple[int, int, int]) -> list[str]:
    """What has grown and should not have."""
    found = []
    if now[0] > first[0] + 4:
        found.append(f"{now[0] - first[0]} handles stay open")
    if now[1] > first[1]:
        found.append(f"{now[1] - first[1]} threads stay")
    if now[2] > first[2] + GROWTH:
        found.append(f"memory has grown by {(now[2] - first[2]) / 2**20:.0f} MiB")
    return found


if __name__ == "__main__":
    sys.exit(main())
