"""`fedroam bench` on workloads small enough for a test: what is measured, and how it is told."""

from __future__ import annotations

import dataclasses
import functools
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

from fedroam import bench
from fedroam.bench import measures, server_methods, workloads
from fedroam.bench.measures import Result, in_turn, ratio
from fedroam.cli import main
from fedroam.errors import InputError
from fedroam.learning import Layout
from fedroam.native import ObjectCache, target


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "peak", lambda workers: 1e11)
    for name, workload in workloads.WORKLOADS.items():
        monkeypatch.setitem(
            workloads.WORKLOADS, name, dataclasses.replace(workload, clients=2, batch=2, steps=1)
        )


@pytest.mark.usefixtures("small")
def test_a_table_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A cache of its own: into the suite's other tests may put kernels meanwhile.
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", str(tmp_path / "kernels"))
    console = Console(record=True, width=160, file=(tmp_path / "screen").open("w"))
    threads = torch.get_num_threads()
    results = bench.run(["A", "E", "overhead"], 1, workers=1, out=tmp_path / "bench.json", console=console)
    assert torch.get_num_threads() == threads
    assert [result.name for result in results] == ["A", "E", "overhead"]
    assert all(result.value > 0 for result in results[:2])
    shown = console.export_text()
    assert "MNIST CNN" in shown
    assert ">= 4 x, 50 % of peak" in shown
    assert "<= 2 %" in shown
    held = json.loads((tmp_path / "bench.json").read_text())
    assert [line["name"] for line in held["results"]] == ["A", "E", "overhead"]
    assert len(held["results"][0]["times"]["plain"]) == 1
    assert held["workers"] == 1
    assert held["kernels"] == bench.kernels()
    assert bench.kernels() in shown


def test_it_says_which_kernels_and_where_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here, folder = target(), tmp_path / "[kept]"
    assert here is not None
    torchs = f"torch's: {torch.backends.cpu.get_cpu_capability()}"
    begins = f"kernels: vectors of {here.lanes} on {here.name} ({torchs})"
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", str(folder))
    assert bench.kernels() == f"{begins}; 0 compiled ones in {folder}, 0.0 of at most 64 MiB"
    ObjectCache(folder).write("0" * 64, bytes(1 << 20))
    assert bench.kernels() == f"{begins}; 1 compiled ones in {folder}, 1.0 of at most 64 MiB"
    folder.chmod(0o755)
    begins += ", compiled in each process"
    told = f"{begins}: {folder} is not used (its mode is 0755; allowed is 0700)"
    assert bench.kernels() == told
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", str(tmp_path / "file" / "below"))
    assert bench.kernels() == f"{begins}: {tmp_path / 'file' / 'below'} is not used (Not a directory)"
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", "0")
    assert bench.kernels() == begins
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    assert bench.kernels() == f"kernels: none; convolutions are {torchs}"


@pytest.mark.parametrize(
    ("where", "why"), [("none/bench.json", "No such file or directory"), (".", "it is a folder")]
)
def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(
    where: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "mixing", lambda repeats: pytest.fail("measured"))
    with pytest.raises(InputError) as told:
        bench.run(["F"], 1, out=tmp_path / where)
    assert str(told.value) == f"{tmp_path / where}: cannot be written ({why})"


