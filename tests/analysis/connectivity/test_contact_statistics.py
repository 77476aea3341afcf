"""Connectivity without training: windows, smallest B, mixing parameters, tables and the command."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fedroam.analysis.connectivity.contact_statistics import (
    Meetings,
    contact_table,
    pattern_table,
    recorded,
    round_table,
    simulate,
    summary,
    window_table,
)
from fedroam.analysis.connectivity.spectral import (
    connects,
    deviations,
    doubly_stochastic,
    mixing_parameter,
    mixing_parameters,
    spectral_gap,
    spectral_gaps,
    window_parameters,
)
from fedroam.analysis.connectivity.windows import (
    connected_windows,
    first_contacts,
    latest_starts,
    smallest_window,
)
from fedroam.components import build
from fedroam.contacts import graph_of
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.mixing import Facts
from fedroam.randomness import stream
from fedroam.runner import run
from support.commands import Commands, contents
from support.effort import calls
from support.tiny import tiny

TEN = 10


def graph(clients: int, *pairs: tuple[int, int]) -> sparse.csr_array:
    return graph_of(np.array(pairs, dtype=np.int64).reshape(-1, 2), clients)


def random_graph(draws: np.random.Generator, clients: int, share: float) -> sparse.csr_array:
    i, j = np.triu_indices(clients, k=1)
    met = draws.random(len(i)) < share
    return graph_of(np.stack([i[met], j[met]], axis=1), clients)


def weights_of(kind: str, one: sparse.csr_array, samples: np.ndarray | None = None) -> sparse.csr_array:
    n = one.shape[0]
    facts = Facts(samples=np.ones(n, dtype=np.int64) if samples is None else samples, speed=np.ones(n))
    return build("mixing", kind).weights(one, facts)  # type: ignore[attr-defined, no-any-return]


def connected(graphs: list[sparse.csr_array]) -> bool:
    """The slow and obvious version."""
    union = sum((one.astype(np.int64) for one in graphs[1:]), graphs[0].astype(np.int64))
    return bool(connected_components(union, directed=False, return_labels=False) == 1)


@st.composite
def sequences(draw: st.DrawFn) -> list[sparse.csr_array]:
    clients, rounds = draw(st.integers(1, 5)), draw(st.integers(1, 14))
    pairs = list(itertools.combinations(range(clients), 2))
    some = st.lists(st.sampled_from(pairs), max_size=3, unique=True) if pairs else st.just([])
    return [graph(clients, *draw(some)) for _ in range(rounds)]


@given(sequences())
def test_every_window_and_the_smallest_b_equal_brute_force(graphs: list[sparse.csr_array]) -> None:
    clients, rounds = graphs[0].shape[0], len(graphs)
    latest = latest_starts(graphs, clients)
    for aligned, keep in ((True, False), (True, True), (False, False)):
        smallest = None
        for b in range(1, rounds + 1):
            starts = range(0, rounds - b + 1, b if aligned else 1)
            wanted = [connected(graphs[s : s + b]) for s in starts]
            if keep and rounds % b:
                wanted.append(connected(graphs[rounds - rounds % b :]))
            found = connected_windows(latest, b, sliding=not aligned, keep_last=keep)
            assert found.tolist() == wanted
            if all(wanted) and smallest is None:
                smallest = (b, len(wanted))
        got = smallest_window(latest, sliding=not aligned, keep_last=keep)
        assert (got.length, got.windows) == (smallest or (None, 0))
        if not keep:
            assert (got.length is None) == (not connected(graphs))


def test_a_larger_window_need_not_do_it_as_well() -> None:
    """One of two clients' meetings a round: at 4, 5 (from 0), 14, 15, 24 and so on. 5 does it, 6 does not."""
    apart, met = graph(2), graph(2, (0, 1))
    graphs = [met if t % TEN in (4, 5) else apart for t in range(60)]
    latest = latest_starts(graphs, 2)
    assert smallest_window(latest).length == 5
    assert not connected_windows(latest, 6).all()
    sliding = smallest_window(latest, sliding=True)
    assert sliding.length == 9  # between the meetings at 5 and 14 lie 8 rounds without one
    assert all(connected_windows(latest, b, sliding=True).all() for b in range(9, 60))


