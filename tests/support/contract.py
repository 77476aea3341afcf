"""What every part of a family promises, as functions that fail where a part breaks the promise.

`test_contract.py` holds them over everything registered. A part of your own is tested by the same functions:
`check_mobility(MyPattern())`.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
import tomllib
import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError
from safetensors.numpy import load, save
from scipy import sparse
from typing_extensions import override

from fedroam.attacks.attackers import Trained
from fedroam.components import FAMILIES, NODE_FAMILIES, Part, build, unit_of
from fedroam.contacts import GoesByRound, graph_of, pairs_of
from fedroam.cost import DistanceDistribution
from fedroam.data import Dataset
from fedroam.devices import Use
from fedroam.errors import InputError
from fedroam.experiment import Experiment, _lists
from fedroam.federation import AddsColumns, Beside, Meeting, Round, Traffic
from fedroam.federation.protocol import NOBODY
from fedroam.learning import Evaluates, Held, Job, Layout, Learner, Models, Scores, make_network
from fedroam.learning.objective import IsHanded
from fedroam.mixing import Facts, Received, Surroundings
from fedroam.mobility import Paths, World, checked
from fedroam.randomness import stream
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin
from support.learners import SMOOTH, check_steps, check_trajectory, clear, learner_of, problem

# Without shrinking: a failing example is wanted, not the smallest one.
QUICK = (Phase.explicit, Phase.generate)
THOROUGH = tuple(Phase)


class GlobalDraws:
    """Within it, nothing may draw from a global generator."""

    def __enter__(self) -> None:
        self.before = self._states()

    def __exit__(self, *_: object) -> None:
        assert self._states() == self.before, "draws from a global generator; use fedroam.randomness"

    @staticmethod
    def _states() -> tuple[Any, ...]:
        legacy = np.random.get_state()  # noqa: NPY002 (looks at the global state, which must stay as it is)
        return bytes(legacy[1].data), legacy[2], bytes(torch.random.get_rng_state().numpy().data)


# --- every part -------------------------------------------------------------------------------------------------


def check_part(part: Part) -> None:
    """Frozen, its settings build it again, wrong keys and values are refused, and it is documented."""
    cls, family = type(part), part.family
    with pytest.raises(ValidationError):
        part.surprise = 1  # type: ignore[attr-defined]
    for name in cls.model_fields:
        with pytest.raises(ValidationError):
            setattr(part, name, getattr(part, name))

    assert part.settings()["kind"] == cls.kind
    assert build(family, part.settings()) == part
    from_toml = tomllib.loads(tomli_w.dumps(_lists(part.settings())))
    assert build(family, from_toml) == part, "its settings do not survive an experiment file"

    for name in [*cls.model_fields, "kind"]:
        misspelt = f"{name}z"
        with pytest.raises(InputError) as caught:
            build(family, {**part.settings(), misspelt: 1})
        assert f"{family}.{misspelt}" in str(caught.value)
        assert f"did you mean {name!r}" in str(caught.value)
        assert "\n" not in str(caught.value)

    summary = (cls.__doc__ or "").strip().split("\n\n")[0]
    assert summary, f"{cls.__name__} has no docstring"
    assert cls.__doc__ != Part.__doc__
    assert summary.endswith("."), (
        f"{cls.__name__}: the docstring's first paragraph is its summary, in sentences"
    )
    for method in {**FAMILIES, **NODE_FAMILIES}[family].methods:
        assert inspect.getdoc(getattr(cls, method)), f"{cls.__name__}.{method} has no docstring"
    for name, info in cls.model_fields.items():
        assert info.description, f"{cls.__name__}.{name} has no description: use fedroam.field"
        if _is(info.annotation, float):
            for wrong in (math.nan, "1"):
                with pytest.raises(InputError) as caught:
                    build(family, {**part.settings(), name: wrong})
                assert f"{family}.{name}" in str(caught.value)
            if family in ("mobility", "contacts"):
                assert unit_of(info) or _is_share(part, name), (
                    f"{cls.__name__}.{name} is a number without unit"
                )


def _is(annotation: Any, kind: type) -> bool:
    return annotation is kind or kind in typing.get_args(annotation)


def _is_share(part: Part, name: str) -> bool:
    """Whether a field lies between 0 and 1 (a probability, a share) and so has no unit."""
    for wrong in (-1e-6, 1 + 1e-6):
        try:
            build(part.family, {**part.settings(), name: wrong})
        except InputError:
            continue
        return False
    return True


# --- mobility ---------------------------------------------------------------------------------------------------


def world(clients: int, seed: int = 1, reach: float = 3.0, classes: int = 3) -> World:
    """A world in which everybody holds samples of random classes."""
    counts = stream(seed, "test counts").integers(0, 9, size=(clients, classes)) + 1
    return World(seed, clients, counts, reach)


def check_mobility(part: Any, clients: int = 5, seed: int = 1, rounds: int = 8) -> None:
    """Deterministic, continuous paths within the bounds, and arrays that carry on as if nothing had happened."""
    facts = world(clients, seed)
    with GlobalDraws():
        states, ways = _walk(part, facts, rounds)
    again, _ = _walk(part, facts, rounds)
    for one, other in zip(states, again, strict=True):
        _same_arrays(one, other)

    low_x, low_y, high_x, high_y = part.bounds()
    low, high = np.array([low_x, low_y]), np.array([high_x, high_y])
    assert (low <= high).all()
    slack = 1e-9 * max(1.0, float(np.abs([*low, *high]).max()))
    assert states[0]["position"].dtype == np.float64
    assert ((states[0]["position"] >= low - slack) & (states[0]["position"] <= high + slack)).all()

    groups = part.groups(facts)
    assert groups.shape == (clients,)
    assert groups.dtype.kind == "U"

    limit = getattr(part, "max_step", math.inf)
    for before, after, paths in zip(states, states[1:], ways, strict=False):
        assert paths.first[0] == 0
        assert paths.first[-1] == len(paths.time) == len(paths.point)
        assert paths.clients == clients
        assert (np.diff(paths.first) >= 1).all()
        assert paths.present.shape == (clients,)
        assert paths.present.dtype == bool
        here = paths.present
        for i in np.flatnonzero(here):
            time = paths.time[paths.first[i] : paths.first[i + 1]]
            assert time[0] == 0, f"client {i}'s time begins at {time[0]}, not 0"
            assert time[-1] == 1, f"client {i}'s time ends at {time[-1]}, not 1"
            assert (np.diff(time) >= 0).all()
            points = paths.point[paths.first[i] : paths.first[i + 1]]
            inside = (points >= low - slack) & (points <= high + slack)
            assert inside.all(), f"client {i} leaves the bounds"
        assert (paths.end[here] == after["position"][here]).all(), "a path does not end at the new position"
        stayed = here & before.get("present", np.ones(clients)).astype(bool)
        assert (paths.start[stayed] == before["position"][stayed]).all(), (
            "a path does not begin where the last ended"
        )
        assert (paths.length[here] <= limit * (1 + 1e-12)).all(), "a move is longer than max_step"
        assert (paths.length[(groups == "static") & here] == 0).all(), "a static client moves"

    for k, held in enumerate(states):  # what a checkpoint keeps is enough to go on
        resumed = load(save({name: np.ascontiguousarray(array) for name, array in held.items()}))
        for t in range(k + 1, rounds + 1):
            resumed, _ = part.step(resumed, facts, t)
            _same_arrays(checked(resumed, facts), states[t])


def _walk(part: Any, facts: World, rounds: int) -> tuple[list[dict[str, np.ndarray]], list[Paths]]:
    state = checked(part.start(facts), facts)
    states, ways = [_copy(state)], []
    for t in range(1, rounds + 1):
        before = _copy(state)
        following, paths = part.step(state, facts, t)
        _same_arrays(state, before)  # the state that goes in is not changed
        state = checked(following, facts)
        states.append(_copy(state))
        ways.append(paths)
    return states, ways


def _copy(state: Any) -> dict[str, np.ndarray]:
    for name, array in state.items():
        assert isinstance(array, np.ndarray), f"state {name!r} is a {type(array).__name__}, not an array"
        assert array.dtype.kind in "biuf", f"state {name!r} holds {array.dtype}, allowed are numbers"
    return {name: array.copy() for name, array in state.items()}


def _same_arrays(a: Any, b: Any) -> None:
    assert sorted(a) == sorted(b)
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# --- contacts ---------------------------------------------------------------------------------------------------


@st.composite
def movements(draw: Any) -> Paths:
    """Paths of up to eight clients, one to three legs each, some of them away; distances from 0 to about 30 m."""
    clients = draw(st.integers(1, 8))
    coordinate = st.one_of(st.integers(0, 8).map(float), st.floats(0, 20, width=32))
    paths = []
    for _ in range(clients):
        legs = draw(st.integers(1, 3))
        points = np.array([[draw(coordinate), draw(coordinate)] for _ in range(legs + 1)])
        paths.append((np.linspace(0.0, 1.0, legs + 1), points))
    present = draw(arrays(bool, clients))
    return _paths(paths, present)


def _paths(paths: Sequence[tuple[np.ndarray, np.ndarray]], present: np.ndarray) -> Paths:
    first = np.cumsum([0, *(len(time) for time, _ in paths)]).astype(np.int64)
    return Paths(first, np.concatenate([t for t, _ in paths]), np.concatenate([p for _, p in paths]), present)


def permuted(paths: Paths, order: np.ndarray) -> Paths:
    """The same movement with client order[k] in place k."""
    parts = [slice(paths.first[i], paths.first[i + 1]) for i in order]
    return _paths([(paths.time[p], paths.point[p]) for p in parts], paths.present[order])


def closest(paths: Paths, i: int, j: int) -> float:
    """Closest approach of two clients: on a common leg their difference moves on a straight line."""

    def at(k: int, times: np.ndarray) -> np.ndarray:
        own = slice(paths.first[k], paths.first[k + 1])
        time, point = paths.time[own], paths.point[own]
        return np.stack([np.interp(times, time, point[:, axis]) for axis in (0, 1)], axis=1)

    def time(k: int) -> np.ndarray:
        return paths.time[paths.first[k] : paths.first[k + 1]]

    times = np.unique(np.concatenate([time(i), time(j)]))
    gap, best = at(i, times) - at(j, times), math.inf
    for a, b in itertools.pairwise(gap):
        way = b - a
        s = 0.0 if not way.any() else float(np.clip(-(a @ way) / (way @ way), 0, 1))
        best = min(best, float(np.hypot(*(a + s * way))))
    return best


def check_contacts(part: Any, phases: tuple[Phase, ...] = THOROUGH) -> None:
    """Symmetric, without self-contact; absent ones meet nobody; reach is kept; blind to the clients' order, unless the
    rule tells of clients by round."""

    @settings(max_examples=40, phases=phases)
    @given(movements(), st.randoms(use_true_random=False))
    def holds(paths: Paths, random: Any) -> None:
        with GlobalDraws():
            graph = part.meet(paths)
        n = paths.clients
        assert graph.shape == (n, n)
        assert graph.dtype == bool
        rows = np.repeat(np.arange(n), np.diff(graph.indptr))
        assert (np.diff(rows * n + graph.indices) > 0).all(), "not sorted, or a contact is listed twice"
        assert graph.has_sorted_indices
        assert graph.has_canonical_format
        dense = graph.toarray()
        assert dense.sum() == graph.nnz, "stores contacts that are none"
        assert (dense == dense.T).all(), "not symmetric"
        assert not dense.diagonal().any(), "somebody meets itself"
        assert not dense[~paths.present].any(), "an absent client has contacts"
        assert (part.meet(paths).toarray() == dense).all(), "not deterministic"
        if not isinstance(part, GoesByRound):
            order = np.array(random.sample(range(n), n))
            again = part.meet(permuted(paths, order)).toarray()
            assert (again == dense[np.ix_(order, order)]).all(), "depends on the order of the clients"
        reach = part.reach()
        assert reach >= 0
        for i, j in pairs_of(graph):
            assert closest(paths, i, j) <= reach * (1 + 1e-9), "a contact beyond the reach"
        if "radius" in type(part).model_fields:
            seen = [
                part.model_copy(update={"radius": r}).meet(paths).toarray() for r in (0.0, 1.0, 5.0, math.inf)
            ]
            for narrow, wide in itertools.pairwise(seen):
                assert (narrow <= wide).all(), "a larger radius loses contacts"
            pairs = np.outer(paths.present, paths.present) & ~np.eye(n, dtype=bool)
            assert (seen[-1] == pairs).all(), "an infinite radius does not connect everybody present"

    holds()


# --- access points ----------------------------------------------------------------------------------------------


def check_access_points(part: Any, mobility: Any) -> None:
    """Places in metres, the same for the same seed; those that are drawn lie within the world."""
    with GlobalDraws():
        places = part.places(mobility, 3)
    assert places.dtype == np.float64
    assert places.shape == (len(places), 2)
    assert np.isfinite(places).all()
    np.testing.assert_array_equal(places, part.places(mobility, 3), err_msg="not deterministic")
    if "path" not in type(part).model_fields:
        low, high = np.reshape(mobility.bounds(), (2, 2))
        assert ((places >= low) & (places <= high)).all(), "beyond the world"


# --- mixing -----------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: Any, most: int = 9) -> sparse.csr_array:
    """Contact graphs of up to `most` clients."""
    n = draw(st.integers(1, most))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if draw(st.booleans())]
    return graph_of(np.array(pairs, dtype=np.int64).reshape(-1, 2), n)


def check_mixing(part: Any, phases: tuple[Phase, ...] = THOROUGH) -> None:
    """Rows are averages over the client and those it meets; doubly stochastic where the docstring says so."""
    doubly = "doubly stochastic" in (type(part).__doc__ or "")

    @settings(max_examples=60, phases=phases)
    @given(graphs(), st.randoms(use_true_random=False))
    def holds(graph: sparse.csr_array, random: Any) -> None:
        n = graph.shape[0]
        samples = np.array([random.choice([0, 1, 7, 600, 60_000]) for _ in range(n)], dtype=np.int64)
        places = np.array([[random.choice([0.0, 0.5, 40.0]), random.random()] for _ in range(2 * n)])
        paths = Paths.straight(places[:n], places[n:])
        around = Surroundings(paths, graph, 3.0, np.ones((n, 2), dtype=np.int64))
        facts = Facts.of(part, samples, around)
        with GlobalDraws():
            weights = part.weights(graph, facts)
        dense = weights.toarray()
        assert dense.shape == (n, n)
        assert dense.dtype == np.float64
        assert (dense >= 0).all(), "a negative weight"
        assert np.abs(dense.sum(axis=1) - 1).max() <= 1e-12, "rows do not sum to 1"
        allowed = graph.toarray() | np.eye(n, dtype=bool)
        assert not dense[~allowed].any(), "a weight without contact"
        alone = ~graph.toarray().any(axis=1)
        assert (dense.diagonal()[alone] == 1).all(), "an isolated client does not keep its model"
        if doubly:
            assert np.abs(dense.sum(axis=0) - 1).max() <= 1e-12, "columns do not sum to 1"
        order = np.array(random.sample(range(n), n))
        moved = graph_of(_relabelled(graph, order), n)
        turned = Paths.straight(places[:n][order], places[n:][order])
        around = Surroundings(turned, moved, 3.0, around.class_counts)
        again = part.weights(moved, Facts.of(part, samples[order], around)).toarray()
        np.testing.assert_allclose(again, dense[np.ix_(order, order)], rtol=0, atol=1e-14)

    holds()


def _relabelled(graph: sparse.csr_array, order: np.ndarray) -> np.ndarray:
    place = np.argsort(order)  # client order[k] gets the number k
    return np.sort(place[pairs_of(graph)], axis=1)


# --- aggregation ------------------------------------------------------------------------------------------------


def received(models: np.ndarray, own: int | None = 0, **other: Any) -> Received:
    """Models (float32 [models, values]) at a client whose own is among them, or at a server with a model of zeros."""
    m = len(models)
    at_server = np.zeros(models.shape[1], dtype=np.float32)
    given: dict[str, Any] = {"weights": np.full(m, 1 / m), "round": 1, "rounds": 10, **other}
    held = at_server if own is None else models[own]
    return Received(held, models, holder=-1 if own is None else own, holders=np.arange(m), **given)


def facts_of(part: object, clients: int) -> Facts:
    """Facts of a world in which nobody moves and everybody meets everybody."""
    pairs = np.array([(i, j) for i in range(clients) for j in range(i)], dtype=np.int64).reshape(-1, 2)
    paths = Paths.still(np.zeros((clients, 2)))
    around = Surroundings(paths, graph_of(pairs, clients), 1.0, np.ones((clients, 2), dtype=np.int64))
    return Facts.of(part, np.ones(clients, dtype=np.int64), around)


def check_aggregation(part: Any, phases: tuple[Phase, ...] = THOROUGH) -> None:
    """Of equal models it makes that model; it stays in the box of what it is given and its own model, depends on
    no order, changes nothing and draws nothing.
    """

    @settings(max_examples=60, phases=phases, deadline=None)
    @given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 2**32), st.booleans(), st.integers(1, 10))
    def holds(m: int, size: int, seed: int, client: bool, round: int) -> None:
        draws = stream(seed, "models")
        models = draws.standard_normal((m, size)).astype(np.float32)
        shares = draws.random(m) + 0.01
        one = received(models, 0 if client else None, weights=shares / shares.sum(), round=round)
        facts, before = facts_of(part, m), models.copy()
        with GlobalDraws():
            found = part.aggregate(one, facts)
        np.testing.assert_array_equal(models, before, err_msg="models are written into")
        assert found.dtype == np.float32
        assert found.shape == (size,)
        assert not np.shares_memory(found, models), "gives back a view of what it was given"
        box = np.vstack([models, one.own])
        slack = 1e-5 * max(1.0, float(np.abs(box).max()))
        assert ((found >= box.min(0) - slack) & (found <= box.max(0) + slack)).all(), "outside of all models"
        order = draws.permutation(m)
        turned = Received(
            one.own, models[order], one.weights[order], one.holder, one.holders[order], round, one.rounds
        )
        np.testing.assert_allclose(part.aggregate(turned, facts), found, rtol=0, atol=slack)
        same = np.repeat(models[:1], m, axis=0)
        alike = received(same, 0, weights=one.weights, round=round)
        np.testing.assert_allclose(part.aggregate(alike, facts), models[0], rtol=0, atol=slack)

    holds()


def check_attack(part: Any) -> None:
    """Attackers are the same every time and not everybody, classes stay classes, what is sent has the models' shape."""
    for clients in (1, 2, 9):
        with GlobalDraws():
            found = part.attackers(3, clients)
        assert found.dtype == np.int64
        assert len(found) < clients
        assert (np.diff(found) > 0).all()
        assert not len(found) or (found[0] >= 0 and found[-1] < clients)
        np.testing.assert_array_equal(part.attackers(3, clients), found)
    y = np.arange(5)
    lied = part.labels(y, 5)
    assert lied.dtype == y.dtype
    assert sorted(np.unique(lied)) == sorted(set(lied.tolist()) & set(range(5))), "no such class"
    draws = stream(4, "attack")
    begun, trained = (torch.from_numpy(draws.standard_normal((2, 6)).astype(np.float32)) for _ in range(2))
    everything = torch.cat([trained, begun + 1])
    known = Trained(begun, trained.clone(), np.array([1, 4]), everything.clone(), np.array([2, 3]), 9, 3, 5)
    with GlobalDraws():
        sent = part.sent(known)
    assert sent.shape == begun.shape
    assert sent.dtype == torch.float32
    assert bool(torch.isfinite(sent).all())
    assert torch.equal(known.trained, trained), "the true models are written into"
    assert torch.equal(known.models, everything), "all models are written into"
    assert torch.equal(part.sent(known), sent), "not deterministic"


