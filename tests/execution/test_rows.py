"""Rows of models that lie elsewhere: which are used, and that a copy stays a copy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.execution.rows import HERE, Slots, SpreadModels
from fedroam.learning import Models
from support.spreading import InProcess, crew_of, spread_out
from support.tiny import tiny


@given(st.lists(st.tuples(st.sampled_from("tud"), st.integers(0, 5)), max_size=40))
def test_a_row_is_free_once_nobody_uses_it(steps: list[tuple[str, int]]) -> None:
    slots, uses = Slots(), Counter[int]()
    for what, number in steps:
        used = sorted(uses)
        if what == "t":
            found = slots.take(number)
            assert not set(found.tolist()) & set(used)
            assert len(set(found.tolist())) == number
            uses.update(found.tolist())
        elif used:
            some = np.array(
                [used[number % len(used)]] * (1 if what == "u" else min(2, uses[used[number % len(used)]]))
            )
            (slots.use if what == "u" else slots.drop)(some)
            uses.update({int(some[0]): len(some) if what == "u" else -len(some)})
            uses = +uses
        assert {k: int(n) for k, n in enumerate(slots.uses) if n} == dict(uses)
    assert len(slots.uses) <= 5 * len(steps)


def _filled(rows: int, layout: object, momentum: bool = True) -> Models:
    models = Models.empty(layout, rows, momentum=momentum)  # type: ignore[arg-type]
    for k, matrix in enumerate((models.parameters, models.momentum)):
        if matrix is not None:
            matrix[:] = torch.arange(rows)[:, None] * 10.0 + k
    return models


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_models_elsewhere_act_as_models_here(data: st.DataObject) -> None:
    """Any order of bringing, copying, keeping, writing and asking gives what a plain matrix gives."""
    scene = spread_out(tiny(), InProcess(3))
    crew = crew_of(scene)
    crew.start()
    plain = _filled(4, scene.task.layout)
    spread: Models = SpreadModels.of(crew, _filled(4, scene.task.layout), np.arange(4))
    for _ in range(data.draw(st.integers(1, 8))):
        assert isinstance(spread, SpreadModels)
        n = len(plain)
        some = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))))
        step = data.draw(st.sampled_from(["bring", "copied", "kept", "write", "ask", "rows"]))
        if step == "bring":
            to = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(some), max_size=len(some))))
            crew.bring(spread, some, to)
            assert np.array_equal(spread.holder[some], to)
        elif step == "copied":
            plain, spread = plain.copied(some, 100), spread.copied(some, 100)
        elif step == "kept":
            plain, spread = plain.kept(some), spread.kept(some)
        elif step == "write":
            row, value = int(some[0]), torch.full((plain.layout.size,), float(data.draw(st.integers(0, 9))))
            for models in (plain, spread):
                models.write(row, value, torch.zeros(plain.layout.buffer_size))
        elif step == "rows":
            copy = spread.rows(torch.from_numpy(some))
            copy.parameters[:] = -1.0  # changes nothing of what it is a copy of
        else:
            near, place = spread.at_hand(some)
            assert torch.equal(
                near.parameters[torch.from_numpy(place)], plain.parameters[torch.from_numpy(some)]
            )
        for name, array in plain.arrays().items():
            np.testing.assert_array_equal(spread.arrays()[name], array, err_msg=name)
        assert torch.equal(spread.mean().parameters, plain.mean().parameters)
        assert spread.consensus_distance() == plain.consensus_distance()
    spread = models = copy = plain  # nobody uses what was spread any more
    assert spread is models is copy
    assert all(not slots.uses.any() for slots in crew.slots)


def test_equal_models_are_sent_once() -> None:
    scene = spread_out(tiny(), InProcess(3))
    crew = crew_of(scene)
    crew.start()
    models = scene.start_models()
    assert isinstance(models, SpreadModels)
    assert (models.holder == HERE).all()
    crew.bring(models, np.arange(5), np.array([0, 0, 1, 1, 1]))
    assert crew.told["rows sent from here"] == 2
