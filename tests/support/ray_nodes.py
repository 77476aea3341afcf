"""Ray on this machine: itself, a cluster of two nodes, and workers that several runs have one after the other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
from typing_extensions import override

from fedroam.execution import cluster, kinds
from support import warm

TRIES = 3
LEAN = {"num_cpus": 1, "include_dashboard": False, "include_log_monitor": False, "no_monitor": True}


NOTHING_MISSING = "FEDROAM_NOTHING_MISSING"  # in the environment of continuous integration


def go_without(reason: str) -> NoReturn:
    """Skip tests of Ray, or all of a module that is being imported. Fail where nothing may be missing: skipped in every
    run that counts, they would be gone without a word."""
    if os.environ.get(NOTHING_MISSING):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def installed_ray() -> Any:
    """Ray; tests go without it where it is not installed."""
    try:
        import ray
    except ImportError:
        go_without("Ray is not installed: pip install -c constraints.txt '.[ray]'")
    return ray


@contextlib.contextmanager
def two_nodes_of_ray() -> Iterator[Any]:
    """Two nodes of one processor each, to which this process is connected; tests go without where Ray does not come
    up."""
    import ray
    from ray.cluster_utils import Cluster

    begun: list[Any] = []

    def begin() -> None:
        begun.append(Cluster(initialize_head=True, head_node_args={**LEAN, **warm.for_ray()}))
        begun[0].add_node(num_cpus=1, **warm.for_ray())
        ray.init(address=begun[0].address, logging_level="ERROR", log_to_driver=False)

    def end() -> None:
        ray.shutdown()
        while begun:
            begun.pop().shutdown()

    try:
        try:
            in_some_tries(begin, end)
        except Exception as error:
            go_without(f"Ray's own server does not start here: {error}")
        yield begun[0]
    finally:
        end()


def in_some_tries(begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Begin something of Ray's, which has 30 seconds for that: on a slow machine sometimes too few. What it raises then
    is of several types, one of which is Exception itself."""
    for left in reversed(range(TRIES)):
        try:
            begin()
            break
        except Exception:
            end()
            if not left:
                raise


class Kept(cluster.RayTransport):
    """Workers that several runs have, one after the other: to begin one loads all that fedroam needs."""

    @override
    def start(self) -> None:
        if not self.actors:
            in_some_tries(super().start, super().close)

    @override
    def close(self) -> None:
        """They stay for the next run; `end` ends them, and a cluster of their own with them."""

    def end(self) -> None:
        """No run follows."""
        super().close()


@contextlib.contextmanager
def one_cluster_for_all_runs() -> Iterator[None]:
    """Within it the first run over Ray starts its cluster and workers, and the next ones have the same."""
    begun: list[Kept] = []

    def transport(*given: Any) -> Kept:
        if not begun:
            from ray._private import ray_constants

            for name, path in warm.for_ray().items():
                assert name == "setup_worker_path"
                patch.setattr(ray_constants, "SETUP_WORKER_FILENAME", path)
            begun.append(Kept(*given))
        return begun[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "RayTransport", transport)
        try:
            yield
        finally:
            for each in begun:
                each.end()
