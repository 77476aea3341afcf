"""Calling the command line from tests, in this process, on experiments that take a fraction of a second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from fedroam.cli import main

TINY = """\
name = "tiny"
clients = 4
rounds = 3
evaluate_every = 1
checkpoint_every = 1
data = { kind = "digits", test_share = 0.9 }
partition = "iid"
model = "softmax_regression"
training = { kind = "sgd", lr = 0.1 }
engine = "reference"
mobility = { kind = "random", grid = 4, mobile = 2 }
"""


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


class Commands:
    """`call("run", "tiny.toml")`, in a folder of its own that holds `tiny.toml`."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.write("tiny.toml", TINY)

    def write(self, name: str, text: str) -> str:
        """Write a file of the folder; returns its name."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def __call__(self, *arguments: str) -> Answer:
        self._capsys.readouterr()
        code = main(arguments)
        said = self._capsys.readouterr()
        return Answer(code, said.out, said.err)

    def run(self, *arguments: str) -> Answer:
        """`fedroam run tiny.toml --no-report ...`."""
        return self("run", "tiny.toml", "--no-report", *arguments)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts
    }
