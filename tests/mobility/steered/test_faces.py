"""Points that hear the same static clients are one face, whatever numbers their sets have."""

import numpy as np
import pytest
from scipy import sparse

from fedroam.mobility.steered import faces as module
from fedroam.mobility.steered.coverage import CoverageMap
from fedroam.mobility.steered.faces import Faces
from fedroam.randomness import stream

# By point: whom it hears of three static clients.
HEARD = np.array([[1, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 1, 0]])


def test_faces_by_hand_come_in_the_order_of_their_first_points():
    faces = Faces.of_points(sparse.csr_array(HEARD))
    assert faces.of.tolist() == [0, 1, 0, 2, 1, 3, 0]
    assert faces.covers.toarray().tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert len(faces) == 4
    assert faces.points(np.array([1, 0])).tolist() == [1, 4, 0, 2, 6]
    assert faces.points(np.array([], dtype=int)).tolist() == []
    assert faces.columns.toarray().tolist() == faces.covers.toarray().tolist()


@pytest.mark.parametrize("factor", [0, 1])
def test_sets_with_the_same_number_are_not_taken_for_one(factor, monkeypatch):
    """0: all sets have the same number; 1: all sets of as many clients."""
    monkeypatch.setattr(module, "_FACTOR", factor)
    faces = Faces.of_points(sparse.csr_array(np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 1]])))
    assert faces.of.tolist() == [0, 1, 2, 3]
    assert faces.points(np.array([3, 1])).tolist() == [3, 1]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (4, 0)])
def test_no_points_or_nobody_to_hear(shape):
    faces = Faces.of_points(sparse.csr_array(np.zeros(shape, dtype=int)))
    assert len(faces) == min(shape[0], 1)
    assert faces.of.tolist() == [0] * shape[0]


@pytest.mark.parametrize("reach", [0.0, 1.0, 4.5])
def test_as_many_faces_as_there_are_different_sets_on_a_grid(reach):
    places = stream(0, "test").integers(1, 31, size=(40, 2)).astype(float)
    covers = CoverageMap.of_grid(places, np.ones((40, 2), dtype=int), reach, 30).covers
    faces = Faces.of_points(covers)
    np.testing.assert_array_equal(faces.covers.toarray()[faces.of], covers.toarray())
    assert len(faces) == len(np.unique(covers.toarray(), axis=0))
    every = faces.points(np.arange(len(faces)))
    np.testing.assert_array_equal(np.sort(every), np.arange(covers.shape[0]))
    assert (np.diff(faces.of[every]) >= 0).all()