# --- data -------------------------------------------------------------------------------------------------------


def check_data(part: Any) -> None:
    """The same samples every time, in the promised shapes, held once in memory."""
    with GlobalDraws():
        dataset = part.load()
    assert isinstance(dataset, Dataset)
    assert dataset.classes >= 2
    assert dataset.x_train.ndim in (2, 4)
    assert dataset.x_test.shape[1:] == dataset.x_train.shape[1:]
    assert dataset.fingerprint == part.load().fingerprint
    for name, column in dataset.columns.items():
        assert len(column) == len(dataset.y_train), f"column {name!r} is not as long as the training samples"


def check_partition(part: Any, dataset: Dataset, clients: int) -> None:
    """Indices of training samples, the same for the same stream.

    Each sample is dealt exactly once where the docstring says "every sample has one holder", and at most once
    where it says "no sample has two holders".
    """
    with GlobalDraws():
        parts = part.split(dataset, clients, stream(3, "partition"))
    again = part.split(dataset, clients, stream(3, "partition"))
    assert len(parts) == clients
    for one, other in zip(parts, again, strict=True):
        assert one.dtype == np.int64
        assert one.ndim == 1
        np.testing.assert_array_equal(one, other, err_msg="not deterministic")
        assert len(one) == 0 or (one.min() >= 0 and one.max() < len(dataset.y_train)), "no such sample"
    dealt, promise = np.concatenate(parts), " ".join((type(part).__doc__ or "").split())
    assert len(dealt), "nobody holds a sample"
    if re.search("every sample has (exactly )?one holder", promise, re.IGNORECASE):
        assert sorted(dealt) == list(range(len(dataset.y_train))), "not every sample has one holder"
    if re.search("no sample has two holders", promise, re.IGNORECASE):
        assert len(np.unique(dealt)) == len(dealt), "a sample is dealt twice"


