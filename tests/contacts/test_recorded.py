"""Contacts that a file tells: who met whom in which round, wherever they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.analysis.connectivity.contact_statistics import simulate
from fedroam.components import build
from fedroam.contacts import in_round, pairs_of
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.mobility import Paths
from fedroam.runner import run
from fedroam.scene import prepare
from support.tiny import tiny

CLIENTS = 5
Rows = Sequence[tuple[int, int, int]]
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, CLIENTS - 1), st.integers(0, CLIENTS - 1)).filter(
        lambda row: row[1] != row[2]
    ),
    max_size=20,
)


def written(path: Path, rows: Rows) -> str:
    path.write_text("round,i,j\n" + "".join(f"{t},{i},{j}\n" for t, i, j in rows))
    return str(path)


def static(file: str, **settings: object) -> Experiment:
    given = {"mobility": "static", "clients": 3, "evaluate_every": 1, **settings}
    return tiny(**given, contacts={"kind": "recorded", "file": file})


@given(ROWS, st.sets(st.integers(0, CLIENTS - 1)))
def test_who_is_told_of_and_there_meets(
    tmp_path_factory: pytest.TempPathFactory, rows: Rows, there: set[int]
) -> None:
    rule = build(
        "contacts", {"kind": "recorded", "file": written(tmp_path_factory.mktemp("met") / "met.csv", rows)}
    )
    present = np.array([i in there for i in range(CLIENTS)])
    paths = Paths.still(np.zeros((CLIENTS, 2)), present)
    for t in range(6):
        told = {(min(i, j), max(i, j)) for round, i, j in rows if round == t}
        found = in_round(rule, t).meet(paths)  # type: ignore[arg-type]
        assert {*map(tuple, pairs_of(found).tolist())} == {pair for pair in told if there.issuperset(pair)}
        assert found.has_canonical_format
        assert all(
            (np.diff(found.indices[found.indptr[i] : found.indptr[i + 1]]) > 0).all() for i in range(CLIENTS)
        )


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("1,0,0", "line 2: round = 1, i = 0, j = 0; allowed are two clients"),
        ("0,1,2\n1.5,0,1", "line 3: round = 1.5, i = 0, j = 1; allowed are whole numbers from 0"),
        ("-1,0,1", "line 2: round = -1"),
        ("0,0,1\n3,7,1", "line 3: client 7, allowed with clients = 3 are 0 to 2"),
        ("0,0", "line 2"),
        ("0,0,x", "line 2, column 'j'"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_before_anything_is_written(
    rows: str, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "met.csv"
    file.write_text(f"round,i,j\n{rows}\n")
    with pytest.raises(InputError, match=re.escape(told)) as caught:
        run(static(str(file)), tmp_path / "run")
    assert str(file) in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_file_must_be_there_and_have_its_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"contacts\.file"):
        prepare(static(str(tmp_path / "none.csv")))
    (tmp_path / "met.csv").write_text("round,a,b\n")
    with pytest.raises(InputError, match=r"met\.csv: has no column 'i'"):
        prepare(static(str(tmp_path / "met.csv")))


@pytest.mark.parametrize("order", ["move_then_mix", "mix_then_move"])
def test_each_round_is_exchanged_with_whom_the_file_says(order: str, tmp_path: Path) -> None:
    """By hand: 0 and 1 meet at the start, 1 and 2 in round 1, nobody in round 2, all in round 3."""
    met = {0: [(0, 1)], 1: [(1, 2)], 2: [], 3: [(0, 1), (0, 2), (1, 2)]}
    file = written(tmp_path / "met.csv", [(t, i, j) for t, pairs in met.items() for i, j in pairs])
    experiment = static(file, rounds=3, federation={"kind": "decentralized", "order": order})
    found = run(experiment, tmp_path / "run")
    exchanged = {t: met[max(0, t - (order == "mix_then_move"))] for t in met}
    rows = {t: [(i, j) for s, i, j in found.contacts.itertuples(index=False) if s == t] for t in met}
    assert rows == exchanged
    told = [[*map(tuple, pairs_of(graph).tolist())] for graph in simulate(experiment).graphs]
    assert told == [exchanged[t] for t in (1, 2, 3)]


def test_nobody_may_ever_meet(tmp_path: Path) -> None:
    found = run(static(written(tmp_path / "met.csv", []), rounds=2), tmp_path / "run")
    assert found.contacts.empty
    assert found.rounds["isolated"].tolist() == [3, 3, 3]


def test_a_clock_of_seconds_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "met.csv", [(0, 0, 1)])
    with pytest.raises(InputError, match=r"contacts.kind = 'recorded': it tells rounds.*allowed .*'rounds'"):
        prepare(static(file, clock={"kind": "seconds", "length": 1.0}))
