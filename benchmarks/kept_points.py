"""Points that a benchmark measures, each in a process of its own, and keeps: what is kept is not measured again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from fedroam.native import target
from fedroam.recording.environment import environment
from fedroam.writing import write_text


def this_machine() -> dict[str, Any]:
    """What points must share to stand in one table: a cloud gives different processors the same name, and one whose
    vectors are narrowed is another."""
    import torch  # not above: what is measured may do without, in less memory

    here, told = target(), environment()
    return {
        "processor": told["processor"],
        "target": here.name if here else "",
        "lanes": here.lanes if here else 0,
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "cores": cores(),
    }


def cores() -> int:
    """Cores of this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def when_and_where(record: Mapping[str, Any]) -> str:
    """On what the points of a record were measured, and when, as pages say it below their table."""
    machine = record["machine"]
    days = sorted({point["measured"] for point in record["points"].values()})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{machine['processor']} ({machine['target']}, {machine['vectors']}), {machine['cores']} cores; {when}."


def measured(path: Path, commands: Mapping[str, Sequence[str]], machine: object) -> dict[str, Any]:
    """The record in a file, with the points that a command each tells in its last line (JSON) and that it lacked.

    Ends the program with the command's exit code where one fails; the points before it are kept. Refuses to add points
    to those of another machine, which no table could tell apart.
    """
    record: dict[str, Any] = {"machine": machine, "points": {}}
    if path.exists():
        record = json.loads(path.read_text(encoding="utf-8"))
    lacking = {name: command for name, command in commands.items() if name not in record["points"]}
    if lacking and record["points"] and record["machine"] != machine:
        sys.exit(
            f"{path}: holds what was measured on {record['machine']}, and this is {machine}: give another --record, or "
            "measure all of it anew without that file"
        )
    for name, command in lacking.items():
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.returncode)
        record["machine"] = machine
        point = json.loads(done.stdout.splitlines()[-1])
        record["points"][name] = {**point, "measured": date.today().isoformat()}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(record, indent=1) + "\n")
        print(f"{name}: done", flush=True)
    return record
