"""`fedroam verify`: whether run folders and sweeps still hold what was written."""

from __future__ import annotations

from fedroam.cli import options
from fedroam.cli.console import say, tell
from fedroam.errors import InputError, one_line
from fedroam.writing import checked_name


def verify(folders: options.Runs, debug: options.Debug = False) -> None:
    """Compare every file of runs and sweeps with the check sums that were written with it; nothing is changed or
    executed.

    The exit code is 0 where all of it is what was written, and 2 where anything is not, or cannot be told.
    """
    from fedroam.recording import damage, runs_below
    from fedroam.sweep import sweep_damage

    bad = {"sweeps": 0, "runs": 0}
    total = {"sweeps": 0, "runs": 0}
    for folder in folders:
        root = checked_name(folder)
        sweeps = [path.parent for path in sorted(root.rglob("sweep.json"))]
        runs = runs_below(root) if not sweeps or any(root.rglob("run.json")) else []
        for kind, places, look in (("sweeps", sweeps, sweep_damage), ("runs", runs, damage)):
            for place in places:
                try:
                    found = look(place)
                except InputError as error:
                    found = [str(error)]
                total[kind] += 1
                bad[kind] += bool(found)
                for line in found:
                    tell(one_line(line))
                if not found:
                    say(f"{place}: as written")
    counted = [kind for kind in total if total[kind]]
    if any(bad.values()):
        told = " and ".join(f"{bad[kind]} of {total[kind]} {kind}" for kind in counted)
        raise InputError(f"{told} are not what was written, or cannot be told: see above")
    say(f"{' and '.join(f'{total[kind]} of {total[kind]} {kind}' for kind in counted)} are what was written")
