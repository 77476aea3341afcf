"""Jobs of which only columns are kept are the jobs themselves."""

from __future__ import annotations

import numpy as np

from fedroam.learning import Job, Jobs, clients_of, held_of, some_of

SAMPLES = (np.array([3, 4]), np.array([], dtype=np.int64), np.array([7, 8, 9]))


def test_columns_are_the_jobs_made_one_by_one() -> None:
    clients = np.array([2, 0])
    jobs = Jobs(clients, clients + 10, SAMPLES, np.array([2, 0, 3]), 5)
    made = [Job(2, 12, SAMPLES[2], 5), Job(0, 10, SAMPLES[0], 5)]
    for found in (list(jobs), jobs[:], [jobs[0], jobs[-1]]):
        assert [(job.client, job.row, job.round) for job in found] == [(2, 12, 5), (0, 10, 5)]
        for job, one in zip(found, made, strict=True):
            np.testing.assert_array_equal(job.samples, one.samples)
            assert job.plain
    for each in (jobs, made):
        assert clients_of(each).tolist() == [2, 0]
        assert held_of(each).tolist() == [3, 2]
        assert some_of(each, np.array([True, True])) is each
        assert [job.client for job in some_of(each, np.array([False, True]))] == [0]
