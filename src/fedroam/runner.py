"""The life of a run: its folder, its rounds, checkpoints, Ctrl-C, and the runs of a plan one after the other."""

from __future__ import annotations

import contextlib
import functools
import math
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from fedroam.checks.arguments import checked
from fedroam.clock import TIME
from fedroam.components import ours
from fedroam.data import forget
from fedroam.errors import FedroamError, InputError, own_line, told
from fedroam.execution import WorkersLost
from fedroam.experiment import Experiment
from fedroam.federation import judged_by
from fedroam.measurement import Measurement, RoundResult, evaluate
from fedroam.planning import Plan, PlannedRun
from fedroam.randomness import global_states
from fedroam.recording import (
    SIMULATION,
    Existing,
    Recorder,
    Run,
    code_facts,
    environment,
    file_facts,
    folder_at,
    gone_on,
    open_run,
    run_in,
    unchanged_data,
)
from fedroam.recording.models import DESCRIPTION, FILE
from fedroam.scene import Scene, describe, describe_input, partition_table, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State, final_models
from fedroam.terminal.interrupts import Interrupted, interrupts
from fedroam.tracking import End, TrackedRun, Tracker
from fedroam.tracking import begin as begin_tracking

TRIES = 3  # losses of workers with no checkpoint between them

Observer = Callable[[int, int, Measurement | None], None]


class RunEvents:
    """What happens in a run, for whoever follows it; this base takes notice of nothing."""

    def on_start(self, state: State) -> None:
        """The rounds of this session are about to begin, from a state that may come from a checkpoint."""

    def on_round(self, state: State, done: RoundResult, measurement: Measurement | None) -> None:
        """A round is over, round 0 being the start: what it did, and what was measured, if it was."""

    def on_checkpoint(self, state: State) -> None:
        """All up to this state is to be made safe."""

    def on_interrupt(self) -> None:
        """Ctrl-C ends the run here, after a checkpoint."""

    def on_end(self, state: State) -> None:
        """The last round is over, its checkpoint written."""


