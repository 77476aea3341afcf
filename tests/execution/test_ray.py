"""One run over a Ray cluster: two nodes on this machine. Needs the extra `ray`."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from execution.test_equality import OURS, OWN, both, same
from fedroam import components
from fedroam.components import use
from fedroam.errors import FedroamError, InputError, MissingExtraError
from fedroam.execution import address, cluster
from fedroam.learning.cpu.workers import shared_workers
from fedroam.measurement import Measurement
from fedroam.planning import sweep_plan
from fedroam.runner import run
from fedroam.scene import Scene, prepare
from fedroam.sweep.running import run_sweep
from support import warm
from support.ray_nodes import Kept, installed_ray, two_nodes_of_ray
from support.spreading import crew_of
from support.sweeps import same as same_sweep
from support.sweeps import settings
from support.tiny import tiny
from support.waiting import HANGS

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
ray = installed_ray()

pytestmark = pytest.mark.slow
SPREAD = {"kind": "ray", "address": "auto", "workers": 2}


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """A cluster of two nodes, one worker each."""
    with two_nodes_of_ray() as here:
        yield here


CASES: dict[str, dict[str, Any]] = {
    "decentralized": OURS,
    "mohawk": {"federation": {"kind": "mohawk", "k2": 2}, "activity": {"kind": "rate", "rate": 0.5}},
    "fedavg": {"federation": "fedavg", **OURS, **OWN},
    "a robust rule": {"aggregation": "trimmed_mean"},
}


def test_runs_over_a_cluster_are_those_of_one_process(two_nodes: Any, tmp_path: Path) -> None:
    """One after the other by the same workers, with whom nothing of an earlier run stays; and what they refuse before
    the first one is told in one line."""
    workers = Kept("auto", 2, 1)
    workers.start()
    try:
        with pytest.raises(FedroamError, match="before it was told what for") as told:
            workers.get(workers.call(0, "hold", None))
        assert "\n" not in str(told.value)
        for case, settings in CASES.items():
            same(*both(settings, tmp_path / case, workers)[:2])
    finally:
        workers.end()


def test_what_ray_draws_is_not_taken_for_a_draw_of_the_run(
    two_nodes: Any, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """It draws from Python's global generator, which no part of fedroam does."""
    random.random()  # as it does
    run(tiny(execution=SPREAD, rounds=4), tmp_path / "run", observer=lambda *_: random.random())
    assert not [each for each in recwarn if "global generator" in str(each.message)]
    assert not [each for each in recwarn if "last digits" in str(each.message)]  # all is on one machine


def test_a_killed_worker_changes_nothing(two_nodes: Any, tmp_path: Path) -> None:
    experiment = tiny(rounds=6, checkpoint_every=2)
    alone = run(experiment, tmp_path / "alone")
    scenes: list[Scene] = []
    killed: list[int] = []

    def observe(round: int, rounds: int, found: Measurement | None) -> None:
        if round == 3:
            crew = crew_of(scenes[0])
            (process,) = crew.get(crew.transport.call(1, "here"))
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    def stage(described: Any) -> Scene:
        scenes.append(prepare(described))
        return scenes[0]

    with pytest.warns(UserWarning, match="a worker is lost"):
        spread = run(experiment.replace(execution=SPREAD), tmp_path / "spread", observer=observe, stage=stage)
    same(alone, spread)
    assert spread.environment["computed"][0] == "execution: ray, 2 workers of 1 cores on 2 nodes"
    assert len(killed) == 1
    assert crew_of(scenes[0]).told["renewals"] == 1


