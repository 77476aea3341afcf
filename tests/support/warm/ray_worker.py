"""What Ray starts in the place of its own `setup_worker.py`: a worker process of it, forked from the server.

Its arguments are the script of a worker, and that script's; and what the environment of the worker is to be, which for
these tests is the one that there is.
"""

import sys

from client import begin

begin(
    [
        word
        for word in sys.argv[1:]
        if not word.startswith(("--serialized-runtime-env-context=", "--language="))
    ]
)
