"""Two clients, one parameter each, worked out by hand."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from typing_extensions import override

from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation import Exchanged, Meeting, Round, Traffic
from fedroam.federation.decentralized import Decentralized
from fedroam.scene import prepare
from fedroam.simulation import begin
from support.one_weight import Deal, Script, weights_after_each_round
from support.tiny import tiny


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_move_then_mix_by_hand(engine: str) -> None:
    """Together at the start, apart after move 1, together after move 2. Weights of the pair: 1/4 and 3/4.

    Round 1: 0 -> 0.5 and 0 -> 2.5, apart. Round 2: 0.75 and 3.75, together: 0.75 / 4 + 3 * 3.75 / 4 = 3.
    """
    weights, sent, places = weights_after_each_round(federation={"order": "move_then_mix"}, engine=engine)
    assert weights == [[0.5, 2.5], [3.0, 3.0]]
    assert sent == [0, 8]  # two transfers of one float32
    assert places == [[0.0, 9.0], [0.0, 0.0]]


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_mix_then_move_by_hand(engine: str) -> None:
    """The same moves. Round 1: 0.5 and 2.5 mixed at the start places: 2. Round 2: 1.5 and 3.5, apart."""
    weights, sent, places = weights_after_each_round(federation={"order": "mix_then_move"}, engine=engine)
    assert weights == [[2.0, 2.0], [1.5, 3.5]]
    assert sent == [8, 8]
    assert places == [[0.0, 0.0], [0.0, 9.0]]


def test_metropolis_averages_a_pair_whatever_it_holds() -> None:
    weights, _, _ = weights_after_each_round(mixing="metropolis")
    assert weights == [[0.5, 2.5], [2.25, 2.25]]


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        # gradient w - 1: v = -1, w = 0.5; v = -0.5 - 0.5 = -1, w = 1; v = -0.5 + 0, w = 1.25
        ({"momentum": 0.5}, [0.5, 1.0, 1.25]),
        # momentum begins anew every round: half of the way each time
        ({"momentum": 0.5, "momentum_state": "reset"}, [0.5, 0.75, 0.875]),
        # two steps a round: v = -1, w = 0.5, v = -1, w = 1; anew: v = 0; w = 1
        ({"momentum": 0.5, "momentum_state": "reset", "steps": 2}, [1.0, 1.0, 1.0]),
        # g = -1; g = -0.5 + 0.5 * 0.5 = -0.25, w = 0.625; g = -0.375 + 0.3125 = -0.0625, w = 0.65625
        ({"weight_decay": 0.5}, [0.5, 0.625, 0.65625]),
        # rates 0.5, 0.25, 0.125
        ({"lr_decay": 0.5}, [0.5, 0.625, 0.671875]),
    ],
)
@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_the_optimiser_by_hand(training: dict[str, Any], expected: list[float], engine: str) -> None:
    weights, sent, _ = weights_after_each_round(
        rounds=3,
        mobility=Script(x=(9.0, 9.0, 9.0, 9.0)),
        training={"kind": "sgd", "lr": 0.5, **training},
        engine=engine,
    )
    assert [pair[0] for pair in weights] == expected
    assert sent == [0, 0, 0]


def test_who_is_away_neither_trains_nor_exchanges() -> None:
    # client 1 is away from the end of round 1 to the end of round 2, always near
    weights, sent, _ = weights_after_each_round(
        rounds=3, mobility=Script(x=(0.0, 0.0, 0.0, 0.0), away=((1, 1),))
    )
    assert weights[0] == [0.5, 2.5]  # was there at the beginning of round 1, left before the exchange
    # round 2: client 0 trains to 0.75; client 1 comes back untrained with 2.5: 0.75 / 4 + 3 * 2.5 / 4
    assert weights[1] == [2.0625, 2.0625]
    # round 3: 1.53125 and 3.53125
    assert weights[2] == [3.03125, 3.03125]
    assert sent == [0, 8, 16]


def test_a_client_without_samples_does_not_train_but_hears() -> None:
    weights, _, _ = weights_after_each_round(
        partition=Deal(held=((), (1, 2, 3))), mobility=Script(x=(0.0, 0.0, 0.0)), rounds=2
    )
    assert weights == [[2.5, 2.5], [3.75, 3.75]]  # all weight lies with the one that holds samples
    apart, _, _ = weights_after_each_round(
        partition=Deal(held=((), (1, 2, 3))), mobility=Script(x=(9.0, 9.0, 9.0)), rounds=2
    )
    assert apart == [[0.0, 2.5], [0.0, 3.75]]


def test_traffic_is_one_model_in_each_direction_of_each_contact() -> None:
    scene = prepare(Experiment(clients=6, mobility={"kind": "static", "grid": 3}, engine="reference", seed=2))
    state = begin(scene)
    part: Any = scene.experiment.federation
    assert isinstance(part, Decentralized)
    done = part.exchange(
        Round(1, state.models, {}, scene.context, state.meeting, scene.learner), state.meeting
    )
    dense = state.meeting.graph.toarray()
    assert dense.any()
    found = np.zeros_like(dense)
    found[done.traffic.receiver, done.traffic.sender] = True
    assert (found == dense).all()
    assert len(done.traffic.sender) == dense.sum()
    assert set(done.traffic.bytes) == {state.models.bytes_each} == {4 * (64 * 64 + 64 + 64 * 10 + 10)}
    places = state.meeting.paths.end
    apart = np.hypot(*(places[done.traffic.receiver] - places[done.traffic.sender]).T)
    np.testing.assert_array_equal(done.traffic.distance, apart)
    assert list(done.aggregated) == list(np.flatnonzero(dense.any(axis=1)))
    assert Traffic.nothing().total == 0


def test_an_exchange_of_ones_own_takes_no_rule_and_no_parts_unless_it_says_so() -> None:
    """A setting that asks for them is refused; it was ignored."""

    class Own(Decentralized):
        kind: ClassVar[str] = "own"

        @override
        def exchange(self, round: Round, after: Meeting) -> Exchanged:
            return Exchanged(after, Traffic.nothing(), round.models, {})

    class Able(Own):
        kind: ClassVar[str] = "able"
        aggregates: ClassVar[bool] = True

        @override
        def exchange(self, round: Round, after: Meeting) -> Exchanged:
            return super().exchange(round, after)

    class Quick(Decentralized):
        kind: ClassVar[str] = "quick"

    assert (Own.aggregates, Own.takes_pieces) == (False, False)
    assert (Able.aggregates, Able.takes_pieces) == (True, False)
    assert (Quick.aggregates, Quick.takes_pieces) == (True, True)
    prepare(tiny(federation=Own())).learner.close()
    prepare(tiny(federation=Able(), aggregation="median")).learner.close()
    with pytest.raises(
        InputError, match=r"aggregation\.kind = 'median': federation 'own' aggregates by a rule of its"
    ):
        prepare(tiny(federation=Own(), aggregation="median"))
