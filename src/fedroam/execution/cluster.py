"""A Ray cluster (https://docs.ray.io): reaching it, and workers of a run as its actors.

Ray sends what it is given as pickles, from and to processes of the user's own cluster. Nothing of it is kept in files.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from fedroam.errors import FedroamError, InputError, MissingExtraError
from fedroam.execution.address import LOCAL, check_reachable, check_same
from fedroam.execution.transport import Transport, WorkersLost
from fedroam.execution.worker import Worker
from fedroam.learning.cpu.workers import cores

PATIENCE = 300.0  # seconds to wait for room on the cluster


def ray_module(what: str) -> Any:
    """Ray, for `what`. Raises MissingExtraError."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError(what, "ray") from None
    return ray


def check_cluster(address: str, what: str) -> None:
    """Raise InputError, beginning with `what`, where `connect` would soon: before anything is written."""
    ray = ray_module(what)
    if ray.is_initialized():
        check_same(ray, address, what)
    else:
        check_reachable(address, what)


def connect(ray: Any, address: str, workers: int, what: str) -> bool:
    """Reach the cluster, or start one of this machine alone, unless this process is connected already.

    Whether it was not, so that what was begun is to be ended. Raises InputError, beginning with `what`, where nobody is
    at the address, or where this process is connected elsewhere.
    """
    if ray.is_initialized():
        check_same(ray, address, what)
        return False
    # nothing is sent anywhere unless the user asked for it
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    answers = check_reachable(address, what)
    own = {"num_cpus": workers or cores(), "include_dashboard": False} if address == LOCAL else {}
    try:
        with _one_try() if answers else contextlib.nullcontext():
            ray.init(address=address, logging_level="ERROR", log_to_driver=False, **own)
    except Exception as error:  # of many types; where Ray's own processes begin too slowly, of this very one
        raise InputError(f"{what} {address}: no Ray cluster there ({brief(error)})") from None
    return True


@contextlib.contextmanager
def _one_try() -> Iterator[None]:
    """Within it Ray tries an address once, in 40 seconds, and not 20 times: somebody is there and has answered."""
    name = "RAY_gcs_server_port_wait_time_s"
    if name in os.environ:  # the user's own
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


def brief(error: BaseException) -> str:
    """An error of Ray's own in one line: the first and the last of its many, without colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line[:200] for line in (lines[:1] + lines[-1:] if len(lines) > 1 else lines)]
    return f"{type(error).__name__}: {' ... '.join(told)}"


def room(nodes: Sequence[Mapping[str, Any]], cpus: int) -> int:
    """How many workers of so many cores fit the nodes of a cluster, as `ray.nodes()` tells of them: each fits one."""
    return sum(int(node["Resources"].get("CPU", 0)) // cpus for node in nodes if node["Alive"])


class RayTransport(Transport):
    """Workers as actors of Ray.

    workers: how many, 0 is as many as there is room for. cpus: cores of each. sources, modules: of the user's own parts
    (see `load_parts`). Cores that other work on the cluster holds count as room, and are waited for, `PATIENCE` seconds
    at most: they may be free in a moment, and how many of each node's are free Ray tells only in what is its own.
    """

    def __init__(
        self,
        address: str,
        workers: int,
        cpus: int,
        sources: Sequence[tuple[str, str]] = (),
        modules: Sequence[str] = (),
    ) -> None:
        self.address, self.workers, self.cpus = address, workers, cpus
        self.sources, self.modules = sources, modules
        self.actors: list[Any] = []
        self._ours, self._nodes = False, 0

    @property
    @override
    def count(self) -> int:
        return len(self.actors)

    @property
    @override
    def notes(self) -> tuple[str, ...]:
        return (f"execution: ray, {len(self.actors)} workers of {self.cpus} cores on {self._nodes} nodes",)

    @override
    def start(self) -> None:
        ray = ray_module("execution.kind = 'ray'")
        self._ours |= connect(ray, self.address, self.workers * self.cpus, "execution.address =")
        most = room(ray.nodes(), self.cpus)
        count = self.workers or most
        if not 0 < count <= most:
            self.close()
            raise InputError(
                f"execution.workers = {self.workers}, execution.cpus = {self.cpus}: the cluster has room for {most} "
                "workers of so many cores, each on one machine"
            )
        self.actors = [self._actor(ray) for _ in range(count)]
        missing = self._missing(ray)
        if missing:
            raise FedroamError(
                f"{missing} of {count} workers of {self.cpus} cores found no room on the Ray cluster within "
                f"{PATIENCE:g} s: other work holds its cores; wait for its end, or set execution.workers to fewer"
            )
        self._nodes = len(set(self.get([actor.node.remote() for actor in self.actors])))

    def _actor(self, ray: Any) -> Any:
        options = {"num_cpus": self.cpus, "scheduling_strategy": "SPREAD", "max_restarts": 0}
        return ray.remote(Worker).options(**options).remote(self.sources, self.modules)

    def _missing(self, ray: Any) -> int:
        """Wait until the workers are there; how many have found no room by then."""
        asked = [actor.here.remote() for actor in self.actors]
        _, missing = ray.wait(asked, num_returns=len(asked), timeout=PATIENCE)
        if not missing:
            self.get(asked)
        return len(missing)

    @override
    def call(self, worker: int, method: str, *given: Any, returns: int = 1) -> list[Any]:
        made = getattr(self.actors[worker], method).options(num_returns=returns).remote(*given)
        return made if isinstance(made, list) else [made]

    @override
    def get(self, promised: Sequence[Any]) -> list[Any]:
        ray = ray_module("execution.kind = 'ray'")
        lost = (
            ray.exceptions.RayActorError,
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.ObjectLostError,
            ray.exceptions.NodeDiedError,
        )
        try:
            found: list[Any] = ray.get(list(promised))
        except lost as error:
            raise WorkersLost(f"a worker is lost: {brief(error)}") from None
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, lost):
                raise WorkersLost(f"a worker is lost: {brief(cause)}") from None
            if isinstance(cause, FedroamError):
                kind = InputError if isinstance(cause, InputError) else FedroamError
                raise kind(str(cause)) from None
            raise FedroamError(brief(cause)) from None
        except ray.exceptions.RayError as error:
            raise FedroamError(brief(error)) from None
        return found

    @override
    def renew(self) -> None:
        ray = ray_module("execution.kind = 'ray'")
        for k, actor in enumerate(self.actors):
            try:
                self.get([actor.here.remote()])
            except WorkersLost:
                self.actors[k] = self._actor(ray)
        missing = self._missing(ray)
        if missing:
            raise FedroamError(
                f"a worker is lost, and the Ray cluster had no room for {missing} of {len(self.actors)} workers of "
                f"{self.cpus} cores within {PATIENCE:g} s: its machines that are left have room for "
                f"{room(ray.nodes(), self.cpus)}; start one in its place, or set execution.workers to fewer, and go "
                "on from the last checkpoint with --resume"
            )

    @override
    def close(self) -> None:
        actors, self.actors = self.actors, []
        if actors or self._ours:
            ray = ray_module("execution.kind = 'ray'")
            if ray.is_initialized():
                for actor in actors:
                    ray.kill(actor)
                if self._ours:
                    ray.shutdown()
        self._ours = False
