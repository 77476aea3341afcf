"""A clock of seconds in which nothing takes time is the clock of rounds, bit for bit, for every federation."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from fedroam.clock import COLUMNS, TIME, TOTALS
from fedroam.components import kinds
from support.tiny import Played, example, own_data, play, tiny

OWN = {TIME, *TOTALS, *COLUMNS, *(f"total_{name}" for name in COLUMNS)}
# All radios are limited and share the air: transfers without duration take none of it.
CROWDED = {"kind": "fixed", "throughput": float("inf"), "shared": True, "simultaneous": 1}
CHURN = {"kind": "rate", "rate": 0.7}


def federated(kind: str, **settings: Any) -> Any:
    return tiny(
        data=own_data(),
        federation=example("federation", kind),
        validation_share=0.2,
        activity=CHURN,
        model={"kind": "mlp", "hidden": (6,)},
        **settings,
    )


def same_but_for_the_clock(one: Played, other: Played) -> None:
    for name, table in one.tables().items():
        found = other.tables()[name]
        own = found.drop(columns=[column for column in found if column in OWN])
        pd.testing.assert_frame_equal(own, table, check_exact=True, obj=name)


@pytest.mark.parametrize("kind", kinds("federation"))
def test_instant_seconds_are_rounds(kind: str) -> None:
    plain = play(federated(kind))
    for link in ("instant", CROWDED):
        for wait in ("deadline", "all"):
            clock = {"kind": "seconds", "length": 7.0, "wait": wait}
            timed = play(federated(kind, clock=clock, link=link))
            same_but_for_the_clock(plain, timed)
            assert timed.rounds[TIME].tolist() == [0.0, 7.0, 14.0, 21.0, 28.0]
            assert (timed.rounds["late"].dropna() == 0).all()
            assert (timed.rounds["through"] == timed.rounds["transfers"])[1:].all()
            assert (timed.rounds["time_training"] == 0).all()


@pytest.mark.parametrize("kind", ["decentralized", "epidemic"])
@pytest.mark.parametrize("broken", ["resumed", "partial"])
def test_what_never_breaks_is_neither_resumed_nor_in_part(kind: str, broken: str) -> None:
    clock = {"kind": "seconds", "length": 7.0}
    timed = play(federated(kind, clock=clock, link={**CROWDED, "broken": broken}))
    same_but_for_the_clock(play(federated(kind)), timed)


@pytest.mark.parametrize("contacts", ["radius", "closest_approach", "sampled"])
@pytest.mark.parametrize("order", ["move_then_mix", "mix_then_move"])
def test_for_every_contact_rule_and_order(contacts: str, order: str) -> None:
    settings: dict[str, Any] = {
        "contacts": {"kind": contacts, "radius": 1.0},
        "federation": {"kind": "decentralized", "order": order},
        "mobility": {"kind": "random_walk"}
        if contacts == "sampled"
        else {"kind": "random", "grid": 4, "mobile": 4},
    }
    same_but_for_the_clock(play(tiny(**settings)), play(tiny(**settings, clock="seconds", link=CROWDED)))


def test_access_points_with_a_range() -> None:
    settings: dict[str, Any] = {
        "access_points": {"kind": "grid", "columns": 2, "rows": 2, "range": 1.0},
        "mobility": {"kind": "random", "grid": 4, "mobile": 4},
        "federation": {"kind": "mohawk", "k2": 2},
    }
    same_but_for_the_clock(play(tiny(**settings)), play(tiny(**settings, clock="seconds", link=CROWDED)))
