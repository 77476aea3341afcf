"""What parts of one's own are handed is theirs to read, and what they give is copied: a run is the same whatever they
write into, and can be gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from typing_extensions import override

from fedroam import FedroamError, InputError, run, simulation
from fedroam.components import Part, field
from fedroam.cost import Cost
from fedroam.links.link import TimedLink
from fedroam.mixing import Facts, Received
from fedroam.mobility import Paths
from fedroam.scene import prepare
from fedroam.state import State
from support.registered import Standing, registered
from support.tiny import tiny

SECONDS: dict[str, Any] = {"clock": "seconds", "contacts": {"kind": "radius", "radius": 9.0}}


class Whole(Standing):
    """Whole numbers at the start, and others in other types later, as numpy makes them."""

    later: str = field("float", "type of the further array after the start")

    @override
    def start(self, world: Any) -> dict[str, Any]:
        return {
            "position": np.full((world.clients, 2), 2),
            "present": np.ones(world.clients, int),
            "n": np.zeros(2, int),
        }

    def step(self, state: Any, world: Any, round: int) -> Any:
        after = np.full((world.clients, 2), 2.0 + 0.1 * round, dtype=">f8")
        begun = np.asarray(state["position"], dtype=np.float32)
        found = {"position": after, "present": np.ones(world.clients, bool)}
        if self.later != "gone":
            found["n"] = np.zeros(2, self.later)
        return found, Paths.straight(begun, after.astype(np.float32))


class OneBuffer(Standing):
    """Gives the same array each time, for who is present."""

    shared: ClassVar[np.ndarray] = np.ones(5, dtype=bool)

    def step(self, state: Any, world: Any, round: int) -> Any:
        self.shared[:] = np.arange(5) % 3 != round % 3
        here = state["position"]
        return {"position": here, "present": self.shared}, Paths.straight(here, here, self.shared)


class OwnBuffers(OneBuffer):
    """The same in arrays of their own."""

    @override
    def step(self, state: Any, world: Any, round: int) -> Any:
        present, here = np.arange(5) % 3 != round % 3, state["position"]
        return {"position": here, "present": present}, Paths.straight(here, here, present)


class Timed(Standing):
    """Its paths have these times."""

    times: tuple[float, ...] = field((0.0, 1.0), "of each client")

    def step(self, state: Any, world: Any, round: int) -> Any:
        here, many = state["position"], len(self.times)
        return state, Paths(
            np.arange(world.clients + 1) * many,
            np.tile(np.array(self.times), world.clients),
            np.repeat(here, many, axis=0),
            np.ones(world.clients, dtype=bool),
        )


class Meets(Part):
    writes: bool = field(True, "whether it writes into the paths")

    def reach(self) -> float:
        return 9.0

    def meet(self, paths: Paths) -> np.ndarray:
        if self.writes:
            paths.point[:] = 0.0
        return ~np.eye(paths.clients, dtype=bool)


class Computes(Part):
    writes: bool = field(True, "whether it writes into who it is")

    def seconds(self, seed: int, clients: np.ndarray, passes: np.ndarray, flops: float) -> np.ndarray:
        found = 1.0 + clients
        if self.writes:
            clients[:], passes[:] = 0, 0
        return found


class Links(TimedLink):
    writes: bool = field(True, "whether it writes into how far it is")

    def rate(self, distance: np.ndarray, seed: int, pair: np.ndarray) -> np.ndarray:
        found = np.full(len(distance), 1e5) / (1 + distance)
        if self.writes:
            distance[:], pair[:] = 0.0, 0
        return found


class Prices(Part):
    writes: bool = field(True, "whether it writes into what was sent")

    def spread(self) -> None:
        return None

    def training(self, clients: np.ndarray, samples: np.ndarray) -> Any:
        found = 1.0 * samples
        if self.writes:
            clients[:], samples[:] = 0, 0
        return found

    def cost(self, traffic: Any, distances: Any) -> Any:
        z, joules = np.zeros(len(traffic.bytes)), traffic.bytes / 1000
        if self.writes:
            traffic.bytes[:], traffic.sender[:] = 1, 0
        return Cost(joules, z, z, z)


class Averages(Part):
    kept: ClassVar[dict[int, np.ndarray]] = {}
    writes: bool = field(True, "whether it gives the same array to all")

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        found = received.models.mean(axis=0, dtype=np.float64).astype(np.float32)
        if not self.writes:
            return found
        buffer = self.kept.setdefault(len(found), np.empty_like(found))
        buffer[:] = found
        return buffer


class Cleans(Part):
    def split(self, dataset: Any, clients: int, stream: Any) -> Any:
        dataset.y_train[dataset.y_train == 9] = 4
        return np.array_split(np.arange(len(dataset.y_train)), clients)


class Judges(Part):
    """Judges its batch before it learns, and leaves the network as if it were to be judged."""

    def loss(self, module: Any, x: Any, y: Any) -> Any:
        found = torch.nn.functional.cross_entropy(module(x), y)
        module.eval()
        return found


class Drops(Part):
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, classes))


MORE = (
    ("model", "test_drops", Drops),
    ("mobility", "test_whole", Whole),
    ("mobility", "test_one_buffer", OneBuffer),
    ("mobility", "test_own_buffers", OwnBuffers),
    ("mobility", "test_timed", Timed),
    ("contacts", "test_meets", Meets),
    ("compute", "test_computes", Computes),
    ("link", "test_links", Links),
    ("radio", "test_prices", Prices),
    ("aggregation", "test_averages", Averages),
    ("partition", "test_cleans", Cleans),
    ("objective", "test_judges", Judges),
)


@pytest.fixture(autouse=True)
def more() -> Iterator[None]:
    with registered(*MORE):
        yield


def rounds_of(out: Path, **settings: Any) -> pd.DataFrame:
    return run(tiny(**settings), out).rounds.drop(columns="seconds")


def test_a_state_is_held_as_checkpoints_hold_it(tmp_path: Path) -> None:
    """Whole numbers, the other order of bytes, and short ones become what a state is of."""
    state = simulation.begin(scene := prepare(tiny(mobility={"kind": "test_whole", "later": "int64"})))
    for _ in range(2):
        state, _ = simulation.play_round(scene, state)
        arrays = state.arrays()
        again = State.of(state.round, arrays, scene).arrays()
        assert {name: array.dtype for name, array in again.items()} == {n: a.dtype for n, a in arrays.items()}
        assert all(np.array_equal(again[name], array, equal_nan=True) for name, array in arrays.items())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"kind": "test_whole", "later": "float32"},
            "the state's 'n' is float32 with 1 axes and was int64 with 1",
        ),
        (
            {"kind": "test_whole", "later": "longdouble"},
            "the state's 'n' is float128, allowed are at most 64 bits",
        ),
        (
            {"kind": "test_whole", "later": "gone"},
            "the state that step gave lacks n, allowed is all that the one be",
        ),
        (
            {"kind": "test_timed", "times": (0.0, 2.0)},
            "times of its paths do not rise from 0 to 1 for each client",
        ),
        (
            {"kind": "test_timed", "times": (0.0, 0.7, 0.4, 1.0)},
            "times of its paths do not rise from 0 to 1 for ea",
        ),
        (
            {"kind": "test_timed", "times": (0.0,)},
            "its paths have first ndarray of shape [6], int64, time ndarray of",
        ),
    ],
)
def test_a_run_that_could_not_be_gone_on_with_is_refused(
    tmp_path: Path, settings: dict[str, Any], told: str
) -> None:
    when = later(settings, tmp_path)
    assert when.startswith(f"mobility kind {settings['kind']!r}, round 1: {told}")


def later(settings: dict[str, Any], tmp_path: Path) -> str:
    with pytest.raises(InputError) as raised:
        run(tiny(mobility=settings), tmp_path / "run")
    return str(raised.value)


def test_arrays_that_a_pattern_keeps_are_copied(tmp_path: Path) -> None:
    contacts = {"kind": "radius", "radius": 9.0}
    one, own = (
        rounds_of(tmp_path / kind, mobility=kind, contacts=contacts)
        for kind in ("test_one_buffer", "test_own_buffers")
    )
    assert one.equals(own)
    assert one["active"].nunique() > 1, "somebody is away in some rounds"


@pytest.mark.parametrize(
    ("family", "kind", "settings"),
    [
        ("compute", "test_computes", "seconds"),
        ("link", "test_links", "seconds"),
        ("radio", "test_prices", "rounds"),
        ("aggregation", "test_averages", "rounds"),
    ],
)
def test_what_a_part_writes_into_stays_its_own(tmp_path: Path, family: str, kind: str, settings: str) -> None:
    near = {"contacts": {"kind": "radius", "radius": 9.0}}
    rest: dict[str, Any] = SECONDS if settings == "seconds" else near
    writes, clean = (
        rounds_of(tmp_path / str(each), **{family: {"kind": kind, "writes": each}}, **rest)
        for each in (True, False)
    )
    assert writes.equals(clean)


@pytest.mark.parametrize("settings", [{"contacts": "test_meets"}, {"partition": "test_cleans"}])
def test_what_all_see_cannot_be_written_into(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(FedroamError, match=r"read-only \(test_what_parts_are_handed.py, line \d+\)"):
        run(tiny(**settings), tmp_path / "run")


@pytest.mark.parametrize("engine", [{"kind": "cpu", "workers": 3}, {"kind": "reference"}])
def test_an_objective_may_judge_and_dropout_stays_on(tmp_path: Path, engine: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"model": "test_drops", "training": {"batch_size": 8, "steps": 3}}
    judges, learns, alone = (
        rounds_of(tmp_path / f"{kind}{own}", objective=kind, engine=own, **settings)["loss"].to_numpy()
        for kind, own in (
            ("test_judges", engine),
            ("cross_entropy", engine),
            ("test_judges", {"kind": "cpu", "workers": 1}),
        )
    )
    assert np.allclose(judges, learns, rtol=1e-4, equal_nan=True)
    assert np.allclose(judges, alone, rtol=1e-4, equal_nan=True)