def test_a_static_graph_in_two_parts_has_no_b() -> None:
    latest = latest_starts([graph(4, (0, 1), (2, 3))] * 50, 4)
    assert smallest_window(latest).length is None
    assert smallest_window(latest, sliding=True).length is None


def test_an_incomplete_last_window_counts_only_if_asked_for() -> None:
    latest = latest_starts([graph(2, (0, 1)), graph(2), graph(2, (0, 1)), graph(2), graph(2)], 2)
    assert smallest_window(latest).length == 2
    assert smallest_window(latest, keep_last=True).length == 5
    with pytest.raises(InputError, match="window of 6 rounds: allowed is 1 to 5"):
        connected_windows(latest, 6)


def test_first_contacts_and_tables_of_a_sequence_worked_by_hand() -> None:
    graphs = (graph(3, (1, 2)), graph(3), graph(3, (0, 2), (1, 2)))
    weights = tuple(weights_of("metropolis", one) for one in graphs)
    meetings = Meetings(3, graphs, weights)
    assert first_contacts(graphs).tolist() == [[0, 2, 3], [1, 2, 1]]
    assert contact_table(meetings)["round"].tolist() == [3, 1]
    table = round_table(meetings)
    assert table["degree_mean"].tolist() == pytest.approx([2 / 3, 0, 4 / 3])
    assert table["degree_max"].tolist() == [1, 0, 2]
    assert table["isolated"].tolist() == [1, 3, 0]
    assert table["components"].tolist() == [2, 3, 1]
    # A path of three: eigenvalues 1, 2/3, 0 of the Metropolis weights.
    assert table["p"].tolist() == pytest.approx([0, 0, 1 - 4 / 9], abs=1e-14)
    assert table["p"][0] == 0
    assert table["gap"].tolist() == pytest.approx([0, 0, 1 / 3], abs=1e-14)
    row = summary(meetings)
    assert (row["b"], row["windows"], row["together"]) == (3.0, 1, 3.0)
    assert (row["met"], row["first"], row["connected"]) == (2 / 3, 3.0, pytest.approx(1 / 3))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.8])
def test_metropolis_weights_are_symmetric_and_doubly_stochastic(share: float) -> None:
    for k in range(20):
        w = weights_of("metropolis", random_graph(stream(k, "graph"), 3 + 5 * k, share))
        assert abs(w - w.T).max() == 0
        assert doubly_stochastic(w, 1e-12)
        assert np.abs(w.sum(axis=0) - 1).max() <= 1e-12
    assert not doubly_stochastic(weights_of("plain", graph(3, (0, 1), (1, 2))))


@pytest.mark.parametrize("kind", ["metropolis", "plain", "data_size"])
@given(st.integers(0, 10_000), st.integers(2, 9), st.floats(0.15, 0.9))
def test_p_equals_the_definition(kind: str, seed: int, clients: int, share: float) -> None:
    """No random matrix is brought less close than 1 - p says, and the singular vector exactly so far."""
    draws = stream(seed, "matrices")
    w = weights_of(kind, random_graph(draws, clients, share), draws.integers(1, 50, clients))
    p = mixing_parameter([w])

    def left(m: np.ndarray) -> float:
        """||W M - Mbar||^2 / ||M - Mbar||^2 for models as rows."""
        mean = m.mean(axis=0)
        return float(((w @ m - mean) ** 2).sum() / ((m - mean) ** 2).sum())

    assert max(left(draws.standard_normal((clients, 3))) for _ in range(20)) <= 1 - p + 1e-9
    m = draws.standard_normal((clients, 1))
    mean_off = np.eye(clients) - 1 / clients
    square = mean_off @ w.T.toarray() @ w.toarray() @ mean_off
    for _ in range(300):  # power iteration: a search among matrices for the one left farthest
        m = square @ m
        m /= max(np.linalg.norm(m), 1e-300)
    vector = np.linalg.eigh(square)[1][:, -1:]
    if p < 1 - 1e-9:
        assert left(vector) == pytest.approx(1 - p, abs=1e-9)
        assert left(m) <= 1 - p + 1e-9
        assert left(m) >= (1 - p) - 0.05 * max(1, 1 - p)
    if kind == "metropolis":
        values = np.sort(np.linalg.eigvalsh(w.T.toarray() @ w.toarray()))
        assert p == pytest.approx(1 - values[-2], abs=1e-12)  # the paper's 1 - lambda_2(W^T W)


