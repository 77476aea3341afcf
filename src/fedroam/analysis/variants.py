"""Runs sorted into variants: the same description, repeated over seeds."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedroam.analysis.divergence import breakdown
from fedroam.analysis.formatting import percent
from fedroam.errors import InputError
from fedroam.planning.advice import small_reach
from fedroam.recording import Run, flat

# Settings that cannot change a run's results: runs that differ in nothing else are repetitions of one variant, and with
# one seed one run.
FREE = (
    "name", "seed", "checkpoint_every", "record_movement", "record_schedule", "keep_models",
    "data.name", "data.root", "engine.workers", "engine.recorded",
    "execution.kind", "execution.address", "execution.workers", "execution.cpus", "radio.scale",
)  # fmt: skip

WHERE = "where"  # what made a run: no setting, but it tells runs apart


@dataclass(frozen=True)
class Variant:
    """One description and its runs, ordered by seed.

    label names it in tables and figures. runs are all of them; included are those that count in means: the finished
    ones or, where none has finished, the unfinished ones as far as they got.
    """

    label: str
    runs: tuple[Run, ...]

    @property
    def finished(self) -> tuple[Run, ...]:
        """The runs that came to their end."""
        return tuple(run for run in self.runs if run.done)

    @property
    def included(self) -> tuple[Run, ...]:
        """The runs that count in means; those without any recorded round never do."""
        return self.finished or tuple(run for run in self.runs if has_rounds(run))

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the runs: unfinished, broken down or judged before anything was learnt,
        one sentence each."""
        notes = []
        untrained = next((run for run in self.runs if _cloud_never_changed(run)), None)
        if untrained is not None:
            k2, rounds = untrained.settings["federation"]["k2"], untrained.status["rounds"]
            notes.append(
                f"{self.label}: clients are judged by the cloud's model, which changes every k2 = {k2} rounds, and the "
                f"run has {rounds}: all its accuracies are those of the untrained model"
            )
        attacked = [run for run in self.included if run.attackers]
        if attacked:
            one, learnt = attacked[0], [_attackers_accuracy(run) for run in attacked]
            count, clients = len(one.attackers), int(one.settings["clients"])
            notes.append(
                f"{self.label}: {count} of {clients} clients attack ({one.settings['attack']['kind']}); accuracy and "
                f"loss are those of the {clients - count} honest ones (attackers' own accuracy at the end: "
                f"{percent(float(np.mean(learnt)))})"
            )
        for told in (
            _rounded_at_rest,
            _nobody_took_part,
            _unused_test_samples,
            _never_taught,
            _one_class,
            _hardly_anybody_meets,
        ):
            first = next((text for run in self.included if (text := told(run))), "")
            notes += [f"{self.label}: {first}"] if first else []
        matching = (run.world.get("matching", ()) for run in self.runs if has_rounds(run))
        notes += [f"{self.label}: {told}" for told in dict.fromkeys(itertools.chain.from_iterable(matching))]
        for run in self.runs:
            who, status = f"{self.label}, seed {run.status['seed']}", run.status
            if not run.done:
                counted = "counted as far as it got" if run in self.included else "left out of every mean"
                reason = f" ({status['reason']})" if status.get("reason") else ""
                notes.append(
                    f"{who}: unfinished, at round {status.get('round', 0)} of {status['rounds']}{reason}; {counted}"
                )
            accuracy = run.by_round["accuracy"] if has_rounds(run) else None
            if broke := breakdown(accuracy, status.get("diverged_at")):
                notes.append(f"{who}: {broke}")
        return notes


def notes_on(compared: Sequence[Variant]) -> list[str]:
    """What a reader must know of the variants. What is true of all of several is told once, without their names."""
    texts = [[note.removeprefix(f"{variant.label}: ") for note in variant.notes] for variant in compared]
    shared = [text for text in texts[0] if len(texts) > 1 and all(text in other for other in texts)]
    named = zip(compared, texts, strict=True)
    return [
        *shared,
        *(
            note
            for variant, own in named
            for note, text in zip(variant.notes, own, strict=True)
            if text not in shared
        ),
    ]


def _attackers_accuracy(run: Run) -> float:
    """The accuracy of attackers in the last recorded round."""
    rounds = run.rounds.sort_values("round")
    return float(rounds["accuracy_attackers"].iloc[-1])


def _rounded_at_rest(run: Run) -> str:
    """That models are rounded between training and exchange, where they are."""
    held = run.settings.get("models_at_rest", "float32")  # not there before it could be chosen
    if held == "float32":
        return ""
    return f"models at rest are held in {held}: they are rounded whenever one is written"


def _cloud_never_changed(run: Run) -> bool:
    """Whether a run is judged by a cloud's model and ends before the first global aggregation."""
    federation = run.settings.get("federation")
    if not isinstance(federation, Mapping) or list(run.status.get("judged") or ()) != ["global"]:
        return False
    k2 = federation.get("k2")
    return isinstance(k2, int) and int(run.status["rounds"]) < k2


