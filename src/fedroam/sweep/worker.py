"""What a worker process does: one run after the other, on one core, until it is told to stop.

It speaks with its parent through a pipe, in `messages`. A worker whose parent is gone ends at once: the pipe tells.
"""

from __future__ import annotations

import _thread
import importlib
import os
import queue
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from fedroam import runner
from fedroam.components import use
from fedroam.errors import FedroamError, told, visible, warnings_in_lines
from fedroam.experiment import Experiment
from fedroam.measurement import Measurement
from fedroam.recording import take_lock
from fedroam.sweep import messages
from fedroam.sweep.limits import GIB, RESERVED, die_first, limit_memory, out_of_memory, raise_limit
from fedroam.sweep.measuring import CHECKPOINT_PAUSE, UnitCosts, unit_costs
from fedroam.sweep.sharing import offer_shared
from fedroam.terminal.interrupts import Interrupted
from fedroam.terminal.streams import unfailing
from fedroam.tracking import trackers_named

PAUSE = 0.2  # seconds between two reports of a round that was not evaluated
PATIENCE = 30.0  # seconds to wait for a run folder that a dying worker still holds


@dataclass(frozen=True)
class Setup:
    """What every worker of a sweep needs. use: files of own parts; modules: names of modules that define parts; data:
    folder of `write_shared`, or None; memory: bytes that a worker may take, or None; track: names of trackers."""

    use: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    data: str | None = None
    memory: int | None = None
    track: tuple[str, ...] = ()


def serve(connection: Connection, setup: Setup) -> None:
    """The life of a worker process."""
    if sys.platform != "win32":
        os.setpgrp()  # Ctrl-C goes to the parent alone, which says what is to be done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inbox: queue.SimpleQueue[messages.Message] = queue.SimpleQueue()
    stop, share = threading.Event(), WorkerShare(setup.memory)
    threading.Thread(target=_listen, args=(connection, inbox, stop, share), daemon=True).start()

    def send(message: messages.Message) -> None:
        try:
            connection.send_bytes(messages.encode(message))
        except OSError:  # nobody is left to hear it
            os._exit(1)

    sys.stdout, sys.stderr = unfailing(sys.stdout), unfailing(sys.stderr)
    warnings_in_lines(_say)
    try:
        set_up(setup)
    except Exception as error:
        send(messages.Broken(reason_of(error)))
        return
    send(messages.Ready())
    while not isinstance(order := inbox.get(), messages.Close):
        if isinstance(order, messages.MeasureTask):
            send(measure(order))
        elif isinstance(order, messages.RunTask):
            result = do_run(order, send, stop.is_set, share, setup.track)
            send(result)
            if isinstance(result, messages.Failed) and result.out_of_memory:
                return  # a new worker goes on


def _say(line: str) -> None:
    sys.stderr.write(f"{visible(line)}\n")
    sys.stderr.flush()


class WorkerShare:
    """What this worker may take of the machine."""

    def __init__(self, memory: int | None) -> None:
        self.cores, self.memory = 1, memory

    def change(self, told: messages.Share) -> None:
        """Take what the parent says; memory that was given is not taken back."""
        if self.memory is not None and told.memory is not None and told.memory > self.memory:
            raise_limit(told.memory - self.memory)
            self.memory = told.memory
        self.cores = told.cores  # last: threads need memory


def _listen(
    connection: Connection,
    inbox: queue.SimpleQueue[messages.Message],
    stop: threading.Event,
    share: WorkerShare,
) -> None:
    """Pass on what the parent says, `Stop` and `Share` at once."""
    try:
        while True:
            order = messages.decode(connection.recv_bytes())
            if isinstance(order, messages.Stop):
                stop.set()
            elif isinstance(order, messages.Share):
                share.change(order)
            else:
                inbox.put(order)
    except (EOFError, OSError):
        os._exit(1)  # the parent is gone; run folders bear being left at any moment


def set_up(setup: Setup) -> None:
    """Make this process fit for runs: one thread, own parts known, data at hand, memory limited."""
    die_first()
    one_thread()
    for file in setup.use:
        use(file)
    for module in setup.modules:
        importlib.import_module(module)
    shared = offer_shared(Path(setup.data)) if setup.data is not None else 0
    if setup.memory is not None:
        limit_memory(setup.memory + RESERVED, shared)


def one_thread() -> None:
    """Every library that would compute with several threads computes with one."""
    import pyarrow
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    threadpool_limits(1)
    pyarrow.set_cpu_count(1)


def do_run(
    task: messages.RunTask,
    send: Callable[[messages.RoundDone], None],
    stopping: Callable[[], bool],
    share: WorkerShare,
    track: Sequence[str] = (),
) -> messages.Done | messages.Failed | messages.Stopped:
    """Do a run and say how it ended. Never raises but for what cannot be caught."""
    told, asked = 0.0, False

    def observe(round: int, rounds: int, measurement: Measurement | None) -> None:
        nonlocal told, asked
        if measurement is not None or round == rounds or time.monotonic() - told > PAUSE:
            told = time.monotonic()
            accuracy = None if measurement is None else measurement.numbers["accuracy"]
            send(messages.RoundDone(round, accuracy))
        if stopping() and not asked:
            asked = True
            _thread.interrupt_main()  # as Ctrl-C would: a checkpoint after this round

    wall, cpu = time.perf_counter(), time.process_time()
    try:
        experiment = Experiment(**tomllib.loads(task.toml))
        if experiment.digest != task.digest:
            raise FedroamError(
                "the worker understands the settings differently; is it another version of fedroam?"
            )
        folder = Path(task.folder)
        _wait_for(folder)
        runner.run(
            experiment,
            folder,
            existing=task.existing,
            variant=task.title,
            order=task.order,
            observer=observe,
            checkpoint_pause=CHECKPOINT_PAUSE,
            trackers=trackers_named(track),
            cores=lambda: share.cores,
        )
    except (Interrupted, KeyboardInterrupt):
        return messages.Stopped(time.process_time() - cpu)
    except Exception as error:
        reason, full = reason_of(error), out_of_memory(error)
        if full:
            most = "" if share.memory is None else f", a worker may take {share.memory / GIB:.3g} GiB"
            way_out = "fewer --workers" + ("" if share.memory is None else " or more --memory")
            reason = f"out of memory{most}: {way_out} ({reason})"
        return messages.Failed(reason[:500], full)
    return messages.Done(time.perf_counter() - wall, time.process_time() - cpu)


def measure(task: messages.MeasureTask) -> UnitCosts | messages.Failed:
    """What a run costs, or why it cannot be measured."""
    try:
        return unit_costs(Experiment(**tomllib.loads(task.toml)), task.budget, Path(task.folder))
    except Exception as error:
        return messages.Failed(reason_of(error)[:500])


def reason_of(error: BaseException) -> str:
    """An error as one line."""
    return " ".join(told(error).split())


def _wait_for(folder: Path) -> None:
    """Wait while another process writes this run: a worker whose parent was killed may take a moment to end."""
    if (folder / ".lock").exists():
        lock = take_lock(folder / ".lock", PATIENCE)
        if lock is not None:
            lock.close()
