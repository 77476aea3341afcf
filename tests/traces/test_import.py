"""From source files to traces: what is read, what is dropped, and what each kind of damage says."""

from __future__ import annotations

import gzip
import hashlib
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.analysis.trace_facts import measure_trace
from fedroam.errors import InputError
from fedroam.traces import Trace, import_trace, read_trace, to_metres, write_trace
from fedroam.traces.cleaning import too_fast
from fedroam.traces.times import moment
from support.commands import Commands, contents

METRIC = "veh,t,x,y,speed\n7,0,0,0,1\n7,5,3,4,1\n10,0,8,8,0\n7,10,6,8,1\n"
CHECKINS = """\
user,utc,lat,lon,venue
b,2010-09-17T12:00:00Z,40.75,-73.98,5
a,2010-09-17T12:30:00Z,40.76,-73.98,9
b,2010-09-17T13:00:00Z,40.75,-73.97,5
"""


def wrote(folder: Path, text: str, name: str = "source.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["source.csv", "source.csv.gz"])
def test_metric_fixes(name: str, tmp_path: Path) -> None:
    source = wrote(tmp_path, METRIC, name)
    trace = import_trace(source)
    assert trace.names == ("7", "10")  # as numbers, not as texts
    assert trace.first.tolist() == [0, 3, 4]
    assert trace.time.tolist() == [0, 5, 10, 0]
    assert trace.point.tolist() == [[0, 0], [3, 4], [6, 8], [8, 8]]
    assert trace.bounds == (0, 0, 8, 8)
    assert trace.venue is None
    assert trace.facts == {
        "source": name,
        "sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        "epoch": None,
        "projection": None,
        "origin": None,
        "rows": 4,
        "dropped": {},
    }


def test_check_ins_are_projected(tmp_path: Path) -> None:
    trace = import_trace(wrote(tmp_path, CHECKINS))
    assert trace.names == ("a", "b")
    assert trace.epoch == "1970-01-01T00:00:00Z"
    assert trace.time.tolist() == [1284726600, 1284724800, 1284728400]
    assert [trace.venues[k] for k in trace.venue] == ["9", "5", "5"]  # type: ignore[union-attr]
    assert trace.facts["origin"] == (40.75, -73.98)
    assert np.abs(trace.point[1]).max() < 1e-6
    # On the WGS84 ellipsoid: radii of curvature in the meridian and in the prime vertical, times the angle.
    lat, square = math.radians(40.755), 0.00669437999014
    w = 1 - square * math.sin(lat) ** 2
    north = math.radians(0.01) * 6378137 * (1 - square) / w**1.5
    assert trace.point[0] == pytest.approx([0, north], abs=0.01)
    w = 1 - square * math.sin(math.radians(40.75)) ** 2
    east = math.radians(0.01) * 6378137 / math.sqrt(w) * math.cos(math.radians(40.75))
    assert trace.point[2] == pytest.approx([east, 0], abs=0.1)
    # venues of another file come to the same places
    again = to_metres(trace.facts["projection"], np.array([40.76]), np.array([-73.98]))
    np.testing.assert_allclose(again[0], trace.point[0], atol=1e-9)


def test_distances_stay_true_across_a_city() -> None:
    pyproj = pytest.importorskip("pyproj")
    projection = "+proj=aeqd +lat_0=40.75 +lon_0=-73.98 +datum=WGS84 +units=m +no_defs"
    lat, lon = np.array([40.55, 40.95, 40.6]), np.array([-74.2, -74.2, -73.7])
    point = to_metres(projection, lat, lon)
    for i, j in ((0, 1), (1, 2), (0, 2)):
        true = pyproj.Geod(ellps="WGS84").inv(lon[i], lat[i], lon[j], lat[j])[2]
        assert np.hypot(*(point[i] - point[j])) == pytest.approx(true, rel=1e-5)


def test_places_on_both_sides_of_longitude_180_are_neighbours(tmp_path: Path) -> None:
    """Fiji: a tenth of a degree apart at 17 degrees south is 0.1 x 111.32 km x cos 17 = 10.65 km. Far in the west, an
    outlier in Samoa and one in Auckland do not move the median out of the others."""
    rows = [("a", 60 * k, -17.0, 179.95 if k % 2 else -179.95) for k in range(10)]
    fixes = "id,time,lat,lon\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    trace = import_trace(wrote(tmp_path, fixes))
    latitude, longitude = trace.facts["origin"]
    assert (latitude, abs(longitude)) == (-17.0, 180.0)
    apart = np.hypot(*np.diff(trace.point, axis=0).T)
    np.testing.assert_allclose(apart, 10_650, atol=15)
    more = fixes + "b,0,-17.0,179.96\nb,9,-13.8,-171.8\nb,99,-36.8,174.8\n"
    assert import_trace(wrote(tmp_path, more)).facts["origin"] == (-17.0, 179.96)
    one_side = "id,time,lat,lon\na,0,-17.0,178.0\na,1,-17.0,-1.0\na,2,-17.0,178.5\n"
    assert import_trace(wrote(tmp_path, one_side)).facts["origin"] == (-17.0, 178.0)


def test_a_box_across_longitude_180(tmp_path: Path, fr: Commands) -> None:
    fixes = "id,time,lat,lon\na,0,-17,179.9\na,1,-17,-179.9\na,2,-17,0.5\na,3,-17,178\na,4,-17,-178\n"
    trace = import_trace(wrote(tmp_path, fixes), box=(-18.0, -16.0, 179.0, -179.0))
    assert trace.time.tolist() == [0, 1]
    assert trace.facts["dropped"] == {"outside the box": 3}
    said = fr("trace", "import", "source.csv", "t.parquet", "--box=-18,-16,179,-179")
    assert "dropped: 3 outside the box" in said.out


def test_projection_of_the_users_choice(tmp_path: Path) -> None:
    trace = import_trace(wrote(tmp_path, CHECKINS), projection="EPSG:32618")
    assert trace.point[1] == pytest.approx([586112, 4511584], abs=500)
    for wrong, words in (("EPSG:4326", "degree"), ("nonsense", "unknown to PROJ")):
        with pytest.raises(InputError, match=words):
            import_trace(wrote(tmp_path, CHECKINS), projection=wrong)


FIJI = "id,time,lat,lon\na,0,1,2\na,0,95,0\na,1,-18.1,178.4\na,2,-18.1,178.5\n"


@pytest.mark.parametrize(
    ("projection", "said"),
    [
        (
            "EPSG:32618",
            "s.csv, line 4: latitude -18.1, longitude 178.4 (and 1 more) is outside the area of use of projection "
            "'EPSG:32618' (WGS 84 / UTM zone 18N); allowed are 2 degrees around latitudes 0 to 84, longitudes -78 to "
            "-72, another projection, or a box without such places",
        ),
        ("EPSG:27700", "'EPSG:27700' (OSGB36 / British National Grid)"),
    ],
)
def test_places_far_from_where_a_projection_holds_are_refused(
    projection: str, said: str, fr: Commands
) -> None:
    fr.write("s.csv", FIJI)
    before = contents(fr.folder)
    answer = fr("trace", "import", "s.csv", "t.parquet", "--projection", projection, "--box=-19,-16,177,179")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert said in answer.err
    assert contents(fr.folder) == before


@pytest.mark.parametrize(
    "projection", ["EPSG:3460", "EPSG:32760", "EPSG:3832", "EPSG:3857", "+proj=utm +zone=18"]
)
def test_places_where_a_projection_holds_or_nobody_knows(projection: str) -> None:
    """The grid of Fiji and that of the Pacific reach across longitude 180; a definition says nothing of its area."""
    lat, lon = np.array([-18.1, -18.1]), np.array([178.4, -179.9])
    assert np.isfinite(to_metres(projection, lat, lon)).all()


def test_a_projection_that_distorts_distances_is_refused() -> None:
    """Web Mercator's lengths are 1 / cos(latitude) of the true ones on a sphere: 1.31 times at 40 degrees."""
    lat, lon = np.array([39.9, 40.0]), np.array([116.3, 116.4])
    said = r"^latitude 40, longitude 116.4: projection 'EPSG:3857' \(.*\) makes distances 1.31 times as long here"
    with pytest.raises(InputError, match=said):
        to_metres("EPSG:3857", lat, lon)
    near_the_equator = to_metres("EPSG:3857", np.array([3.0]), np.array([36.8]))  # true to 0.6 %
    assert len(near_the_equator) == 1
    assert len(to_metres("EPSG:3035", np.array([38.7, 60.2]), np.array([-9.1, 24.9]))) == 2  # Europe's grid


def test_places_a_little_beside_a_zone_are_taken() -> None:
    """UTM zone 18N ends at 72 degrees west and at the equator."""
    assert len(to_metres("EPSG:32618", np.array([40.0, -2.0]), np.array([-70.0, -80.0]))) == 2
    for lat, lon in ((40.0, -69.9), (-2.1, -75.0), (40.0, -80.1)):
        with pytest.raises(
            InputError, match=f"^latitude {lat:g}, longitude {lon:g} is outside the area of use"
        ):
            to_metres("EPSG:32618", np.array([lat]), np.array([lon]))


def test_parquet_with_scaled_degrees_and_stamps(tmp_path: Path) -> None:
    stamps = pd.to_datetime(["2008-06-03T07:00:00Z", "2008-06-03T07:05:00.5Z"], format="ISO8601")
    frame = pd.DataFrame(
        {"cab": [3, 3], "t": stamps, "lat_e5": [3_775_000, 3_776_000], "lon_e5": [-12_240_000] * 2}
    )
    frame.to_parquet(tmp_path / "cabs.parquet")
    columns = {"lat": "lat_e5", "lon": "lon_e5"}
    trace = import_trace(tmp_path / "cabs.parquet", columns=columns, unit=1e-5)
    assert trace.time.tolist() == [1212476400, 1212476700.5]
    assert np.hypot(*(trace.point[1] - trace.point[0])) == pytest.approx(1110, abs=1)


def test_faulty_fixes_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = ["id,time,lat,lon"]
    rows += [f"a,{1_000_000 + 60 * k},{40 + k / 10_000},-74" for k in range(10)]
    rows += [
        "a,1000540,40.0009,-74",  # repeats the last
        "a,1000540,40.001,-74",  # elsewhere at the same time
        "a,1000600,95,-74",  # off the globe
        "a,1000660,40,-181",
        "a,1000720,0,0",
        "a,1000780,41,-74",  # outside the box
        "a,1000840,40.4,-74",  # 44 km in five minutes: a spike
        "a,1000900,40.0015,-74",
    ]
    trace = import_trace(
        wrote(tmp_path, "\n".join(rows) + "\n"), box=(39.5, 40.5, -74.5, -73.5), max_speed=50.0
    )
    assert trace.facts["dropped"] == {
        "off the globe": 2,
        "at latitude 0, longitude 0": 1,
        "outside the box": 1,
        "repeated": 1,
        "another place at the same time": 1,
        "faster than 50 m/s": 1,
    }
    assert trace.fixes == 11
    assert trace.facts["rows"] == 18
    assert trace.time[-1] == 1000900


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5), st.integers(0, 30)), min_size=1, max_size=14),
    st.sampled_from([0.5, 2.0, 9.0]),
)
def test_what_stays_is_never_too_fast_and_what_is_slow_stays(
    legs: list[tuple[int, int, int]], limit: float
) -> None:
    device = np.sort(np.array([leg[0] for leg in legs]))
    time = np.cumsum([leg[1] for leg in legs]).astype(np.float64)
    point = np.array([[leg[2], 0.0] for leg in legs])
    drop = too_fast(device, time, point, limit)
    for owner in np.unique(device):
        mine = device == owner
        kept = mine & ~drop
        assert kept.any()
        assert (np.abs(np.diff(point[kept, 0])) <= limit * np.diff(time[kept])).all()
        if (np.abs(np.diff(point[mine, 0])) <= limit * np.diff(time[mine])).all():
            assert not drop[mine].any()