@checked(experiment="an Experiment, as plan(...).runs[0].experiment is one")
def run(
    experiment: Experiment,
    out: str | Path | None = None,
    *,
    existing: Existing = "resume",
    variant: str = "",
    order: int = 0,
    observer: Observer | None = None,
    on_interrupt: Callable[[], None] | None = None,
    facts: Mapping[str, Any] | None = None,
    checkpoint_pause: float = 0.0,
    trackers: Sequence[Tracker] = (),
    stage: Callable[[Experiment], Scene] = prepare,
    where: str = SIMULATION,
    cores: Callable[[], int] | None = None,
) -> Run:
    """Run an experiment into the folder `out` (default `runs/NAME-DIGEST/seed-SEED`) and return its run.

    A finished run of the same experiment is returned as it is; an unfinished one is continued (`existing =
    "resume"`), refused (`"refuse"`) or begun anew (`"replace"`). `observer(round, rounds, measurement)` is called
    after each round, with a measurement where one was made; `on_interrupt()` at the first Ctrl-C, which takes effect
    after the round (a second one stops at once). `checkpoint_pause` are the seconds that pass at least between two
    checkpoints, and before the first, however short the rounds. `trackers` are told what is measured, and how the run
    ended; one that fails on the way is left out with a warning, one that cannot begin stops the run. `stage` sets the
    scene; on a network, with a learner that asks others, and `where` says so. `cores()` is asked before each round with
    how many threads to compute from then on (None: as the engine's settings say). Raises InputError for wrong input,
    FedroamError where the run fails, Interrupted when Ctrl-C stopped it (a checkpoint is written first).
    """
    folder = Path(out) if out is not None else default_folder(experiment)
    status = {
        "format": 1,
        "name": experiment.name,
        "variant": variant,
        "order": order,
        "seed": experiment.seed,
        "digest": experiment.digest,
        "state": "running",
        "round": 0,
        "rounds": experiment.rounds,
        "diverged_at": None,
        "reason": "",
    }
    recorder = Recorder(folder, status)
    # On a network threads of libraries draw, too, for messages and not for models.
    draws = [_Draws()] if where == SIMULATION else []
    there = run_in(folder, experiment, existing)
    with contextlib.ExitStack() as held:
        held.callback(recorder.close)
        scene = None
        if there is None or not there.done:  # refuse bad input before writing
            scene = _prepared(experiment, stage, held)
        if there is not None and scene is not None:
            unchanged_data(there, scene.dataset.fingerprint)
            _unchanged_movement(there, scene)
        tracking = _Tracking()
        held.callback(tracking.close)
        if scene is not None:
            tracking.begin(TrackedRun(experiment, folder, variant), trackers)
        recorder.open(experiment.toml(), existing)
        if not recorder.finished:
            found = recorder.restore()  # a damaged checkpoint changes nothing
            scene = scene or _prepared(experiment, stage, held)
            untouched = _Untouched(scene)
            held.callback(untouched.let_go)
            followers: list[RunEvents] = [_Recording(scene, recorder), tracking, untouched, *draws]
            telling = _Telling(observer or _nobody, experiment.rounds)
            followers.append(telling)
            if cores is not None:
                followers.append(_Cores(scene, cores))
            with _as_failure(telling):
                try:
                    reached = 0 if found is None else found[0]
                    played = gone_on(_environment(folder), reached, experiment.rounds, where)
                    _record_scene(scene, recorder, {**(facts or {}), **played})
                    _play(scene, recorder, found, followers, on_interrupt or (lambda: None), checkpoint_pause)
                except Interrupted:
                    raise
                except (Exception, SystemExit) as error:
                    with contextlib.suppress(OSError):  # a full disk must not hide what went wrong
                        recorder.note(
                            state="failed", reason=f"{type(error).__name__}: {error}{own_line(error)}"[:500]
                        )
                    raise
    return open_run(folder)


@contextlib.contextmanager
def _as_failure(telling: _Telling | None = None) -> Iterator[None]:
    """What a part of one's own may raise within, also to end the program, is raised as a FedroamError that tells its
    file and line; what fedroam and the system raise, and the caller's observer, as it is."""
    try:
        yield
    except (FedroamError, OSError):
        raise
    except (Exception, SystemExit) as error:
        if telling is not None and error is telling.raised:
            raise
        raise FedroamError(told(error)) from error


def _nobody(round: int, rounds: int, measurement: Measurement | None) -> None:
    """Observes nothing."""


def _prepared(
    experiment: Experiment, stage: Callable[[Experiment], Scene], held: contextlib.ExitStack
) -> Scene:
    """The scene of an experiment, ready to compute; its learner is given back with what is held."""
    with _as_failure():
        scene = stage(experiment)
    held.callback(scene.learner.close)
    scene.learner.open()
    return scene


def _environment(folder: Path) -> dict[str, Any]:
    """What a run folder says of its machine; nothing before the run has begun."""
    return Run(folder).environment if (folder / "environment.json").exists() else {}


def _unchanged_movement(there: Run, scene: Scene) -> None:
    """Refuse to go on with a run where devices found out where they were without them, or the other way round."""
    begun = there.world.get("movement", "") if (there.folder / "world.json").exists() else None
    now = "" if scene.sight is None else scene.sight.by
    if begun is not None and begun != now:
        told = [
            f"movement by {each!r}" if each else "the movement of its experiment" for each in (begun, now)
        ]
        raise InputError(f"{there.folder}: was begun with {told[0]}, and would go on with {told[1]}")


