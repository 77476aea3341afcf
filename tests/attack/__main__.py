"""Attack every reader of fedroam: `python -m attack --cases 50000`, with tests/ on PYTHONPATH (see `make attack`).

Prints a table of targets with cases, those refused with one line, those accepted, and findings: an exception that is
not fedroam's own, more than ten seconds, more than 2 GiB, an error that is not one printable line, a number that is
another and nobody says so. The exit code is 1 where there is a finding. One case again, with its traceback:

    python -m attack --target "csv data" --seed 0 --case 17 --keep case.csv
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from attack.campaign import alike, content, outcome, tallies
from attack.targets import TARGETS


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m attack", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000, help="in all, spread over the targets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument(
        "--target", action="append", choices=sorted(TARGETS), help="only this one; may be repeated"
    )
    parser.add_argument("--case", type=int, help="only this case of the target, here and with its traceback")
    parser.add_argument("--keep", type=Path, help="with --case: write what the reader was given to this file")
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    if options.case is not None:
        return _one(names[0], options.seed, options.case, options.keep)
    begin = time.perf_counter()
    each = -(-options.cases // len(names))
    found = tallies(names, each, options.seed, options.workers)
    wide = max(map(len, names))
    print(f"{'target':<{wide}} {'cases':>7} {'refused':>8} {'accepted':>9} {'findings':>9}")
    for name, tally in found.items():
        print(
            f"{name:<{wide}} {tally.cases:>7} {tally.refused:>8} {tally.accepted:>9} {len(tally.findings):>9}"
        )
    findings = [finding for tally in found.values() for finding in tally.findings]
    for count, finding in alike(findings):
        print(f"{count:>5} x {finding}")
    cases = sum(tally.cases for tally in found.values())
    print(f"{cases} cases, {len(findings)} findings, {time.perf_counter() - begin:.0f} s")
    return 1 if findings else 0


def _one(name: str, seed: int, case: int, keep: Path | None) -> int:
    if keep is not None:
        keep.write_bytes(content(name, seed, case))
    with tempfile.TemporaryDirectory() as folder:
        what, line, seen = outcome(name, seed, case, Path(folder))
    print(f"{what} {line} {seen}")
    if what != "finding":
        return 0
    with tempfile.TemporaryDirectory() as folder:
        TARGETS[name].enter(Path(folder), content(name, seed, case))
    return 1


if __name__ == "__main__":
    sys.exit(main())
