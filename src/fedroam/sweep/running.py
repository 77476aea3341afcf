"""`run_sweep`: every run of a sweep, on this machine or over a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedroam.checks.arguments import checked
from fedroam.data import forget, name_of
from fedroam.errors import FedroamError, InputError
from fedroam.execution.cluster import check_cluster
from fedroam.learning import device_of
from fedroam.learning.cpu.workers import MOST_WORKERS, cores
from fedroam.planning import SweepPlan, SweepRun
from fedroam.planning.own_parts import modules_of
from fedroam.recording import Run, folder_at, lock_folder, unchanged_files
from fedroam.sweep.estimate import RoughCost, groups_of, rough_costs, single_worker
from fedroam.sweep.folder import FILE, RUNS, SOURCE, Ledger, Sweep, check_digest, open_sweep, run_folder
from fedroam.sweep.fork_server import warm_up
from fedroam.sweep.limits import GIB, SPARE, available_memory
from fedroam.sweep.local import WorkerPool
from fedroam.sweep.messages import Again, Done, Failed, Message, RoundDone, RunTask, Stopped, TaskBegun
from fedroam.sweep.progress import Observer, Progress
from fedroam.sweep.scale import one_scale
from fedroam.sweep.sharing import offer_shared, write_shared
from fedroam.sweep.worker import Setup
from fedroam.terminal.interrupts import Interrupted, interrupts
from fedroam.tracking import check_trackers
from fedroam.writing import half_written

SHARED = ".data"  # the data of the runs in hand, below the sweep's folder; gone when the sweep ends


@checked(plan="what sweep_plan(...) gives")
def run_sweep(
    plan: SweepPlan,
    out: str | Path | None = None,
    *,
    workers: int = 0,
    memory_gib: float | None = None,
    ray: str | None = None,
    observer: Observer | None = None,
    on_interrupt: Callable[[], None] | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    only: Collection[str] | None = None,
    track: Sequence[str] = (),
) -> Sweep:
    """Compute every run of a sweep that is not finished, and return the sweep, whatever became of its runs.

    out: its folder (default `plan.folder`). Finished runs there are not run again, unfinished ones go on from their
    checkpoint, failed ones stay as they are unless `retry_failed`; `fresh` begins all anew. workers: runs at a time,
    one core each (0: one a core of this machine, fewer where memory is short); where there are fewer runs than that,
    they share the cores. memory_gib: what all workers may take
    together (default nine tenths of what is free), an equal share for each; a run that needs more fails alone. ray: the
    address of a Ray cluster, or "local" for one on this machine (workers 0: all its cores). observer(progress, event)
    is called in this process, see `sweep.progress`. only: digests of the runs to compute now, the others wait; the
    folder may then hold any other runs, too, as that of a study does whose items are run one by one. track: names of
    trackers that every run's numbers are told to (`tracking.TRACKERS`).

    Where access points vary, all runs measure LTE by one scale (see `one_scale`), unless `only` is given.

    A run that raises is recorded as failed with its reason and does not stop the others; one whose worker dies is
    tried three times. Raises Interrupted after Ctrl-C (workers write checkpoints first; a second one stops at once,
    KeyboardInterrupt), InputError for a folder or settings that make no sense. On Linux, macOS and Windows a script
    that calls this must do so below `if __name__ == "__main__":`.
    """
    check_workers(workers, ray)
    if memory_gib is not None and not memory_gib > 0:
        raise InputError(f"memory = {memory_gib:g} GiB: allowed is more than 0")
    check_trackers(track)
    if only is None:
        plan = one_scale(plan)
    root = Path(out) if out is not None else plan.folder
    chosen = plan
    if only is not None:
        chosen = replace(plan, runs=tuple(run for run in plan.runs if run.experiment.digest in only))
    of_any = only is not None
    if ray is None:
        _check_devices(chosen, root)
    elif _looked_through(plan, chosen, root, fresh, of_any, retry_failed)[1]:
        check_cluster(ray, "--ray")
    with _locked(root, plan, fresh, of_any) as ledger:
        todo = unfinished(chosen, root, ledger, retry_failed)
        ledger.write()
        if todo:
            watch, stopping = observer or (lambda *_: None), on_interrupt or (lambda: None)
            _compute(chosen, root, ledger, todo, workers, memory_gib, ray, watch, stopping, tuple(track))
    return open_sweep(root)


def check_workers(workers: int, ray: str | None = None) -> None:
    """Raise InputError where there cannot be so many workers, or a cluster of that address."""
    if workers < 0 or (ray is None and workers > MOST_WORKERS):
        raise InputError(f"workers = {workers}: allowed are 0 (one a core) to {MOST_WORKERS}, more with ray")
    if ray is not None and not ray.strip():
        raise InputError(f"ray = {ray!r}: allowed is the address of a Ray cluster, or local")


def _check_devices(plan: SweepPlan, root: Path) -> None:
    """Raise InputError, before anything is written, where runs that are not done need a device that is not here."""
    for digest, run in plan.distinct.items():
        folder = run_folder(root, digest)
        done = (folder / "run.json").exists() and Run(folder).done
        if run.experiment.device != "cpu" and not done:
            device_of(run.experiment.device)


def unfinished(plan: SweepPlan, root: Path, ledger: Ledger, retry_failed: bool) -> dict[str, SweepRun]:
    """The distinct runs of a plan that are to be computed, by digest. Those tried again lose their old failure."""
    records = ledger.content["records"]
    todo = {}
    for digest, run in plan.distinct.items():
        record = records.get(digest, {})
        failed = record.get("state") == "failed"
        if record.get("anew"):
            if not failed or retry_failed:
                records[digest] = {"anew": True}
                todo[digest] = run
            continue
        folder = run_folder(root, digest)
        there, begun = Run(folder), (folder / "run.json").exists()
        if begun:
            check_digest(there, digest)
        if begun and there.done:
            unchanged_files(there, run.experiment)
            records[digest] = {**record, "state": "done", "reason": ""}
        elif failed and not retry_failed:
            continue
        else:
            spent = (ledger.spent(digest) or recorded_seconds(there)) if begun else 0.0
            records[digest] = {"cpu_seconds_before": spent} if spent else {}
            todo[digest] = run
    return todo


def recorded_seconds(run: Run) -> float:
    """Seconds by the clock of the rounds that a run has recorded: of one that was killed, the only thing that is known
    of what was spent on it. 0 where that cannot be read."""
    try:
        return float(run.rounds["seconds"].max()) if len(run.rounds) else 0.0
    except FedroamError:
        return 0.0


def _compute(
    plan: SweepPlan,
    root: Path,
    ledger: Ledger,
    todo: dict[str, SweepRun],
    workers: int,
    memory_gib: float | None,
    ray: str | None,
    observer: Observer,
    on_interrupt: Callable[[], None],
    track: tuple[str, ...],
) -> None:
    """Compute the runs of a plan that are to be computed (see `run_sweep`)."""
    parts = [run.experiment.data for run in todo.values()]
    records = ledger.content["records"]
    shutil.rmtree(root / SHARED, ignore_errors=True)  # a killed sweep may have left it
    try:
        with interrupts(on_interrupt) as interrupted:
            if ray is None:
                warm_up()
                write_shared(root / SHARED, parts)
                offer_shared(root / SHARED)
            costs = rough_costs(todo)
            order = {digest: k for k, digest in enumerate(plan.distinct)}
            anew = {digest for digest, record in records.items() if record.get("anew")}
            # Longest first: a long run begun last would leave the other workers idle at the end.
            tasks = [
                task_of(todo[digest], digest, root, order[digest], digest in anew)
                for digest in sorted(todo, key=lambda digest: (-costs[digest].seconds, order[digest]))
            ]
            progress = Progress(
                total=len(plan.distinct),
                reused=sum(records[digest].get("state") == "done" for digest in plan.distinct),
                costs={digest: cost.seconds for digest, cost in costs.items()},
                groups={digest: groups_of(run.experiment) for digest, run in todo.items()},
            )
            news = _Listener(ledger, progress, observer)
            modules = tuple(modules_of(run.experiment for run in todo.values()))
            setup = Setup(plan.use, modules, track=track)
            if ray is not None:
                from fedroam.sweep.cluster import run_on_ray

                share = None if memory_gib is None else memory_gib * GIB
                run_on_ray(
                    tasks, news.on_message, interrupted, parts, setup, root, ray, workers, share, progress
                )
            else:
                count, budget = pool_size(workers, memory_gib, len(tasks), costs.values())
                progress.workers = count
                setup = replace(setup, data=str(root / SHARED), memory=budget)
                pool = WorkerPool[RunTask](count, setup, min(workers or cores(), cores()))
                pool.run(tasks, news.on_message, interrupted)
            left = sum(records.get(d, {}).get("state") not in ("done", "failed") for d in todo)
            if interrupted() and left:
                raise Interrupted(
                    f"stopped with {left} of {len(plan.distinct)} runs unfinished; {root} holds the rest"
                )
    finally:
        forget()
        shutil.rmtree(root / SHARED, ignore_errors=True)
        ledger.write()


def task_of(run: SweepRun, digest: str, root: Path, order: int, anew: bool) -> RunTask:
    """What a worker is told of a run."""
    experiment = single_worker(run.experiment)
    return RunTask(
        digest=digest,
        toml=experiment.toml(),
        folder=str(run_folder(root, digest).resolve()),
        existing="replace" if anew else "resume",
        title=run.title,
        order=order,
        rounds=experiment.rounds,
        seed=experiment.seed,
        data=name_of(experiment.data),
    )


@dataclass(frozen=True)
class _Listener:
    """Keeps the ledger and the progress up to date with what workers say."""

    ledger: Ledger
    progress: Progress
    observer: Observer

    def on_message(self, task: RunTask, message: Message) -> None:
        """Note the news of a task, and tell the observer."""
        digest, ledger, progress = task.digest, self.ledger, self.progress
        match message:
            case TaskBegun():
                name = f"{task.title}, seed {task.seed}" if task.title else f"seed {task.seed}"
                event = progress.begin(digest, name, task.rounds)
            case RoundDone():
                if task.existing == "replace":  # it has been; from here on a new worker goes on with it
                    task.existing = "resume"
                    ledger.note(digest, now=True, anew=False, cpu_seconds_before=0.0)
                event = progress.advance(digest, message.round, message.accuracy)
            case Done(seconds, cpu_seconds):
                took, used = round(seconds, 3), round(ledger.spent(digest) + cpu_seconds, 3)
                ledger.note(digest, state="done", reason="", anew=False, seconds=took, cpu_seconds=used)
                event = progress.end(digest, "done")
            case Failed(reason):
                unbegun = task.existing == "replace"  # its folder still holds what was to be replaced
                ledger.note(digest, now=True, state="failed", reason=reason, anew=unbegun)
                event = progress.end(digest, "failed", reason)
            case Again(reason):
                event = progress.end(digest, "again", reason)
            case Stopped(cpu_seconds):
                spent = round(ledger.spent(digest) + cpu_seconds, 3)
                ledger.note(digest, now=True, cpu_seconds_before=spent)
                event = progress.end(digest, "interrupted")
            case _:
                event = progress.end(digest, "interrupted")
        self.observer(progress, event)


def pool_size(
    workers: int, memory_gib: float | None, tasks: int, costs: Iterable[RoughCost]
) -> tuple[int, int | None]:
    """How many workers, and the bytes that each may take (None: unknown, so unlimited).

    Unless told how many, fewer than cores where the largest run's models would not fit into an equal share.
    """
    memory = None if memory_gib is None else memory_gib * GIB
    if memory is None:
        free = available_memory()
        memory = None if free is None else SPARE * free
    count = min(workers or cores(), tasks)
    largest = max((cost.memory for cost in costs), default=0.0)
    if memory is not None and not workers and largest > 0:
        count = min(count, max(int(memory / largest), 1))
    return count, None if memory is None else int(memory / count)


@contextlib.contextmanager
def _locked(root: Path, plan: SweepPlan, fresh: bool, of_any: bool = False) -> Iterator[Ledger]:
    """The sweep's folder, made if need be and locked, with its ledger; of_any: whatever sweep it holds."""
    check_folder(root, plan, fresh or of_any)  # before anything is written
    with lock_folder(root, "working on this sweep"):
        records = check_folder(root, plan, fresh or of_any)  # another process may have ended just before
        (root / RUNS).mkdir(exist_ok=True)
        for left in (root / RUNS).glob(".*-*"):  # of a kill while a distant node's run was put into place
            shutil.rmtree(left, ignore_errors=True)
        if fresh:
            records = {digest: {"anew": True} for digest in plan.distinct}
        ledger = Ledger(root, plan, records)
        if plan.source:
            ledger.write_source(plan.source)
        yield ledger


