"""The front of what settings reach and cost, by hand and against its definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedroam.analysis.figures.pareto import Offer, front, pareto_figure


def offer(cost: float, gain: float) -> Offer:
    return Offer(f"{cost}, {gain}", cost, gain, 1.0, 3)


def test_the_front_by_hand() -> None:
    offers = [offer(3, 5), offer(1, 2), offer(2, 2), offer(4, 4), offer(5, 6), offer(1, 1)]
    assert front(offers) == [1, 0, 4]


def test_equal_offers_stand_on_the_front_together() -> None:
    assert front([offer(1, 2), offer(1, 2)]) == [0, 1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_nothing_on_the_front_is_beaten_and_all_else_is(pairs: list[tuple[int, int]]) -> None:
    offers = [offer(*pair) for pair in pairs]

    def beaten(one: Offer) -> bool:
        return any(
            o.cost <= one.cost and o.gain >= one.gain and (o.cost, o.gain) != (one.cost, one.gain)
            for o in offers
        )

    assert sorted(front(offers)) == [k for k, one in enumerate(offers) if not beaten(one)]


def test_the_figure_fills_the_dots_of_the_front() -> None:
    figure = pareto_figure([offer(1, 2), offer(2, 1)], "Energy (J)", "Accuracy (%)")
    first, second = (line.lines[0] for line in figure.axes[0].containers)
    assert first.get_markerfacecolor() != "none"
    assert second.get_markerfacecolor() == "none"
