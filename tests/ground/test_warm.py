"""Programs that are forked with everything loaded are what Python would have begun: their arguments, folder, streams,
signals and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import HANGS, eventually, lives
from support.warm import python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
TELLS = """\
import atexit, os, sys
atexit.register(print, "at last")
print(__name__, sys.argv, sys.path, os.getcwd(), sorted(os.environ.items()), sys.stdin.read())
print("wrong", file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.parametrize("words", [["-c", TELLS, "a b"], ["-m", "telling", "-x"], ["telling.py", "--y=1"]])
def test_it_is_the_program_that_python_begins(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "telling.py").write_text(TELLS)
    own = {**os.environ, "PYTHONPATH": "/nowhere", "OF_ITS_OWN": "1", "PYTHONSAFEPATH": ""}
    forked, begun = (
        subprocess.run(
            [*each, *words],
            input="heard",
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=own,
            timeout=HANGS,
        )
        for each in (python(), [sys.executable])
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (begun.returncode, begun.stdout, begun.stderr)
    assert (begun.returncode, begun.stderr) == (3, "wrong\n")


ENDS = (
    "print('no end of line', end='')",
    "import sys; sys.exit('wrong')",
    "import sys; sys.exit(None)",
    "import sys; sys.exit(-1)",
    "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('later'))).start(); print('now')",
    "import atexit; atexit.register(lambda: 1 / 0); print('done')",
    "raise KeyboardInterrupt",
    "import sys; sys.stdout.close(); sys.exit(5)",
)


@pytest.mark.parametrize("code", ENDS)
def test_it_ends_as_python_does(code: str) -> None:
    forked, begun = (
        subprocess.run([*each, "-c", code], capture_output=True, text=True, timeout=HANGS)
        for each in (python(), [sys.executable])
    )
    assert (forked.returncode, forked.stdout) == (begun.returncode, begun.stdout)
    assert forked.stderr.splitlines()[-1:] == begun.stderr.splitlines()[-1:]  # above it stands where it was


def test_it_has_loaded_what_takes_long() -> None:
    code = "import sys; print('torch' in sys.modules, 'fedroam.runner' in sys.modules)"
    done = subprocess.run([*python(), "-c", code], capture_output=True, text=True, timeout=HANGS)
    assert done.stdout == "True True\n"


FORKS = """\
import multiprocessing
context = multiprocessing.get_context("forkserver")
code = "import sys; print('torch' in sys.modules, flush=True)"
process = context.Process(target=exec, args=(code,))
process.start()
process.join()
print(process.exitcode)
process = context.Process(target=exec, args=("import os; os._exit(7)",))
process.start()
process.join()
print(process.exitcode)
"""


def test_a_fork_server_of_multiprocessing_is_forked_as_well() -> None:
    """Its processes have loaded, without being asked, what takes long; they begin and end as they would."""
    done = subprocess.run(
        [*python(), "-c", FORKS],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=True,
    )
    assert done.stdout.split() == ["True", "0", "7"]
    assert done.stderr == ""


WAITS = """\
import os, time
try:
    print(os.getpid(), flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    os._exit(4)
"""


def test_signals_reach_it_and_it_ends_with_whoever_began_it() -> None:
    for sent, code in {
        signal.SIGINT: 4,
        signal.SIGTERM: -signal.SIGTERM,
        signal.SIGKILL: -signal.SIGKILL,
    }.items():
        with subprocess.Popen([*python(), "-c", WAITS], stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            process = int(program.stdout.readline())
            program.send_signal(sent)
            assert program.wait(HANGS) == code
            eventually(lambda process=process: not lives(process), "the program ends")
