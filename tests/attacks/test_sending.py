"""What an attack of one's own sends: whatever it does to what it is handed, nobody else's model is another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from fedroam import components
from fedroam.attacks.attackers import Attackers, Trained
from fedroam.components import register
from fedroam.errors import InputError
from fedroam.runner import run
from support.tiny import tiny

NOT_COMPARED = ["seconds"]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Attacks that a test registers are gone after it."""
    yield
    components._registry["attack"].pop("own", None)


def rounds(folder: Path, sent: Callable[[Trained], Any], **settings: Any) -> pd.DataFrame:
    """The table of rounds of a run in which clients 1 and 3 send this."""

    class Own(Attackers):
        def sent(self, known: Trained) -> Any:
            return sent(known)

    components._registry["attack"].pop("own", None)
    register("attack", "own")(Own)
    done = run(tiny(attack={"kind": "own", "clients": (1, 3)}, **settings), folder)
    return done.rounds.drop(columns=NOT_COMPARED)


def flipped(known: Trained) -> torch.Tensor:
    return known.begun - 10 * (known.trained - known.begun)


def flipped_in_place(known: Trained) -> torch.Tensor:
    known.trained[:] = flipped(known)
    return known.trained


def flipped_with_all_else_spoilt(known: Trained) -> torch.Tensor:
    found = flipped(known)
    for tensor in (known.models, known.trained, known.begun):
        tensor.zero_()
    return found


def flipped_in_float64(known: Trained) -> torch.Tensor:
    return flipped(known).double().requires_grad_()


@pytest.mark.parametrize("federation", ["decentralized", "fedavg"])
@pytest.mark.parametrize("at_rest", ["float32", "float16"])
def test_what_is_written_in_place_is_sent_like_any_other_model(
    federation: str, at_rest: str, tmp_path: Path
) -> None:
    settings = {"federation": federation, "models_at_rest": at_rest}
    wanted = rounds(tmp_path / "new", flipped, **settings)
    for sent in (flipped_in_place, flipped_with_all_else_spoilt, flipped_in_float64):
        found = rounds(tmp_path / sent.__name__, sent, **settings)
        pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    honest = rounds(tmp_path / "honest", lambda known: known.trained, **settings)
    assert honest["loss"].tolist() != wanted["loss"].tolist()


def test_whoever_sends_the_truth_is_like_an_attack_that_comes_with_fedroam(tmp_path: Path) -> None:
    named = {"kind": "sign_flip", "clients": (1, 3), "scale": 2.0}
    ours = run(tiny(attack=named), tmp_path / "ours").rounds.drop(columns=NOT_COMPARED)
    theirs = rounds(tmp_path / "theirs", lambda known: known.begun - 2.0 * (known.trained - known.begun))
    pd.testing.assert_frame_equal(theirs, ours, check_exact=True)
    one = rounds(tmp_path / "one", lambda known: known.trained)
    other = rounds(tmp_path / "other", lambda known: known.trained.clone())
    pd.testing.assert_frame_equal(one, other, check_exact=True)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (lambda known: None, "a NoneType"),
        (lambda known: known.trained.numpy(), "a ndarray"),
        (lambda known: known.trained[:1], "a torch.float32 tensor [1, 650]"),
        (lambda known: known.trained.mean(0), "a torch.float32 tensor [650]"),
        (lambda known: known.trained.long(), "a torch.int64 tensor [2, 650]"),
    ],
)
def test_what_is_no_model_for_each_attacker_is_told(
    sent: Callable[[Trained], Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as raised:
        rounds(tmp_path / "run", sent)
    assert str(raised.value) == (
        f"attack kind 'own', round 1: sent gave {told}, allowed is a float32 tensor [2, 650]"
    )
