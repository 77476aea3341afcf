"""A kernel of its own for what this machine's kernel lacks: commands run in it, or a line says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def in_uml(out: Path, *words: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/in_uml.py", "--out", str(out), *words]
    env = {**os.environ, "PATH": path}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    done = in_uml(tmp_path, "true", path="/nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("not on this machine: apt install user-mode-linux")


def _within() -> bool:
    """Whether this is such a kernel already, in which another does not boot."""
    told = Path("/proc/cpuinfo")
    return told.exists() and "User Mode Linux" in told.read_text(encoding="utf-8")


@pytest.mark.skipif(_within(), reason="this is user-mode Linux already")
@pytest.mark.skipif(
    shutil.which("linux.uml") is None, reason="no user-mode Linux (Debian's package user-mode-linux)"
)
def test_a_command_has_netem_and_shares_of_a_core_and_changes_nothing_else(tmp_path: Path) -> None:
    script = (
        "tc qdisc add dev lo root netem delay 1ms && cat /sys/fs/cgroup/cgroup.controllers && echo kept > $OUT/kept\n"
        f"touch {tmp_path}/changed || exit 7"
    )
    done = in_uml(tmp_path / "out", "sh", "-c", script)
    assert done.returncode == 7, done.stderr
    assert "cpu" in done.stdout.split()
    assert (tmp_path / "out" / "kept").read_text() == "kept\n"
    assert not (tmp_path / "changed").exists()
