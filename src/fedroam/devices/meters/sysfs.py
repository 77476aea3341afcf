"""Meters of the kernel's: counters of processors (RAPL), and power sensors on the board (hwmon)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from fedroam.components import Part, field, register
from fedroam.devices.meters.meter import MeterError, Sample, WorkClock
from fedroam.errors import InputError, unknown

PERIOD = "time between two readings"


def _number(path: Path) -> int:
    """The whole number of a file of the kernel's."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except PermissionError:
        raise MeterError(f"{path}: may not be read; allow it for this user, or start as root") from None
    except OSError as error:
        raise MeterError(f"{path}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise MeterError(f"{path}: cannot be read ({error})") from None
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        raise MeterError(f"{path}: holds {text[:40]!r}, wanted is a whole number")
    return int(text)


@register("meter", "rapl", source="Linux, Documentation/power/powercap: intel-rapl")
class Rapl(Part):
    """Counters of energy in the processor: Intel's RAPL, and AMD's by the same name.

    It counts whole processors (packages), all that they do, and not the board around them. A counter begins anew at
    its range (`max_energy_range_uj`), after a minute or more at full load; with a longer `period` that could go unseen.
    """

    live: ClassVar[bool] = True

    path: str = field("/sys/class/powercap", "where the kernel shows its counters")
    zones: tuple[str, ...] = field((), "which counters, such as intel-rapl:0; not set: every package")
    period: float = field(0.1, PERIOD, unit="s", gt=0, le=10)

    def samples(self, watch: WorkClock, stop: threading.Event) -> Iterator[Sample]:
        """The energy since the first one, of all counters together."""
        zones = self._zones()
        ranges = [_number(zone / "max_energy_range_uj") for zone in zones]
        last, counted = [_number(zone / "energy_uj") for zone in zones], 0
        yield watch.energy(0.0)
        while not stop.wait(self.period):
            now = [_number(zone / "energy_uj") for zone in zones]
            counted += sum(
                counted_since(old, new, whole) for old, new, whole in zip(last, now, ranges, strict=True)
            )
            last = now
            yield watch.energy(1e-6 * counted)

    def _zones(self) -> Sequence[Path]:
        home = Path(self.path)
        # One colon: a package; two: a part of one, which is in it already. intel-rapl-mmio is the same counter again.
        known = {
            zone.name: zone for zone in sorted(home.glob("intel-rapl:*")) if (zone / "energy_uj").exists()
        }
        if self.zones:
            for name in self.zones:
                if name not in known:
                    raise InputError(f"meter.zones: {unknown(f'counter in {home}', name, list(known))}")
            return [known[name] for name in dict.fromkeys(self.zones)]
        found = [zone for name, zone in known.items() if name.count(":") == 1]
        if not found:
            raise InputError(f"{home}: has no intel-rapl:0; this machine shows no counters of energy")
        return found


def counted_since(old: int, new: int, whole: int) -> int:
    """What a counter that begins anew at `whole` has counted from one reading to the next."""
    return new - old if new >= old else new - old + whole


@register("meter", "hwmon", source="Linux, Documentation/hwmon: sysfs-interface, ina2xx")
class Hwmon(Part):
    """A power sensor on the board, such as TI's INA219, INA226 or INA260, as the kernel shows it (hwmon).

    The kernel gives microwatts (`power1_input`) over the sensor's last interval. `chip` is the name that it gives
    itself, where there are several; `path` may also be the folder of the one sensor.
    """

    live: ClassVar[bool] = True

    path: str = field("/sys/class/hwmon", "where the kernel shows its sensors")
    chip: str = field(
        "", "the name of the sensor's chip, such as ina226; not set: the one that measures power"
    )
    input: str = field("power1_input", "its file", pattern=r"^power\d{1,2}_(input|average)$")
    period: float = field(0.1, PERIOD, unit="s", gt=0, le=10)

    def samples(self, watch: WorkClock, stop: threading.Event) -> Iterator[Sample]:
        """The power at each period."""
        path = self._file()
        while True:
            yield watch.power(1e-6 * _number(path))
            if stop.wait(self.period):
                return

    def _file(self) -> Path:
        home = Path(self.path)
        folders = [home] if (home / self.input).exists() else sorted(home.glob("hwmon*"))
        found = {
            f"{folder.name} ({_name(folder)})": folder / self.input
            for folder in folders
            if (folder / self.input).exists() and self.chip in ("", _name(folder))
        }
        if len(found) != 1:
            what = f"{self.input} of {self.chip}" if self.chip else self.input
            there = ", ".join(found) or "none"
            raise InputError(f"{home}: wanted is one sensor with {what}, found: {there}")
        return next(iter(found.values()))


def _name(folder: Path) -> str:
    try:
        return (folder / "name").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