def test_p_may_be_negative_where_columns_do_not_sum_to_one() -> None:
    many = graph(13, *((0, i) for i in range(1, 13)))  # all take half of the centre's model
    assert mixing_parameter([weights_of("plain", many)]) < -1
    star = graph(5, (0, 1), (0, 2), (0, 3), (0, 4))
    assert mixing_parameter([weights_of("metropolis", star)]) == pytest.approx(0.36)  # 1 - (4/5)^2
    # The norm in the printed proof would have to be below 1 - p = 0.64 in square, and is 1.92.
    w = weights_of("metropolis", star).toarray()
    assert ((w - 1 / 5) ** 2).sum() == pytest.approx(1.92)


@given(st.integers(0, 10_000))
def test_a_window_of_metropolis_weights_has_p_above_zero_if_and_only_if_it_connects(seed: int) -> None:
    draws = stream(seed, "window")
    chain = [weights_of("metropolis", random_graph(draws, 6, 0.12)) for _ in range(int(draws.integers(1, 8)))]
    assert (mixing_parameter(chain) > 0) == connects(chain)
    product = np.linalg.multi_dot([np.eye(6), *(w.toarray() for w in reversed(chain)), np.eye(6)])
    assert mixing_parameter(chain) == pytest.approx(1 - deviations(product) ** 2, abs=1e-12)


@pytest.mark.parametrize("kind", ["metropolis", "plain"])
def test_sparse_solvers_agree_with_dense_ones(kind: str) -> None:
    draws = stream(3, "large")
    chain = [weights_of(kind, random_graph(draws, 120, 0.05)) for _ in range(3)]
    assert connects(chain[:1])
    for some in (chain[:1], chain):
        assert mixing_parameter(some, dense=False) == pytest.approx(
            mixing_parameter(some, dense=True), abs=1e-9
        )
    assert spectral_gap(chain[0], dense=False) == pytest.approx(spectral_gap(chain[0], dense=True), abs=1e-9)
    assert mixing_parameters(chain) == pytest.approx([mixing_parameter([w]) for w in chain], abs=1e-12)
    assert spectral_gaps(chain) == pytest.approx([spectral_gap(w) for w in chain], abs=1e-12)
    if kind == "metropolis":
        assert spectral_gap(chain[0]) == pytest.approx(
            1 - np.sqrt(1 - mixing_parameter(chain[:1])), abs=1e-12
        )
    halves = weights_of(kind, graph(300, *((i, i + 1) for i in range(298))))  # the last one is alone
    assert mixing_parameter([halves]) == 0 if kind == "metropolis" else mixing_parameter([halves]) <= 0
    assert spectral_gap(halves) == 0


@pytest.mark.parametrize("kind", ["metropolis", "plain"])
@pytest.mark.parametrize("clients", [5, 257, 512])
def test_where_everybody_hears_everybody_one_exchange_is_enough(kind: str, clients: int) -> None:
    """Nothing is left then, neither for dense matrices nor for the iterative solvers of large networks."""
    every = weights_of(kind, graph_of(np.stack(np.triu_indices(clients, k=1), axis=1), clients))
    for chain in ([every], [every, every]):
        assert mixing_parameter(chain) == pytest.approx(1.0, abs=1e-12)
    assert spectral_gap(every) == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("kind", ["metropolis", "plain", "data_size"])
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_p_of_a_window_equals_the_definition_of_its_exchanges_one_after_another(
    kind: str, seed: int, rounds: int
) -> None:
    draws = stream(seed, "chain")
    clients = int(draws.integers(3, 8))
    chain = [
        weights_of(kind, random_graph(draws, clients, 0.4), draws.integers(1, 50, clients))
        for _ in range(rounds)
    ]
    p, off = mixing_parameter(chain), np.eye(clients) - 1 / clients

    def left(m: np.ndarray) -> float:
        mean, after = m.mean(axis=0), m
        for w in chain:
            after = w @ after
        return float(((after - mean) ** 2).sum() / ((m - mean) ** 2).sum())

    assert max(left(draws.standard_normal((clients, 3))) for _ in range(20)) <= 1 - p + 1e-9
    # The farthest: what the exchanges, in this order, make of each client's deviation, and its singular vector.
    columns = off
    for w in chain:
        columns = w @ columns
    farthest = np.linalg.svd(columns)[2][:1].T
    if p < 1 - 1e-9:
        assert left(farthest) == pytest.approx(1 - p, abs=1e-9)


