"""Attack every reader of fedroam: `python -m attack --cases 50000`, with tests/ on PYTHONPATH (see `make attack`).

With `--flips 1000`, one bit is flipped instead, so many times in each kind of file of a run's and a sweep's folder:
`fedroam verify` must tell, and whoever goes on must refuse or end in the same numbers. A campaign is played in parts by
other `--seed`s; `--record FILE` adds a line of JSON with what each came to.

Prints a table of targets with cases, those refused with one line, those accepted, and findings: an exception that is
not fedroam's own, more than ten seconds, more than 2 GiB, an error that is not one printable line, a number that is
another and nobody says so. The exit code is 1 where there is a finding. One case again, with its traceback:

    python -m attack --target "csv data" --seed 0 --case 17 --keep case.csv
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from attack.campaign import alike, content, named, outcome, tallies
from attack.flips import FLIPS
from attack.targets import TARGETS
from fedroam.recording import environment


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m attack", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000, help="in all, spread over the targets")
    parser.add_argument("--flips", type=int, help="instead of cases: flipped bits of each kind of file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument(
        "--target", action="append", choices=sorted(TARGETS | FLIPS), help="only this one; may be repeated"
    )
    parser.add_argument("--case", type=int, help="only this case of the target, here and with its traceback")
    parser.add_argument("--keep", type=Path, help="with --case: write what the reader was given to this file")
    parser.add_argument("--record", type=Path, help="add a line of JSON with the figures to this file")
    options = parser.parse_args()
    names = options.target or list(TARGETS if options.flips is None else FLIPS)
    if options.case is not None:
        return _one(names[0], options.seed, options.case, options.keep)
    begin = time.perf_counter()
    each = -(-options.cases // len(names)) if options.flips is None else options.flips
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
    cases, took = sum(tally.cases for tally in found.values()), time.perf_counter() - begin
    what = "cases" if options.flips is None else "flips"
    print(f"{cases} {what}, {len(findings)} findings, {took:.0f} s")
    if options.record is not None:
        counts = {name: [tally.cases, tally.refused, len(tally.findings)] for name, tally in found.items()}
        line = {
            "what": what,
            "seed": options.seed,
            "all": cases,
            "findings": len(findings),
            "targets": counts,
        }
        add_record(options.record, line)
    return 1 if findings else 0


def add_record(path: Path, line: dict[str, object]) -> None:
    """Add a line of JSON to a record, with the day and the versions."""
    ran = environment()
    line |= {"date": f"{datetime.now(UTC):%Y-%m-%d}", "python": ran["python"], "packages": ran["packages"]}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _one(name: str, seed: int, case: int, keep: Path | None) -> int:
    if keep is not None:
        keep.write_bytes(content(name, seed, case))
    with tempfile.TemporaryDirectory() as folder:
        what, line, seen = outcome(name, seed, case, Path(folder))
    print(f"{what} {line} {seen}")
    if what != "finding":
        return 0
    with tempfile.TemporaryDirectory() as folder:
        named(name).enter(Path(folder), content(name, seed, case))
    return 1


if __name__ == "__main__":
    sys.exit(main())