class _Recording(RunEvents):
    """Writes the run folder."""

    def __init__(self, scene: Scene, recorder: Recorder) -> None:
        self.scene, self.recorder = scene, recorder
        self.last: State | None = None  # before the round that is played, as its timetable needs it

    @override
    def on_start(self, state: State) -> None:
        self.last = state
        # What clients are judged by, the headline first: what accuracy means in this run.
        scene = self.scene
        judged = list(judged_by(scene.parts.federation, state.models, state.federation, scene.context))
        held = {"models_at_rest": self.scene.experiment.models_at_rest} if self.scene.half else {}
        self.recorder.note(state="running", reason="", round=state.round, judged=judged, **held)

    @override
    def on_round(self, state: State, done: RoundResult, measurement: Measurement | None) -> None:
        scene, recorder, kept = self.scene, self.recorder, self.scene.experiment.record_movement
        if kept == "all" or (kept == "evaluated" and measurement is not None):
            positions, contacts = scene.movement_rows(state.round, done.meeting)
            recorder.add("positions", positions)
            recorder.add("contacts", contacts)
        last, self.last, first = self.last, state, scene.experiment.record_schedule
        if done.spans is not None and last is not None and first > 0:
            now = float(last.clock[TIME][0])
            recorder.add("schedule", done.spans().rows(state.round, first, now, last.battery, state.battery))
        if measurement is None:
            return
        recorder.add("rounds", {name: np.array([number]) for name, number in measurement.numbers.items()})
        recorder.add("clients", measurement.clients)
        matrices = scene.matrix_rows(state.round, state.federation)
        if matrices is not None:
            recorder.add("matrices", matrices)
        if (why := scene.learner.why_lost()) and not recorder.status.get("lost"):
            recorder.note(lost=why)
        if measurement.diverged and recorder.status["diverged_at"] is None:
            # Written at once: after the checkpoint it could be lost to a kill, and this round is not measured again.
            recorder.note(diverged_at=state.round)

    @override
    def on_checkpoint(self, state: State) -> None:
        self.recorder.checkpoint(state.round, state.arrays())

    @override
    def on_interrupt(self) -> None:
        self.recorder.made_safe()
        self.recorder.note(state="interrupted")

    @override
    def on_end(self, state: State) -> None:
        self.recorder.made_safe()
        keep = self.scene.experiment.keep_models
        if keep != "none":
            self.recorder.keep(FILE, final_models(self.scene, state, keep).write)
        told = self.scene.learner.told()
        if told:
            self.recorder.write("travel.json", told)
        self.recorder.finish()


class _Telling(RunEvents):
    """Tells the caller's observer of each round."""

    def __init__(self, observer: Observer, rounds: int) -> None:
        self.observer, self.rounds = observer, rounds
        self.raised: BaseException | None = None

    @override
    def on_round(self, state: State, done: RoundResult, measurement: Measurement | None) -> None:
        try:
            self.observer(state.round, self.rounds, measurement)
        except BaseException as error:
            self.raised = error
            raise


class _Cores(RunEvents):
    """Computes with as many threads as it is told, from the next round on."""

    def __init__(self, scene: Scene, cores: Callable[[], int]) -> None:
        self.learner, self.cores, self.used = scene.learner, cores, 0

    @override
    def on_start(self, state: State) -> None:
        self._use()

    @override
    def on_round(self, state: State, done: RoundResult, measurement: Measurement | None) -> None:
        self._use()

    def _use(self) -> None:
        wanted = self.cores()
        if wanted != self.used:
            self.used = wanted
            self.learner.use_cores(wanted)