def check_folder(root: Path, plan: SweepPlan, fresh: bool) -> dict[str, dict[str, object]]:
    """What the ledger of a folder says of runs; refuses a folder that is not for this sweep. Writes nothing."""
    if not folder_at(root):
        return {}
    if os.path.lexists(root / RUNS) and not (root / RUNS).is_dir():
        raise InputError(
            f"{root / RUNS}: is a file; a sweep keeps its runs in a folder of that name: move it away, or choose "
            "another --out"
        )
    if not (root / FILE).exists():
        # What else lies in it, such as a figure, does not matter where a run of this very sweep tells whose it is.
        if not any((run_folder(root, digest) / "run.json").is_file() for digest in plan.distinct):
            strange = [
                path.name
                for path in root.iterdir()
                if path.name not in (RUNS, SOURCE, ".lock", ".token", SHARED)
            ]
            if any(not half_written(name) for name in strange) or (root / "run.json").exists():
                raise InputError(f"{root}: not empty and not the folder of a sweep; choose another --out")
        return {}
    there = open_sweep(root)
    digests = {row["digest"] for row in there.info["runs"]}
    if not fresh and digests.isdisjoint(plan.distinct) and there.info["runs"]:
        raise InputError(
            f"{root}: holds another sweep ({there.name}, {len(digests)} runs, none of which is asked for here); choose "
            "another --out, or --fresh to replace it"
        )
    return dict(there.info["records"])


