"""The experiment of a site, and what of experiments a network can do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedroam.deploy.site.file import EXPERIMENT, FILE, Site
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.planning import plan


def experiment_of(folder: Path, site: Site, use: Sequence[str] = ()) -> Experiment:
    """The experiment of a site; use: files with the user's own parts.

    Raises InputError where the file is not the one that the site was made for.
    """
    path = folder / EXPERIMENT
    if not path.is_file():
        raise InputError(f"{path}: no such file; the site was made with it")
    (run,) = plan(str(path), use=use).runs
    if run.experiment.digest != site.digest:
        raise InputError(
            f"{path}: is another experiment than the site's (digest {run.experiment.digest[:12]}, {FILE} says "
            f"{site.digest[:12]})"
        )
    return run.experiment


def check_fits(experiment: Experiment) -> None:
    """Refuse what cannot be done where each sees its own samples alone. Raises InputError."""
    if experiment.device != "cpu":
        raise InputError(f"device = {experiment.device!r}: on a network, allowed is 'cpu'")
    if experiment.clock.kind != "rounds":
        raise InputError(
            f"clock.kind = {experiment.clock.kind!r}: a network takes the time that it takes; allowed is 'rounds'"
        )
    if experiment.evaluate_on == "own" and experiment.evaluate_share < 1:
        raise InputError(
            f"evaluate_share = {experiment.evaluate_share:g}: on a network clients are judged on all of their own "
            "samples; allowed with evaluate_on = 'own' is 1"
        )
