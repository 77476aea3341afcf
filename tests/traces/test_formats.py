"""Traces from SUMO, ns-2, BonnMotion, The ONE and GPX: what is read, and what each kind of damage says."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.errors import InputError
from fedroam.traces import FORMATS, Trace, import_trace, read_trace, write_trace
from fedroam.traces.formats import Wishes, recognise
from fedroam.traces.formats.sumo import read_sumo
from fedroam.traces.formats.waypoints import CORNERS
from support.commands import Commands, contents

SUMO = """\
<?xml version="1.0" encoding="UTF-8"?>
<fcd-export>
    <timestep time="0.00">
        <vehicle id="a" x="200" y="-10" angle="90.00" type="car" speed="10.00"/>
        <person id="p" x="0" y="0" angle="1" speed="0.5"/>
    </timestep>
    <timestep time="0.50"><vehicle id="a" x="205" y="-10"/><container id="c" x="1" y="1"/></timestep>
    <timestep time="1.00"/>
    <timestep time="3.00">
        <vehicle id="a" x="230" y="-10"/>
        <vehicle id="b" x="7.5" y="1e1"/>
    </timestep>
</fcd-export>
"""
NS2 = """\
# nodes: 4, max x: 500.00, max y: 500.00
$node_(0) set X_ 0.0
$node_(0) set Y_ 0.0
$node_(0) set Z_ 0.0
$node_(1) set X_ 50
$node_(1) set Y_ 60;# where it stays
$god_ set-dist 0 1 1
$ns_ at 2.0 "$node_(0) setdest 100.0 0.0 10.0"
$ns_ at 7.0 "$node_(0) setdest 50.0 40.0 4.0"
$ns_ at 30 "$node_(10) setdest 0 0 0"
$ns at 20 "$node_(10) setdest 130 40 5.0"
$ns at 4 "$node_(10) set X_ 100"
$ns at 4 "$node_(10) set Y_ 0.0"
"""
BONN = """\
0.0 0 0 10.0 30 40 15 30 40 20 30 90
4 1 1 8 5 1
"""
ONE = """\
0 100 0.0 500 -10 10 0 0
# comment
0 p1 0 -10
0 7 500 10 0
50.5 p1 100 10
100 7 0 0
"""
GPX = """\
<?xml version="1.0"?>
<gpx version="1.1" creator="t" xmlns="http://www.topografix.com/GPX/1/1">
  <metadata><name>not a track</name><time>2020-01-01T00:00:00Z</time></metadata>
  <wpt lat="1" lon="1"><time>2020-01-01T00:00:00Z</time></wpt>
  <trk><name>Ann &amp; Bo</name><trkseg>
    <trkpt lat="44.5" lon="11.3"><ele>5</ele><time>2020-05-01T08:00:00Z</time></trkpt>
    <trkpt lat="44.501" lon="11.3"><time>2020-05-01T08:00:10.5Z</time>
      <extensions><time>never</time></extensions></trkpt>
    <trkpt lat="44.502" lon="11.3"></trkpt>
  </trkseg><trkseg>
    <trkpt lat="44.503" lon="11.3"><time> 2020-05-01T08:01:00Z </time></trkpt>
  </trkseg></trk>
  <trk><trkseg><trkpt lat="44.5" lon="11.31"><time>2020-05-01T08:00:00Z</time></trkpt></trkseg></trk>
</gpx>
"""
SAMPLES = {"sumo": SUMO, "ns2": NS2, "bonnmotion": BONN, "one": ONE, "gpx": GPX}
ENDINGS = {"sumo": "xml", "ns2": "tcl", "bonnmotion": "movements", "one": "txt", "gpx": "gpx"}


def wrote(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def needed(kind: str) -> None:
    if kind == "gpx":
        pytest.importorskip("pyproj")


def fixes(trace: Trace, name: str) -> list[tuple[float, float, float]]:
    k = trace.names.index(name)
    own = slice(trace.first[k], trace.first[k + 1])
    return [
        (float(t), float(x), float(y)) for t, (x, y) in zip(trace.time[own], trace.point[own], strict=True)
    ]


def replayed(trace: Trace, folder: Path, interval: float, **settings: float) -> dict[str, list[object]]:
    """Where each device is at 0, 1, 2, ... intervals, as the mobility model has it; None where it is away."""
    file = str(write_trace(trace, folder / "replayed.parquet"))
    part = build(
        "mobility",
        {
            "kind": "trace",
            "file": file,
            "mode": "interpolate",
            "begin": 0.0,
            "interval": interval,
            **settings,
        },
    )
    names = part.selection().names
    found: dict[str, list[object]] = {name: [] for name in names}
    for round in range(part.rounds() + 1):
        here, place = part.availability(len(names), round)
        for name, known, point in zip(names, here, place, strict=True):
            found[name].append(pytest.approx(point, abs=1e-9) if known else None)
    return found


# --- each format, by hand -------------------------------------------------------------------------------------------


def test_sumo_by_hand(tmp_path: Path) -> None:
    trace = import_trace(wrote(tmp_path, SUMO, "fcd.xml"))
    assert trace.names == ("a", "b", "p")
    assert fixes(trace, "a") == [(0, 200, -10), (0.5, 205, -10), (3, 230, -10)]
    assert fixes(trace, "b") == [(3, 7.5, 10)]
    assert trace.facts == {
        "source": "fcd.xml",
        "sha256": hashlib.sha256(SUMO.encode()).hexdigest(),
        "epoch": None,
        "projection": None,
        "origin": None,
        "rows": 6,
        "dropped": {"containers, which are neither vehicle nor person": 1},
        "source_format": "sumo",
        "notes": ["places are taken as metres"],
    }
    # It leaves after 0.5 s and is back at 3 s: away in between, where gaps of more than 2 s are not bridged.
    assert replayed(trace, tmp_path, 0.5, max_gap=2.0)["a"] == [
        (200, -10),
        (205, -10),
        *[None] * 4,
        (230, -10),
    ]
    assert replayed(trace, tmp_path, 0.5)["a"][3] == (215, -10)


def test_sumo_vehicles_and_persons_of_one_id_stay_apart(tmp_path: Path) -> None:
    trace = import_trace(wrote(tmp_path, SUMO.replace('person id="p"', 'person id="a"'), "fcd.xml"))
    assert trace.names == ("person:a", "vehicle:a", "vehicle:b")
    assert fixes(trace, "person:a") == [(0, 0, 0)]
    assert len(fixes(trace, "vehicle:a")) == 3
    assert any("share ids" in note for note in trace.facts["notes"])


def test_sumo_times_as_people_read_them(tmp_path: Path) -> None:
    text = SUMO.replace("0.50", "00:01:00.50").replace('"3.00"', '"1:01:00:02"')
    assert import_trace(wrote(tmp_path, text, "fcd.xml"), places="metres").time.max() == 90_002
    assert fixes(import_trace(wrote(tmp_path, text, "fcd.xml")), "a")[1][0] == 60.5


DEGREES = """\
<?xml version="1.0" encoding="UTF-8"?>
{comment}<fcd-export>
    <timestep time="5.00"><vehicle id="0" x="11.300000" y="44.500000"/></timestep>
    <timestep time="6.00"><vehicle id="0" x="11.300000" y="44.500100"/></timestep>
