"""The processes of an emulated site: forked or spawned, told of when they end, and none outlives whoever began them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from fedroam.deploy.emulation.processes import Forked, Processes, Spawned
from fedroam.deploy.emulation.watch import memory
from support.sites import LocalSite
from support.tiny import tiny
from support.waiting import eventually, lives


def resident(process: int) -> int:
    """Bytes of memory of a process, shared or not."""
    (line,) = [
        line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS:")
    ]
    return 1024 * int(line.split()[1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="nodes are forked on Linux alone")
def test_nodes_live_until_they_are_ended(tmp_path: Path) -> None:
    """Of a site whose server is not there: they look for it."""
    site = LocalSite.new(tmp_path / "site", tiny(federation="fedavg", clients=3))
    patience = 0.2
    every: list[Processes] = [
        Forked(site.folder, [], tmp_path, patience),
        Spawned(site.folder, [], tmp_path, patience),
    ]
    forked, spawned = every
    forked.start(["client-00", "client-01"])
    spawned.start(["client-02"])
    eventually(lambda: {"client-00", "client-01"} <= forked.living().keys(), "two nodes begin")
    assert forked.ended() == spawned.ended() == {}
    os.kill(forked.living()["client-00"], signal.SIGKILL)
    eventually(lambda: "client-00" in forked.ended(), "a node that was killed is missed")
    assert forked.ended() == {"client-00": -signal.SIGKILL}
    living = [number for each in every for number in each.living().values()]
    assert len(living) == 3
    server, node = forked.living().values()
    assert (
        0 < memory([server, node]) < 0.7 * (resident(server) + resident(node))
    )  # what both have counts once
    for each in every:
        each.end()
    assert not any(map(lives, living))
    assert forked.ended() == {"client-00": -signal.SIGKILL, "client-01": -signal.SIGTERM, "fork server": 0}
    assert spawned.ended() == {"client-02": -signal.SIGTERM}


def test_a_site_that_cannot_be_read_is_told_of(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from fedroam.deploy.emulation import fork_server

    code = fork_server.guarded(lambda: fork_server.main([str(tmp_path), str(tmp_path), "1"]))
    assert code == 2
    assert "no such file; fedroam site init" in capfd.readouterr().err


def test_memory_of_none_is_none() -> None:
    assert memory([]) == memory([2**30]) == 0