def test_a_wrong_first_fix_does_not_cost_the_others() -> None:
    point = np.array([[9000.0, 0], [0, 0], [10, 0], [5000, 0], [30, 0], [40, 0]])
    drop = too_fast(np.zeros(6, int), 10.0 * np.arange(6), point, 50.0)
    assert drop.tolist() == [True, False, False, True, False, False]


def test_a_leg_a_little_too_fast_costs_few_fixes() -> None:
    """Two long runs apart by a step of a second: the second run goes on as soon as it can be reached."""
    time = np.concatenate([60.0 * np.arange(50), 2941 + 60.0 * np.arange(40)])
    point = np.stack([10.0 * np.arange(90) + np.where(np.arange(90) < 50, 0, 60), np.zeros(90)], axis=1)
    assert np.flatnonzero(too_fast(np.zeros(90, int), time, point, 50.0)).tolist() == [50]
    backwards = too_fast(np.zeros(90, int), time[-1] - time[::-1], point[::-1], 50.0)
    assert np.flatnonzero(backwards).tolist() == [39]


# --- times ----------------------------------------------------------------------------------------------------------


def times(folder: Path, *texts: str, **options: str) -> list[float]:
    rows = "".join(f"a,{text},{k},0\n" for k, text in enumerate(texts))
    return import_trace(wrote(folder, "id,time,x,y\n" + rows), **options).time.tolist()  # type: ignore[arg-type]


