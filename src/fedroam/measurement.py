"""What a run records of an evaluated round."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fedroam.clock import COLUMNS, SO_FAR, TIME, TOTALS, Spans
from fedroam.contacts import degrees
from fedroam.devices.battery import SUMMED
from fedroam.errors import FedroamError
from fedroam.federation import AddsColumns, EvaluationModels, Meeting, judged_by
from fedroam.learning import Held, Scores
from fedroam.scene import Scene
from fedroam.state import State

if TYPE_CHECKING:
    import pandas as pd

# A mean test or training loss this many times that of guessing (ln classes) is divergence, though no number is NaN yet.
DIVERGED = 100.0
# The column of clients that tells what a part calls a client: its device, or its site in the data.
COLUMN_OF = {"activity": "device", "mobility": "device", "data": "site"}


@dataclass(frozen=True)
class Measurement:
    """One evaluated round: its numbers by the columns of `rounds`, those of each client by the columns of `clients`
    (arrays [clients]), and whether learning has diverged.
    """

    numbers: Mapping[str, float]
    clients: Mapping[str, np.ndarray]
    diverged: bool

    @cached_property
    def round_row(self) -> pd.DataFrame:
        """The row of `rounds`."""
        import pandas as pd

        return pd.DataFrame([self.numbers])

    @cached_property
    def client_rows(self) -> pd.DataFrame:
        """The rows of `clients`."""
        import pandas as pd

        return pd.DataFrame(dict(self.clients))


@dataclass(frozen=True)
class RoundResult:
    """What a round did: the meeting in which models were exchanged, the clients (int64) that learnt, the mean training
    loss of each piece of honest clients' local work (float64), which of these made a step at all (bool), the
    federation's own columns, and, where things take time, who is at what when.
    """

    meeting: Meeting
    learners: np.ndarray
    losses: np.ndarray
    stepped: np.ndarray
    facts: Mapping[str, float]
    spans: Callable[[], Spans] | None = None

    @classmethod
    def nothing(cls, meeting: Meeting) -> RoundResult:
        """Before round 1."""
        return cls(meeting, np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool), {})


def evaluate(scene: Scene, state: State, result: RoundResult, seconds: float) -> Measurement:
    """Evaluate every client's model after a round, and the one that stands for all.

    accuracy, accuracy_std and loss are over clients, each client counting once; accuracy_pooled, balanced_accuracy
    and macro_f1 are of all clients' answers to their test samples, taken together; degree, isolated and places are
    those of the exchange of this round; bytes, the account and `seconds` (wall clock) are totals since the start. The
    first of the evaluation models is the headline; each further one, NAME, adds a column accuracy_NAME to both tables.

    Where clients attack, the table of rounds tells how learning goes for the honest: accuracy, loss, the mean model and
    the consensus distance are theirs, and `accuracy_attackers` is the attackers'. The table of clients has a row for
    everybody, and says in `attacker` who attacks.
    """
    models = judged_by(scene.parts.federation, state.models, state.federation, scene.context)
    headline, *others = models.items()
    tested = scene.test_parts(state.round)
    scores = _scores(scene, headline[1], tested)
    meeting, degree = result.meeting, degrees(result.meeting.graph)
    attacks = np.isin(np.arange(len(degree)), scene.attackers)
    judged_models, honest = headline[1], scores
    if attacks.any():
        judged_models, honest = _only_honest(headline[1], ~attacks), scores.chosen(~attacks)
    pooled, accuracy = honest.pooled, honest.accuracy
    # Clients without test samples have loss NaN by right. Any other NaN stays in the mean: it is divergence.
    asked = honest.loss[honest.samples > 0]
    mean_accuracy, mean_loss = _mean_model(scene, judged_models, tested, scores)
    losses, present = result.losses, meeting.paths.present
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all NaN where nobody has test samples
        facts = {
            "round": state.round,
            "accuracy": np.nanmean(accuracy),
            "accuracy_std": np.nanstd(accuracy),
            "accuracy_pooled": pooled.accuracy[0],
            "balanced_accuracy": pooled.balanced_accuracy[0],
            "macro_f1": pooled.macro_f1[0],
            "loss": asked.mean() if len(asked) else np.nan,
            "accuracy_mean_model": mean_accuracy,
            "loss_mean_model": mean_loss,
            "consensus_distance": judged_models.models.consensus_distance(judged_models.mean),
            "degree_mean": degree[present].mean() if present.any() else np.nan,
            "isolated": int((degree[present] == 0).sum()),
            "active": len(result.learners),
            "bytes": state.bytes_sent,
            **state.account.totals(),
            "train_loss": np.nanmean(losses) if len(losses) else np.nan,
            "seconds": seconds,
            **_time(state, result),
            **{f"battery_{name}": state.battery[name].sum() for name in SUMMED if name in state.battery},
        }
        places = meeting.paths.end
        clients = {
            "round": np.full(len(degree), state.round, np.int64),
            "client": np.arange(len(degree), dtype=np.int64),
            "group": scene.groups,
            **{COLUMN_OF[part]: np.array(scene.names[part]) for part in COLUMN_OF if part in scene.names},
            "accuracy": scores.accuracy,
            "balanced_accuracy": scores.balanced_accuracy,
            "macro_f1": scores.macro_f1,
            "loss": scores.loss,
            "samples": scores.samples,
            "degree": degree,
            "x": places[:, 0],
            "y": places[:, 1],
            **state.account.arrays(),
            **{name: state.clock[name] for name in TOTALS if name in state.clock},
            **{f"battery_{name}": array for name, array in state.battery.items()},
        }
        for name, other in others:
            clients[f"accuracy_{name}"] = own = _scores(scene, other, tested).accuracy
            facts[f"accuracy_{name}"] = np.nanmean(own[~attacks])
        if attacks.any():
            facts["accuracy_attackers"] = np.nanmean(scores.accuracy[attacks])
            clients["attacker"] = attacks
    facts |= _own_columns(scene, result, facts)
    limit = DIVERGED * math.log(max(scene.dataset.classes, 2))
    # Models that are judged may not have changed for rounds, as the cloud's of a hierarchy: what was trained tells,
    # too. Who made no step has a training loss of NaN by right.
    judged = np.concatenate([asked, losses[result.stepped]])
    diverged = not bool(np.all(judged < limit))
    numbers = {name: each.item() if isinstance(each, np.generic) else each for name, each in facts.items()}
    return Measurement(numbers, clients, diverged)


def _own_columns(scene: Scene, result: RoundResult, facts: Mapping[str, Any]) -> dict[str, float]:
    """The federation's own columns. Raises FedroamError where it would overwrite one of `facts`, or says no number."""
    federation, kind = scene.parts.federation, scene.experiment.federation.kind
    columns = federation.columns if isinstance(federation, AddsColumns) else ()
    if taken := [name for name in columns if name in facts]:
        raise FedroamError(
            f"federation kind {kind!r}: its column {taken[0]!r} is one that every run has; choose another name"
        )
    found = {name: result.facts.get(name, math.nan) for name in columns}
    for name, value in found.items():
        if not isinstance(value, int | float | np.number) or isinstance(value, np.complexfloating):
            raise FedroamError(
                f"federation kind {kind!r}: its column {name!r} holds {value!r:.60}; allowed is a number"
            )
    return found


