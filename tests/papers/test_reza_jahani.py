"""The studies of Reza et al. and Jahani et al.: settings, the papers' numbers typed in again, measures, and judging."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from fedroam.analysis.connectivity.contact_statistics import recorded
from fedroam.experiment import Experiment
from fedroam.papers.jahani.claims import CLAIMS as ON_RUNS
from fedroam.papers.jahani.study import STUDY as JAHANI
from fedroam.papers.jahani.tables import SMALLEST_B
from fedroam.papers.jahani.tables import TABLES as MEASURED
from fedroam.papers.reza.study import STUDY as REZA
from fedroam.papers.steered_variants import PATTERNS, ClientGrid, SteeredVariants, about, later_half_whole
from fedroam.planning import read_settings
from fedroam.recording import Run
from fedroam.runner import run
from fedroam.study import Curves, Doses, Heat, Study, evaluate_study
from fedroam.study.measures import final, later_half, smallest_b
from fedroam.study.values import Find, Measure, Quotient, Reader, Value
from support.made_runs import made_run
from support.scripts import ROOT, benchmark
from support.tiny import tiny

pytestmark = pytest.mark.usefixtures("rough_pictures")

STUDIES = {"reza": REZA, "jahani": JAHANI}
SCALES = [(study, scale) for study in STUDIES.values() for scale in study.scales]
# Final accuracy by pattern: of seed 1, and what the other seeds are off.
ENDS = {"static": (0.40, 0.010), "random": (0.60, 0.013), "dam": (0.70, 0.008), "dcm": (0.72, 0.011)}


def settings(study: Study, variant: str, scale: str = "full") -> dict[str, Any]:
    return study.experiment(variant, scale).settings()


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Runs by pattern that end at ENDS; their clients 2 and 3 meet nobody."""
    parts = {
        "record_movement": "all",
        "federation": {"kind": "decentralized"},
        "mixing": {"kind": "metropolis"},
    }
    made = {
        (pattern, seed): made_run(
            tmp_path, pattern, seed, [0.1, end / 2, end + (seed - 1) * off], every=20, settings=parts
        )
        for pattern, (end, off) in ENDS.items()
        for seed in range(3)
    }

    def found(variant: str, seed: int) -> Run | None:
        pattern = next(word for word in variant.split(",") if word in PATTERNS)
        return made.get((pattern, seed))

    return found


@pytest.mark.parametrize(("study", "scale"), SCALES, ids=lambda each: getattr(each, "name", each))
def test_every_variant_is_a_valid_experiment(study: Study, scale: str) -> None:
    needed = study.needs(scale)
    digests = [study.experiment(variant, scale).digest for variant in needed]
    assert len(set(digests)) == len(digests)  # nothing is run twice under two names
    if scale == "full":
        assert set(needed) == set(study.variants)
    else:
        assert study.scale(scale).cut


def test_settings_are_those_of_the_papers() -> None:
    name = "dcm,m=5,Rc=3,Rm=5,a=0.05"
    reza, jahani = settings(REZA, name), settings(JAHANI, name)
    for each in (reza, jahani):
        assert (each["clients"], each["rounds"], each["evaluate_every"]) == (20, 1000, 10)
        assert (each["mobility"]["grid"], each["mobility"]["mobile"], each["mobility"]["max_step"]) == (
            18,
            5,
            5,
        )
        assert (each["contacts"]["radius"], each["partition"]["alpha"]) == (3, 0.05)
        assert (each["training"]["batch_size"], each["training"]["momentum"]) == (0, 0.9)
        assert (each["model"]["kind"], each["record_movement"]) == ("mnist_cnn", "all")
        assert "train_samples" not in each["data"]
    assert (reza["mixing"]["kind"], jahani["mixing"]["kind"]) == ("data_size", "metropolis")
    assert (reza["federation"]["order"], jahani["federation"]["order"]) == ("move_then_mix", "mix_then_move")
    assert (reza["mobility"]["ties"], jahani["mobility"]["ties"]) == ("coverage", "random")
    assert (reza["training"]["lr"], jahani["training"]["lr"]) == (0.3, 0.03)
    assert reza["training"]["momentum_state"] == "reset"
    assert jahani["training"]["momentum_state"] == "kept"
    assert (REZA.scale("full").seeds, JAHANI.scale("full").seeds) == (10, 6)


