"""Meters: what a device draws, measured while it works, and what of it belongs to which work."""

from fedroam.devices.meters import meter, power_of, streams, sysfs, wall_csv
from fedroam.devices.meters.meter import Interval, Meter, MeterError, Sample, What, WorkClock
from fedroam.devices.meters.series import Series

__all__ = [
    "Interval",
    "Meter",
    "MeterError",
    "Sample",
    "Series",
    "What",
    "WorkClock",
    "meter",
    "power_of",
    "streams",
    "sysfs",
    "wall_csv",
]
