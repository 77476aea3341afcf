"""What a run ran on."""

from __future__ import annotations

import functools
import os
import platform
import sys
from importlib import metadata
from typing import Any

PACKAGES = ("fedroam", "torch", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "safetensors")


def environment() -> dict[str, Any]:
    """Versions and machine, as JSON values."""
    return {
        "python": sys.version.split()[0],
        "packages": {package: _version(package) for package in PACKAGES},
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


@functools.cache  # what is installed is looked for in many files: once for all runs of a process
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """The processor's name where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 (not a user's path)
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
