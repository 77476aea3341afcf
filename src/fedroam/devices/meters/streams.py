"""Meters that say lines of numbers: over the network, and over a serial line."""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from pydantic import model_validator

from fedroam.components import Part, field, register
from fedroam.devices.meters.meter import MeterError, Sample, WorkClock
from fedroam.errors import InputError

NUMBER = re.compile(rb"\d{1,9}(\.\d{1,9})?")
LONGEST = 256  # bytes of a line
LOOK = 0.5  # seconds between two looks at whether it is over
SILENCE = 10.0  # seconds after which a meter that says nothing is lost
CONNECTING = 10.0  # seconds
BAUDS = (1200, 2400, 4800, 9600, 19_200, 38_400, 57_600, 115_200, 230_400)


def numbers(line: bytes) -> list[float] | None:
    """The numbers of a line, decimal and not negative, separated by commas; None where it holds anything else."""
    cells = [cell.strip() for cell in line.split(b",")]
    if not all(NUMBER.fullmatch(cell) for cell in cells):
        return None
    return [float(cell) for cell in cells]


def said(data: bytes) -> bytes:
    """What was said over telnet, without the commands that its ends exchange (RFC 854)."""
    found, at = bytearray(), 0
    while at < len(data):
        if data[at] != 255:  # IAC
            found.append(data[at])
            at += 1
        elif data[at + 1 : at + 2] == b"\xff":
            found.append(255)
            at += 2
        elif data[at + 1 : at + 2] == b"\xfa":  # up to IAC SE
            end = data.find(b"\xff\xf0", at)
            at = len(data) if end < 0 else end + 2
        else:
            at += 3 if data[at + 1 : at + 2] in (b"\xfb", b"\xfc", b"\xfd", b"\xfe") else 2
    return bytes(found)


def _lines(receive: Callable[[], bytes | None], stop: threading.Event) -> Iterator[bytes]:
    """Whole lines; the first one, which may have begun before we listened, and those that are too long are left out.

    receive: the next bytes, None where there are none at present; b"" at the end.
    """
    rest, broken, quiet = b"", True, 0.0
    while not stop.is_set():
        data = receive()
        if data is None:
            quiet += LOOK
            if quiet >= SILENCE:
                raise MeterError(f"has said nothing for {SILENCE:g} s")
            continue
        if not data:
            raise MeterError("has hung up")
        quiet = 0.0
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if not broken and len(line) <= LONGEST and line.strip():
                yield said(line).strip()
            broken = False
        if len(rest) > LONGEST:
            rest, broken = b"", True


def _samples(
    lines: Iterator[bytes], watch: WorkClock, watt: Callable[[list[float]], float | None]
) -> Iterator[Sample]:
    """Powers, of the lines that hold one; when none of a hundred does, it is another device."""
    wrong = 0
    for line in lines:
        found = numbers(line)
        power = None if found is None else watt(found)
        if power is None:
            wrong += 1
            if wrong >= 100:
                raise MeterError(f"says {line[:60]!r}")
            continue
        wrong = 0
        yield watch.power(power)


@register(
    "meter", "smartpower2", source="Hardkernel, SmartPower2: its telnet stream; Farcas et al., Sec. 4.4"
)
class SmartPower2(Part):
    """Hardkernel's SmartPower2: it supplies the device, and says volt, ampere, watt and watt-hours over telnet.

    A line that is not these four numbers is left out, and so is the first one, which may be half a line. It says about
    ten lines a second. Only the watts are used.
    """

    live: ClassVar[bool] = True

    host: str = field(..., "its name or address", min_length=1, max_length=253)
    port: int = field(23, "its port", ge=1, le=65_535)

    def samples(self, watch: WorkClock, stop: threading.Event) -> Iterator[Sample]:
        """One for each line."""
        try:
            connection = socket.create_connection((self.host, self.port), timeout=CONNECTING)
        except OSError as error:
            raise MeterError(f"smartpower2 at {self.host}:{self.port}: {error.strerror or error}") from None
        connection.settimeout(LOOK)

        def receive() -> bytes | None:
            try:
                return connection.recv(4096)
            except TimeoutError:
                return None
            except OSError as error:
                raise MeterError(
                    f"smartpower2 at {self.host}:{self.port}: {error.strerror or error}"
                ) from None

        with connection:
            lines = _lines(receive, stop)
            yield from _samples(lines, watch, lambda found: found[2] if len(found) == 4 else None)


@register("meter", "serial")
class SerialLine(Part):
    """A meter on a serial line that says lines of numbers, separated by commas.

    `column` says which of them is the power, `unit` how many watts its 1 is. Lines of another number of numbers than
    `columns` are left out, and so is the first one, which may be half a line. It needs no library: Linux and macOS have
    what it takes.
    """

    live: ClassVar[bool] = True

    path: str = field(..., "the line, such as /dev/ttyUSB0", min_length=1)
    baud: int = field(115_200, "its speed", unit="baud")
    column: int = field(0, "which number of a line is the power, from 0", ge=0, le=63)
    columns: int | None = field(None, "how many numbers a line has; not set: any", ge=1, le=64)
    unit: float = field(
        1.0, "a reading of 1 in watts: 0.001 for milliwatts", unit="W", gt=0, allow_inf_nan=False
    )

    @model_validator(mode="after")
    def _known(self) -> SerialLine:
        if self.baud not in BAUDS:
            raise ValueError(f"baud = {self.baud}: allowed are {', '.join(map(str, BAUDS))}")
        return self

    def samples(self, watch: WorkClock, stop: threading.Event) -> Iterator[Sample]:
        """One for each line."""
        handle = _opened(self.path, self.baud)

        def receive() -> bytes | None:
            if not select.select([handle], [], [], LOOK)[0]:
                return None
            try:
                return os.read(handle, 4096)
            except OSError as error:
                raise MeterError(f"{self.path}: {error.strerror or error}") from None

        try:

            def watt(found: list[float]) -> float | None:
                fits = self.column < len(found) and self.columns in (None, len(found))
                return self.unit * found[self.column] if fits else None

            yield from _samples(_lines(receive, stop), watch, watt)
        finally:
            os.close(handle)


def _opened(path: str, baud: int) -> int:
    """A serial line in raw mode, 8 bits, no parity."""
    if sys.platform == "win32" and not TYPE_CHECKING:
        raise InputError("meter.kind = 'serial': allowed where there is termios: Linux, macOS")
    import termios
    import tty

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        raise MeterError(f"{path}: {error.strerror or error}") from None
    try:
        tty.setraw(handle)
        settings = termios.tcgetattr(handle)
        settings[4] = settings[5] = getattr(termios, f"B{baud}")
        termios.tcsetattr(handle, termios.TCSANOW, settings)
        termios.tcflush(handle, termios.TCIFLUSH)
        return handle
    except termios.error as error:
        with contextlib.suppress(OSError):
            os.close(handle)
        raise MeterError(f"{path}: is no serial line ({error.args[-1]})") from None
