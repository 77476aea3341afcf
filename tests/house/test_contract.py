"""One suite over everything registered: a new part is tested without asking."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from fedroam import components
from fedroam.components import FAMILIES, NODE_FAMILIES, Part, field, kinds, register
from fedroam.contacts import graph_of
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.learning.sums import torch_threads
from fedroam.mixing import Facts
from fedroam.mobility import Paths, World
from fedroam.randomness import stream
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from support import contract
from support.ray_nodes import one_cluster_for_all_runs
from support.tiny import EXAMPLES, Played, example, own_data, own_samples, play, same_tables, tiny

ALL = [(family, kind) for family in FAMILIES for kind in kinds(family)]
OF_NODES = [(family, kind) for family in NODE_FAMILIES for kind in kinds(family)]


def of(family: str) -> list[str]:
    return list(kinds(family))


@pytest.mark.parametrize(("family", "kind"), [*ALL, *OF_NODES])
def test_every_part_is_a_documented_frozen_configuration(family: str, kind: str) -> None:
    cls = kinds(family)[kind]
    required = [name for name, info in cls.model_fields.items() if info.is_required()]
    if required and (family, kind) not in EXAMPLES:
        pytest.fail(f"{family} {kind!r} needs {', '.join(required)}: give example settings in tests/tiny.py")
    contract.check_part(example(family, kind))
    assert (cls.family, cls.kind) == (family, kind)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_default_kind_of_each_family_exists_and_needs_nothing(family: str) -> None:
    assert FAMILIES[family].default in kinds(family)
    assert components.build(family, {}).kind == FAMILIES[family].default


def movable(kind: str, clients: int) -> Any:
    """A pattern for this many clients, as many as possible (up to two) of them mobile.

    Some patterns need static clients to fly to; then they say so in one line.
    """
    part: Any = example("mobility", kind, clients)
    for mobile in range(getattr(part, "mobile", 0), -1, -1):
        part = part.model_copy(update={"mobile": mobile}) if hasattr(part, "mobile") else part
        try:
            part.groups(contract.world(clients))
            part.start(contract.world(clients))
        except InputError as error:
            refusal = str(error)
        else:
            return part
        assert refusal.startswith("mobility.mobile")
    raise AssertionError(f"mobility {kind!r} cannot do with {clients} client(s)")


@pytest.mark.parametrize("kind", of("mobility"))
@pytest.mark.parametrize("clients", [1, 2, 7])
def test_mobility(kind: str, clients: int) -> None:
    for seed in (0, 1):
        contract.check_mobility(movable(kind, clients), clients, seed)


@pytest.mark.parametrize(
    "kind", [k for k in of("mobility") if "max_step" in kinds("mobility")[k].model_fields]
)
@pytest.mark.parametrize("max_step", [0.0, 1.0, 2.5])
def test_mobility_with_short_moves(kind: str, max_step: float) -> None:
    part = example("mobility", kind, 7).model_copy(update={"max_step": max_step})
    contract.check_mobility(part, 7, rounds=12)


@pytest.mark.parametrize("kind", of("activity"))
@pytest.mark.parametrize("clients", [1, 2, 9])
def test_activity(kind: str, clients: int) -> None:
    contract.check_activity(example("activity", kind), clients)
    contract.check_activity(
        example("activity", kind).model_copy(update={"late_share": 0.5, "late_by": 3}), clients
    )


@pytest.mark.parametrize("kind", of("contacts"))
def test_contacts(kind: str) -> None:
    contract.check_contacts(example("contacts", kind))


@pytest.mark.parametrize("kind", of("access_points"))
@pytest.mark.parametrize("mobility", of("mobility"))
def test_access_points(kind: str, mobility: str) -> None:
    world = example("mobility", mobility, 30)
    try:
        contract.check_access_points(example("access_points", kind), world)
    except InputError as error:  # some need a world with points of interest
        assert str(error).startswith("access_points")  # noqa: PT017
        assert mobility != "trace"


@pytest.mark.parametrize("kind", of("radio"))
def test_radio(kind: str) -> None:
    contract.check_radio(example("radio", kind))


@pytest.mark.parametrize("kind", of("link"))
def test_link(kind: str) -> None:
    contract.check_link(example("link", kind))


@pytest.mark.parametrize("kind", of("compute"))
def test_compute(kind: str) -> None:
    contract.check_compute(example("compute", kind))


@pytest.mark.parametrize("kind", of("motion"))
def test_motion(kind: str) -> None:
    contract.check_motion(example("motion", kind))


@pytest.mark.parametrize("kind", of("battery"))
def test_battery(kind: str) -> None:
    contract.check_battery(example("battery", kind))


@pytest.mark.parametrize("kind", of("clock"))
def test_clock(kind: str) -> None:
    contract.check_clock(example("clock", kind))


@pytest.mark.parametrize("kind", of("mixing"))
def test_mixing(kind: str) -> None:
    contract.check_mixing(example("mixing", kind))


@pytest.mark.parametrize("kind", of("aggregation"))
def test_aggregation(kind: str) -> None:
    contract.check_aggregation(example("aggregation", kind))


@pytest.mark.parametrize("kind", of("attack"))
def test_attack(kind: str) -> None:
    contract.check_attack(example("attack", kind))


@pytest.mark.parametrize("kind", of("partition"))
def test_partition(kind: str) -> None:
    fits = 0
    for clients in (1, 4, 5, 10):
        try:
            contract.check_partition(example("partition", kind), own_samples(), clients)
        except InputError as error:  # some cannot serve every number of clients; then they say what to change
            assert str(error).startswith("partition")  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
        else:
            fits += 1
    assert fits >= 2


@pytest.mark.parametrize("kind", of("data"))
def test_data(kind: str) -> None:
    part = example("data", kind)
    if "root" in type(part).model_fields and (("data", kind) not in EXAMPLES):
        pytest.skip("public data: see test_data_*.py")
    contract.check_data(part)


@pytest.mark.parametrize("kind", of("model"))
def test_model(kind: str) -> None:
    contract.check_model(example("model", kind))


@pytest.mark.parametrize("kind", of("training"))
def test_training(kind: str) -> None:
    contract.check_training(example("training", kind))


@pytest.mark.parametrize("kind", of("objective"))
def test_objective(kind: str) -> None:
    contract.check_objective(example("objective", kind))


@pytest.mark.parametrize("kind", of("engine"))
def test_engine(kind: str) -> None:
    contract.check_engine(example("engine", kind))


# What some federations need: an extractor with parameters, and validation samples.
SPLIT: dict[str, Any] = {"model": {"kind": "mlp", "hidden": (6,)}, "validation_share": 0.2}


@pytest.mark.parametrize("kind", of("federation"))
@pytest.mark.parametrize("mixing", of("mixing"))
def test_federation(kind: str, mixing: str) -> None:
    contract.check_federation(tiny(federation=example("federation", kind), mixing=mixing, **SPLIT))


# --- whole runs, one part varied at a time ----------------------------------------------------------------------


def light(kind: str) -> bool:
    """Whether a model is small enough to be run whole several times."""
    part: Any = example("model", kind)
    if kind == "torch_module":  # tries itself, for which torch would import its compiler without values
        return True
    with torch.device("meta"):  # sizes without values
        network = part.build(contract.shape_for(part), 10)
    return sum(p.numel() for p in network.parameters()) < 2_000_000


def whole_runs() -> list[Any]:
    runs = []
    for family, kind in ALL:
        if family == "execution":
            continue  # more is asked of them
        if family == "data" and "root" in kinds(family)[kind].model_fields and (family, kind) not in EXAMPLES:
            continue  # public data sets: too large, and not here
        runs.append(pytest.param(family, kind, id=f"{family}-{kind}"))
    return runs


def run_with(family: str, kind: str) -> Any:
    """The tiny experiment with this part, on few samples, and less work where the part is heavy."""
    shape = contract.shape_for(example("model", kind)) if family == "model" else (1, 8, 8)
    own: dict[str, Any] = {"data": own_data(shape), family: example(family, kind)}
    if family == "federation":
        own |= SPLIT
    if family == "access_points":  # some need a world with points of interest
        own["mobility"] = example("mobility", "trace")
    if family in ("link", "compute", "motion", "battery"):  # which nothing asks where nothing takes time
        own["clock"] = "seconds"
    if family == "motion":  # which draws on one
        own["battery"] = "battery"
    if family == "model":
        own.update(
            clients=3,
            rounds=2,
            training={"kind": "sgd", "lr": 0.05, "momentum": 0.5, "batch_size": 2, "steps": 1},
        )
    return tiny(**own)


@pytest.mark.parametrize(("family", "kind"), whole_runs())
def test_a_whole_run_repeats_and_resumes(family: str, kind: str) -> None:
    if family == "model" and not light(kind):
        pytest.skip("a large model: see the slow test")
    repeats_and_resumes(run_with(family, kind))


@pytest.mark.parametrize("mixing", of("mixing"))
@pytest.mark.parametrize("order", ["move_then_mix", "mix_then_move"])
def test_a_whole_run_repeats_and_resumes_in_both_orders(order: str, mixing: str) -> None:
    federation = {"kind": "decentralized", "order": order}
    own = {"evaluate_on": "own", "test_share": 0.3, "start_models": "independent"}
    repeats_and_resumes(tiny(mixing=example("mixing", mixing), federation=federation, **own))


@pytest.mark.parametrize("engine", ["reference", "cpu", "batched"])
@pytest.mark.parametrize("model", ["mlp", "mnist_cnn"])
def test_a_whole_run_repeats_and_resumes_with_every_engine(model: str, engine: str) -> None:
    """Momentum that is kept from round to round, and batches that do not divide the samples."""
    shape = contract.shape_for(example("model", model))
    training = {
        "kind": "sgd",
        "lr": 0.05,
        "momentum": 0.5,
        "momentum_state": "kept",
        "batch_size": 3,
        "steps": 2,
    }
    own = {"clients": 3, "rounds": 3, "data": own_data(shape), "training": training}
    repeats_and_resumes(tiny(model=model, engine=engine, **own))


def repeats_and_resumes(experiment: Experiment) -> None:
    """Twice the same bits, other bits for another seed, and the same bits again from every checkpoint."""
    whole = play(experiment)
    assert len(whole.rounds) == experiment.rounds + 1
    assert np.isfinite(whole.rounds["accuracy"]).all()
    assert whole.rounds["consensus_distance"].iloc[-1] >= 0
    begun = play(experiment, last=0)
    assert begun.states == whole.states[:1]
    same_tables(begun.tables(), upon(whole, -1, 0))

    other = play(experiment.replace(seed=experiment.seed + 1), last=1)
    assert other.states[-1] != whole.states[1], "the seed changes nothing"
    assert not other.rounds.equals(upon(whole, -1, 1)["rounds"])

    # To the end from the start, which is the whole run again, and from the middle; one round from all others, in a
    # scene that knows nothing of those before.
    middle = experiment.rounds // 2
    for reached in range(experiment.rounds):
        goes_on(experiment, whole, reached, experiment.rounds if reached in (0, middle) else reached + 1)


def goes_on(experiment: Experiment, whole: Played, reached: int, last: int) -> None:
    """From a checkpoint of a run, the same bits as in it."""
    rest = play(experiment, (reached, whole.states[reached]), last)
    assert rest.states == whole.states[reached + 1 : last + 1], f"resumed at round {reached}, another state"
    same_tables(rest.tables(), upon(whole, reached, last))


def upon(whole: Played, reached: int, last: int) -> dict[str, pd.DataFrame]:
    """The tables of the rounds after `reached`, up to `last`."""
    return {
        name: table[table["round"].between(reached + 1, last)].reset_index(drop=True)
        for name, table in whole.tables().items()
    }


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("kind", of("federation"))
def test_torchs_threads_change_no_bit(kind: str, engine: str) -> None:
    """With layers that are wide enough for torch to divide their sums."""
    wide = {"kind": "mlp", "hidden": (700,)}
    experiment = run_with("federation", kind).replace(model=wide, engine=engine)
    found = []
    for threads in (1, 2):
        with torch_threads(threads):
            found.append(play(experiment))
    assert found[0].states == found[1].states
    same_tables(found[0].tables(), found[1].tables())


@pytest.mark.slow
@pytest.mark.parametrize("kind", of("execution"))
def test_an_execution_changes_no_bit(kind: str) -> None:
    """Wherever clients are computed, it is the run of one process, which repeats: from its beginning, and resumed."""
    alone = play(tiny())
    spread = tiny(execution=example("execution", kind))
    with one_cluster_for_all_runs():
        found = play(spread)
        assert found.states == alone.states
        same_tables(found.tables(), alone.tables())
        goes_on(spread, alone, 2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in of("model") if not light(k)])
def test_a_round_of_a_large_model_repeats(kind: str) -> None:
    experiment = run_with("model", kind).replace(clients=2, mobility={"kind": "random", "mobile": 1})

    def once() -> torch.Tensor:
        scene = prepare(experiment)
        state, *_ = play_round(scene, begin(scene))
        scene.learner.close()
        return state.models.parameters

    assert torch.equal(once(), once())


# --- the suite would notice --------------------------------------------------------------------------------------


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts registered in the test are forgotten after it."""
    kept = {family: dict(parts) for family, parts in components._registry.items()}
    monkeypatch.setattr(components, "_registry", kept)


