"""What a run records of an evaluated round."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedroam.contacts import degrees
from fedroam.federation import Meeting
from fedroam.learning import Models, consensus_distance
from fedroam.scene import Scene

# A mean test loss this many times that of guessing (ln classes) is divergence, though no number is NaN yet.
DIVERGED = 100.0


@dataclass(frozen=True)
class Measurement:
    """One evaluated round: a row for `rounds`, rows for `clients`, and whether learning has diverged."""

    round_row: pd.DataFrame
    client_rows: pd.DataFrame
    diverged: bool


def measure(
    scene: Scene,
    models: Models,
    meeting: Meeting,
    round: int,
    learners: np.ndarray,
    losses: np.ndarray,
    bytes_sent: int,
    seconds: float,
) -> Measurement:
    """Judge every client's model, and the average of all models.

    accuracy, accuracy_std and loss are over clients, each client counting once; bytes and seconds (wall clock)
    are totals since the start; degree, isolated and places are those of the exchange of this round.
    """
    parts = scene.test_parts()
    scores = scene.learner.evaluate(models, range(len(models)), scene.test_x, scene.test_y, parts)
    everything = None if parts is None else [np.concatenate(parts)]
    mean = scene.learner.evaluate(models.mean(), [0], scene.test_x, scene.test_y, everything)
    degree, accuracy = degrees(meeting.graph), scores.accuracy
    # Clients without test samples have loss NaN by right. Any other NaN stays in the mean: it is divergence.
    judged = scores.loss[scores.samples > 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all NaN where nobody has test samples
        facts = {
            "round": round,
            "accuracy": np.nanmean(accuracy),
            "accuracy_std": np.nanstd(accuracy),
            "loss": judged.mean() if len(judged) else np.nan,
            "accuracy_mean_model": mean.accuracy[0],
            "loss_mean_model": mean.loss[0],
            "consensus_distance": consensus_distance(models.parameters),
            "degree_mean": degree[meeting.paths.present].mean() if meeting.paths.present.any() else np.nan,
            "isolated": int((degree[meeting.paths.present] == 0).sum()),
            "active": len(learners),
            "bytes": bytes_sent,
            "train_loss": np.nanmean(losses) if len(losses) else np.nan,
            "seconds": seconds,
        }
    places = meeting.paths.end
    clients = {
        "round": np.full(len(degree), round, np.int64),
        "client": np.arange(len(degree), dtype=np.int64),
        "group": scene.groups,
        "accuracy": accuracy,
        "loss": scores.loss,
        "samples": scores.samples,
        "degree": degree,
        "x": places[:, 0],
        "y": places[:, 1],
    }
    limit = DIVERGED * math.log(max(scene.dataset.classes, 2))
    diverged = bool(len(judged)) and not bool(np.all(judged < limit))
    return Measurement(pd.DataFrame([facts]), pd.DataFrame(clients), diverged)
