"""Each meter against a device that is none: a server on this machine, a pseudo-terminal, files like the kernel's."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.devices.meters import MeterError, Sample, Series, WorkClock
from fedroam.devices.meters.streams import LONGEST, numbers, said
from fedroam.devices.meters.sysfs import counted_since
from fedroam.errors import InputError


class Ticking(WorkClock):
    """Clocks that go on by a second with each look; the wall's is 1000 s ahead."""

    def __init__(self) -> None:
        ticks = itertools.count()
        super().__init__(monotonic=lambda: float(next(ticks)), wall=lambda: 1000.0)


def taken(settings: dict[str, Any], count: int, watch: WorkClock | None = None) -> list[Sample]:
    """The first samples of a meter."""
    meter: Any = build("meter", settings)
    stop = threading.Event()
    found = []
    for sample in meter.samples(watch or WorkClock(), stop):
        found.append(sample)
        if len(found) == count:
            stop.set()
    return found


# --- lines --------------------------------------------------------------------------------------------------------


@pytest.fixture
def telnet() -> Iterator[Callable[[Sequence[bytes]], dict[str, Any]]]:
    """Serves some bytes to whoever comes, and hangs up."""
    server = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serving(pieces: Sequence[bytes]) -> dict[str, Any]:
        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                for piece in pieces:
                    connection.sendall(piece)

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return {"kind": "smartpower2", "host": "127.0.0.1", "port": server.getsockname()[1]}

    yield serving
    for thread in threads:
        thread.join(60)
    server.close()


def test_smartpower2_says_watts(telnet: Callable[[Sequence[bytes]], dict[str, Any]]) -> None:
    settings = telnet([
        b"\xff\xfb\x01\xff\xfd\x03\xff\xfa\x18\x01\xff\xf0", b".000,2.1\r\n",  # half a line
        b"5.195,0.402,2.088,0.001\r\n5.19", b"0,0.41,2.128,0.001\r\n",
        b"nan,0.4,1,1\n1,2,3\n1,2,3,4,5\n-1,2,3,4\n1e3,2,3,4\n\xff\xf15.2,0.5,2.6,0.002\n",
        b"9" * 3 * LONGEST, b",1,1,1\n", b"\n5.2,0.5,2.7,0.002\n",
    ])  # fmt: skip
    found = taken(settings, 4)
    assert [sample.watt for sample in found] == [2.088, 2.128, 2.6, 2.7]
    assert all(np.isnan(sample.joule) for sample in found)
    times = [sample.monotonic for sample in found]
    assert times == sorted(times)


def test_a_meter_that_hangs_up_or_says_something_else_is_told(
    telnet: Callable[[Sequence[bytes]], dict[str, Any]],
) -> None:
    with pytest.raises(MeterError, match="has hung up"):
        taken(telnet([b"\n1,2,3,4\n"]), 2)
    with pytest.raises(MeterError, match="says b'login:'"):
        taken(telnet([b"login:\n" * 101]), 1)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(MeterError, match=f"127.0.0.1:{port}"):
        taken({"kind": "smartpower2", "host": "127.0.0.1", "port": port}, 1)


def test_a_serial_line_says_the_power_in_a_column() -> None:
    near, far = os.openpty()
    settings = {"kind": "serial", "path": os.ttyname(far), "column": 1, "unit": 0.001}
    found: list[Sample] = []
    stop = threading.Event()
    meter: Any = build("meter", settings)

    def read() -> None:
        for sample in meter.samples(WorkClock(), stop):
            found.append(sample)
            if len(found) == 2:
                stop.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    while thread.is_alive():  # what was said before the line was opened is gone
        os.write(near, b"7,1500,2\n8\n9,2500,3\n")
        thread.join(0.2)
    assert {sample.watt for sample in found} == {1.5, 2.5}
    for handle in (near, far):
        os.close(handle)


