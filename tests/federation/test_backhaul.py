"""The way from access points to the cloud."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedroam.federation import SERVER
from fedroam.federation.backhaul import broadcast, hops, routes, upload
from fedroam.randomness import stream

LINE = np.array([[0.0, 0.0], [100.0, 0.0], [200.0, 0.0], [300.0, 0.0], [900.0, 0.0]])


def test_without_a_reach_everybody_has_a_link_of_its_own() -> None:
    following = routes(LINE, None, 1)
    assert following.tolist() == [-1] * 5
    assert hops(following).tolist() == [1] * 5


def test_a_line_by_hand() -> None:
    following = routes(LINE, 100.0, 1)  # the centre is at 300 m; the last one is out of reach
    assert following.tolist() == [1, 2, 3, -1, -1]
    assert hops(following).tolist() == [4, 3, 2, 1, 1]
    assert routes(LINE, 200.0, 1).tolist() == [1, 3, 3, -1, -1], "the nearest of those one hop closer"
    assert routes(LINE, 100.0, 2).tolist() == [1, 2, -1, -1, -1]
    traffic = upload(np.array([1, 4]), following, LINE, 10)
    assert traffic.sender.tolist() == [-3, -6, -4, -5]
    assert traffic.receiver.tolist() == [-4, SERVER, -5, SERVER]
    assert traffic.distance[[0, 2]].tolist() == [100, 100]
    assert np.isnan(traffic.distance[[1, 3]]).all()
    down = broadcast(following, LINE, 10)
    assert down.receiver.tolist() == [-2, -3, -4, -5, -6]
    assert down.sender.tolist() == [-3, -4, -5, SERVER, SERVER]
    assert down.total == 50


def test_equal_ways_take_the_nearest_then_the_lowest() -> None:
    square = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, -4.0], [6.0, 0.0]])
    both = routes(
        square, 6.0, 2
    )  # gateways: 0 and 3, the nearest to (3, 0) but for 1 and 2, four metres away
    assert sorted(np.flatnonzero(both == -1)) == [0, 3]
    assert both[[1, 2]].tolist() == [0, 0]


@given(st.integers(0, 1000), st.integers(1, 12), st.floats(0.05, 1.0), st.integers(1, 3))
def test_ways_have_the_fewest_hops(seed: int, n: int, reach: float, gateways: int) -> None:
    places = stream(seed, "test backhaul").random((n, 2))
    following = routes(places, reach, gateways)
    gap = np.linalg.norm(places[:, None] - places[None], axis=2)
    order = np.argsort(np.hypot(*(places - places.mean(axis=0)).T), kind="stable")[:gateways]
    wanted = np.full(n, np.inf)
    wanted[order] = 1
    for _ in range(n):
        wanted = np.minimum(wanted, np.where(gap <= reach, wanted[None] + 1, np.inf).min(axis=1))
    assert hops(following).tolist() == np.where(np.isfinite(wanted), wanted, 1).tolist()
    for a in np.flatnonzero(following >= 0):
        closer = [b for b in range(n) if gap[a, b] <= reach and wanted[b] == wanted[a] - 1]
        assert gap[a, following[a]] == min(gap[a, closer])
    assert len(upload(np.arange(n), following, places, 1).sender) == hops(following).sum()
