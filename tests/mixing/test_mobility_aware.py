"""Plain and mobility-aware weights: by hand, against dense formulas, both ends to the bit, the automatic alpha."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedroam.components import build
from fedroam.contacts import graph_of
from fedroam.errors import InputError
from fedroam.mixing import Facts
from fedroam.mobility import Paths, World
from fedroam.recording import open_run
from fedroam.runner import run
from support.tiny import tiny


def graph(clients: int, *pairs: tuple[int, int]) -> sparse.csr_array:
    return graph_of(np.array(pairs, dtype=np.int64).reshape(-1, 2), clients)


def facts(*speeds: float) -> Facts:
    return Facts(samples=np.ones(len(speeds), dtype=np.int64), speed=np.array(speeds, dtype=np.float64))


def aware(alpha: float | str) -> object:
    return build("mixing", {"kind": "mobility_aware", "alpha": alpha})


def weights(part: object, contacts: sparse.csr_array, known: Facts) -> np.ndarray:
    return part.weights(contacts, known).toarray()  # type: ignore[attr-defined]


# --- worked by hand ---------------------------------------------------------------------------------------------

CHAIN = graph(4, (0, 1), (1, 2))  # client 3 meets nobody


def test_plain_counts_everybody_the_same() -> None:
    expected = [[1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 1 / 2, 1 / 2, 0], [0, 0, 0, 1]]
    assert weights(build("mixing", "plain"), CHAIN, facts(1, 2, 3, 4)).tolist() == expected


def test_mobility_aware_by_hand() -> None:
    """Speeds 10, 30, 60, 5 and alpha 0.4: client 1 has X = (.1, .3, .6), so W = 1/3 + 0.4 (X - 1/3)."""
    found = weights(aware(0.4), CHAIN, facts(10, 30, 60, 5))
    third = 0.6 / 3
    expected = [
        [0.3 + 0.1, 0.3 + 0.3, 0, 0],
        [third + 0.04, third + 0.12, third + 0.24, 0],
        [0, 0.3 + 0.4 / 3, 0.3 + 0.8 / 3, 0],
        [0, 0, 0, 1],
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


def test_a_neighbourhood_that_stands_still_is_averaged_plainly() -> None:
    plain = weights(build("mixing", "plain"), CHAIN, facts(0, 0, 0, 0))
    for alpha in (0.0, 0.1, 0.4, 1.0, "auto"):
        assert (weights(aware(alpha), CHAIN, facts(0, 0, 0, 0)) == plain).all()
        found = weights(aware(alpha), CHAIN, facts(0, 0, 7, 0))
        assert (found[[0, 3]] == plain[[0, 3]]).all(), "client 0 meets only client 1, and both stand"
    assert weights(aware(1.0), CHAIN, facts(0, 0, 7, 0))[1].tolist() == [0, 0, 1, 0]


def test_who_is_away_and_nowhere_keeps_its_model() -> None:
    """A client that is away may have a place, and so a way, that is no number."""
    for alpha in (0.0, 0.4, 1.0, "auto"):
        found = weights(aware(alpha), CHAIN, facts(10, 30, 60, np.nan))
        assert (found == weights(aware(alpha), CHAIN, facts(10, 30, 60, 5))).all()


# --- any graph ----------------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> tuple[sparse.csr_array, Facts]:
    n = draw(st.integers(1, 12))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if draw(st.booleans())]
    speed = st.one_of(st.sampled_from([0.0, 1.0, 50.0, 1e-9]), st.floats(0, 200))
    return graph(n, *pairs), facts(*(draw(speed) for _ in range(n)))


@given(cases(), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_agrees_with_the_formula_of_the_paper(case: tuple[sparse.csr_array, Facts], alpha: float) -> None:
    contacts, known = case
    n = contacts.shape[0]
    met = contacts.toarray() | np.eye(n, dtype=bool)
    ones = np.where(met, 1 / met.sum(axis=1)[:, None], 0.0)
    total = (met * known.speed).sum(axis=1)[:, None]
    share = np.where(total > 0, met * known.speed / np.where(total > 0, total, 1), ones)
    assert (weights(build("mixing", "plain"), contacts, known) == ones).all()
    assert (weights(aware(0.0), contacts, known) == ones).all()
    np.testing.assert_allclose(weights(aware(1.0), contacts, known), share, rtol=1e-14, atol=0)
    np.testing.assert_allclose(
        weights(aware(alpha), contacts, known), ones + alpha * (share - ones), atol=1e-14
    )
    for choice in (0.0, alpha, 1.0, "auto"):
        found = weights(aware(choice), contacts, known)
        assert np.abs(found.sum(axis=1) - 1).max() <= 1e-12
        assert (found >= 0).all()


def test_alpha_one_is_the_share_of_speed_to_the_bit() -> None:
    """Whole speeds: the sums are exact, so that there is one right answer."""
    draws = np.random.default_rng(0)
    close = np.triu(draws.random((60, 60)) < 0.1, k=1)
    contacts = graph_of(np.argwhere(close), 60)
    speed = draws.integers(0, 1000, 60).astype(np.float64)
    met = contacts.toarray() | np.eye(60, dtype=bool)
    total = (met * speed).sum(axis=1)
    assert (total > 0).all()
    assert (weights(aware(1.0), contacts, facts(*speed)) == met * speed / total[:, None]).all()


def test_rows_sum_to_one_in_a_crowd() -> None:
    draws = np.random.default_rng(1)
    contacts = graph_of(np.stack(np.triu_indices(1500, k=1), axis=1), 1500)
    for alpha in (0.4, 1.0, "auto"):
        found = aware(alpha).weights(contacts, facts(*draws.random(1500) ** 8))
        assert np.abs(found.sum(axis=1) - 1).max() <= 1e-12


# --- alpha = "auto" -----------------------------------------------------------------------------------------------


def alphas(contacts: sparse.csr_array, *speeds: float) -> np.ndarray:
    return aware("auto").alphas(contacts, facts(*speeds))  # type: ignore[attr-defined]


# Client 0 meets 1, 2 and 3; 1 meets one more (4); 2 two more (4, 5): contacts, with themselves: 4, 3, 4, 2, 3, 2.
FORK = graph(6, (0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (2, 5))


def test_auto_is_one_where_contacts_are_in_proportion_to_speed() -> None:
    np.testing.assert_allclose(alphas(FORK, 40, 30, 40, 20, 30, 20)[0], 1)
    speeds = np.array([4, 3, 4, 2, 3, 2.0])
    found = weights(aware("auto"), FORK, facts(*speeds))[0]
    np.testing.assert_allclose(found, np.append(speeds[:4] / speeds[:4].sum(), [0, 0]), atol=1e-15)


def test_auto_is_zero_where_the_fast_met_no_more() -> None:
    assert alphas(FORK, 20, 30, 20, 40, 30, 40)[0] == 0, "the fast ones met fewer"
    everybody = graph(4, *((i, j) for i in range(4) for j in range(i + 1, 4)))
    assert alphas(everybody, 1, 2, 3, 50).tolist() == [0, 0, 0, 0], "all met the same number"


def test_auto_is_zero_where_all_are_equally_fast() -> None:
    assert (alphas(FORK, 5, 5, 5, 5, 5, 5) == 0).all()
    assert (alphas(CHAIN, 0, 0, 0, 0) == 0).all()


def test_auto_by_hand() -> None:
    """Two clients, speeds 10 and 30 (X = 1/4, 3/4); they met one and two (with themselves 2 and 3: C = 2/5, 3/5).
    Leaning by alpha moves the slow one's weight from 1/2 by alpha / 4, and it ought to move by 1/10: 0.4.
    """
    found = alphas(CHAIN, 10, 30, 0, 7)
    np.testing.assert_allclose(found[0], 0.4)
    assert found[3] == 0, "alone: nothing to lean to"


@given(cases())
@settings(max_examples=100, deadline=None)
def test_auto_is_the_best_point_on_the_line(case: tuple[sparse.csr_array, Facts]) -> None:
    """No alpha brings the weights nearer to the shares of contacts; and units of speed do not matter."""
    contacts, known = case
    n = contacts.shape[0]
    met = contacts.toarray() | np.eye(n, dtype=bool)
    count = met.sum(axis=1)
    wanted = met * count / (met * count).sum(axis=1)[:, None]

    def distance(alpha: float | str) -> np.ndarray:
        return np.linalg.norm(weights(aware(alpha), contacts, known) - wanted, axis=1)

    best = distance("auto")
    for alpha in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
        assert (best <= distance(alpha) + 1e-12).all()
    chosen = aware("auto").alphas(contacts, known)  # type: ignore[attr-defined]
    assert ((chosen >= 0) & (chosen <= 1)).all()
    doubled = Facts(known.samples, known.speed * 4)
    assert (aware("auto").alphas(contacts, doubled) == chosen).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, "automatic", float("nan"), True, [0.1]])
def test_wrong_alphas_are_refused_in_one_line(alpha: object) -> None:
    with pytest.raises(InputError, match=r'^mixing\.alpha = .*allowed is a number from 0 to 1, or "auto"'):
        aware(alpha)  # type: ignore[arg-type]


# --- the speed that clients are judged by ---------------------------------------------------------------------------


def test_the_way_of_a_round_is_the_speed_of_a_random_walk() -> None:
    """The federation knows a client's speed as its way in the round; reflections take nothing from it."""
    part = build(
        "mobility",
        {
            "kind": "random_walk",
            "width": 60.0,
            "speed_groups": (("a", 0.1, 0.0, 0.0), ("b", 0.9, 0.0, 175.0)),
        },
    )
    world = World(2, 50, np.ones((50, 1), dtype=np.int64), 45.0)
    state = part.start(world)
    for t in range(1, 30):
        state, paths = part.step(state, world, t)
        assert isinstance(paths, Paths)
        np.testing.assert_allclose(paths.length, state["speed"], rtol=0, atol=1e-12)
        assert (paths.length[:5] == 0).all()


@pytest.mark.parametrize("alpha", [0.4, "auto"])
def test_a_whole_run_on_the_move(tmp_path: object, alpha: float | str) -> None:
    """D-PSGD with several minibatch steps a round on a changing graph, in the order of the paper."""
    experiment = tiny(
        clients=8,
        rounds=6,
        training={"kind": "sgd", "lr": 0.1, "steps": 3, "batch_size": 8},
        mobility={"kind": "random_walk", "width": 150.0, "height": 150.0, "high_share": 0.25},
        contacts="closest_approach",
        mixing={"kind": "mobility_aware", "alpha": alpha},
        federation={"kind": "decentralized", "order": "move_then_mix"},
    )
    found = run(experiment, out=str(tmp_path))
    assert found.done
    assert found.rounds["accuracy"].iloc[-1] > found.rounds["accuracy"].iloc[0] + 0.1
    assert set(found.clients["group"]) == {"high", "low"}
    other = experiment.replace(mixing="plain")
    plain = run(other, out=f"{tmp_path}/plain")
    assert plain.contacts.equals(found.contacts)
    assert not plain.rounds["accuracy"].equals(found.rounds["accuracy"])
    assert open_run(str(tmp_path)).world["groups"] == ["high"] * 2 + ["low"] * 6
