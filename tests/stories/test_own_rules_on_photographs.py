"""A mobility model and an aggregation rule of one's own, on CIFAR-10, up to a figure for a paper."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedroam
from fedroam.components import build
from fedroam.errors import InputError

RING_ROAD = '''\
import numpy as np

from fedroam import Part, field, register
from fedroam.mobility import Paths
from fedroam.randomness import stream


@register("mobility", "ring_road")
class RingRoad(Part):
    """Everybody drives round a ring, at a constant speed of its own, every second one the other way."""

    radius: float = field(10.0, "radius of the ring", unit="m", gt=0)
    turn: float = field(0.2, "fastest way in a round, as a share of the ring", gt=0, le=1)

    def _place(self, angle):
        return self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def start(self, world):
        draw = stream(world.seed, "places")
        angle = 2 * np.pi * draw.random(world.clients)
        way = np.where(np.arange(world.clients) % 2, -1.0, 1.0)
        pace = 2 * np.pi * self.turn * way * draw.uniform(0.5, 1.0, world.clients)
        return {"position": self._place(angle), "angle": angle, "pace": pace}

    def step(self, state, world, round):
        angle = state["angle"] + state["pace"]
        there = self._place(angle)
        return {**state, "position": there, "angle": angle}, Paths.straight(state["position"], there)

    def bounds(self):
        return (-self.radius, -self.radius, self.radius, self.radius)

    def groups(self, world):
        return np.where(np.arange(world.clients) % 2, "clockwise", "anticlockwise")
'''
NEAREST = '''\
import numpy as np

from fedroam import Part, field, register


@register("aggregation", "nearest_share")
class NearestShare(Part):
    """Average the models that are nearest to the own one; the own one is among them."""

    share: float = field(0.5, "share of the models that count", gt=0, le=1)

    def aggregate(self, received, facts):
        away = np.linalg.norm(received.models - received.own, axis=1)
        furthest = np.sort(away)[int(np.ceil(self.share * len(away))) - 1]
        near = away <= furthest
        return np.average(received.models[near], axis=0, weights=received.weights[near]).astype(np.float32)
'''
EXPERIMENT = """\
use = ["ring_road.py", "nearest.py"]
name = "photographs"
clients = 6
rounds = 4
seeds = 2

[data]
kind = "cifar10"
train_samples = 300
test_samples = 100

[model]
kind = "mlp"
hidden = [16]

[training]
lr = 0.05
batch_size = 20

[mobility]
kind = "ring_road"

[contacts]
kind = "radius"
radius = 8.0

[variants.average]
aggregation.kind = "average"

[variants.all]
aggregation.kind = "nearest_share"
aggregation.share = 1.0

[variants.nearest]
aggregation.kind = "nearest_share"
"""
pytestmark = pytest.mark.data


def test_own_movement_and_own_rule_up_to_a_figure(tell: Callable[..., str], tmp_path: Path) -> None:
    try:
        build("data", "cifar10").files()  # type: ignore[attr-defined]
    except InputError as error:
        if "not found" not in str(error):
            raise
        pytest.skip(str(error))
    for name, text in (
        ("ring_road.py", RING_ROAD),
        ("nearest.py", NEAREST),
        ("photographs.toml", EXPERIMENT),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert "radius of the ring" in tell("show", "ring_road", "--use", "ring_road.py")
    assert "share of the models that count" in tell("show", "nearest_share", "--use", "nearest.py")
    assert "300 training and 100 test samples of 32x32x3, 10 classes" in tell(
        "data", "info", "photographs.toml"
    )

    told = tell("run", "photographs.toml", "--no-report", "--out", "runs")
    assert "average all nearest" in told
    runs = fedroam.open_runs("runs")
    assert sorted((run.status["variant"], run.status["seed"]) for run in runs) == [
        (name, seed) for name in ("all", "average", "nearest") for seed in (0, 1)
    ]
    for run in runs:
        places = run.positions[["x", "y"]].to_numpy()
        assert np.hypot(*places.T) == pytest.approx(10.0)  # all stay on the ring
        assert set(run.clients["group"]) == {"clockwise", "anticlockwise"}
        used = {"ring_road"} if run.status["variant"] == "average" else {"ring_road", "nearest"}
        assert set(run.environment["code"]) == used
    # all of the models met, by the rule of one's own, is the average that fedroam takes; half of them is not
    final = {
        (run.status["variant"], run.status["seed"]): run.rounds["loss_mean_model"].iloc[-1] for run in runs
    }
    for seed in (0, 1):
        assert final["all", seed] == pytest.approx(final["average", seed], abs=1e-4)
        assert final["nearest", seed] != pytest.approx(final["average", seed], abs=1e-4)
    # movement does not depend on the rule: the comparison is paired
    met = {(run.status["variant"], run.status["seed"]): run.contacts for run in runs}
    pd.testing.assert_frame_equal(met["average", 1], met["nearest", 1])

    # the table says what the folders hold
    tell("compare", "runs", "--csv", "table.csv")
    table = pd.read_csv("table.csv").set_index("variant")
    for name in ("average", "all", "nearest"):
        ends = [run.rounds["accuracy"].iloc[-1] for run in runs if run.status["variant"] == name]
        assert table.loc[name, "final"] == pytest.approx(np.mean(ends))
        assert table.loc[name, "seeds"] == 2

    # a column wide, with its fonts
    said = tell("figure", "runs", "--width", "column", "--format", "pdf", "--out", "accuracy.pdf")
    assert "figure: accuracy.pdf (88.9 mm x " in said
    page = Path("accuracy.pdf").read_bytes()
    box = re.search(rb"/MediaBox\s*\[([^\]]+)\]", page)
    assert page.startswith(b"%PDF")
    assert box is not None
    assert float(box[1].split()[2]) == pytest.approx(88.9 / 25.4 * 72, abs=0.1)
    assert b"/FontFile2" in page
    if shutil.which("pdftotext"):
        read = subprocess.run(
            ["pdftotext", "accuracy.pdf", "-"], capture_output=True, text=True, check=True
        ).stdout
        words = " ".join(read.split())
        for label in (
            "average",
            "nearest",
            "Test accuracy (%)",
            "Communication round",
            "standard error (n = 2)",
        ):
            assert label in words

    # an edited rule is not passed off as the old result
    edited = NEAREST.replace("away <= furthest", "away < furthest")
    (tmp_path / "nearest.py").write_text(edited, encoding="utf-8")
    refused = tell("run", "photographs.toml", "--no-report", "--out", "runs", code=2)
    assert "nearest.py" in refused