class Drift(Part):
    """Everybody drifts east. A sound pattern, to be spoilt in one way each."""

    def start(self, world: World) -> dict[str, np.ndarray]:
        """Along a line."""
        return {"position": np.stack([np.zeros(world.clients), np.arange(world.clients) * 1.0], axis=1)}

    def step(self, state: Any, world: World, round: int) -> Any:
        """A metre a round."""
        after = state["position"] + [1.0, 0.0]
        return {"position": after}, Paths.straight(state["position"], after)

    def bounds(self) -> tuple[float, float, float, float]:
        """Wide enough for twenty rounds."""
        return (0.0, 0.0, 20.0, 20.0)

    def groups(self, world: World) -> np.ndarray:
        """One group."""
        return np.array(["mobile"] * world.clients)


class Forgetful(Drift):
    """Keeps a fact outside its state."""

    def step(self, state: Any, world: World, round: int) -> Any:
        """Speeds up with each call, whatever the round."""
        type(self).calls = getattr(type(self), "calls", 0) + 1
        after = state["position"] + [type(self).calls / 100, 0.0]
        return {"position": after}, Paths.straight(state["position"], after)


class InPlace(Drift):
    """Changes the state that goes in."""

    def step(self, state: Any, world: World, round: int) -> Any:
        """Adds in place."""
        before = state["position"].copy()
        state["position"] += [1.0, 0.0]
        return dict(state), Paths.straight(before, state["position"])