</fcd-export>
"""
CONFIGURED = """\
<!-- generated on Fri May  1 2020 by Eclipse SUMO sumo Version 1.20.0
<configuration><output><fcd-output value="f.xml"/>{geo}</output></configuration>
-->
"""


@pytest.mark.parametrize("told", ["option", "file", "file, no less than the option"])
def test_sumo_in_degrees(told: str, tmp_path: Path) -> None:
    pytest.importorskip("pyproj")
    geo = CONFIGURED.format(geo='<fcd-output.geo value="true"/>')
    path = wrote(tmp_path, DEGREES.format(comment=geo if "file" in told else ""), "fcd.xml")
    trace = import_trace(path, places="degrees" if "option" in told else None)
    assert trace.epoch is None  # seconds of the simulation, not since 1970
    assert trace.time.tolist() == [5, 6]
    assert trace.facts["origin"] == (44.50005, 11.3)
    assert np.diff(trace.point, axis=0)[0] == pytest.approx([0, 11.1], abs=0.02)  # 1e-4 degrees of latitude


def test_sumo_is_never_guessed_to_be_in_degrees(tmp_path: Path) -> None:
    path = wrote(tmp_path, DEGREES.format(comment=""), "fcd.xml")
    with pytest.raises(InputError, match=r"fcd\.xml: x from 11\.3 to 11\.3 .* --places metres"):
        import_trace(path)
    assert import_trace(path, places="metres").point[0].tolist() == [11.3, 44.5]
    for geo in ("", '<fcd-output.geo value="false"/>'):
        wrote(tmp_path, DEGREES.format(comment=CONFIGURED.format(geo=geo)), "fcd.xml")
        assert import_trace(path).facts["projection"] is None


def test_ns2_by_hand(tmp_path: Path) -> None:
    trace = import_trace(wrote(tmp_path, NS2, "moves.tcl"))
    # Node 0 leaves at 2 s for (100, 0) at 10 m/s; at 7 s, half-way, it turns to (50, 40), 40 m at 4 m/s: 10 s.
    assert fixes(trace, "0") == [(0, 0, 0), (2, 0, 0), (7, 50, 0), (17, 50, 40), (30, 50, 40)]
    assert fixes(trace, "1") == [(0, 50, 60), (30, 50, 60)]
    # Node 10 is there from 4 s; from 20 s on it makes 50 m at 5 m/s; the order of 30 s comes as it arrives.
    assert fixes(trace, "10") == [(4, 100, 0), (20, 100, 0), (30, 130, 40)]
    assert trace.facts["notes"] == [
        "the simulation ends at 30 s (the last event or arrival; --until says otherwise)",
        CORNERS,
        "1 line not about movement not looked at",
    ]
    places = replayed(trace, tmp_path, 5.0)
    assert places["0"] == [(0, 0), (30, 0), (50, 12), (50, 32), (50, 40), (50, 40), (50, 40)]
    assert places["10"] == [None, (100, 0), (100, 0), (100, 0), (100, 0), (115, 20), (130, 40)]


@pytest.mark.parametrize(
    ("more", "until", "end", "told"),
    [
        ('$ns_ at 12.0 "stop"\n', None, 12, "'stop' in line 14"),
        ('$ns_ at 13.0 "finish"\n$ns_ at 12.0 "puts \\"bye\\" ; $ns_ halt"\n', None, 12, "'halt' in line 15"),
        ('$ns_ at 50.0 "stop"\n', 12.0, 12, "as --until says"),
        ('$ns_ at $val(stop) "stop"\n', None, 30, "the last event or arrival"),
        ('$ns_ at 12.0 "$ftp stop"\n', None, 30, "the last event or arrival"),
        ('$ns_ at 50.0 "stop"\n', None, 50, "'stop' in line 14"),
    ],
)
def test_the_end_of_a_simulation(
    more: str, until: float | None, end: float, told: str, tmp_path: Path
) -> None:
    trace = import_trace(wrote(tmp_path, NS2 + more, "moves.tcl"), until=until)
    assert told in trace.facts["notes"][0]
    assert all(fixes(trace, name)[-1][0] == end for name in trace.names)
    if end == 12:
        assert fixes(trace, "0") == [(0, 0, 0), (2, 0, 0), (7, 50, 0), (12, 50, 20)]
        assert fixes(trace, "10") == [(4, 100, 0), (12, 100, 0)]


def test_nodes_that_begin_after_the_end_are_told(tmp_path: Path) -> None:
    trace = import_trace(wrote(tmp_path, NS2, "moves.tcl"), until=3)
    assert trace.names == ("0", "1")
    assert fixes(trace, "0") == [(0, 0, 0), (2, 0, 0), (3, 10, 0)]
    assert "1 node(s) begin later and are left out" in trace.facts["notes"]


def test_ns2_stops_at_speed_0_and_the_last_of_equal_times_holds(tmp_path: Path) -> None:
    lines = [
        "$node_(0) set X_ 0",
        "$node_(0) set Y_ 0",
        '$ns_ at 0.0 "$node_(0) setdest 0 99 9"',
        '$ns_ at 0.0 "$node_(0) setdest 100 0 10"',
        '$ns_ at 5.0 "$node_(0) setdest 7 7 0"',
        '$ns_ at 8.0 "$node_(0) setdest 50 0 3"',  # where it is already
        '$ns_ at 9.0 "$node_(0) setdest 0 0 50"',
    ]
    trace = import_trace(wrote(tmp_path, "\n".join(lines), "moves.tcl"))
    assert fixes(trace, "0") == [(0, 0, 0), (5, 50, 0), (8, 50, 0), (9, 50, 0), (10, 0, 0)]


def test_ns2_heights_count_for_the_way(tmp_path: Path) -> None:
    lines = [
        "$node_(0) set X_ 0",
        "$node_(0) set Y_ 0",
        "$node_(0) set Z_ 40",
        '$ns_ at 0.0 "$node_(0) setdest 30 0 0 10"',
    ]
    trace = import_trace(wrote(tmp_path, "\n".join(lines), "moves.tcl"))
    assert fixes(trace, "0") == [(0, 0, 0), (5, 30, 0)]  # 50 m through the air
    assert "heights (z) are not kept" in trace.facts["notes"]


def test_bonnmotion_by_hand(tmp_path: Path) -> None:
    trace = import_trace(wrote(tmp_path, BONN, "city.movements"))
    assert fixes(trace, "0") == [(0, 0, 0), (10, 30, 40), (15, 30, 40), (20, 30, 90)]
    # It stands at its first waypoint before, and at its last one after.
    assert fixes(trace, "1") == [(0, 1, 1), (4, 1, 1), (8, 5, 1), (20, 5, 1)]
    assert replayed(trace, tmp_path, 5.0) == {
        "0": [(0, 0), (15, 20), (30, 40), (30, 40), (30, 90)],
        "1": [(1, 1), (2, 1), (5, 1), (5, 1), (5, 1)],
    }
    assert fixes(import_trace(tmp_path / "city.movements", until=12), "0")[-1] == (12, 30, 40)
    assert fixes(import_trace(tmp_path / "city.movements", until=5), "0") == [(0, 0, 0), (5, 15, 20)]
    assert fixes(import_trace(tmp_path / "city.movements", until=60), "1")[-1] == (60, 5, 1)


def test_bonnmotion_with_heights(tmp_path: Path) -> None:
    lines = "0 1 2 9 10 3 4 8\n0 5 6 7\n"
    marked = import_trace(wrote(tmp_path, "#3D\n" + lines, "a.movements"))
    said = import_trace(wrote(tmp_path, lines, "b.movements"), with_z=True)
    for trace in (marked, said):
        assert fixes(trace, "0") == [(0, 1, 2), (10, 3, 4)]
        assert fixes(trace, "1") == [(0, 5, 6), (10, 5, 6)]
        assert "heights (z) are not kept" in trace.facts["notes"]


def test_the_one_by_hand(tmp_path: Path) -> None:
    trace = import_trace(wrote(tmp_path, ONE, "moves.txt"))
    assert fixes(trace, "7") == [(0, 500, 10), (100, 0, 0)]
    assert fixes(trace, "p1") == [(0, 0, -10), (50.5, 100, 10)]
    assert replayed(trace, tmp_path, 25.0)["7"][:3] == [(500, 10), (375, 7.5), (250, 5)]
    assert trace.facts["notes"] == []


def test_gpx_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("pyproj")
    trace = import_trace(wrote(tmp_path, GPX, "walk.gpx"))
    assert trace.names == ("Ann & Bo", "track 2")
    begin = pd.Timestamp("2020-05-01T08:00:00Z").timestamp()
    assert [time - begin for time, *_ in fixes(trace, "Ann & Bo")] == [0, 10.5, 60]
    assert trace.epoch == "1970-01-01T00:00:00Z"
    assert trace.facts["dropped"] == {"points without a time": 1}
    assert trace.facts["rows"] == 5
    assert np.diff(np.array(fixes(trace, "Ann & Bo"))[:, 2]) == pytest.approx([111.1, 222.2], abs=0.2)
    assert import_trace(tmp_path / "walk.gpx", devices="file", order="any").names == ("walk",)


def test_gpx_of_version_1_0_with_prefixes_and_times_without_zone(tmp_path: Path) -> None:
    pytest.importorskip("pyproj")
    text = (
        '<g:gpx version="1.0" xmlns:g="http://www.topografix.com/GPX/1/0"><g:trk><g:trkseg>'
        '<g:trkpt lat="1" lon="2"><g:time>2020-05-01T08:00:00</g:time></g:trkpt></g:trkseg></g:trk></g:gpx>'
    )
    path = wrote(tmp_path, text, "walk.gpx")
    assert import_trace(path, timezone="UTC").names == ("track 1",)
    with pytest.raises(InputError, match=r"walk\.gpx, line 1, column 'time': no time zone"):
        import_trace(path)


def test_several_gpx_files(fr: Commands) -> None:
    pytest.importorskip("pyproj")
    wrote(fr.folder, GPX.split("  <trk><trkseg>")[0] + "</gpx>", "ann.gpx")
    wrote(fr.folder, GPX.replace("44.5", "44.6"), "bo.GPX.gz")
    said = fr("trace", "import", "ann.gpx", "bo.GPX.gz", "t.parquet", "--order", "any")
    assert said.code == 0, said
    trace = read_trace("t.parquet")
    assert trace.names == ("ann", "bo")
    assert trace.facts["source"] == "ann.gpx, bo.GPX.gz"
    hashes = [hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in ("ann.gpx", "bo.GPX.gz")]
    assert trace.facts["sha256"] == hashlib.sha256("\n".join(hashes).encode()).hexdigest()
    tracks = import_trace(["ann.gpx", "bo.GPX.gz"], devices="track")
    assert tracks.names == ("ann: Ann & Bo", "bo: Ann & Bo", "bo: track 2")
    fr.write("s.csv", "id,t,x,y\n1,2,3,4\n")
    assert "s.csv: CSV, but ann.gpx is GPX" in fr("trace", "import", "ann.gpx", "s.csv", "u.parquet").err
    (fr.folder / "ann").mkdir()
    wrote(fr.folder, GPX, "ann/ann.gpx")
    assert "two files of the name 'ann'" in fr("trace", "import", "ann.gpx", "ann/ann.gpx", "u.parquet").err
    # Which of them is damaged is told.
    wrote(fr.folder, GPX.replace("08:01:00Z", "noon"), "bo.gpx")
    wrong = fr("trace", "import", "ann.gpx", "bo.gpx", "u.parquet", "--order", "any")
    assert (wrong.code, "bo.gpx, line 11" in wrong.err) == (2, True), wrong


# --- packed, recognised, told ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SAMPLES)
def test_packed_files_are_the_same_and_every_format_is_recognised(kind: str, tmp_path: Path) -> None:
    needed(kind)
    plain = wrote(tmp_path, SAMPLES[kind], f"a.{ENDINGS[kind]}")
    packed = wrote(tmp_path, SAMPLES[kind], f"b.{ENDINGS[kind]}.gz")
    assert recognise(plain) == recognise(packed) == kind
    one, other = import_trace(plain), import_trace(packed)
    assert one.facts["source_format"] == kind
    assert (one.names, one.time.tolist(), one.point.tolist()) == (
        other.names,
        other.time.tolist(),
        other.point.tolist(),
    )
    # Said, it is the same; with a mark of UTF-8, or Windows' line ends, too.
    text = "\ufeff" + SAMPLES[kind].replace("\n", "\r\n")
    again = import_trace(wrote(tmp_path, text, f"c.{ENDINGS[kind]}"), format=kind)
    assert again.point.tolist() == one.point.tolist()


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("how", ["plain", "packed"])
def test_what_is_cut_off_is_refused(kind: str, how: str, fr: Commands) -> None:
    if kind in ("sumo", "gpx") and how == "plain":
        wrote(fr.folder, SAMPLES[kind][:-12], "s.xml")
    elif how == "plain":
        wrote(fr.folder, SAMPLES[kind].rstrip().rsplit(" ", 1)[0], "s.movements")
    else:
        whole = gzip.compress(SAMPLES[kind].encode())
        (fr.folder / "s.movements").write_bytes(whole[:-20])
    name = next(path.name for path in fr.folder.iterdir() if path.name.startswith("s."))
    before = contents(fr.folder)
    answer = fr("trace", "import", name, "t.parquet", "--format", kind)
    assert answer.code == 2, answer
    assert f"{name}, " in answer.err
    assert "line" in answer.err
    assert answer.err.count("\n") == 1
    assert contents(fr.folder) == before


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.usefixtures("rough_pictures")
def test_the_command_line_says_what_it_took_and_info_too(kind: str, fr: Commands) -> None:
    needed(kind)
    name = f"s.{ENDINGS[kind]}"
    fr.write(name, SAMPLES[kind])
    said = fr("trace", "import", name, "t.parquet")
    assert said.code == 0, said
    assert f"devices from {FORMATS[kind][0]}\n" in said.out
    trace = read_trace("t.parquet")
    assert all(note in said.out for note in trace.facts["notes"])
    told = fr("trace", "info", "t.parquet", "--out", "figures")
    assert told.code == 0, told
    assert f"{name} ({FORMATS[kind][0]}, SHA-256" in told.out
    assert all(note in told.out for note in trace.facts["notes"])


NO_FORMAT = {
    "numbers": ("a.txt", "1 2 3 4\n5 6 7 8\n", ["'1 2 3 4'", "known are CSV"]),
    "waypoints_of_another_name": ("a.txt", BONN, ["--format bonnmotion", "known are"]),
    "prose": ("a.txt", "Dear reader\nhow are you\n", ["'Dear reader'", "known are CSV"]),
    "xml": ("a.xml", "<!-- x --><net><edge/></net>", ["root <net>", "<fcd-export>"]),
    "no_root": ("a.xml", "<?xml version='1.0'?>", ["without a root"]),
    "binary": ("a.bin", "ab\0cd", ["no text"]),
    "empty": ("a.txt", "", ["empty"]),
    "parquet_of_another_name": ("a.dat", "PAR1....", ["must end in .parquet"]),
    "one_out_of_its_limits": ("a.txt", "0 9 0 9 0 9\n1 a 99 1\n", ["known are"]),
}


@pytest.mark.parametrize("case", NO_FORMAT)
def test_what_fits_no_format_is_refused(case: str, fr: Commands) -> None:
    name, text, wanted = NO_FORMAT[case]
    fr.write(name, text)
    answer = fr("trace", "import", name, "t.parquet")
    assert answer.code == 2, answer
    assert answer.err.count("\n") == 1
    assert all(words in answer.err for words in [name, *wanted]), answer.err


def test_tables_are_still_tables(fr: Commands) -> None:
    fr.write("s.txt", "id;t;x;y\n1;2;3;4\n")
    assert fr("trace", "import", "s.txt", "t.parquet", "--separator", ";").code == 0
    fr.write("s.csv", "id,t,x,y\n1,2,3,4\n")
    assert "1 fix of 1 device from 1 row\n" in fr("trace", "import", "s.csv", "u.parquet").out
    assert "source_format" not in read_trace("u.parquet").facts
    pd.read_csv("s.csv").to_parquet("s.parquet")
    assert recognise(Path("s.parquet")) == "parquet"
    assert fr("trace", "import", "s.parquet", "v.parquet", "--format", "parquet").code == 0


# --- damage ---------------------------------------------------------------------------------------------------------


def sumo(*lines: str) -> str:
    """A file whose first line after the step's is line 3."""
    return "\n".join(
        [
            '<fcd-export><timestep time="0">',
            '<vehicle id="a" x="999" y="0"/>',
            *lines,
            "</timestep></fcd-export>",
        ]
    )