# --- models -----------------------------------------------------------------------------------------------------

SHAPES = ((1, 8, 8), (1, 16, 16), (3, 32, 32), (64,), (196,))


def shape_for(part: Any) -> tuple[int, ...]:
    """The first of a few shapes of samples that a model takes."""
    for shape in SHAPES:
        try:
            with torch.random.fork_rng(devices=[]):
                part.build(shape, 10)
        except InputError:
            continue
        return shape
    raise AssertionError(f"model {part.kind!r} takes none of the shapes {SHAPES}")


def check_model(part: Any) -> None:
    """Start values depend on the stream alone; logits [n, classes]; parameters are float32 and get gradients."""
    shape = shape_for(part)
    make = partial(part.build, shape, 10)
    with GlobalDraws():
        one, same = make_network(make, 1), make_network(make, 1)
        other_seed, other_client = make_network(make, 2), make_network(make, 1, client=1)
    layout = Layout.of(one)
    rows = Models.empty(layout, 4, momentum=False)
    for k, network in enumerate((one, same, other_seed, other_client)):
        layout.write(network, rows.parameters[k], rows.buffers[k])
    assert torch.equal(rows.parameters[0], rows.parameters[1]), "start values differ for the same stream"
    assert not torch.equal(rows.parameters[0], rows.parameters[2]), "start values do not depend on the seed"
    assert not torch.equal(rows.parameters[0], rows.parameters[3]), "start values do not depend on the client"
    assert {p.dtype for p in one.parameters()} == {torch.float32}
    x = torch.from_numpy(stream(1, "test input").standard_normal((3, *shape)).astype(np.float32))
    logits = one.eval()(x)
    assert logits.shape == (3, 10)
    assert bool(torch.isfinite(logits).all())
    logits.sum().backward()
    assert all(p.grad is not None for p in one.parameters() if p.requires_grad)