def test_times_as_people_write_them(tmp_path: Path) -> None:
    assert times(tmp_path, "1970-01-01T00:01Z", "1970-01-01 00:02:00.25Z") == [60, 120.25]
    assert times(tmp_path, "1970-01-01T02:00:00+02:00", "1970-01-01T02:00:01+02:00") == [0, 1]
    assert times(tmp_path, "1970-01-01T02:00:00+0200", "1970-01-01T00:01:00Z", timezone="mixed") == [0, 60]
    assert times(tmp_path, "1970-01-01T02:00:00", timezone="Europe/Paris") == [3600]
    assert times(tmp_path, "5.5", "7") == [5.5, 7]


def test_hours_that_a_clock_change_repeats_are_dropped(tmp_path: Path) -> None:
    zone = {"timezone": "America/New_York", "order": "any"}
    assert times(tmp_path, "2010-11-07T00:30", "2010-11-07T01:30", "2010-11-07T02:30", **zone) == [
        moment("2010-11-07T04:30Z"),
        moment("2010-11-07T07:30Z"),
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("2010-09-17", 1284681600), ("2010-09-17T01:00", 1284685200), ("2010-09-17T01:00+01:00", 1284681600)],
)
def test_moments(text: str, wanted: float) -> None:
    assert moment(text) == wanted
    with pytest.raises(ValueError, match="ISO 8601"):
        moment("noon")