@pytest.mark.parametrize("dense", [True, False])
def test_a_long_path_mixes_as_slowly_as_its_closed_form(dense: bool) -> None:
    """All weights of contacts are 1/3; eigenvalues are 1 - (2/3)(1 - cos(k pi / n))."""
    path = weights_of("metropolis", graph(300, *((i, i + 1) for i in range(299))))
    gap = 2 / 3 * (1 - np.cos(np.pi / 300))
    assert spectral_gap(path, dense=dense) == pytest.approx(gap, rel=1e-7)
    assert mixing_parameter([path], dense=dense) == pytest.approx(1 - (1 - gap) ** 2, rel=1e-7)


def test_window_parameters_are_those_of_products() -> None:
    draws = stream(5, "windows")
    weights = [weights_of("metropolis", random_graph(draws, 5, 0.3)) for _ in range(7)]
    found = window_parameters(weights, 3, keep_last=True)
    assert found.tolist() == [mixing_parameter(w) for w in (weights[:3], weights[3:6], weights[6:])]
    assert len(window_parameters(weights, 3)) == 2


def test_a_thousand_rounds_of_twenty_clients_take_a_moment() -> None:
    """The effort grows as the rounds do, with every length of windows; not as their square."""
    draws = stream(1, "many")
    graphs = [random_graph(draws, 20, 0.01) for _ in range(1000)]

    def judge(rounds: int) -> None:
        latest = latest_starts(graphs[:rounds], 20)
        smallest_window(latest)
        for b in range(1, rounds + 1):
            connected_windows(latest, b)

    assert calls(lambda: judge(1000)) < 15 * calls(lambda: judge(100))


@pytest.mark.parametrize("order", ["move_then_mix", "mix_then_move"])
@pytest.mark.parametrize("mixing", ["metropolis", "data_size", "mobility_aware"])
def test_meetings_without_training_are_those_of_the_run(tmp_path: Path, order: str, mixing: str) -> None:
    experiment = tiny(rounds=5, mixing=mixing, federation={"kind": "decentralized", "order": order})
    here, there = simulate(experiment), recorded(run(experiment, tmp_path / "run"))
    assert here.clients == there.clients
    assert [one.toarray().tolist() for one in here.graphs] == [one.toarray().tolist() for one in there.graphs]
    assert here.weights is not None
    if mixing == "mobility_aware":
        assert there.weights is None
        assert np.isnan(window_table(there, [2])["p_min"]).all()
    else:
        assert there.weights is not None
        for a, b in zip(here.weights, there.weights, strict=True):
            assert abs(a - b).max() == 0


@pytest.mark.parametrize("order", ["move_then_mix", "mix_then_move"])
@pytest.mark.parametrize(
    "activity",
    [{"kind": "rate", "rate": 0.5}, {"kind": "always", "late_share": 0.6, "late_by": 4}, {"kind": "on_off"}],
)
def test_who_is_not_active_meets_nobody_without_training_either(
    tmp_path: Path, order: str, activity: dict[str, object]
) -> None:
    federation, radius = {"kind": "decentralized", "order": order}, {"kind": "radius", "radius": 3.0}
    experiment = tiny(rounds=6, activity=activity, federation=federation, contacts=radius)
    here, there = simulate(experiment), recorded(run(experiment, tmp_path / "run"))
    assert [one.toarray().tolist() for one in here.graphs] == [one.toarray().tolist() for one in there.graphs]
    everybody = simulate(tiny(rounds=6, federation=federation, contacts=radius))
    assert sum(one.nnz for one in here.graphs) < sum(one.nnz for one in everybody.graphs)


def test_runs_that_cannot_tell_are_refused(tmp_path: Path) -> None:
    short = run(tiny(rounds=2, record_movement="evaluated"), tmp_path / "run")
    with pytest.raises(InputError, match='needs record_movement = "all"'):
        recorded(short)


def test_pattern_table_counts_worlds_without_a_b() -> None:
    base = {"degree": 1.0, "components": 2.0, "connected": 0.5, "p_mean": 0.1, "met": 0.5}
    rows = [{"variant": "a", "b": b, **base} for b in (3.0, np.nan, 9.0)] + [
        {"variant": "s", "b": np.nan, **base}
    ]
    table = pattern_table(rows, ["variant"]).set_index("variant")
    assert table.loc["a", ["seeds", "without", "b_min", "b_median", "b_max"]].tolist() == [3, 1, 3, 6, 9]
    assert table.loc["s", "without"] == 1
    assert np.isnan(table.loc["s", "b_median"])


