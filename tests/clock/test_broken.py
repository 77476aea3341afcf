"""What becomes of transfers that break: resumed from round to round, or used in part; by hand and in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.clock import Timetable
from fedroam.federation import Pieces
from fedroam.federation.pieces import KEEPER, KEPT, KEPT_SINCE, mix_pieces
from fedroam.randomness import stream
from fedroam.scene import Scene
from fedroam.simulation import begin, play_round
from fedroam.state import State
from support.gossiping import directed_graph, models_of, rows_of
from support.timed import meeting, timed, timed_scene

MODEL = 4 * (64 * 10 + 10)  # bytes of softmax regression on digits
STAY = {"mobility": {"kind": "static"}, "contacts": {"kind": "radius", "radius": float("inf")}}


def link(seconds: float, broken: str, **more: Any) -> dict[str, Any]:
    """A model takes so many seconds."""
    return {"kind": "fixed", "throughput": 8e-6 * MODEL / seconds, "broken": broken, **more}


def passing(distance: float, speed: float, seconds: float, chunk: int) -> Timetable:
    """One stands, the other passes; R = 10 m."""
    half = np.sqrt(100 - distance**2) + 1.0
    clock = {"kind": "seconds", "length": 2 * half / speed}
    scene = timed_scene((0.0, 0.0), clock=clock, link=link(seconds, "partial", chunk=chunk))
    return timed(scene, meeting([[0, 0], [-half, distance]], [[0, 0], [half, distance]]), reach=10.0)


# --- in part -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunk", "coordinates"),
    # With a shorter last chunk it depends on whether that is among the first.
    [(4, {260}), (16, {258, 260}), (1000, {250, 150}), (1040, {260, 130}), (1044, {0, 128})],
)
def test_a_passage_gives_so_many_chunks(chunk: int, coordinates: set[int]) -> None:
    """16 s of the 40 s of a model: 1040 of its 2600 bytes, which are 65 chunks of 16, or one of 1000."""
    found = passing(6.0, 1.0, 40.0, chunk).pieces
    assert found is not None
    assert sorted(zip(found.sender.tolist(), found.receiver.tolist(), strict=True)) == [(0, 1), (1, 0)]
    np.testing.assert_allclose(found.bytes, 1040.0, rtol=1e-12)
    for seed in range(5):
        for k in (0, 1):
            came = found.coordinates(seed, MODEL, k)
            assert came.sum() in coordinates
            assert came.shape == (650,)


@settings(max_examples=60, deadline=None)
@given(
    distance=st.floats(0, 9.9),
    speed=st.floats(0.1, 50),
    share=st.floats(0.01, 0.99),
    chunk=st.sampled_from([4, 8, 20, 52, 200]),  # all divide a model: it is a whole number of them
)
def test_a_passage_of_t_seconds_at_rate_r_gives_r_t_bytes(
    distance: float, speed: float, share: float, chunk: int
) -> None:
    """The closed form: 2 sqrt(R^2 - d^2) / v seconds, and the whole chunks of what that gives."""
    lasts = 2 * np.sqrt(100 - distance**2) / speed
    found = passing(distance, speed, lasts / share, chunk)
    assert found.pieces is not None
    np.testing.assert_allclose(found.pieces.bytes, share * MODEL, rtol=1e-6)
    whole = share * MODEL / chunk
    if abs(whole - round(whole)) > 1e-3:
        for k in (0, 1):
            assert found.pieces.coordinates(3, MODEL, k).sum() == int(whole) * chunk // 4
    assert found.traffic.bytes.tolist() == [round(float(each)) for each in found.pieces.bytes]


def drawn_pieces(seed: int, n: int, size: int, chunk: int, round: int) -> Pieces:
    """Some of each other's models: whole, in part, and older ones."""
    draws = stream(seed, "pieces of a test")
    receiver, sender = np.nonzero((draws.random((n, n)) < 0.6) & ~np.eye(n, dtype=bool))
    bytes = np.where(draws.random(len(sender)) < 0.4, size, draws.random(len(sender)) * size)
    old = (bytes == size) & (draws.random(len(sender)) < 0.3)
    made = np.where(old, round - 1, round)
    keep = np.array([[0, round], [1, round - 1]])
    return Pieces(receiver, sender, made, bytes, chunk, keep).of_use(seed, size)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 5), chunk=st.sampled_from([4, 8, 12, 40]))
