"""What parts of one's own give is held against what they promise: one message, and no number that is silently wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import sparse
from typing_extensions import override

from fedroam import FedroamError, InputError, run
from fedroam.analysis import compare_runs
from fedroam.analysis.connectivity.contact_statistics import simulate
from fedroam.components import FAMILIES, Part, field
from fedroam.cost import Cost
from fedroam.devices import Use
from fedroam.devices.battery import Limited
from fedroam.links.link import InstantLink, TimedLink
from fedroam.mixing import Facts, Received
from fedroam.mixing.facts import Fact
from fedroam.mobility import Paths
from support.registered import Standing, registered
from support.tiny import tiny


class Leaves(Standing):
    def step(self, state: Any, world: Any, round: int) -> Any:
        after = state["position"] + np.array([0.0, 0.9])
        return {"position": after}, Paths.straight(state["position"], after)


class InPlace(Standing):
    def step(self, state: Any, world: Any, round: int) -> Any:
        state["position"][0, 0] += 0.5
        return state, Paths.straight(state["position"], state["position"])


class Begins(Standing):
    def step(self, state: Any, world: Any, round: int) -> Any:
        after = np.full((world.clients, 2), 3.0)
        return {"position": after}, Paths.straight(after - 0.25 * (round == 2), after)


class ComesBack(Standing):
    """Client 0 is away in every other round, and comes back elsewhere."""

    def step(self, state: Any, world: Any, round: int) -> Any:
        after, present = np.array(state["position"]), np.ones(world.clients, dtype=bool)
        present[0] = round % 2 == 0
        after[0] = (0.0, 4.0) if round == 4 else (4.0, 0.0)
        begin = np.where(np.arange(world.clients)[:, None] == 0, after, state["position"])
        return {"position": after, "present": present}, Paths.straight(begin, after, present)


class Breaks(Standing):
    def step(self, state: Any, world: Any, round: int) -> Any:
        raise KeyError("speed")


class Ends(Standing):
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


LINK = ("setup", "loss", "simultaneous", "shared", "broken", "chunk", "kept")  # what a link says of itself


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


class Drains(Limited):
    """A battery that keeps its promise, but for what `wrong` names: what is given for it, and from which round on."""

    wrong: str = field("", "name in the state, or of a method")
    value: str = field("0", "what is given in its place, as JSON: settings hold no NaN")
    begin: int = field(0, "in which round first")

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        return self._spoiled(super().start(seed, clients), 0)

    def step(self, state: Mapping[str, np.ndarray], use: Use) -> dict[str, np.ndarray]:
        if self.wrong == "in place":
            state["charge"][0] = 0.0
        if self.wrong == "nothing":
            return {}
        return self._spoiled(super().step(state, use), 1 + round(use.begin / use.ends.max()))

    def empty(self, state: Mapping[str, np.ndarray], use: Use) -> np.ndarray:
        return (
            np.full(len(use.there), json.loads(self.value))
            if self.wrong == "empty"
            else super().empty(state, use)
        )

    def edges(self, begin: float, seconds: float) -> np.ndarray:
        return np.array([json.loads(self.value)]) if self.wrong == "edges" else super().edges(begin, seconds)

    def charging_places(self) -> np.ndarray:
        return np.array([1.0, 0.0]) if self.wrong == "places" else super().charging_places()

    def _spoiled(self, state: dict[str, np.ndarray], now: int) -> dict[str, np.ndarray]:
        if self.wrong == "short" and now >= self.begin:
            return state | {"charge": state["charge"][1:]}
        if self.wrong == "lacks" and now >= self.begin:
            return {"charge": state["charge"]}
        if self.wrong in state and now >= self.begin:
            return state | {self.wrong: np.full(len(state[self.wrong]), json.loads(self.value))}
        return state


def says(**differs: object) -> type[Part]:
    """A link of one rate that says this of itself."""
    said = {name: getattr(InstantLink, name) for name in LINK} | differs
    rate = {"rate": lambda self, distance, seed, pair: np.full(len(distance), 1e6)}
    annotations = dict.fromkeys(said, ClassVar[Any])
    return type("Says", (Part,), {**said, **rate, "__annotations__": annotations, "__module__": __name__})


class Endless(Part):
    """Everybody meets everybody, as far as `far` says."""

    far: str = field("", "how far they hear each other, as JSON")

    def meet(self, paths: Paths) -> np.ndarray:
        return ~np.eye(paths.clients, dtype=bool)

    def reach(self) -> Any:
        return json.loads(self.far)


class Rejoins(Later):
    """Writes into the state that it is handed."""

    @override
    def step(self, state: Any, seed: int, clients: int, round: int) -> Any:
        state["active"][0] = False
        return state


class Forgets(Part):
    """An aggregation that writes into what it knows of the round."""

    needs: ClassVar[tuple[Fact, ...]] = ("paths", "contact_durations", "class_counts")
    into: str = field("speed", "where")

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        found = getattr(facts, self.into)
        array = (
            found.data if self.into == "contact_durations" else found.point if self.into == "paths" else found
        )
        array[:] = 1
        return received.own


def unseeded(anew: bool, shape: int | tuple[int, ...]) -> np.ndarray:
    """Draws of a generator that is made without a seed, or the same ones each time."""
    return np.random.default_rng(None if anew else 1).random(shape)


class Anew(Standing):
    """Moves by draws that are other ones each time, from a round on."""

    begin: int = field(0, "in which round first")

    @override
    def start(self, world: Any) -> dict[str, np.ndarray]:
        return {"position": 2.0 + unseeded(self.begin == 0, (world.clients, 2))}

    def step(self, state: Any, world: Any, round: int) -> Any:
        after = 2.0 + unseeded(True, (world.clients, 2))
        return {"position": after}, Paths.straight(state["position"], after)


class AnewActivity(Part):
    begin: int = field(0, "in which round first")

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        return {"active": np.ones(clients, bool), "since": unseeded(self.begin == 0, clients)}

    def step(self, state: Any, seed: int, clients: int, round: int) -> dict[str, np.ndarray]:
        return {"active": np.ones(clients, bool), "since": unseeded(True, clients)}


class AnewContacts(_Fails):
    def meet(self, paths: Paths) -> np.ndarray:
        near = np.triu(unseeded(True, (paths.clients, paths.clients)) < 0.5, 1)
        return near | near.T


class Leaning(Part):
    """Its own weight is drawn anew."""

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        own = float(unseeded(True, 1)[0])
        found = own * np.eye(5) + (1 - own) * (graph.toarray() / np.maximum(graph.sum(axis=1)[:, None], 1))
        return sparse.csr_array(found / found.sum(axis=1)[:, None])


PARTS = (
    ("mobility", "test_anew", Anew),
    ("activity", "test_anew_activity", AnewActivity),
    ("contacts", "test_anew_contacts", AnewContacts),
    ("mixing", "test_leaning", Leaning),
    ("battery", "test_drains", Drains),
    ("contacts", "test_endless", Endless),
    ("activity", "test_rejoins", Rejoins),
    ("aggregation", "test_forgets", Forgets),
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
    with registered(*PARTS):
        yield


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


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            {"wrong": "charge", "value": "NaN"},
            ", round 0: charge of its state: gave nan for client 0, allowed are",
        ),
        (
            {"wrong": "charge", "value": "-2", "begin": 2},
            ", round 2: charge of its state: gave -2 for client 0, ",
        ),
        ({"wrong": "drawn", "value": "0.25", "begin": 3}, ", round 3: drawn of client 0 falls from "),
        ({"wrong": "gone", "value": "0.5"}, ", round 0: gone of its state holds others than truth values"),
        (
            {"wrong": "died", "value": "Infinity"},
            ", round 0: died of its state holds others than seconds from 0 on",
        ),
        ({"wrong": "short"}, ", round 0: charge of its state is of shape [4], allowed is one a client [5]"),
        (
            {"wrong": "lacks", "begin": 1},
            ", round 1: its state lacks gone, drawn, drawn_motion, died; allowed are",
        ),
        (
            {"wrong": "nothing"},
            ", round 1: step gave nothing, allowed is what the state before it holds: charge, ",
        ),
        (
            {"wrong": "empty", "value": "-1"},
            ": empty: gave -1 for client 0, allowed are numbers from 0 on, or inf",
        ),
        ({"wrong": "edges", "value": "1e9"}, ": edges gave 1e+09 of a time of "),
        (
            {"wrong": "places"},
            ": charging_places gave ndarray of shape [2], float64, allowed is x, y and radius of",
        ),
    ],
)
def test_a_battery_is_held_against_its_promise(tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as raised:
        run(tiny(battery={"kind": "test_drains", **wrong}, **SECONDS), tmp_path / "run")
    assert str(raised.value).startswith(f"battery kind 'test_drains'{told}")
    assert "\n" not in str(raised.value)


def test_a_battery_that_keeps_its_promise_does_as_the_one_that_it_is_made_of(tmp_path: Path) -> None:
    own, ours = (
        run(tiny(battery=kind, **SECONDS), tmp_path / kind).rounds.drop(columns="seconds")
        for kind in ("test_drains", "battery")
    )
    assert own.equals(ours)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("setup", -1.0, "setup is -1.0, allowed is a number from 0 on"),
        ("setup", float("inf"), "setup is inf, allowed is a number from 0 on"),
        ("loss", 1.0, "loss is 1.0, allowed is a share from 0 to below 1"),
        ("loss", "half", "loss is 'half', allowed is a number from 0 on"),
        ("chunk", 6, "chunk is 6, allowed are multiples of 4 bytes"),
        ("chunk", 0, "chunk is 0, allowed are whole numbers from 4 on"),
        ("kept", 2.5, "kept is 2.5, allowed are whole numbers from 1 on"),
        ("simultaneous", 0, "simultaneous is 0, allowed are whole numbers from 1 on"),
        ("broken", "gone", "broken is 'gone', allowed are lost, resumed, partial"),
        ("shared", "no", "shared is 'no', allowed are True and False"),
    ],
)
def test_what_a_link_says_of_itself_is_held_against_its_promise(
    tmp_path: Path, name: str, value: object, told: str
) -> None:
    link = ("link", "test_says", says(**{name: value}))
    with registered(link), pytest.raises(InputError) as raised:
        run(tiny(link="test_says", **SECONDS), tmp_path / "run")
    assert str(raised.value) == f"link kind 'test_says': {told}"


@pytest.mark.parametrize("far", [-1.0, float("nan"), None, "far"])
def test_how_far_contacts_reach_is_held_against_its_promise(tmp_path: Path, far: object) -> None:
    with pytest.raises(InputError) as raised:
        run(tiny(contacts={"kind": "test_endless", "far": json.dumps(far)}), tmp_path / "run")
    assert str(raised.value) == (
        f"contacts kind 'test_endless': reach is {far!r}, allowed is a number from 0 on, or inf"
    )


def test_who_is_active_cannot_be_changed_in_place(tmp_path: Path) -> None:
    with pytest.raises(FedroamError, match=r"read-only \(test_parts_of_ones_own.py, line \d+\)"):
        run(tiny(activity="test_rejoins"), tmp_path / "run")


def test_nor_can_a_battery(tmp_path: Path) -> None:
    battery = {"kind": "test_drains", "wrong": "in place"}
    with pytest.raises(FedroamError, match=r"read-only \(test_parts_of_ones_own.py, line \d+\)"):
        run(tiny(battery=battery, **SECONDS), tmp_path / "run")


@pytest.mark.parametrize("into", ["speed", "samples", "paths", "contact_durations", "class_counts"])
def test_an_aggregation_does_not_change_what_the_next_holder_knows(tmp_path: Path, into: str) -> None:
    settings = {
        "contacts": {"kind": "radius", "radius": 9.0},
        "aggregation": {"kind": "test_forgets", "into": into},
    }
    with pytest.raises(FedroamError, match=r"read-only \(test_parts_of_ones_own.py, line \d+\)"):
        run(tiny(**settings), tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"mobility": {"kind": "test_anew"}},
            "round 0: asked twice with the same, it gave another position (2.",
        ),
        (
            {"mobility": {"kind": "test_anew", "begin": 1}},
            "round 1: asked twice with the same, it gave another ",
        ),
        (
            {"activity": {"kind": "test_anew_activity"}},
            "round 0: asked twice with the same, it gave another since (",
        ),
        (
            {"activity": {"kind": "test_anew_activity", "begin": 1}},
            "round 1: asked twice with the same, it gave an",
        ),
        (
            {"contacts": {"kind": "test_anew_contacts"}},
            "round 0: asked twice with the same, it gave another degree",
        ),
        (
            {"mixing": {"kind": "test_leaning"}, "contacts": {"kind": "radius", "radius": 9.0}},
            "round 1: asked twice with the same, it gave another weight (0.",
        ),
    ],
)
def test_a_part_that_cannot_be_repeated_is_told(tmp_path: Path, settings: dict[str, Any], told: str) -> None:
    """A run of it would be another one each time, and after a resume."""
    family, part = next(iter(settings.items()))
    with pytest.raises(InputError) as raised:
        run(tiny(**settings), tmp_path / "run")
    assert str(raised.value).startswith(f"{family} kind {part['kind']!r}, {told}")
    assert str(raised.value).endswith("and nothing that is kept from one answer to the next")


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