def patterns(mobile: int, kinds: tuple[str, ...], worlds: int) -> dict[str, list[float]]:
    """Smallest B over 1,000 rounds in the papers' world, by pattern."""
    found: dict[str, list[float]] = {}
    for kind in kinds:
        moving = {} if kind == "static" else {"mobile": mobile, "max_step": 5.0}
        for seed in range(worlds):
            experiment = Experiment(
                clients=20,
                rounds=1000,
                seed=seed,
                partition={"kind": "dirichlet", "alpha": 0.05},
                mobility={"kind": kind, "grid": 18, **moving},
                contacts={"kind": "radius", "radius": 3.0},
            )
            b = simulate(experiment).smallest_window().length
            found.setdefault(kind, []).append(np.inf if b is None else b)
    return found


def test_movement_makes_a_split_world_b_strongly_connected() -> None:
    found = patterns(3, ("static", "random"), 1)
    assert found["static"] == [np.inf]
    assert 20 < found["random"][0] < 250


@pytest.mark.slow
def test_steering_needs_shorter_windows_than_chance() -> None:
    """Of ten worlds an independent trial found: random 57-115, DAM 31-76, DCM 16-36 with 3 mobile clients."""
    found = patterns(3, ("static", "random", "dam", "dcm"), 4)
    middle = {kind: float(np.median(values)) for kind, values in found.items()}
    assert middle["static"] == np.inf
    assert middle["random"] > middle["dam"] > middle["dcm"]
    assert 40 < middle["random"] < 140
    assert 25 < middle["dam"] < 80
    assert 10 < middle["dcm"] < 45


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Commands(tmp_path, capsys)


def test_the_command_prints_and_writes(call: Commands) -> None:
    answer = call(
        "connectivity", "tiny.toml", "--over", "mobility.kind=static,random", "--set", "contacts.radius=1.0",
        "--rounds", "30", "--seeds", "2", "--windows", "5,10", "--out", "out",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "exact over 30 rounds" in answer.out
    assert {"static", "random"} <= set(answer.out.split())
    written = contents(call.folder / "out")
    assert {name for name in written if name.endswith(".csv")} == {
        "connectivity.csv", "rounds.csv", "windows.csv", "first_contacts.csv",
    }  # fmt: skip
    assert {"windows.png", "windows.svg", "smallest_b.png", "smallest_b.svg"} <= set(written)
    table = pd.read_csv(call.folder / "out" / "rounds.csv")
    assert len(table) == 2 * 2 * 30
    assert table["p"].between(0, 1).all()


def test_the_command_on_a_run_folder_says_the_same(call: Commands) -> None:
    assert call.run("--out", "r", "--set", "training.lr=0.001").code == 0
    bounds = call("connectivity", "r", "--convergence")
    assert bounds.code == 0, bounds.err
    assert "from measured products" in bounds.out
    here, there = call("connectivity", "tiny.toml"), call("connectivity", "r")
    assert there.code == 0, there.err
    assert here.out == there.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny.toml", "--windows", "4"], "--windows 4: allowed are whole numbers from 1 to 3"),
        (["tiny.toml", "--windows", "x"], "--windows x: allowed are whole numbers"),
        (["tiny.toml", "--rounds", "0"], "--rounds 0: allowed is a whole number from 1 on"),
        (["tiny.toml", "--sliding", "--keep-last"], "allowed is one of the two"),
        (["no.toml"], "no.toml"),
        ([".", "--seeds", "2"], "--seeds: a run folder is looked at as it is"),
        (
            ["tiny.toml", "--convergence", "--set", "training.momentum=0.5"],
            "training.momentum = 0.5: for the bounds of convex learning allowed is 0",
        ),
        (
            ["tiny.toml", "--convergence", "--set", "mixing.kind=plain", "--set", "contacts.radius=2.0"],
            "mixing.kind = 'plain': its weights are not doubly stochastic",
        ),
    ],
)
def test_wrong_input_is_one_line(call: Commands, words: list[str], message: str) -> None:
    answer = call("connectivity", *words)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1