# --- the file -------------------------------------------------------------------------------------------------------


def test_a_trace_survives_its_file(tmp_path: Path) -> None:
    trace = Trace(
        ("b", "a", "new york"),
        np.array([0, 2, 3, 5]),
        np.array([1.25, 1e9 + 0.1, 0, -3, 4]),
        np.array([[0.1, 2], [3, 4], [5, 6], [7, 8], [9, -1e6]]),
        {
            "source": "s.csv",
            "sha256": "0",
            "epoch": None,
            "projection": None,
            "origin": None,
            "rows": 5,
            "dropped": {},
        },
        ("home", "away"),
        np.array([0, 1, 1, 0, 0], dtype=np.int32),
    )
    path = write_trace(trace, tmp_path / "t.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]
    again = read_trace(path)
    assert (again.names, again.venues, again.facts) == (trace.names, trace.venues, trace.facts)
    for name in ("first", "time", "point", "venue"):
        np.testing.assert_array_equal(getattr(again, name), getattr(trace, name))
    frame = pd.read_parquet(path)  # any tool opens it
    assert frame["device"].tolist() == ["b", "b", "a", "new york", "new york"]
    assert list(frame.columns) == ["device", "time", "x", "y", "venue"]


def test_damaged_traces_are_refused_with_the_row(tmp_path: Path) -> None:
    good = write_trace(import_trace(wrote(tmp_path, METRIC)), tmp_path / "t.parquet")
    table = pq.read_table(good)

    def says(changed: pa.Table | None, *words: str) -> None:
        bad = tmp_path / "bad.parquet"
        if changed is None:
            bad.write_bytes(good.read_bytes()[:-9])
        else:
            pq.write_table(changed, bad)
        with pytest.raises(InputError) as caught:
            read_trace(bad)
        assert all(word in str(caught.value) for word in ("bad.parquet", *words)), caught.value

    def column(name: str, values: list[object]) -> pa.Table:
        k = table.column_names.index(name)
        return table.set_column(k, name, pa.array(values))

    says(None, "not a trace, or damaged")
    says(table.replace_schema_metadata({}), "fedroam trace import")
    says(table.replace_schema_metadata({b"fedroam.trace": b'{"format": 9}'}), "format 9")
    says(table.drop_columns(["x"]), "'x'")
    says(table.slice(0, 0), "no fixes")
    says(column("time", [0.0, 5, 5, 0]), "row 3", "does not rise")
    says(column("x", [0.0, math.nan, 5, 0]), "row 2", "x is not a finite number")
    says(column("x", ["0", "1", "5", "0"]), "'x' holds string")
    says(column("device", ["7", "10", "7", "7"]), "not sorted by device")
    with pytest.raises(InputError, match="no such file"):
        read_trace(tmp_path / "none.parquet")


# --- damaged sources, as the command line tells of them -------------------------------------------------------------

GEO = "id,time,lat,lon\n"
DAMAGED: dict[str, tuple[str, list[str], list[str]]] = {
    "empty": ("", [], ["s.csv: empty"]),
    "header_only": (GEO, [], ["s.csv", "no rows"]),
    "wrong_columns": ("a,b,c\n1,2,3\n", [], ["s.csv, line 1", "'device'", "a, b, c", "--column"]),
    "no_places": ("id,time\n1,2\n", [], ["s.csv, line 1", "lat and lon, or x and y"]),
    "two_candidates": ("id,time,t,x,y\n1,2,3,4,5\n", [], ["'time' and 't'", "--column time="]),
    "both_kinds": ("id,t,x,y,lat,lon\n1,2,3,4,5,6\n", [], ["x and y and also latitude"]),
    "unknown_column": (METRIC, ["--column", "x=z"], ["unknown column", "'z'", "allowed are"]),
    "column_syntax": (METRIC, ["--column", "x"], ["--column x", "NAME=COLUMN"]),
    "ragged": (GEO + "1,2,3,4\n1,3,4\n", [], ["s.csv, line 3"]),
    "word_for_a_number": (GEO + "1,2,north,4\n", [], ["s.csv, line 2", "'lat'", "north"]),
    "hole": (GEO + "1,2,3,4\n1,3,,4\n", [], ["s.csv, line 3", "'lat'"]),
    "swapped_off_the_globe": (
        GEO + "1,0,-122.4,37.7\n1,9,-122.4,37.7\n",
        [],
        ["line 2", "swapped", "lat=lon"],
    ),
    "swapped_antarctica": (GEO + "1,0,-73.9,40.7\n1,9,-73.9,40.7\n", [], ["line 2", "swapped"]),
    "swapped_by_the_box": (
        GEO + "1,0,2.3,48.8\n1,9,2.3,48.8\n",
        ["--box", "48,49,2,3"],
        ["line 2", "latitude 2.3, longitude 48.8", "swapped"],
    ),
    "semicolons": ("id;time;lat;lon\n1;0;2,3;48,8\n", [], ["line 1", "id;time;lat;lon", "--separator ';'"]),
    "all_off_the_globe": (GEO + "1,0,95,200\n", [], ["no fix is left", "1 off the globe"]),
    "backwards": (METRIC + "7,7,1,1,1\n", [], ["line 6", "device 7", "backwards", "--order any"]),
    "backwards_in_the_file": (METRIC, ["--order", "file"], ["line 4", "backwards"]),
    "no_zone": (GEO + "1,2010-01-01T00:00:00,1,2\n", [], ["line 2", "no time zone", "--timezone"]),
    "mixed_zones": (
        GEO + "1,2010-01-01T00:00:00Z,1,2\n1,2010-01-01T01:00:00Z,1,2\n1,2010-01-01T02:00:00+01:00,1,2\n",
        [],
        ["line 4", "mixed time zones (Z, +0100)", "--timezone mixed"],
    ),
    "some_without_zone": (
        GEO + "1,2010-01-01T00:00:00Z,1,2\n1,2010-01-01T01:00:00,1,2\n",
        ["--timezone", "mixed"],
        ["line 3", "mixed time zones (Z, no zone)", "write a zone to the times that lack it"],
    ),
    "zone_given_twice": (GEO + "1,2010-01-01T00:00Z,1,2\n", ["--timezone", "UTC"], ["carry a zone"]),
    "zone_of_numbers": (
        GEO + "1,0,1,2\n",
        ["--timezone", "UTC"],
        ["'time'", "numbers of seconds", "no meaning"],
    ),
    "unknown_zone": (GEO + "1,2010-01-01T00:00,1,2\n", ["--timezone", "Rome"], ["'Rome'", "Europe/Rome"]),
    "no_time": (GEO + "1,noon,1,2\n", [], ["line 2", "'time'", "'noon'", "ISO 8601"]),
    "no_such_day": (GEO + "1,2010-02-30T00:00Z,1,2\n", [], ["line 2", "2010-02-30", "no date"]),
    "numbers_and_dates": (GEO + "1,2010-01-01T00:00Z,1,2\n1,5,1,2\n", [], ["line 3", "'5'", "another kind"]),
    "milliseconds": (GEO + "1,1284724800000,1,2\n", [], ["line 2", "1284724800000", "milliseconds"]),
    "milliseconds_beside_metres": (
        "id,time,x,y\n1,5,1,2\n1,1700000000000,1,2\n",
        [],
        [
            "s.csv, line 3, column 'time': 1700000000000, allowed are seconds, fewer than 7260000000",
            "milliseconds",
        ],
    ),
    "bad_order": (METRIC, ["--order", "rows"], ["'rows'", "device, file, any"]),
    "bad_box": (GEO + "1,0,1,2\n", ["--box", "3,2,1,2"], ["--box 3,2,1,2", "SOUTH < NORTH"]),
    "box_without_width": (GEO + "1,0,1,2\n", ["--box", "1,2,3,3"], ["--box 1,2,3,3", "WEST other than EAST"]),
    "box_off_the_globe": (GEO + "1,0,1,2\n", ["--box", "1,2,170,190"], ["within 90 and 180 degrees"]),
    "box_of_metres": (METRIC, ["--box", "1,2,1,2"], ["metric"]),
    "bad_speed": (METRIC, ["--max-speed", "0"], ["max_speed = 0"]),
    "bad_unit": (METRIC, ["--unit", "0"], ["--unit 0"]),
    "bad_separator": (METRIC, ["--separator", ";;"], ["one character"]),
}


@pytest.fixture
def fr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_one_line_with_file_and_row(name: str, fr: Commands) -> None:
    text, options, wanted = DAMAGED[name]
    fr.write("s.csv", text)
    before = contents(fr.folder)
    answer = fr("trace", "import", "s.csv", "t.parquet", *options)
    assert answer.code == 2, answer
    assert answer.err.count("\n") == 1
    missing = [words for words in wanted if words not in answer.err]
    assert not missing, answer.err
    assert contents(fr.folder) == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"id,t,x,y\n\xff\xfe,1,2,3\n", ", line 2: not UTF-8 text (byte 9 is 0xff)"),
        (b"PAR1\xff\xfe", ": Parquet"),
    ],
)
def test_a_table_that_is_no_text(content: bytes, said: str, fr: Commands) -> None:
    (fr.folder / "s.csv").write_bytes(content)
    before = contents(fr.folder)
    answer = fr("trace", "import", "s.csv", "t.parquet", "--format", "csv")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert (
        f"s.csv{said}; allowed is CSV in UTF-8, or Parquet in a file whose name ends in .parquet"
        in answer.err
    )
    assert contents(fr.folder) == before