def uses(compared: Sequence[Variant], what: str) -> bool:
    """Whether the federation of any run that counts looks at `places` or `contacts`; runs that do not say so do."""
    return any(looks_at(v.included[0], what) for v in compared if v.included)


def looks_at(run: Run, what: str) -> bool:
    """Whether a run's federation looks at `places` or `contacts`; a run that does not say so does."""
    return what in run.world.get("uses", [what])


def _nobody_took_part(run: Run) -> str:
    """The sentence on a run in whose evaluated rounds nobody's training ever counted, and why; empty where one did."""
    rounds = run.rounds
    if "active" not in rounds:  # a run of an older format
        return ""
    active = rounds.loc[rounds["round"] > 0, "active"]
    if active.empty or not (active == 0).all():
        return ""
    rounds_of = f"in any evaluated round ({len(active)} of them)"
    if lost := run.status.get("lost"):
        return f"nobody's training was counted {rounds_of}, though clients were asked: {lost}"
    if rounds.loc[rounds["round"] > 0, "degree_mean"].notna().any():
        return (
            f"no client trained {rounds_of}, though some were present; see federation and clock, which say who trains "
            "when"
        )
    return (
        f"no client was present {rounds_of}: there was nobody to learn; see "
        "mobility and activity, which say who is present when"
    )


def _unused_test_samples(run: Run) -> str:
    """The sentence on a shared test set that nobody is judged on; empty where there is none."""
    facts = run.environment.get("data", {}) if (run.folder / "environment.json").exists() else {}
    unused = facts.get("test_samples", 0)
    if run.settings.get("evaluate_on") != "own" or not unused:
        return ""
    data = run.settings.get("data")
    cut = (
        isinstance(data, Mapping)
        and data.get("kind") in ("csv", "arrays")
        and data.get("test_share", 0) != 0
        and "test_path" not in data
    )
    way_out = "; data.test_share = 0 deals them out, too" if cut else ""
    return (
        f"clients are judged on their own samples (evaluate_on), so {unused} samples of the data's shared test set are "
        f"used for nothing{way_out}"
    )


def _never_taught(run: Run) -> str:
    """The sentence on test samples that no model can learn; empty where there are none, or nobody is judged on them."""
    facts = run.environment.get("data", {}) if (run.folder / "environment.json").exists() else {}
    if run.settings.get("evaluate_on") == "own" or not facts.get("never_taught"):
        return ""
    # With all that reads data, which tables do not wait for.
    from fedroam.data.dataset import never_taught_note

    return never_taught_note(facts["never_taught"], facts["test_samples"])


def _one_class(run: Run) -> str:
    """The sentence on data with a single class; empty where there are several."""
    classes = run.world.get("classes", ())
    if len(classes) != 1:
        return ""
    from fedroam.data.dataset import one_class_note

    return one_class_note(classes)


def _hardly_anybody_meets(run: Run) -> str:
    """The sentence on a contact radius that is small for its world; empty where it is not."""
    if not looks_at(run, "contacts"):
        return ""
    return small_reach(float(run.world["reach"]), run.world["bounds"])


def has_rounds(run: Run) -> bool:
    """Whether a run has recorded any round yet."""
    try:
        return len(run.rounds) > 0
    except InputError:
        if run.done:
            raise
        return False


def plain_text(value: Any) -> str:
    """A setting's value as an experiment file writes it; a setting that is absent as a dash."""
    if value is None:
        return "–"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list) else str(value)


def variants(runs: Sequence[Run]) -> list[Variant]:
    """Group runs into variants, in the order in which each first appears.

    Runs belong together when name, variant, what made them (a simulation or a network) and every setting that can
    change results agree, but for the seed. A run that is there twice (of one seed) counts once, the finished copy if
    there is one. Labels are the variant's name, else the experiment's; where two groups would share one, the
    settings that tell them apart are added. Raises InputError where there are no runs.
    """
    if not runs:
        raise InputError("no runs to analyse: give at least one run folder")
    groups: dict[str, dict[int, Run]] = {}
    for run in runs:
        matters = {k: v for k, v in flat(run.settings).items() if k not in FREE}
        key = json.dumps([run.name, run.where, matters], sort_keys=True, default=str)
        group, seed = groups.setdefault(key, {}), int(run.status["seed"])
        if seed not in group or (run.done and not group[seed].done):
            group[seed] = run
    sets = [sorted(group.values(), key=lambda run: int(run.status["seed"])) for group in groups.values()]
    return [
        Variant(label, tuple(group)) for label, group in zip(_labels([g[0] for g in sets]), sets, strict=True)
    ]


