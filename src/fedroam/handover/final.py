"""A model that a run ended with, and all that is needed to use it; also of runs that kept none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import nn

from fedroam.checks.arguments import checked
from fedroam.errors import InputError
from fedroam.recording import Run, checkpoint, recorded_experiment
from fedroam.recording.files import FileFacts
from fedroam.recording.models import (
    DESCRIPTION,
    FILE,
    MEAN,
    FinalModels,
    NetworkInput,
    filled,
    network,
    network_input,
    read_models,
)
from fedroam.scene import describe_input, prepare
from fedroam.state import State, final_models


@dataclass(frozen=True)
class FinalModel:
    """One model of a run.

    module: on the CPU, in evaluation mode. fed: what it is fed and answers. accuracy: what the run recorded of it in
    its last round, None where it recorded nothing of this one. notes: what is worth telling of where it comes from.
    """

    run: Run
    which: str
    client: int | None
    module: nn.Module
    fed: NetworkInput
    accuracy: float | None
    notes: tuple[str, ...] = ()


@checked(run="a run, as open_run(...) gives one")
def final_model(run: Run, which: str | None = None, client: int | None = None) -> FinalModel:
    """A model that a run ended with (see `Run.model`), taken from its last checkpoint where it keeps no such model.

    From a checkpoint needs the run's data, which must be those that it learnt from. Raises InputError where the run is
    not finished or has no such model.
    """
    models, fed, notes = _models(run, which)
    group = models.groups.headline if which is None else which
    values = models.values(which, client)
    module = filled(network(run.settings, fed, str(run.folder)), values, models.source)
    return FinalModel(run, group, client, module, fed, _recorded(run, models, group, client), notes)


def _models(run: Run, which: str | None) -> tuple[FinalModels, NetworkInput, tuple[str, ...]]:
    """Those that the run kept, if the one that is asked for is among them; else those of its checkpoint."""
    path = run.folder / FILE
    if path.is_file():
        listed = run.manifest().get(FILE)
        if listed is not None and FileFacts.on_disk(path) != listed:
            raise InputError(f"{path}: damaged: its SHA-256 is not the one that run.json lists")
        models = read_models(path)
        wanted = models.groups.headline if which is None else which
        if wanted in models.groups.rows or run.settings.get("keep_models", "all") == "all":
            return models, network_input(run.folder / DESCRIPTION), ()
    if not run.done:
        raise InputError(
            f"{run.folder}: is not finished (round {run.status['round']} of {run.status['rounds']}): its models are "
            "those of the end; go on with --resume"
        )
    return _from_checkpoint(run)


def _from_checkpoint(run: Run) -> tuple[FinalModels, NetworkInput, tuple[str, ...]]:
    newest = checkpoint.newest(run.folder / "checkpoints")
    if newest is None:
        raise InputError(f"{run.folder}: keeps neither models nor a checkpoint to take them from")
    found = checkpoint.load(newest, run.status["digest"])
    scene = prepare(recorded_experiment(run))
    try:
        was = run.environment.get("data", {}).get("sha256")
        if was not in (None, scene.dataset.fingerprint):
            raise InputError(
                f"{run.folder}: keeps no such model, and its checkpoint needs the data it learnt from: their SHA-256 "
                f"was {was[:12]}, now {scene.dataset.fingerprint[:12]}"
            )
        state = State.of(found.round, {k: v for k, v in found.arrays.items() if k != "recorded.rows"}, scene)
        models = final_models(scene, state, "all", str(newest))
        return models, NetworkInput(**describe_input(scene)), (f"taken from {newest}, with the run's data",)
    finally:
        scene.learner.close()


def _recorded(run: Run, models: FinalModels, group: str, client: int | None) -> float | None:
    """The accuracy that the last round recorded of a model."""
    headline = models.groups.headline
    if group == MEAN and client is None:
        value = run.rounds["accuracy_mean_model"].iloc[-1]
    elif group in (headline, *models.groups.rows) and client is not None:
        last = run.clients[run.clients["round"] == run.clients["round"].max()]
        column = "accuracy" if group == headline else f"accuracy_{group}"
        own = last[last["client"] == client]
        if column not in own or own.empty:
            return None
        value = own[column].iloc[0]
    else:
        value = run.rounds["accuracy" if group == headline else f"accuracy_{group}"].iloc[-1]
    return float(value) if np.isfinite(value) else None