# --- learning ---------------------------------------------------------------------------------------------------


def check_training(part: Any) -> None:
    """Batches are positions within the client's samples, drawn from the given stream alone."""
    for samples in (0, 1, 7, 40):
        with GlobalDraws():
            one = list(part.batches(samples, stream(1, "batches", 2, 3)))
        same = list(part.batches(samples, stream(1, "batches", 2, 3)))
        assert len(one) == len(same)
        assert len(one) > 0 or samples == 0 or getattr(part, "drop_last", False)
        for batch, again in zip(one, same, strict=True):
            np.testing.assert_array_equal(batch, again)
            assert batch.dtype.kind == "i"
            assert len(batch), "an empty batch"
            assert batch.min() >= 0
            assert batch.max() < samples
            assert len(np.unique(batch)) == len(batch), "a sample twice in one batch"
    assert isinstance(part.keeps_momentum(), bool)


def check_objective(part: Any) -> None:
    """A finite mean over samples, whose gradient adds up over the pieces of a batch."""
    draws = stream(1, "test objective")
    x = torch.from_numpy(draws.standard_normal((12, 5)).astype(np.float32))
    y = torch.from_numpy(draws.integers(0, 4, 12))
    module = make_network(lambda: torch.nn.Linear(5, 4), 1)

    def gradient(pieces: Sequence[slice]) -> tuple[float, torch.Tensor]:
        module.zero_grad()
        total = 0.0
        for piece in pieces:
            loss = part.loss(module, x[piece], y[piece])
            assert loss.shape == ()
            share = len(y[piece]) / len(y)
            (loss * share).backward()
            total += float(loss.detach()) * share
        return total, torch.cat([p.grad.reshape(-1) for p in module.parameters()])

    with GlobalDraws():
        whole, slope = gradient([slice(None)])
    parts, same_slope = gradient([slice(0, 5), slice(5, 6), slice(6, 12)])
    assert math.isfinite(whole)
    assert abs(whole - parts) < 1e-6 * max(1.0, abs(whole)), "not a mean over samples"
    torch.testing.assert_close(same_slope, slope, rtol=1e-4, atol=1e-6)
    assert bool(slope.any()), "no gradient"


