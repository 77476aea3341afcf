"""The runs of a sweep as tasks of a Ray cluster (https://docs.ray.io), one core each.

Every node needs the same version of fedroam, and best a view of the sweep's folder: then runs go on from their
checkpoints wherever they are taken up again. A node that does not see it works in a folder of its own and sends the
finished run back. Data travel through Ray's object store: one copy a node, mapped by all its workers.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedroam.components import Part
from fedroam.data import Dataset, forget, name_of, offer
from fedroam.errors import InputError
from fedroam.execution.agreement import check_versions, node_in_words, versions
from fedroam.execution.cluster import brief, connect, ray_module
from fedroam.execution.loading import load_parts
from fedroam.sweep.board import MessageBoard, News
from fedroam.sweep.limits import RESERVED, limit_memory, restore
from fedroam.sweep.local import TRIES
from fedroam.sweep.messages import Done, Failed, Message, RoundDone, RunTask, Stopped, TaskBegun
from fedroam.sweep.progress import Progress
from fedroam.sweep.sharing import DatasetFacts, arrays_of, describe, load_all, rebuild
from fedroam.sweep.worker import Setup, WorkerShare, do_run, one_thread, reason_of

TOKEN = ".token"  # in the sweep's folder while it runs: a node that can read it sees the folder
POLL = 0.3  # seconds between two looks at what has happened
PING = 0.5  # seconds between two questions of a task whether to stop


@dataclass(frozen=True)
class NodeSetup:
    """What every task needs besides its run.

    sources: names and texts of the files of own parts; modules: names of modules that define parts; root, token: the
    sweep's folder, and what its token file says; memory: bytes that a task may take, or None; track: names of trackers;
    versions: of what is installed where the sweep was started.
    """

    sources: tuple[tuple[str, str], ...]
    modules: tuple[str, ...]
    root: str
    token: str
    memory: int | None
    track: tuple[str, ...]
    versions: dict[str, str]


@dataclass(frozen=True)
class SharedDataset:
    """A data set in Ray's object store."""

    facts: DatasetFacts
    arrays: dict[str, np.ndarray]


@dataclass(frozen=True)
class Refused:
    """A node that cannot do runs of this sweep."""

    reason: str


# How a run ended, and its folder's files where the node does not see the folder.
Result = tuple[Done | Failed | Stopped | Refused, dict[str, bytes] | None]


def run_on_ray(
    tasks: Iterable[RunTask],
    on_message: Callable[[RunTask, Message], None],
    stop: Callable[[], bool],
    parts: Iterable[Part],
    setup: Setup,
    root: Path,
    address: str,
    workers: int,
    memory: float | None,
    progress: Progress,
) -> None:
    """Do the tasks as `local.WorkerPool.run` does, on a Ray cluster. memory: bytes for all runs in hand together.

    A worker process or a node that dies is Ray's business: the task is tried again, at most `TRIES` times in all.
    """
    ray = ray_module("--ray")
    ours = connect(ray, address, workers, "--ray")
    token = root / TOKEN
    try:
        capacity = max(int(ray.cluster_resources().get("CPU", 1)), 1)
        limit = min(workers, capacity) if workers else capacity
        progress.workers = limit
        stored: dict[str, Any] = {}

        def put(part: Part, dataset: Dataset) -> None:
            stored[name_of(part)] = ray.put(SharedDataset(describe(part, dataset), arrays_of(dataset)))

        load_all(parts, put)
        token.write_text(secrets.token_hex(16))
        node = _node_setup(setup, root, None if memory is None else int(memory / limit))
        board = ray.remote(MessageBoard).options(num_cpus=0, max_restarts=-1).remote()
        remote = ray.remote(_task).options(num_cpus=1, max_retries=TRIES - 1)

        def submit(task: RunTask) -> Any:
            return remote.remote(task, node, stored.get(task.data), board)

        _submit_all(ray, deque(tasks), submit, board, on_message, stop, limit if workers else 2 * limit)
    finally:
        token.unlink(missing_ok=True)
        if ours:
            ray.shutdown()


def _node_setup(setup: Setup, root: Path, memory: int | None) -> NodeSetup:
    sources = tuple((Path(file).name, Path(file).read_text(encoding="utf-8")) for file in setup.use)
    return NodeSetup(
        sources,
        setup.modules,
        str(root.resolve()),
        (root / TOKEN).read_text(),
        memory,
        setup.track,
        versions(),
    )


