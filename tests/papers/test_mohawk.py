"""The study of Farcas et al.: its settings, the paper's numbers typed in a second time, and how it judges made runs."""

from __future__ import annotations

import functools
import gzip
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedroam.components import build
from fedroam.cost import DistanceDistribution, full_exchange
from fedroam.errors import InputError
from fedroam.federation import hierarchical
from fedroam.papers.mohawk import measures as measures
from fedroam.papers.mohawk.measures import THRESHOLDS
from fedroam.papers.mohawk.study import STUDY
from fedroam.recording import Run
from fedroam.runner import run
from fedroam.study import Quotient, Scale, evaluate_study, make_files
from fedroam.study.measures import final
from fedroam.study.values import Find, Reader
from fedroam.traces import Trace, write_trace
from support.scripts import ROOT, benchmark

pytestmark = pytest.mark.usefixtures("rough_pictures")

# Table 3 (accuracy) and table 4 (rounds to a threshold): IID k2 = 2, 5, 10, then non-IID.
ACCURACY = {
    "mnist,hierfavg": (99.12, 99.08, 99.06, 98.7, 98.69, 98.58),
    "mnist,macfl": (99.12, 99.14, 99.16, 98.73, 98.72, 98.72),
    "mnist,mohawk": (99.13, 99.17, 99.13, 99.15, 99.02, 98.88),
    "cifar10,hierfavg": (72.65, 69.69, 71.81, 67.09, 64.08, 63.28),
    "cifar10,macfl": (72.93, 72.91, 72.65, 65.36, 65.02, 64.65),
    "cifar10,mohawk": (78.69, 77.36, 75.8, 74.09, 70.82, 68.55),
}
ROUNDS = {
    "mnist,hierfavg": (46, 50, 70, 162, 185, 210),
    "mnist,macfl": (42, 45, 50, 142, 165, 180),
    "mnist,mohawk": (12, 20, 30, 40, 75, 110),
    "cifar10,hierfavg": (212, 288, 220, 358, 500, 530),
    "cifar10,macfl": (192, 210, 210, 428, 455, 510),
    "cifar10,mohawk": (52, 100, 150, 138, 240, 330),
}
IMPROVED = {"mnist": (3.67, 2.38, 2, 3.8, 2.33, 1.77), "cifar10": (3.88, 2.49, 1.43, 2.85, 1.99, 1.58)}
JOULES = {
    "mnist,hierfavg": (602.97, 654.56, 892.31, 2051.28, 2330.4, 2633.58),
    "mnist,macfl": (575.13, 588.46, 653.37, 1787.82, 2087.03, 2259.74),
    "mnist,mohawk": (152.41, 263.47, 389.22, 502.73, 943.85, 1374.2),
    "cifar10,hierfavg": (2659.61, 3606.83, 2764.25, 4461.25, 6242.22, 6629.33),
    "cifar10,macfl": (2416.3, 2629.54, 2629.54, 5325.98, 5665.64, 6356.33),
    "cifar10,mohawk": (655.16, 1250.28, 1881.72, 1704.53, 2974.56, 4143.05),
}
WITHIN_AN_HOUR, IN_ALL = 15.0, {2: 18.0, 5: 22.0, 10: 26.0}
K2 = (2, 5, 10)
END = 744


# Tables 7 and 8: accuracy by batch size (k1 = 1, k2 = 5), and with batches of 64 by k1, for k2 = 2, 5, 10; IID first.
BY_BATCH = {
    "mnist": {64: (98.49, 97.88), 32: (98.85, 98.41), 16: (98.86, 98.7), 8: (99.08, 98.89)},
    "cifar10": {64: (50.67, 44.55), 32: (64.93, 47.95), 16: (68.88, 52.13), 8: (60.7, 55.88)},
}
BY_K1 = {
    "mnist": {
        1: (98.74, 98.49, 98.32, 98.4, 97.9, 97.45),
        5: (98.86, 98.83, 98.91, 98.69, 98.45, 98.35),
        10: (98.91, 98.79, 98.69, 98.75, 98.44, 98.39),
    },
    "cifar10": {
        1: (55.43, 50.67, 48.24, 49.86, 44.55, 41.31),
        5: (73.76, 68.36, 64.97, 64.22, 57.62, 53.85),
        10: (76.74, 74.29, 71.96, 69.6, 64.13, 60.69),
    },
}