class Teleport(Drift):
    """Its paths do not begin where the last ones ended."""

    def step(self, state: Any, world: World, round: int) -> Any:
        """Begins elsewhere."""
        after = state["position"] + [1.0, 0.0]
        return {"position": after}, Paths.straight(state["position"] + 0.5, after)


class Escapes(Drift):
    """Leaves its bounds."""

    def bounds(self) -> tuple[float, float, float, float]:
        """Too narrow."""
        return (0.0, 0.0, 3.0, 20.0)


class TooFast(Drift):
    """Breaks its own speed limit."""

    max_step: float = field(0.5, "longest move", unit="m")


class MovesStatic(Drift):
    """Moves clients of the group static."""

    def groups(self, world: World) -> np.ndarray:
        """All static."""
        return np.array(["static"] * world.clients)


class DrawsGlobally(Drift):
    """Draws from numpy's global generator."""

    def step(self, state: Any, world: World, round: int) -> Any:
        """A global draw."""
        after = state["position"] + [np.random.random(), 0.0]  # noqa: NPY002
        return {"position": after}, Paths.straight(state["position"], after)


class HoldsObjects(Drift):
    """Its state is no plain array."""

    def start(self, world: World) -> dict[str, np.ndarray]:
        """With a list inside."""
        return {**super().start(world), "targets": np.array([[], [1]], dtype=object)}


