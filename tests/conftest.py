"""What all tests share: one thread, compiled kernels, no flaky examples, and real data only where it is."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from fedroam.learning.cpu.kernels import target

settings.register_profile("fedroam", deadline=None, derandomize=True, max_examples=40, print_blob=True)
settings.load_profile("fedroam")
HELD_BACK = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
torch.set_num_threads(1)  # tests run in parallel processes; tests of threads set their own number


def pytest_configure(config: pytest.Config) -> None:
    """Compiled kernels are kept for all workers of this session, and for what they start, but for no other."""
    if not hasattr(config, "workerinput"):
        folder = os.environ["FEDROAM_KERNEL_CACHE"] = tempfile.mkdtemp(prefix="fedroam-kernels-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = os.environ.get("FEDROAM_DATA", "")
    if root and Path(root).is_dir():
        return
    reason = f"FEDROAM_DATA = {root}: no such folder" if root else "needs real data: set FEDROAM_DATA"
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the numbers were computed with: what passes with one instruction set may fail with another."""
    terminalreporter.section("instruction sets")
    terminalreporter.write_line(instruction_sets())


def instruction_sets() -> str:
    """Those of torch, of its libraries where they are held back, and of our own kernels."""
    here = target()
    kernels = "none" if here is None else f"{here.lanes} lanes on {here.name}"
    held_back = [f"{name}={os.environ[name]}" for name in HELD_BACK if name in os.environ]
    return ", ".join([f"torch {torch.backends.cpu.get_cpu_capability()}", *held_back, f"kernels: {kernels}"])


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for the disk, where a test writes many small files and no power will fail."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
