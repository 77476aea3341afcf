"""A site on this machine: every node a process of its own, over loopback, from one command."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedroam.components import build
from fedroam.deploy.metering.readings import FOLDER
from fedroam.deploy.server.serving import serve
from fedroam.deploy.site.file import FILE, Limits, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.errors import FedroamError
from fedroam.experiment import Experiment
from fedroam.recording import Existing, Run
from fedroam.runner import Observer

LOOPBACK = "127.0.0.1"
PATIENCE = 5.0  # seconds that a node may take to end by itself


def emulate(
    experiment: Experiment,
    out: Path,
    *,
    existing: Existing = "resume",
    use: Sequence[str] = (),
    meter: Mapping[str, Any] | None = None,
    observer: Observer | None = None,
    on_interrupt: Callable[[], None] | None = None,
    tell: Callable[[str], None] = lambda line: None,
    relayed: bool = False,
) -> Run:
    """Run an experiment with a process for each client and access point, into an ordinary run folder.

    relayed: the server stands for peers and access points, and all models go through it. The site lives in a temporary
    folder that only this user reads, with keys of its own, and goes with the run. What nodes say goes to this process's
    stderr. meter: how the power of each client is measured, the settings of a part; what it reads goes to `meters/` in
    the run folder. Raises what `fedroam.run` does.
    """
    with tempfile.TemporaryDirectory(prefix="fedroam-site-") as home:
        folder = Path(home) / "site"
        found_site(
            folder,
            experiment,
            address=f"{LOOPBACK}:1",
            limits=Limits(away=2.0, retry=60.0),
            relayed=relayed,
            listening=f"{LOOPBACK}:0",
        )
        if meter is not None:
            _metered(folder, meter)
        nodes: list[subprocess.Popen[bytes]] = []

        def listening(port: int) -> None:
            site = read_site(folder / FILE)
            site.model_copy(update={"address": f"{LOOPBACK}:{port}"}).write(folder)
            nodes.extend(_started(folder, node.name, use, out / FOLDER) for node in site.holders.values())

        def still() -> None:
            for process in nodes:
                if process.poll() is not None:
                    raise FedroamError(
                        f"a node ended with exit code {process.returncode}: its reason stands above"
                    )

        try:
            return serve(
                folder,
                out,
                address=f"{LOOPBACK}:0",
                existing=existing,
                observer=observer,
                on_interrupt=on_interrupt,
                tell=tell,
                use=use,
                listening=listening,
                still=still,
            )
        finally:
            _end(nodes)


def _metered(folder: Path, meter: Mapping[str, Any]) -> None:
    """Give every client's node a meter. Raises InputError where the settings are not those of one."""
    build("meter", meter)
    site = read_site(folder / FILE)
    for node in site.clients.values():
        site = site.changed(node.model_copy(update={"meter": dict(meter)}))
    site.write(folder)


def _started(folder: Path, name: str, use: Sequence[str], meters: Path) -> subprocess.Popen[bytes]:
    """A node's process: the command that a device runs, with a single thread."""
    words = [sys.executable, "-m", "fedroam", "node", "--site", str(folder / FILE), "--name", name, "--quiet"]
    words += ["--meters", str(meters.resolve())]
    words += [word for file in use for word in ("--use", str(Path(file).resolve()))]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Its own group: Ctrl-C at the terminal is the server's to act on, after the round.
    return subprocess.Popen(
        words, env={**os.environ, **threads}, stdin=subprocess.DEVNULL, start_new_session=True
    )


def _end(nodes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Nodes that were told that all is done end by themselves; the others are ended."""
    for node in nodes:
        try:
            node.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            node.terminate()
    for node in nodes:
        try:
            node.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            node.kill()
            node.wait()
