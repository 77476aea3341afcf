"""Aggregation by rules that see the models, and attackers, in every federation: against the fast path and by hand."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from fedroam import components
from fedroam.components import Part, kinds, register
from fedroam.errors import FedroamError, InputError
from fedroam.federation import Round
from fedroam.mixing import Fact, Facts, Received
from fedroam.mixing.aggregation import mean
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State
from support.tiny import example, play, tiny

FEDERATIONS: list[dict[str, Any]] = [
    {"kind": "decentralized"},
    {"kind": "decentralized", "order": "mix_then_move"},
    {"kind": "fedavg"},
    {"kind": "fedprox"},
    {"kind": "hierarchical", "k2": 2},
    {"kind": "hierfavg", "k2": 2},
    {"kind": "mohawk", "k2": 2, "weights": "samples"},
]


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts registered in the test are forgotten after it."""
    kept = {family: dict(parts) for family, parts in components._registry.items()}
    monkeypatch.setattr(components, "_registry", kept)


class Slow(Part):
    """The weighted average, as a rule that sees the models."""

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        """sum_j w_j x_j."""
        assert received.models.shape[1] == len(received.own)
        assert len(received.models) == len(received.holders) == len(received.weights)
        assert np.isclose(received.weights.sum(), 1)
        assert 1 <= received.round <= received.rounds == 4
        if received.holder >= 0:  # a client's own model is among those it aggregates
            place = np.flatnonzero(received.holders == received.holder)
            np.testing.assert_array_equal(received.models[place], received.own[None])
        return mean(received.models, received.weights)


@pytest.mark.parametrize("federation", FEDERATIONS, ids=str)
def test_a_rule_that_averages_gives_what_the_fast_path_gives(
    federation: dict[str, Any], scratch: None
) -> None:
    register("aggregation", "slow")(Slow)
    settings: dict[str, Any] = {
        "federation": federation,
        "mobility": {"kind": "random", "grid": 4, "mobile": 5},
    }
    fast, slow = play(tiny(**settings)), play(tiny(aggregation="slow", **settings))
    np.testing.assert_allclose(slow.rounds["loss"], fast.rounds["loss"], rtol=1e-4)
    np.testing.assert_allclose(slow.clients["loss"], fast.clients["loss"], rtol=1e-4)
    np.testing.assert_array_equal(slow.rounds["bytes"], fast.rounds["bytes"])
    assert not slow.rounds["loss"].equals(slow.rounds["loss"].iloc[::-1].reset_index(drop=True))


@pytest.mark.parametrize("federation", ["local", "scaffold", "fedproto", "mocfl", "majority"])
def test_a_federation_with_a_rule_of_its_own_refuses_another(federation: str) -> None:
    with pytest.raises(
        InputError, match=f"aggregation.kind = 'krum': federation '{federation}' aggregates by a rule"
    ):
        prepare(tiny(aggregation="krum", federation=federation, model={"kind": "mlp", "hidden": [4]}))


def test_a_federation_of_ones_own_refuses_rules_unless_it_says_that_it_uses_them(scratch: None) -> None:
    class Own(Part):
        """Silent about aggregation."""

    fedavg: Any = kinds("federation")["local"]
    own: Any = register("federation", "own")(
        type("Own", (fedavg,), {"__doc__": Own.__doc__, "__module__": __name__})
    )
    with pytest.raises(
        InputError, match="federation 'own' aggregates by a rule of its own; allowed is 'average'"
    ):
        prepare(tiny(aggregation="median", federation=own()))


def test_a_rule_is_handed_what_it_declares_and_where_it_is(scratch: None) -> None:
    seen: list[tuple[int, int, float]] = []

    @register("aggregation", "curious")
    class Curious(Part):
        """Notes what it is handed."""

        needs: ClassVar[tuple[Fact, ...]] = ("paths", "contact_durations", "radius", "class_counts")

        def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
            """The own model."""
            seen.append((received.holder, int(facts.class_counts.sum()), facts.radius))
            if received.holder >= 0:
                others = received.holders[received.holders != received.holder]
                lasts = facts.contact_durations[[received.holder]].toarray()[0, others]
                assert ((lasts >= 0) & (lasts <= 1)).all()
                assert facts.paths.clients == 5
            return received.own.copy()

    for federation in FEDERATIONS[:1] + FEDERATIONS[2:3] + FEDERATIONS[4:5]:
        play(
            tiny(
                aggregation="curious",
                federation=federation,
                mobility={"kind": "random", "grid": 4, "mobile": 5},
            )
        )
    holders = {holder for holder, _, _ in seen}
    assert {-1, -2} <= holders, "the server or cloud, and access point 0"
    assert max(holders) > 0
    assert {radius for _, _, radius in seen} == {1.5}
    assert len({samples for _, samples, _ in seen}) == 1