def test_the_mobility_contract_accepts_a_sound_pattern(scratch: None) -> None:
    contract.check_mobility(register("mobility", "drift")(Drift)())


@pytest.mark.parametrize("bad", [Forgetful, InPlace, Teleport, Escapes, TooFast, MovesStatic, DrawsGlobally])
def test_the_mobility_contract_notices(bad: type[Part], scratch: None) -> None:
    part = register("mobility", "bad")(bad)()
    with pytest.raises(AssertionError):
        contract.check_mobility(part)


def test_a_pattern_that_keeps_objects_is_refused_by_fedroam_itself(scratch: None) -> None:
    part = register("mobility", "bad")(HoldsObjects)()
    with pytest.raises(InputError, match="the state's 'targets' is object"):
        contract.check_mobility(part)


class OneWay(Part):
    """The lower number hears the higher one only."""

    def meet(self, paths: Paths) -> sparse.csr_array:
        """Upper triangle."""
        n = paths.clients
        return sparse.csr_array(np.triu(np.ones((n, n), dtype=bool), k=1))

    def reach(self) -> float:
        """Any."""
        return np.inf


class FirstTwo(OneWay):
    """Clients 0 and 1 are in contact, whoever they are."""

    def meet(self, paths: Paths) -> sparse.csr_array:
        """One pair."""
        pair = [[0, 1]] if paths.clients > 1 and paths.present[:2].all() else []
        return graph_of(np.array(pair, dtype=np.int64).reshape(-1, 2), paths.clients)