def test_other_networks() -> None:
    large = settings(REZA, "35x35,dcm,m=5,Rc=5,Rm=9,a=0.05")
    assert (large["clients"], large["mobility"]["grid"], large["rounds"]) == (50, 35, 1000)
    cifar = settings(REZA, "cifar10,dam,m=5,Rc=3,Rm=inf,a=0.1")
    assert (cifar["data"]["kind"], cifar["model"]["kind"], cifar["rounds"]) == ("cifar10", "resnet50", 600)
    assert (cifar["training"]["lr"], cifar["training"]["batch_size"]) == (0.01, 512)
    assert math.isinf(cifar["mobility"]["max_step"])
    cifar = settings(JAHANI, "cifar10-27x27,static,Rc=4,a=0.1")
    assert (cifar["clients"], cifar["mobility"], cifar["rounds"]) == (
        35,
        {"kind": "static", "grid": 27},
        2000,
    )
    assert cifar["model"]["kind"] == "resnet18"
    assert math.isinf(settings(JAHANI, "static,Rc=inf,a=0.05")["contacts"]["radius"])


@pytest.mark.parametrize(("study", "name"), [(REZA, "mnist-random"), (JAHANI, "jahani-mnist")])
def test_the_named_experiment_is_a_run_of_the_study(study: Study, name: str) -> None:
    named = Experiment(**read_settings(name)[0])
    assert named.digest == study.experiment("random,m=5,Rc=3,Rm=5,a=0.05", "full").digest


def read_of(study: Study) -> set[tuple[str, Measure]]:
    """Every variant with each measure that a claim, a table, a search or a figure but its curve reads of it."""
    values: list[Value | Quotient] = [value for claim in study.claims for value in claim.test.compared]
    values += [cell.value for table in study.tables for cell in table.cells]
    values += [value for search in study.searches for value in search.values.values()]
    values += [search.bound for search in study.searches if isinstance(search.bound, Value)]
    for figure in study.figures:
        if isinstance(figure, Doses):
            values += [value for line in figure.lines.values() for value in line.values()]
        elif isinstance(figure, Heat):
            values += figure.cells.values()
        else:
            assert isinstance(figure, Curves)
    terms = [part.terms for each in values for part in _parts(each)]
    return {(term.variant, term.measure) for some in terms for term in some}


def _parts(value: Value | Quotient) -> list[Value]:
    return [value.first, value.second] if isinstance(value, Quotient) else [value]


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_all_that_is_read_is_of_evaluations_on_all_test_images(study: Study) -> None:
    read = read_of(study)
    for scale in study.scales:
        on_share = set()
        for variant in study.needs(scale):
            one = study.experiment(variant, scale)
            if one.evaluate_share == 1:
                continue
            on_share.add(variant)
            assert {measure for of, measure in read if of == variant} <= {final, later_half}
            evaluated = {*range(0, one.rounds, one.evaluate_every), one.rounds}
            assert one.whole_from == min(t for t in evaluated if t > one.rounds / 2)
        assert on_share == {v for v in study.needs(scale) if v.startswith("cifar10")}
        assert bool(on_share) == (scale == "full")


def test_the_later_half_is_that_of_a_run_which_is_judged_on_all_each_time(tmp_path: Path) -> None:
    for rounds in (7, 8):
        share = later_half_whole(rounds, 2)
        whole = run(tiny(rounds=rounds, evaluate_every=2), tmp_path / f"whole {rounds}")
        found = run(tiny(**share), tmp_path / f"share {rounds}")
        for measure in (final, later_half):
            assert measure.number(found) == measure.number(whole)
        early = found.rounds["round"] <= rounds / 2
        assert (found.rounds["loss"][early] != whole.rounds["loss"][early]).all()
        assert found.rounds["loss"][~early].equals(whole.rounds["loss"][~early])


