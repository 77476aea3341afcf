"""A folder of files as one source of movement."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

from fedroam.errors import InputError
from fedroam.traces import import_trace, read_trace
from support.commands import Commands

POINT = '<trkpt lat="44.5" lon="11.{n}"><time>2020-05-01T08:0{n}:00Z</time></trkpt>'


@pytest.fixture
def fr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def gpx(*numbers: int) -> str:
    return f"<gpx><trk><trkseg>{''.join(POINT.format(n=n) for n in numbers)}</trkseg></trk></gpx>"


def test_a_folder_of_gpx(fr: Commands) -> None:
    pytest.importorskip("pyproj")
    home = fr.folder / "rides"
    (home / "old").mkdir(parents=True)
    (home / "bus 7.gpx").write_text(gpx(1, 2, 3))
    (home / "bus 12.gpx.gz").write_bytes(gzip.compress(gpx(4, 5).encode()))
    (home / ".DS_Store").write_bytes(b"\0\0")
    (home / "README.md").write_text("Rides, one a file.\n")
    (home / "notes").write_bytes(b"\0\1")
    said = fr("trace", "import", "rides/", "t.parquet")
    assert said.code == 0, said
    trace = read_trace("t.parquet")
    assert trace.names == ("bus 12", "bus 7")
    assert trace.fixes == 5
    assert "left out: old/, README.md, notes" in said.out + said.err
    assert trace.facts["source"] == "bus 12.gpx.gz, bus 7.gpx"


def test_a_folder_of_tables_with_and_without_a_column_of_devices(tmp_path: Path) -> None:
    named, bare = tmp_path / "named", tmp_path / "bare"
    for folder in (named, bare):
        folder.mkdir()
    (named / "day1.csv").write_text("id,t,x,y\na,1,0,0\nb,2,5,5\n")
    (named / "day2.csv").write_text("id,t,x,y\na,11,1,0\nc,12,7,7\n")
    trace = import_trace(named)
    assert trace.names == ("a", "b", "c")
    assert trace.time[: trace.first[1]].tolist() == [1, 11]  # one device in two files
    assert trace.facts["notes"] == ["2 files; a device is as the column says"]
    assert import_trace([named / "day1.csv", named / "day2.csv"]).names == trace.names
    (bare / "7.csv").write_text("t,x,y\n1,0,0\n2,5,5\n")
    (bare / "12.csv").write_text("t,x,y\n1,3,3\n")
    trace = import_trace(bare)
    assert trace.names == ("7", "12")
    assert trace.facts["notes"] == ["2 files; a device is a file"]
    pd.read_csv(bare / "7.csv").to_parquet(tmp_path / "7.parquet")
    pd.read_csv(bare / "12.csv").to_parquet(tmp_path / "12.parquet")
    again = import_trace([tmp_path / "7.parquet", tmp_path / "12.parquet"])
    assert (again.names, again.time.tolist()) == (trace.names, trace.time.tolist())


def test_the_file_that_is_wrong_is_told(tmp_path: Path) -> None:
    def says(folder: str, files: dict[str, str], words: str) -> None:
        home = tmp_path / folder
        home.mkdir()
        for name, text in files.items():
            (home / name).write_text(text)
        with pytest.raises(InputError, match=words):
            import_trace(home)

    good = "id,t,x,y\na,1,0,0\n"
    says("hole", {"1.csv": good, "2.csv": "id,t,x,y\na,2,,0\n"}, r"2\.csv, line 2, column 'x': empty")
    says(
        "back",
        {"1.csv": good, "2.csv": "id,t,x,y\nb,1,0,0\na,0,0,0\n"},
        r"2\.csv, line 3, .*of device a goes backw",
    )
    says(
        "columns",
        {"1.csv": good, "2.csv": "t,x,y\n1,2,3\n"},
        r"2\.csv: 1\.csv has device, time, x, y and 2\.csv has",
    )
    says(
        "places",
        {"1.csv": good, "2.csv": "id,t,lat,lon\na,2,40,3\n"},
        r"2\.csv: .*wanted are files with the same",
    )
    says("twice", {"1.csv": "t,x,y\n1,2,3\n", "1.csv.gz": "t,x,y\n1,2,3\n"}, r"two files of the name '1'")
    says("empty", {}, r"empty: a folder without any file of a known format$")
    says("nothing", {"a.bin": "\0"}, r"without any file of a known format; found a\.bin")
    says(
        "mixed",
        {"a.csv": good, "b.gpx": gpx(1)},
        r"b\.gpx: GPX, but a\.csv is CSV; wanted are files of one format",
    )
    says(
        "sumo",
        {"a.xml": "<fcd-export/>", "b.xml": "<fcd-export/>"},
        r"one of 2 files, but SUMO FCD; only GPX, CSV",
    )