def test_each_coordinate_has_rows_that_sum_to_1(seed: int, n: int, chunk: int) -> None:
    """Against the obvious: one matrix of weights for each coordinate."""
    width, number = 7, 5
    draws = stream(seed, "models of a test")
    rows, older = draws.normal(size=(2, n, width)).astype(np.float32)
    weights = draws.random((n, n))
    weights /= weights.sum(1, keepdims=True)
    models, size = models_of(rows), 4 * width
    pieces = drawn_pieces(seed, n, size, chunk, number)
    state = {KEPT: older, KEEPER: np.arange(n), KEPT_SINCE: np.full(n, number - 1)}
    kept = mix_pieces(models, state, directed(weights), pieces, seed, number)
    expected = np.zeros((n, width))
    came = {
        (int(i), int(j)): pieces.coordinates(seed, size, k)
        for k, (i, j) in enumerate(zip(pieces.receiver, pieces.sender, strict=True))
    }
    made = {(int(i), int(j)): m for i, j, m in zip(pieces.receiver, pieces.sender, pieces.made, strict=True)}
    for c in range(width):
        own = np.zeros((n, 2 * n))  # models as they are, and older ones
        for i in range(n):
            own[i, i] = 1.0
            for j in range(n):
                if (i, j) in came and came[i, j][c]:
                    own[i, j if made[i, j] == number else n + j] += weights[i, j]
                    own[i, i] -= weights[i, j]
        assert (own >= -1e-15).all()
        np.testing.assert_allclose(own.sum(1), 1.0, rtol=1e-12)
        expected[:, c] = own @ np.concatenate([rows[:, c], older[:, c]])
    np.testing.assert_allclose(rows_of(models), expected, atol=2e-6)
    np.testing.assert_array_equal(
        kept[KEPT], [rows[0], older[1]], err_msg="as they stood before they were mixed"
    )


def directed(weights: np.ndarray) -> Any:
    found = directed_graph(weights > 0).astype(np.float64)
    found.data = weights[found.nonzero()]
    return found


def test_chunks_come_in_an_order_of_their_own_and_each_as_often() -> None:
    """Of 10 chunks 3 come: each in 3 of 10 transfers; and the order is the transfer's."""
    count = np.zeros(10)
    for sender in range(2000):
        pieces = Pieces(
            np.array([0]), np.array([sender]), np.array([1]), np.array([12.0]), 4, np.zeros((0, 2))
        )
        came = pieces.coordinates(7, 40, 0)
        assert came.sum() == 3
        count += came
    assert (np.abs(count - 600) < 5 * np.sqrt(2000 * 0.3 * 0.7)).all()


# --- resumed ---------------------------------------------------------------------------------------------------------


def rounds(scene: Scene, number: int) -> tuple[list[State], list[np.ndarray]]:
    """The states before round 1 and after each round, and the models' parameters then."""
    states, models = [begin(scene)], []
    for _ in range(number):
        models.append(states[-1].models.parameters.clone().numpy())
        states.append(play_round(scene, states[-1])[0])
    return states, [*models, states[-1].models.parameters.clone().numpy()]


def neighbours(length: float, **more: Any) -> Scene:
    clock = {"kind": "seconds", "length": length}
    return timed_scene((0.0, 0.0), clock=clock, link=link(10.0, "resumed", **more), mixing="plain", **STAY)


