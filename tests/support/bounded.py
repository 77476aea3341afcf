"""Code in a process of its own that may take so much processor time and memory, and no more."""

from __future__ import annotations

import resource
import subprocess
import sys

SECONDS = 20  # of the processor, however busy the machine is; importing takes about two
MEMORY = 3 << 30  # bytes of private memory


def bounded(code: str, *arguments: str) -> str:
    """What the code prints. Fails where it raises, or takes more than `SECONDS` or `MEMORY`."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout
