"""Machines of a cluster that have something else installed, or other vectors, than the one that plays the rounds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from execution.test_equality import same
from fedroam.errors import FedroamError, InputError
from fedroam.execution.agreement import Installed, check_versions, installed, otherwise, versions
from fedroam.runner import run
from fedroam.sweep import cluster
from support.spreading import InProcess, spread_out
from support.tiny import tiny


class Elsewhere(InProcess):
    """Workers, the last of which tells something else of its machine than is true."""

    def __init__(self, tells: Callable[[], Any], dies: tuple[int, ...] = ()) -> None:
        super().__init__(2, dies)
        self.tells = tells

    @override
    def call(self, worker: int, method: str, *given: Any, returns: int = 1) -> list[Any]:
        found = super().call(worker, method, *given, returns=returns)
        if method == "installed" and worker == 1 and isinstance(found[0], Installed):
            return [self.tells()]
        return found


def with_(**other: str) -> Installed:
    """What is installed on a machine that has other versions or details than this one."""
    here = installed()
    return Installed(
        "gpu7 (10.0.0.7)",
        {name: other.get(name, version) for name, version in here.versions.items()},
        {name: other.get(name, detail) for name, detail in here.details.items()},
    )


def spread(workers: InProcess, folder: Path) -> Any:
    return run(tiny(rounds=4), folder, stage=lambda e: spread_out(e, workers))


def test_what_is_installed_is_told() -> None:
    found = installed()
    assert found.node
    assert set(found.versions) == {"fedroam", "torch", "Python"}
    assert set(found.details) == {"vectors", "numpy", "scipy", "sources of fedroam"}
    assert all([*found.versions.values(), *found.details.values()])
    assert found == installed()


def test_vectors_are_those_that_kernels_are_cut_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    assert installed().details["vectors"].endswith("no kernels")


@pytest.mark.parametrize(("name", "version"), [("fedroam", "0.0.9"), ("torch", "2.0.0"), ("Python", "3.10")])
def test_another_version_is_refused_before_anything_is_written(
    name: str, version: str, tmp_path: Path
) -> None:
    here = versions()[name]
    wanted = (
        rf"^node gpu7 \(10.0.0.7\) has {name} {version}; this machine has {name} {here}; allowed are the same"
    )
    with pytest.raises(InputError, match=wanted.replace("+", r"\+")):
        spread(Elsewhere(lambda: with_(**{name: version})), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_machine_that_does_not_know_the_question_is_refused(tmp_path: Path) -> None:
    strange = FedroamError("AttributeError: 'Worker' object has no attribute 'installed'")
    with pytest.raises(InputError, match=r"does not tell what is installed there \(Attr.*same versions"):
        spread(Elsewhere(lambda: strange), tmp_path / "run")


def test_other_vectors_are_told_once_a_run(tmp_path: Path) -> None:
    """Also where a worker is replaced on the way, and is asked again."""
    here = installed().details["vectors"]
    workers = Elsewhere(lambda: with_(vectors="x86_64 AVX1, kernels of 2 values"), (60,))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        spread(workers, tmp_path / "run")
    assert sum(method == "installed" for _, method in workers.calls) == 4
    told = [str(each.message) for each in warned if "last digits" in str(each.message)]
    assert told == [
        "the numbers of this run may have other last digits than those of one machine: node gpu7 (10.0.0.7) has "
        f"vectors x86_64 AVX1, kernels of 2 values (here vectors {here})"
    ]


def test_equal_machines_pass_without_a_word(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = spread(Elsewhere(with_), tmp_path / "run")
    same(run(tiny(rounds=4), tmp_path / "alone"), found)


def test_all_that_differs_is_named() -> None:
    here = installed()
    with pytest.raises(
        InputError, match=r"has fedroam unknown, torch 1.0; this machine has fedroam .*, torch "
    ):
        check_versions(here.versions, {"torch": "1.0", "Python": here.versions["Python"]}, "old")
    there = replace(with_(numpy="1.0", scipy="1.1"), node="old")
    assert list(otherwise(here, [here, there])) == ["old"]
    assert otherwise(here, [there])["old"].startswith("numpy 1.0, scipy 1.1 (here numpy ")


def test_a_node_of_other_versions_ends_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is asked of it; the message is that of the machine where the sweep was started."""
    pytest.importorskip("ray")
    node: Any = SimpleNamespace(versions={**versions(), "torch": "9.9"})
    monkeypatch.setattr(cluster, "node_in_words", lambda: "gpu7 (10.0.0.7)")
    task: Any = None
    result = cluster._task(task, node, None, None)
    ray = SimpleNamespace(
        get=lambda given: given, exceptions=SimpleNamespace(WorkerCrashedError=OSError, RayError=OSError)
    )
    with pytest.raises(
        InputError, match=r"^--ray: node gpu7 \(10.0.0.7\) has torch .*; this machine has torch 9.9;"
    ):
        cluster._result(ray, result, task)