def check_engine(part: Any) -> None:
    """Trains as float64 would, and judges as the reference engine; twice to the same bits; touches its rows only."""
    settings_of_training: list[dict[str, Any]] = [
        {"lr": 0.02},
        {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.01, "batch_size": 4, "steps": 3, "lr_decay": 0.9},
        {"lr": 0.01, "momentum": 0.9, "momentum_state": "reset", "batch_size": 4, "epochs": 2},
    ]
    for fields in settings_of_training:
        training: Any = build("training", {"kind": "sgd", **fields})
        for network in ("batched", "autograd"):
            shape, make = SMOOTH[network]
            case = problem(make, shape, (20, 9, 0, 1), training=training)
            with GlobalDraws():
                models = check_trajectory(case, part, clients=(0, 1, 2))
            again = check_trajectory(case, part, clients=(0, 1, 2))
            assert torch.equal(models.parameters, again.parameters), "not deterministic"
            start = case.start()
            assert torch.equal(models.parameters[3], start.parameters[3]), "touches a row without a job"
            assert torch.equal(models.parameters[2], start.parameters[2]), "changes a model without samples"
            assert not torch.equal(models.parameters[0], start.parameters[0]), "does not train"
    step: Any = build("training", {"kind": "sgd", "lr": 0.05})
    case = problem("mlp", (12,), (20, 9, 0), training=step, hidden=(6,))
    models, found = check_steps(case, part), []
    sure = clear(case, models)
    for engine in ("reference", part):
        learner = learner_of(case.task, engine)
        x, y, parts = case.task.x[sure], case.task.y[sure], [np.arange(5), np.arange(3, 12), np.arange(0)]
        found.append(learner.evaluate(models, [0, 1, 2], x, y, parts))
        learner.close()
    truth, scores = found
    assert (scores.correct == truth.correct).all()
    assert (scores.samples == truth.samples).all()
    np.testing.assert_allclose(scores.loss, truth.loss, rtol=1e-5, equal_nan=True)