def test_targets_are_not_overwritten_unasked(fr: Commands) -> None:
    fr.write("s.csv", METRIC)
    assert fr("trace", "import", "s.csv", "t.csv").code == 2
    assert fr("trace", "import", "s.csv", "t.parquet").code == 0
    again = fr("trace", "import", "s.csv", "t.parquet")
    assert (again.code, "--replace" in again.err) == (2, True)
    assert fr("trace", "import", "s.csv", "t.parquet", "--replace").code == 0
    assert fr("trace", "import", "none.csv", "u.parquet").code == 2
    assert fr("trace", "import", "s.csv", "nowhere/u.parquet").code == 2


def test_parquet_damage_names_the_row(fr: Commands) -> None:
    frame = pd.DataFrame({"id": [1, 1, 2], "t": [0.0, 1.0, np.nan], "x": [0.0, 1, 2], "y": [0.0, 1, 2]})
    frame.to_parquet("s.parquet")
    assert "s.parquet, row 3, column 't'" in fr("trace", "import", "s.parquet", "t.parquet").err
    Path("s.parquet").write_bytes(b"PAR1 no")
    assert "not a Parquet file" in fr("trace", "import", "s.parquet", "t.parquet").err


def test_info_tells_and_draws(fr: Commands) -> None:
    fr.write("s.csv", METRIC + "10,0,8,8,0\n")
    said = fr("trace", "import", "s.csv", "t.parquet")
    assert "4 fixes of 2 devices from 5 rows" in said.out
    assert "dropped: 1 repeated" in said.out
    told = fr("trace", "info", "t.parquet", "--out", "figures")
    assert told.code == 0, told
    lines = {
        line.rsplit("  ", 1)[0].strip(): line.rsplit("  ", 1)[1].strip()
        for line in told.out.splitlines()[:11]
    }
    assert lines["devices"] == "2"
    assert lines["span"] == "10 s"
    assert lines["speed, median / 95 % / most"] == "1 / 1 / 1 m/s"
    assert "gap, 5 % / median / 95 %" in lines
    names = {path.name for path in Path("figures").iterdir()}
    wanted = {
        f"trace-{what}.{kind}" for what in ("devices", "places", "gaps", "speeds") for kind in ("png", "svg")
    }
    assert names == wanted
    assert fr("trace", "info", "s.csv").code == 2
    fr.write("one.csv", "id,t,x,y\nphone,5,1,1\n")
    fr("trace", "import", "one.csv", "one.parquet")
    alone = fr("trace", "info", "one.parquet", "--out", "alone")
    assert alone.code == 0, alone
    assert {path.stem for path in Path("alone").iterdir()} == {"trace-devices", "trace-places"}