def hours(study: Study, scale: str, variants: tuple[str, ...]) -> float:
    """33 µs an image and round on two cores, a third of it for a test, 1.5 s to start."""
    seconds = 0.0
    for variant in variants:
        one = settings(study, variant, scale)
        if one["data"]["kind"] == "digits":  # of the theory: seconds
            continue
        images = one["rounds"] * one["data"]["train_samples"]
        tests = (one["rounds"] / one["evaluate_every"] + 1) * one["clients"] * one["data"]["test_samples"]
        seconds += 33e-6 * images + 11e-6 * tests + 1.5
    return study.scale(scale).seeds * seconds / 3600


def test_the_cut_scales_fit_two_cores() -> None:
    """Both whole at scale quick in 80 minutes; the claims of each at scale medium in a night of 8 hours."""
    assert sum(hours(study, "quick", study.needs("quick")) for study in STUDIES.values()) < 80 / 60
    for study in STUDIES.values():
        possible = [claim for claim in study.claims if study.can(claim, "medium")]
        assert hours(study, "medium", study.needs("medium", possible)) < 8
    for study, items in ((REZA, ("figure-2", "gains")), (JAHANI, ("figure-2", "table-2", "smallest-b"))):
        for item in (*items, "figure-3a", "figure-3b", "figure-3c"):
            assert study.can(study.item(item), "quick"), item


def printed(study: Study, name: str) -> list[float | None]:
    table = next(table for table in study.tables if table.name == name)
    return [cell.paper for cell in table.cells]


def test_the_papers_numbers() -> None:
    assert printed(JAHANI, "table-2") == [80.83, 89.65, 79.85, 88.51, 72.90, 86.90, 47.50, 66.84]
    assert printed(JAHANI, "drops") == [8.82, 8.66, 14.00, 19.34]
    assert printed(JAHANI, "smallest-b") == [None] * 8
    assert printed(REZA, "gains") == [8, 8, 3, 3, 8, 8, 3, 3]
    assert printed(REZA, "gains-mobile") == [5.3, 7, 5.3, 7]
    assert printed(REZA, "gains-sparse") == [15, 15]
    assert printed(REZA, "gains-large") == [None, 5, None, 4]
    assert printed(REZA, "gains-cifar") == [5, 8, 4, 5]
    found = {search.name: search.paper for search in JAHANI.searches}
    assert found["figure-4-m3-random"] == 5
    assert found["figure-4-m3-dcm"] == 4
    assert found["figure-4-m5-random"] == 4
    assert found["figure-4-m5-dcm"] == 3
    assert found["figure-5-rc3-rm5-dcm"] == found["figure-5-rc3-rminf-dcm"] == 4
    assert found["figure-5-rc3-rm5-random"] is None


def test_the_smallest_b_of_ten_worlds_is_as_recorded() -> None:
    caption = next(table.caption for table in JAHANI.tables if table.name == "smallest-b")
    record = json.loads((ROOT / "docs" / "records" / "smallest-b.json").read_text(encoding="utf-8"))
    found = record["smallest_b"]
    assert record["rounds"] == 1000
    assert {p: {int(m): (min(b), max(b)) for m, b in of.items()} for p, of in found.items()} == SMALLEST_B
    assert all(len(b) == 10 for of in found.values() for b in of.values())
    dcm = " and ".join(f"{min(found['dcm'][m])} to {max(found['dcm'][m])}" for m in ("3", "5"))
    assert f"DCM {dcm}; static none" in caption
    page = (ROOT / "docs" / "connectivity-and-convergence.md").read_text(encoding="utf-8")
    for name, pattern in {"random": "random", "DAM": "dam", "DCM": "dcm"}.items():
        told = [f"{statistics.median(b):g} ({min(b)}–{max(b)})" for b in found[pattern].values()]
        assert f"| {name} | {told[0]} | {told[1]} |" in page