def _submit_all(
    ray: Any,
    waiting: deque[RunTask],
    submit: Callable[[RunTask], Any],
    board: Any,
    on_message: Callable[[RunTask, Message], None],
    stop: Callable[[], bool],
    window: int,
) -> None:
    """Keep up to `window` tasks submitted, and pass on what is heard of them."""
    submitted: dict[Any, RunTask] = {}
    begun: set[str] = set()
    stopped = False

    def begin(task: RunTask) -> None:
        if task.digest not in begun:
            begun.add(task.digest)
            on_message(task, TaskBegun())

    try:
        while waiting or submitted:
            if stop() and not stopped:
                stopped = True
                waiting.clear()
            while waiting and len(submitted) < window:
                task = waiting.popleft()
                submitted[submit(task)] = task
            if not submitted:
                break
            ready, _ = ray.wait(list(submitted), timeout=POLL)
            with contextlib.suppress(ray.exceptions.RayError):  # the board's node died: it will be back
                news: dict[str, News] = ray.get(board.collect.remote(stopped))
                for task in submitted.values():
                    if task.digest in news:
                        begin(task)
                        on_message(task, RoundDone(*news[task.digest]))
            for reference in ready:
                task = submitted.pop(reference)
                message = _result(ray, reference, task)
                if isinstance(message, Stopped) and task.digest not in begun:
                    continue
                begin(task)
                on_message(task, message)
    finally:
        for reference in submitted:  # only where something went wrong here
            with contextlib.suppress(ray.exceptions.RayError):
                ray.cancel(reference, force=True)


def _result(ray: Any, reference: Any, task: RunTask) -> Done | Failed | Stopped:
    """How a task ended; files that it sent are put into place. Raises InputError where its node has other versions."""
    try:
        result: Result = ray.get(reference)
    except ray.exceptions.WorkerCrashedError:
        return Failed(f"its worker died, {TRIES} times")
    except ray.exceptions.RayError as error:
        return Failed(brief(error))
    message, files = result
    if isinstance(message, Refused):
        raise InputError(f"--ray: {message.reason}")
    if files is not None:
        _store(Path(task.folder), files)
    return message


def _store(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a run folder of what a node sent; a kill leaves the old one, none, or the new one."""
    incoming, old = (folder.with_name(f".{kind}-{folder.name}") for kind in ("new", "old"))
    for left in (incoming, old):
        shutil.rmtree(left, ignore_errors=True)
    for name, content in files.items():
        (incoming / name).parent.mkdir(parents=True, exist_ok=True)
        (incoming / name).write_bytes(content)
    if folder.exists():
        folder.rename(old)
    incoming.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _task(task: RunTask, node: NodeSetup, data: SharedDataset | None, board: Any) -> Result:
    """Do a run on some node, in a worker process of Ray's."""
    import ray

    try:
        check_versions(node.versions, versions(), node_in_words())
    except InputError as error:
        return Refused(str(error)), None
    if ray.get(board.post.remote(task.digest, None)):
        return Stopped(), None
    try:
        one_thread()
        load_parts(node.sources, node.modules)
    except Exception as error:
        return Failed(reason_of(error)), None
    if data is not None:
        facts, arrays = data.facts, data.arrays
        offer(facts["part"], lambda: rebuild(facts, arrays))
    asked, answer, wanted = 0.0, None, False

    def stopping() -> bool:
        nonlocal asked, answer, wanted
        if answer is not None and ray.wait([answer], timeout=0)[0]:
            with contextlib.suppress(ray.exceptions.RayError):
                wanted = wanted or bool(ray.get(answer))
            answer = None
        if answer is None and time.monotonic() - asked > PING:
            asked, answer = time.monotonic(), board.post.remote(task.digest, None)
        return wanted

    last: Any = None

    def send(news: RoundDone) -> None:
        nonlocal last
        last = board.post.remote(task.digest, (news.round, news.accuracy))

    there = Path(node.root) / TOKEN
    seen = there.exists() and there.read_text() == node.token
    # A folder of this node's own is the same if the run is taken up here again.
    own = Path(tempfile.gettempdir()) / f"fedroam-{node.token[:16]}" / task.digest[:16]
    folder = Path(task.folder) if seen else own
    former = limit_memory(node.memory + RESERVED) if node.memory is not None else None
    try:
        result = do_run(
            replace(task, folder=str(folder)), send, stopping, WorkerShare(node.memory), node.track
        )
    finally:
        restore(former)
        forget()
    if last is not None:
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(last)  # the end is not to overtake the last round
    if seen or isinstance(result, Stopped):
        return result, None
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    shutil.rmtree(folder, ignore_errors=True)
    return result, files
