"""Batteries: worked by hand, energy as power times time, and runs in which devices die and come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam import run
from fedroam.clock.batteries import Doings, Supply, Tries, use_of
from fedroam.clock.deaths import Couplings
from fedroam.cost import Paid
from fedroam.devices.battery import Limited, Use
from fedroam.devices.classes import Flops
from fedroam.devices.motion import Motion, RotaryWing, Walking
from fedroam.errors import InputError
from fedroam.federation import Traffic
from fedroam.mobility import Paths
from fedroam.scene import prepare
from support import contract
from support.tiny import play, tiny

HOUR = 3600.0
FREE = (
    "d2d_alpha_up", "d2d_alpha_down", "d2d_beta", "wifi_alpha_up", "wifi_alpha_down", "wifi_beta",
    "lte_alpha_up", "lte_alpha_down", "lte_beta",
)  # fmt: skip


def use(begin: float = 0.0, seconds: float = 100.0, **own: float) -> Use:
    """A round of one client, which is there and near a charger, and has what is said, evenly."""
    each = {"motion": 0.0, "radio": 0.0, "training": 0.0, "near": 1.0, "at_once": 0.0, **own}
    here = np.ones(1, dtype=bool)
    steps = {name: np.full((1, 1), value) for name, value in each.items()}
    return Use(begin, np.full((1, 1), seconds), here, **steps, dies=np.full(1, np.inf))


def supply(part: Limited, motion: Motion, paths: Paths, **own: Any) -> Supply:
    """Nobody pays for a radio; all move for 60 s."""
    tariff = prepare(tiny()).tariff
    state = part.start(0, paths.clients)
    told = {"begin": 0.0, "length": 60.0, "access_points": np.zeros((0, 2)), **own}
    return Supply(part, motion, tariff, state, paths=paths, **told)


def idle(clients: int) -> Doings:
    """Nobody does anything."""
    none, nobody = np.zeros(0), np.zeros((0, 2), np.int64)
    tries = Tries(Traffic.nothing(), none, none)
    couplings = Couplings(nobody, none, none, nobody, none, none, none)
    nothing = Paid((), none, np.zeros(0, dtype=bool), np.zeros(clients))
    return Doings(np.zeros(clients), np.zeros(clients), nothing, tries, nobody, lambda: couplings)


def test_what_is_drawn_by_hand() -> None:
    # 1 Wh = 3600 J. In 100 s: idle 0.5 W, a fifth of training at 2 W, 25 J of radio and 5 at once, 400 J of motion.
    part = Limited(capacity=1.0, idle=0.5, training=2.0)
    state = part.step(part.start(0, 1), use(training=0.2, radio=0.25, at_once=5.0, motion=4.0))
    assert {name: array.tolist() for name, array in state.items() if name != "died"} == {
        "charge": [3600.0 - 520.0],
        "gone": [False],
        "drawn": [520.0],
        "drawn_motion": [400.0],
    }


@given(st.floats(0, 5), st.floats(0, 5), st.lists(st.floats(0, 600), min_size=1, max_size=20))
def test_energy_is_power_times_time(idle: float, training: float, rounds: list[float]) -> None:
    """To 1e-9, over many rounds: an hour of which a third is training."""
    part = Limited(capacity=1e4, idle=idle, training=training)
    state, begin = part.start(0, 1), 0.0
    for seconds in rounds:
        state = part.step(state, use(begin=begin, seconds=seconds, training=1 / 3))
        begin += seconds
    expected = (idle + training / 3) * sum(rounds)
    assert state["drawn"][0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert 1e4 * HOUR - state["charge"][0] == pytest.approx(expected, rel=1e-9, abs=1e-7)


def test_who_runs_empty_dies_at_that_moment_and_comes_back_at_its_level() -> None:
    # 1000 J; 8 W: empty after 125 s, in the second round. Charged with 5 W: 200 J take 40 s.
    part = Limited(capacity=1000 / HOUR, idle=8.0, restart=0.2)
    state = part.step(part.start(0, 1), use(begin=0.0))
    assert (state["charge"][0], state["gone"][0]) == (pytest.approx(200.0), False)
    state = part.step(state, use(begin=100.0))
    assert (state["charge"][0], state["gone"][0]) == (0.0, True)
    assert state["died"][0] == pytest.approx(125.0)
    assert state["drawn"][0] == pytest.approx(1000.0), "no more than there was"
    charging = part.model_copy(update={"charger": 5.0})
    state = charging.step(state, use(begin=200.0, seconds=39.0))
    assert (state["charge"][0], state["gone"][0]) == (pytest.approx(195.0), True)
    state = charging.step(state, use(begin=239.0, seconds=1.0))
    assert (state["charge"][0], state["gone"][0]) == (pytest.approx(200.0), False)
    assert state["died"][0] == pytest.approx(125.0), "the first time"


def test_nobody_has_more_than_full_and_who_is_not_there_keeps_what_it_has() -> None:
    part = Limited(capacity=1.0, start_charge=0.99, charger=100.0, idle=0.0)
    assert part.step(part.start(0, 1), use())["charge"].tolist() == [3600.0]
    away = replace(use(motion=1.0, radio=1.0, training=1.0), there=np.zeros(1, dtype=bool))
    assert part.step(part.start(0, 1), away)["charge"].tolist() == [0.99 * 3600.0]


@given(st.floats(0, 24), st.floats(0, 24), st.floats(0, 24), st.floats(0, 3e5), st.floats(1, 2e5))
def test_hours_of_charging_are_those_of_the_clock(
    opens: float, closes: float, day: float, begin: float, seconds: float
) -> None:
    """Against a look at 2,000 moments."""
    part = Limited(charge_from=opens, charge_until=closes, day_start=day)
    moments = begin + (np.arange(2000) + 0.5) / 2000 * seconds
    hour = (moments / HOUR + day) % 24
    inside = (opens <= hour) & (hour < closes) if opens <= closes else (hour >= opens) | (hour < closes)
    turns = 2 * (seconds / 86400 + 2)  # each opening and closing is between two moments
    assert part.charging(begin, seconds) == pytest.approx(inside.mean() * seconds, abs=turns * seconds / 2000)


def test_whose_start_is_drawn() -> None:
    charge = Limited(start_lowest=0.25, start_charge=0.75).start(3, 4000)["charge"] / (15 * HOUR)
    assert 0.25 <= charge.min() < 0.26
    assert 0.74 < charge.max() <= 0.75
    assert abs(charge.mean() - 0.5) < 4 * 0.5 / np.sqrt(12 * 4000)


def test_a_flight_draws_what_its_speed_takes() -> None:
    # 0 hovers for 60 s; 1 flies 600 m in 60 s and then stands for 40 more in the air; 2 is not in the world.
    start = np.zeros((3, 2))
    paths = Paths.straight(start, np.array([[0.0, 0], [600, 0], [5, 5]]), np.array([True, True, False]))
    part, motion = Limited(idle=0.0, capacity=100.0), RotaryWing()
    hover, flying = motion.power(np.array([0.0, 10.0]))
    own = supply(part, motion, paths)
    state = part.step(own.state, use_of(own, idle(3), 100.0, np.full(3, np.inf)))
    expected = [hover * 100, flying * 60 + hover * 40, 0.0]
    np.testing.assert_allclose(state["drawn_motion"], expected, rtol=1e-9)


def test_near_a_charger_for_the_time_of_the_passage() -> None:
    # 0 passes two chargers 4 m apart along a line through both, R = 5: within reach from x = -5 to 9 of -10 to 18.
    paths = Paths.straight(np.array([[-10.0, 0], [0, 0], [50, 50]]), np.array([[18.0, 0], [0, 0], [50, 50]]))
    places = np.array([[0.0, 0], [4, 0]])

    def near(radius: float | None, places: np.ndarray, seconds: float) -> np.ndarray:
        own = supply(Limited(charge_radius=radius), Walking(), paths, access_points=places)
        found = use_of(own, idle(3), seconds, np.full(3, np.inf))
        return (found.near * np.diff(found.ends, axis=1, prepend=0.0)).sum(1) / seconds

    np.testing.assert_allclose(near(5.0, places, 60.0), [14 / 28, 1.0, 0.0])
    # In a round twice as long everybody stands at the end for the second half: 0 out of reach.
    np.testing.assert_allclose(near(5.0, places, 120.0), [7 / 28, 1.0, 0.0])
    np.testing.assert_allclose(near(None, places, 60.0), [1.0] * 3)
    assert near(5.0, places[:0], 60.0).tolist() == [0.0] * 3


def gained(part: Limited, paths: Paths, seconds: float = 60.0, **own: Any) -> np.ndarray:
    """Joules that devices charge in a round, from half of a full battery."""
    told = supply(part, Walking(), paths, **own)
    use = use_of(told, idle(paths.clients), seconds, np.full(paths.clients, np.inf))
    return np.asarray(part.step(told.state, use)["charge"] - told.state["charge"])


def hovering(part: Limited, paths: Paths) -> Supply:
    """All hover and have energy for 40 s of that, and a megabyte costs either end 500 J or so."""
    price = {"kind": "lte_wifi", "d2d_alpha_up": 6e4, "d2d_alpha_down": 7e4, "d2d_beta": 0.0, "d2d_max": 1.0}
    own = supply(part, RotaryWing(), paths)
    charge = 40.0 * RotaryWing().power(np.zeros(paths.clients))
    tariff = replace(own.tariff, radio=tiny(radio=price).radio)
    return replace(own, state=own.state | {"charge": charge}, tariff=tariff)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30))
def test_when_a_battery_is_empty_follows_from_what_its_client_began_by_then(seed: int, count: int) -> None:
    """Bit for bit: whatever others send to others, in whatever order it is told, and whatever comes later."""
    draws = np.random.default_rng(seed)
    part, clients = Limited(idle=0.7, charger=0.4, capacity=100.0), 4
    paths = Paths.straight(draws.random((clients, 2)), draws.random((clients, 2)))
    sender = draws.integers(0, clients, count)
    receiver = (sender + draws.integers(1, clients, count)) % clients
    begun, lasts = draws.uniform(0, 60, count), draws.exponential(5.0, count) * draws.integers(0, 2, count)
    size = draws.integers(1, 10**6, count)

    own = hovering(part, paths)

    def of(some: np.ndarray) -> np.ndarray:
        traffic = Traffic.of(sender[some], receiver[some], size[some], np.ones(len(some)))
        tries = Tries(traffic, begun[some], np.minimum(begun + lasts, 60.0)[some])
        use = use_of(own, replace(idle(clients), tries=tries), 60.0, np.full(clients, np.inf))
        return part.empty(own.state, use)

    whole = of(np.arange(count))
    for client, empty in enumerate(whole.tolist()):
        its = (sender == client) | (receiver == client)
        alone = np.flatnonzero(its & (begun <= empty))
        assert of(draws.permutation(alone))[client] == empty


def test_charging_at_a_place_is_power_times_the_time_of_the_passage() -> None:
    """At 2 m/s past a place 3 m away, with R = 5: a chord of 8 m, 4 s. One stands in it, one passes it at 6 m."""
    paths = Paths.straight(np.array([[-60.0, 3], [4, 0], [-60, 6]]), np.array([[60.0, 3], [4, 0], [60, 6]]))
    part = Limited(idle=0.0, start_charge=0.5, charger=7.0, places=((0.0, 0.0, 5.0),))
    np.testing.assert_allclose(gained(part, paths), [7 * 4.0, 7 * 60.0, 0.0], rtol=0, atol=1e-9)
    # For the second half of a round of 120 s all stand where their ways end.
    np.testing.assert_allclose(gained(part, paths, 120.0), [7 * 4.0, 7 * 120.0, 0.0], rtol=0, atol=1e-9)


def test_a_way_with_corners_enters_and_leaves_places_of_several_sizes() -> None:
    """East for 30 s at 2 m/s, then back west at 1 m/s for as long, along y = 0. A place at (20, 0) with R = 5 holds
    it for 5 s on the way out and 0 s of 10 m on the way back from 60 to 30; one at (40, 4), R = 5, a chord of 6 m, for
    3 s and 6 s; one at (37, 0), R = 2, from 35 to 39: of that 37 to 39 is in the chord, too; an access point at
    (60, 0), R = 1, for half a second and one."""
    corners = np.array([[0.0, 0], [60, 0], [30, 0]])
    paths = Paths(np.array([0, 3]), np.array([0.0, 0.5, 1.0]), corners, np.ones(1, dtype=bool))
    three = ((20.0, 0.0, 5.0), (40.0, 4.0, 5.0), (37.0, 0.0, 2.0))
    part = Limited(idle=0.0, start_charge=0.5, charger=11.0, places=three)
    at_places = 5 + (3 + 6) + (2 / 2 + 2 / 1)
    point = np.array([[60.0, 0.0]])
    assert gained(part, paths, access_points=point) == pytest.approx([11 * at_places], rel=0, abs=1e-9)
    both = part.model_copy(update={"charge_radius": 1.0})
    assert gained(both, paths, access_points=point) == pytest.approx(
        [11 * (at_places + 1.5)], rel=0, abs=1e-9
    )


@given(
    st.floats(-50, 50), st.floats(-50, 50), st.floats(0, 40), st.floats(0.5, 5.0), st.integers(0, 2**32 - 1)
)
def test_energy_is_power_times_time_at_a_place(
    x: float, y: float, radius: float, power: float, seed: int
) -> None:
    """Against each leg's own chord: |from + s way - place| <= radius, a quadratic in s. Where a way grazes a place, its
    two roots are as exact as the root of a rounding is."""
    draws = np.random.default_rng(seed)
    corners = draws.uniform(-60, 60, (5, 2))
    time = np.concatenate([[0.0], np.sort(draws.random(3)), [1.0]])
    inside = 0.0
    for a, b, lasts in zip(corners[:-1], corners[1:], np.diff(time) * 60.0, strict=True):
        way, gap = b - a, a - (x, y)
        half, rest = way @ gap / (way @ way), (gap @ gap - radius**2) / (way @ way)
        root = np.sqrt(max(half**2 - rest, 0.0))
        low, high = np.clip([-half - root, -half + root], 0.0, 1.0)
        inside += (high - low) * lasts
    paths = Paths(np.array([0, 5]), time, corners, np.ones(1, dtype=bool))
    part = Limited(idle=0.0, start_charge=0.5, charger=power, places=((x, y, radius),))
    assert gained(part, paths) == pytest.approx([power * inside], rel=1e-9, abs=1e-6 * power)


def test_hours_of_classes_by_hand() -> None:
    """Nights of one class from 22 to 6 h, noons of the other from 12 to 12.5 h; rounds of an hour, from 20 h on."""
    hours, power = ((22.0, 6.0), (12.0, 12.5)), 3.0
    part = Limited(idle=0.0, start_charge=0.5, capacity=1000.0, charger=power, hours=hours, day_start=20.0)
    here = Paths.still(np.zeros((40, 2)))
    state = part.start(4, 40)
    night = state["class"] == 0
    assert 5 < night.sum() < 35
    started = state["charge"][0]
    for round in range(24):
        told = replace(supply(part, Walking(), here, begin=round * HOUR, length=HOUR), state=state)
        state = part.step(state, use_of(told, idle(40), HOUR, np.full(40, np.inf)))
        clock = (20.0 + round + 1) % 24
        nights = min(max(round + 1 - 2, 0), 8) * HOUR
        noon = HOUR / 2 if round + 1 >= 17 else 0.0  # the hour from 12 on is the 17th
        wanted = started + power * np.where(night, nights, noon)
        np.testing.assert_allclose(state["charge"], wanted, rtol=1e-9, err_msg=f"at {clock:g} h")


def test_classes_of_hours_are_those_of_computing() -> None:
    """With the same shares, whoever computes slowly charges by the same hours."""
    everybody = np.arange(300)
    speed = Flops(speeds=(1.0, 2.0), shares=(1.0, 3.0)).speed(7, everybody)
    classes = Limited(hours=((0.0, 6.0), (6.0, 12.0)), shares=(1.0, 3.0)).start(7, 300)["class"]
    np.testing.assert_array_equal(classes == 0, speed == 1e9)
    assert 40 < (classes == 0).sum() < 110


@pytest.mark.parametrize("kind", ["decentralized", "epidemic", "ad_psgd", "fedavg", "fedbuff", "mohawk"])
def test_whoever_federates_charges_at_places(kind: str) -> None:
    """Half of the devices stand at a place, and nobody trains or pays for the radio: what they have is power times
    time, less what being on takes; and a resumed run is the same."""
    places = {"places": ((1.0, 1.0, 0.5), (2.0, 1.0, 0.5)), "hours": ((0.0, 12.0), (0.0, 24.0))}
    power = {"idle": 1.0, "training": 0.0, "charger": 4.0, "start_charge": 0.5, "day_start": 11.99}
    own = tiny(
        clients=6,
        rounds=3,
        evaluate_every=1,
        mobility={"kind": "static", "grid": 2},
        federation=kind,
        access_points={"kind": "grid", "columns": 1, "rows": 1},
        clock={"kind": "seconds", "length": 100.0},
        battery={"kind": "battery", **power, **places},
        radio={"kind": "lte_wifi", **dict.fromkeys(FREE, 0.0)},
    )
    whole = play(own)
    last = whole.clients[whole.clients["round"] == 3].set_index("client")
    at_place = last["y"].to_numpy() == 1.0
    assert 0 < at_place.sum() < 6
    lasts = np.where(last["battery_class"] == 0, 36.0, 300.0)  # from 11.99 h on, and until 12 h: 36 s
    wanted = 7.5 * HOUR - 300.0 + np.where(at_place, 4.0 * lasts, 0.0)
    np.testing.assert_allclose(last["battery_charge"], wanted, rtol=1e-9)
    rest = play(own, (1, whole.states[1]))
    assert rest.states == whole.states[2:]
    assert rest.clients.columns.tolist() == whole.clients.columns.tolist()


def test_who_is_empty_takes_no_part_until_it_is_charged(tmp_path: Path) -> None:
    """Everybody begins with energy for two and a half rounds, and needs two to charge; nobody pays for the radio."""
    battery = {
        "kind": "battery",
        "capacity": 150 / HOUR,
        "idle": 1.0,
        "training": 0.0,
        "charger": 0.5,
        "restart": 0.4,
    }
    found = run(
        tiny(
            rounds=12,
            evaluate_every=1,
            clock={"kind": "seconds", "length": 100.0},
            battery=battery,
            contacts={"kind": "radius", "radius": 9.0},
            radio={"kind": "lte_wifi", **dict.fromkeys(("d2d_alpha_up", "d2d_alpha_down", "d2d_beta"), 0.0)},
        ),
        tmp_path / "run",
    )
    # 150 J, less 50 a round: empty at 300 s, the end of round 3; 60 J by the end of round 5; empty again in round 7.
    table = found.rounds.set_index("round")
    gone = table["battery_gone"].to_numpy()
    assert gone.tolist() == [0, 0, 0, 5, 5, 0, 0, 5, 5, 0, 0, 5, 5]
    assert table["degree_mean"].iloc[1:].notna().to_numpy().tolist() == (gone[:-1] == 0).tolist()
    assert (table["active"].to_numpy()[1:] > 0).tolist() == (gone[:-1] == 0).tolist()
    died = found.clients.groupby("client")["battery_died"].last()
    assert died.to_numpy() == pytest.approx(np.full(5, 300.0))
    spent = table["battery_drawn"].to_numpy()
    np.testing.assert_allclose(spent[:5], [0, 500, 1000, 1500, 1500])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"battery": "battery"}, "battery.kind = 'battery': nothing takes time under clock kind 'rounds'"),
        (
            {"battery": {"kind": "battery", "places": ((0.0, 0.0, -1.0),)}},
            "battery.places.0.2 = -1.0: input should be greater than or equal to 0",
        ),
        (
            {"battery": {"kind": "battery", "hours": ((8.0, 9.0),), "shares": (1.0, 2.0)}},
            "allowed is one for each of the 1 hours",
        ),
        (
            {"battery": {"kind": "battery", "hours": ((8.0, 9.0),), "charge_until": 6.0}},
            "charge_until = 6: they are for all devices",
        ),
        ({"clock": "seconds", "motion": "vehicle"}, "nothing draws on a battery that is none"),
        (
            {"battery": {"kind": "battery", "start_lowest": 0.9, "start_charge": 0.5}},
            "start_lowest = 0.9 is above",
        ),
        (
            {
                "clock": "seconds",
                "access_points": "none",
                "battery": {"kind": "battery", "charge_radius": 5.0},
            },
            "no access points to charge at",
        ),
    ],
)
def test_what_does_not_fit_is_told(settings: dict[str, object], told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=told):
        run(tiny(**settings), tmp_path / "run")


def test_hours_and_places_keep_the_contract() -> None:
    hours = ((22.0, 6.0), (8.0, 9.5), (0.0, 0.0))
    contract.check_battery(
        Limited(charger=2.0, hours=hours, shares=(1.0, 2.0, 1.0), places=((1.0, 2.0, 3.0),))
    )


def test_walking_is_free() -> None:
    assert Walking().power(np.array([0.0, 3.0])).tolist() == [0.0, 0.0]