def test_another_address_than_that_of_the_connection_is_refused(
    two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But no other name of the same cluster."""
    there = str(two_nodes.address)
    host, _, port = there.rpartition(":")
    for given in (f"{host}:1", f"nosuch.invalid:{port}"):
        with pytest.raises(InputError, match=rf"address = {given}: .* connected to Ray at {there} already"):
            run(tiny(execution={**SPREAD, "address": given}), tmp_path / "run")
        with pytest.raises(InputError, match=rf"--ray {given}: .* connected to Ray at {there} already"):
            run_sweep(sweep_plan(settings()), tmp_path / "sweep", ray=given)
    assert not [*tmp_path.iterdir()]
    for given in (there, f"127.0.0.1:{port}", "auto"):
        assert not cluster.connect(ray, given, 1, "--ray")
    monkeypatch.setattr(
        address, "_alike", lambda *_: False
    )  # a name that only the cluster itself can explain
    assert not cluster.connect(ray, there, 1, "--ray")


def test_what_listens_and_is_another_server_is_refused_soon(two_nodes: Any) -> None:
    """It speaks as Ray does, but knows no cluster: a node's own port. In a process that is not connected yet."""
    port = ray.nodes()[0]["NodeManagerPort"]
    script = f"""
import ray
from fedroam.execution.cluster import connect
try:
    connect(ray, "127.0.0.1:{port}", 1, "--ray")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([*warm.python(), "-c", script], capture_output=True, text=True, timeout=HANGS)
    assert done.stdout.startswith(
        f"InputError --ray 127.0.0.1:{port}: no Ray cluster there (ConnectionError:"
    )


def test_a_sweep_of_runs_over_a_cluster(two_nodes: Any, tmp_path: Path) -> None:
    over = ["training.lr=0.2"]
    spread = {**SPREAD, "address": str(two_nodes.address)}
    found = run_sweep(sweep_plan(settings(execution=spread), over=over), tmp_path / "ray", workers=1)
    same_sweep(found, run_sweep(sweep_plan(settings(), over=over), tmp_path / "here", workers=1))


PART = '''
import numpy as np

from fedroam.components import register
from fedroam.mixing.aggregation import Average


@register("aggregation", "middle")
class Middle(Average):
    """The middle of the models that met, by coordinates."""

    def aggregate(self, received, facts):
        return np.median(received.models, axis=0).astype(np.float32)
'''


def test_parts_of_ones_own_go_along(two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {family: dict(parts) for family, parts in components._registry.items()}
    monkeypatch.setattr(components, "_registry", kept)  # its part is known in this test alone
    (tmp_path / "my_middle.py").write_text(PART)
    use(tmp_path / "my_middle.py")
    experiment = tiny(aggregation="middle")
    alone = run(experiment, tmp_path / "alone")
    same(alone, run(experiment.replace(execution=SPREAD), tmp_path / "spread"))


def test_more_workers_than_there_is_room_for_are_refused(two_nodes: Any, tmp_path: Path) -> None:
    experiment = tiny(execution={**SPREAD, "workers": 3})
    with pytest.raises(InputError, match=r"execution.workers = 3.*room for 2 workers"):
        run(experiment, tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_worker_fits_one_machine(two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of 1, 1 and 3 cores have room for one worker of 2, which all cores together would have for two; it computes
    with 2 threads. Where there is no room for another, or for one in the place of one that is lost, the error says what
    to do."""
    third = two_nodes.add_node(num_cpus=3, **warm.for_ray())
    workers, another = Kept("auto", 0, 2), cluster.RayTransport("auto", 1, 2)
    try:
        workers.start()
        assert workers.count == 1
        same(*both(OURS, tmp_path, workers, threads=2)[:2])
        threads = workers.actors[0].__ray_call__.remote(lambda worker: shared_workers().count)
        assert ray.get(threads) == 2
        with pytest.raises(InputError, match=r"execution.workers = 2.*room for 1 workers .* on one machine"):
            cluster.RayTransport("auto", 2, 2).start()
        monkeypatch.setattr(cluster, "PATIENCE", 0.1)
        with pytest.raises(FedroamError, match=r"1 of 1 workers of 2 cores found no room.*other work holds"):
            another.start()
        two_nodes.remove_node(third)
        third = None
        with pytest.raises(FedroamError, match=r"1 of 1 workers.*room for 0; start one.*--resume") as told:
            workers.renew()
        assert "\n" not in str(told.value)
    finally:
        another.close()
        workers.end()
        if third is not None:
            two_nodes.remove_node(third)


def test_where_ray_is_missing_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"execution.kind = 'ray' needs .*\[ray\]"):
        run(tiny(execution=SPREAD), tmp_path / "run")


def test_errors_of_rays_own_become_one_line() -> None:
    text = "\x1b[36mray::_task()\x1b[39m (pid=1)\n  File x, line 3\n\nImportError: no module\n"
    assert (
        cluster.brief(RuntimeError(text)) == "RuntimeError: ray::_task() (pid=1) ... ImportError: no module"
    )
    assert cluster.brief(RuntimeError("plain")) == "RuntimeError: plain"
