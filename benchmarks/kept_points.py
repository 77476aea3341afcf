"""Points that a benchmark measures, each in a process of its own, and keeps: what is kept is not measured again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedroam.writing import write_text


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
        record["points"][name] = json.loads(done.stdout.splitlines()[-1])
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(record, indent=1) + "\n")
        print(f"{name}: done", flush=True)
    return record