def _time(state: State, result: RoundResult) -> dict[str, float]:
    """The clock's columns of a round: the time, totals of all clients, its own, and the totals of these since the
    start; none where nothing takes time."""
    if TIME not in state.clock:
        return {}
    totals = {name: float(state.clock[name].sum()) for name in TOTALS}
    totals |= {k: result.facts.get(k, np.nan) for k in COLUMNS}
    so_far = zip(COLUMNS, state.clock[SO_FAR].tolist(), strict=True)
    return {TIME: float(state.clock[TIME][0])} | totals | {f"total_{name}": total for name, total in so_far}


def _only_honest(models: EvaluationModels, honest: np.ndarray) -> EvaluationModels:
    """The models of honest clients (bool [clients]), where each client has its own; else what all share."""
    if len(models.models) != len(honest) or not np.array_equal(models.row, np.arange(len(honest))):
        return models
    own = models.models.rows(torch.from_numpy(np.flatnonzero(honest)).to(models.models.device))
    return EvaluationModels(own, np.arange(len(own)), None if models.mean is None else own.mean())


def _scores(scene: Scene, models: EvaluationModels, tested: Sequence[np.ndarray] | None) -> Scores:
    """Each client's scores, by its evaluation model; a client without one has no samples.

    tested: as `Scene.test_parts` gives it.
    """
    clients = np.flatnonzero(models.row >= 0)
    rows = models.row[clients].tolist()
    if scene.experiment.evaluate_on == "own" and tested is not None:
        found = scene.learner.judge(
            models.models, rows, [Held(i, "test", tested[i]) for i in clients.tolist()]
        )
    else:
        shared = None if tested is None else [tested[0]] * len(rows)
        found = scene.learner.evaluate(models.models, rows, scene.test_x, scene.test_y, shared)
    if len(clients) == len(models.row):
        return found
    return found.only(clients, len(models.row))


def _mean_model(
    scene: Scene, models: EvaluationModels, tested: Sequence[np.ndarray] | None, scores: Scores
) -> tuple[float, float]:
    """Accuracy and loss of the model that stands for all, on everybody's test samples.

    scores: those of all clients; where they were judged by that very model, on the same samples, these say it.
    """
    if models.mean is None:
        return math.nan, math.nan
    judged = np.flatnonzero(models.row >= 0)
    if models.mean is models.models and len(judged) and scene.experiment.evaluate_on == "shared":
        return float(scores.accuracy[judged[0]]), float(scores.loss[judged[0]])
    if scene.experiment.evaluate_on == "own" and tested is not None:
        held = [Held(i, "test", samples) for i, samples in enumerate(tested)]
        found = scene.learner.judge_together(models.mean, 0, held)
    else:
        found = scene.learner.evaluate(models.mean, [0], scene.test_x, scene.test_y, tested)
    return float(found.accuracy[0]), float(found.loss[0])
