"""The command line: `fedroam run`, `list`, `show`, `compare`, ... Nothing heavy is imported before it is needed."""

from fedroam.cli.document import reference as reference
from fedroam.cli.entry import app as app
from fedroam.cli.entry import main as main