class Everybody(OneWay):
    """Everybody present is in contact, though it says 1 m."""

    def meet(self, paths: Paths) -> sparse.csr_array:
        """All pairs of those present."""
        here = np.flatnonzero(paths.present)
        i, j = np.triu_indices(len(here), k=1)
        return graph_of(np.stack([here[i], here[j]], axis=1), paths.clients)

    def reach(self) -> float:
        """A metre."""
        return 1.0


@pytest.mark.parametrize("bad", [OneWay, FirstTwo, Everybody])
def test_the_contacts_contract_notices(bad: type[Part], scratch: None) -> None:
    part = register("contacts", "bad")(bad)()
    with pytest.raises(AssertionError):
        contract.check_contacts(part, contract.QUICK)


class Sums(Part):
    """Sums instead of averages."""

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """Adjacency and identity."""
        return sparse.csr_array(graph.toarray() + np.eye(graph.shape[0]))


class Uniform(Sums):
    """Plain averages over the neighbourhood; claims to be doubly stochastic."""

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """Rows of equal weights."""
        dense = graph.toarray() + np.eye(graph.shape[0])
        return sparse.csr_array(dense / dense.sum(axis=1, keepdims=True))


class Everywhere(Sums):
    """Averages over everybody, contact or not."""

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """1 / n."""
        n = graph.shape[0]
        return sparse.csr_array(np.full((n, n), 1 / n))