def differing(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """The settings in which runs differ, seed and name apart: dotted name -> value of each run (None: absent)."""
    rows = [flat(run.settings) for run in runs]
    names = dict.fromkeys(name for row in rows for name in row)
    table = {name: [row.get(name) for row in rows] for name in names if name not in ("seed", "name")}
    return {name: values for name, values in table.items() if any(v != values[0] for v in values)}


def _labels(firsts: Sequence[Run]) -> list[str]:
    """A distinct name for each group, given the first run of each."""
    one_name = len({run.status["name"] for run in firsts}) == 1
    named = [str(run.status.get("variant") or "") if one_name else run.name for run in firsts]
    named = _without_sections(named) if one_name else named
    labels = [name or firsts[k].name for k, name in enumerate(named)]
    for label in {name for name in labels if labels.count(name) > 1}:
        twins = [k for k, name in enumerate(labels) if name == label]
        apart = _telling_apart([firsts[k] for k in twins])
        for place, k in enumerate(twins):
            if named[k]:
                told = ", ".join(
                    str(values[place]) if name == WHERE else f"{name}={plain_text(values[place])}"
                    for name, values in apart.items()
                )
                labels[k] = f"{label} ({told})"
            else:  # nothing but values sets them apart: they are the whole name
                labels[k] = settings_text({name: values[place] for name, values in apart.items()})
        if len({labels[k] for k in twins}) < len(twins):  # the settings do not tell them all apart
            for place, k in enumerate(twins, start=1):
                labels[k] = f"{labels[k] or label} #{place}"
    return labels


def _without_sections(names: Sequence[str]) -> list[str]:
    """Names that a sweep made of what varies, in the words of `settings_text`; others, and those that would then be
    alike, as they are."""
    short = []
    for name in names:
        parts = [part.partition("=") for part in name.split(", ")]
        told = {key if equals else "variant": value if equals else key for key, equals, value in parts}
        short.append(settings_text(told) if len(told) == len(parts) else name)
    return short if len(set(short)) == len(set(names)) else list(names)


def _telling_apart(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """As few of the settings in which runs differ as tell all of them apart, as `differing` gives them, and what made
    them, where that differs.

    Settings that all of them have come first: those of one kind alone follow from the kind.
    """
    found = {name: values for name, values in differing(runs).items() if name not in FREE}
    found[WHERE] = [run.where for run in runs]
    chosen: dict[str, list[Any]] = {}
    groups = 1
    for name, values in sorted(found.items(), key=lambda item: None in item[1]):
        rows = zip(*(map(repr, each) for each in (*chosen.values(), values)), strict=True)
        if (more := len(set(rows))) > groups:
            chosen[name], groups = values, more
    return chosen


def settings_text(values: Mapping[str, Any]) -> str:
    """Settings in few words: kinds (and variants) stand alone, others with the last part of their name:
    `static, radius=1.5`.

    Where two settings end alike, their whole names stand.
    """
    ends = [name.rpartition(".")[2] for name in values]
    texts = []
    for name, value in values.items():
        end = name.rpartition(".")[2]
        if end in ("kind", "variant", WHERE) and isinstance(value, str):
            texts.append(value)
        else:
            texts.append(f"{end if ends.count(end) == 1 else name}={plain_text(value)}")
    return ", ".join(texts)


def mean_and_error(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean and standard error of the mean, s / sqrt(n) with s of n - 1 degrees of freedom.

    One value has no standard error (NaN). A value that is no number makes both NaN: leaving it out would hide it.
    """
    array = np.asarray(values, dtype=np.float64)
    if len(array) == 0 or not np.isfinite(array).all():
        return float("nan"), float("nan")
    error = array.std(ddof=1) / np.sqrt(len(array)) if len(array) > 1 else float("nan")
    return float(array.mean()), float(error)


def mean_by_round(seeds: Sequence[pd.Series]) -> pd.DataFrame:
    """round, mean and error (see `mean_and_error`) of several seeds' values (index: round), and their number n.

    Only rounds that every seed has: a mean over changing seeds would jump for no reason.
    """
    if not seeds:
        return pd.DataFrame({"round": [], "mean": [], "error": [], "n": []})
    rounds = sorted(set.intersection(*(set(one.index) for one in seeds)))
    values = np.stack([one.reindex(rounds).to_numpy(np.float64) for one in seeds], axis=1)
    pairs = [mean_and_error(row) for row in values]
    means, errors = [mean for mean, _ in pairs], [error for _, error in pairs]
    return pd.DataFrame({"round": rounds, "mean": means, "error": errors, "n": len(seeds)})


def over_seeds(variant: Variant, column: str) -> pd.DataFrame:
    """A column of `rounds` by round, as `mean_by_round` gives it, over the runs that count.

    Runs of an older format that lack the column give NaN.
    """
    return mean_by_round([_column(run.rounds, column) for run in variant.included])


def _column(rounds: pd.DataFrame, name: str) -> pd.Series:
    """A column by round, as in `by_round`, which would copy every other column, too; NaN where there is none."""
    found = pd.Series(rounds[name].to_numpy() if name in rounds else np.nan, index=rounds["round"].to_numpy())
    return found if found.index.is_unique else found[~found.index.duplicated(keep="last")]
