"""Churn from an availability log: who is on in which round, which devices, and what each kind of damage says."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.analysis.connectivity.contact_statistics import simulate
from fedroam.components import build
from fedroam.errors import InputError
from fedroam.mobility import KnowsItsLimits
from fedroam.runner import run
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from fedroam.traces import read_log
from support.commands import Commands
from support.tiny import play, tiny

# Intervals of 10 s. a is on for 29 s, b for 25, c for 5; rows in no order, some of them overlapping or touching.
DAY = """\
device,begin,end
c,35,40
a,4,10
b,20,30
a,0,4
a,2,6
b,3,8
a,12,16
b,10,20
a,25,40
a,27,33
"""
MERGED = [
    ("a", 0, 10),
    ("a", 12, 16),
    ("a", 25, 40),
    ("b", 3, 8),
    ("b", 10, 30),
    ("c", 35, 40),
]
files = itertools.count()


def wrote(folder: Path, text: str, name: str = "log.csv") -> str:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


@pytest.fixture
def day(tmp_path: Path) -> str:
    return wrote(tmp_path, DAY)


def of(file: str, **settings: Any) -> Any:
    return build("activity", {"kind": "trace", "file": file, "interval": 10.0, **settings})


def history(part: Any, clients: int, rounds: int, seed: int = 0) -> list[str]:
    """Who is active before round 1 and after each, as texts of 1 and 0."""
    state = part.start(seed, clients)
    found = [state["active"]]
    for t in range(1, rounds + 1):
        state = part.step(state, seed, clients, t)
        found.append(state["active"])
    return ["".join("01"[int(on)] for on in row) for row in found]


def stretches(path: str | Path) -> list[tuple[str, float, float]]:
    log = read_log(path)
    return [(log.names[k], b, e) for k, b, e in zip(log.device, log.begin, log.end, strict=True)]


# --- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_stretches_are_merged(tmp_path: Path, name: str) -> None:
    assert stretches(wrote(tmp_path, DAY, name)) == MERGED
    assert not read_log(wrote(tmp_path, DAY, name)).calendar


def test_other_names_and_further_columns(tmp_path: Path) -> None:
    for header in ("user,start,stop", "ID,On,Off", "vehicle,from,to"):
        assert stretches(wrote(tmp_path, DAY.replace("device,begin,end", header))) == MERGED
    # the column `device` is the device, though `id` might be one in another file
    rows = [f"{k},{row}" for k, row in enumerate(DAY.splitlines()[1:])]
    assert stretches(wrote(tmp_path, "\n".join(["id,device,begin,end", *rows]))) == MERGED


def test_parquet_and_calendar_times(tmp_path: Path) -> None:
    table = pd.read_csv(wrote(tmp_path, DAY))
    table.to_parquet(tmp_path / "log.parquet")
    assert stretches(tmp_path / "log.parquet") == MERGED
    for column in ("begin", "end"):
        table[column] = pd.to_datetime(1_000_000_000 + table[column], unit="s", utc=True)
    table.to_parquet(tmp_path / "stamps.parquet")
    later = [(name, 1e9 + b, 1e9 + e) for name, b, e in MERGED]
    assert stretches(tmp_path / "stamps.parquet") == later
    assert read_log(tmp_path / "stamps.parquet").calendar


def test_calendar_times_and_seconds_are_the_same(tmp_path: Path, day: str) -> None:
    table = pd.read_csv(day)
    for column in ("begin", "end"):
        stamps = [pd.Timestamp(1_000_000_000 + t, unit="s", tz="UTC") for t in table[column]]
        table[column] = [  # every other row as +02:00: each says its own zone
            stamp.tz_convert("Europe/Rome").isoformat() if k % 2 else f"{stamp:%Y-%m-%dT%H:%M:%SZ}"
            for k, stamp in enumerate(stamps)
        ]
    iso = wrote(tmp_path, table.to_csv(index=False), "iso.csv")
    assert "+02:00" in Path(iso).read_text()
    assert "Z," in Path(iso).read_text()
    for settings in ({}, {"share": 1.0}, {"devices": "drawn"}, {"length": 30.0}):
        assert history(of(iso, **settings), 2, 2) == history(of(day, **settings), 2, 2)
    # 2001-09-09T01:46:40Z is 1e9
    for settings in ({"begin": "2001-09-09T01:46:50Z"}, {"begin": 1_000_000_010.0}):
        assert history(of(iso, **settings), 2, 2) == history(of(day, begin=10.0), 2, 2)
    with pytest.raises(
        InputError, match=r"activity.begin = '2001-09-09': .*log.csv has a clock of its own.* 0 to 40"
    ):
        of(day, begin="2001-09-09").start(0, 1)


# --- who is on ----------------------------------------------------------------------------------------------------


def test_a_day_by_hand(day: str) -> None:
    part = of(day)
    assert part.rounds() == 3
    assert part.presence(0, 3).devices == ("a", "b", "c")  # 29 s, 25 s, 5 s
    # a has only 4 s of interval 1, and exactly 5 s of interval 2; b has exactly 5 s of interval 0, c of interval 3
    assert history(part, 3, 3) == ["110", "010", "110", "101"]
    assert history(of(day, share=1.0), 3, 3) == ["100", "010", "010", "100"]
    assert history(of(day, share=0.4), 3, 3) == ["110", "110", "110", "101"]
    assert history(of(day, share=0.51), 3, 3) == ["100", "010", "010", "100"]
    assert history(part, 2, 3) == ["11", "01", "11", "10"]
    assert set(part.start(0, 3)) == set(part.step(part.start(0, 3), 0, 3, 1)) == {"active"}


def test_windows_by_hand(day: str) -> None:
    # from 10: b has 20 s, a 19 s, c 5 s
    part = of(day, begin=10.0)
    assert part.presence(0, 3).devices == ("b", "a", "c")
    assert history(part, 3, 2) == ["100", "110", "011"]
    # to 30: b has 25 s, a 19 s, and c is no client
    part = of(day, length=30.0)
    assert part.presence(0, 2).devices == ("b", "a")
    with pytest.raises(InputError, match=r"clients = 3: .*log.csv has 2 device\(s\) .* allowed is 1 to 2 "):
        part.presence(0, 3)
    # nobody is on before the log begins, nor after it ends, which the user may know better than the log
    part = of(day, begin=-10.0, length=60.0)
    assert history(part, 3, 5) == ["000", "110", "010", "110", "101", "000"]
    # the last 4 s are no whole interval: left out, also in the order (b 24 s, a 21 s of 25 s, c 1 s)
    part = of(day, begin=4.0, interval=16.0)
    assert part.rounds() == 1
    assert part.presence(0, 3).devices == ("b", "a", "c")
    assert history(part, 3, 1) == ["110", "110"]
    assert history(of(day, begin=4.0, interval=16.0, share=0.65), 3, 1) == ["100", "010"]


def test_equally_long_devices_stand_in_the_order_of_their_names(tmp_path: Path) -> None:
    log = wrote(tmp_path, "id,on,off\n10,0,10\n9,20,30\n8,0,11\n")
    assert of(log).presence(0, 3).devices == ("8", "9", "10")


def test_rounding_costs_nobody_an_interval(tmp_path: Path) -> None:
    part = of(wrote(tmp_path, "id,on,off\n1,1.1,1.7\n2,1.1,1.4\n3,1.4,1.7\n"), interval=0.3, share=1.0)
    assert (1.7 - 1.1) / 0.3 < 2
    assert part.rounds() == 1
    assert history(part, 3, 1) in (["110", "101"], ["101", "110"])  # 2 or 3 may be on longer by the last bit
    assert sorted(part.presence(0, 3).devices) == ["1", "2", "3"]


def test_the_window_is_repeated(day: str) -> None:
    part = of(day, after_end="repeat")
    once = history(of(day), 3, 3)
    assert history(part, 3, 10) == (once * 3)[:11]
    part.check_limits(3, 10**9)
    part = of(day, after_end="repeat", begin=10.0, length=20.0)
    assert history(part, 2, 5) == ["10", "11"] * 3
    with pytest.raises(
        InputError, match=r"length = 25 is repeated.* whole number of intervals of 10 s, found 2.5"
    ):
        of(day, after_end="repeat", length=25.0)


def test_late_clients_join_later(day: str) -> None:
    free = np.array([list(row) for row in history(of(day), 3, 3)]) == "1"
    part = of(day, late_share=1.0, late_by=3)
    joined: Any = build("activity", {"kind": "always", "late_share": 1.0, "late_by": 3})
    for seed in range(5):
        late = np.array([list(row) for row in history(part, 3, 3, seed)]) == "1"
        there = np.array([joined.joined(seed, 3, t) for t in range(4)])
        assert (late == free & there).all()


def test_devices_are_drawn_with_the_seed(day: str, tmp_path: Path) -> None:
    part = of(day, devices="drawn")
    orders = [part.presence(seed, 3).devices for seed in range(40)]
    assert orders == [of(day, devices="drawn", share=1.0).presence(seed, 3).devices for seed in range(40)]
    assert len(set(orders)) == 6  # every order comes up
    for seed, order in enumerate(orders):
        assert part.presence(seed, 2).devices == order[:2]  # one more client, the same ones before it
        by_name = dict(zip(("a", "b", "c"), zip(*history(of(day), 3, 3), strict=True), strict=True))
        found = list(zip(*history(part, 3, 3, seed), strict=True))
        assert found == [by_name[name] for name in order]
    short = of(day, devices="drawn", length=30.0)
    assert {short.presence(seed, 2).devices for seed in range(20)} == {("a", "b"), ("b", "a")}


def test_two_methods_see_the_same_devices(day: str) -> None:
    activity = {"kind": "trace", "file": day, "interval": 10.0, "devices": "drawn"}
    runs = [
        play(tiny(clients=3, rounds=3, seed=4, activity=activity, federation=kind))
        for kind in ("fedavg", "decentralized")
    ]
    one, two = (found.positions["present"] for found in runs)
    assert one.tolist() == two.tolist()
    assert 0 < one.sum() < len(one)


STRETCHES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 40), st.integers(1, 15)), min_size=1, max_size=14
)


@given(
    STRETCHES,
    st.integers(1, 9),
    st.sampled_from([1 / 9, 0.25, 1 / 3, 0.5, 2 / 3, 0.7, 1.0]),
    st.none() | st.integers(-5, 30),
    st.none() | st.integers(1, 50),
    st.sampled_from(["stop", "repeat"]),
    st.sampled_from([0.0, 0.1, 1e9 + 1 / 3]),
)
def test_it_agrees_with_counting_seconds(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, int]],
    interval: int,
    share: float,
    start: int | None,
    length: int | None,
    after_end: str,
    shift: float,
) -> None:
    """On or off, second by second; the clock may begin anywhere."""
    text = "device,begin,end\n" + "".join(f"{d},{b + shift!r},{b + long + shift!r}\n" for d, b, long in rows)
    file = wrote(tmp_path_factory.getbasetemp(), text, f"drawn-{next(files)}.csv")
    on = {d: {s for e, b, long in rows if e == d for s in range(b, b + long)} for d, _, _ in rows}
    first = min(b for _, b, _ in rows) if start is None else start
    span = max(b + long for _, b, long in rows) - first if length is None else length
    if after_end == "repeat" and length is not None:
        length = span = max(span // interval, 1) * interval
    slots = span // interval
    counted = {d: len(seconds & set(range(first, first + slots * interval))) for d, seconds in on.items()}
    order = [d for d in sorted(counted, key=lambda d: (-counted[d], d)) if counted[d]]

    part = of(
        file,
        interval=float(interval),
        share=share,
        begin=None if start is None else start + shift,
        length=None if length is None else float(length),
        after_end=after_end,
    )
    if not order:
        with pytest.raises(InputError, match=r"nobody is on|allowed is that or less"):
            part.start(0, 1)
        return
    clients = len(order)
    if not shift:  # else times of equal length may differ in their last bit
        assert part.presence(0, clients).devices == tuple(str(d) for d in order)
    order = [int(name) for name in part.presence(0, clients).devices]
    assert [counted[d] for d in order] == sorted(counted.values(), reverse=True)[:clients]
    rounds = slots - 1 if after_end == "stop" else 2 * slots
    expected = []
    for t in range(rounds + 1):
        low = first + t % slots * interval
        within = set(range(low, low + interval))
        expected.append("".join("01"[len(on[d] & within) >= share * interval - 1e-6] for d in order))
    assert history(part, clients, rounds) == expected
    if after_end == "stop":
        with pytest.raises(InputError, match=f"rounds = {slots}: "):
            part.step(part.start(0, clients), 0, clients, slots)


# --- what is refused, and when --------------------------------------------------------------------------------------

HEADER = "device,begin,end\n"
ISO = "2020-01-01T00:00:00Z"
DAMAGED: dict[str, tuple[str, list[str]]] = {
    "empty": ("", ["log.csv: empty"]),
    "header_only": (HEADER, ["log.csv", "no rows"]),
    "unknown_columns": ("a,b,c\n1,2,3\n", ["log.csv, line 1", "'device'", "a, b, c", "user"]),
    "no_end": ("device,begin,length\n1,2,3\n", ["log.csv, line 1", "'end'", "end, stop, to, off"]),
    "two_candidates": ("device,on,start,end\n1,2,3,4\n", ["log.csv", "'on' and 'start'", "'begin'", "rename"]),
    "ragged": (HEADER + "a,0,1\na,2\n", ["log.csv, line 3", "2 cells"]),
    "hole": (HEADER + "a,0,1\na,2,\n", ["log.csv, line 3", "'end'", "empty"]),
    "no_device": (HEADER + ",2,3\n", ["log.csv, line 2", "'device'", "empty"]),
    "word": (HEADER + "a,0,noon\n", ["log.csv, line 2", "'end'", "'noon'", "ISO 8601"]),
    "infinite": (HEADER + "a,0,inf\n", ["log.csv, line 2", "'end'", "'inf'"]),
    "not_a_number": (HEADER + "a,0,1\na,nan,1\n", ["log.csv, line 3", "'begin'", "'nan'"]),
    "backwards": (HEADER + "a,0,1\nb,5,3\n", ["log.csv, line 3", "'end'", ": 3, allowed is a time after 'begin' (5)"]),
    "nothing": ("id,on,off\na,0,1\nb,5,5.0\n", ["log.csv, line 3", "'off'", "5.0", "after 'on' (5)"]),
    "mixed_kinds": (HEADER + f"a,{ISO},2020-01-02T00:00Z\na,5,{ISO}\n", ["log.csv, line 3", "'begin'", "another kind"]),
    "two_kinds": (HEADER + f"a,5,{ISO}\n", ["log.csv, line 2", "'end'", f"'{ISO}'", "another kind", "'5'"]),
    "no_zone": (HEADER + f"a,2019-12-31T00:00:00,{ISO}\n", ["log.csv, line 2", "'begin'", "no time zone", "12:00:00Z"]),
    "some_without_zone": (
        HEADER + f"a,{ISO},2020-01-02T00:00Z\nb,{ISO},2020-01-02T00:00\n",
        ["log.csv, line 3", "'end'", "mixed time zones (Z, no zone)"],
    ),
    "no_such_day": (HEADER + f"a,{ISO},2020-02-30T00:00Z\n", ["log.csv, line 2", "'end'", "no date"]),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_logs(tmp_path: Path, name: str) -> None:
    text, words = DAMAGED[name]
    with pytest.raises(InputError) as caught:
        of(wrote(tmp_path, text)).start(0, 1)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message
    assert "--" not in message  # options of `trace import` are of no use here
    assert "np." not in message


def test_damaged_parquet_files(tmp_path: Path) -> None:
    def says(table: pa.Table, *words: str) -> None:
        pq.write_table(table, tmp_path / "log.parquet")
        with pytest.raises(InputError) as caught:
            read_log(tmp_path / "log.parquet")
        assert all(word in str(caught.value) for word in ("log.parquet", *words)), caught.value

    def table(**columns: Any) -> pa.Table:
        return pa.table({"device": ["a", "b"], "begin": [0.0, 1.0], "end": [1.0, 2.0], **columns})

    says(table(end=[1.0, None]), "row 2", "'end'", "empty")
    says(table(end=[1.0, np.inf]), "row 2", "'end'", "finite")
    says(table(end=[1.0, 1.0]), "row 2", "'end'", "after")
    says(table(device=["a", " "]), "row 2", "'device'", "empty")
    says(table(begin=[[0], [1]]), "'begin'", "holds list", "texts or numbers")
    says(table().drop_columns(["begin"]), "'begin'", "device, end")
    says(table().slice(0, 0), "no rows")
    (tmp_path / "log.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"log\.parquet: not a Parquet file"):
        read_log(tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"share": 0.0}, ["activity.share = 0.0", "greater than 0"]),
        ({"share": 1.5}, ["activity.share = 1.5"]),
        ({"interval": 0.0}, ["activity.interval"]),
        ({"length": np.inf}, ["activity.length"]),
        ({"begin": "noon"}, ["activity.begin = 'noon'", "ISO 8601"]),
        ({"begin": np.inf}, ["activity.begin", "finite"]),
        ({"devices": "first"}, ["activity.devices = 'first'", "'longest'"]),
        ({"after_end": "again"}, ["activity.after_end = 'again'", "'repeat'"]),
    ],
)
def test_wrong_settings(day: str, settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        of(day, **settings)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"begin": 40.0}, ["nobody is on", "begins at 40 s", "covers 0 s to 40 s"]),
        ({"begin": -20.0, "length": 20.0}, ["nobody is on", "-20"]),
        ({"begin": 1e12}, ["nobody is on"]),
        ({"interval": 41.0}, ["activity.interval = 41", "is 40 s long"]),
        ({"length": 5.0}, ["activity.interval = 10", "is 5 s long"]),
    ],
)
def test_windows_without_anybody(day: str, settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        of(day, **settings).start(0, 1)
    assert all(word in str(caught.value) for word in (day, *words)), caught.value


def test_too_much_is_refused_before_anything_is_computed(day: str, tmp_path: Path) -> None:
    assert isinstance(of(day), KnowsItsLimits)
    assert not isinstance(build("activity", "rate"), KnowsItsLimits)
    activity = {"kind": "trace", "file": day, "interval": 10.0}
    fits = {"clients": 3, "rounds": 3, "activity": activity}
    for wrong, words in (
        ({"clients": 4}, r"clients = 4: .*log\.csv has 3 device\(s\)"),
        ({"rounds": 4}, r"rounds = 4: .*log\.csv covers 3 round\(s\) of 10 s .*after_end"),
    ):
        with pytest.raises(InputError, match=words):
            prepare(tiny(**{**fits, **wrong}))
        with pytest.raises(InputError, match=words):
            run(tiny(**{**fits, **wrong}), tmp_path / "run")
        with pytest.raises(InputError, match=words):
            simulate(tiny(**{**fits, **wrong}))
    assert not (tmp_path / "run").exists()
    assert len(simulate(tiny(**fits)).graphs) == 3
    with pytest.raises(InputError, match="rounds = 4"):
        simulate(tiny(**fits), rounds=4)
    prepare(tiny(**{**fits, "rounds": 50, "activity": {**activity, "after_end": "repeat"}})).learner.close()


@pytest.fixture
def fr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def test_on_the_command_line(fr: Commands, day: str) -> None:
    log = ("--set", "activity.kind=trace", "--set", "activity.interval=10.0", "--set", "clients=3")
    answer = fr.run(*log)
    assert (answer.code, "activity.file: missing" in answer.err) == (2, True)
    answer = fr.run(*log, "--set", "activity.file=nowhere.csv")
    assert (answer.code, "activity.file = 'nowhere.csv': no such file" in answer.err) == (2, True)
    answer = fr.run(*log, "--set", "activity.file=log.csv", "--set", "rounds=4")
    assert (answer.code, "rounds = 4: log.csv covers 3 round(s)" in " ".join(answer.err.split())) == (2, True)
    assert not (fr.folder / "runs").exists()
    answer = fr.run(*log, "--set", "activity.file=log.csv", "--out", "done")
    assert answer.code == 0
    # the log is one of the files that the run read, so another one is noticed
    fr.write("log.csv", DAY.replace("c,35,40", "c,30,40"))
    answer = fr.run(*log, "--set", "activity.file=log.csv", "--out", "done")
    assert (answer.code, "activity.file" in answer.err, "has changed since" in answer.err) == (2, True, True)


# --- a whole run ----------------------------------------------------------------------------------------------------


def test_who_is_off_neither_trains_nor_sends(day: str) -> None:
    experiment = tiny(
        clients=3,
        rounds=3,
        evaluate_every=1,
        partition="iid",
        model={"kind": "mlp", "hidden": (6,)},
        federation="fedavg",
        activity={"kind": "trace", "file": day, "interval": 10.0},
    )
    on = history(of(day), 3, 3)
    assert on == ["110", "010", "110", "101"]
    scene = prepare(experiment)
    try:
        state = begin(scene)
        for t in range(1, 4):
            before = state.models.parameters.clone()
            state, done = play_round(scene, state)
            trained = [i for i in range(3) if on[t - 1][i] == "1"]  # interval t - 1 trains in round t
            assert done.learners.tolist() == trained
            same = (state.models.parameters == before).all(dim=1)
            assert [i for i in range(3) if not same[i]] == trained
            assert "".join("01"[int(here)] for here in done.meeting.paths.present) == on[t]
    finally:
        scene.learner.close()

    size = 4 * (64 * 6 + 6 + 6 * 10 + 10)
    clients = play(experiment).clients.pivot(
        index="round", columns="client", values=["bytes_up", "bytes_down"]
    )
    times = np.cumsum([[0, 0, 0], *([int(c) for c in row] for row in on[:3])], axis=0)
    assert (clients["bytes_up"].to_numpy() == times * size).all()
    assert (clients["bytes_down"].to_numpy() == times * size).all()
    assert times[-1].tolist() == [2, 3, 0]