class _Untouched(RunEvents):
    """Ends a run in which a part has written into what is everybody's and must not change: who holds which samples.
    Those arrays are not read-only, as torch warns of such when they become tensors. Of a run with parts of one's own
    the samples, too, which all runs of the process share."""

    def __init__(self, scene: Scene) -> None:
        context = scene.context
        own = any(not ours(part) for part in vars(scene.parts).values())
        self.dataset = scene.dataset if own else None
        self.samples = scene.dataset.sums() if own else ()
        self.arrays = {
            "train": context.train,
            "validation": context.validation,
            "access_points": (context.access_points,),
        }
        self.before, self.rounds = self._sums(), scene.experiment.rounds

    def _sums(self) -> dict[str, int]:
        return {
            name: functools.reduce(
                lambda crc, array: zlib.crc32(np.ascontiguousarray(array).data, crc), arrays, 0
            )
            for name, arrays in self.arrays.items()
        }

    @override
    def on_round(self, state: State, done: RoundResult, measurement: Measurement | None) -> None:
        if measurement is not None:
            self._look(state.round)

    @override
    def on_checkpoint(self, state: State) -> None:
        # Of the samples once, at the end: to sum them up takes longer than all else here.
        self._look(state.round, state.round == self.rounds and self._spoiled())

    def let_go(self) -> None:
        """However the run has ended: what was spoiled is read anew by the next one that needs it."""
        if self._spoiled():
            forget()

    def _spoiled(self) -> bool:
        return self.dataset is not None and self.dataset.sums() != self.samples

    def _look(self, last: int, spoiled: bool = False) -> None:
        # Not in each round, where it would take some hundredths of one: nothing leaves a run but what is measured and
        # its checkpoints, and none may hold what came of it.
        now = self._sums()
        changed = [f"context.{name}" for name, crc in self.before.items() if now[name] != crc]
        if spoiled:
            changed.append("the samples of the data set")
        if changed:
            raise FedroamError(
                f"a part of this run has written into {' and '.join(changed)} by round {last}, which belongs to all of "
                "them and does not change in a run: work on a copy (array.copy())"
            )


class _Draws(RunEvents):
    """Says so, once, where a part draws from a generator that the seed does not set: then runs differ by chance."""

    def __init__(self) -> None:
        self.before = global_states()

    @override
    def on_round(self, state: State, done: RoundResult, measurement: Measurement | None) -> None:
        if measurement is None or not self.before:
            return
        now = global_states()
        changed = [name for name, each in now.items() if self.before.get(name, each) != each]
        if changed:
            self.before = {}
            warnings.warn(
                f"something in this run draws from (or seeds) the global generator of {' and '.join(changed)}, which "
                f"the seed does not reach: the same run may give other numbers next time. A part of one's own draws "
                f"from fedroam.randomness.stream(seed, 'NAME', round, client)",
                stacklevel=2,
            )


class _Tracking(RunEvents):
    """Tells trackers of each evaluated round, and of the end. What they raise costs the tracker, not the run."""

    def __init__(self) -> None:
        self.left: list[Tracker] = []

    def begin(self, run: TrackedRun, trackers: Sequence[Tracker]) -> None:
        """Start trackers. Raises InputError where one cannot begin."""
        for tracker in trackers:
            begin_tracking(tracker, run)
            self.left.append(tracker)

    @override
    def on_round(self, state: State, done: RoundResult, measurement: Measurement | None) -> None:
        if measurement is not None and self.left:
            numbers = measurement.numbers.items()
            values = {k: float(each) for k, each in numbers if k != "round" and not math.isnan(each)}
            self._each(lambda tracker: tracker.log(state.round, values))

    @override
    def on_interrupt(self) -> None:
        self._end("interrupted")

    @override
    def on_end(self, state: State) -> None:
        self._end("done")

    def close(self) -> None:
        """Whoever was not told of an end is told that the run failed."""
        self._end("failed")

    def _end(self, state: End) -> None:
        self._each(lambda tracker: tracker.end(state))
        self.left = []

    def _each(self, tell: Callable[[Tracker], None]) -> None:
        for tracker in list(self.left):
            try:
                tell(tracker)
            except Exception as error:
                self.left.remove(tracker)
                name = type(tracker).__name__
                warnings.warn(
                    f"{name} is told no more of this run: {type(error).__name__}: {error}", stacklevel=2
                )


