"""Who meets whom by a rule of one's own: any array that says so, held against what a contact graph is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fedroam.contacts import met
from fedroam.errors import InputError
from fedroam.mobility import Paths
from support.contact_graphs import graph

PRESENT = np.array([True, True, True, False])
PATHS = Paths.still(np.zeros((4, 2)), PRESENT)


class Given:
    """A rule by which those meet that it is told."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def meet(self, paths: Paths) -> Any:
        return self.found

    def reach(self) -> float:
        return 1.0


class Later(Given):
    """It says so of rounds."""

    def of_round(self, round: int) -> Given:
        return Given(self.found if round == 7 else None)


def dense(*pairs: tuple[int, int]) -> np.ndarray:
    """Who meets whom one way, bool [4, 4]."""
    found = np.zeros((4, 4), dtype=bool)
    for i, j in pairs:
        found[i, j] = True
    return found


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "meet gave NoneType, allowed is a csr_array [4, 4] of truth values"),
        ([[0, 1], [1, 0]], "meet gave list of shape [2, 2], int64, allowed is a csr_array [4, 4]"),
        (np.eye(3), "meet gave an array [3, 3], float64, allowed is a csr_array [4, 4] of truth values"),
        (
            np.full((4, 4), "x"),
            "meet gave an array [4, 4], <U1, allowed is a csr_array [4, 4] of truth values",
        ),
        (dense((1, 1)), "client 1 meets itself, allowed are others"),
        (
            np.where(dense((0, 2), (2, 0)), np.nan, 0),
            "meet gave numbers below 0, or NaN; allowed are truth values",
        ),
        (dense((0, 2), (2, 0)) * -1.0, "meet gave numbers below 0, or NaN; allowed are truth values"),
        (
            dense((0, 2), (2, 0), (0, 1)),
            "client 0 meets client 1, and 1 does not meet 0; allowed is both or neither",
        ),
        (dense((2, 1)), "client 2 meets client 1, and 1 does not meet 2; allowed is both or neither"),
        (dense((1, 3), (3, 1)), "client 1 meets client 3, and 3 is away; allowed are those in paths.present"),
    ],
)
@pytest.mark.parametrize("rule", [Given, Later])
def test_what_a_rule_of_ones_own_gives_is_held_against_what_it_promises(
    found: Any, told: str, rule: type[Given]
) -> None:
    with pytest.raises(InputError) as raised:
        met(rule(found), 7, PATHS)
    assert str(raised.value).startswith(f"contacts kind {rule.__name__!r}, round 7: {told}")


def _stored_zeros() -> sparse.csr_array:
    """Values that are false, stored, and columns that do not rise."""
    return sparse.csr_array(
        (np.array([True, False, False, True]), np.array([2, 1, 3, 0]), np.array([0, 2, 3, 4, 4])),
        shape=(4, 4),
    )


@pytest.mark.parametrize(
    "found",
    [
        dense((0, 2), (2, 0)),
        dense((0, 2), (2, 0)).astype(np.int64) * 3,
        dense((0, 2), (2, 0)) * 0.5,
        sparse.coo_array(dense((0, 2), (2, 0))),
        sparse.csr_matrix(dense((0, 2), (2, 0)).astype(np.int8)),
        sparse.coo_array((np.ones(4, bool), ([0, 2, 0, 2], [2, 0, 2, 0])), shape=(4, 4)),
        _stored_zeros(),
    ],
)
def test_any_array_that_says_who_meets_is_a_contact_graph(found: Any) -> None:
    before = found.copy()
    got, wanted = met(Given(found), 1, PATHS), graph(4, (0, 2))
    assert got.dtype == bool
    assert got.has_canonical_format
    for own, other in ((got.data, wanted.data), (got.indices, wanted.indices), (got.indptr, wanted.indptr)):
        np.testing.assert_array_equal(own, other)
        assert own.dtype == other.dtype
    assert (found != before).sum() == 0, "the rule's own array stays"
    if sparse.issparse(found):
        assert found.nnz == before.nnz, "as it is stored"
