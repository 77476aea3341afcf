"""Headless Chromium: how pages are opened in it, and what is skipped where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.waiting import HANGS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)
needs_chromium = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs headless Chromium (apt install chromium)"),
]


def browse(url: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Open a page with further flags; profile and home of the browser are in `folder`."""
    return subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder / 'profile'}", *more, url],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=True,
        env={**os.environ, "HOME": str(folder)},
    )
