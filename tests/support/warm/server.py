"""The process that programs are forked from. It listens on its standard input, and ends when nobody holds the other end
of a FIFO, whose descriptor is its argument, any more."""

from __future__ import annotations

import array
import atexit
import fcntl
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import select
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from client import FOLDER

# What `fedroam run`, `sweep`, `reproduce`, `node`, `deploy` and `report` load, at first or while they work.
LOADED = (
    "fedroam.cli.commands", "fedroam.runner", "fedroam.sweep.running", "fedroam.sweep.worker", "fedroam.study",
    "fedroam.deploy.node.process", "fedroam.deploy.server.serving", "fedroam.deploy.emulation.fork_server",
    "fedroam.analysis.report", "sklearn.datasets", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg",
)  # fmt: skip
MOST = 5  # handles that a program is given: three streams and, if it is a fork server, two more
LOOK = 0.02  # seconds between two looks at who has ended


@dataclass(frozen=True)
class Program:
    """What somebody wants begun; and its streams and further handles, as this process has them. numbers: which those
    are to be there."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    numbers: list[int]
    handles: list[int]

    @classmethod
    def heard(cls, connection: socket.socket) -> Program | None:
        """As the client tells it; None where it was killed before it could."""
        length, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(MOST * array.array("i").itemsize))
        if not length:
            return None
        handles = array.array("i", ancillary[0][2]).tolist()
        with connection.makefile("rb") as rest:
            told = rest.read(int.from_bytes(length, "big"))
        if len(told) < int.from_bytes(length, "big"):
            return None
        arguments, environment, folder, further = json.loads(told)
        return cls(arguments, environment, folder, [0, 1, 2, *further], handles)

    def enter(self, path: list[str]) -> None:
        """Become this program's process. path: where Python looks for modules, whatever the environment."""
        above = max(self.numbers) + 1
        aside = [fcntl.fcntl(handle, fcntl.F_DUPFD, above) for handle in self.handles]
        for handle in self.handles:
            os.close(handle)
        for number, handle in zip(
            self.numbers, aside, strict=True
        ):  # none stands any more where another is to be
            os.dup2(handle, number)
            os.close(handle)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        if FOLDER in self.environment:  # a fork server of this program's own is forked as it is
            multiprocessing.set_executable(self.environment[FOLDER] + "/python")
        more = self.environment.get("PYTHONPATH", "")
        sys.path[:] = [*filter(None, more.split(os.pathsep)), *path]
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def run(self) -> None:
        """Do what Python does with these arguments."""
        first, *rest = self.arguments
        if first == "-m":
            sys.argv = rest
            sys.path.insert(0, self.folder)
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
            return
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        if first == "-c":
            sys.argv = ["-c", *rest[1:]]
            sys.path.insert(0, "")
            exec(compile(rest[0], "<string>", "exec"), main.__dict__)
        else:
            sys.argv, script = self.arguments, Path(first).absolute()
            sys.path.insert(0, str(script.parent))
            main.__file__ = str(script)
            exec(compile(script.read_bytes(), script, "exec"), main.__dict__)


def end(work: Callable[[], None]) -> NoReturn:
    """End this process as Python does after some work: wait for threads, do what was registered for the end, write
    what is still to be written, and end with the code, or by the signal, that says how it went. Only what is loaded is
    not taken down, which would take a third of a second: every page of it would be written to, and copied for that."""
    code = 0
    try:
        work()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            code = ended.code or 0
        else:
            print(ended.code, file=sys.stderr)
            code = 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, here or at its other end
            stream.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


def asked() -> Program:
    """Serve. Returns in each process that was forked, with what it is to be; the server itself ends here."""
    listening, life = socket.socket(fileno=0), int(sys.argv[1])
    living: dict[int, socket.socket] = {}
    while True:
        heard, _, _ = select.select([listening, life, *living.values()], [], [], LOOK if living else None)
        for process, connection in list(living.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                with suppress(OSError):  # nobody may wait for it any more
                    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
                living.pop(process).close()
            elif connection in heard or life in heard:  # whoever began it was killed
                os.kill(process, signal.SIGKILL)
        if life in heard:
            os._exit(0)  # what is loaded need not be taken down
        if listening in heard:
            connection, _ = listening.accept()
            program = Program.heard(connection)
            if program is None:
                connection.close()
                continue
            process = os.fork()
            if process == 0:
                os.close(life)
                for each in (listening, connection, *living.values()):
                    each.close()
                return program
            for handle in program.handles:
                os.close(handle)
            with suppress(OSError):
                connection.sendall(b"%d\n" % process)
            living[process] = connection


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for those that run
    # Whoever needs it first may have blocked Ctrl-C for the moment, as while a fork server begins; programs hear of it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    mine = [sys.path[0], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    elsewhere = [each for each in sys.path if each not in mine]
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection that writes into objects would give each program a copy of them
    program = asked()
    program.enter(elsewhere)
    end(program.run)
