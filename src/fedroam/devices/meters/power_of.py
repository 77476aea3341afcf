"""No meter at all: the powers that a device is said to draw, for what it does when."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedroam.components import Part, field, register
from fedroam.devices.meters.meter import Sample, WorkClock
from fedroam.devices.meters.series import GAP

Watt = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@register("meter", "model")
class ModelledPower(Part):
    """The device is not measured: it draws one power in training, one in communication, one at rest.

    The log of its work then says what it has used. It is for emulated devices, which have no supply of their own; what
    common boards draw at work stands at `compute.board`.
    """

    live: ClassVar[bool] = False

    idle: Watt = field(..., "power at rest", unit="W")
    training: Watt = field(..., "power while it trains, and does other work with its samples", unit="W")
    communication: Watt = field(..., "power while it sends and receives", unit="W")

    def samples(self, watch: WorkClock, stop: threading.Event) -> Iterator[Sample]:
        """A step at each end of an interval, once all of them are known, and between steps often enough that no gap is
        taken for one without readings."""
        begin, offset = watch.monotonic(), watch.wall() - watch.monotonic()
        stop.wait()

        def at(time: float, watt: float) -> Sample:
            return Sample(time, time + offset, watt=watt)

        def through(start: float, end: float, watt: float) -> Iterator[Sample]:
            pieces = max(math.ceil((end - start) / (GAP / 2)), 1)
            for time in np.linspace(start, end, pieces + 1).tolist():
                yield at(time, watt)

        now = begin
        for _, what, start, end in sorted(watch.intervals, key=lambda one: one.begin):
            if end <= now:
                continue
            start = max(start, now)  # within another one: that one's power
            own = self.communication if what == "communication" else self.training
            yield from through(now, start, self.idle)
            yield from through(start, end, own)
            now = end
        yield from through(now, max(now, watch.monotonic()), self.idle)
