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
from chaos.faults import DOORS, WAYS, drawn
from chaos.play import CLIENTS, FEDERATIONS, ROUNDS, faults_of, play
from fedroam.deploy.server import remote, remote_aggregator

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="counts handles and threads as Linux shows them"
)
SEED = 0


@pytest.mark.slow
def test_a_fleet_learns_the_same_whatever_befalls_it(tmp_path: Path) -> None:
    """But for the updates that did not arrive, and nothing of it stays: by way of the server, and from peer to peer
    and by way of access points."""
    before: list[tuple[int, int, int]] = []
    for run, rounds, ways in ((1, 5, DOORS), (2, 5, DOORS), (10, 5, DOORS), (0, 12, WAYS)):
        (tmp_path / str(run)).mkdir()
        found = play(SEED, run, tmp_path / str(run), rounds)
        assert found.findings == []
        kinds = {fault.kind for fault in found.faults}
        assert kinds == set(ways) if ways is WAYS else len(kinds) >= 3
        # After the first one libraries, and the server of processes, have what they keep.
        before.append(held(before[0] if before else None))
    assert leaks(before[0], (*before[-1][:2], before[0][2])) == []


def test_chaos_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes what is no number, or loses what has arrived."""
    monkeypatch.setattr(remote, "finite", lambda **options: lambda answer: None)
    honest = remote.RemoteLearner._ask

    def losing(self: Any, orders: Any) -> Any:
        yield from honest(self, orders)
        if self._round == 2:
            self._lost.add(0)

    monkeypatch.setattr(remote.RemoteLearner, "_ask", losing)
    rounds = 3
    run, bad = next(
        (run, fault)
        for run in range(1000)
        for fault in faults_of(SEED, run, rounds)
        if fault.way == "no number" and not any(f.short for f in faults_of(SEED, run, rounds))
    )
    found = play(SEED, run, tmp_path, rounds)
    assert any(f"arrived all the same: {bad}" in what for what in found.findings)
    assert any("round 2, client 0: lost without a reason" in what for what in found.findings)


def test_chaos_notices_what_holders_do_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes an aggregate for missing that is there."""
    honest = remote_aggregator.RemoteAggregator._ask

    def losing(self: Any, orders: Any) -> Any:
        found = honest(self, orders)
        gone = {i for i, asked in orders.items() if (asked.order.work, asked.order.round) == ("aggregate", 2)}
        return {i: answer for i, answer in found.items() if i not in gone}

    monkeypatch.setattr(remote_aggregator.RemoteAggregator, "_ask", losing)
    run = next(
        run
        for run in range(1, 1000, len(FEDERATIONS))
        if not any((f.round, f.holder) == (2, 0) for f in faults_of(SEED, run, 2))
    )
    found = play(SEED, run, tmp_path, 2)
    assert any("aggregate is missing without a reason: (2, 0)" in what for what in found.findings)


def test_a_campaign_is_played_again_by_its_seed() -> None:
    assert faults_of(3, 1) == faults_of(3, 1) != faults_of(4, 1)
    for ways in (WAYS, DOORS):
        many = [fault for run in range(10) for fault in drawn(0, run, ROUNDS, range(CLIENTS), ways)]
        assert {(fault.kind, fault.way) for fault in many} == {
            (kind, way) for kind in ways for way in ways[kind]
        }


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
