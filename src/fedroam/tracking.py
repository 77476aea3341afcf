"""Trackers: what a run measures, told to TensorBoard, MLflow or Weights & Biases while it runs.

A tracker of your own is a class with the three methods of `Tracker`; `fedroam.run(..., trackers=[it])` calls them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from fedroam.checks.arguments import check_fields
from fedroam.errors import InputError, MissingExtraError, unknown
from fedroam.experiment import Experiment

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient
    from torch.utils.tensorboard import SummaryWriter

End = Literal["done", "interrupted", "failed"]


@dataclass(frozen=True)
class TrackedRun:
    """The run that a tracker is told of: its settings, its folder, and its variant ("" for none)."""

    experiment: Experiment
    folder: Path
    variant: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        """`VARIANT/seed-SEED`, or `seed-SEED`."""
        seed = f"seed-{self.experiment.seed}"
        return f"{self.variant}/{seed}" if self.variant else seed

    def settings(self) -> dict[str, Any]:
        """Every setting by its dotted name, such as `mobility.kind`."""
        flat: dict[str, Any] = {}
        for name, value in self.experiment.settings().items():
            if isinstance(value, Mapping):
                flat |= {f"{name}.{key}": entry for key, entry in value.items()}
            else:
                flat[name] = value
        return flat


@runtime_checkable
class Tracker(Protocol):
    """Whoever is told what a run measures, while it runs."""

    def start(self, run: TrackedRun) -> None:
        """A run begins, or goes on from a checkpoint. What is raised here stops the run before it computes."""

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """An evaluated round: the numbers of its row of the table `rounds`, those that are NaN left out.

        Rounds after the checkpoint that a run goes on from are told again, with equal numbers.
        """

    def end(self, state: End) -> None:
        """The run has ended so."""


class TensorBoard:
    """Event files in `RUN/tensorboard`; `tensorboard --logdir DIR` shows all runs below a folder."""

    _writer: SummaryWriter | None = None

    def check(self) -> None:
        """Find TensorBoard. Raises MissingExtraError where it is not installed."""
        try:
            import torch.utils.tensorboard  # noqa: F401
        except ImportError:
            raise MissingExtraError("--track tensorboard", "tracking") from None

    def start(self, run: TrackedRun) -> None:
        """Find TensorBoard; the file is begun with the first numbers."""
        self.check()
        self._run = run

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """One scalar a number; a run that goes on replaces what it tells again."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            folder = self._run.folder / "tensorboard"
            self._writer = SummaryWriter(str(folder), purge_step=round if folder.exists() else None)
            settings = "".join(f"    {line}\n" for line in self._run.experiment.toml().splitlines())
            self._writer.add_text("settings", settings, round)
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def end(self, state: End) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class MLflow:
    """A run of MLflow, in the experiment of the same name; where it goes says MLFLOW_TRACKING_URI.

    A run that goes on from a checkpoint goes on in MLflow, too: it is found by its digest and folder.
    """

    STATES: Mapping[End, str] = {"done": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}

    def check(self) -> None:
        """Find MLflow and reach its store. Raises MissingExtraError where it is not installed."""
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # else a wrong address takes minutes
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise MissingExtraError("--track mlflow", "tracking") from None
        self._client: MlflowClient = MlflowClient()
        self._client.search_experiments(max_results=1)

    def start(self, run: TrackedRun) -> None:
        """Find or make MLflow's run."""
        self.check()
        home = self._experiment(run.experiment.name)
        tags = {
            "fedroam.digest": run.experiment.digest,
            "fedroam.folder": str(run.folder.resolve()),
            "fedroam.variant": run.variant,
        }
        found_runs = self._client.search_runs([home], f"tags.`fedroam.digest` = '{run.experiment.digest}'")
        same = [each for each in found_runs if each.data.tags.get("fedroam.folder") == tags["fedroam.folder"]]
        if same:
            self._id = same[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        self._id = self._client.create_run(home, run_name=run.name, tags=tags).info.run_id
        for key, value in run.settings().items():
            self._client.log_param(self._id, key, str(value)[:500])

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """One metric a number, with the round as its step."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._id, [Metric(name, value, now, round) for name, value in values.items()])

    def end(self, state: End) -> None:
        """Say how the run ended."""
        self._client.set_terminated(self._id, self.STATES[state])

    def _experiment(self, name: str) -> str:
        """The id of MLflow's experiment of that name, made if there is none."""
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:  # another worker was faster
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)


class WeightsAndBiases:
    """A run of Weights & Biases, in the project of the experiment's name; WANDB_MODE=offline keeps it on this machine.

    A run that goes on from a checkpoint goes on there, too: its id is made of its digest and folder.
    """

    def check(self) -> None:
        """Find wandb. Raises MissingExtraError where it is not installed."""
        try:
            import wandb  # noqa: F401
        except ImportError:
            raise MissingExtraError("--track wandb", "tracking") from None

    def start(self, run: TrackedRun) -> None:
        """Begin the run, or go on with it."""
        self.check()
        import wandb

        where = hashlib.sha256(f"{run.experiment.digest} {run.folder.resolve()}".encode()).hexdigest()
        home = run.folder.resolve().parent  # not in it: a folder with something in it would be refused
        home.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=run.experiment.name,
            id=where[:16],
            name=run.name,
            group=run.variant or None,
            config=run.settings(),
            resume="allow",
            dir=str(home),
        )

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """All numbers of a round at once, with the round as the step."""
        self._run.log(dict(values), step=round)

    def end(self, state: End) -> None:
        """Say how the run ended."""
        self._run.finish(exit_code=0 if state == "done" else 1)


TRACKERS: Mapping[str, type[TensorBoard] | type[MLflow] | type[WeightsAndBiases]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}


def trackers_named(names: Sequence[str]) -> list[Tracker]:
    """A new tracker for each name, once. Raises InputError for a name that there is not."""
    return [*_named(names)]


def check_trackers(names: Sequence[str]) -> None:
    """Find and reach the trackers of these names. Raises InputError where one is not there."""
    for tracker in _named(names):
        with _refusing(tracker):
            tracker.check()


def begin(tracker: Tracker, run: TrackedRun) -> None:
    """Start a tracker. Raises InputError where it cannot begin: a wrong address is told before anything is computed."""
    with _refusing(tracker):
        tracker.start(run)


def _named(names: Sequence[str]) -> list[TensorBoard | MLflow | WeightsAndBiases]:
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
    return [TRACKERS[name]() for name in dict.fromkeys(names)]


@contextlib.contextmanager
def _refusing(tracker: Tracker) -> Iterator[None]:
    """Whatever is raised here becomes an InputError that names the tracker."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{type(tracker).__name__} cannot begin: {type(error).__name__}: {error}") from error