def test_what_is_no_serial_line_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MeterError, match="is no serial line"):
        taken({"kind": "serial", "path": str(tmp_path / "file")}, 1)
    with pytest.raises(MeterError, match="No such file"):
        taken({"kind": "serial", "path": str(tmp_path / "none")}, 1)
    with pytest.raises(InputError, match=r"baud = 1234: allowed are"):
        build("meter", {"kind": "serial", "path": "x", "baud": 1234})


@given(st.lists(st.floats(0, 999_999), min_size=1, max_size=6))
def test_numbers_are_read_as_they_are_written(values: list[float]) -> None:
    line = ",".join(f" {value:.6f}\t" for value in values).encode()
    assert numbers(line) == [float(f"{value:.6f}") for value in values]


@given(st.binary(max_size=60))
def test_no_bytes_upset_a_reader(data: bytes) -> None:
    found = numbers(said(data))
    assert found is None or all(0 <= value < 1e9 for value in found)
    if b"\xff" not in data:
        assert said(data) == data
    assert said(data.replace(b"\xff", b"\xff\xff")) == data


# --- the kernel's -------------------------------------------------------------------------------------------------


def zone(folder: Path, name: str, energy: int, whole: int) -> Path:
    home = folder / name
    home.mkdir(parents=True)
    (home / "energy_uj").write_text(f"{energy}\n")
    (home / "max_energy_range_uj").write_text(f"{whole}\n")
    return home


class Drawing(WorkClock):
    """A clock under which counters go on: at each look, the next of these numbers stands in each file."""

    def __init__(self, files: dict[Path, list[int]]) -> None:
        super().__init__(monotonic=self._tick, wall=lambda: 0.0)
        self.files, self.now = files, -1.0

    def _tick(self) -> float:
        self.now += 1.0
        for path, values in self.files.items():
            if values:
                path.write_text(f"{values.pop(0)}\n")
        return self.now


def test_rapl_counts_packages_also_where_a_counter_begins_anew(tmp_path: Path) -> None:
    one, two = (
        zone(tmp_path, "intel-rapl:0", 9_000_000, 10_000_000),
        zone(tmp_path, "intel-rapl:1", 5, 10_000_000),
    )
    zone(tmp_path, "intel-rapl:0:0", 0, 10)  # the cores of package 0
    zone(tmp_path, "intel-rapl-mmio:0", 0, 10)  # package 0 once more
    files = {one / "energy_uj": [9_500_000, 500_000, 2_500_000], two / "energy_uj": [5, 1_000_005, 1_000_005]}
    settings = {"kind": "rapl", "path": str(tmp_path), "period": 0.001}
    found = taken(settings, 4, Drawing(files))
    assert [sample.joule for sample in found] == pytest.approx([0.0, 0.5, 2.5, 4.5], abs=1e-12)
    series = Series.of(found)
    assert series.counted
    assert series.energy(np.array([0.0]), np.array([3.0]))[0] == pytest.approx(4.5)
    (one / "energy_uj").write_text("0\n")
    only = taken({**settings, "zones": ["intel-rapl:0:0"]}, 1)
    assert only[0].joule == 0.0


@given(st.integers(0, 2**40), st.integers(0, 2**32), st.integers(2, 2**32))
def test_a_counter_that_begins_anew_loses_nothing(start: int, counted: int, whole: int) -> None:
    counted %= whole
    assert counted_since(start % whole, (start + counted) % whole, whole) == counted


def test_counters_that_are_none_are_told(tmp_path: Path) -> None:
    settings = {"kind": "rapl", "path": str(tmp_path), "period": 0.001}
    with pytest.raises(InputError, match="has no intel-rapl:0"):
        taken(settings, 1)
    home = zone(tmp_path, "intel-rapl:0", 1, 10)
    with pytest.raises(InputError, match=r"meter.zones: .*intel-rapl:9.*intel-rapl:0"):
        taken({**settings, "zones": ["intel-rapl:9"]}, 1)
    for text in ("", "1.5", "-", "9" * 30, "x"):
        (home / "energy_uj").write_text(text)
        with pytest.raises(MeterError, match="wanted is a whole number"):
            taken(settings, 1)