@pytest.mark.parametrize("wrong", [np.zeros(3, np.float32), np.zeros((1, 1), np.float32), None])
def test_a_rule_that_gives_something_else_than_a_model_is_told_so(wrong: Any, scratch: None) -> None:
    @register("aggregation", "wrong")
    class Wrong(Part):
        """Gives no model."""

        def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
            """Nothing of use."""
            found: np.ndarray = received.own.astype(np.float64) if wrong is None else wrong
            return found

    with pytest.raises(FedroamError, match=r"aggregation wrong: aggregate gave .*; expected float32 \[650\]"):
        play(tiny(aggregation="wrong", federation="fedavg"))


@pytest.mark.parametrize(
    ("federation", "where"),
    [
        ("fedavg", "the server or cloud"),
        ("hierfavg", "access point [0-9]+"),
        ("decentralized", "client [0-9]+"),
    ],
)
def test_a_rule_that_makes_no_numbers_of_numbers_is_told_so(
    federation: str, where: str, scratch: None
) -> None:
    @register("aggregation", "divides")
    class Divides(Part):
        """Divides by nothing."""

        def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
            """One value is none."""
            found = received.own.copy()
            found[[2, 5]] = np.nan
            return found

    gave = r"aggregation divides: aggregate gave nan as value 2 of 650 \(2 are no numbers\)"
    with pytest.raises(FedroamError, match=rf"{gave} in round \d+ at {where}; allowed are numbers"):
        play(tiny(aggregation="divides", federation=federation))


# --- attackers ----------------------------------------------------------------------------------------------------


def test_the_honest_average_what_attackers_send_and_attackers_what_is_true() -> None:
    settings = {"contacts": {"kind": "radius", "radius": float("inf")}, "mixing": "plain", "rounds": 1}
    scene = prepare(tiny(**settings))
    attacked = prepare(tiny(attack={"kind": "sign_flip", "clients": (1,), "scale": 3.0}, **settings))
    try:
        start = begin(scene).models.parameters.clone()
        honest = play_round(scene, begin(scene))[0].models.parameters
        state, done = play_round(attacked, begin(attacked))
        # Everybody begins with one model x, and all have the mean m of the trained ones then.
        trained = begin(scene).models
        jobs = scene.parts.federation.distribute(_round(scene, begin(scene))).jobs
        scene.learner.train(trained, jobs)
        true = trained.parameters[1]
        lie = start[1] - 3 * (true - start[1])
        expected = honest[0] + (lie - true) / 5
        for client in (0, 2, 3, 4):
            torch.testing.assert_close(state.models.parameters[client], expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(state.models.parameters[1], honest[1], rtol=1e-5, atol=1e-6)
        assert len(done.losses) == 4, "the training loss is that of the honest"
    finally:
        scene.learner.close()
        attacked.learner.close()


def _round(scene: Scene, state: State) -> Any:
    return Round(1, state.models, state.federation, scene.context, state.meeting, scene.learner)


def test_a_server_averages_the_lie_and_the_attacker_keeps_its_own_model() -> None:
    for federation in ("fedavg", "ditto"):
        played = play(tiny(federation=federation, attack={"kind": "gaussian", "clients": (1,), "std": 50.0}))
        honest = play(tiny(federation=federation))
        assert played.rounds["loss"].iloc[-1] > 3 * honest.rounds["loss"].iloc[-1]


@pytest.mark.parametrize("kind", [kind for kind in kinds("attack") if kind != "none"])
@pytest.mark.parametrize("federation", FEDERATIONS[::2], ids=str)
def test_measures_are_those_of_the_honest(kind: str, federation: dict[str, Any]) -> None:
    attack = example("attack", kind).model_copy(update={"share": 0.4})
    played = play(tiny(federation=federation, attack=attack, model={"kind": "mlp", "hidden": [4]}))
    last = played.clients[played.clients["round"] == 4]
    row = played.rounds.iloc[-1]
    assert last["attacker"].sum() == 2
    own = last[~last["attacker"]]
    assert row["accuracy"] == pytest.approx(own["accuracy"].mean())
    assert row["accuracy_attackers"] == pytest.approx(last[last["attacker"]]["accuracy"].mean())
    assert row["loss"] == pytest.approx(own["loss"].mean())
    assert row["accuracy_std"] == pytest.approx(own["accuracy"].std(ddof=0))


def test_without_attackers_the_tables_are_what_they_were() -> None:
    played = play(tiny())
    assert "accuracy_attackers" not in played.rounds
    assert "attacker" not in played.clients
    nobody = play(tiny(attack={"kind": "sign_flip", "clients": ()}))
    np.testing.assert_array_equal(nobody.rounds["loss"], played.rounds["loss"])
    assert "attacker" not in nobody.clients