def tuned_accuracy(variant: str) -> float:
    """What the paper prints of a variant of tables 7 and 8."""
    data, split, *others = variant.split(",")
    k1, k2, batch = (int(word.split("=")[1]) for word in others)
    if batch == 64:
        return BY_K1[data][k1][K2.index(k2) + 3 * (split == "non-iid")]
    return BY_BATCH[data][batch][split == "non-iid"]


def words_of(variant: str) -> tuple[str, str, str, int]:
    """Data, split, method and k2 of a variant whose name tells them; what it does not tell is the ablation's."""
    parts = variant.split(",")
    data = "cifar10" if "cifar10" in parts else "mnist"
    split = "iid" if "iid" in parts else "non-iid"
    method = next((part for part in parts if part in ("hierfavg", "macfl")), "mohawk")
    k2 = next((int(part[3:]) for part in parts if part.startswith("k2=")), 5)
    return data, split, method, k2


def numbers(variant: str) -> tuple[float, float]:
    """The paper on a variant: final accuracy and rounds to the threshold. On what it is silent: the trial's answers."""
    data, split, method, k2 = words_of(variant)
    place = K2.index(k2) + 3 * (split == "non-iid")
    accuracy, rounds = (
        float(values[f"{data},{method}"][place] if method else 0) for values in (ACCURACY, ROUNDS)
    )
    if variant.startswith("aps="):
        many = variant.startswith("aps=1000")
        accuracy -= (1.6 if many else 1.2) if method == "mohawk" else (20.0 if many else 14.0)
    if variant == "turned,mohawk,all":
        rounds = ROUNDS["mnist,hierfavg"][place]
    if variant == "turned,hierfavg,selective":
        rounds = ROUNDS["mnist,mohawk"][place]
    if variant.startswith("trace=taxis") and method != "mohawk":
        rounds = 80.0
    return accuracy, rounds


def world(wrong: bool = False) -> Find:
    """Runs in which the paper is right but for some noise; or, `wrong`, with MOHAWK and the baselines exchanged."""
    made: dict[tuple[str, int], Run] = {}
    names = list(STUDY.variants)

    def find(variant: str, seed: int) -> Run:
        if (variant, seed) not in made:
            noise = 0.01 * math.sin(12.9898 * names.index(variant) + 78.233 * seed)
            made[variant, seed] = _run(variant, seed, noise, wrong)
        return made[variant, seed]

    return find


@functools.cache
def settings_of(variant: str) -> dict[str, Any]:
    """What a run of a variant says of its settings."""
    return STUDY.experiment(variant, "full").settings()


def _run(variant: str, seed: int, noise: float, wrong: bool) -> Run:
    _, _, method, k2 = words_of(variant)
    settings = settings_of(variant)
    accuracy, needed = numbers(variant)
    if wrong:
        exchanged = {"hierfavg": "mohawk", "macfl": "mohawk", "mohawk": "hierfavg"}
        if method in variant.split(",") and not variant.startswith(("turned", "present")):
            accuracy, needed = numbers(variant.replace(method, exchanged[method]))
    if "batch=" in variant:
        accuracy = tuned_accuracy(variant) * (-1 if wrong else 1) + 100 * wrong
    limit = THRESHOLDS.get((settings["data"]["kind"], settings["model"]["kind"]), 50.0)
    rounds = np.array(sorted({0, needed, *range(720, END)}), dtype=np.int64)
    curve = np.where(rounds < needed, 10.0, np.maximum(accuracy, limit + 0.1)) / 100
    curve[rounds >= 720] = (accuracy + noise) / 100
    mohawk = method == "mohawk"
    in_all = IN_ALL[k2] if mohawk else WITHIN_AN_HOUR
    if wrong:
        in_all = WITHIN_AN_HOUR
    in_all += noise * (not wrong) + 0.0
    spent = (60.0 if mohawk != wrong else 100.0) * (1 + noise)
    found = Run(Path(variant) / str(seed))
    found.__dict__.update(
        rounds=pd.DataFrame(
            {
                "round": rounds,
                "accuracy": curve,
                "accuracy_mean_model": curve,
                "loss": 2 - curve,
                "bytes": 0.0,
                "total_present": 35.0 * (rounds + 1),
                "total_aggregated": in_all * rounds,
                "total_returned": (in_all - WITHIN_AN_HOUR) * rounds,
                "total_overwritten": 0.05 * rounds,
                "energy": 1000 * (1 + noise) * rounds,
                "energy_wasted": spent * rounds,
                "energy_pending": 0.0,
            }
        ),
        world={
            "distance_mean": (910.0 if mohawk != wrong else 7050.0) * (1 + noise),
            "distance_std": 750.0 if mohawk else 3900.0,
            "bytes_per_model": 4 * 659_242,
        },
        settings=settings,
        status={"seed": seed, "round": END - 1, "digest": f"{variant} {seed}"},
    )
    return found


