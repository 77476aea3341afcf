"""`fedroam verify`: whether run folders still hold what their runs wrote."""

from __future__ import annotations

from fedroam.cli import options
from fedroam.cli.console import say, tell
from fedroam.errors import InputError, one_line


def verify(folders: options.Runs, debug: options.Debug = False) -> None:
    """Compare every file of runs with the check sums that were written with it; nothing is changed or executed.

    The exit code is 0 where all of it is what was written, and 2 where anything is not, or cannot be told.
    """
    from fedroam.recording import damage, runs_below

    bad = total = 0
    for folder in folders:
        for run in runs_below(folder):
            total += 1
            try:
                found = damage(run)
            except InputError as error:
                found = [str(error)]
            bad += bool(found)
            for line in found:
                tell(one_line(line))
            if not found:
                say(f"{run}: as written")
    if bad:
        raise InputError(f"{bad} of {total} runs are not what was written, or cannot be told: see above")
    say(f"{total} of {total} runs are what was written")
