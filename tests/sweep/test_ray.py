"""The same runs on a Ray cluster: two nodes on this machine. Needs the extra `ray`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedroam.errors import InputError
from fedroam.planning import SweepPlan, sweep_plan
from fedroam.sweep import Event, Progress, Sweep, cluster, open_sweep
from fedroam.sweep.running import run_sweep
from support.ray_nodes import installed_ray, two_nodes_of_ray
from support.sweeps import OVER, bad_parts, same, settings

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
ray = installed_ray()

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:

    with two_nodes_of_ray() as here:
        assert ray.cluster_resources()["CPU"] == 2
        yield here


@pytest.fixture(scope="module")
def plan() -> SweepPlan:
    """Four runs."""
    return sweep_plan(settings(), over=OVER[:1], seeds=2)


@pytest.fixture(scope="module")
def local(plan: SweepPlan, tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """The runs without a cluster."""
    return run_sweep(plan, tmp_path_factory.mktemp("sweep") / "local", workers=1)


def test_a_cluster_of_two_nodes_gives_the_same_table(
    two_nodes: Any, plan: SweepPlan, local: Sweep, tmp_path: Path
) -> None:
    same(run_sweep(plan, tmp_path / "ray", ray="auto"), local)
    assert not (tmp_path / "ray" / cluster.TOKEN).exists()


def test_a_killed_worker_of_ray_and_failures(two_nodes: Any, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    variants = {
        "static": {"mobility": {"kind": "static"}},
        "dies-once": {"mobility": {"kind": "deadly_once", "marker": str(marker)}},
        "raising": {"mobility": {"kind": "raising"}},
        "hungry": {"mobility": {"kind": "hungry"}},
    }
    plan = sweep_plan(settings(variants=variants), use=[bad_parts(tmp_path)])
    sweep = run_sweep(plan, tmp_path / "ray", ray="auto", memory_gib=4)
    table = sweep.table.set_index("variant")
    assert marker.exists()
    assert table["state"].to_dict() == {
        "static": "done",
        "raising": "failed",
        "hungry": "failed",
        "dies-once": "done",
    }
    assert table.loc["raising", "reason"] == "ValueError: lost in round 2 (bad_parts.py, line 23)"
    assert table.loc["hungry", "reason"].startswith("out of memory, a worker may take 2 GiB")
    # It stands still like `static`, so it must have got the same numbers, death or not.
    assert table.loc["dies-once", "accuracy"] == table.loc["static", "accuracy"]


def test_a_node_that_does_not_see_the_folder_sends_its_runs_back(
    two_nodes: Any, plan: SweepPlan, local: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster._node_setup
    token = secrets.token_hex(16)
    monkeypatch.setattr(cluster, "_node_setup", lambda *given: replace(node(*given), token=token))
    heard = set()

    def observe(progress: Progress, event: Event) -> None:
        if event.what == "round":
            heard.add(event.digest)
            # Nothing is there before the whole run is: it is computed elsewhere.
            assert not (tmp_path / "ray" / "runs" / event.digest[:16]).exists()

    far = run_sweep(plan, tmp_path / "ray", ray="auto", observer=observe)
    assert heard == set(plan.distinct)
    same(far, local)
    assert sorted(path.name for path in (tmp_path / "ray" / "runs").iterdir()) == sorted(
        digest[:16] for digest in plan.distinct
    )
    assert open_sweep(tmp_path / "ray").done


def test_nodes_of_other_versions_end_the_sweep_which_can_be_gone_on_with(
    two_nodes: Any, plan: SweepPlan, local: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster._node_setup
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "_node_setup", lambda *given: replace(node(*given), versions={"torch": "0.4"}))
        with pytest.raises(
            InputError, match=r"^--ray: node .* has torch .*; this machine has torch 0.4; allowed"
        ):
            run_sweep(plan, tmp_path / "ray", ray="auto")
    assert not (tmp_path / "ray" / cluster.TOKEN).exists()
    assert not open_sweep(tmp_path / "ray").failed
    same(run_sweep(plan, tmp_path / "ray", ray="auto"), local)
