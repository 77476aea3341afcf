"""`python -m fedroam` and the program `fedroam` are the command line."""

from __future__ import annotations

import atexit
import os
import sys


def program() -> int:
    """Run the command line as a process of its own, which ends with it; the exit code."""
    _occupy_closed_streams()
    ended: list[int] = []
    atexit.register(_leave, ended)  # before anybody else registers, and so run after all of them

    from fedroam.cli import main

    ended.append(main())
    return ended[0]


def _occupy_closed_streams() -> None:
    """Put something where stdin, stdout or stderr was closed by whoever started this (`>&-`).

    The next file that is opened would get its number, and whoever writes to that stream without asking Python, as a
    library in C or a program started from here, would write into that file.
    """
    for number, how in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, how)


def _leave(ended: list[int]) -> None:
    """End the process with its code, once all that was to be done at exit has been done.

    What Python would do then is to take every module apart that torch has loaded: a seventh of a second for nothing.
    Where there is no code the program ends by an error, which Python shows.
    """
    if not ended:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # a program without a console has none
                stream.flush()
    except (OSError, ValueError):
        return  # a pipe that nobody reads, a full disk: Python says so, with a code of its own
    os._exit(ended[0])


if __name__ == "__main__":
    sys.exit(program())