def _rounds(scene: Scene, state: State, begun: bool) -> Iterator[tuple[State, RoundResult]]:
    """The rounds that are left, with what happened in each: round 0 among them where the run has not begun."""
    if not begun:
        yield state, RoundResult.nothing(state.meeting)
    while state.round < scene.experiment.rounds:
        state, done = play_round(scene, state)
        yield state, done


def _play(
    scene: Scene,
    recorder: Recorder,
    found: tuple[int, dict[str, np.ndarray]] | None,
    followers: Sequence[RunEvents],
    on_interrupt: Callable[[], None],
    pause: float,
) -> None:
    """All rounds that are left (after the checkpoint `found`), with measurements and checkpoints.

    Where workers are lost they are replaced, and the rounds since the last checkpoint are played again.
    """
    recording, *others = followers
    reached, losses = -1 if found is None else found[0], 0
    with interrupts(on_interrupt) as interrupted:
        while True:
            played = _Session(scene, recorder, recording, others, interrupted, pause, reached)
            try:
                played.play(found)
                return
            except WorkersLost as lost:
                losses = 1 if played.saved else losses + 1
                if losses == TRIES:
                    raise FedroamError(f"{lost}, {TRIES} times without a checkpoint between them") from None
                warnings.warn(
                    f"{lost}; it is replaced, and the run goes on from its last checkpoint", stacklevel=2
                )
                scene.learner.renew()
                reached, found = played.reached, recorder.restore()


class _Session:
    """The rounds of a run from a checkpoint on, as long as no worker is lost.

    others: followers besides the recording, who are told nothing of rounds up to `reached`: they have been told. saved:
    whether a checkpoint was written.
    """

    def __init__(
        self,
        scene: Scene,
        recorder: Recorder,
        recording: RunEvents,
        others: Sequence[RunEvents],
        interrupted: Callable[[], bool],
        pause: float,
        reached: int,
    ) -> None:
        self.scene, self.recorder, self.interrupted, self.pause = scene, recorder, interrupted, pause
        self.recording, self.others = recording, others
        self.reached, self.saved = reached, False

    def play(self, found: tuple[int, dict[str, np.ndarray]] | None) -> None:
        """Play all that are left after a checkpoint."""
        scene, recorder = self.scene, self.recorder
        experiment, rounds = scene.experiment, scene.experiment.rounds
        state = begin(scene) if found is None else State.of(*found, scene)
        followers = [self.recording, *self.others]
        for each in followers:
            each.on_start(state)
        began = time.perf_counter() - recorder.seconds_so_far()
        saved = time.perf_counter()
        for state, done in _rounds(scene, state, begun=found is not None):  # noqa: B020  (it begins with it)
            t, measurement = state.round, None
            if t % experiment.evaluate_every == 0 or t == rounds:
                measurement = evaluate(scene, state, done, time.perf_counter() - began)
            for each in followers if t > self.reached else [self.recording]:
                each.on_round(state, done, measurement)
            self.reached = max(self.reached, t)
            due = t % experiment.checkpoint_every == 0 and time.perf_counter() - saved >= self.pause
            # Asked once: Ctrl-C after the checkpoint is for the next round.
            leaving = t > 0 and self.interrupted()
            # What has just begun is begun again as soon as it is gone on with.
            if due or (t == 0 and not self.pause) or t == rounds or leaving:
                # Who finds something wrong keeps it from being written.
                for each in (*self.others, self.recording):
                    each.on_checkpoint(state)
                saved, self.saved = time.perf_counter(), True
            if leaving and t < rounds:
                for each in followers:
                    each.on_interrupt()
                where = f"{recorder.folder} holds a checkpoint"
                raise Interrupted(f"stopped after round {t} of {rounds}; {where}")
        for each in followers:
            each.on_end(state)


