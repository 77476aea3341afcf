"""A run that is spread over workers is the run of one process, bit for bit, whatever the federation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedroam.components import kinds
from fedroam.execution.crew import FIRST
from fedroam.execution.placement import Meetings
from fedroam.execution.transport import Transport
from fedroam.execution.worker import Worker, WorkerSamples
from fedroam.learning.cpu.workers import shared_workers
from fedroam.recording import Run
from fedroam.recording.checkpoint import kept, load
from fedroam.runner import run
from fedroam.scene import Scene
from support.spreading import InProcess, crew_of, spread_out
from support.tiny import same_tables, tiny

OWN = {"evaluate_on": "own", "test_share": 0.3, "validation_share": 0.2}
OURS = {"engine": {"kind": "cpu", "workers": 1}, "model": {"kind": "mlp", "hidden": [6]}}
WITH_FEATURES = ("mocfl", "fedproto", "moon", "fedgh", "gpfl", "fedfomo", "fedavgdbe")
HIERARCHIES = ("hierarchical", "hierfavg", "macfl", "mohawk", "delayed_mohawk")
AT_ONCE = {"hierarchical_fedasync": {"rho": 0.1}, "hierarchical_fedbuff": {"size": 2}}


class NormAndDropout(nn.Module):
    """A network that draws, and keeps statistics, in training."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        wide = nn.Linear(math.prod(shape), 6)
        self.layers = nn.Sequential(
            nn.Flatten(), wide, nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        found: torch.Tensor = self.layers(x)
        return found


def _federation(kind: str) -> dict[str, Any]:
    if kind in HIERARCHIES:  # with updates that wait
        return {"federation": {"kind": kind, "k2": 2}, "activity": {"kind": "rate", "rate": 0.5}}
    if kind in AT_ONCE:
        return _federation("mohawk") | {"federation": {"kind": kind, "k2": 2, **AT_ONCE[kind]}}
    return {"federation": kind, **({**OURS, **OWN} if kind in WITH_FEATURES else {})}


CASES: dict[str, dict[str, Any]] = {
    **{kind: _federation(kind) for kind in kinds("federation")},
    "a robust rule": {"aggregation": "trimmed_mean"},
    "a rule that knows more": {"aggregation": "trimmed_mean", "mixing": "contact_duration"},
    "models that are trained before they are merged": {
        "federation": {"kind": "gossip_learning", "create": "update_merge"}
    },
    "mixing before moving": {"federation": {"kind": "decentralized", "order": "mix_then_move"}},
    "liars": {"attack": {"kind": "sign_flip", "clients": (1, 3), "scale": 2.0}},
    "wrong labels": {"federation": "fedavg", "attack": {"kind": "label_flip", "share": 0.3}},
    "side by side, on a share of the test samples": {**OURS, "evaluate_share": 0.5, "evaluate_whole": 1},
    "own samples": {**OURS, **OWN},
    "convolutions": {**OURS, "model": "conv5", "rounds": 2, "data": {"kind": "digits", "test_share": 0.1}},
    "buffers and dropout": {
        "model": {"kind": "torch_module", "target": f"{__name__}:NormAndDropout"},
        "rounds": 2,
    },
    "independent starts": {"start_models": "independent"},
    "seconds": {"clock": {"kind": "seconds"}},
    "access points judge": {
        "federation": {"kind": "mohawk", "k2": 3, "judge": "access_point"},
        "aggregation": "median",
    },
}


def both(
    settings: dict[str, Any], folder: Path, transport: Transport, threads: int = 1
) -> tuple[Run, Run, Scene]:
    """A run in this process, and spread over workers with so many threads each."""
    experiment, scenes = tiny(**{"evaluate_every": 1, **settings}), []

    def stage(described: Any) -> Scene:
        scenes.append(spread_out(described, transport, threads))
        return scenes[0]

    alone = run(experiment, folder / "alone")
    return alone, run(experiment, folder / "spread", stage=stage), scenes[0]


def same(alone: Run, spread: Run) -> None:
    """The same tables, states and models."""
    names = ("rounds", "clients", "positions", "contacts")
    same_tables(*({name: found.table(name) for name in names} for found in (alone, spread)))
    one, other = (kept(each.folder / "checkpoints") for each in (alone, spread))
    assert [path.name for path in one] == [path.name for path in other]
    for a, b in zip(one, other, strict=True):
        found = [load(path, alone.status["digest"]).arrays for path in (a, b)]
        assert found[0].keys() == found[1].keys()
        for name, array in found[0].items():
            np.testing.assert_array_equal(array, found[1][name], err_msg=name)
    models = [(each.folder / "models.safetensors").read_bytes() for each in (alone, spread)]
    assert models[0] == models[1]


@pytest.mark.parametrize("case", CASES)
def test_a_spread_run_is_the_run_of_one_process(case: str, tmp_path: Path) -> None:
    alone, spread, scene = both(CASES[case], tmp_path, InProcess(3))
    same(alone, spread)
    used = scene.spread
    assert used is not None
    workers = {worker for worker, method in used.crew.transport.calls if method == "train"}  # type: ignore[attr-defined]
    assert workers == {0, 1, 2} or CASES[case].get("federation") == "majority"  # which trains nobody


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_the_number_of_workers_changes_nothing(count: int, tmp_path: Path) -> None:
    settings = {"training": {"kind": "sgd", "lr": 0.1, "momentum": 0.5, "batch_size": 8, "epochs": 1}}
    same(*both(settings, tmp_path, InProcess(count))[:2])


@pytest.mark.parametrize("rule", ["average", "trimmed_mean"])
def test_the_threads_of_a_worker_change_nothing(rule: str, tmp_path: Path) -> None:
    """Of what is done to all models together, too: these are wide enough to be divided."""
    model = {"kind": "mlp", "hidden": [150]}
    settings = {"model": model, "aggregation": rule, "engine": {"kind": "cpu", "workers": 1}}
    before = shared_workers().count
    try:
        same(*both(settings, tmp_path, InProcess(2), threads=3)[:2])
        assert shared_workers().count == 3
    finally:
        shared_workers().resize(before)


def test_clients_that_change_places_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who meet are first with different workers, so that it is worth to move."""
    settings = {
        "clients": 12,
        "rounds": 30,
        "evaluate_every": 15,
        "checkpoint_every": 15,
        "mobility": {"kind": "random", "grid": 9, "mobile": 1},
        "contacts": {"kind": "radius", "radius": 2.0},
    }
    sent: list[int] = []
    charged: list[float] = []
    hold, better = Worker.hold, Meetings.better

    def held(worker: Worker, samples: WorkerSamples) -> None:
        """What is sent is what a worker lacks."""
        had = np.zeros(0) if worker._samples is None else worker._samples.numbers
        assert set(samples.new) == set(samples.numbers) - set(had)
        assert len(samples.new) == len(samples.x) == len(samples.y)
        sent.append(len(samples.new))
        hold(worker, samples)

    def looked(meetings: Meetings, place: np.ndarray, load: np.ndarray, cost: np.ndarray, *rest: int) -> Any:
        found = better(meetings, place, load, cost, *rest)
        if found is not None:
            charged.append(float(cost[found != place].sum()))
        return found

    monkeypatch.setattr(Worker, "hold", held)
    monkeypatch.setattr(Meetings, "better", looked)
    alone, spread, scene = both(settings, tmp_path, InProcess(3))
    same(alone, spread)
    crew = crew_of(scene)
    moved, layout = crew.told["clients that changed places"], scene.task.layout
    assert moved > 0
    assert crew.told["samples sent from here"] == sum(sent)
    # A move was charged what was sent for it; none of these clients has a sample of another's.
    ratio = scene.task.x[0].numel() / (layout.size + layout.buffer_size)
    assert 0 < sum(sent[3:]) * ratio + 2 * moved <= sum(charged)
    assert sum(sent[:3]) == len(scene.task.y) + 2 * FIRST


def test_only_what_the_contacts_need_travels(tmp_path: Path) -> None:
    """Without evaluation, each model goes once to each worker that has one of its neighbours, and nowhere else."""
    experiment = tiny(
        clients=8, mobility={"kind": "random", "grid": 6, "mobile": 3}, start_models="independent"
    )
    scene = spread_out(experiment, InProcess(3))
    from fedroam.simulation import begin, play_round

    state, crew, expected = begin(scene), crew_of(scene), 0
    for _ in range(experiment.rounds):
        before = dict(crew.told)
        state, done = play_round(scene, state)
        i, j = done.meeting.graph.nonzero()
        away = crew.place[i] != crew.place[j]
        expected = len({*zip(j[away].tolist(), crew.place[i[away]].tolist(), strict=True)})
        moved = crew.told["clients that changed places"] - before.get("clients that changed places", 0)
        travelled = crew.told["rows between workers"] - before.get("rows between workers", 0)
        assert expected <= travelled <= expected + moved
    assert crew.told["rows sent from here"] == 8  # the start models
    assert crew.told["rows brought here"] == 0
    assert expected > 0


def test_what_travelled_is_told_in_the_run_folder(tmp_path: Path) -> None:
    _, spread, scene = both({}, tmp_path, InProcess(2))
    told = json.loads((spread.folder / "travel.json").read_text())
    assert told == dict(crew_of(scene).told)
    assert "travel.json" in spread.status["files"]
    assert not (tmp_path / "alone" / "travel.json").exists()