def _looked_through(
    plan: SweepPlan, chosen: SweepPlan, root: Path, fresh: bool, of_any: bool, retry_failed: bool
) -> tuple[Ledger, dict[str, SweepRun]]:
    """The ledger as it would be, and those of the chosen runs that are to be computed. Writes nothing."""
    records = check_folder(root, plan, fresh or of_any)
    if fresh:
        records = {digest: {"anew": True} for digest in plan.distinct}
    ledger = Ledger(root, plan, records)
    return ledger, unfinished(chosen, root, ledger, retry_failed)


Rows = list[tuple[Mapping[str, object], int, str, str]]


def dry_run(
    plan: SweepPlan, root: Path, *, fresh: bool = False, retry_failed: bool = False
) -> tuple[Rows, dict[str, SweepRun]]:
    """What `run_sweep` would do, without doing it: (keys, seed, short digest, state) of each row of the plan, and
    the runs to be computed by digest. Writes nothing; raises InputError where the folder would be refused."""
    ledger, todo = _looked_through(plan, plan, root, fresh, False, retry_failed)
    states = {
        digest: "to be computed" if digest in todo else str(ledger.content["records"][digest]["state"])
        for digest in plan.distinct
    }
    rows: Rows = []
    seen: set[str] = set()
    for run in plan.runs:
        digest = run.experiment.digest
        state = "same run as above" if digest in seen else states[digest]
        seen.add(digest)
        rows.append((run.keys, run.experiment.seed, digest[:16], state))
    rows += [(row.keys, row.seed, "", "refused") for row in plan.refused]
    return rows, todo
