"""The standard streams: what cannot be written to them ends no work, and is told when that is done."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from typing_extensions import Buffer, override


class _Dropping(io.RawIOBase):
    """A stream of bytes that drops what cannot be written, and keeps why: the disk is full, the terminal or the reader
    is gone, or there never was one (None)."""

    def __init__(self, raw: io.RawIOBase | None) -> None:
        super().__init__()
        self._raw = raw
        self.lost: OSError | None = None

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, data: Buffer, /) -> int:
        size = memoryview(data).nbytes
        try:
            if self._raw is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return (
                self._raw.write(data) or size
            )  # nothing is taken where the other end is full and must not wait
        except OSError as error:
            self.lost = self.lost or error
            return size

    @override
    def fileno(self) -> int:
        return super().fileno() if self._raw is None else self._raw.fileno()

    @override
    def isatty(self) -> bool:
        return self._raw is not None and self._raw.isatty()


class Unfailing(io.TextIOWrapper):
    """A standard stream that work goes on without.

    What its encoding lacks, as that of a Windows file lacks a minus sign, is written as a question mark: a run that is
    done does not fail for it.
    """

    def __init__(self, raw: io.RawIOBase | None, encoding: str) -> None:
        self._below = _Dropping(raw)
        super().__init__(io.BufferedWriter(self._below), encoding, errors="replace", line_buffering=True)

    @property
    def lost(self) -> OSError | None:
        """Why something could not be written, where that was so."""
        return self._below.lost


def unfailing(stream: TextIO | None) -> TextIO:
    """The stream as one that is `Unfailing`; as it is where it is none of the system's own (a notebook's, a test's)."""
    if stream is None:  # whoever started this program closed it
        return Unfailing(None, "utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = stream.buffer.raw if isinstance(stream.buffer, io.BufferedWriter) else stream.buffer
    if not isinstance(raw, io.RawIOBase):
        return stream
    with contextlib.suppress(OSError):
        stream.flush()
    return Unfailing(raw, stream.encoding)


@contextlib.contextmanager
def unfailing_streams() -> Iterator[None]:
    """Within it, nothing ends because stdout or stderr cannot be written. Afterwards they are what they were."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(unfailing, before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def output_lost() -> OSError | None:
    """Why something of stdout could not be written within `unfailing_streams`, where that was so."""
    return sys.stdout.lost if isinstance(sys.stdout, Unfailing) else None
