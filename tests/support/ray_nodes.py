"""A Ray cluster of two nodes on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from support import warm

TRIES = 3
LEAN = {"num_cpus": 1, "include_dashboard": False, "include_log_monitor": False, "no_monitor": True}


@contextlib.contextmanager
def two_nodes_of_ray() -> Iterator[Any]:
    """Two nodes of one processor each, to which this process is connected. Skips where Ray's own server does not come
    up in several tries, which on a slow machine it sometimes does not in its 30 seconds."""
    import ray
    from ray.cluster_utils import Cluster

    for left in reversed(range(TRIES)):
        try:
            here = Cluster(initialize_head=True, head_node_args={**LEAN, **warm.for_ray()})
            break
        except RuntimeError as error:
            ray.shutdown()
            if not left:
                pytest.skip(f"Ray's own server does not start here: {error}")
    try:
        here.add_node(num_cpus=1, **warm.for_ray())
        ray.init(address=here.address, logging_level="ERROR", log_to_driver=False)
        yield here
    finally:
        ray.shutdown()
        here.shutdown()