@pytest.fixture
def twelve_joules(monkeypatch: pytest.MonkeyPatch) -> None:
    """One exchange costs 12.6 J, so that no trace is needed."""
    monkeypatch.setattr(measures, "full_exchange", lambda run: 12.6)


@pytest.mark.parametrize("scale", ["quick", "medium", "full"])
def test_every_variant_is_a_valid_experiment(scale: str) -> None:
    for variant in STUDY.needs(scale):
        experiment = STUDY.experiment(variant, scale)
        settings = experiment.settings()
        data, split, method, k2 = words_of(variant)
        learns = not variant.startswith("present")
        assert settings["federation"]["kind"] == method
        assert settings["federation"]["k2"] == k2
        if not variant.startswith("turned"):
            assert experiment.federation == build("federation", {"kind": method, "k2": k2, "sigma": 0.1})
        if learns:
            assert settings["data"]["kind"] == data
            assert settings["partition"]["alpha"] == {"iid": 100.0, "non-iid": 0.1}[split]
            assert settings["evaluate_every"] == k2
            assert (settings["data"]["kind"], settings["model"]["kind"]) in THRESHOLDS
        assert settings["mobility"]["file"] in STUDY.files
    assert not [note for note in STUDY.notes(scale) if "test_samples" not in note]
    assert STUDY.scale(scale).seeds == (3 if scale == "full" else 4)


def test_full_scale_is_the_papers() -> None:
    one = STUDY.experiment("cifar10,non-iid,k2=2,mohawk", "full")
    settings = one.settings()
    assert (one.clients, one.rounds, one.model.kind) == (1000, 743, "conv5")
    assert settings["training"] | {"lr": 0.01, "batch_size": 8, "epochs": 5} == settings["training"]
    assert (
        settings["partition"] | {"samples_per_client": 500, "sharing": "replacement"} == settings["partition"]
    )
    assert settings["access_points"] == {"kind": "points_of_interest", "number": 100}
    month = {"dwell": 6 * 3600.0, "report_share": 0.4, "box": 17_500.0, "length": 744 * 3600.0}
    assert settings["mobility"] | month == settings["mobility"]
    raw = STUDY.experiment("trace=raw,mohawk", "full").settings()["mobility"]
    assert (raw["dwell"], raw["report_share"]) == (0.0, 1.0)
    tuned = STUDY.experiment("mnist,iid,k1=10,k2=5,batch=64", "full").settings()["training"]
    assert (tuned["epochs"], tuned["batch_size"]) == (10, 64)


@pytest.mark.parametrize("variant", ["mnist,iid,k2=2,mohawk", "present,month,k2=5,mohawk"])
def test_small_networks_are_charged_as_the_papers(variant: str) -> None:
    """At scale quick and without learning a transfer weighs as much as the paper's network for MNIST."""
    one = STUDY.experiment(variant, "quick")
    shape = (1, 28, 28) if one.data.kind == "mnist" else (1, 8, 8)
    size = 4 * sum(p.numel() for p in one.model.build(shape, 10).parameters())
    paper = STUDY.experiment("mnist,iid,k2=2,mohawk", "full")
    whole = 4 * sum(p.numel() for p in paper.model.build((1, 28, 28), 10).parameters())
    spread = DistanceDistribution(910.0, 750.0)
    assert size < whole
    assert full_exchange(one.radio, size, 910.0, spread) == pytest.approx(
        full_exchange(paper.radio, whole, 910.0, spread)
    )


def _columns(values: dict[str, tuple[float, ...]], data: str) -> list[tuple[float, ...]]:
    return [values[f"{data},{method}"] for method in ("hierfavg", "macfl", "mohawk")]


