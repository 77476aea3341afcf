"""A run says of which rounds it was what: simulated, or played by a network."""

from __future__ import annotations

from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.recording.environment import _version, gone_on, in_words, stretches

ROUNDS = 9
PLACES = st.sampled_from(["simulation", "network"])


def test_by_hand() -> None:
    begun = gone_on({}, 0, 12, "network")
    assert begun == {"where": "network"}
    assert in_words(begun) == "network"
    ended = gone_on(begun, 6, 12, "simulation")
    assert ended == {"earlier": [{"where": "network", "round": 6}]}
    assert in_words(ended) == "network to round 6, then simulation"
    again = gone_on(ended, 10, 12, "network")
    assert in_words(again) == "network to round 6, then simulation to round 10, then network"
    assert gone_on(ended, 12, 12, "network") == ended, "it plays no round"
    assert gone_on(ended, 4, 12, "network") == begun, "from an older checkpoint on, all is the network's"
    assert gone_on({}, 5, 12, "simulation") == {}, "what has always been said is said"


def test_networks_of_before_are_known_by_what_computed_them() -> None:
    old = {"computed": ["clients: nodes of a network"]}
    assert in_words(gone_on(old, 3, 9, "simulation")) == "network to round 3, then simulation"


@given(st.lists(st.tuples(PLACES, st.floats(0, 1), st.integers(0, ROUNDS)), min_size=1, max_size=6))
def test_each_round_is_that_of_whoever_played_it_last(sessions: list[tuple[str, float, int]]) -> None:
    """A session goes on at any round that has been reached, and plays some."""
    facts: dict[str, Any] = {}
    played: list[str] = []
    for where, share, more in sessions:
        begin = int(share * len(played))
        facts = gone_on(facts, begin, ROUNDS, where)
        if begin < ROUNDS:
            played = [*played[:begin], *[where] * max(1, min(more, ROUNDS - begin))]
        earlier = stretches(facts)
        told = [
            next((place for place, last in earlier if t <= last), None) for t in range(1, len(played) + 1)
        ]
        last = in_words(facts).rpartition("then ")[2]
        assert [place or last for place in told] == played
        assert len(earlier) + 1 == len([*groupby(played)])


def test_versions_are_those_that_packages_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "numpy", "pydantic"):
        assert _version(name) == metadata.version(name)
    assert _version("no_such_package") == "not installed"
    told = tmp_path / "talkative-1.5.dist-info" / "METADATA"
    told.parent.mkdir()
    told.write_text("Metadata-Version: 2.1\nName: talkative\nVersion: 1.5\n\nVersion: 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert _version("talkative") == "1.5"