@pytest.mark.data
def test_the_smallest_b_of_the_first_world_is_found_again() -> None:
    script = benchmark("smallest_b")
    record = json.loads((ROOT / "docs" / "records" / "smallest-b.json").read_text(encoding="utf-8"))
    for pattern in SMALLEST_B:
        assert script.smallest(pattern, 5, 0) == record["smallest_b"][pattern]["5"][0]


def test_cells_are_of_the_runs_they_say() -> None:
    table = next(table for table in JAHANI.tables if table.name == "table-2")
    cell = next(c for c in table.cells if (c.row, c.paper) == ("DAM", 88.51))
    assert cell.column == "α = 0.1 (%)"
    assert cell.value.words == "final accuracy of dam,m=3,Rc=3,Rm=5,a=0.1"
    figure = next(f for f in REZA.figures if f.name == "figure-3b")
    assert isinstance(figure, Doses)
    assert figure.lines["DCM"][1.0].variants == ("dcm,m=3,Rc=1,Rm=5,a=0.05",)
    bound = next(s.bound for s in JAHANI.searches if s.name == "figure-8-35x35-mobile-dcm")
    assert getattr(bound, "variants", None) == ("35x35,static,Rc=inf,a=0.05",)
    heat = [f for f in JAHANI.figures if isinstance(f, Heat)]
    assert len(heat) == 4
    curves = next(f for f in REZA.figures if f.name == "figure-2")
    assert isinstance(curves, Curves)
    assert curves.panels["α = 0.1, Rm = ∞"]["static"] == "static,Rc=3,a=0.1"


class Gains(Reader):
    """Finds the same gains by seed, whatever is asked."""

    def __init__(self, *gains: float) -> None:
        super().__init__(lambda variant, seed: None, range(len(gains)))
        self.gains = gains

    def ends(self, value: Value | Quotient) -> dict[int, tuple[float, float]]:
        return {seed: (gain, gain) for seed, gain in enumerate(self.gains)}


def test_variants_are_made_from_who_moves_how() -> None:
    runs = SteeredVariants(dcm={"ties": "random"})
    assert runs.variant("static", mobile=3, step=1.0) == runs.variant("static", mobile=5)
    assert runs.variant("dcm", radius=3) == runs.variant("dcm", radius=3.0)
    assert runs.variant("dam", network=ClientGrid("other", 4, 6)) not in (runs.variant("dam"), "dam")
    made = [runs.variant("static"), runs.variant("dcm"), runs.variant("dam")]
    assert [variant.settings["mobility"].get("ties") for variant in made] == [None, "random", None]
    value = runs.gain("dcm")
    test = about([(value, 8.0)])
    assert test.evidence(Gains(5.0, 5.2, 5.1)).p_holds < 0.05
    assert test.evidence(Gains(3.0, 3.2, 3.1)).p_fails < 0.05


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_judging_made_runs(study: Study, find: Find) -> None:
    if study is JAHANI:  # its theory replays runs: see test_theory
        study = replace(study, claims=ON_RUNS, tables=MEASURED, findings=None)
    result = evaluate_study(study, "full", range(3), find)
    assert not result.missing
    assert set(result.verdicts) == {claim.name for claim in study.claims}
    gains = {"dam-beats-random": 10, "random-beats-static": 20, "dcm-beats-dam": 2}
    for name, points in gains.items():  # of rounds 0, 20 and 40 the later half is the last alone
        assert result.verdicts[name].evidence.estimate == pytest.approx(points)
    quick = evaluate_study(study, "quick", range(2), lambda variant, seed: None)
    assert {verdict.word for verdict in quick.verdicts.values()} == {"undecided"}
    assert set(quick.verdicts) < set(result.verdicts)
    for figure in study.figures[:4]:
        assert figure.draw(Reader(find, range(3))) is not None


