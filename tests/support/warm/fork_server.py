"""What multiprocessing starts in the place of Python: a fork server of its is forked from ours, all else is Python.

Its arguments are options of Python, then -c and code that names two handles: where the fork server listens, and what
tells it that nobody needs it any more.
"""

import os
import re
import sys

from client import begin, begin_server

if __name__ == "__main__":
    code = sys.argv[-1]
    found = re.search(r"from multiprocessing\.forkserver import main; main\((\d+), (\d+), ", code)
    if found is None:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    begin_server()
    begin(["-c", code], (int(found[1]), int(found[2])))
