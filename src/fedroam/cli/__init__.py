"""The command line: `fedroam run`, `list`, `show`, `compare`, ... Nothing heavy is imported before it is needed."""

from fedroam.cli.document import reference
from fedroam.cli.entry import app, main

__all__ = ["app", "main", "reference"]