def gpx(point: str) -> str:
    return f"<gpx><trk><trkseg>\n{point}\n</trkseg></trk></gpx>"


LAUGHS = """\
<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">
<!ENTITY lol3 "&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;">]>
"""
POINT = '<trkpt lat="1" lon="2">'
OUTSIDE = '<?xml version="1.0"?><!DOCTYPE gpx SYSTEM "file:///etc/passwd">\n'
SET = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n"
GO = SET + '$ns_ at {} "$node_({}) setdest {}"\n'
DAMAGED: dict[str, tuple[str, str, list[str], list[str]]] = {
    # name: format, text, options, words of the message
    "sumo_no_id": ("sumo", sumo('<vehicle x="1" y="2"/>'), [], ["line 3", "vehicle without 'id'"]),
    "sumo_no_x": ("sumo", sumo('<person id="q" y="2"/>'), [], ["line 3", "'x'", "--fcd-output.attributes"]),
    "sumo_text": ("sumo", sumo('<vehicle id="b" x="1" y="two"/>'), [], ["line 3", "'b'", "y is 'two'", "number"]),
    "sumo_nan": ("sumo", sumo('<vehicle id="b" x="nan" y="2"/>'), [], ["line 3", "x is 'nan'"]),
    "sumo_inf": ("sumo", sumo('<vehicle id="b" x="1" y="-inf"/>'), [], ["line 3", "y is '-inf'"]),
    "sumo_time": ("sumo", sumo("</timestep>", "<timestep>"), [], ["line 4", "without 'time'"]),
    "sumo_negative": ("sumo", sumo("</timestep>", '<timestep time="-1">'), [], ["line 4", "time is '-1'", "0 or more"]),
    "sumo_late": (
        "sumo",
        sumo("</timestep>", '<vehicle id="b" x="1" y="2"/>', '<timestep time="1">'),
        [],
        ["line 4", "outside of any timestep"],
    ),
    "sumo_backwards": (
        "sumo",
        '<fcd-export>\n<timestep time="5"><vehicle id="a" x="999" y="0"/></timestep>\n'
        '<timestep time="4"><vehicle id="a" x="999" y="0"/></timestep></fcd-export>',
        [],
        ["line 3", "device a", "backwards"],
    ),
    "sumo_nobody": ("sumo", '<fcd-export><timestep time="0"/></fcd-export>', [], ["no vehicle and no person"]),
    "sumo_root": ("sumo", "<routes>\n</routes>", [], ["line 1", "<routes>", "<fcd-export>"]),
    "sumo_ill_formed": ("sumo", sumo("<vehicle id=b/>"), [], ["line 3", "not XML"]),
    "sumo_laughs": ("sumo", LAUGHS + sumo('<vehicle id="&lol3;" x="1" y="2"/>'), [], ["line 2", "DOCTYPE"]),
    "sumo_ambiguous": ("sumo", sumo().replace("999", "9"), [], ["--places metres"]),
    "sumo_empty_id": ("sumo", sumo('<person id="" x="1" y="2"/>'), [], ["line 3", "person with an empty id"]),
    "sumo_zone": ("sumo", SUMO, ["--timezone", "UTC"], ["--timezone UTC", "seconds of a simulation"]),
    "sumo_option": ("sumo", SUMO, ["--until", "5"], ["--until", "SUMO FCD"]),
    "sumo_places": ("sumo", SUMO, ["--places", "feet"], ["'feet'", "degrees, metres"]),
    "ns2_unknown_node": ("ns2", GO.format(1, 3, "1 2 3"), [], ["line 3", "node 3", "no X_ and no Y_"]),
    "ns2_half_placed": ("ns2", SET + "$node_(4) set X_ 1\n", [], ["line 3", "node 4 has no Y_"]),
    "ns2_text": ("ns2", GO.format(1, 0, "1 two 3"), [], ["line 3", "node 0", "y is 'two'"]),
    "ns2_nan": ("ns2", SET.replace("Y_ 0", "Y_ nan"), [], ["line 2", "Y_ is 'nan'"]),
    "ns2_values": ("ns2", GO.format(1, 0, "1 2"), [], ["line 3", "setdest with 2 values"]),
    "ns2_negative_time": ("ns2", GO.format(-1, 0, "1 2 3"), [], ["line 3", "the time is '-1'", "0 or more"]),
    "ns2_negative_speed": ("ns2", GO.format(1, 0, "1 2 -3"), [], ["line 3", "the speed is '-3'"]),
    "ns2_slow": ("ns2", GO.format(1, 0, "1e300 2 1e-300"), [], ["line 3", "too slow"]),
    "ns2_variable": ("ns2", "$node_($i) set X_ 1\n", [], ["line 1", "'$i'", "loops"]),
    "ns2_set_twice": ("ns2", SET + "$node_(0) set X_ 5\n", [], ["line 3", "line 1", "cannot jump"]),
    "ns2_jump": ("ns2", SET + '$ns_ at 3 "$node_(0) set Y_ 5"\n', [], ["line 3", "line 2", "cannot jump"]),
    "ns2_two_times": ("ns2", '$ns_ at 3 "$node_(0) set X_ 5"\n$node_(0) set Y_ 5\n', [], ["line 2", "another time"]),
    "ns2_too_early": (
        "ns2",
        "".join(f'$ns_ at 3 "$node_(0) set {axis}_ 5"\n' for axis in "XY") + '$ns_ at 1 "$node_(0) setdest 1 2 3"',
        [],
        ["line 3", "before it is placed", "3 s"],
    ),
    "ns2_not_understood": ("ns2", SET + "$node_(0) setdest 1 2 3\n", [], ["line 3", "not understood"]),
    "ns2_cut_off": ("ns2", SET + '$ns_ at 5 "$node_(0) setd', [], ["line 3", "cut off"]),
    "ns2_nothing": ("ns2", "# only\n", [], ["no node is placed"]),
    "ns2_until": ("ns2", NS2, ["--until", "0"], ["--until 0"]),
    "ns2_all_later": (
        "ns2",
        "".join(f'$ns_ at 30 "$node_(0) set {axis}_ 5"\n' for axis in "XY"),
        ["--until", "5"],
        ["no node before 5 s", "begins at 30 s"],
    ),
    "bonn_count": ("bonnmotion", BONN + "1 2 3 4 5\n", [], ["line 3", "node 2", "5 values", "multiple of 3"]),
    "bonn_z": ("bonnmotion", "0 1 2 3\n", [], ["line 1", "4 values", "--with-z"]),
    "bonn_count_z": ("bonnmotion", "#3D\n0 1 2 3 4 5\n", [], ["line 2", "6 values", "multiple of 4 (t x y z"]),
    "bonn_text": ("bonnmotion", "0 1 2 x 4 5\n", [], ["line 1", "value 4 is 'x'"]),
    "bonn_inf": ("bonnmotion", "0 1 inf\n", [], ["line 1", "value 3 is 'inf'"]),
    "bonn_negative": ("bonnmotion", "-1 1 2\n", [], ["line 1", "time -1"]),
    "bonn_backwards": ("bonnmotion", BONN + "5 1 1 4 2 2\n", [], ["line 3", "time 4 after 5", "rising"]),
    "bonn_jump": ("bonnmotion", "\n0 1 1 5 2 2 5 3 2\n", [], ["line 2", "two places at time 5"]),
    "bonn_nothing": ("bonnmotion", "#3D\n", [], ["no node"]),
    "one_outside": ("one", ONE + "60 7 501 0\n", [], ["line 7", "'7'", "x is 501", "0 to 500"]),
    "one_late": ("one", ONE + "101 7 1 0\n", [], ["line 7", "time is 101", "0 to 100"]),
    "one_values": ("one", ONE + "100 7 1\n", [], ["line 7", "3 values"]),
    "one_text": ("one", ONE + "100 7 1 b\n", [], ["line 7", "y is 'b'"]),
    "one_nan": ("one", ONE + "100 7 nan 1\n", [], ["line 7", "x is 'nan'"]),
    "one_header": ("one", "0 1 2\n", [], ["line 1", "3 values", "minT maxT"]),
    "one_limits": ("one", "0 100 9 0 0 1\n", [], ["line 1", "minX 9 is above maxX 0"]),
    "one_negative": ("one", "-5 100 0 9 0 1\n", [], ["line 1", "minT is -5"]),
    "one_empty": ("one", "0 1 0 1 0 1\n", [], ["no fix"]),
    "one_backwards": ("one", ONE + "50 p1 1 1\n", [], ["line 7", "device p1", "backwards"]),
    "gpx_no_lat": ("gpx", gpx('<trkpt lon="1"/>'), [], ["line 2", "lacks 'lat'"]),
    "gpx_text": ("gpx", gpx('<trkpt lat="1" lon="E"/>'), [], ["line 2", "lon is 'E'"]),
    "gpx_time": ("gpx", gpx(POINT + "<time>\n1588320000</time></trkpt>"), [], ["line 3", "'1588320000'", "ISO"]),
    "gpx_day": ("gpx", gpx(POINT + "<time>2020-02-31T00:00:00Z</time></trkpt>"), [], ["line 2", "no date"]),
    "gpx_timeless": ("gpx", gpx('<trkpt lat="1" lon="2"/>'), [], ["no track point with a time (1 without"]),
    "gpx_waypoints": ("gpx", '<gpx><wpt lat="1" lon="2"/></gpx>', [], ["no track point", "1 <wpt>"]),
    "gpx_outside": ("gpx", '<gpx><trkpt lat="1" lon="2"/></gpx>', [], ["line 1", "outside of any <trk>"]),
    "gpx_root": ("gpx", "<kml/>", [], ["line 1", "<kml>"]),
    "gpx_laughs": ("gpx", LAUGHS + gpx("&lol3;"), [], ["line 2", "DOCTYPE"]),
    "gpx_external": ("gpx", OUTSIDE + gpx(""), [], ["line 1", "DOCTYPE"]),
    "gpx_devices": ("gpx", GPX, ["--devices", "person"], ["'person'", "file, track"]),
    "table_option": ("auto", "id,t,x,y\n1,2,3,4\n", ["--until", "5"], ["--until", "CSV"]),
    "column_of_xml": ("sumo", SUMO, ["--column", "device=id"], ["--column", "SUMO FCD"]),
    "separator_of_xml": ("gpx", GPX, ["--separator", ";"], ["--separator", "GPX"]),
    "with_z_of_ns2": ("ns2", NS2, ["--with-z"], ["--with-z", "ns-2"]),
    "not_parquet": ("parquet", ONE, [], ["Parquet", ".parquet"]),
    "no_format": ("kml", ONE, [], ["unknown format of a trace 'kml'", "gpx"]),
}  # fmt: skip