# --- activity ----------------------------------------------------------------------------------------------------


def check_activity(part: Any, clients: int) -> None:
    """Plain arrays, the same for the same seed whoever asks, from a copy of the state as from the state itself."""

    def played(seed: int) -> list[np.ndarray]:
        state, found = part.start(seed, clients), []
        for t in range(1, 12):
            assert state["active"].shape == (clients,)
            assert state["active"].dtype == bool
            found.append(state["active"])
            kept = _copy(state)
            following = part.step(state, seed, clients, t)
            _same_arrays(state, kept)
            state = _copy(following)
        return found

    with GlobalDraws():
        first = played(3)
    assert all((a == b).all() for a, b in zip(first, played(3), strict=True)), "not deterministic"
    assert np.array(first).any(), "nobody is ever active"


# --- federation -------------------------------------------------------------------------------------------------


class Asked(Evaluates, Learner):
    """A learner that notes how many samples each client passes forward when it is asked to: through its whole network,
    and through the extractor alone."""

    def __init__(self, learner: Learner, clients: int) -> None:
        self.here, self.task, self.notes = learner, learner.task, learner.notes
        self.clients = clients
        self.forget()

    def forget(self) -> None:
        """Begin to count."""
        self.beside = Beside.of(self.clients, NOBODY)

    @override
    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        return self.here.train(models, jobs)

    @override
    def judge(self, models: Models, rows: Sequence[int], held: Sequence[Held]) -> Scores:
        for own in held:
            self.beside.network[own.client] += len(own.samples)
        return super().judge(models, rows, held)

    @override
    def represent(self, models: Models, rows: Sequence[int], held: Sequence[Held]) -> list[torch.Tensor]:
        for own in held:
            self.beside.extractor[own.client] += len(own.samples)
        return super().represent(models, rows, held)


def check_handed(scene: Scene, jobs: Sequence[Job]) -> None:
    """An objective says the shapes of what its federation hands it, so that its arithmetic can be counted."""
    objective, x = scene.task.objective, scene.task.x[:1]
    for job in jobs:
        handed = job.handed(torch.zeros(1, dtype=torch.int64))
        if not handed:
            continue
        told = objective.handed_like(scene.task.network(), x) if isinstance(objective, IsHanded) else {}
        for name, found in handed.items():
            assert name in told, f"{name} is handed, and the objective does not tell its shape (handed_like)"
            assert told[name].shape == found.shape, name
            assert told[name].dtype == found.dtype, name