def _record_scene(scene: Scene, recorder: Recorder, facts: Mapping[str, Any]) -> None:
    """The facts of the run that do not change: machine, world, who holds what."""
    ran = {
        "computed": list(scene.learner.notes),
        "data": scene.data_facts(),
        "files": file_facts(scene.experiment),
        "code": code_facts(scene.experiment),
    }
    recorder.write("environment.json", {**environment(), **facts, **ran})
    recorder.write("world.json", describe(scene))
    recorder.write(DESCRIPTION, describe_input(scene))
    recorder.write_table("partition.parquet", partition_table(scene))


def default_folder(experiment: Experiment) -> Path:
    """`runs/NAME-DIGEST/seed-SEED`; the digest is that of seed 0, so that the seeds of a study lie together."""
    family = experiment.replace(seed=0).digest
    return Path("runs") / f"{experiment.name}-{family[:8]}" / f"seed-{experiment.seed}"


@checked(plan="what plan(...) gives")
def run_plan(
    plan: Plan,
    out: str | Path | None = None,
    *,
    existing: Existing = "resume",
    observer: Callable[[PlannedRun], Observer] | None = None,
    on_interrupt: Callable[[], None] | None = None,
    facts: Mapping[str, Any] | None = None,
    trackers: Callable[[], Sequence[Tracker]] = tuple,
) -> list[Run]:
    """Run every run of a plan, one after the other, into folders below `out` (default `plan.folder`).

    Every folder and every variant's settings are checked before the first run begins. `observer(planned)` is
    asked for the observer of each run when its turn comes (and never called for a run that is finished already), and
    `trackers()` for its trackers.
    Raises what `run` does; Interrupted, too, where Ctrl-C came in the last round of a run that others follow.
    """
    root = Path(out) if out is not None else plan.folder
    check_plan(plan, root, existing)
    runs: list[Run] = []
    stopping = False

    def note() -> None:
        nonlocal stopping
        stopping = True
        if on_interrupt is not None:
            on_interrupt()

    for order, planned in enumerate(plan.runs):
        if stopping:
            raise Interrupted(f"stopped after {order} of {len(plan.runs)} runs; {root} holds them")
        done = run(
            planned.experiment,
            root / planned.folder,
            existing=existing,
            variant=planned.variant,
            order=order,
            observer=observer(planned) if observer else None,
            on_interrupt=note,
            facts=facts,
            trackers=trackers(),
            stage=partial(_staged, plan, planned.variant),
        )
        runs.append(done)
    return runs


def check_plan(plan: Plan, root: Path, existing: Existing) -> None:
    """Refuse what cannot be run before anything is written or computed. Raises InputError."""
    if folder_at(root):
        if (root / "run.json").exists():
            raise InputError(
                f"{root}: is the folder of a single run, a plan needs its own; choose another --out"
            )
        own = {planned.folder.partition("/")[0] for planned in plan.runs}
        visible = [path.name for path in root.iterdir() if not path.name.startswith(".")]
        ours = [*root.glob("*/run.json"), *root.glob("*/*/run.json")]
        if not ours and any(name not in own for name in visible):
            raise InputError(f"{root}: not empty and holds no run of fedroam; choose another --out")
    fresh: dict[str, Experiment] = {}
    for planned in plan.runs:
        experiment, folder = planned.experiment, root / planned.folder
        there = run_in(folder, experiment, existing)
        if there is None or not there.done:
            fresh.setdefault(planned.variant, experiment)
    if len(fresh) > 1:  # a single one is prepared at once anyway
        for variant, experiment in fresh.items():
            _staged(plan, variant, experiment).learner.close()


def _staged(plan: Plan, variant: str, experiment: Experiment) -> Scene:
    """The scene of a run of a plan; an error of the user's begins with the plan's file and the run's variant."""
    try:
        return prepare(experiment)
    except InputError as error:
        told = [plan.source] * bool(plan.source) + [f"variant {variant!r}"] * bool(variant)
        raise InputError(": ".join([*told, str(error)])) from None
