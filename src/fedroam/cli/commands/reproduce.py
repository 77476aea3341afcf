"""`fedroam reproduce`: run what a study needs, and judge it."""

from __future__ import annotations

import math
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedroam.cli import options
from fedroam.cli.console import FAILED, grid, out, say, tell, writing
from fedroam.cli.going_on import Given, command, going_on
from fedroam.cli.progress import duration
from fedroam.cli.sweep_progress import by_reason, measured_costs, sweep_progress
from fedroam.errors import FedroamError, InputError, one_line, unknown
from fedroam.terminal.interrupts import Interrupted

if TYPE_CHECKING:
    from fedroam.analysis.statistics.verdicts import Verdict
    from fedroam.cli.study_runs import StudyRuns
    from fedroam.recording import Run
    from fedroam.study import Item, Study
    from fedroam.study.evaluation import StudyResult
    from fedroam.study.values import Measure, Reader
    from fedroam.sweep import Sweep


SILENCE = 10.0  # seconds of reading runs after which a line tells what is read


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAPER]",
            help="A study that comes with fedroam, or a Python file that defines STUDY; without it, all are listed.",
        ),
    ] = None,
    item: Annotated[
        str | None,
        typer.Argument(
            metavar="[ITEM]",
            help="Only this table, search, figure or claim, or all claims, tables, searches or figures. (default: all)",
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            metavar="quick|full|NAME",
            help="How large: quick is cut to fit two cores, full is the paper's size; or another scale that the "
            "study names.",
        ),
    ] = "quick",
    seeds: Annotated[
        int | None, typer.Option(metavar="K", help="Run K seeds of each variant. (default: the study's)")
    ] = None,
    folder: Annotated[
        str | None,
        options.place("--out", metavar="DIR", help="Where all of it goes. (default: studies/PAPER/SCALE)"),
    ] = None,
    records: Annotated[
        str | None,
        options.place(
            metavar="DIR",
            help="Keep in DIR what the study asks of each run, and compute no run that is kept there.",
        ),
    ] = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help="Add seeds, with looks at 4, 6, 9, 13 and 20, until each claim asked is decided or hopeless.",
        ),
    ] = False,
    hours: Annotated[
        float | None,
        typer.Option(
            metavar="H", help="Stop computing after H hours; the same command goes on. (default: no limit)"
        ),
    ] = None,
    workers: options.Workers = 0,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Spread the runs over a Ray cluster (local, auto, HOST:PORT)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only measure what the missing runs will cost.")
    ] = False,
    judge_only: Annotated[
        bool, typer.Option("--judge-only", help="Run nothing; judge the runs that there are.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed runs again.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Reproduce a paper: our numbers beside the paper's, and a verdict on each of its claims.

    Runs what is missing for the item asked, several runs at a time; finished runs are used again. Ctrl-C leaves
    checkpoints, and the same command goes on. Writes study.html, cells.csv, claims.csv, study.json and figures.
    Without PAPER: lists studies, their items, what they cost and what has been run.
    """
    from fedroam.analysis.statistics.looks import LOOKS
    from fedroam.cli.study_runs import StudyRuns
    from fedroam.papers.library import find_study, studies
    from fedroam.study.files import make_files

    if paper is None:
        known = studies()
        if not any(scale in study.scales for study in known.values()):
            raise unknown("scale", scale, {name for study in known.values() for name in study.scales})
        for study in known.values():
            if scale in study.scales:
                _list(StudyRuns(study, scale, seeds, folder, ()))
            else:
                say(f"{study.name}: has no scale {scale}, only {', '.join(study.scales)}")
        say("fedroam reproduce PAPER [ITEM] runs what is missing and judges it")
        return
    study, use = find_study(paper)
    items = _asked(study, item, scale)
    if hours is not None and not hours > 0:
        raise InputError(f"--hours {hours:g}: allowed is a number above 0")
    if until_decided and seeds is not None:
        raise InputError("--until-decided: plans its numbers of seeds; leave out --seeds")
    if until_decided and not any(each.kind == "claim" for each in items):
        raise InputError(f"--until-decided: {item} is no claim")
    options_given: dict[str, Given] = {"--scale": scale, "--seeds": seeds, "--out": folder}
    options_given |= {"--records": records, "--hours": hours, "--workers": workers or None, "--ray": ray}
    asked = [*([item] if item else []), *(["--until-decided"] if until_decided else [])]
    again = command("reproduce", paper, *asked, options=options_given)
    ends = monotonic() + 3600 * hours if hours else math.inf
    wave = Wave(workers, ray, retry_failed, quiet, again, ends)
    if until_decided:
        seeds = LOOKS[-1]
    work = StudyRuns(study, scale, seeds, folder, use, records)
    if work.warning:
        tell(one_line(f"note: {work.warning}"))
    if until_decided and not (judge_only or dry_run):
        grown = _grown(study, items, (scale, folder, use, records), wave)
        # Other claims may have grown further before: they are judged by all that is there.
        seeds = max(grown, StudyRuns(study, scale, seeds, folder, use, records).reached)
        work = StudyRuns(study, scale, seeds, folder, use, records)
    wanted = work.needed(items)
    for line in make_files(
        study, (work.experiments[which] for which, key in work.keys.items() if key in wanted)
    ):
        say(line)
    work.check(items)
    missing = work.missing(items)
    if dry_run:
        _list(work)
        _dry_run(work, missing, workers)
        return
    if missing and not judge_only and not until_decided:
        wave.compute(work, missing)
    failed = wave.failed
    _judge(work, items, LOOKS if until_decided else work.looks, again, wave.reading)
    if failed:
        for line in by_reason(failed):
            tell(one_line(f"failed: {line}"))
        tell(f"error: {len(failed)} runs failed; after mending what is wrong: --retry-failed")
        raise typer.Exit(FAILED)


def _asked(study: Study, item: str | None, scale: str) -> list[Item]:
    """The items that are asked for: all, those of a kind that the scale can show (`claims`), or one."""
    kinds = {"claims": "claim", "tables": "table", "searches": "search", "figures": "figure"}
    if item is None:
        return list(study.items.values())
    if item in study.items or item not in kinds:
        return [study.item(item)]
    found = [one for one in study.items.values() if one.kind == kinds[item]]
    return [one for one in found if one.partial or study.can(one, scale)]


class Reading:
    """Evaluates a study, look after look: a measure of a run is computed once, and what takes long is told of.

    Some measures play a run again, so that a study may be read for minutes.
    """

    def __init__(self, quiet: bool, clock: Callable[[], float] = monotonic) -> None:
        from fedroam.study.values import Computed

        self._quiet, self._clock, self._told = quiet, clock, -math.inf
        self._computed = Computed(self._begin)

    def evaluate(self, work: StudyRuns, looks: tuple[int, ...]) -> StudyResult:
        """All that the runs say so far, at the looks."""
        from fedroam.study.evaluation import evaluate_study

        self._told = self._clock()
        self._computed.known = {work.folder(key): run for key, run in work.kept.runs.items()}
        return evaluate_study(work.study, work.scale, range(work.seeds), work.find, looks, self._computed)

    def _begin(self, run: Run, measure: Measure) -> None:
        if not self._quiet and self._clock() - self._told >= SILENCE:
            tell(one_line(f"reading {run.status['variant']}, seed {run.status['seed']}: {measure.name}"))
            self._told = self._clock()


@dataclass
class Wave:
    """How missing runs are computed, until when (monotonic seconds), and which failed so far: titles and why.

    looked: the seeds of the last look that was taken while the study grows, 0 before the first.
    """

    workers: int
    ray: str | None
    retry_failed: bool
    quiet: bool
    again: str
    ends: float
    failed: list[tuple[str, str]] = field(default_factory=list)
    looked: int = 0

    def __post_init__(self) -> None:
        self.reading = Reading(self.quiet)

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return monotonic() >= self.ends

    def compute(self, work: StudyRuns, missing: set[str]) -> None:
        """Compute the missing runs: those that are simulated side by side, then those on a network one by one.

        Ctrl-C keeps what is finished by then, where runs are kept, and ends the program.
        """
        simulated = missing & work.plan.distinct.keys()
        with going_on(self.again):
            try:
                if simulated:
                    self._sweep(work, simulated)
                for which, key in work.keys.items():
                    if key in missing - simulated and not self.over:
                        self._emulate(work, which, key)
            except (Interrupted, KeyboardInterrupt):
                work.forget()
                _keep_finished(work, self.again, self.looked, self.reading)
                raise
        work.forget()
        if self.over:
            say(f"the time is over; the same command goes on: {self.again}")

    def _emulate(self, work: StudyRuns, which: tuple[str, int], key: str) -> None:
        """Play a run by the nodes of a site on this machine, paced, and hold it against its simulation."""
        from fedroam.analysis.agreement import keep_agreement
        from fedroam.cli.progress import progress
        from fedroam.deploy.emulation import emulate
        from fedroam.planning import Plan, PlannedRun
        from fedroam.runner import run

        experiment, folder, (variant, seed) = work.experiments[which], work.folder(key), which
        plan = Plan(work.study.name, (PlannedRun(variant, experiment),))
        following, rang = progress(plan, self.quiet), threading.Event()
        with following:
            try:
                with alarm(self.ends - monotonic(), rang):
                    network = emulate(
                        experiment,
                        folder,
                        use=work.use,
                        status=None if self.quiet else following.status,
                        observer=following.follow(plan.runs[0]),
                        on_interrupt=following.interrupted,
                        tell=tell,
                        paced=True,
                    )
                    with tempfile.TemporaryDirectory(prefix="fedroam-simulated-") as home:
                        keep_agreement(network, run(experiment, Path(home) / "run"))
            except (Interrupted, KeyboardInterrupt):
                if not rang.is_set():
                    raise
            except InputError:
                raise
            except FedroamError as error:
                self.failed.append((f"{variant}, seed {seed}", str(error)))

    def _sweep(self, work: StudyRuns, missing: set[str]) -> None:
        from fedroam.cli.study_runs import SWEEP
        from fedroam.sweep import open_sweep
        from fedroam.sweep.running import run_sweep

        following, rang = sweep_progress(self.quiet), threading.Event()
        sweep: Sweep | None = None
        with following:
            try:
                with alarm(self.ends - monotonic(), rang):
                    sweep = run_sweep(
                        work.plan,
                        work.root / SWEEP,
                        workers=self.workers,
                        ray=self.ray,
                        observer=following.follow,
                        on_interrupt=following.interrupted,
                        retry_failed=self.retry_failed,
                        only=missing,
                    )
            except (Interrupted, KeyboardInterrupt):
                if not rang.is_set():
                    raise
                if (work.root / SWEEP / "sweep.json").exists():
                    sweep = open_sweep(work.root / SWEEP)
        failed = () if sweep is None else sweep.failed
        rows = {row.digest: row for row in failed if row.digest in missing}
        self.failed += [(f"{row.keys['variant']}, seed {row.seed}", row.reason) for row in rows.values()]


def _grown(
    study: Study,
    items: list[Item],
    where: tuple[str, str | None, tuple[str, ...], str | None],
    wave: Wave,
) -> int:
    """Compute more seeds from look to look, while a claim asked is open and there is time; gives the last look's."""
    from fedroam.analysis.statistics.looks import LOOKS
    from fedroam.cli.study_runs import StudyRuns
    from fedroam.study.files import make_files

    scale, folder, use, records = where
    claims = [each for each in items if each.kind == "claim" and study.can(each, scale)]
    still, left_out, given_up = claims, set[str](), set[str]()
    for seeds in LOOKS:
        work = StudyRuns(study, scale, seeds, folder, use, records)
        missing = work.missing(still)
        for line in make_files(
            study, (e for which, e in work.experiments.items() if work.keys[which] in missing)
        ):
            say(line)
        work.check(still)
        try:
            if missing:
                wave.compute(work, missing)
        except InputError as error:  # as where all of them need data that is not here
            if all(work.missing([each]) for each in still):
                raise
            wave.failed.append((f"{len(missing)} runs", str(error)))
        blocked = [each.name for each in still if work.missing([each])]
        if blocked and (wave.over or len(blocked) == len(still)):
            return seeds
        if blocked:
            say(f"look at {seeds} seeds: left out, as runs of theirs failed: {', '.join(blocked)}")
            still = [each for each in still if each.name not in blocked]
            left_out |= set(blocked)
        with writing(work.root):
            work.plan_looks(LOOKS)
        verdicts = wave.reading.evaluate(work, LOOKS).verdicts
        # Whatever was closed at a look before: as others are decided, the level rises, and a claim before it may hold.
        asked = [each for each in claims if each.name not in left_out]
        open_ = [each for each in asked if verdicts[each.name].word == "undecided"]
        hopeless = [each.name for each in open_ if verdicts[each.name].hopeless]
        held_up = _held_up(study, verdicts, [each.name for each in asked])
        still = [each for each in open_ if each.name not in hopeless and each.name not in held_up]
        new = [name for name in hopeless if name not in given_up]
        given_up = set(hopeless)
        closed = len(claims) - len(left_out) - len(held_up) - len(still)
        say(
            f"look at {seeds} seeds: {closed} of {len(claims)} claims are decided or hopeless"
            + (f" (hopeless now: {', '.join(new)})" if new else "")
            + (f"; enough seeds of their own: {', '.join(held_up)}" if held_up else "")
        )
        wave.looked = seeds
        if not still or wave.over:
            break
    for name, before in held_up.items():
        say(
            f"{name} would hold by itself; primary claims before it that have to hold first: {', '.join(before)}"
        )
    return seeds


def _held_up(study: Study, verdicts: Mapping[str, Verdict], names: Iterable[str]) -> dict[str, list[str]]:
    """The primary claims whose own evidence is enough, so that no seed of theirs helps, with those before them that are
    not established."""
    found = {}
    for name in names:
        verdict = verdicts[name]
        open_ = verdict.word == "undecided" and not verdict.hopeless
        if open_ and name in study.primary and verdict.evidence.p_holds <= study.alpha:
            before = study.primary[: study.primary.index(name)]
            found[name] = [one for one in before if one in verdicts and verdicts[one].word != "holds"]
    return found


@contextmanager
def alarm(seconds: float, rang: threading.Event) -> Iterator[None]:
    """Ctrl-C by itself after so many seconds, for the thread that calls; `rang` tells whether it came."""
    waiting = threading.get_ident()

    def ring() -> None:
        rang.set()
        if sys.platform == "win32":
            signal.raise_signal(signal.SIGINT)
        else:
            signal.pthread_kill(waiting, signal.SIGINT)  # wakes it where it waits

    timer = threading.Timer(min(max(seconds, 0.0), threading.TIMEOUT_MAX), ring)
    timer.daemon = True
    # A shell that starts a command in the background lets it ignore Ctrl-C, and with it the alarm.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()  # it may ring at once
        yield
    finally:
        timer.cancel()
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _judge(
    work: StudyRuns, items: list[Item], looks: tuple[int, ...], command: str, reading: Reading
) -> None:
    from fedroam.study.outlook import outlook
    from fedroam.study.presentation.page import write_study
    from fedroam.study.presentation.terminal import print_result

    work.verify()
    if looks and work.kept.seeds and not work.kept.looks:
        say(
            f"{work.records}: judged so far by all of up to {work.kept.seeds} seeds at the full level; from now on by "
            f"planned looks, each at 1/{len(looks)} of it"
        )
    result = reading.evaluate(work, looks)
    states = {each.name: work.state(each) for each in work.study.items.values()}
    ahead = outlook(result, work.timed(result.reader.kept()), work.kept.recent_seconds)
    print_result(result, out(), {each.name for each in items}, states, ahead)
    with writing(work.root):
        if looks:
            work.plan_looks(looks)
        say(f"\nstudy: {write_study(result, work.root, states, ahead)}")
        kept = work.keep(result.kept(), command, looks)
    if kept is not None:
        with writing(kept.parent):
            _write_kept_files(work, kept.parent, result.reader)
        say(f"kept: {kept}")


def _keep_finished(work: StudyRuns, command: str, looked: int, reading: Reading) -> None:
    """Keep what runs that finished before a stop say, where runs are kept; they are judged when the command goes on.

    looked: the seeds of the last look, 0 where none was taken: what was seen stands in the records.
    """
    from fedroam.analysis.statistics.looks import LOOKS

    if work.records is None:
        return
    say("keeping what is finished")
    before = len(work.kept.runs)
    try:
        work.verify()
    except InputError as error:  # the command that goes on ends with it
        tell(f"nothing is kept: {error}")
        return
    result = reading.evaluate(work, work.kept.looks)
    with writing(work.records):
        kept = work.keep(result.kept(), command, LOOKS if looked else None, looked or None)
    say(f"kept: {kept}, {len(work.kept.runs) - before} more runs")


def _write_kept_files(work: StudyRuns, folder: Path, read: Reader) -> None:
    """Write what the records come to, from them alone; read: of the folders of runs, for figures that need them."""
    from fedroam.study.evaluation import evaluate_study
    from fedroam.study.kept import to_write_records
    from fedroam.study.kept_files import keep_figures_of_folders, write_kept_files
    from fedroam.study.outlook import outlook

    with to_write_records(folder):
        alone = type(work).of_records(work.study, work.scale, folder)
        result = evaluate_study(work.study, work.scale, range(alone.seeds), alone.find, alone.kept.looks)
        kept = alone.kept
        write_kept_files(folder, result, kept, outlook(result, kept.runs.values(), kept.recent_seconds))
        keep_figures_of_folders(folder, result, read)


def _list(work: StudyRuns) -> None:
    """A study's items, with what they cost and what has run."""
    study: Study = work.study
    console = out()
    console.print(f"[bold]{escape(study.name)}[/bold]: {escape(study.title)}")
    console.print(escape(f"{study.paper} {study.about}"), style="dim")
    whole = list(study.items.values())
    table = grid("Item", "Kind", "", "Runs", "Core time left", texts=5)
    for each in [*whole, None]:
        items = whole if each is None else [each]
        missing = work.missing(items)
        if each is None:
            done = len(work.needed(items)) - len(missing)
            row = [
                "all",
                "",
                f"scale {work.scale}, {work.seeds} seeds",
                f"{done} of {len(work.needed(items))} runs done",
            ]
        else:
            text = each.title if len(each.title) < 64 else f"{each.title[:60]}…"
            row = [each.name, each.kind, text, work.state(each)]
        seconds = work.seconds(missing)
        row.append("–" if not missing else "not measured" if seconds is None else duration(seconds))
        table.add_row(*(escape(text) for text in row))
    console.print(table)
    console.print(
        escape(
            f"scales: {', '.join(f'{k} ({v.seeds} seeds)' for k, v in study.scales.items())}; folder: {work.root}"
        )
    )
    for line in study.scale(work.scale).cut:
        console.print(escape(f"cut at scale {work.scale}: {line}"), style="yellow")


def _dry_run(work: StudyRuns, missing: set[str], workers: int) -> None:
    """Measure what the missing runs will cost."""
    if not missing:
        say("nothing is missing")
        return
    todo = {digest: run for digest, run in work.plan.distinct.items() if digest in missing}
    played = len(missing) - len(todo)
    if played:
        say(f"{played} runs on an emulated network, which take the time that their clock says: not measured")
    missing &= todo.keys()
    if not missing:
        return
    found = measured_costs(work.plan, todo, workers)
    cores = sum(found.by_run.values())
    say(f"{len(todo)} runs to be computed, {duration(cores)} of one core")
    for kind in ("claims", "tables", "searches", "figures"):
        part = work.missing(_asked(work.study, kind, work.scale)) & missing
        if part and part != missing:
            say(f"of them for the {kind}: {len(part)}, {duration(sum(found.by_run[one] for one in part))}")
    say(
        f"time: about {duration(found.seconds)} with {found.workers} worker(s), measured on {found.measured} variants, "
        "as busy as this machine is now"
    )
    if found.factor is not None:
        say(
            f"variants that were not measured: each right within a factor of {found.factor:.1f}, as those that were"
        )