def test_hwmon_gives_microwatts(tmp_path: Path) -> None:
    for k, (chip, watt) in enumerate({"cpu_thermal": None, "ina226": 3_250_000, "ina219": 1_000_000}.items()):
        home = tmp_path / f"hwmon{k}"
        home.mkdir()
        (home / "name").write_text(f"{chip}\n")
        if watt is not None:
            (home / "power1_input").write_text(f"{watt}\n")
    settings = {"kind": "hwmon", "path": str(tmp_path), "period": 0.001}
    found = taken({**settings, "chip": "ina226"}, 3, Ticking())
    assert [(sample.monotonic, sample.wall, sample.watt) for sample in found] == [
        (0.0, 1000.0, 3.25), (1.0, 1000.0, 3.25), (2.0, 1000.0, 3.25),
    ]  # fmt: skip
    assert taken({**settings, "path": str(tmp_path / "hwmon2")}, 1)[0].watt == 1.0
    with pytest.raises(InputError, match=r"found: hwmon1 \(ina226\), hwmon2 \(ina219\)"):
        taken(settings, 1)
    with pytest.raises(InputError, match="power1_input of ina260, found: none"):
        taken({**settings, "chip": "ina260"}, 1)


# --- afterwards ---------------------------------------------------------------------------------------------------


def afterwards(settings: dict[str, Any], watch: WorkClock, work: Callable[[], None]) -> list[Sample]:
    """What a meter says once the work is done."""
    meter: Any = build("meter", settings)
    assert not meter.live
    stop, found = threading.Event(), [Sample(0, 0)][:0]
    begun = threading.Event()
    now = watch.monotonic

    def told() -> float:
        begun.set()
        return now()

    watch.monotonic = told
    thread = threading.Thread(target=lambda: found.extend(meter.samples(watch, stop)), daemon=True)
    thread.start()
    assert begun.wait(60)
    work()
    stop.set()
    thread.join(60)
    return found


def test_a_meter_at_the_wall_is_put_on_the_device_s_clock(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    clock = [50.0]
    watch = WorkClock(monotonic=lambda: clock[0], wall=lambda: clock[0] + 1000.0)

    def work() -> None:
        clock[0] = 54.0
        path.write_text("time,watt,note\n" + "".join(f"{1000 + t + 7},{t}.5,x\n" for t in range(40, 60)))

    found = afterwards({"kind": "csv", "path": str(path), "ahead": 7.0}, watch, work)
    assert [sample.monotonic for sample in found][:2] == [50.0, 51.0]
    assert found[0].watt == 50.5
    for text, told in (
        ("time,watt\n2,1\n1,1\n", "row 2"),
        ("time,watt\n1,-1\n", "allowed is 0 W"),
        ("a\n", "time"),
    ):
        path.write_text(text)
        meter: Any = build("meter", {"kind": "csv", "path": str(path)})
        stop = threading.Event()
        stop.set()
        with pytest.raises(InputError, match=told):
            list(meter.samples(WorkClock(), stop))


def test_the_model_gives_each_work_its_power() -> None:
    clock = [0.0]
    watch = WorkClock(monotonic=lambda: clock[0], wall=lambda: clock[0])

    def passing(seconds: float) -> None:
        clock[0] += seconds

    def work() -> None:
        for what, lasts in (("communication", 2.0), ("training", 10.0), ("communication", 1.0)):
            passing(1.0)
            with watch.during(what, 1):  # type: ignore[arg-type]
                passing(lasts)
        with contextlib.suppress(KeyError), watch.during("other", 2):
            passing(4.0)
            raise KeyError
        passing(5.0)

    settings = {"kind": "model", "idle": 1.0, "training": 5.0, "communication": 3.0}
    series = Series.of(afterwards(settings, watch, work))
    begin, end = (np.array([getattr(one, side) for one in watch.intervals]) for side in ("begin", "end"))
    np.testing.assert_allclose(series.energy(begin, end)[0], [6.0, 50.0, 3.0, 20.0], rtol=1e-12)
    assert series.energy(np.array([0.0]), np.array([clock[0]]))[0] == pytest.approx(79.0 + 8.0)
