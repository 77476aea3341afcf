"""The study of contact limits: its links by hand, and every kind of its runs at a tiny scale."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedroam as fr
from fedroam.papers import find_study
from fedroam.papers.contact_limits.measures import fit
from fedroam.papers.contact_limits.runs import (
    BEYOND,
    HIDDEN,
    INSTANT,
    REGIMES,
    TRACE_REGIMES,
    TRACES,
    bytes_of,
    link,
    on_trace,
    roam,
    steered,
    under_access_points,
    walk,
    walk_larger,
    walk_shared,
)
from fedroam.papers.contact_limits.winners import SERVERS, method
from fedroam.recording import Run

pytestmark = pytest.mark.usefixtures("rough_pictures")

STUDY, _ = find_study("contact-limits")


def test_a_model_takes_the_time_that_the_variant_says() -> None:
    """64 x 32 + 32 weights, 32 x 10 + 10 more, 4 bytes each: 9,640 bytes; in 10 s that is 964 bytes/s."""
    assert bytes_of(HIDDEN) == 9640
    assert link(10.0)["throughput"] * 1e6 / 8 == pytest.approx(964.0)
    assert link(INSTANT) == {"kind": "instant"}


@pytest.mark.parametrize("variant", [walk(10.0), walk_larger(10.0)])
def test_the_size_that_is_reckoned_with_is_the_network_s(variant: str, tmp_path: Path) -> None:
    experiment = STUDY.experiment(variant, "quick").replace(rounds=1, evaluate_every=1, clients=3)
    run = fr.run(experiment, tmp_path / "run")
    throughput = experiment.settings()["link"]["throughput"]
    assert run.world["bytes_per_model"] / (throughput * 1e6 / 8) == pytest.approx(10.0)


def table(**columns: list[float]) -> Run:
    """A run of which only the table of rounds is asked."""
    run = Run(Path("nowhere"))
    vars(run)["rounds"] = pd.DataFrame({"round": range(len(columns["transfers"])), **columns})
    return run


def test_the_share_that_gets_through_by_hand() -> None:
    none = [float("nan")]
    some = table(transfers=[*none, 10.0, 0.0, 30.0], through=[*none, 10.0, 0.0, 2.0])
    assert fit.number(some) == pytest.approx(30.0)
    never = table(transfers=[*none, 0.0], through=[*none, 0.0])
    assert np.isnan(fit.number(never))


@pytest.mark.parametrize(
    "variant",
    [
        walk(10.0, "fast"),
        walk(10.0, "fast", method="fedavg"),
        walk(10.0, "fast", method="fedbuff"),
        walk(10.0, "fast", method="local"),
        walk_shared(150.0),
        roam(10.0, "slow"),
        roam(2.0, shared=True),
        roam(30.0, broken="partial"),
        roam(30.0, broken="resumed"),
        roam(10.0, hidden=8),
        *(steered(pattern, 30.0) for pattern in ("static", "random", "dam", "dcm")),
    ],
)
def test_every_kind_of_run_is_computed(variant: str, tmp_path: Path) -> None:
    experiment = STUDY.experiment(variant, "quick").replace(rounds=2, evaluate_every=1)
    rounds = fr.run(experiment, tmp_path / "run").rounds
    assert rounds["time"].tolist() == [0.0, 60.0, 120.0]
    assert (rounds["through"].dropna() <= rounds["transfers"].dropna()).all()


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A trace of the study, made once for all its variants."""
    folder = tmp_path_factory.mktemp("traces")

    @functools.cache
    def made(file: str) -> Path:
        STUDY.files[file](folder / Path(file).name)
        return folder / Path(file).name

    return made


