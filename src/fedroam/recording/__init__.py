"""Recording: the run folder, its checkpoints, and reading it back."""

from fedroam.recording.environment import environment
from fedroam.recording.files import (
    FileFacts,
    check_summed,
    manifest_of,
    read_json,
    write_csv,
    write_json,
    write_named_csv,
    write_summed,
    write_table,
    write_text,
)
from fedroam.recording.inputs import (
    code_facts,
    file_facts,
    recorded_experiment,
    run_in,
    unchanged_data,
    unchanged_files,
)
from fedroam.recording.locking import folder_at, lock_folder, take_lock
from fedroam.recording.recorder import Existing, Recorder, check
from fedroam.recording.run import MATRIX_COLUMNS, NOT_REPEATABLE, Run, open_run, open_runs, runs_below
from fedroam.recording.schema import Manifest
from fedroam.recording.verify import changed_files, damage

__all__ = [
    "MATRIX_COLUMNS",
    "NOT_REPEATABLE",
    "Existing",
    "FileFacts",
    "Manifest",
    "Recorder",
    "Run",
    "changed_files",
    "check",
    "check_summed",
    "code_facts",
    "damage",
    "environment",
    "file_facts",
    "folder_at",
    "lock_folder",
    "manifest_of",
    "open_run",
    "open_runs",
    "read_json",
    "recorded_experiment",
    "run_in",
    "runs_below",
    "take_lock",
    "unchanged_data",
    "unchanged_files",
    "write_csv",
    "write_json",
    "write_named_csv",
    "write_summed",
    "write_table",
    "write_text",
]