def check_federation(experiment: Experiment) -> None:
    """Learners exist and are present; traffic follows contacts; models are finite; state is plain arrays; what clients
    are asked to compute of samples beside training is told beforehand."""
    scene = prepare(experiment)
    try:
        state = begin(scene)
        part, context = scene.parts.federation, scene.context
        learner = Asked(scene.learner, context.clients)
        begun = part.init(context, scene.start_models, learner)
        held, models = begun.state, begun.models
        before = state.meeting
        for t in range(1, 5):
            learner.forget()
            old = _copy(held)
            with GlobalDraws():
                given = part.distribute(Round(t, models, held, context, before, learner))
            _same_arrays(held, old)
            learners = [job.client for job in given.jobs]
            rows = [job.row for job in given.jobs]
            assert len(set(rows)) == len(rows), "two jobs train one row"
            assert all(0 <= row < len(given.models) for row in rows)
            assert before.paths.present[learners].all(), "an absent client trains"
            assert (context.samples[learners] > 0).all(), "a client without samples trains"
            assert all(job.round == t for job in given.jobs)
            check_handed(scene, given.jobs)
            learner.train(given.models, given.jobs)
            _, paths = scene.parts.mobility.step(state.mobility, scene.world, t)
            state.mobility, _ = scene.parts.mobility.step(state.mobility, scene.world, t)
            after = Meeting(paths, scene.parts.contacts.meet(paths))
            old = _copy(given.state)
            with GlobalDraws():
                done = part.exchange(Round(t, given.models, given.state, context, before, learner), after)
            _same_arrays(given.state, old)
            told = given.beside or Beside.of(context.clients, NOBODY)
            for name in ("network", "extractor"):
                np.testing.assert_array_equal(
                    vars(learner.beside)[name], vars(told)[name], err_msg=f"samples passed forward: {name}"
                )
            assert bool(torch.isfinite(done.models.parameters).all())
            assert set(done.facts) == set(part.columns if isinstance(part, AddsColumns) else ())
            for clients in (done.aggregated, done.discarded):
                assert len(np.unique(clients)) == len(clients)
            assert not set(done.aggregated) & set(done.discarded)
            judged = part.evaluation_models(done.models, done.state, context)
            assert judged
            for how in judged.values():
                assert how.row.shape == (context.clients,)
                assert ((how.row >= -1) & (how.row < len(how.models))).all()
                assert how.mean is None or len(how.mean) == 1
            traffic, graph = done.traffic, done.meeting.graph.toarray()
            assert len(traffic.sender) == len(traffic.receiver) == len(traffic.bytes) == len(traffic.distance)
            assert traffic.bytes.dtype == np.int64
            assert (traffic.bytes > 0).all()
            among = (traffic.sender >= 0) & (traffic.receiver >= 0)
            assert graph[traffic.sender[among], traffic.receiver[among]].all(), (
                "sends to a client out of contact"
            )
            places = done.meeting.paths.end
            gaps = places[traffic.sender[among]] - places[traffic.receiver[among]]
            np.testing.assert_allclose(
                traffic.distance[among], np.hypot(*gaps.T), err_msg="not their distance"
            )
            assert traffic.total == traffic.bytes.sum()
            held, models, before = _copy(done.state), done.models, after
    finally:
        scene.learner.close()


# --- radio ------------------------------------------------------------------------------------------------------