@pytest.fixture
def fr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_one_line_with_file_and_line(name: str, fr: Commands) -> None:
    kind, text, options, wanted = DAMAGED[name]
    fr.write("s.source", text)
    before = contents(fr.folder)
    answer = fr("trace", "import", "s.source", "t.parquet", "--format", kind, *options)
    assert answer.code == 2, answer
    assert answer.err.count("\n") == 1, answer.err
    missing = [words for words in wanted if words not in answer.err]
    assert not missing, answer.err
    if any(words.startswith("line") for words in wanted):
        assert "s.source, line" in answer.err
    assert contents(fr.folder) == before


def test_a_target_must_be_named(fr: Commands) -> None:
    fr.write("s.csv", "id,t,x,y\n1,2,3,4\n")
    for arguments in ([], ["s.csv"]):
        answer = fr("trace", "import", *arguments)
        assert answer.code == 2, answer
        assert "Traceback" not in answer.err


def test_latin_text_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "s.tcl"
    path.write_bytes(b"$node_(0) set X_ 0\n# caf\xe9\n")
    with pytest.raises(InputError, match=r"s\.tcl, line 2: not UTF-8 text \(byte 24 is 0xe9\)"):
        import_trace(path, format="ns2")


def test_sumo_is_read_without_being_held(tmp_path: Path) -> None:
    """Less than half of the file's length; a tree of its elements would take several times as much as the file."""
    steps, vehicles = 300, 100
    extra = 'angle="345.09" type="passenger" speed="0.00" pos="5.10" lane="gneE0_0" slope="0.00"'
    with gzip.open(tmp_path / "fcd.xml.gz", "wt", compresslevel=1) as file:
        file.write("<fcd-export>\n")
        for step in range(steps):
            file.write(f'<timestep time="{step / 10:.2f}">\n')
            file.writelines(
                f'<vehicle id="veh_{k}" x="{1000 + step}.00" y="{k}.00" {extra}/>\n' for k in range(vehicles)
            )
            file.write("</timestep>\n")
        file.write("</fcd-export>\n")
    tracemalloc.start()
    source = read_sumo(tmp_path / "fcd.xml.gz", Wishes())
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(source.columns["x"]) == steps * vehicles
    assert held < 80 * steps * vehicles
    assert most < 80 * steps * vehicles + 2_000_000  # a chunk of the file, packed and unpacked, among it


