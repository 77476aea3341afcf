"""A table by site, a log of who is on with the same names, three methods compared, and the model taken home."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import fedroam

SITES = ["Delft", "Gent", "Lille", "Namur", "Trier"]
PUMPS = """\
name = "pumps"
clients = 4
rounds = 12
evaluate_every = 2
seeds = 2

[data]
kind = "csv"
path = "pumps.csv"
label = "state"
categorical = ["oil"]
columns = ["site"]

[partition]
kind = "column"

[activity]
kind = "trace"
file = "duty.csv"
interval = 3600.0

[mobility]
kind = "static"

[model]
kind = "softmax_regression"

[training]
lr = 0.1
batch_size = 16

[variants.fedavg]
federation.kind = "fedavg"

[variants.fedprox]
federation.kind = "fedprox"
federation.mu = 1.0

[variants.local]
federation.kind = "local"
"""


def write_pumps(home: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Pumps of five sites; later ones of unknown site, with their columns in another order; who was on duty when."""
    draw = np.random.Generator(np.random.Philox(5))
    wear = draw.normal(size=400)
    site = draw.integers(5, size=400)
    table = pd.DataFrame(
        {
            "site": np.array(SITES)[site],
            "vibration": draw.normal(3 + wear + 0.3 * site, 0.4),
            "pressure": draw.normal(200 - 30 * wear, 15),
            "oil": np.array(["mineral", "synthetic"])[draw.integers(2, size=400)],
            "state": np.select([wear > 0.5, wear < -0.5], ["worn", "new"], "used"),
        }
    )
    known, later = table.iloc[:320], table.iloc[320:]
    known.to_csv(home / "pumps.csv", index=False)
    later[["state", "oil", "pressure", "vibration"]].to_csv(home / "later.csv", index=False)
    # Trier has no log, Worms no pumps; Delft is off in the first six hours
    rows = [(name, 6 if name == "Delft" else 0, 14) for name in (*SITES[:4], "Worms")]
    log = [(name, *(f"2024-05-06T{hour:02d}:00:00Z" for hour in (begin, end))) for name, begin, end in rows]
    pd.DataFrame(log, columns=["device", "begin", "end"]).to_csv(home / "duty.csv", index=False)
    return known, later


def test_from_a_table_by_site_to_predictions(tell: Callable[..., str], tmp_path: Path) -> None:
    known, later = write_pumps(tmp_path)
    (tmp_path / "pumps.toml").write_text(PUMPS, encoding="utf-8")
    told = tell("data", "info", "pumps.toml")
    assert "clients are matched by the names of devices in activity and data" in told
    assert "only in activity: Worms" in told
    assert "only in data: Trier" in told
    assert sorted(pd.read_csv(tmp_path / "who-holds-what.csv")["site"]) == SITES[:4]

    told = tell("run", "pumps.toml", "--out", "pumps", "--no-report")
    assert told.count("only in data: Trier") == 1  # true of all variants: told once
    runs = {(run.status["variant"], run.status["seed"]): run for run in fedroam.open_runs("pumps")}
    for run in runs.values():
        first = run.clients[run.clients["round"] == 0].set_index("client")
        assert sorted(first["device"]) == SITES[:4]
        assert first["device"].tolist() == first["site"].tolist()
        # each holds the training rows of its site alone, and is away while its site is off
        held = run.partition[run.partition["part"] == "train"].groupby("client")["samples"].sum()
        rows = known["site"].value_counts()
        assert all(0.5 * rows[name] < held[k] <= rows[name] for k, name in first["site"].items())
        delft = first.index[first["device"] == "Delft"][0]
        present = run.positions.pivot_table(index="round", columns="client", values="present").astype(bool)
        assert present[delft].tolist() == [False] * 6 + [True] * 7
        assert present.drop(columns=delft).to_numpy().all()

    # one table, the same numbers as in the folders; local talks to nobody
    told = tell("compare", "pumps", "--csv", "table.csv")
    assert "Difference to fedavg (points)" in told
    table = pd.read_csv("table.csv").set_index("variant")
    assert table.index.tolist() == ["fedavg", "fedprox", "local"]
    for name in table.index:
        ends = np.array([runs[name, seed].rounds["accuracy"].iloc[-1] for seed in (0, 1)])
        base = np.array([runs["fedavg", seed].rounds["accuracy"].iloc[-1] for seed in (0, 1)])
        assert table.loc[name, "final"] == pytest.approx(ends.mean())
        if name != "fedavg":
            assert table.loc[name, "difference"] == pytest.approx((ends - base).mean())
    assert table.loc["local", "bytes"] == 0
    assert table.loc["fedavg", "bytes"] == table.loc["fedprox", "bytes"] > 0
    assert (
        runs["fedprox", 0].rounds["loss"].iloc[-1] != runs["fedavg", 0].rounds["loss"].iloc[-1]
    )  # the proximal term pulls

    # home, by both ways, and on rows that nobody has seen
    answers = {}
    for to in ("safetensors", "onnx"):
        if to == "onnx" and not all(map(importlib.util.find_spec, ("onnx", "onnxruntime"))):
            continue
        told = tell("export", "pumps/fedprox/seed-0", "--to", to, "--out", f"home-{to}")
        recorded = runs["fedprox", 0].rounds["accuracy"].iloc[-1]
        assert f"accuracy that the run recorded: {recorded:.4f}" in told
        told = tell("predict", f"home-{to}", "later.csv", "--out", f"{to}.csv")
        answers[to] = pd.read_csv(f"{to}.csv")
        right = (answers[to]["class"].to_numpy() == later["state"].to_numpy()).sum()
        assert f"({right} of 80 rows)" in told
        assert float(re.findall(r"accuracy: ([\d.]+)", told)[0]) == pytest.approx(right / 80, abs=1e-4)
        assert (
            right / 80 > later["state"].value_counts(normalize=True).max()
        )  # better than the commonest class
    for each in answers.values():
        assert each["class"].equals(answers["safetensors"]["class"])
        assert each["probability"].to_numpy() == pytest.approx(
            answers["safetensors"]["probability"].to_numpy(), abs=1e-6
        )

    # by hand, from the two files alone
    facts = json.loads(Path("home-safetensors/preprocessing.json").read_text(encoding="utf-8"))
    columns = [(later[c["name"]] - c["mean"]) / c["scale"] for c in facts["samples"]["numeric"]]
    columns += [later[c["name"]] == word for c in facts["samples"]["categorical"] for word in c["values"]]
    values = load_file("home-safetensors/model.safetensors")
    weight, bias = (values[next(name for name in values if name.endswith(end))] for end in ("weight", "bias"))
    samples = torch.tensor(np.stack([np.asarray(c, dtype=np.float32) for c in columns], axis=1))
    logits = samples @ weight.T + bias
    said = np.array(facts["classes"])[logits.argmax(dim=1).numpy()]
    assert said.tolist() == answers["safetensors"]["class"].tolist()