def test_a_model_that_takes_three_rounds_arrives_as_it_was() -> None:
    """Ten seconds in rounds of four: sent from round 1 on, it is there in second 2 of round 3, and is that of round 1.
    The next one is sent from round 4 on."""
    scene = neighbours(4.0)
    states, models = rounds(scene, 4)
    for t in (1, 2):
        came = states[t].clock
        assert came["part_made"].tolist() == [1, 1]
        np.testing.assert_allclose(came["part_bytes"], 0.4 * t * MODEL)
        assert states[t].account.bytes_up.tolist() == [round(0.4 * t * MODEL)] * 2
        np.testing.assert_array_equal(states[t].federation[KEPT][:, :650], models[1])
    assert not len(states[3].clock["part_made"])
    assert not len(states[3].federation[KEPT])
    assert states[3].account.bytes_up.tolist() == [MODEL, MODEL]
    assert states[4].clock["part_made"].tolist() == [4, 4]
    # Round 3 by hand: each trains on, then takes half of what the other had learnt in round 1.
    alone = timed_scene(
        (0.0, 0.0), clock={"kind": "seconds", "length": 4.0}, link=link(1e9, "lost"), mixing="plain", **STAY
    )
    trained = rounds(alone, 3)[1][3]
    expected = (trained + models[1][::-1]) / 2
    np.testing.assert_allclose(models[3], expected, atol=1e-7)
    assert np.abs(models[3] - trained).max() > 1e-3


@pytest.mark.parametrize(("kept", "made"), [(2, [4, 4]), (3, [])])
def test_a_model_is_kept_for_so_many_rounds(kept: int, made: list[int]) -> None:
    """In rounds of three seconds it would be there in round 4; what is given up before was sent in vain."""
    states, _ = rounds(neighbours(3.0, kept=kept), 4)
    assert states[4].clock["part_made"].tolist() == made
    sent = round(0.3 * MODEL) * 4 if made else MODEL
    assert states[4].account.bytes_up.tolist() == [sent, sent]


def server(federation: Any, late: str = "carried") -> Scene:
    return timed_scene(
        (5.0, 15.0, 60.0),
        clock={"kind": "seconds", "length": 30.0, "late": late},
        link=link(10.0, "resumed"),
        federation=federation,
        training={"kind": "sgd", "lr": 0.1},
    )


def test_an_upload_goes_on_where_it_broke() -> None:
    """10 s down, 15 of training, 10 up: 5 s of the upload lie in round 2, in which nothing is sent twice."""
    states, _ = rounds(server("fedavg"), 2)
    assert states[1].clock["sent_upload"].tolist() == [0, MODEL // 2, 0]
    assert (
        states[1].clock["sent_at"].tolist()[1] == 3 + 4
    )  # the server, after three clients and four access points
    assert states[2].clock["sent_upload"].tolist() == [0, 0, 0]
    assert states[1].account.bytes_up.tolist() == [MODEL, MODEL // 2, 0]
    assert states[2].account.bytes_up.tolist() == [2 * MODEL, MODEL, 0]
    assert states[2].clock["busy"].tolist() == [False, False, True]


def test_late_updates_go_on_to_the_access_point_where_they_were() -> None:
    """The rule of a hierarchical federation keeps the update of who is late; what has come of it is kept, too."""
    scene = server({"kind": "mohawk", "k2": 9}, late="dropped")
    states, _ = rounds(scene, 3)
    assert states[1].clock["sent_upload"].tolist() == [0, MODEL // 2, 0]
    assert states[2].account.bytes_up.tolist() == [2 * MODEL, MODEL, 0]
    # The third has trained for 20 s in round 1 and 30 in round 2: 10 more, and 10 s of sending.
    assert states[3].account.bytes_up.tolist() == [3 * MODEL, 2 * MODEL - MODEL // 2, MODEL]
    assert states[3].federation["trained"].tolist() == [3, 3, 1]


def test_another_access_point_has_nothing_of_it() -> None:
    """Who turns to another access point begins anew there; the first one has what it had."""
    scene = server({"kind": "mohawk", "k2": 9}, late="dropped")
    state, _ = play_round(scene, begin(scene))
    other = state.clock["sent_at"].copy()
    other[1] = 3 + (other[1] - 3 + 1) % 4
    state.clock["sent_at"] = other
    after, _ = play_round(scene, state)
    assert after.account.bytes_up.tolist()[1] == MODEL // 2 + MODEL