def said(study: Study, name: str) -> str:
    """The test of a claim in words."""
    return next(claim.test.words for claim in study.claims if claim.name == name)


def test_claims_are_tested_by_the_runs_and_numbers_that_the_papers_name() -> None:
    words = said(REZA, "gain-large-constrained")
    assert words == (
        "final accuracy of 35x35,dcm,m=5,Rc=5,Rm=9,a=0.05 − final accuracy of 35x35,random,m=5,Rc=5,Rm=9,a=0.05 "
        "> 2 points"
    )
    sparse = said(REZA, "gain-sparse").split("; ")
    assert [part.split(" − ")[0] for part in sparse] == [
        f"final accuracy of {p},m=3,Rc=1,Rm=5,a=0.05" for p in ("dam", "dcm")
    ]
    assert all(part.endswith("> 7.5 points") for part in sparse)
    cifar = said(REZA, "gain-cifar-unconstrained").split("; ")
    assert [part.rsplit(" > ", 1)[1] for part in cifar] == ["2.5 points", "4 points"]
    assert all("cifar10" in part and "Rm=inf,a=0.1" in part for part in cifar)
    assert said(REZA, "steering-wins-whatever-the-number").count("> 0 points") == 6
    drops = said(JAHANI, "steering-limits-the-drop").split("; ")
    assert drops[0] == (
        "final accuracy of dam,m=3,Rc=3,Rm=5,a=0.1 − final accuracy of dam,m=3,Rc=3,Rm=5,a=0.05 < 10 points"
    )
    words = said(JAHANI, "radius-3-mobile").split("; ")
    assert [part.split(" of ")[1].split(" − ")[0] for part in words] == [
        f"{p},m=3,Rc={radius},Rm=5,a=0.05" for p, radius in (("dcm", 4), ("random", 4), ("random", 5))
    ]
    assert all("0.9 × highest accuracy of static,Rc=inf,a=0.05" in part for part in words)
    assert [part.split()[-3] for part in words] == [">", "<", ">"]
    assert said(JAHANI, "dcm-with-4-at-radius-3").startswith("highest accuracy of dcm,m=4,Rc=3,Rm=5,a=0.05")
    assert said(JAHANI, "gain-sparse").endswith("of random,m=5,Rc=1,Rm=5,a=0.05 > 10 points")
    assert said(JAHANI, "b-falls-with-steering").count("> 0 rounds") == 4
    sooner = said(JAHANI, "smaller-b-lower-error").split("; ")
    assert len(sooner) == 6
    assert sooner[4] == (
        "smallest B of random,m=5,Rc=3,Rm=5,a=0.05 − smallest B of random,m=5,Rc=5,Rm=5,a=0.05 > 0 rounds"
    )
    assert sooner[5].startswith(
        "highest accuracy of random,m=5,Rc=5,Rm=5,a=0.05 − highest accuracy of random,m=5,Rc=3"
    )
    assert "dam,m=5,Rc=3,Rm=5,a=0.05,warm_up" in said(JAHANI, "warm-up-is-enough")
    per_limit = said(REZA, "gain-alpha-0_05-constrained").split("; ")
    assert [part.rsplit(" > ", 1)[1] for part in per_limit] == ["4 points", "4 points"]
    assert all("Rm=5" in part and "Rm=inf" not in part for part in per_limit)


def test_later_half_and_smallest_b_of_a_run(find: Find, tmp_path: Path) -> None:
    made = made_run(tmp_path / "more", "random", 0, [0.1, 0.2, 0.3, 0.4, 0.5])
    assert later_half.number(made) == pytest.approx(45)
    apart = find("dcm,m=3", 0)
    assert apart is not None
    assert math.isinf(smallest_b.number(apart))


