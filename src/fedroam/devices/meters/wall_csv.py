"""A meter at the wall that writes a file of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from fedroam.components import Part, field, register
from fedroam.data.sources.places import find_file
from fedroam.data.sources.tables import read_table
from fedroam.devices.meters.meter import Sample, WorkClock
from fedroam.errors import InputError


@register("meter", "csv")
class WallMeter(Part):
    """A meter at the wall whose readings stand in a CSV file with the columns `time` and `watt`, in order of time.

    Times are seconds since 1970 by the meter's clock; `ahead` says by how much that clock is ahead of the device's. The
    file is read when the device's work is done; what was measured before its work began is left out.
    """

    live: ClassVar[bool] = False  # it is read afterwards

    path: str = field(..., "the CSV file (relative: from here, or FEDROAM_DATA)")
    ahead: float = field(
        0.0, "how much later the meter's clock is than the device's", unit="s", allow_inf_nan=False
    )

    def samples(self, watch: WorkClock, stop: threading.Event) -> Iterator[Sample]:
        """The rows of the file, by the device's clocks."""
        offset = watch.wall() - watch.monotonic()
        begin = watch.monotonic()
        stop.wait()
        file = find_file(self.path, None, "meter.path")
        table = read_table(file, ("time", "watt"), ())
        times, watts = table["time"] - self.ahead, table["watt"]
        wrong = np.flatnonzero(np.diff(times) < 0)
        if len(wrong):
            raise InputError(f"{file}, row {wrong[0] + 2}, column 'time': is before the one above it")
        below = np.flatnonzero(watts < 0)
        if len(below):
            raise InputError(
                f"{file}, row {below[0] + 1}, column 'watt': {watts[below[0]]:g}, allowed is 0 W or more"
            )
        first = max(int(np.searchsorted(times, begin + offset, side="right")) - 1, 0)
        for time, watt in zip(times[first:].tolist(), watts[first:].tolist(), strict=True):
            yield Sample(time - offset, time, watt=watt)