@pytest.mark.usefixtures("twelve_joules")
def test_where_the_paper_is_right_each_cell_is_its_number() -> None:
    result = evaluate_study(STUDY, "full", range(4), world())
    cells = {(n, c.cell.row, c.cell.column): c for n, table in result.tables.items() for c in table}
    for name, values, close in (("table-3", ACCURACY, 0.011), ("table-4", ROUNDS, 1e-9)):
        for data, word in (("mnist", "MNIST"), ("cifar10", "CIFAR-10")):
            for method, row in (("hierfavg", "HierFAVG"), ("macfl", "MACFL"), ("mohawk", "MOHAWK")):
                found = [c for (n, r, _), c in cells.items() if (n, r) == (name, f"{word}, {row}")]
                assert tuple(c.cell.paper for c in found) == values[f"{data},{method}"]
                assert all(abs(c.distance) < close for c in found)
    for data, word in (("mnist", "MNIST"), ("cifar10", "CIFAR-10")):
        found = [c for (n, r, _), c in cells.items() if (n, r) == ("table-4", f"{word}, average improvement")]
        assert tuple(c.cell.paper for c in found) == IMPROVED[data]
        assert all(abs(c.distance) < 0.011 for c in found)  # the paper rounds, and cuts off
        joules = [c for (n, r, _), c in cells.items() if n == "table-6" and r.startswith(word)]
        assert [c.cell.paper for c in joules][:18] == [v for row in _columns(JOULES, data) for v in row]
        assert all(abs(c.distance) < 0.1 * c.cell.paper for c in joules[:18] if c.cell.paper)
    more = {row: [cells["table-5", row, column] for column in _TABLE_5] for row in ("k2 = 2", "k2 = 10")}
    assert [round(c.mean, 1) for c in more["k2 = 2"]] == [15, 18, 16.7, 20]
    assert [round(c.mean, 1) for c in more["k2 = 10"]] == [15, 26, 42.3, 73.3]
    assert [c.cell.paper for c in more["k2 = 10"]] == [15, 26, 39.78, None]
    robust = [c for (n, *_), c in cells.items() if n == "table-9"]
    assert [c.cell.paper for c in robust][:6] == [72.4, 73.67, 78.22, 58.24, 58.61, 76.88]
    assert len(robust) == 18


_TABLE_5 = ("HierFAVG and MACFL", "MOHAWK", "1 - B / M (the paper's form), %", "M / B - 1, %")


# Which the text says of both, and Table 3 has otherwise: MACFL's rises on MNIST, HierFAVG's comes back on CIFAR-10.
OF_BASELINES = ("small-k2-better-baselines-mnist", "small-k2-better-baselines-cifar10")


@pytest.mark.usefixtures("twelve_joules")
def test_where_the_paper_is_right_its_claims_hold() -> None:
    verdicts = evaluate_study(STUDY, "full", range(12), world()).verdicts
    # Table 7 prints more for a batch of 16 (IID) on CIFAR-10 than for the 8 that the text calls the best by far.
    assert {name: verdict.word for name, verdict in verdicts.items()} == {
        claim.name: "holds" for claim in STUDY.claims
    } | {"batch-8-best-cifar10": "does not hold", **dict.fromkeys(OF_BASELINES, "does not hold")}


@pytest.mark.usefixtures("twelve_joules")
def test_where_the_paper_is_wrong_its_claims_do_not_hold() -> None:
    words = {
        n: v.word for n, v in evaluate_study(STUDY, "full", range(12), world(wrong=True)).verdicts.items()
    }
    assert {name for name, word in words.items() if word == "holds"} == {
        # Of whatever numbers are taken for those of MOHAWK; on CIFAR-10 they rise again at one step.
        "small-k2-better-mnist",
        *OF_BASELINES,
    }
    for data in ("mnist", "cifar10"):
        for name in ("fewer-rounds", "less-energy", "less-energy-true"):
            assert words[f"{name}-{data}"] == "does not hold"
        for split in ("iid", "non-iid"):
            assert words[f"times-fewer-{data}-{split}"] == "does not hold"
    for name in ("more-accurate-cifar10-iid", "never-behind-cifar10", "robust-cifar10-iid", "wastes-less"):
        assert words[name] == "does not hold", name
    assert words["shorter-distance"] == "does not hold"
    assert words["includes-more"] != "holds"


