"""What parts of one's own give is held against what they promise: one message, and no number that is silently wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedroam import FedroamError, InputError, components, run
from fedroam.analysis import compare_runs
from fedroam.analysis.connectivity.contact_statistics import simulate
from fedroam.components import FAMILIES, Part, register
from fedroam.cost import Cost
from fedroam.links.link import TimedLink
from fedroam.mobility import Paths
from support.tiny import tiny


class _Told(Part):
    """Moves, and does what the name of its kind says."""

    def start(self, world: Any) -> dict[str, np.ndarray]:
        return {"position": np.full((world.clients, 2), 2.0)}

    def bounds(self) -> tuple[float, float, float, float]:
        return (0.0, 0.0, 4.0, 4.0)

    def groups(self, world: Any) -> np.ndarray:
        return np.full(world.clients, "all")


class Leaves(_Told):
    def step(self, state: Any, world: Any, round: int) -> Any:
        after = state["position"] + np.array([0.0, 0.9])
        return {"position": after}, Paths.straight(state["position"], after)


class InPlace(_Told):
    def step(self, state: Any, world: Any, round: int) -> Any:
        state["position"][0, 0] += 0.5
        return state, Paths.straight(state["position"], state["position"])


class Begins(_Told):
    def step(self, state: Any, world: Any, round: int) -> Any:
        after = np.full((world.clients, 2), 3.0)
        return {"position": after}, Paths.straight(after - 0.25 * (round == 2), after)


class ComesBack(_Told):
    """Client 0 is away in every other round, and comes back elsewhere."""

    def step(self, state: Any, world: Any, round: int) -> Any:
        after, present = np.array(state["position"]), np.ones(world.clients, dtype=bool)
        present[0] = round % 2 == 0
        after[0] = (0.0, 4.0) if round == 4 else (4.0, 0.0)
        begin = np.where(np.arange(world.clients)[:, None] == 0, after, state["position"])
        return {"position": after, "present": present}, Paths.straight(begin, after, present)


class Breaks(_Told):
    def step(self, state: Any, world: Any, round: int) -> Any:
        raise KeyError("speed")


class Ends(_Told):
    def step(self, state: Any, world: Any, round: int) -> Any:
        raise SystemExit(0)


class BreaksAtStart(Breaks):
    def start(self, world: Any) -> dict[str, np.ndarray]:
        raise ZeroDivisionError("no clients here")


class _Priced(Part):
    def spread(self) -> None:
        return None

    def training(self, clients: np.ndarray, samples: np.ndarray) -> Any:
        return np.ones(len(clients))


class BelowZero(_Priced):
    def cost(self, traffic: Any, distances: Any) -> Any:
        z = np.zeros(len(traffic.bytes))
        return Cost(z - 1, z, z, z)


class NoCost(_Priced):
    def cost(self, traffic: Any, distances: Any) -> Any:
        return None


class OnePrice(_Priced):
    def cost(self, traffic: Any, distances: Any) -> Any:
        return Cost(*(np.zeros(1) for _ in range(4)))


class NoJoules(_Priced):
    def cost(self, traffic: Any, distances: Any) -> Any:
        return Cost.nothing(len(traffic.bytes))

    def training(self, clients: np.ndarray, samples: np.ndarray) -> Any:
        return np.full(len(clients), np.nan)


class _Fails(Part):
    """Does what it promises, but for what its subclass says."""

    def reach(self) -> float:
        return 1.0

    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        return y

    def sent(self, known: Any) -> Any:
        return known.trained


class Indexless(_Fails):
    def split(self, dataset: Any, clients: int, stream: Any) -> Any:
        return [np.arange(len(dataset.y_train)) % clients == client for client in range(clients)]


class OneWay(_Fails):
    def meet(self, paths: Paths) -> Any:
        return np.triu(np.ones((paths.clients, paths.clients), dtype=bool), 1)


class Later(_Fails):
    def start(self, seed: int, clients: int) -> Any:
        return {"active": np.ones(clients, dtype=bool)}

    def step(self, state: Any, seed: int, clients: int, round: int) -> Any:
        return {"active": np.full(clients, 0.25 if round >= 2 else 1.0)}


class Everybody(_Fails):
    def attackers(self, seed: int, clients: int) -> Any:
        return np.arange(clients)


class Backwards(TimedLink):
    def rate(self, distance: np.ndarray, seed: int, pair: np.ndarray) -> Any:
        return np.full(len(distance), -1.0)


class Earlier(_Fails):
    def seconds(self, seed: int, clients: np.ndarray, passes: np.ndarray, flops: float) -> Any:
        return np.full(len(clients), -1.0)


class Charging(_Fails):
    def power(self, speed: np.ndarray) -> Any:
        return -1.0 - speed


class Nowhere(_Fails):
    def places(self, mobility: Any, seed: int) -> Any:
        return np.full((2, 2), np.nan)


PARTS = (
    ("partition", "test_indexless", Indexless),
    ("contacts", "test_one_way", OneWay),
    ("activity", "test_later", Later),
    ("attack", "test_everybody", Everybody),
    ("link", "test_backwards", Backwards),
    ("compute", "test_earlier", Earlier),
    ("motion", "test_charging", Charging),
    ("access_points", "test_nowhere", Nowhere),
    ("mobility", "test_leaves", Leaves),
    ("mobility", "test_in_place", InPlace),
    ("mobility", "test_begins", Begins),
    ("mobility", "test_comes_back", ComesBack),
    ("mobility", "test_breaks", Breaks),
    ("mobility", "test_ends", Ends),
    ("mobility", "test_breaks_at_start", BreaksAtStart),
    ("radio", "test_below_zero", BelowZero),
    ("radio", "test_no_cost", NoCost),
    ("radio", "test_one_price", OnePrice),
    ("radio", "test_no_joules", NoJoules),
)


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """As long as a test of these runs: other tests ask what all parts keep to, which these do not."""
    for family, kind, part in PARTS:
        register(family, kind)(part)
    yield
    for family, kind, _ in PARTS:
        del components._registry[family][kind]


def test_whoever_leaves_the_bounds_of_a_pattern_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        run(tiny(mobility="test_leaves"), tmp_path / "run")
    assert str(raised.value) == (
        "mobility kind 'test_leaves', round 3: client 0 comes to (2, 4.7); allowed by its bounds are x from 0 to 4 and "
        "y from 0 to 4"
    )


def test_a_path_begins_where_the_client_was(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        run(tiny(mobility="test_begins"), tmp_path / "run")
    assert str(raised.value) == (
        "mobility kind 'test_begins', round 1: client 0 is at (2, 2) before the round, and its path begins at (3, 3): "
        "allowed is the same place"
    )


def test_whoever_was_away_may_begin_anywhere(tmp_path: Path) -> None:
    assert run(tiny(mobility="test_comes_back"), tmp_path / "run").status["round"] == 4


def test_a_pattern_cannot_move_clients_in_place(tmp_path: Path) -> None:
    with pytest.raises(FedroamError, match=r"read-only \(test_parts_of_ones_own.py, line \d+\)"):
        run(tiny(mobility="test_in_place"), tmp_path / "run")


@pytest.mark.parametrize(
    ("kind", "told"), [("test_breaks", "KeyError: 'speed'"), ("test_ends", "SystemExit: 0")]
)
def test_whatever_a_part_raises_is_an_error_of_the_run(tmp_path: Path, kind: str, told: str) -> None:
    with pytest.raises(FedroamError) as raised:
        run(tiny(mobility=kind), tmp_path / "run")
    assert str(raised.value).startswith(f"{told} (test_parts_of_ones_own.py, line ")
    assert raised.value.__cause__ is not None, "--debug shows where"
    noted = json.loads((tmp_path / "run" / "run.json").read_text())
    assert noted["state"] == "failed"
    assert noted["reason"].startswith(told)


def test_so_is_what_it_raises_before_the_first_round_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(FedroamError, match=r"ZeroDivisionError: no clients here \(test_parts"):
        run(tiny(mobility="test_breaks_at_start"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("test_below_zero", "cost: energy_up: gave -1 for transfer 0, allowed are finite numbers from 0 on"),
        ("test_no_cost", "cost gave NoneType, allowed is a fedroam.cost.Cost"),
        (
            "test_one_price",
            "cost: energy_up: gave ndarray of shape [1], float64, allowed is one number for each transfer, float64 [",
        ),
        ("test_no_joules", "training: gave nan for job 0, allowed are finite numbers from 0 on"),
    ],
)
def test_a_radio_that_gives_no_prices_is_refused(tmp_path: Path, kind: str, told: str) -> None:
    with pytest.raises(InputError) as raised:
        run(tiny(radio=kind, contacts={"kind": "radius", "radius": 9.0}), tmp_path / "run")
    assert str(raised.value).startswith(f"radio kind {kind!r}: {told}")


SECONDS: dict[str, Any] = {"clock": "seconds", "contacts": {"kind": "radius", "radius": 9.0}}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"partition": "test_indexless"}, "split gave client 0 ndarray of shape ["),
        (
            {"contacts": "test_one_way"},
            "client 0 meets client 1, and 1 does not meet 0; allowed is both or neither",
        ),
        ({"activity": "test_later"}, "active of client 0 is 0.25, allowed are truth values, or 0 and 1"),
        ({"attack": "test_everybody"}, "attackers gave all 5 clients; at least one must be honest"),
        ({"link": "test_backwards", **SECONDS}, "rate: gave -1 for the pair "),
        ({"compute": "test_earlier", **SECONDS}, "seconds: gave -1 for client "),
        ({"motion": "test_charging", "battery": "battery", **SECONDS}, "power: gave -"),
        ({"access_points": "test_nowhere"}, "access point 0 is at (nan, nan), allowed are finite numbers, m"),
    ],
)
def test_a_part_that_does_not_keep_its_promise_is_told_in_one_line(
    tmp_path: Path, settings: dict[str, Any], told: str
) -> None:
    family, kind = next(iter(settings.items()))
    when = {"contacts": ", round 0", "activity": ", round 2"}.get(family, "")
    with pytest.raises(InputError) as raised:
        run(tiny(**settings), tmp_path / "run")
    assert str(raised.value).startswith(f"{family} kind {kind!r}{when}: {told}")
    assert "\n" not in str(raised.value)


def test_contacts_found_without_a_run_are_held_against_the_same() -> None:
    with pytest.raises(
        InputError, match="contacts kind 'test_one_way', round 1: client 0 meets client 1, and 1"
    ):
        simulate(tiny(contacts="test_one_way"))


def test_a_setting_cannot_be_called_as_what_every_part_has() -> None:
    with (
        pytest.warns(UserWarning, match="shadows"),
        pytest.raises(InputError, match="Named: its setting 'source' is called as what every part has"),
    ):

        class Named(Part):
            source: str = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"federation": "fedavg", "mixing": "data_size"}, True),
        ({"federation": "push_sum", "mixing": "data_size"}, True),
        ({"federation": "fedavg", "mixing": FAMILIES["mixing"].default}, False),
        ({"federation": "decentralized", "mixing": "data_size"}, False),
    ],
)
def test_a_mixing_rule_that_nobody_asks_is_told(settings: dict[str, Any], said: bool, tmp_path: Path) -> None:
    done = run(tiny(rounds=1, **settings), tmp_path / "run")
    told = [note for note in compare_runs([done]).notes if "mixing.kind" in note]
    wanted = (
        f"mixing.kind = 'data_size' says nothing here: federation {settings['federation']!r} asks no mixing rule, and "
        "runs that differ in it alone are the same"
    )
    assert [note.partition(": ")[2] for note in told] == [wanted] * said


def test_what_an_observer_raises_is_the_callers_own(tmp_path: Path) -> None:
    def observe(round: int, rounds: int, measurement: object) -> None:
        if round == 2:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        run(tiny(), tmp_path / "run", observer=observe)