class Favours(Sums):
    """Client 0 counts more, whoever it is."""

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """Twice the weight for column 0."""
        dense = graph.toarray() + np.eye(graph.shape[0])
        dense[:, 0] *= 2
        return sparse.csr_array(dense / dense.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("bad", [Sums, Uniform, Everywhere, Favours])
def test_the_mixing_contract_notices(bad: type[Part], scratch: None) -> None:
    part = register("mixing", "bad")(bad)()
    with pytest.raises(AssertionError):
        contract.check_mixing(part, contract.QUICK)


class SumLoss(Part):
    """A sum over samples, not a mean."""

    def loss(self, module: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Summed cross-entropy."""
        return torch.nn.functional.cross_entropy(module(x), y, reduction="sum")


def test_the_objective_contract_notices(scratch: None) -> None:
    part = register("objective", "bad")(SumLoss)()
    with pytest.raises(AssertionError, match="mean"):
        contract.check_objective(part)


class DealsTwice(Part):
    """Claims that every sample has one holder, but client 1 holds what client 0 holds."""

    def split(self, dataset: Any, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """All to everybody."""
        return [np.arange(len(dataset.y_train))] * clients


class DrawsAnew(Part):
    """Not the same twice."""

    def split(self, dataset: Any, clients: int, stream: np.random.Generator) -> list[np.ndarray]:
        """From the system's randomness."""
        return [np.random.default_rng().permutation(50)[:9] for _ in range(clients)]


@pytest.mark.parametrize("bad", [DealsTwice, DrawsAnew])
def test_the_partition_contract_notices(bad: type[Part], scratch: None) -> None:
    part = register("partition", "bad")(bad)()
    with pytest.raises(AssertionError):
        contract.check_partition(part, own_samples(), 4)


class Undocumented(Part):
    """Has a field that nobody explains."""

    speed: float = 1.0
    start = step = bounds = groups = lambda self: None


class WithoutUnit(Part):
    """Has a physical number without unit."""

    speed: float = field(1.0, "how fast", ge=0)
    start = step = bounds = groups = lambda self: None


@pytest.mark.parametrize("bad", [Undocumented, WithoutUnit])
def test_the_contract_of_every_part_notices(bad: type[Part], scratch: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        part = register("mobility", "bad")(bad)()
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        contract.check_part(part)


class Lazy(Part):
    """An engine that does not train."""

    def build(self, task: Any) -> Any:
        """The reference engine with its training taken out."""
        learner = components.build("engine", "reference").build(task)  # type: ignore[attr-defined]
        learner.train = lambda models, jobs: np.zeros(len(jobs))
        return learner


def test_the_engine_contract_notices(scratch: None) -> None:
    part = register("engine", "bad")(Lazy)()
    with pytest.raises(AssertionError):
        contract.check_engine(part)


class OutOfRange(Part):
    """Batches that point beyond the client's samples."""

    def batches(self, samples: int, stream: np.random.Generator) -> Any:
        """One too many."""
        yield np.arange(samples + 1)

    def keeps_momentum(self) -> bool:
        """No."""
        return False


def test_the_training_contract_notices(scratch: None) -> None:
    part = register("training", "bad")(OutOfRange)()
    with pytest.raises(AssertionError):
        contract.check_training(part)


class Gossip(components.kinds("federation")["decentralized"]):  # type: ignore[misc]
    """Says that everybody sends to everybody."""

    def exchange(self, round: Any, after: Any) -> Any:
        """Traffic without contact."""
        from fedroam.federation import Exchanged, Traffic

        n = round.context.clients
        i, j = np.nonzero(~np.eye(n, dtype=bool))
        return Exchanged(after, Traffic.of(i, j, 4), round.models, dict(round.state))


def test_the_federation_contract_notices(scratch: None) -> None:
    part = register("federation", "bad")(Gossip)()
    with pytest.raises(AssertionError, match="out of contact"):
        contract.check_federation(tiny(federation=part))


class LooksInSecret(components.kinds("federation")["fedgh"]):  # type: ignore[misc]
    """Does not tell that clients pass their samples forward."""

    def beside(self, round: Any) -> None:
        """Nothing."""


class Pulled:
    """A loss that is handed a vector, and does not say so."""

    def loss(self, module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor) -> Any:
        """Cross-entropy, and the square of what is handed."""
        return torch.nn.functional.cross_entropy(module(x), y) + handed["target"].square().mean()


class HandsInSecret(components.kinds("federation")["fedavg"]):  # type: ignore[misc]
    """Hands its objective a tensor of a shape that nobody knows beforehand."""

    def objective(self, base: Any) -> Any:
        """Another loss."""
        return Pulled()

    def job(self, round: Any, client: int) -> Any:
        """With what it is handed."""
        job = super().job(round, client)
        job.given = {"target": torch.zeros(3)}
        return job


@pytest.mark.parametrize(
    ("bad", "told"), [(LooksInSecret, "samples passed forward: extractor"), (HandsInSecret, "handed_like")]
)
def test_the_federation_contract_notices_work_that_nobody_tells(
    bad: type[Part], told: str, scratch: None
) -> None:
    part = register("federation", "bad")(bad)()
    with pytest.raises(AssertionError, match=told):
        contract.check_federation(tiny(federation=part, **SPLIT))


LteWifi: Any = components.kinds("radio")["lte_wifi"]


class ChargesTheServer(LteWifi):  # type: ignore[misc]
    """Whoever sends pays, a server too."""

    def cost(self, traffic: Any, spread: Any) -> Any:
        """A joule a transfer."""
        cost = LteWifi.cost(self, traffic, spread)
        cost.energy_up[:] = 1.0
        return cost


class SharesAChannel(LteWifi):  # type: ignore[misc]
    """A transfer takes longer where there are many."""

    def cost(self, traffic: Any, spread: Any) -> Any:
        """Time by the number of transfers."""
        cost = LteWifi.cost(self, traffic, spread)
        cost.time_up[:] *= len(traffic.bytes)
        return cost


class NeedsPlaces(LteWifi):  # type: ignore[misc]
    """Energy by distance, also where there is none."""

    def cost(self, traffic: Any, spread: Any) -> Any:
        """A joule a metre."""
        cost = LteWifi.cost(self, traffic, spread)
        cost.energy_up[:] = np.where(traffic.sender >= 0, traffic.distance, 0.0)
        return cost


@pytest.mark.parametrize("bad", [ChargesTheServer, SharesAChannel, NeedsPlaces])
def test_the_radio_contract_notices(bad: type[Part], scratch: None) -> None:
    part = register("radio", "bad")(bad)()
    with pytest.raises(AssertionError):
        contract.check_radio(part)


def test_a_part_without_its_methods_is_refused(scratch: None) -> None:
    with pytest.raises(InputError, match=r"lacks the method\(s\) step, bounds, groups"):

        @register("mobility", "half")
        class Half(Part):
            """Only a beginning."""

            def start(self) -> None:
                """Nothing."""


def test_streams_of_the_suite_are_the_programs_own() -> None:
    assert stream(1, "x").random() == stream(1, "x").random()
