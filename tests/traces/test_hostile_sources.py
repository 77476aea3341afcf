"""Sources that are made to fail a reader: one line each, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedroam.errors import InputError
from fedroam.traces import import_trace
from fedroam.traces.log import read_log

ROWS = 100_001
GPX = (
    '<?xml version="1.0" encoding="{}"?><gpx><trk><name>a</name><trkseg><trkpt lat="1" lon="1">'
    "<time>2010-01-01T00:00:00Z</time></trkpt></trkseg></trk></gpx>"
)


@pytest.mark.parametrize("days", [400, 5_000])
def test_sumo_days_of_many_digits(days: int, tmp_path: Path) -> None:
    step = f'<timestep time="{"9" * days}:00:00:01"><vehicle id="a" x="1000" y="1"/></timestep>'
    (tmp_path / "fcd.xml").write_text(f"<fcd-export>{step}</fcd-export>")
    with pytest.raises(InputError, match=rf"fcd.xml, line 1: time has {days + 9} digits, wanted is a finite"):
        import_trace(tmp_path / "fcd.xml")


@pytest.mark.parametrize(
    "encoding",
    ["utf-7", "utf-32", "shift_jis", "nonsense", "rot13", "base64", "idna", "punycode", "undefined"],
)
def test_xml_of_an_encoding_that_is_not_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.gpx").write_text(GPX.format(encoding))
    with pytest.raises(InputError, match=r"a.gpx, line 1: its encoding cannot be read \(.*allowed are UTF-8"):
        import_trace(tmp_path / "a.gpx")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii", "windows-1252"])
def test_xml_of_an_encoding_that_is_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.gpx").write_text(GPX.format(encoding))
    assert import_trace(tmp_path / "a.gpx").fixes == 1


def bad_texts() -> pa.Array:
    """Two texts, the first of which is no UTF-8."""
    places = np.array([0, 1, 2], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(places), pa.py_buffer(b"\xffa")])


def test_texts_in_parquet_that_are_no_utf_8(tmp_path: Path) -> None:
    log = pa.table({"device": bad_texts(), "begin": [1.0, 2.0], "end": [2.0, 3.0]})
    pq.write_table(log, tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"log.parquet: damaged \(.*UTF8"):
        read_log(tmp_path / "log.parquet")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_one_long_name_does_not_widen_every_fix(suffix: str, tmp_path: Path) -> None:
    names = ["z" * 120_000, *(f"d{k % 7}" for k in range(ROWS - 1))]
    venues = ["v" * 120_000, *(f"p{k % 5}" for k in range(ROWS - 1))]
    source = tmp_path / f"fixes.{suffix}"
    if suffix == "csv":
        rows = [f"{name},{k},1,2,{venue}" for k, (name, venue) in enumerate(zip(names, venues, strict=True))]
        source.write_text("\n".join(["device,time,x,y,venue", *rows]))
    else:
        x, time = np.ones(ROWS), np.arange(ROWS)
        pq.write_table(pa.table({"device": names, "time": time, "x": x, "y": x, "venue": venues}), source)
    trace = import_trace(source)
    assert (trace.devices, trace.fixes, len(trace.venues)) == (8, ROWS, 6)
    assert max(map(len, trace.names)) == max(map(len, trace.venues)) == 120_000


def test_an_open_end_in_the_year_9999(tmp_path: Path) -> None:
    rows = "a,2010-01-01T00:00:00Z,2010-01-01T05:00:00.25Z\nb,2010-01-01T00:00:00Z,9999-12-31T00:00:00Z\n"
    (tmp_path / "log.csv").write_text("device,begin,end\n" + rows)
    log = read_log(tmp_path / "log.csv")
    new_year = float(np.datetime64("2010-01-01").astype("datetime64[s]").astype(np.int64))
    assert log.begin.tolist() == [new_year, new_year]
    last = float(np.datetime64("9999-12-31").astype("datetime64[s]").astype(np.int64))
    assert log.end.tolist() == [new_year + 5 * 3600 + 0.25, last]


def test_times_beyond_nanoseconds_may_be_written_with_them(tmp_path: Path) -> None:
    rows = "a,2010-01-01T00:00:00.25Z,9999-12-31T23:59:59.999999999Z\n"
    (tmp_path / "log.csv").write_text("device,begin,end\n" + rows)
    log = read_log(tmp_path / "log.csv")
    assert log.begin.tolist() == pytest.approx([1262304000.25], abs=1e-6)
    assert log.end.tolist() == pytest.approx([253402300799.999999], abs=1e-4)
    (tmp_path / "log.csv").write_text("device,begin,end\n" + rows.replace("9999-12", "9999-13"))
    with pytest.raises(InputError, match=r"line 2, column 'end': '9999-13-31T23:59:59.999999999Z' is no date"):
        read_log(tmp_path / "log.csv")