# --- plans of random waypoints --------------------------------------------------------------------------------------

PLACES = st.tuples(st.integers(-50, 50), st.integers(-50, 50))
HALVES = st.integers(0, 60).map(lambda k: k / 2)
ORDERS = st.lists(st.tuples(HALVES, PLACES, st.sampled_from([0, 0.5, 1, 3, 10, 1e3])), max_size=6)


def ns2_reference(
    start: tuple[int, int], orders: list[tuple[float, tuple[int, int], float]], end: float, step: float
) -> list[tuple[float, float]]:
    """Where a node is at 0, step, 2 step, ...: its state brought up to date at every event and every sample.

    As ns-2 does it: direction and speed are kept, moved along, and held at the goal once past it.
    """
    events = sorted(
        [(time, 0, k) for k, (time, _, _) in enumerate(orders)]
        + [(k * step, 1, k) for k in range(int(end / step) + 1)]
    )
    x, y = map(float, start)
    goal, way, speed, last = (x, y), (0.0, 0.0), 0.0, 0.0
    seen = []
    for time, sample, k in events:
        x, y = x + way[0] * speed * (time - last), y + way[1] * speed * (time - last)
        if (goal[0] - x) * way[0] + (goal[1] - y) * way[1] < 0:  # past it
            x, y = goal
        last = time
        if sample:
            seen.append((x, y))
            continue
        _, goal, speed = orders[k]  # type: ignore[assignment]
        far = math.hypot(goal[0] - x, goal[1] - y)
        way = ((goal[0] - x) / far, (goal[1] - y) / far) if far else (0.0, 0.0)
    return seen