@pytest.mark.data
@pytest.mark.parametrize(
    "variant",
    [
        on_trace("bologna", 2.0),
        on_trace("bologna", 20.0, "partial"),
        on_trace("taxis", 2.0),
        on_trace("taxis", 30.0, "fedbuff"),
        under_access_points("mohawk", 30.0),
    ],
)
def test_runs_on_traces(variant: str, traces: Callable[[str], Path], tmp_path: Path) -> None:
    experiment = STUDY.experiment(variant, "quick")
    mobility = experiment.settings()["mobility"]
    mobility["file"] = str(traces(mobility["file"]))
    settings = {"rounds": 3, "evaluate_every": 1, "clients": 60, "mobility": mobility}
    rounds = fr.run(experiment.replace(**settings), tmp_path / "run").rounds
    assert rounds["time"].iloc[-1] == 3 * experiment.settings()["clock"]["length"]


def test_beyond_a_round_a_server_gets_no_model_of_a_vehicle() -> None:
    """Down and up take longer than a round there, and shorter elsewhere."""
    for trace, times in TRACE_REGIMES.items():
        length = TRACES[trace]["clock"]["length"]
        assert {name: 2 * seconds <= length for name, seconds in times.items()} == {
            "all": True,
            "some": True,
            "beyond": False,
        }


@pytest.mark.parametrize(
    ("name", "seconds"), [("fedavg", 10.0), ("fedbuff", 10.0), ("fedavg", BEYOND), ("local", 10.0)]
)
def test_servers_and_who_learns_alone_do_not_see_how_clients_move(
    name: str, seconds: float, tmp_path: Path
) -> None:
    """So their runs on straight walks stand for those on random waypoint."""
    there = STUDY.experiment(walk(seconds, "fast", method=name), "quick").replace(rounds=3, evaluate_every=1)
    settings = STUDY.experiment(roam(seconds), "quick").settings()
    here = there.replace(mobility=settings["mobility"])
    one, two = (fr.run(each, tmp_path / str(k)).rounds for k, each in enumerate((there, here)))
    assert one["accuracy"].tolist() == two["accuracy"].tolist()
    changed = one["accuracy"].iloc[-1] != one["accuracy"].iloc[0]
    assert changed == (seconds != BEYOND), "a server that no model reaches learns nothing"


def test_whole_models_beyond_a_round_reach_nobody_and_parts_do(tmp_path: Path) -> None:
    """At 50 s of a round's 60 s: of nearly all contacts the parts that came are averaged."""
    own = {"rounds": 6, "evaluate_every": 1}
    lost, parts = (
        fr.run(
            STUDY.experiment(roam(BEYOND, broken=broken), "quick").replace(**own), tmp_path / broken
        ).rounds
        for broken in ("lost", "partial")
    )
    assert lost["broken"].sum() > 0.9 * lost["transfers"].sum() > 0
    assert parts["consensus_distance"].iloc[-1] < 0.9 * lost["consensus_distance"].iloc[-1]


def test_every_winner_is_held_against_all_others() -> None:
    """The claims on winners compare with each method of their table: servers, the three without, and alone."""
    named = {claim.name: set(claim.variants) for claim in STUDY.claims}
    for name, seconds in REGIMES.items():
        others = {method(each, seconds) for each in ("lost", "resumed", "partial", "local")}
        assert named[f"servers-win-{name}"] == others | {method(each, seconds) for each in SERVERS}
        best = "no-winner" if name == "all" else "parts-win"
        assert named[f"{best}-without-server-{name}"] == others
    assert {one.family for one in STUDY.claims if "waypoint" in one.name} == {"random waypoint"}
    assert not any(claim.family for claim in STUDY.claims if claim.name in STUDY.primary)


def test_size_and_bandwidth_count_by_their_ratio_alone(tmp_path: Path) -> None:
    def through(variant: str) -> list[float]:
        experiment = STUDY.experiment(variant, "quick").replace(rounds=4, evaluate_every=1)
        return fr.run(experiment, tmp_path / variant).rounds["through"].dropna().tolist()

    found = through(walk(10.0))
    assert sum(found) > 0
    assert found == through(walk_larger(10.0))
