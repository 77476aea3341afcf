"""A study and the runs that there are of it."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedroam.analysis.agreement import AGREEMENT
from fedroam.errors import InputError
from fedroam.planning import SweepPlan, SweepRun
from fedroam.planning.own_parts import has_own_parts
from fedroam.recording import (
    Run,
    code_facts,
    code_sums,
    damage,
    environment,
    open_run,
    read_json,
    sha256,
    unchanged_files,
)
from fedroam.study.kept import (
    SIMULATION,
    Records,
    RunRecord,
    merged,
    read_records,
    run_key,
    to_write_records,
    without_machine,
    write_records,
)
from fedroam.study.planned_looks import plan_looks, planned_looks
from fedroam.study.values import Reader

if TYPE_CHECKING:
    from fedroam.experiment import Experiment
    from fedroam.study import Item, Study

# Where the runs of a study lie, below its folder: those that are simulated, and those that nodes of a network played.
SWEEP, NETWORK = "sweep", "network"


class StudyRuns:
    """A study at a scale with a number of seeds, in a folder (default `studies/NAME/SCALE`).

    use: the file of a user's study, which workers load if it has parts of its own; records: the folder in which runs
    are kept (see `study.kept`): a run that is there with all that items ask of it is done, whether its folder is or
    not; kept: what is kept there, if it has been read already.
    Raises InputError where a scale or a setting is wrong, or a run is kept that has other settings, or
    was computed by other source of parts of the user's own.
    """

    def __init__(
        self,
        study: Study,
        scale: str,
        seeds: int | None,
        folder: str | None,
        use: tuple[str, ...],
        records: str | None = None,
        kept: Records | None = None,
    ) -> None:
        if seeds is not None and not 1 <= seeds <= 10_000:
            raise InputError(f"--seeds {seeds}: allowed is a whole number from 1 to 10000")
        self.study, self.scale = study, scale
        self._runs: dict[str, Run | None] = {}
        self._codes: dict[str, dict[str, dict[str, Any]]] = {}
        self.seeds = seeds or study.scale(scale).seeds
        self.root = Path("studies") / study.name / scale if folder is None else Path(folder)
        self.variants = study.needs(scale)
        self._first = {variant: study.experiment(variant, scale) for variant in self.variants}
        self.use = use if has_own_parts(self._first.values()) else ()
        self.keys = {
            (variant, seed): run_key(digest, study.where(variant))
            for variant, first in self._first.items()
            for seed, digest in enumerate(first.digests(first.seed + seed for seed in range(self.seeds)))
        }
        self._variant_of = {key: variant for (variant, _), key in self.keys.items()}
        self.records = None if records is None else Path(records)
        if kept is None and self.records is not None:
            kept = read_records(self.records, study.name, scale)
        self.kept = Records(study.name, scale) if kept is None else kept
        self._check_kept(self.kept)

    @cached_property
    def source(self) -> str | None:
        """The SHA-256 of the file that defines a study of the user's own; None of one that comes with fedroam."""
        path = Path(self.study.asked)
        return sha256(path) if path.suffix == ".py" and path.is_file() else None

    @property
    def warning(self) -> str:
        """What to say where numbers were kept by another version of the user's study file, else nothing: a number is
        found again by the name of its measure, and what that does may have been edited meanwhile."""
        if self.source is None or self.kept.source in (None, self.source):
            return ""
        return (
            f"{self.study.asked} is not what it was when runs were kept in {self.records}: numbers that are kept stay "
            "as they were measured then; a measure that means something else now needs another name"
        )

    @cached_property
    def experiments(self) -> dict[tuple[str, int], Experiment]:
        """The experiments of all runs, by variant and seed."""
        return {
            (variant, seed): first.replace(seed=first.seed + seed)
            for variant, first in self._first.items()
            for seed in range(self.seeds)
        }

    def _check_kept(self, kept: Records) -> None:
        """Raise InputError where a run is kept that is another one now: by its settings, or by the source of parts."""
        for run in kept.runs.values():
            now = self.keys.get((run.variant, run.seed))
            if now is not None and run.key not in self._variant_of:
                raise InputError(
                    f"{self.records}: the kept run of {run.variant}, seed {run.seed}, has other settings (digest "
                    f"{run.digest[:12]}) than the study now ({now[:12]}); delete its line to compute it anew"
                )
            if not self._by_source_of_now(run):
                raise InputError(
                    f"{self.records}: the kept run of {run.variant}, seed {run.seed}, was computed by other source of "
                    f"parts of your own (SHA-256 {', '.join(sum[:12] for sum in run.code)}) than there is now; bring "
                    "back what was there, or delete its line to compute it anew"
                )

    def _by_source_of_now(self, run: RunRecord) -> bool:
        """Whether a run was computed by the source of parts that there is now, as far as it is known."""
        if not run.code or run.key not in self._variant_of:
            return True
        code = self._code(run.key)
        return run.code in (code_sums(code), tuple(sorted(each["sha256"] for each in code.values())))

    def _code(self, key: str) -> dict[str, dict[str, Any]]:
        """The source of the parts of the user's own that a run would have now (see `recording.code_facts`)."""
        variant = self._variant_of[key]
        if variant not in self._codes:
            self._codes[variant] = code_facts(self._first[variant])
        return self._codes[variant]

    @classmethod
    def of_records(cls, study: Study, scale: str, records: Path) -> StudyRuns:
        """What is kept in `records` alone, with as many seeds as it was judged by, or has. Where looks are planned it
        has all that are kept: claims are judged by the looks, and tables and figures by what there is."""
        there = read_records(records, study.name, scale)
        most = max((run.seed + 1 for run in there.runs.values()), default=0)
        seeds = max(there.seeds, most) if there.looks else there.seeds or max(most, study.scale(scale).seeds)
        return cls(study, scale, seeds, str(records), (), str(records), there)

    @cached_property
    def plan(self) -> SweepPlan:
        """All runs of the study at this scale that are simulated."""
        runs = (
            SweepRun(experiment, {"variant": variant})
            for (variant, _), experiment in self.experiments.items()
            if self.study.where(variant) == SIMULATION
        )
        return SweepPlan(self.study.name, tuple(runs), ("variant",), use=self.use)

    def find(self, variant: str, seed: int) -> Run | RunRecord | None:
        """The finished run of a variant and seed (counted from 0), else what is kept of it, None where nothing is."""
        key = self.keys.get((variant, seed))
        return None if key is None else self._opened(key) or self.kept.runs.get(key)

    @property
    def looks(self) -> tuple[int, ...]:
        """The looks by which it is judged, as its records or its folder tell; none where none were ever planned."""
        return self.kept.looks or planned_looks(self.root, self.study.name, self.scale)

    def plan_looks(self, looks: tuple[int, ...]) -> None:
        """Note in its folder that it is judged by these looks: from the first one on that is taken."""
        plan_looks(self.root, self.study.name, self.scale, looks)

    @property
    def reached(self) -> int:
        """Up to which number of seeds any variant has runs, finished or kept; 0 without one."""
        return max((seed + 1 for variant, seed in self.keys if self.find(variant, seed)), default=0)

    def keep(
        self,
        found: Iterable[RunRecord],
        command: str,
        looks: tuple[int, ...] | None = (),
        seeds: int | None = None,
    ) -> Path | None:
        """Keep what has been read of runs, with the time that each took; the file, None where nothing is kept.

        looks: those that were planned, if the study is judged by these runs while it grows; None: it is not judged.
        seeds: by how many of each variant it is judged (default: the study's).
        """
        if self.records is None:
            return None
        # A folder of what was not asked for now may be of other source: such a line would be refused.
        runs = [run for run in self.timed(found) if self._by_source_of_now(run)]
        new = [run.key for run in runs if run.key not in self.kept.runs]
        sitting = {
            **({} if self.source is None else {"source": self.source}),
            "command": without_machine(command),
            "runs": len(new),
            "hours": round(sum(run.seconds or 0.0 for run in runs if run.key in new) / 3600, 3),
            # Records are published: the build of this machine's kernel is of no use to anybody.
            "environment": environment() | {"system": f"{platform.system()} {platform.machine()}"},
        }
        # Looks are planned up to more seeds than there are runs: judged were those that have any.
        there = max((run.seed + 1 for run in (*self.kept.runs.values(), *runs)), default=0)
        with to_write_records(self.records):
            now = read_records(self.records, self.study.name, self.scale)  # others may have kept more since
            self._check_kept(now)
            self.kept = merged(now, runs, sitting if new else None)
            if looks is not None:
                by = self.seeds if seeds is None else seeds
                self.kept = self.kept.judged_by(min(by, there) if looks else by, looks)
            return write_records(self.records, self.kept)

    def timed(self, found: Iterable[RunRecord]) -> list[RunRecord]:
        """What was read of runs, with where each was computed and by which source of parts of the user's own, and the
        core-seconds that it took, where that is known."""
        took = self._took()
        placed = [replace(run, where=self.study.where(run.variant)) for run in found]
        return [replace(run, seconds=took.get(run.key), code=self._code_of(run)) for run in placed]

    def _code_of(self, run: RunRecord) -> tuple[str, ...]:
        """The sums of the source by which a run was computed: as its folder tells, else as it is kept."""
        if run.key not in self._variant_of or not self._code(run.key):
            return ()
        there = self._opened(run.key)
        if there is not None:
            return code_sums(there.environment.get("code", {}))
        kept = self.kept.runs.get(run.key)
        return () if kept is None else kept.code

    def _took(self) -> dict[str, float]:
        """Core-seconds of simulated and of kept runs, by key: what they computed, however busy the machine was."""
        try:
            records: dict[str, Any] = read_json(self.root / SWEEP / "sweep.json")["records"]
        except (InputError, KeyError):
            records = {}
        found = {digest: one.get("cpu_seconds", one.get("seconds")) for digest, one in records.items()}
        found |= {key: run.seconds for key, run in self.kept.runs.items() if run.seconds is not None}
        return {key: float(took) for key, took in found.items() if took is not None}

    def folder(self, key: str) -> Path:
        """Where the folder of a run lies."""
        from fedroam.sweep.folder import run_folder

        digest, _, where = key.partition("@")
        return run_folder(self.root / (NETWORK if where else SWEEP), digest)

    def _opened(self, key: str) -> Run | None:
        if key not in self._runs:
            folder = self.folder(key)
            run = open_run(folder) if (folder / "run.json").exists() else None
            if "@" in key and not (folder / AGREEMENT).exists():  # not held against its simulation yet
                run = None
            self._runs[key] = run if run is not None and run.done else None
        return self._runs[key]

    def check(self, items: Iterable[Item]) -> None:
        """Raise InputError where a finished run that items need read a file that has changed since."""
        needed = self.needed(items)
        for which, key in self.keys.items():
            run = self._opened(key) if key in needed else None
            if run is not None:
                unchanged_files(run, self.experiments[which])

    def verify(self) -> None:
        """Raise InputError where a finished run is not what was written: a verdict is made of such runs alone.

        Runs of fedroam 0.1.0, which kept no sums, are taken as they are.
        """
        for key in dict.fromkeys(self.keys.values()):
            run = self._opened(key)
            found = damage(run.folder) if run is not None and run.manifest() else []
            if found:
                raise InputError(f"{found[0]}; delete the run's folder, and it will be computed anew")

    def forget(self) -> None:
        """Look at the folder anew: runs may have finished."""
        self._runs.clear()

    def needed(self, items: Iterable[Item]) -> set[str]:
        """Keys of the runs that items need."""
        variants = set(self.study.needs(self.scale, items))
        return {key for (variant, _), key in self.keys.items() if variant in variants}

    def missing(self, items: Iterable[Item]) -> set[str]:
        """Those of them that are not finished."""
        items = list(items)
        there = self.kept.runs.keys() - self._lacking(items)
        return {key for key in self.needed(items) if key not in there and self._opened(key) is None}

    def _lacking(self, items: Iterable[Item]) -> set[str]:
        """Keys of the kept runs without a number or a curve that items ask for."""
        from fedroam.study.evaluation import lacking

        kept = self.kept.runs
        if not kept:
            return set()
        reader = Reader(lambda variant, seed: kept.get(self.keys.get((variant, seed), "")), range(self.seeds))
        found = lacking(self.study, self.scale, items, reader)
        return {key for key in map(self.keys.get, found) if key is not None}

    def state(self, item: Item) -> str:
        """`8 of 8 runs done`."""
        if not item.variants:
            return "needs no run"
        needed, whole = self.needed([item]), self.study.can(item, self.scale)
        if not whole and not (needed and item.partial):
            return f"not at scale {self.scale}"
        done = f"{len(needed) - len(self.missing([item]))} of {len(needed)} runs done"
        return done if whole else f"in part at scale {self.scale}, {done}"

    def seconds(self, keys: Iterable[str]) -> float | None:
        """Core-seconds that these runs will take, by the finished ones of the same variant; None where unknown."""
        took = self._took()
        known: dict[str, list[float]] = {}
        for (variant, _), key in self.keys.items():
            if key in took:
                known.setdefault(variant, []).append(took[key])
        variant_of = {key: variant for (variant, _), key in self.keys.items()}
        wanted = [variant_of[key] for key in keys]
        if any(variant not in known for variant in wanted):
            return None
        return sum(sum(known[variant]) / len(known[variant]) for variant in wanted)
