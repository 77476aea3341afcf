"""MOHAWK with updates that come late: by hand, and as MOHAWK where none does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedroam.mixing import Average
from fedroam.simulation import begin, play_round
from fedroam.state import State
from support.timed import timed_scene
from support.tiny import play, same_tables, tiny

MODEL = 4 * (64 * 10 + 10)
TEN = {"kind": "fixed", "throughput": 8e-6 * MODEL / 10}  # a model in ten seconds


def scene(federation: dict[str, Any]) -> Any:
    """Rounds of 30 s, and one access point: the first device needs 25 of them, the second 35."""
    return timed_scene(
        (5.0, 15.0),
        clock={"kind": "seconds", "length": 30.0},
        link=TEN,
        access_points={"kind": "grid", "columns": 1, "rows": 1},
        federation={"weights": "uniform", "judge": "access_point", **federation},
    )


def after(federation: dict[str, Any], rounds: int) -> tuple[State, dict[str, np.ndarray], dict[str, float]]:
    """The state then, with copies of the models by round of: access point, and the second device's update."""
    own = scene(federation)
    state, held = begin(own), {}
    for t in range(1, rounds + 1):
        state, done = play_round(own, state)
        rows = state.models.parameters.double().numpy()
        held[f"y{t}"] = rows[state.federation["ap_row"][0]].copy()
        held[f"x{t}"] = rows[state.federation["device_row"][1]].copy()
    return state, held, dict(done.facts)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 2.0])
def test_a_late_update_counts_the_less_the_staler_it_is(exponent: float) -> None:
    """Round 2: the first device's fresh update x, and the second's of round 1, z, which is one round old: with s =
    2^-exponent, y <- (x + y + s (z - y)) / 2. MOHAWK, from the same state, has (x + z) / 2, which tells x."""
    plain = after({"kind": "mohawk", "k2": 9}, 2)[1]
    state, held, facts = after({"kind": "delayed_mohawk", "k2": 9, "exponent": exponent}, 2)
    np.testing.assert_array_equal(held["y1"], plain["y1"])
    y, z = held["y1"], held["x1"]
    x = 2 * plain["y2"] - z
    s = 2.0**-exponent
    np.testing.assert_allclose(held["y2"], (x + y + s * (z - y)) / 2, atol=1e-6)
    assert np.abs(z - y).max() > 1e-3
    assert facts["staleness"] == 0.5, "of one fresh update and one that is a round old"
    assert state.federation["device_row"].tolist() == [0, 0]


def test_a_global_aggregation_loses_no_late_update() -> None:
    """With k2 = 1 MOHAWK drops in each round what has not come; here it comes in round 2."""
    lost = after({"kind": "mohawk", "k2": 1}, 2)[2]
    assert (lost["total_discarded"], lost["total_aggregated"]) == (2, 2)
    state, _, found = after({"kind": "delayed_mohawk", "k2": 1}, 2)
    assert (found["total_discarded"], found["total_aggregated"], found["total_returned"]) == (0, 3, 1)
    assert found["staleness"] == 0.5
    assert state.account.energy_wasted.sum() == 0


def test_without_late_updates_it_is_mohawk() -> None:
    runs = [play(tiny(federation={"kind": kind, "k2": 2}, rounds=5)) for kind in ("mohawk", "delayed_mohawk")]
    tables = [run.tables() for run in runs]
    stale = tables[1]["rounds"].pop("staleness")
    assert set(stale.dropna()) == {0.0}
    same_tables(*tables)


def test_what_is_not_delivered_is_left_as_it_was() -> None:
    """An update whose way to its access point fails waits as it was trained, not mixed."""
    own = scene({"kind": "delayed_mohawk", "k2": 9})
    state, _ = play_round(own, begin(own))
    row = int(state.federation["device_row"][1])
    update = state.models.parameters[row].clone()

    class Deaf(type(own.aggregator)):  # type: ignore[misc]
        def delivered(self, models: Any, transfers: Any, round: int) -> np.ndarray:
            return np.asarray(transfers.sender != 1)

    assert isinstance(own.parts.aggregation, Average)
    object.__setattr__(own, "aggregator", Deaf())
    state, _ = play_round(own, state)
    row = int(state.federation["device_row"][1])
    assert row > 0
    np.testing.assert_array_equal(state.models.parameters[row].numpy(), update.numpy())
