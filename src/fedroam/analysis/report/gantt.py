"""The timetables of a report's clients, for the chart that a reader can zoom into."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedroam.analysis.figures.clock import FILLS, first_clients, names_of, round_ends
from fedroam.analysis.figures.drawing import short
from fedroam.recording import Run

SPANS = 20_000  # that a page carries; of more, those of the first rounds
_MILLISECONDS = 1000


def gantt_chart(run: Run, title: str) -> dict[str, Any]:
    """What the chart shows, as JSON values, of a run that kept a timetable.

    lanes: one a client, with `label` and `name`, and of its spans, in order, `state` (index into `states`) and `steps`:
    begin, end, begin, end, ..., in ms, each less the one before. rounds: when they end, s. until: s, the last of them.
    cut: how many rounds there are, where these are not all, else null.
    """
    lanes = first_clients(run)
    schedule, ends = run.schedule, round_ends(run)
    within = schedule.groupby("round").size().cumsum()
    last = int(within[within <= SPANS].index.max()) if (within <= SPANS).any() else int(within.index.min())
    rows = schedule[schedule["round"] <= last].sort_values(["client", "begin"], kind="stable")
    states, names = list(FILLS), names_of(run)
    told = []
    for i in range(lanes):
        own = rows[rows["client"] == i]
        times = np.rint(own[["begin", "end"]].to_numpy(np.float64).reshape(-1) * _MILLISECONDS).astype(
            np.int64
        )
        name = names.get(i, f"Client {i}")
        told.append(
            {
                "label": short(name.removeprefix("Client "), 10),
                "name": name,
                "state": [states.index(state) for state in own["state"]],
                "steps": np.diff(times, prepend=0).tolist(),
            }
        )
    ends = ends[ends.index <= last]
    return {
        "title": title,
        "states": states,
        "lanes": told,
        "rounds": [round(float(end), 3) for end in ends],
        "until": round(float(ends.max()), 3),
        "cut": None if last == within.index.max() else int(within.index.max()),
    }
