"""Figures of the study of Farcas et al. on made runs: what their lines are, by hand; and that each can be drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure as Drawing

from fedroam.papers.mohawk import drawings as drawings
from fedroam.papers.mohawk import measures as measures
from fedroam.papers.mohawk.study import STUDY
from fedroam.recording import Run
from fedroam.study.values import Reader
from papers.test_mohawk import world


def made(seed: int = 0, **columns: object) -> Run:
    """A run whose table of rounds has these columns."""
    found = Run(Path("made") / str(seed))
    settings = {"clients": 10, "data": {"kind": "mnist"}, "model": {"kind": "mlp"}}
    found.__dict__.update(rounds=pd.DataFrame(columns), status={"seed": seed}, settings=settings)
    return found


def lines_of(drawn: Drawing, panel: int) -> dict[str, np.ndarray]:
    """The lines of a panel that have a name: [points, 2]."""
    lines = drawn.axes[panel].get_lines()
    return {
        str(line.get_label()): np.array(line.get_xydata()) for line in lines if line.get_label()[0] != "_"
    }


def test_devices_are_counted_by_stretches() -> None:
    hours = np.arange(0, 24 * 9 + 5)
    one = made(round=hours, total_aggregated=np.cumsum(hours // 24).astype(float))
    one.rounds.loc[0, "total_aggregated"] = np.nan  # nothing is counted before the first round
    two = made(round=hours, total_aggregated=2.0 * hours)
    days = drawings.counted([one, two], 24)
    assert list(days.index) == [0.5 + day for day in range(9)]  # five hours of a tenth day are left out
    assert days[0].iloc[1] == pytest.approx((23 * 1 + 2) / 24)  # hours 25 to 48
    assert (days[1] == 2.0).all()
    assert days[0].iloc[0] == pytest.approx(1 / 24)  # hours 1 to 24
    week = drawings.counted([one, two], 1, 7 * 24)
    assert len(week) == 168
    assert week.index[0] == pytest.approx(0.5 / 24)


def test_normalised_is_of_the_most_of_each_hour() -> None:
    counts = pd.DataFrame([[1.0, 4.0], [3.0, 3.0], [0.0, 0.0], [2.0, 0.0]])
    assert drawings.normalised(counts).to_numpy().tolist() == [[0.25, 1], [1, 1], [0, 0], [1, 0]]


def test_availability_by_hand() -> None:
    """Three hours, two seeds: means over seeds of the counts, and of the shares."""

    def hours(seed: int, counts: list[float]) -> Run:
        return made(seed, round=np.arange(4), total_aggregated=np.cumsum([0.0, *counts]))

    runs = {
        "few": [hours(0, [1, 0, 2]), hours(1, [3, 0, 2])],
        "many": [hours(0, [2, 0, 2]), hours(1, [4, 0, 8]), hours(2, [9, 9, 9])],
    }
    drawn = drawings.availability(runs, {"Few": "few", "Many": "many"}, 1)
    assert drawn is not None
    above, below = lines_of(drawn, 0), lines_of(drawn, 1)
    assert above["Few"][:, 0] == pytest.approx(np.array([0.5, 1.5, 2.5]) / 24)
    assert above["Few"][:, 1].tolist() == [2, 0, 2]
    assert above["Many"][:, 1].tolist() == [3, 0, 5]  # of seeds 0 and 1, which both have
    assert below["Few"][:, 1] == pytest.approx([(1 / 2 + 3 / 4) / 2, 0, (1 + 1 / 4) / 2])
    assert below["Many"][:, 1].tolist() == [1, 0, 1]
    assert [ax.get_ylabel() for ax in drawn.axes] == ["Devices an hour", "Normalised"]
    assert drawings.availability({"few": runs["few"], "many": []}, {"Few": "few", "Many": "many"}, 1) is None


def test_accuracy_against_energy_by_hand() -> None:
    """85 % is reached by one method at round 2, by the other never: shown to its end."""
    rounds = np.arange(5)
    fast = [
        made(k, round=rounds, accuracy=[0.1, 0.6, 0.84 + 0.04 * k, 0.9, 0.9], energy=100.0 * rounds)
        for k in (0, 1)
    ]
    slow = [made(0, round=rounds, accuracy=0.1 * rounds, energy=200.0 * rounds)]
    runs = {"a": fast, "b": slow, "c": []}
    lines = {"Fast": "a", "Slow": "b", "Nobody": "c"}
    drawn = drawings.against_energy(runs, [("one", lines)], drawings.charged_energy, 1)
    assert drawn is not None
    found = lines_of(drawn, 0)
    assert found["Fast"][:, 0].tolist() == [0, 10, 20, 30, 40]  # joules of ten devices
    assert found["Fast"][:, 1] == pytest.approx([10, 60, 86, 90, 90])
    assert found["Slow"][:, 0].tolist() == [0, 20, 40, 60, 80]
    dots = [
        line for line in drawn.axes[0].get_lines() if line.get_marker() == "o" and len(line.get_xdata()) == 1
    ]
    assert [(float(dot.get_xdata()[0]), float(dot.get_ydata()[0])) for dot in dots] == [(20.0, 86.0)]
    assert drawn.axes[0].get_xlim() == pytest.approx((0, 88))
    only = drawings.against_energy({"a": fast}, [("one", {"Fast": "a"})], drawings.charged_energy, 1)
    assert only is not None
    assert only.axes[0].get_xlim() == pytest.approx((0, 22))
    panels = [("none", {"Fast": "x"}), ("one", {"Fast": "a"})]
    second = drawings.against_energy({"a": fast}, panels, drawings.charged_energy, 1)
    assert second is not None
    assert [ax.get_title(loc="left") for ax in second.axes] == ["one"], "a panel without a run is left out"
    wide = drawings.against_energy({"a": fast}, panels, drawings.charged_energy, 2)
    assert wide is not None
    assert [ax.get_visible() for ax in wide.axes] == [True, False]
    assert wide.axes[0].get_yticklabels()[0].get_visible()
    assert [text.get_text() for text in second.legends[0].get_texts()] == ["Fast", "threshold, 85 %"]
    assert drawings.against_energy({}, [("one", lines)], drawings.charged_energy, 1) is None


def test_printed_energy_is_rounds_times_one_exchange() -> None:
    found = drawings.printed_energy(lambda run: 12.5)(made(round=[0, 2, 4], accuracy=[0.1, 0.2, 0.3]))
    assert found.to_dict() == {0: 0.0, 2: 25.0, 4: 50.0}


def test_overwritten_energy_by_hand() -> None:
    """Of 1,000 J 200 are wasted and 50 pending: 750 for 30 aggregated updates, of which 4 were overwritten."""
    run = made(
        round=[0, 9],
        accuracy=[0.0, 0.0],
        energy=[0.0, 1000.0],
        energy_wasted=[0.0, 200.0],
        energy_pending=[0.0, 50.0],
        total_aggregated=[0.0, 30.0],
        total_overwritten=[0.0, 4.0],
    )
    assert measures.overwritten_energy(run) == pytest.approx(100.0)
    assert measures.wasted_more_all.number(run) == pytest.approx(300.0)
    assert measures.wasted_more.number(run) == pytest.approx(30.0)
    assert measures.wasted_more_hourly.number(run) == pytest.approx(300 / 9)
    run.by_round[["total_aggregated", "total_overwritten"]] = 0.0
    assert measures.wasted_more_all.number(run) == 200.0


def test_every_figure_of_the_paper_is_declared_and_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the maps, which need the trace."""
    monkeypatch.setattr(measures, "full_exchange", lambda run: 12.6)
    reader = Reader(world(), range(2))
    figures = {figure.name: figure for figure in STUDY.figures}
    for number in (2, 3, 5, 6, 7):
        assert any(name.startswith(f"figure-{number}") for name in figures)
    for data in ("mnist", "cifar10"):
        drawn = figures[f"figure-7-{data}"].draw(reader)
        assert drawn is not None
        titles = [ax.get_title(loc="left") for ax in drawn.axes]
        assert titles == [f"{split}, k2 = {k2}" for split in ("IID", "non-IID") for k2 in (2, 5, 10)]
        aim = {"mnist": "97", "cifar10": "60"}[data]
        assert set(lines_of(drawn, 0)) == {"HierFAVG", "MACFL", "MOHAWK", f"threshold, {aim} %"}
    for name in ("figure-5-mnist", "figure-6-cifar10", "figure-7-mnist-iid", "energy-true-mnist"):
        assert figures[name].draw(reader) is not None
    assert figures["figure-3"].draw(Reader(lambda variant, seed: None, range(2))) is None