def along(trace: Trace, name: str, times: np.ndarray) -> np.ndarray:
    own = np.array(fixes(trace, name))
    return np.stack([np.interp(times, own[:, 0], own[:, k]) for k in (1, 2)], axis=1)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


@given(st.lists(st.tuples(PLACES, ORDERS), min_size=1, max_size=3), st.randoms())
def test_ns2_moves_as_the_reference_does(
    scratch: Path,
    nodes: list[tuple[tuple[int, int], list[tuple[float, tuple[int, int], float]]]],
    random: object,
) -> None:
    placed, sent = [], []
    for k, (start, orders) in enumerate(nodes):
        placed += [f"$node_({k}) set X_ {start[0]}", f"$node_({k}) set Y_ {start[1]}"]
        sent += [f'$ns_ at {t} "$node_({k}) setdest {x} {y} {v:g}"' for t, (x, y), v in orders]
    # Orders of one node and one time keep their order; else lines stand anywhere.
    random.shuffle(placed)  # type: ignore[attr-defined]
    sent.sort(key=lambda line: float(line.split()[2]))
    trace = import_trace(wrote(scratch, "\n".join([*sent, *placed]), "plan.tcl"), until=40.0)
    times = np.arange(0, 40.25, 0.25)
    for k, (start, orders) in enumerate(nodes):
        by_time = sorted(orders, key=lambda order: order[0])
        np.testing.assert_allclose(
            along(trace, str(k), times), ns2_reference(start, by_time, 40, 0.25), atol=1e-6
        )
        own = np.array(fixes(trace, str(k)))
        assert own[0].tolist() == [0, *start]
        assert own[-1, 0] == 40


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 9), PLACES), min_size=1, max_size=6), min_size=1, max_size=3)
)
def test_one_plan_is_the_same_in_bonnmotion_and_ns2(
    scratch: Path, plans: list[list[tuple[int, tuple[int, int]]]]
) -> None:
    lines, commands = [], []
    ways = []
    for node, legs in enumerate(plans):
        times = np.cumsum([0, *(leg[0] for leg in legs[1:])])
        ways.append((times, np.array([leg[1] for leg in legs], dtype=float)))
        lines.append(" ".join(f"{t} {x} {y}" for t, (_, (x, y)) in zip(times, legs, strict=True)))
        commands += [f"$node_({node}) set X_ {legs[0][1][0]}", f"$node_({node}) set Y_ {legs[0][1][1]}"]
        for k in range(len(legs) - 1):
            (x, y), length = legs[k + 1][1], math.dist(legs[k][1], legs[k + 1][1])
            commands.append(
                f'$ns_ at {times[k]} "$node_({node}) setdest {x} {y} {length / legs[k + 1][0]!r}"'
            )
    end = float(max(times[-1] for times, _ in ways)) + 3
    bonn = import_trace(wrote(scratch, "\n".join(lines), "plan.movements"), until=end)
    ns2 = import_trace(wrote(scratch, "\n".join(commands), "plan.tcl"), until=end)
    assert bonn.names == ns2.names
    moments = np.arange(0, end + 0.25, 0.25)
    for node, (times, places) in enumerate(ways):
        wanted = np.stack([np.interp(moments, times, places[:, k]) for k in (0, 1)], axis=1)
        np.testing.assert_allclose(along(bonn, str(node), moments), wanted, atol=1e-9)
        np.testing.assert_allclose(along(ns2, str(node), moments), wanted, atol=1e-6)


# --- a real run of SUMO ---------------------------------------------------------------------------------------------


@pytest.mark.data
def test_a_real_run_is_the_same_as_xml_and_as_csv() -> None:
    home = Path(os.environ["FEDROAM_DATA"]) / "sumo_bologna"
    if not (home / "fcd_1800_1860.xml.gz").is_file():
        pytest.skip("no sumo_bologna in FEDROAM_DATA")
    trace = import_trace(home / "fcd_1800_1860.xml.gz")
    assert (trace.facts["source_format"], trace.facts["dropped"]) == ("sumo", {})
    table = pd.read_csv(home / "fcd.csv.gz")
    table = table[(table["t"] >= 1800) & (table["t"] <= 1860)]
    ids = pd.read_csv(home / "vehicles.csv.gz").set_index("veh")["sumo_id"]
    table["device"] = table["veh"].map(ids)
    table = table.sort_values(["device", "t"], kind="stable")
    assert [trace.names[k] for k in trace.device] == table["device"].tolist()
    np.testing.assert_array_equal(trace.time, table["t"])
    # The table is rounded to decimetres, the XML to centimetres.
    np.testing.assert_allclose(trace.point, table[["x", "y"]], atol=0.0501)
