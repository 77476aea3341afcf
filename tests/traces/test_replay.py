"""Movement from a trace: who is present in which round, where, and along which way."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fedroam
from fedroam.components import build
from fedroam.errors import InputError
from fedroam.mobility import Paths, World
from fedroam.traces import Trace, import_trace, read_trace, select, write_trace
from support import contract
from support.commands import Commands
from support.tiny import _own_trace, tiny

FACTS = {
    "source": "",
    "sha256": "",
    "epoch": None,
    "projection": None,
    "origin": None,
    "rows": 0,
    "dropped": {},
}
# Three devices, hours of 10 s. `a` is first in the file, `b` has most fixes.
DAY = {
    "a": [(1, 0, 0), (12, 5, 0)],
    "b": [(0, 10, 0), (4, 11, 0), (25, 12, 0), (38, 13, 0), (39.5, 14, 0)],
    "c": [(10, 20, 0), (20, 21, 8), (30, 22, 0)],
}


def trace_of(fixes: dict[str, list[tuple[float, float, float]]], **facts: Any) -> Trace:
    rows = np.array([row for own in fixes.values() for row in own], dtype=np.float64)
    first = np.cumsum([0, *(len(own) for own in fixes.values())])
    return Trace(tuple(fixes), first, rows[:, 0], rows[:, 1:], {**FACTS, **facts})


@pytest.fixture
def day(tmp_path: Path) -> str:
    return str(write_trace(trace_of(DAY), tmp_path / "day.parquet"))


def world(clients: int, seed: int = 0, rounds: int = 0) -> World:
    return World(seed, clients, np.ones((clients, 2), np.int64), 1.0, rounds)


def played(
    part: Any, clients: int, rounds: int, seed: int = 0
) -> tuple[list[dict[str, np.ndarray]], list[Paths]]:
    facts = world(clients, seed, rounds)
    states, ways = [part.start(facts)], []
    for t in range(1, rounds + 1):
        state, paths = part.step(states[-1], facts, t)
        states.append(state)
        ways.append(paths)
    return states, ways


def of(file: str, **settings: Any) -> Any:
    return build("mobility", {"kind": "trace", "file": file, "interval": 10.0, **settings})


def test_a_day_by_hand(day: str) -> None:
    part = of(day)
    assert part.rounds() == 3
    assert part.selection().names == ("b", "c", "a")  # 5, 3 and 2 fixes
    assert part.bounds() == (0, 0, 22, 8)
    states, ways = played(part, 3, 3)
    present = np.array([state["present"] for state in states])
    assert present.tolist() == [
        [True, False, True],
        [False, True, True],
        [True, True, False],
        [True, True, False],
    ]
    x = [state["position"][here, 0].tolist() for state, here in zip(states, present, strict=True)]
    assert x == [[10, 0], [20, 5], [12, 21], [13, 22]]  # the first fix of each interval
    # a moves on, c appears in round 1; b comes back in round 2 where it is then
    assert ways[0].start[1:].tolist() == [[20, 0], [0, 0]]
    assert ways[1].start[0].tolist() == [12, 0]
    assert (ways[0].present == present[1]).all()
    assert part.groups(world(3)).tolist() == ["device"] * 3


def test_dwell_by_hand(day: str) -> None:
    def present(dwell: float) -> list[list[bool]]:
        return [state["present"].tolist() for state in played(of(day, dwell=dwell), 3, 3)[0]]

    # b's fix at 4 lasts past 10 with more than 6 s, a's at 12 past 20 with more than 8 and past 30 with more than 18.
    assert [row[0] for row in present(6.0)] == [True, False, True, True]
    assert [row[0] for row in present(6.5)] == [True, True, True, True]
    assert [row[2] for row in present(8.0)] == [True, True, False, False]
    assert [row[2] for row in present(18.5)] == [True, True, True, True]
    states, ways = played(of(day, dwell=18.5), 3, 3)
    assert states[3]["position"][2].tolist() == [5, 0]
    assert states[1]["position"][0].tolist() == [11, 0]  # where it was last, not where it began
    assert ways[2].length[2] == 0


def test_interpolation_by_hand(day: str) -> None:
    part = of(day, mode="interpolate", max_gap=15.0)
    assert part.rounds() == 3
    states, ways = played(part, 3, 3)
    # b has a gap from 4 to 25, a begins at 1 and ends at 12, c is there from 10 to 30.
    assert [state["present"].tolist() for state in states] == [
        [True, False, False],
        [False, True, True],
        [False, True, False],
        [True, True, False],
    ]
    assert states[1]["position"][2].tolist() == pytest.approx([45 / 11, 0])
    assert states[2]["position"][1].tolist() == [21, 8]
    assert ways[2].end[0].tolist() == pytest.approx([12 + 5 / 13, 0])
    # b is seen from 25 on, half way through round 3: it waits there
    way = slice(*ways[2].first[:2])
    assert ways[2].time[way].tolist() == [0, 0.5, 1]
    assert ways[2].start[0].tolist() == [12, 0]
    assert ways[2].at(0.25)[0].tolist() == [12, 0]
    assert ways[2].at(0.75)[0].tolist() == pytest.approx([12 + 2.5 / 13, 0])


def test_a_way_goes_through_every_fix(tmp_path: Path) -> None:
    fixes = {"a": [(0.0, 0.0, 0.0), (2.0, 4.0, 0.0), (5.0, 4.0, 9.0), (20.0, 7.0, 7.0)]}
    file = str(write_trace(trace_of(fixes), tmp_path / "way.parquet"))
    _, ways = played(of(file, mode="interpolate"), 1, 2)
    assert ways[0].time.tolist() == [0, 0.2, 0.5, 1]
    assert ways[0].point.tolist() == [[0, 0], [4, 0], [4, 9], pytest.approx([5, 9 - 2 / 3])]
    assert ways[0].length[0] == pytest.approx(4 + 9 + np.hypot(1, 2 / 3))
    assert ways[1].end.tolist() == [[7, 7]]


# --- against a slow and obvious version ---------------------------------------------------------------------------


def slow_seen(fixes: list[tuple[float, float, float]], begin: float, end: float, dwell: float) -> Any:
    for time, x, y in fixes:
        if begin <= time < end:
            return (x, y)
    before = [fix for fix in fixes if fix[0] < begin]
    return before[-1][1:] if before and before[-1][0] + dwell > begin else None


def slow_known(fixes: list[tuple[float, float, float]], at: float, max_gap: float) -> Any:
    for time, x, y in fixes:
        if time == at:
            return (x, y)
    for (t0, x0, y0), (t1, x1, y1) in itertools.pairwise(fixes):
        if t0 < at < t1 and t1 - t0 <= max_gap:
            share = (at - t0) / (t1 - t0)
            return (x0 + share * (x1 - x0), y0 + share * (y1 - y0))
    return None


@st.composite
def days(draw: Any) -> dict[str, list[tuple[float, float, float]]]:
    found = {}
    for name in draw(st.sampled_from(["ab", "abc"])):
        times = sorted(draw(st.sets(st.integers(0, 80).map(lambda k: k / 2), min_size=1, max_size=8)))
        found[name] = [(t, draw(st.integers(0, 9)), draw(st.integers(0, 9))) for t in times]
    return found


@given(
    days(),
    st.sampled_from(["first_fix", "interpolate"]),
    st.sampled_from([0.5, 7.0, 12.0, 30.0]),
    st.sampled_from([0.0, 7.5]),
)
def test_presence_and_places_against_a_slow_version(
    tmp_path_factory: pytest.TempPathFactory, fixes: Any, mode: str, limit: float, begin: float
) -> None:
    """Of the fixes outside the window those count between which a place is interpolated, and no others."""
    folder, end = tmp_path_factory.mktemp("slow"), begin + 30.0
    assume(any(begin <= time < end for own in fixes.values() for time, _, _ in own))
    file = str(write_trace(trace_of(fixes), folder / "t.parquet"))
    settings = {"dwell": limit} if mode == "first_fix" else {"max_gap": limit}
    part = of(file, mode=mode, begin=begin, length=30.0, **settings)
    names = part.selection().names
    rounds = part.rounds()
    assert rounds == (2 if mode == "first_fix" else 3)
    states, ways = played(part, len(names), rounds)
    for t, state in enumerate(states):
        for i, name in enumerate(names):
            own = [(time - begin, x, y) for time, x, y in fixes[name]]
            if mode == "first_fix":
                own = [fix for fix in own if 0 <= fix[0] < 30]
                place = slow_seen(own, 10 * t, 10 * t + 10, limit)
            else:
                place = slow_known(own, 10 * t, limit)
            assert state["present"][i] == (place is not None)
            if place is not None:
                assert state["position"][i].tolist() == pytest.approx(list(place))
            if t and mode == "interpolate" and place is not None:
                for moment in (0.0, 0.05, 0.3, 0.5, 0.75):
                    known = slow_known(own, 10 * (t - 1 + moment), limit)
                    # after a gap in the middle of the round, a newcomer waits at the first fix that follows it
                    later = [
                        slow_known(own, 10 * (t - 1) + s / 4, limit) for s in range(int(40 * moment), 41)
                    ]
                    if None not in later and known is not None:
                        assert ways[t - 1].at(moment)[i].tolist() == pytest.approx(list(known))


def test_the_fixes_beside_a_window_say_who_is_there_at_its_ends(tmp_path: Path) -> None:
    """A car with a fix a minute is there all the time, wherever rounds begin and end; one that comes later is not."""
    fixes = {
        "all day": [(60.0 * k, k, 0.0) for k in range(200)],
        "later": [(60.0 * k, k, 5.0) for k in range(70, 80)],
        "elsewhere": [(60.0 * k, 999.0, 0.0) for k in range(300, 310)],
    }
    file = str(write_trace(trace_of(fixes), tmp_path / "t.parquet"))
    part = of(file, mode="interpolate", interval=100.0, max_gap=60.0, begin=3630.0, length=1000.0)
    assert part.rounds() == 10
    states, ways = played(part, 2, 10)
    assert [state["present"].tolist() for state in states] == [
        [True, 3630 + 100 * t >= 4200 and 3630 + 100 * t <= 4740] for t in range(11)
    ]
    assert [state["position"][0, 0] for state in states] == pytest.approx(
        [60.5 + t * 100 / 60 for t in range(11)]
    )
    assert ways[0].point[ways[0].first[0]].tolist() == [60.5, 0]
    assert part.bounds() == (60, 0, 78, 5)  # where places are interpolated, and nowhere else
    chosen = part.selection()
    assert (chosen.names, np.diff(chosen.first).tolist()) == (("all day", "later"), [17, 8])


@pytest.mark.parametrize("step", [0.1, 1 / 3, 0.7])
def test_times_that_are_sums_are_moments_of_rounds(step: float, tmp_path: Path) -> None:
    """As SUMO writes tenths of seconds: nobody is away between two fixes that are as far apart as is allowed."""
    times = np.cumsum([0.0] + [step] * 100)
    fixes = {
        "a": [(float(time), time, 0.0) for time in times],
        "b": [(round(k * step, 9), k, 1.0) for k in range(101)],
    }
    file = str(write_trace(trace_of(fixes), tmp_path / "t.parquet"))
    part = of(file, mode="interpolate", interval=step, max_gap=step + 1e-6)
    assert part.rounds() == 100
    states, ways = played(part, 2, 100)
    assert np.array([state["present"] for state in states]).all()
    assert [len(way.time) for way in ways] == [4] * 100  # no fix lies within a round
    by_fix = of(file, interval=step)
    assert by_fix.rounds() == 100
    states, _ = played(by_fix, 2, 100)
    assert [state["position"][1, 0] for state in states] == list(range(101))


@pytest.mark.parametrize(
    "settings",
    [
        {"dwell": 5000.0, "report_share": 0.5},
        {"dwell": 5000.0, "report_share": 0.5, "reported": "all"},
        {"mode": "interpolate", "max_gap": 2000.0, "report_share": 0.7, "interval": 1800.0},
        {"mode": "interpolate", "interval": 777.0},
        {"box": 2.0, "begin": 3000.5, "length": 36_000.0},
    ],
)
def test_every_mode_keeps_the_contract(settings: dict[str, Any]) -> None:
    part = build("mobility", {"kind": "trace", "file": str(_own_trace()), **settings})
    for seed in (0, 1):
        contract.check_mobility(part, 20, seed)


# --- reporting ------------------------------------------------------------------------------------------------------


def test_reports_are_drawn_by_seed_and_spare_fixes(tmp_path: Path) -> None:
    # 400 devices, all with a fix at 1 s and a dwell for ever; half of them with another one at 15 s
    fixes = {f"{i:03}": [(1.0, 0.0, 0.0), (15.0, 1.0, 0.0)][: 2 - i % 2] for i in range(400)}
    file = str(write_trace(trace_of(fixes), tmp_path / "t.parquet"))
    common = {"dwell": 1e6, "report_share": 0.4, "length": 40.0}

    def present(seed: int, **settings: Any) -> np.ndarray:
        return np.array([s["present"] for s in played(of(file, **common, **settings), 400, 3, seed)[0]])

    seen = present(0)
    assert seen[0].all()
    assert seen[1, :200].all()  # two fixes each: the most active
    for share in (seen[1, 200:].mean(), seen[2].mean(), seen[3].mean()):
        assert abs(share - 0.4) < 0.12  # 3.5 standard errors
    assert (seen[2] != seen[3]).any()
    assert (present(0) == seen).all()
    assert (present(1) != seen).any()
    assert abs(present(0, reported="all")[0].mean() - 0.4) < 0.09


# --- selection ------------------------------------------------------------------------------------------------------


def test_selection_by_hand() -> None:
    trace = trace_of(DAY)
    chosen = select(trace, 4.0, 26.0)
    assert chosen.names == ("b", "c", "a")  # two each of b and c: the trace's order
    assert chosen.time.tolist() == [0, 21, 6, 16, 8]
    assert (chosen.start, chosen.length) == (4, 26)
    # the median fix is (12.5, 0); in x from 7.5 to 17.5
    boxed = select(trace, box=10.0)
    assert boxed.names == ("b",)
    assert boxed.point[:, 0].tolist() == [10, 11, 12, 13, 14]
    for wrong in ({"start": 100.0}, {"start": 5.0, "length": 1.0}):
        with pytest.raises(InputError, match="no fix between"):
            select(trace, **wrong)


def test_begin_as_a_date(tmp_path: Path) -> None:
    shifted = {name: [(t + 1284681600, x, y) for t, x, y in own] for name, own in DAY.items()}
    dated = write_trace(trace_of(shifted, epoch="1970-01-01T00:00:00Z"), tmp_path / "dated.parquet")
    for begin in ("2010-09-17", "2010-09-17T02:00:00+02:00", 1284681600.0):
        assert of(str(dated), begin=begin, length=20.0).selection().time.tolist() == [1, 12, 0, 4, 10]
    # As TOML writes them; what is kept, and makes the digest, is the text.
    for moment in (date(2010, 9, 17), datetime(2010, 9, 17, tzinfo=UTC)):
        part = of(str(dated), begin=moment, length=20.0)
        assert part.selection().time.tolist() == [1, 12, 0, 4, 10]
        assert part.begin == moment.isoformat()


# --- in a run -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("rough_pictures")
def test_a_run_with_absent_clients(day: str, tmp_path: Path) -> None:
    experiment = tiny(
        clients=3,
        rounds=3,
        evaluate_every=1,
        mobility={"kind": "trace", "file": day, "interval": 10.0},
        contacts={"kind": "radius", "radius": 100.0},
    )
    run = fedroam.run(experiment, tmp_path / "run")
    positions = run.positions.pivot_table(index="round", columns="client", values="present", aggfunc="first")
    assert positions.to_numpy().tolist() == [
        [True, False, True],
        [False, True, True],
        [True, True, False],
        [True, True, False],
    ]
    assert np.isfinite(run.positions[["x", "y"]].to_numpy()).all()
    assert run.contacts[["round", "i", "j"]].to_numpy().tolist() == [
        [0, 0, 2],
        [1, 1, 2],
        [2, 0, 1],
        [3, 0, 1],
    ]
    assert run.rounds["active"].tolist()[1:] == [2, 2, 2]
    from fedroam.analysis.report.movement import playback
    from fedroam.analysis.report.report import write_report
    from fedroam.analysis.variants import variants

    entry = playback(variants([run]))["runs"][0]
    assert entry["moves"]
    assert write_report([run], tmp_path / "report.html")


@pytest.fixture
def fr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDROAM_DATA", raising=False)
    return Commands(tmp_path, capsys)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ("file='none.parquet'", ["mobility.file = 'none.parquet'", "no such file"]),
        ("file='tiny.toml'", ["tiny.toml", "not a trace"]),
        ("file='day.parquet'", ["clients = 4", "3 device(s)", "1 to 3"]),
        ("file='day.parquet',interval=1e3", ["clients = 4"]),
        ("file='day.parquet',begin='noon'", ["mobility.begin = 'noon'", "ISO 8601"]),
        ("file='day.parquet',begin='2010-09-17'", ["clock of its own", "0 to 39.5"]),
        ("file='day.parquet',begin=99", ["no fix between", "mobility.begin"]),
        ("file='day.parquet',box=0.5", ["square of 0.5 m", "mobility.box"]),
        ("file='day.parquet',max_gap=5.0", ["max_gap", "first_fix"]),
        ("file='day.parquet',mode='interpolate',dwell=5.0", ["dwell", "interpolate"]),
        ("file='day.parquet',report_share=0.0", ["mobility.report_share = 0.0"]),
    ],
)
def test_wrong_settings(settings: str, wanted: list[str], fr: Commands, day: str) -> None:
    answer = fr("run", "tiny.toml", "--no-report", "--set", f"mobility={{kind='trace',{settings}}}")
    assert (answer.code, answer.err.count("\n")) == (2, 1), answer
    assert all(words in answer.err for words in wanted), answer.err
    assert not (fr.folder / "runs").exists()


def test_more_rounds_than_the_trace_has(fr: Commands, day: str) -> None:
    short = ["--set", "clients=3", "--set", "mobility={kind='trace',file='day.parquet',interval=15.0}"]
    answer = fr("run", "tiny.toml", "--no-report", *short)
    assert answer.code == 2
    assert "rounds = 3" in answer.err
    assert "2 round(s) of 15 s" in answer.err
    assert not (fr.folder / "runs").exists()


# --- real traces ----------------------------------------------------------------------------------------------------


def real(name: str) -> Path:
    path = Path(os.environ["FEDROAM_DATA"]) / name
    if not path.is_file():
        pytest.skip(f"FEDROAM_DATA lacks {name}")
    pytest.importorskip("pyproj")
    return path


@pytest.mark.data
def test_the_stand_in_month_of_new_york(tmp_path: Path) -> None:
    trace = import_trace(real("gowalla_nyc/checkins.csv.gz"))
    assert (trace.devices, trace.fixes, len(trace.venues)) == (7115, 138_949, 21_509)
    assert trace.facts["dropped"] == {"repeated": 6, "another place at the same time": 2}
    file = str(write_trace(trace, tmp_path / "ny.parquet"))

    def present(**settings: Any) -> np.ndarray:
        month = {"begin": "2010-09-17", "length": 31 * 86_400.0, "interval": 3600.0}
        part = of(file, **{**month, **settings})
        assert part.rounds() == 743
        return np.array([s["present"] for s in played(part, 1000, 743)[0]])

    raw = present()
    assert raw.sum(axis=1).mean() == pytest.approx(16.2, abs=0.1)
    assert raw.sum(axis=1).max() == 51
    assert (raw[1:] & raw[:-1]).sum(axis=1).mean() == pytest.approx(2.8, abs=0.05)
    stand_in = present(box=17_500.0, dwell=6 * 3600.0, report_share=0.4)
    assert stand_in.sum(axis=1).mean() == pytest.approx(35, abs=1)
    assert 80 <= stand_in.sum(axis=1).max() <= 100
    assert (stand_in[1:] & stand_in[:-1]).sum(axis=1).mean() == pytest.approx(15.1, abs=0.4)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "options", "devices", "fixes"),
    [
        ("foursquare_nyc/checkins.csv.gz", {}, 1083, 140_633),
        ("sumo_bologna/fcd.csv.gz", {}, 11_176, 863_398),
        (
            "cabspotting/cabspotting_2008-06-03.csv.gz",
            {"box": (37.2, 38.2, -122.8, -121.7), "max_speed": 50.0},
            494,
            469_046,
        ),
    ],
)
def test_other_real_traces_load(
    name: str, options: dict[str, Any], devices: int, fixes: int, tmp_path: Path
) -> None:
    trace = import_trace(real(name), **options)
    assert trace.fixes == trace.facts["rows"] - sum(trace.facts["dropped"].values())
    assert (trace.devices, trace.fixes) == (devices, fixes)
    assert read_trace(write_trace(trace, tmp_path / "t.parquet")).bounds == trace.bounds


# --- which devices --------------------------------------------------------------------------------------------------


def crossing(folder: Path) -> str:
    """Two parked devices that are there for 40 s, and twenty that pass by, one every 2 s, for 3 s each."""
    fixes = {f"parked {k}": [(float(t), 0.0, k) for t in range(40)] for k in range(2)}
    fixes |= {f"passer {k}": [(2.0 * k + s, 10.0 * s, k) for s in range(4)] for k in range(18)}
    return str(write_trace(trace_of(fixes), folder / "crossing.parquet"))


def test_the_most_fixes_are_those_that_never_leave(tmp_path: Path) -> None:
    part = of(crossing(tmp_path), mode="interpolate", interval=1.0)
    assert all(state["present"].all() for state in played(part, 2, 39)[0])
    told = of(crossing(tmp_path), mode="interpolate", interval=1.0, devices="most_fixes")
    assert told == part  # the same by its name: the same digest


def test_arrivals_and_departures_survive(tmp_path: Path) -> None:
    file = crossing(tmp_path)
    first = of(file, mode="interpolate", interval=1.0, devices="arrival")
    assert first.device_names(0)[:5] == ("parked 0", "parked 1", "passer 0", "passer 1", "passer 2")
    present = np.array([state["present"] for state in played(first, 6, 39)[0]])
    assert present[:, :2].all()
    for k in range(4):  # passer k is there from second 2k to 2k + 3, and never again
        assert np.flatnonzero(present[:, 2 + k]).tolist() == [2 * k, 2 * k + 1, 2 * k + 2, 2 * k + 3]


def test_drawn_devices_are_a_fair_draw_with_the_seed(tmp_path: Path) -> None:
    part = of(crossing(tmp_path), mode="interpolate", interval=1.0, devices="drawn")
    everybody = set(part.selection().names)
    drawn = [part.device_names(seed) for seed in range(200)]
    assert all(set(names) == everybody for names in drawn)
    assert drawn[0] == part.device_names(0) != drawn[1]
    parked = np.mean([sum(name.startswith("parked") for name in names[:5]) for names in drawn])
    assert parked == pytest.approx(5 * 2 / 20, abs=4 * np.sqrt(5 * 0.1 * 0.9 / 200))
    # the state follows the draw: who is there in a second is whom the trace has there
    for seed in (0, 1):
        names, (states, _) = part.device_names(seed), played(part, 20, 39, seed)
        at_20 = {name for name, here in zip(names, states[20]["present"], strict=True) if here}
        assert at_20 == {"parked 0", "parked 1", "passer 9", "passer 10"}


@given(st.integers(0, 2**32), st.permutations(range(5)), st.integers(1, 5))
def test_a_selection_in_another_order_holds_the_same_fixes(seed: int, order: list[int], count: int) -> None:
    draws = np.random.default_rng(seed)
    times = [np.sort(draws.choice(100, draws.integers(1, 9), replace=False)) for _ in range(5)]
    chosen = select(trace_of({f"d{k}": [(float(t), k, t) for t in own] for k, own in enumerate(times)}))
    picked = chosen.only(np.array(order[:count]))
    for k, place in enumerate(order[:count]):
        mine, theirs = slice(*picked.first[k : k + 2]), slice(*chosen.first[place : place + 2])
        assert picked.names[k] == chosen.names[place]
        assert (picked.point[mine] == chosen.point[theirs]).all()
        assert (picked.time[mine] == chosen.time[theirs]).all()
    assert picked.first[-1] == len(picked.time)


@pytest.mark.data
def test_bologna_is_more_than_those_that_stand_at_its_start(tmp_path: Path) -> None:
    """By most fixes, 100 clients are the queue of the first second; drawn ones come and go."""
    file = str(write_trace(import_trace(real("sumo_bologna/fcd.csv.gz")), tmp_path / "bologna.parquet"))

    def turnover(**settings: Any) -> tuple[int, int]:
        part = of(file, mode="interpolate", interval=30.0, max_gap=10.0, **settings)
        present = np.array([state["present"] for state in played(part, 100, part.rounds())[0]])
        arrivals = int((present[1:] & ~present[:-1]).sum())
        return arrivals, int((present[:-1] & ~present[1:]).sum())

    drawn = turnover(devices="drawn")
    assert min(drawn) >= 80, drawn