def test_what_other_programs_disturb_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is timed is watched, not training alone."""
    monkeypatch.setattr(measures.Others, "left", lambda others: 0.5)
    monkeypatch.setattr(
        measures, "in_turn", lambda repeats, **works: {name: [1.0] * repeats for name in works}
    )
    found = [*measures.mixing(1), *measures.evaluation(1, 1), *measures.overhead(2, 1)]
    assert [result.name for result in found] == ["F", "evaluation", "evaluation", "overhead"]
    assert all(result.disturbed for result in found)


@pytest.mark.parametrize("name", workloads.WORKLOADS)
@pytest.mark.usefixtures("small")
def test_both_sides_train_the_same_network(name: str) -> None:
    """From the same weights a round takes both to the same ones: with one step it is of all samples of a client, in
    whatever order each side takes them."""
    workload = workloads.WORKLOADS[name]
    ours = workloads.Ours(workload, workers=1)
    plain = workloads.Plain(workload, ours.x, ours.y)
    before = ours.models.parameters.clone()
    entries = ours.models.layout.parameters
    with torch.no_grad():
        for module, row in zip(plain.modules, before, strict=True):
            for entry, own in zip(entries, module.parameters(), strict=True):
                assert own.shape == entry.shape
                own.copy_(entry.view(row))
    ours.round()
    plain.round()
    ours.evaluate()
    plain.evaluate()
    ours.learner.close()
    for module, row, start in zip(plain.modules, ours.models.parameters, before, strict=True):
        for entry, own in zip(entries, module.parameters(), strict=True):
            end = own.detach()
            assert (entry.view(row) - end).norm() < 1e-3 * (end - entry.view(start)).norm()


@pytest.mark.parametrize("name", workloads.WORKLOADS)
def test_the_stated_arithmetic(name: str) -> None:
    workload = workloads.WORKLOADS[name]
    module, shape = workload.plain(), workload.shape
    x = torch.zeros(workload.batch, *((shape[2], *shape[:2]) if len(shape) == 3 else shape))
    with FlopCounterMode(display=False) as counter:
        module(x).sum().backward()
    assert counter.get_total_flops() == pytest.approx(workload.flops, rel=0.03)
    assert Layout.of(module).size > 0


def test_ratios_are_of_neighbours() -> None:
    assert ratio({"a": [2.0, 30.0, 6.0], "b": [1.0, 10.0, 3.0]}, "a", "b") == 2.0
    calls: list[str] = []
    times = in_turn(2, a=lambda: calls.append("a"), b=lambda: calls.append("b"))
    assert calls == ["a", "b"] * 3
    assert [len(each) for each in times.values()] == [2, 2]


def test_targets() -> None:
    assert Result("", "", 1.8, 1.7, "x").reached
    assert not Result("", "", 1.6, 1.7, "x").reached
    assert Result("", "", 90, 110, "ms", more_is_better=False).reached
    assert not Result("", "", 120, 110, "ms", more_is_better=False).reached
    assert Result("", "", 1, None, "x").reached is None
    assert Result("", "", 1.8, 1.7, "x", share=0.5, least_share=0.5).reached
    assert not Result("", "", 1.8, 1.7, "x", share=0.4, least_share=0.5).reached
    assert not Result("", "", 1, None, "x").disturbed
    assert Result("", "", 9, 1.7, "x", busy=0.5).disturbed
    assert not Result("", "", 9, 1.7, "x", busy=0.95).disturbed


def test_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown workload 'Z': allowed are"):
        bench.run(["Z"], 1)
    with pytest.raises(InputError, match="repeats = 0"):
        bench.run([], 0)
    with pytest.raises(InputError, match="cannot be written"):
        bench.run([], 1, out=tmp_path)


def test_a_round_of_every_method_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = functools.partial(server_methods.methods, clients=3, trained=8)
    monkeypatch.setattr(bench, "methods", small)
    monkeypatch.setattr(measures.time, "perf_counter", time.process_time)  # however busy the machine is
    results = bench.run(["methods"], 2, workers=1, console=Console(file=(tmp_path / "screen").open("w")))
    told = [result.name.removeprefix("methods: ") for result in results]
    assert told[0] == "fedavg"
    assert told == 2 * told[: len(told) // 2]  # of either network
    assert {"fedprox", "moon", "fedavgdbe", "fedproto", "gpfl", "fedgh", "fedfomo", "mocfl"} <= set(told)
    assert {"scaffold", "ditto", "local", "majority"} <= set(told)
    assert all(len(result.times["round"]) == 2 and result.unit == "s" for result in results)
    assert results[0].detail.startswith("1.00 x fedavg")
    seconds = {name: result.value for name, result in zip(told, results, strict=True)}
    assert seconds["majority"] < seconds["mocfl"]  # one trains nothing


def test_what_others_leave_of_the_cores_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others took 3 s of 4 cores in 10 s; then a system that does not tell."""
    taken = iter([100.0, 103.0])
    clock = iter([50.0, 60.0])
    monkeypatch.setattr(measures.Others, "_taken", staticmethod(lambda: next(taken)))
    monkeypatch.setattr(measures.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(measures.os, "cpu_count", lambda: 4)
    assert measures.Others().left() == pytest.approx(1 - 3 / 40)
    monkeypatch.undo()
    monkeypatch.setattr(measures.Others, "_taken", staticmethod(lambda: None))
    assert measures.Others().left() is None


def test_what_others_took_is_neither_idle_nor_this_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ticks of user, nice, system, idle, iowait, irq, softirq, steal, guest; a hundred are a second."""
    stat = tmp_path / "stat"
    stat.write_text("cpu  500 10 200 9000 70 1 2 87 44\ncpu0 1 1 1 1 1 1 1 1 1\n", encoding="ascii")
    monkeypatch.setattr(measures, "STAT", stat)
    monkeypatch.setattr(measures.os, "sysconf", lambda name: 100)
    monkeypatch.setattr(measures.os, "times", lambda: (2.0, 0.5, 0.25, 0.25, 1e6))
    assert measures.Others._taken() == pytest.approx(8.0 - 3.0)
    stat.write_text("no numbers\n", encoding="ascii")
    assert measures.Others._taken() is None
    monkeypatch.setattr(measures, "STAT", tmp_path / "nowhere")
    assert measures.Others._taken() is None


def test_it_computes_as_a_processor_with_narrower_vectors(tmp_path: Path) -> None:
    here = target()
    if here is None or here.lanes < 8:
        pytest.skip("no such vectors here")
    out = tmp_path / "bench.json"
    asked = ["bench", "F", "--repeats", "1", "--only", "AVX2", "--json", str(out)]
    subprocess.run([sys.executable, "-m", "fedroam", *asked], check=True, capture_output=True)
    kernels = json.loads(out.read_text(encoding="utf-8"))["kernels"]
    assert kernels.startswith(f"kernels: vectors of 8 on {here.name} (torch's: AVX2)")


def test_other_vectors_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "F", "--only", "AVX"]) == 2
    assert "unknown kind of vectors 'AVX': allowed are AVX2" in capsys.readouterr().err
    monkeypatch.setenv("FEDROAM_VECTOR", "4")
    assert main(["bench", "F", "--only", "AVX2"]) == 2
    assert "has no such vectors" in capsys.readouterr().err