def test_quotient() -> None:
    find = world()
    read = Reader(find, range(2))
    first, second = (measures.rounds_needed.of(f"mnist,iid,k2=2,{m}") for m in ("hierfavg", "mohawk"))
    quotient = Quotient(first, second)
    assert read(quotient) == {0: 46 / 12, 1: 46 / 12}
    assert quotient.unit == "times"
    assert quotient.variants == ("mnist,iid,k2=2,hierfavg", "mnist,iid,k2=2,mohawk")
    never = replace(measures.rounds_needed, number=lambda run: math.inf).of("mnist,iid,k2=2,macfl")
    assert read(Quotient(never, second)) == {0: math.inf, 1: math.inf}
    assert all(math.isnan(value) for value in read(Quotient(never, never)).values())


def _trace(path: Path) -> str:
    """Three devices for 30 hours: one that stays, one there at odd hours, one for a day; 0, 300 and 3,000 m away."""
    there = [np.arange(30), np.arange(1, 30, 2), np.arange(24)]
    first = np.concatenate([[0], np.cumsum([len(hours) for hours in there])])
    x = np.repeat([0.0, 300.0, 3000.0], [len(hours) for hours in there])
    facts = {"source": "made", "sha256": "", "epoch": None, "projection": None, "origin": None, "rows": 0}
    trace = Trace(
        ("a", "b", "c"),
        first,
        3600.0 * np.concatenate(there) + 1,
        np.stack([x, 0 * x], axis=1),
        {**facts, "dropped": {}},
    )
    return str(write_trace(trace, path))


def test_tiny_runs_are_judged(tmp_path: Path) -> None:
    """What a run of MOHAWK says of the baselines is what they do; and the energy of an exchange by hand."""
    small = {
        "clients": 3,
        "rounds": 28,
        "evaluate_every": 2,
        "data": {"kind": "digits"},
        "partition": {"samples_per_client": 8},
        "model": {"kind": "mlp", "hidden": [4]},
        "training": {"epochs": 1},
        "mobility": {
            "file": _trace(tmp_path / "t.parquet"),
            "begin": 0.0,
            "length": 30 * 3600.0,
            "dwell": 0.0,
        },
        "access_points": {"number": 1},
        "contacts": {"radius": 0.0},
    }
    small["mobility"] |= {"report_share": 1.0, "box": 1e6}
    names = [f"mnist,iid,k2=2,{method}" for method in ("hierfavg", "macfl", "mohawk")]
    variants = {name: {"federation": {"kind": name.rpartition(",")[2], "k2": 2}, **small} for name in names}
    study = replace(
        STUDY, variants=variants, scales={"tiny": Scale(1)}, tables=(), figures=(), claims=(), primary=()
    )
    runs = {name: run(study.experiment(name, "tiny"), out=tmp_path / name) for name in names}
    hierfavg, _, mohawk = runs.values()
    for other in names[:2]:
        assert measures.at_once(mohawk) == measures.aggregated.number(runs[other])
    assert measures.more_of_all.number(mohawk) == pytest.approx(
        100 * (1 - measures.at_once(mohawk) / measures.aggregated.number(mohawk))
    )
    assert measures.more_than_before.number(mohawk) == pytest.approx(
        100 * (measures.aggregated.number(mohawk) / measures.at_once(mohawk) - 1)
    )
    # All 29 hours: a in each, b in 14, c in 24, at the distances from the only access point.
    access = hierfavg.world["access_points"][0][0]
    away = np.repeat(np.abs(np.array([0.0, 300.0, 3000.0]) - access), [29, 14, 24])
    spread = DistanceDistribution(float(away.mean()), float(away.std()))
    assert (hierfavg.world["distance_mean"], hierfavg.world["distance_std"]) == pytest.approx(
        (spread.mean, spread.std)
    )
    size, radio = int(hierfavg.world["bytes_per_model"]), build("radio", "lte_wifi")
    by_hand = np.mean([full_exchange(radio, size, float(d), spread) for d in away])
    for found in runs.values():
        assert measures.full_exchange(found) == pytest.approx(by_hand)
    result = evaluate_study(study, "tiny", range(1), lambda variant, seed: runs.get(variant))
    assert not result.missing
    assert Reader(lambda variant, seed: runs[variant], range(1))(final.of(names[2]))[0] > 0


