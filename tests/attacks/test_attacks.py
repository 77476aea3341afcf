"""Who attacks, and what attackers send: worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fedroam.attacks import attackers_of
from fedroam.attacks.attackers import NoAttack, Trained
from fedroam.attacks.model_poisoning import z_max
from fedroam.components import build
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.scene import prepare
from support.tiny import tiny


def attack(kind: str, **settings: Any) -> Any:
    return build("attack", {"kind": kind, **settings})


def known(
    begun: list[list[float]], trained: list[list[float]], honest: list[list[float]] | None = None
) -> Trained:
    own, others = torch.tensor(trained), torch.tensor(honest if honest else [[0.0] * len(trained[0])])
    everything = torch.cat([own, others])
    rows = np.arange(len(own), len(everything))
    return Trained(torch.tensor(begun), own, np.arange(len(own)), everything, rows, 10, 0, 1)


def test_who_attacks_is_drawn_or_named() -> None:
    drawn = attack("sign_flip", share=0.3).attackers(7, 10)
    assert len(drawn) == 3
    assert set(drawn) <= set(attack("sign_flip", share=0.5).attackers(7, 10)), "a larger share adds attackers"
    assert any(set(attack("sign_flip", share=0.3).attackers(seed, 10)) != set(drawn) for seed in range(5))
    assert attack("sign_flip", clients=(5, 2)).attackers(7, 10).tolist() == [2, 5]
    assert attack("sign_flip", clients=()).attackers(7, 10).tolist() == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clients": (3, 3)}, "attack.clients = .*allowed are numbers from 0 on, each once"),
        ({"clients": (-1,)}, "attack.clients = "),
        ({"share": 1.0}, "attack.share = 1.0"),
        ({"scale": 0.0}, "attack.scale = 0.0"),
    ],
)
def test_attackers_who_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        attack("sign_flip", **settings)


def test_a_client_that_there_is_not_cannot_attack() -> None:
    with pytest.raises(InputError, match=r"attack.clients: found 9, allowed is 0 to 4"):
        prepare(tiny(attack={"kind": "sign_flip", "clients": (9,)}))
    with pytest.raises(InputError, match="all 5 clients attack; at least one must be honest"):
        prepare(tiny(attack={"kind": "sign_flip", "share": 0.95}))


def test_sign_flip_by_hand() -> None:
    sent = attack("sign_flip", scale=2.0).sent(known([[1.0, 1.0]], [[2.0, 0.5]]))
    assert sent.tolist() == [[-1.0, 2.0]]


def test_gaussian_noise_has_its_spread_and_is_each_ones_own() -> None:
    begun = [[3.0] * 4000, [3.0] * 4000]
    sent = attack("gaussian", std=2.0).sent(known(begun, begun)).numpy() - 3
    assert abs(sent.mean()) < 0.1
    assert abs(sent.std() - 2) < 0.1
    assert abs(np.corrcoef(sent)[0, 1]) < 0.1


def test_alie_by_hand() -> None:
    # mean 2, 0; deviation (over the attackers, not n - 1) 1, 3.
    facts = known([[0.0, 0.0]] * 2, [[1.0, 3.0], [3.0, -3.0]], [[5.0, 0.0]])
    assert attack("alie", z=0.5).sent(facts).tolist() == [[2.5, 1.5]] * 2
    everybody = attack("alie", z=1.0, knows_honest=True).sent(facts)
    values = np.array([[1, 3], [3, -3], [5, 0]])
    np.testing.assert_allclose(everybody[0], values.mean(0) + values.std(0), rtol=1e-6)


def test_z_max_of_the_paper_by_hand() -> None:
    # n = 50, m = 24: s = 26 - 24 = 2, (50 - 24 - 2) / 26.
    assert z_max(50, 24) == pytest.approx(norm.ppf(24 / 26))
    # n = 20, m = 4: s = 11 - 4 = 7, (20 - 4 - 7) / 16.
    assert z_max(20, 4) == pytest.approx(norm.ppf(9 / 16))
    assert z_max(20, 0) == 0.0  # s = 11 of 20: less than half of them
    assert z_max(10, 6) > 3  # a majority need not hide


def test_attackers_learn_flipped_classes_of_their_own_samples_and_others_the_true_ones() -> None:
    honest = prepare(tiny())
    scene = prepare(tiny(attack={"kind": "label_flip", "clients": (1, 3)}))
    try:
        assert scene.attackers.tolist() == [1, 3]
        for client, (own, true) in enumerate(zip(scene.context.train, honest.context.train, strict=True)):
            x, y = scene.task.x[own], scene.task.y[own]
            assert torch.equal(x, honest.task.x[true])
            expected = honest.task.y[true]
            assert torch.equal(y, 9 - expected if client in (1, 3) else expected)
        np.testing.assert_array_equal(scene.context.class_counts, honest.context.class_counts)
        assert torch.equal(scene.test_y, honest.test_y)
    finally:
        scene.learner.close()
        honest.learner.close()


def test_a_run_without_attack_and_rule_keeps_its_digest() -> None:
    assert Experiment(attack="none", aggregation="average").digest == Experiment().digest
    assert Experiment(attack="sign_flip").digest != Experiment().digest
    assert Experiment(aggregation="median").digest != Experiment().digest


class Named(NoAttack):
    """Those attack that it is told."""

    who: Any = ()

    def attackers(self, seed: int, clients: int) -> Any:
        return self.who


@pytest.mark.parametrize(
    ("who", "told"),
    [
        (None, "attackers gave NoneType; allowed are whole numbers, int64 [any number]"),
        (2, "attackers gave int of shape [], int64; allowed are whole numbers, int64 [any number]"),
        (
            np.array([True, False, True, False]),
            "attackers gave ndarray of shape [4], bool; allowed are whole numbers, int64 [any number]",
        ),
        (
            [0.0, 1.0],
            "attackers gave list of shape [2], float64; allowed are whole numbers, int64 [any number]",
        ),
        (np.array([1, 4]), "attackers gave client 4; allowed are numbers from 0 to 3"),
        (np.array([-1]), "attackers gave client -1; allowed are numbers from 0 to 3"),
        ([2, 0, 2], "attackers gave client 2 more than once, allowed is each once"),
        (np.arange(4), "attackers gave all 4 clients; at least one must be honest"),
    ],
)
def test_who_attacks_by_ones_own_is_held_against_what_it_promises(who: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        attackers_of(Named(who=who), 0, 4)
    assert str(raised.value) == f"attack kind 'none': {told}"


def test_attackers_may_be_named_in_any_order_or_be_none() -> None:
    found = attackers_of(Named(who=[2, 0]), 0, 4)
    assert found.tolist() == [0, 2]
    assert found.dtype == np.int64
    assert attackers_of(Named(who=[]), 0, 4).tolist() == []
