"""The study of the prototype: its constants, its runs on a network and simulated, and what it says of both."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedroam.analysis.agreement import Agreement, Compared, write_agreement
from fedroam.devices.arithmetic import training_flops
from fedroam.errors import InputError
from fedroam.papers import find_study
from fedroam.papers.prototype.findings import describe
from fedroam.papers.prototype.measures import COMPARED, TIMES, difference, identical, off, seconds_by_round
from fedroam.papers.prototype.runs import CONV5_FLOPS, DATA, METHODS, played
from fedroam.parts import Parts
from fedroam.recording import Run
from fedroam.recording.round_times import note_round
from fedroam.study.kept import RunRecord
from fedroam.study.values import Reader
from support.made_runs import made_run

STUDY, _ = find_study("prototype")


@pytest.mark.parametrize("data", DATA)
def test_energy_is_charged_for_the_time_that_the_board_takes(data: str) -> None:
    experiment = STUDY.experiment(played(data, "mohawk", "network"), "full")
    shape = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}[data]
    assert training_flops(experiment.model.build(shape, 10), shape) == CONV5_FLOPS[data]
    parts = Parts.of(experiment)
    seconds = parts.compute.seconds(0, np.array([5]), np.array([100]), CONV5_FLOPS[data])
    joules = parts.radio.training(np.array([5]), np.array([100]))
    assert joules == pytest.approx(7.2 * seconds)


@pytest.mark.parametrize("scale", STUDY.scales)
def test_a_network_and_its_simulation_are_one_experiment_in_two_places(scale: str) -> None:
    assert len(STUDY.on_network) == 4
    for variant in STUDY.on_network:
        other = variant.replace(",network", ",simulation")
        assert STUDY.experiment(variant, scale).digest == STUDY.experiment(other, scale).digest
        assert STUDY.key(variant, scale) == f"{STUDY.key(other, scale)}@network"
        assert (STUDY.where(variant), STUDY.where(other)) == ("network", "simulation")
    full = STUDY.experiment(STUDY.on_network[0], "full")
    assert (full.clients, full.settings()["access_points"]["number"]) == (36, 20)


def network_run(folder: Path, seed: int, apart: float, seconds: tuple[float, float]) -> Run:
    """A run of two evaluated rounds of 5 s each by its clock, which took so long on the network."""
    run = made_run(folder, "network", seed, [0.1, 0.4, 0.5], every=1, time=[0.0, 5.0, 10.0])
    for t, took in enumerate(seconds, 1):
        note_round(run.folder, t, took, {"train": 4.0, "carry": 0.5})
    rows = [Compared(what, 3, 9, 0.0, 0.0, False, True) for what in COMPARED[1:]]
    rows += [Compared(COMPARED[0], 2, 9, apart, 1e-5, False, apart == 0)]
    rows += [Compared("time per round", 2, 2, max(abs(s - 5) / 5 for s in seconds), 0.1, True, False)]
    mean = {"network": sum(seconds) / 2, "simulated": 5.0, "train": 4.0, "carry": 0.5}
    found = Agreement({row.what: row for row in rows}, mean)
    write_agreement(run.folder, str(run.status["digest"]), found)
    return run


def test_what_is_measured_of_a_run_on_a_network(tmp_path: Path) -> None:
    run = network_run(tmp_path / "a", 0, 6e-8, (5.1, 5.3))
    assert difference("models and state").number(run) == pytest.approx(0.06)
    assert identical("models and state").number(run) == 0.0
    assert identical("bytes").number(run) == 100.0
    assert off.number(run) == pytest.approx(6.0)
    assert [measure.number(run) for measure in TIMES.values()] == pytest.approx(
        [5.2, 5.0, 4.0, 0.5, 0.0, 0.7]
    )
    pd.testing.assert_series_equal(
        seconds_by_round(run), pd.Series([5.1, 5.3], [1, 2]), check_names=False, check_index_type=False
    )
    simulated = made_run(tmp_path / "b", "simulated", 0, [0.1, 0.4], every=4, time=[0.0, 10.0])
    assert seconds_by_round(simulated).tolist() == [2.5]
    with pytest.raises(InputError, match=r"agreement\.json: missing"):
        off.number(simulated)


@pytest.mark.parametrize(
    ("told", "times"),
    [
        ({"network": 5.2, "simulated": 5.0}, [5.2, 5.0, *4 * [math.nan]]),
        ({"simulated": 5.0, "train": 4.0}, [math.nan, 5.0, 4.0, 0.0, 0.0, math.nan]),
        ({}, 6 * [math.nan]),
    ],
)
def test_times_that_an_agreement_does_not_tell_are_no_numbers(
    tmp_path: Path, told: dict[str, float], times: list[float]
) -> None:
    """Of the kinds of work one that is not told took no time where others are told."""
    run = network_run(tmp_path, 0, 0.0, (5.1, 5.3))
    rows = [Compared(what, 3, 9, 0.0, 0.0, False, True) for what in COMPARED]
    write_agreement(run.folder, str(run.status["digest"]), Agreement({row.what: row for row in rows}, told))
    assert [measure.number(run) for measure in TIMES.values()] == pytest.approx(times, nan_ok=True)


def test_what_the_runs_say(tmp_path: Path) -> None:
    """Of two runs one has other bits; what a record keeps says the same as the folders."""
    runs = {
        (played("mnist", method, "network"), 0): network_run(tmp_path / method, 0, apart, seconds)
        for method, apart, seconds in (("hierfavg", 0.0, (5.0, 5.0)), ("mohawk", 6e-8, (5.1, 5.3)))
    }
    read = Reader(lambda variant, seed: runs.get((variant, seed)), range(1))
    (finding,) = describe(read)
    told = " ".join(finding.sentences)
    assert "2 runs were played by nodes" in told
    assert "The same bits in each: who takes part, bytes" in told
    assert "models and state: the same bits in 1 of 2, elsewhere 0.06 millionths apart at most" in told
    assert "a round took +0.0 to +4.0 % of the simulated time longer" in told
    records = {(each.variant, each.seed): each for each in read.kept()}
    assert all(isinstance(each, RunRecord) for each in records.values())
    assert describe(Reader(lambda variant, seed: records.get((variant, seed)), range(1))) == (finding,)
    assert describe(Reader(lambda variant, seed: None, range(1))) == ()


def test_table_10_as_printed() -> None:
    cells = {(cell.row, cell.column): cell for cell in STUDY.item("table-10").cells}  # type: ignore[attr-defined]
    for data, (label, _) in DATA.items():
        for row, digits in (("Cumulative wasted / experiment", 2), ("Cumulative consumed / experiment", 2)):
            first, second = (cells[row, f"{label}, {word}"].paper for word in METHODS.values())
            improved = cells[row, f"{label}, improvement"].paper
            assert improved == pytest.approx(first / second, abs=0.6 * 10**-digits), (data, row)
    consumed, device = (
        cells[row, "MNIST, HierFAVG"].paper
        for row in ("Cumulative consumed / experiment", "Average consumed / device")
    )
    assert not math.isclose(consumed / 36, device, rel_tol=0.5)  # as the caption says