def test_traces_are_made_once_and_where_that_cannot_be_the_error_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDROAM_DATA", str(tmp_path))
    month, taxis = (
        STUDY.experiment(name, "quick") for name in ("mnist,iid,k2=2,mohawk", "trace=taxis,mohawk")
    )
    with pytest.raises(
        InputError, match=r"gowalla-new-york.parquet: no such trace.*trace import gowalla_nyc/check"
    ):
        list(make_files(STUDY, [month]))
    with pytest.raises(InputError, match=r"--unit 1e-5 --box=37.2,38.2,-122.8,-121.7 --max-speed 50$"):
        list(make_files(STUDY, [taxis]))
    pytest.importorskip("pyproj")
    (tmp_path / "gowalla_nyc").mkdir()
    rows = "user,utc,lat,lon,venue\n1,2010-09-17T00:00:01Z,40.7,-74.0,1\n"
    (tmp_path / "gowalla_nyc" / "checkins.csv.gz").write_bytes(gzip.compress(rows.encode()))
    assert list(make_files(STUDY, [month])) == ["made: studies/traces/gowalla-new-york.parquet"]
    assert list(make_files(STUDY, [month])) == []
    assert month.mobility.path().is_file()


def test_readings_tell_what_was_measured_and_what_degrees_do() -> None:
    """The authors' degrees are all as long as one to the north: east to west they are shorter by the cosine."""
    told = {reading.about: reading for reading in STUDY.readings}
    too_long = 100 * (1 / math.cos(math.radians(30.3)) - 1)
    assert f"Austin (30.3) overstates east to west by {too_long:.0f} %" in told["distances"].paper
    record = json.loads((ROOT / "docs" / "records" / "readings.json").read_text(encoding="utf-8"))
    weights = record["mohawk"]["unequal_weights"]
    tables = {table.name: table.caption for table in STUDY.tables}
    assert f"in this month and square there are {record['mohawk']['devices']:,}." in tables["table-9-mnist"]
    ours, theirs = (
        f"{100 * weights[form]['median']:.2g} %, at most {100 * weights[form]['most']:.2g} %"
        for form in ("flat", "per_slice")
    )
    assert ours in told["cosine of the attention"].effect
    assert theirs in told["cosine of the attention"].effect


def test_readings_tell_what_was_counted_of_the_month() -> None:
    told = {reading.about: reading.effect for reading in STUDY.readings}
    record = json.loads((ROOT / "docs" / "records" / "readings.json").read_text(encoding="utf-8"))
    month = record["mohawk"]["month"]
    five, ten = (100 * month["again_within"][k2] for k2 in ("5", "10"))
    assert f"within the next 5 hours in {five:.0f} % of cases, within 10 in {ten:.0f} %" in told["look ahead"]
    ours, theirs = month["distance_m"]
    assert f"put {100 * month['another_access_point']:.0f} % of the hours" in told["distances"]
    assert f"{theirs:.0f} m away on average over all of them instead of {ours:.0f}" in told["distances"]


def test_who_comes_back_is_counted_by_hand() -> None:
    """Two devices, five rounds: of three presences with two rounds more, the first device's first and third are
    followed by another within two, the second's is not."""
    script = benchmark("readings")
    there = np.array([[1, 1], [0, 0], [1, 0], [0, 0], [1, 1]], dtype=bool)
    assert script.again_within(there, 2) == pytest.approx(2 / 3)
    assert script.again_within(there, 1) == 0
    assert script.again_within(there, 4) == 1


def test_the_nearest_by_degrees_is_another_where_east_is_farther() -> None:
    script = benchmark("readings")
    points = np.array([[10.0, 0.0], [0.0, 11.0]])
    places = np.zeros((1, 2))
    assert script.nearest_of(places, points).tolist() == [0]
    assert script.nearest_of(places, points, 1.16).tolist() == [1]


def test_weights_are_watched_by_how_much_they_are_off_equal_ones() -> None:
    """Cosines of 1 and 0 with a strength of ln 3: weights of 3/4 and 1/4. An average of one model counts as none."""
    script, found = benchmark("readings"), list[float]()
    matrix = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    layout = SimpleNamespace(size=2)
    with script.weights_watched(found):
        hierarchical.attention(matrix, 0, np.array([1, 2]), layout, "flat", math.log(3))  # type: ignore[arg-type]
        hierarchical.attention(matrix, 0, np.array([1]), layout, "flat", math.log(3))  # type: ignore[arg-type]
    assert found == [pytest.approx(0.5)]
    assert hierarchical.attention.__name__ == "attention"