def test_smallest_b_is_that_of_the_analysis(tmp_path: Path) -> None:
    tiny: dict[str, Any] = {
        "clients": 6,
        "rounds": 3,
        "data": {"kind": "digits", "test_share": 0.9},
        "partition": {"kind": "dirichlet", "alpha": 1.0},
        "model": "softmax_regression",
        "engine": "reference",
        "mobility": {"kind": "random", "grid": 4, "mobile": 4},
        "contacts": {"kind": "radius", "radius": 2.0},
    }
    seen = set()
    for seed in range(4):
        found = run(Experiment(**tiny, seed=seed), tmp_path / str(seed))
        graphs = [graph.toarray() for graph in recorded(found).graphs]
        wanted = math.inf
        for b in range(1, 4):
            windows = [graphs[k : k + b] for k in range(0, 3 - b + 1, b)]
            if all(connected_components(np.any(window, axis=0))[0] == 1 for window in windows):
                wanted = b
                break
        assert smallest_b.number(found) == wanted
        seen.add(wanted)
    assert len(seen) > 1  # worlds that differ


def test_measures_have_names_of_their_own() -> None:
    used: set[Measure] = set()
    for study in STUDIES.values():
        for cell in itertools.chain.from_iterable(table.cells for table in study.tables):
            used |= {term.measure for term in cell.value.terms}
    assert len({measure.name for measure in used}) == len(used)


def test_readings_of_reza_tell_how_runs_ended_that_were_read_otherwise() -> None:
    found = json.loads((ROOT / "docs" / "records" / "readings.json").read_text(encoding="utf-8"))["reza"][
        "ends"
    ]
    ends = {name: [f"{end:.1f}" for end in of["accuracy"]] for name, of in found.items()}
    told = {reading.about: reading.effect for reading in REZA.readings}
    kept, read = (" and ".join(ends[name]) for name in ("momentum kept", "as read"))
    assert f"end at {kept} %, where they are {read} % as it is read" in told["momentum on MNIST"]
    assert max(found["momentum kept"]["accuracy"]) < 11  # ten classes: it guesses
    diverged = found["pixels standardised"]["diverged"]
    assert [one is None for one in diverged] == [True, False]
    whole, broken = ends["pixels standardised"]
    assert (
        f"one of the two runs diverges at this learning rate and ends at {broken} %, the other at {whole} %"
        in told["scaling of pixels"]
    )


def test_readings_of_reza_tell_how_flights_differ_from_straight_ones() -> None:
    found = json.loads((ROOT / "docs" / "records" / "readings.json").read_text(encoding="utf-8"))["reza"][
        "flights"
    ]
    told = {reading.about: reading.effect for reading in REZA.readings}["nearest point within Rm"]
    assert f"at another point in {100 * found['others']:.0f} % of DAM's steps" in told
    assert f"{found['apart_m']:.1f} m away on average, and in {100 * found['too_far']:.0f} % of them" in told


def test_straight_flights_by_hand() -> None:
    """From (1, 1) to (1, 9) by 5: both end at (1, 6). To (9, 5) a straight one ends at (5.47, 3.24), rounded to (5, 3),
    within 5; who arrives does not count."""
    script = benchmark("readings")
    here, target = np.full((3, 2), 1.0), np.array([[1.0, 9.0], [9.0, 5.0], [3.0, 3.0]])
    after = np.array([[1.0, 6.0], [5.0, 4.0], [3.0, 3.0]])
    found = script.beside_the_line(here, after, target, 5.0)
    np.testing.assert_allclose(found, [[0, 5], [1, math.sqrt(20)]])


@pytest.mark.data
@pytest.mark.slow
def test_a_run_that_is_read_otherwise_is_found_again() -> None:
    """Settings change what is meant, and runs of a few rounds are gathered."""
    script = benchmark("readings")
    for name, changes in script.OTHERWISE.items():
        changed = script.settings_changed(script.STEERED, changes)
        experiment = REZA.experiment(script.STEERED, "quick")
        assert (experiment.replace(**changed).digest == experiment.digest) == (name == "as read")
    found = script.ends(script.OTHERWISE["momentum kept"], rounds=4, evaluate_every=4)
    assert len(found["accuracy"]) == len(found["diverged"]) == script.SEEDS