def check_radio(part: Any) -> None:
    """Clients pay for what they send and receive, nobody else; each transfer has its price, whatever else is sent."""
    draws, spread = stream(3, "radio"), DistanceDistribution(900.0, 700.0)
    n = 200
    sender, receiver = draws.integers(-4, 5, (2, n))
    distance = np.where(draws.random(n) < 0.3, np.nan, draws.exponential(900.0, n))
    traffic = Traffic.of(sender, receiver, draws.integers(1, 10**7, n), distance)
    names = ("energy_up", "energy_down", "time_up", "time_down")
    with GlobalDraws():
        cost, again = part.cost(traffic, spread), part.cost(traffic, spread)
    for name in names:
        values = getattr(cost, name)
        assert values.shape == (n,)
        assert values.dtype == np.float64
        assert np.isfinite(values).all(), f"{name}: not a number"
        assert (values >= 0).all(), f"{name}: gives back"
        np.testing.assert_array_equal(values, getattr(again, name), err_msg="not deterministic")
        end = sender if name.endswith("up") else receiver
        assert not values[end < 0].any(), f"{name}: charges an end that is no client"
    order = draws.permutation(n)[: n // 2]
    part_of = Traffic(
        *(getattr(traffic, name)[order] for name in ("sender", "receiver", "bytes", "distance"))
    )
    some = part.cost(part_of, spread)
    for name in names:
        np.testing.assert_array_equal(
            getattr(some, name), getattr(cost, name)[order], err_msg="depends on others"
        )
    nothing = part.cost(Traffic.nothing(), DistanceDistribution())
    assert all(getattr(nothing, name).shape == (0,) for name in names)
    given = part.spread()
    assert given is None or given.known
    clients, samples = draws.integers(0, 5, (2, 30))
    joules = part.training(clients, samples)
    assert joules.shape == (30,)
    assert (joules >= 0).all()
    assert not joules[samples == 0].any(), "training on nothing costs energy"
    np.testing.assert_allclose(part.training(clients, 2 * samples), 2 * joules, err_msg="not by samples")


# --- time -------------------------------------------------------------------------------------------------------


def check_link(part: Any) -> None:
    """A positive rate for each transfer, whatever else is sent, at any distance and where there is none."""
    assert part.setup >= 0
    assert 0 <= part.loss < 1
    assert part.simultaneous is None or part.simultaneous >= 1
    assert part.broken in ("lost", "resumed", "partial")
    assert part.chunk >= 4
    assert part.chunk % 4 == 0
    assert part.kept >= 1
    assert isinstance(part.shared, bool)
    draws, n = stream(3, "link"), 200
    pair = draws.integers(-4, 9, (n, 2))
    distance = np.where(draws.random(n) < 0.3, np.nan, draws.exponential(100.0, n))
    distance[0] = 0.0
    with GlobalDraws():
        rate, again = part.rate(distance, 5, pair), part.rate(distance, 5, pair)
    assert rate.shape == (n,)
    assert rate.dtype == np.float64
    assert (rate >= 0).all(), "a rate is no number, or below 0"
    np.testing.assert_array_equal(rate, again, err_msg="not deterministic")
    order = draws.permutation(n)[: n // 2]
    np.testing.assert_array_equal(
        part.rate(distance[order], 5, pair[order]), rate[order], err_msg="depends on others"
    )
    direct = (pair >= 0).all(axis=1)
    back = part.rate(distance, 5, pair[:, ::-1])
    np.testing.assert_array_equal(back[direct], rate[direct], err_msg="not the same both ways")
    assert part.rate(np.zeros(0), 5, np.zeros((0, 2), np.int64)).shape == (0,)


def check_compute(part: Any) -> None:
    """Seconds that are finite, none for nothing, twice as many for twice the work; nobody's depends on others."""
    draws, n = stream(3, "compute"), 60
    clients, passes = draws.integers(0, 9, n), draws.integers(0, 500, n)
    with GlobalDraws():
        seconds = part.seconds(5, clients, passes, 1e6)
    assert seconds.shape == (n,)
    assert seconds.dtype == np.float64
    assert np.isfinite(seconds).all()
    assert (seconds >= 0).all()
    assert not seconds[passes == 0].any(), "training on nothing takes time"
    np.testing.assert_array_equal(part.seconds(5, clients, passes, 1e6), seconds, err_msg="not deterministic")
    np.testing.assert_array_equal(
        part.seconds(5, clients[::-1], passes[::-1], 1e6), seconds[::-1], err_msg="depends on others"
    )
    np.testing.assert_allclose(
        part.seconds(5, clients, 2 * passes, 1e6), 2 * seconds, err_msg="not by passes"
    )


def check_clock(part: Any) -> None:
    """A length above 0, or none."""
    assert part.length is None or 0 < part.length < math.inf
    assert part.wait in ("all", "deadline", "minimum")
    assert part.late in ("dropped", "carried")
    assert part.minimum >= 1


def check_motion(part: Any) -> None:
    """Finite watts, not below 0, each by its own speed."""
    speed = np.array([0.0, 0.1, 1.0, 5.0, 15.0, 40.0, 300.0])
    watts = part.power(speed)
    assert watts.shape == speed.shape
    assert np.isfinite(watts).all()
    assert (watts >= 0).all()
    np.testing.assert_array_equal(part.power(speed[::-1])[::-1], watts, err_msg="depends on others")


def check_battery(part: Any) -> None:
    """Plain arrays [clients] that stay within their limits, are not changed in place, and follow from the seed."""
    clients, draws = 6, stream(3, "battery use")
    state, again = part.start(5, clients), part.start(5, clients)
    for name, array in state.items():
        np.testing.assert_array_equal(again[name], array, err_msg="not deterministic")
    for t in range(50):
        ends = np.sort(draws.integers(0, 7, (clients, 5)) * 100.0, axis=1)
        ends[:, -1] = 600.0
        use = Use(
            600.0 * t,
            ends,
            draws.random(clients) < 0.8,
            *draws.exponential(2.0, (2, clients, 5)),
            *draws.integers(0, 2, (2, clients, 5)).astype(np.float64),
            draws.exponential(100.0, (clients, 5)),
            dies=np.full(clients, np.inf),
        )
        held = {name: array.copy() for name, array in state.items()}
        with GlobalDraws():
            following, empty = part.step(state, use), part.empty(state, use)
        assert ((empty >= 0) & ((empty <= 600.0) | np.isinf(empty))).all()
        edges = part.edges(600.0 * t, 600.0)
        assert ((edges > 0) & (edges < 600.0)).all()
        for name, array in held.items():
            np.testing.assert_array_equal(state[name], array, err_msg=f"{name} was changed in place")
        assert following.keys() == state.keys()
        for name, array in following.items():
            assert array.shape == (clients,)
            assert array.dtype == state[name].dtype
        if state:
            assert (following["charge"] >= 0).all()
            died = following["gone"] & ~state["gone"]
            assert np.isfinite(empty[died]).all(), "gone without a moment in which it ran empty"
            assert (following["drawn"] >= state["drawn"]).all()
            assert (following["drawn_motion"] <= following["drawn"] + 1e-9).all()
            assert not (following["gone"] & np.isnan(following["died"])).any(), "gone, and never died"
        state = following


CHECKS: dict[str, Callable[..., None]] = {
    "mobility": check_mobility,
    "activity": check_activity,
    "access_points": check_access_points,
    "contacts": check_contacts,
    "mixing": check_mixing,
    "aggregation": check_aggregation,
    "attack": check_attack,
    "data": check_data,
    "model": check_model,
    "training": check_training,
    "objective": check_objective,
    "engine": check_engine,
    "radio": check_radio,
    "link": check_link,
    "compute": check_compute,
    "motion": check_motion,
    "battery": check_battery,
    "clock": check_clock,
}
