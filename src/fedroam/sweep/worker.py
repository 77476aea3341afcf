"""What a worker process does: one run after the other, on one core, until it is told to stop.

Messages are JSON, one object each. To the worker: {"do": "run" | "measure", ...}, {"do": "stop"} (leave the present
run after its round, with a checkpoint), {"do": "close"}. From it: {"is": "ready" | "broken" | "round" | "done" |
"failed" | "interrupted" | "measured", ...}. A worker whose parent is gone ends at once: the pipe tells.
"""

from __future__ import annotations

import _thread
import importlib
import json
import os
import queue
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fedroam import runner
from fedroam.components import use
from fedroam.errors import FedroamError
from fedroam.experiment import Experiment
from fedroam.interrupts import Interrupted
from fedroam.measurement import Measurement
from fedroam.sweep.limits import GIB, first_to_die, limit_memory, out_of_memory
from fedroam.sweep.measuring import CHECKPOINT_PAUSE, measure
from fedroam.sweep.sharing import offer_shared

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

PAUSE = 0.2  # seconds between two reports of a round that was not evaluated
PATIENCE = 30.0  # seconds to wait for a run folder that a dying worker still holds

Message = dict[str, Any]


def serve(connection: Connection, setting: Mapping[str, Any]) -> None:
    """The life of a worker process. `setting`: see `equip`."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C goes to the parent alone, which says what is to be done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(connection, inbox, stop), daemon=True).start()

    def tell(message: Message) -> None:
        try:
            connection.send_bytes(json.dumps(message).encode())
        except OSError:  # nobody is left to hear it
            os._exit(1)

    try:
        equip(setting)
    except Exception as error:
        tell({"is": "broken", "reason": reason_of(error)})
        return
    tell({"is": "ready"})
    while (task := inbox.get())["do"] != "close":
        if task["do"] == "measure":
            result = measure(task)
        else:
            result = perform(task, tell, stop.is_set, setting.get("memory"))
        tell(result)
        if result.get("memory"):  # what is left of the memory is in shreds: let a new worker go on
            return


def _listen(connection: Connection, inbox: queue.SimpleQueue[Message], stop: threading.Event) -> None:
    try:
        while True:
            message = json.loads(connection.recv_bytes())
            if message["do"] == "stop":
                stop.set()
            else:
                inbox.put(message)
    except (EOFError, OSError):
        os._exit(1)  # the parent is gone; run folders bear being left at any moment


def equip(setting: Mapping[str, Any]) -> None:
    """Make this process fit for runs: one thread, own parts known, data at hand, memory limited.

    setting: use (files of own parts), modules (names of modules that define parts), data (folder of
    `write_shared`, or None), memory (bytes this worker may take, or None).
    """
    first_to_die()
    one_thread()
    for file in setting["use"]:
        use(file)
    for module in setting["modules"]:
        importlib.import_module(module)
    shared = offer_shared(Path(setting["data"])) if setting["data"] else 0
    if setting["memory"] is not None:
        limit_memory(int(setting["memory"]), shared)


def one_thread() -> None:
    """Every library that would compute with several threads computes with one."""
    import pyarrow
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    threadpool_limits(1)
    pyarrow.set_cpu_count(1)


def perform(
    task: Mapping[str, Any],
    tell: Callable[[Message], None],
    stopping: Callable[[], bool],
    memory: int | None,
) -> Message:
    """Do a run and say how it ended. Never raises but for what cannot be caught.

    task: toml (the experiment), digest, folder, existing (see `runner.run`), title, order.
    """
    told, asked = 0.0, False

    def observe(round: int, rounds: int, measurement: Measurement | None) -> None:
        nonlocal told, asked
        if measurement is not None or round == rounds or time.monotonic() - told > PAUSE:
            told = time.monotonic()
            accuracy = None if measurement is None else float(measurement.round_row["accuracy"].iloc[0])
            tell({"is": "round", "round": round, "accuracy": accuracy})
        if stopping() and not asked:
            asked = True
            _thread.interrupt_main()  # as Ctrl-C would: a checkpoint after this round

    wall, cpu = time.perf_counter(), time.process_time()
    try:
        experiment = Experiment(**tomllib.loads(task["toml"]))
        if experiment.digest != task["digest"]:
            raise FedroamError(
                "the worker understands the settings differently; is it another version of fedroam?"
            )
        folder = Path(task["folder"])
        _wait_for(folder)
        runner.run(
            experiment,
            folder,
            existing=task["existing"],
            variant=task["title"],
            order=task["order"],
            observer=observe,
            checkpoint_pause=CHECKPOINT_PAUSE,
        )
    except (Interrupted, KeyboardInterrupt):
        return {"is": "interrupted"}
    except Exception as error:
        full = out_of_memory(error)
        reason = reason_of(error)
        if full:
            most = "" if memory is None else f", a worker may take {memory / GIB:.3g} GiB"
            way_out = "fewer --workers" + ("" if memory is None else " or more --memory")
            reason = f"out of memory{most}: {way_out} ({reason})"
        return {"is": "failed", "reason": reason[:500], "memory": full}
    return {"is": "done", "seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}


def reason_of(error: BaseException) -> str:
    """An error as one line."""
    text = str(error) if isinstance(error, FedroamError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def _wait_for(folder: Path) -> None:
    """Wait while another process writes this run: a worker whose parent was killed may take a moment to end."""
    if fcntl is None or not (folder / ".lock").exists():
        return
    end = time.monotonic() + PATIENCE
    with (folder / ".lock").open("r+") as lock:
        while time.monotonic() < end:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                time.sleep(0.1)
