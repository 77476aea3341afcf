"""How progress is counted, and how little of it is printed where there is no terminal."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from fedroam.cli import progress as progress_room
from fedroam.cli.progress import WINDOW, Bar, Lines, PlanProgress, RoundRate, duration
from fedroam.planning import Plan, plan


def quickstart_like(rounds: int = 200, seeds: int = 3) -> Plan:
    two = {"static": {"mobility": {"kind": "static"}}, "random": {}}
    return plan({"rounds": rounds, "variants": two}, seeds=seeds)


def measured(accuracy: float, diverged: bool = False) -> Any:
    return SimpleNamespace(numbers={"accuracy": accuracy}, diverged=diverged)


def follow(progress: PlanProgress, skip: int = 0, start: int = 0) -> None:
    """Play a plan: the first `skip` runs are there already, the next begins after round `start`."""
    with progress:
        for k, planned in enumerate(progress_runs):
            observe = progress.follow(planned)
            if k < skip:
                continue
            rounds = planned.experiment.rounds
            for t in range(start + 1 if k == skip and start else 0, rounds + 1):
                observe(t, rounds, measured(t / rounds) if t % 10 == 0 else None)


progress_runs: tuple[Any, ...] = ()


@pytest.fixture
def whole() -> Plan:
    global progress_runs
    made = quickstart_like()
    progress_runs = made.runs
    return made


def test_plain_lines_are_few_and_tell_start_end_and_about_every_tenth(
    whole: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    follow(Lines(whole))
    lines = capsys.readouterr().err.splitlines()
    assert 12 + 5 <= len(lines) <= 12 + 10  # start and end of six runs, and the tenths between
    assert lines[0].startswith("static/seed-0: round 0/200, accuracy 0.0000, run 1 of 6")
    for run in whole.runs:
        own = [line for line in lines if line.startswith(f"{run.folder}:")]
        assert "round 0/200" in own[0]
        assert "round 200/200, accuracy 1.0000" in own[-1]
        assert "rounds/s" in own[-1]
        assert "left" in own[-1]


def test_a_line_says_when_its_accuracy_was_measured(whole: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(whole)
    observe = lines.follow(whole.runs[0])
    observe(0, 200, measured(0.5))
    for t in range(1, 121):
        observe(t, 200, None)
    assert "round 120/200, accuracy 0.5000 at round 0" in capsys.readouterr().err


def test_a_resumed_run_does_not_show_the_run_before(whole: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(whole)
    lines.follow(whole.runs[0])(200, 200, measured(0.9))
    lines.follow(whole.runs[1])(151, 200, None)
    assert capsys.readouterr().err.splitlines()[-1] == "static/seed-1: round 151/200, run 2 of 6"


@pytest.mark.parametrize("kind", [Lines, Bar])
def test_divergence_is_told_once_a_run_when_it_is_met(
    whole: Plan, kind: type[PlanProgress], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_room, "progress_console", lambda: Console(stderr=True, width=200))
    with kind(whole) as progress:
        for planned in whole.runs[:2]:
            observe = progress.follow(planned)
            for t in range(41):
                wild = t >= 20 and planned is whole.runs[1]
                observe(t, 200, measured(0.1, diverged=wild) if t % 10 == 0 else None)
    told = [line for line in capsys.readouterr().err.splitlines() if "diverged" in line]
    assert told == ["static/seed-1: diverged at round 20: a loss is no number, or far above guessing"]


def test_reused_runs_count_as_done_but_not_as_work(whole: Plan) -> None:
    progress = PlanProgress(whole)
    progress.pace = RoundRate(clock=iter(range(10_000)).__next__)  # a second between any two marks
    follow(progress, skip=2, start=150)
    assert progress.reused == ["static/seed-0", "static/seed-1"]
    assert progress.done == progress.total == 1200
    assert progress._computed == 50 + 3 * 200


def test_the_last_run_reused_is_told_too(whole: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(whole)
    follow(lines, skip=6)
    assert capsys.readouterr().err.splitlines() == [
        f"{run.folder}: finished already, reused" for run in whole.runs
    ]


def test_pace_is_taken_over_the_last_minute() -> None:
    now = [0.0]
    pace = RoundRate(clock=lambda: now[0])
    assert pace.rate is None
    assert pace.describe(100) == ""
    pace.mark(0)
    assert pace.rate is None
    for k in range(1, 101):  # 1 round/s for 100 s
        now[0] = float(k)
        pace.mark(k)
    assert pace.rate == pytest.approx(1.0)
    for k in range(1, 71):  # then 4 rounds/s: after more than a minute the slow start is forgotten
        now[0] = 100.0 + k
        pace.mark(100 + 4 * k)
    assert WINDOW < 70
    assert pace.rate == pytest.approx(4.0)
    assert pace.describe(480) == "4 rounds/s, 0:02:00 left"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00:00"), (59.6, "0:01:00"), (3661, "1:01:01"), (90_000, "25:00:00")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_how_things_are_stands_below_the_bar_until_the_next_line_replaces_it(
    whole: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(progress_room, "progress_console", lambda: Console(file=screen, width=80))
    bar = Bar(whole)
    for text in ("3 of 5 nodes", "5 of 5 nodes, 2 train\x1b[2J"):
        bar.status(text)
    shown = [line for each in bar._live.get_renderables() if isinstance(each, Text) for line in [each.plain]]
    assert shown == ["5 of 5 nodes, 2 train\\x1b[2J"]
