"""The test suite beside busy processes, as on a machine that others use too: it must pass all the same.

    .venv/bin/python benchmarks/suite_under_load.py                        # make test, beside 8 busy processes
    .venv/bin/python benchmarks/suite_under_load.py --busy 16 -- -k sweep  # more of them, and options for pytest

Exit code: that of the tests.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Ends by itself when the process that started it is gone, even if that was killed.
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(100_000))"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--busy", type=int, default=8, help="busy processes (default 8)")
    parser.add_argument("pytest", nargs="*", help="options for pytest, after --")
    options = parser.parse_args()
    tests = ["make", "test", f"PYTEST={shlex.join(options.pytest)}"]
    busy: list[subprocess.Popen[bytes]] = []
    begin = time.monotonic()
    try:
        for _ in range(options.busy):
            busy.append(subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]))
        code = subprocess.call(tests, cwd=ROOT)
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()
    took, result = time.monotonic() - begin, "passed" if code == 0 else f"failed (exit code {code})"
    print(f"beside {options.busy} busy processes: {result} after {took / 60:.1f} minutes")
    return code


if __name__ == "__main__":
    sys.exit(main())
