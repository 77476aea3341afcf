"""A few dozen faults between and in nodes in every run of the tests; `python -m chaos` plays as many as are wished."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from chaos.__main__ import held, leaks
from chaos.faults import WAYS, drawn
from chaos.play import CLIENTS, ROUNDS, play
from fedroam.deploy.server import remote

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="counts handles and threads as Linux shows them"),
    pytest.mark.usefixtures("quick_disk"),
]
SEED = 0


def test_a_fleet_learns_the_same_whatever_befalls_it(tmp_path: Path) -> None:
    """But for the updates that did not arrive, and nothing of it stays."""
    before = held()
    faults = []
    for run in range(2):
        (tmp_path / str(run)).mkdir()
        found = play(SEED, run, tmp_path / str(run))
        assert found.findings == []
        faults += found.faults
    assert len(faults) >= 36
    assert {fault.kind for fault in faults} == set(WAYS)
    now = held()
    assert leaks((before[0] + 8, *before[1:]), (*now[:2], before[2])) == []  # the server of processes stays


def test_chaos_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes what is no number, or loses what has arrived."""
    monkeypatch.setattr(remote, "finite", lambda **options: lambda answer: None)
    honest = remote.RemoteLearner._ask

    def losing(self: Any, orders: Any) -> Any:
        found = honest(self, orders)
        if self._round == 2:
            self._lost.add(0)
        return found

    monkeypatch.setattr(remote.RemoteLearner, "_ask", losing)
    run, bad = next(
        (run, fault)
        for run in range(1000)
        for fault in drawn(SEED, run, ROUNDS, CLIENTS)
        if fault.way == "no number"
        and not any(f.short for f in drawn(SEED, run, ROUNDS, CLIENTS) if f.round == 2)
    )
    found = play(SEED, run, tmp_path)
    assert any(f"arrived all the same: {bad}" in what for what in found.findings)
    assert any("round 2, client 0: lost without a reason" in what for what in found.findings)


def test_a_campaign_is_played_again_by_its_seed() -> None:
    assert drawn(3, 1, ROUNDS, CLIENTS) == drawn(3, 1, ROUNDS, CLIENTS)
    assert drawn(3, 1, ROUNDS, CLIENTS) != drawn(4, 1, ROUNDS, CLIENTS)
    many = [fault for run in range(40) for fault in drawn(0, run, ROUNDS, CLIENTS)]
    assert {(fault.kind, fault.way) for fault in many} == {(kind, way) for kind in WAYS for way in WAYS[kind]}


def test_what_stays_is_noticed() -> None:
    small = (10, 1, 2**30)
    assert leaks(small, small) == []
    assert [len(leaks(small, now)) for now in ((20, 1, 2**30), (10, 2, 2**30), (10, 1, 2**31))] == [1, 1, 1]
    before = held()
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(9)]
    assert len(leaks(before, held())) == 1
    for file in files:
        os.close(file)
    with mock.patch("chaos.__main__.GROWTH", -(2**40)):
        assert len(leaks(before, held())) == 1
