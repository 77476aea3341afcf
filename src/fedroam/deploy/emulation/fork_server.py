"""A process that has imported and read everything, and forks the nodes of a site, which so share its memory.

Run as a program with the folder of a site, that of meters, seconds of patience, and files with the user's own parts. It
is told names of nodes on its standard input, a line each
(with their namespaces and cgroups, if they have any), and tells on its output which process each is and how it
ended. When its input ends, so do the nodes, after some patience in which they may do so by themselves: nothing outlives
whoever started it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from fedroam.data.cache import forget
from fedroam.deploy.emulation.namespaces import joined
from fedroam.deploy.metering.readings import metered
from fedroam.deploy.node.process import node_in
from fedroam.deploy.site.experiment import experiment_of
from fedroam.deploy.site.file import FILE, read_site
from fedroam.errors import FedroamError, InputError, one_line, visible
from fedroam.scene import Scene, prepare
from fedroam.terminal.streams import unfailing

LOOK = 0.2  # seconds between two looks at who has ended
BEGAN, ENDED = "began", "ended"


def main(words: Sequence[str]) -> None:
    """The fork server's whole life."""
    sys.stderr = unfailing(sys.stderr)
    folder, meters, patience, use = Path(words[0]), Path(words[1]), float(words[2]), words[3:]
    # As `Forked` sets the environment; but torch that is loaded already no longer reads that, and nodes would wait for
    # ever for threads that have begun here.
    torch.set_num_threads(1)
    experiment = experiment_of(folder, read_site(folder / FILE), use)
    scene = prepare(experiment)
    scene.learner.close()
    gc.collect()
    gc.freeze()  # a collection that writes into objects would give each node a copy of them
    living: dict[int, str] = {}
    heard = b""
    while True:
        if select.select([0], [], [], LOOK)[0]:
            told = os.read(0, 65_536)
            if not told:
                break
            *names, heard = (heard + told).split(b"\n")
            for name, *seat in (each.decode().split() for each in names):
                # Nothing but this thread runs here, and gRPC has not begun: a fork is safe.
                number = os.fork()
                if number == 0:
                    os._exit(guarded(partial(_live, scene, folder, name, meters, seat)))
                living[number] = name
                _say(f"{BEGAN} {name} {number}")
        _gone(living)
    _end(living, patience)


def _live(scene: Scene, folder: Path, name: str, meters: Path, seat: Sequence[str]) -> None:
    """A node's whole life, in the process that was forked for it: what `fedroam node` does. seat: the namespace and the
    cgroup that it is to be in, if any."""
    if seat:
        joined(seat)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # the other end listens to the fork server alone
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    own = node_in(scene, folder, name, lambda line: _tell(f"{name}: {line}"))
    del scene
    forget()
    try:
        with metered(own, meters):
            own.run()
    finally:
        own.close()


def guarded(work: Callable[[], None]) -> int:
    """The exit code of a program that does this work: 2 for wrong input, 1 for what failed, told in one line."""
    try:
        work()
    except InputError as error:
        _tell(f"error: {error}")
        return 2
    except FedroamError as error:
        _tell(f"error: {error}")
        return 1
    except BaseException as error:
        _tell(f"error: {one_line(f'{type(error).__name__}: {error}')}")
        return 1
    return 0


def _gone(living: dict[int, str]) -> None:
    """Tell of those that have ended."""
    for number, name in list(living.items()):
        ended, status = os.waitpid(number, os.WNOHANG)
        if ended:
            del living[number]
            _say(f"{ENDED} {name} {os.waitstatus_to_exitcode(status)}")


def _end(living: dict[int, str], patience: float) -> None:
    """Nodes that were told that all is done end by themselves; the others are ended."""
    for force in (None, signal.SIGTERM, signal.SIGKILL):
        for number in living if force else ():
            os.kill(number, force or 0)
        until = time.monotonic() + patience
        while living and time.monotonic() < until:
            _gone(living)
            time.sleep(LOOK / 10)


def _say(line: str) -> None:
    """A line to whoever started this; nobody may listen any more."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"{line}\n".encode())


def _tell(line: str) -> None:
    sys.stderr.write(visible(line) + "\n")
    sys.stderr.flush()