def test_measures_by_hand() -> None:
    time = np.array([0.0, 30, 60, 250, 59, 61])
    point = np.array([[0.0, 0], [0, 60], [0, 60], [0, 250], [7, 0], [7, 1]])
    trace = Trace(("a", "b"), np.array([0, 4, 6]), time, point, {"epoch": None})
    measured = measure_trace(trace)
    assert (measured.bin, measured.begin) == (60, 0)
    assert measured.present.tolist() == [2, 2, 0, 0, 1]
    assert measured.gaps.tolist() == [30, 30, 190, 2]
    assert measured.speeds.tolist() == [2, 0, 1, 0.5]
    assert measured.fixes.tolist() == [4, 2]
    long = Trace(("a",), np.array([0, 2]), np.array([1800.0, 30_000]), point[:2], {"epoch": None})
    assert measure_trace(long).present.tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.usefixtures("rough_pictures")
def test_ways_faster_than_sound_are_told_unless_dropped(fr: Commands) -> None:
    rows = [
        f"1,{60 * k},{lat},{lon}" for k, (lat, lon) in enumerate([(48.2, 16.3), (16.3, 48.2), (48.2, 16.3)])
    ]
    fr.write("swapped.csv", GEO + "\n".join(rows) + "\n")
    answer = fr("trace", "import", "swapped.csv", "all.parquet")
    assert answer.code == 0
    assert "note: 2 of 2 ways from fix to fix are faster than sound, the fastest " in answer.out
    assert "--max-speed" in answer.out
    assert "faster than sound" in fr("trace", "info", "all.parquet").out
    answer = fr("trace", "import", "swapped.csv", "some.parquet", "--max-speed", "60")
    assert "faster than sound" not in answer.err + answer.out
