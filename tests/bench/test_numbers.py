"""Numbers in sentences of README and docs are those of the records beside them, reckoned here again."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from support.pages import PAGES, ROOT
from support.scripts import benchmark


def record(name: str) -> Any:
    return json.loads((ROOT / "docs" / "records" / f"{name}.json").read_text(encoding="utf-8"))


def engine_speed() -> dict[str, str]:
    """What is neither training nor evaluation of a round, and what mixing in place takes of mixing."""
    found: dict[str, str] = {}
    for vectors, measured in record("engine-speed").items():
        results = {each["name"]: each for each in measured["results"]}
        whole = 1000 * statistics.median(results["overhead"]["times"]["round"])
        share = results["overhead"]["value"]
        found |= {
            f"{vectors} share": f"{share:.1f} %",
            f"{vectors} rest": f"{share / 100 * whole:.1f}",
            f"{vectors} round": f"{whole:.0f}",
        }
        times = results["F"]["times"]
        if "in_place" in times:
            share = statistics.median(times["in_place"]) / statistics.median(times["mix"])
            found[f"{vectors} in place"] = f"{share:.2f}"
    return found


def side_by_side() -> dict[str, float]:
    """How many times fedroam's seconds, by medians: the least and the most of A, D and E, by kind of vectors, peer and
    what is timed."""
    found: dict[str, float] = {}
    for vectors, kept in record("peers").items():
        for peer in ("flower", "loop"):
            for of in ("round", "command"):
                ratios = {name: over(kept["runs"].values(), name, peer, of) for name in "ADE"}
                found |= {f"{vectors} {peer} {of} {name}": ratio for name, ratio in ratios.items()}
                found |= {
                    f"{vectors} {peer} {of} {which.__name__}": which(ratios.values()) for which in (min, max)
                }
    return found


def over(runs: Iterable[dict[str, Any]], workload: str, peer: str, of: str) -> float:
    """Median seconds of a peer over those of fedroam."""
    seconds: dict[str, list[float]] = {peer: [], "fedroam": []}
    for each in runs:
        if each["workload"] == workload and each["peer"] in seconds:
            rounds = each["rounds_s"][1:]
            seconds[each["peer"]].append(statistics.median(rounds) if of == "round" else each["command_s"])
    return statistics.median(seconds[peer]) / statistics.median(seconds["fedroam"])


def sentences() -> dict[str, tuple[str, str]]:
    """A page and what it says, by what that is of."""
    speed, (gpu, *_) = engine_speed(), record("gpu")["rows"]
    cases = [case for part in record("clock-day") for case in part["cases"]]
    firsts = [case["first"] for case in cases]
    fleet, conv5, load = (record(name) for name in ("fleet", "fleet-conv5", "access-point-load"))
    waits = (load["memory"]["all_wait"] - load["memory"]["begun"]) / load["devices"]
    performance, deploy = "docs/performance.md", "docs/deploy.md"
    peers, tiny = side_by_side(), record("tiny-runs")
    wide, narrow, old = "AVX512", "AVX2-only", "AVX2"
    return {
        **of_pages_on_learning(),
        **of_pages_on_networks(),
        **of_performance(),
        **of_steered_movement(),
        "rounds side by side": (
            performance,
            f"with AVX-512, {peers[f'{wide} flower round min']:.1f} times as fast as Flower's or more and "
            f"{peers[f'{wide} loop round min']:.1f} times as fast as the plain loop's or more, and "
            f"{peers[f'{narrow} loop round min']:.1f} times or more as fast as either",
        ),
        "a round on AVX2 alone": (
            performance,
            f"it is {peers[f'{old} flower round min']:.1f} times as fast as Flower's or more and "
            f"{peers[f'{old} loop round min']:.1f} times as fast as the plain loop's or more.",
        ),
        "commands side by side": (
            performance,
            f"with AVX-512, {peers[f'{wide} flower command min']:.1f} times as fast as Flower's or more, and "
            f"{peers[f'{wide} loop command min']:.1f} to {peers[f'{wide} loop command max']:.1f} times as fast as the",
        ),
        "commands kept to AVX2": (
            performance,
            f"{peers[f'{narrow} flower command min']:.1f} times as fast as Flower's or more, and "
            f"{peers[f'{narrow} loop command A']:.1f} (A), {peers[f'{narrow} loop command D']:.1f} (D) and "
            f"{peers[f'{narrow} loop command E']:.1f} times (E) as fast as the plain loop",
        ),
        "studies in which nothing is true": (
            "docs/how-claims-are-judged.md",
            benchmark("null_studies").sentence(record("null-studies")),
        ),
        "kernels on ARM": (
            performance,
            benchmark("arm_in_emulation").sentence(record("arm")),
        ),
        "true claims that are given up": (
            "docs/how-claims-are-judged.md",
            benchmark("null_studies").of_true_claims(record("null-studies")),
        ),
        "estimates at the look that decides": (
            "docs/how-claims-are-judged.md",
            benchmark("null_studies").of_estimates(record("null-studies")),
        ),
        "tiny runs": (
            "docs/sweeps.md",
            f"{tiny['rounds']} rounds of {1000 * tiny['of_a_round']:.1f} ms, {100 * tiny['share_of_runs']:.0f} % is "
            f"what runs take beside their rounds and two evaluations each, and {100 * tiny['share_of_the_pool']:.0f} % "
            "the start of the processes",
        ),
        "mixing in place": (performance, f"takes {speed['AVX512 in place']} of the time with AVX512"),
        "the rest of a round": (
            performance,
            f"by the record {speed['AVX2 rest']} ms of a round of {speed['AVX2 round']} ms are neither training",
        ),
        "the rest with wider vectors": (
            performance,
            f"With AVX512 they are {speed['AVX512 rest']} of {speed['AVX512 round']} ms, and where that is kept to "
            f"AVX2 {speed['AVX2-only rest']} of {speed['AVX2-only round']} ms",
        ),
        "shares of a round": (performance, f"{speed['AVX512 share']} of a round of A are neither"),
        "begin of a day": (
            performance,
            f"the processors take {min(firsts):.1f} to {max(firsts):.1f} s, imports",
        ),
        "images that are read": (performance, f"fingerprinting {70_000 * 28 * 28 * 4 // 1_000_000} MB"),
        "a checkpoint of E": (performance, f"a checkpoint of {1000 * 50_890 * 4 / 1e6:.0f} MB"),
        "a GPU": (
            "README.md",
            f"in {gpu['thousand']:.0f} s on one H100, {gpu['over_cores']:.0f} times two cores",
        ),
        "a fleet": (
            deploy,
            f"its {fleet['processes']} processes had {fleet['gib']} GiB of memory together at most, took "
            f"{fleet['seconds']:.0f} seconds on two cores",
        ),
        "a fleet with Conv5": (
            deploy,
            f"whose {conv5['processes']} processes had {conv5['gib']} GiB and took {conv5['seconds']:.0f} seconds",
        ),
        "an access point": (
            deploy,
            f"it took {load['updates']:,} of them, in {load['messages']:,} messages, with {load['core_seconds']} "
            f"seconds of one core, {load['updates_a_core_minute']:,.0f} for each minute of it",
        ),
        "a device that waits": (deploy, f"in the midst of its call, costs {waits / 1e6:.1f} MB"),
    }


WORDS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def word(number: float) -> str:
    """A small number as pages write it in sentences."""
    return WORDS[round(number)]


def of_performance() -> dict[str, tuple[str, str]]:
    """Further sentences of the page on performance."""
    page, peers = "docs/performance.md", side_by_side()
    moved = record("movement")["points"]
    dam, spread = (moved[f"{kind} unbounded 10000"]["movement_ms"] for kind in ("dam", "spread over dam"))
    perceptron = next(
        each
        for each in record("engine-speed")["AVX512"]["methods"]["results"]
        if each["name"] == "methods: fedavg" and "MLP" in each["about"]
    )
    (thousand,) = (row["thousand"] for row in record("gpu")["rows"] if row["thousand"] is not None)
    return {
        "commands on AVX2 alone": (
            page,
            f"it is {peers['AVX2 flower command min']:.1f} times as fast as Flower's or more, and "
            f"{peers['AVX2 loop command min']:.1f} to {peers['AVX2 loop command max']:.1f} times as fast as the plain",
        ),
        "a round with a perceptron": (
            page,
            f"FedAvg's round is a kernel and takes {1000 * statistics.median(perceptron['times']['round']):.0f} ms",
        ),
        "a round in which all draw": (
            page,
            f"takes `dam` {dam / 1000:.1f} s and `spread` over it {spread / 1000:.1f}.",
        ),
        "clusters of one's own": (
            page,
            f"a round in which all draw takes {moved['dcm half explored 10000']['first_s']:.1f} s",
        ),
        "a bit for each": (page, f"and grid point: {5000 * 500 * 500 / 8 / 1e6:.0f} MB here"),
        "a thousand rounds": (page, f"one after the other, took {thousand:.0f} seconds"),
        **{
            f"speed, {k}": (page, said)
            for k, said in enumerate(benchmark("engine_speed").others(record("engine-speed")).split(". "))
        },
    }


def of_pages_on_learning() -> dict[str, tuple[str, str]]:
    """Sentences on what was learnt, and on who was there."""
    attacks = "docs/attacks-and-robust-rules.md"
    ends = {
        attack: {rule: 100 * statistics.fmean(seeds) for rule, seeds in rules.items()}
        for attack, rules in record("byzantine")["accuracy"].items()
    }
    safe, fallen, labels = (ends[attack]["average"] for attack in ("none", "sign_flip", "label_flip"))
    # Seed by seed, as the table on the page: of the fall, what a rule regains (%), and what is left (points).
    sound, fell = (
        np.array(record("byzantine")["accuracy"][attack]["average"]) for attack in ("none", "sign_flip")
    )
    under = [
        np.array(seeds)
        for rule, seeds in record("byzantine")["accuracy"]["sign_flip"].items()
        if rule != "average"
    ]
    regained = [100 * float(((rule - fell) / (sound - fell)).mean()) for rule in under]
    left = [100 * float((sound - rule).mean()) for rule in under]
    month = {
        (line["value"].split(" of ")[0]): line["mean"]
        for line in kept_cells("mohawk")
        if line["value"].endswith("present,month,k2=5,mohawk")
    }
    wasted = {line["value"]: line["mean"] for line in kept_cells("mohawk") if "per device" in line["value"]}
    once, again = (
        [
            wasted[f"{what} per device of present,month,k2=5,{method}"]
            for method in ("hierfavg", "macfl", "mohawk")
        ]
        for what in ("energy wasted", "energy wasted, or spent on overwritten updates,")
    )
    weights = record("readings")["mohawk"]["unequal_weights"]["flat"]
    attacked = [json.loads(line) for line in (ROOT / "tests" / "attack" / "record.jsonl").open()]
    before, after = (each for each in attacked if (each["what"], each["seed"]) == ("cases", 7))
    return {
        "sign flip": (attacks, f"falls from {safe:.1f} to {fallen:.1f} %"),
        "sign flip undone": (
            attacks,
            f"but for {word(min(left))} to {word(max(left))} points: they regain {min(regained):.0f} to "
            f"{max(regained):.0f} % of the fall",
        ),
        "noise": (
            attacks,
            f"stops about {word(ends['none']['multi_krum'] - ends['gaussian']['multi_krum'])} points",
        ),
        "krum": (attacks, f"which costs it {word(safe - ends['none']['krum'])} points or so"),
        "label flip": (attacks, f"falls by {word(safe - labels)} points only"),
        "waste": (
            "docs/energy-and-bytes.md",
            "a device wastes {:.0f} J with HierFAVG, {:.0f} J with MACFL and {:.0f} J with MOHAWK".format(
                *once
            ),
        ),
        "overwritten": ("docs/energy-and-bytes.md", "one, {:.0f}, {:.0f} and {:.0f} J".format(*again)),
        "equal weights": (
            "docs/hierarchical.md",
            f"off by {100 * weights['median']:.2g} %, at most {100 * weights['most']:.2g} %",
        ),
        "the month": (
            "docs/traces.md",
            f"it is {month['devices present an hour']:.1f} and "
            f"{month['devices aggregated an hour after training']:.1f}, the means",
        ),
        "seed 7": (
            "docs/promises.md",
            f"{before['all']:,} cases each, {before['findings']} findings and then {word(after['findings'])}",
        ),
    }


def kept_cells(study: str) -> list[dict[str, Any]]:
    """What the study of a paper has in its tables at scale quick, of the most seeds."""
    text = (ROOT / "results" / study / "quick" / "cells.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = [line for table in json.loads(text).values() for line in table]
    return found


def of_pages_on_networks() -> dict[str, tuple[str, str]]:
    """Sentences on networks, clusters, and hierarchies of many devices."""
    cluster, deploy, hierarchical = "docs/one-run-over-a-cluster.md", "docs/deploy.md", "docs/hierarchical.md"
    ray = {name: spread_by_ray(name) for name in ("mlp", "cnn")}
    (many,) = (
        point
        for point in record("scale")["points"].values()
        if (point["kind"], point["clients"], point["at_rest"]) == ("hierarchical", 10_000, "float32")
    )
    paced = record("time-per-round")["netns"].values()
    rounds = [a / b - 1 for found in paced for a, b in zip(found["network"], found["simulated"], strict=True)]
    most = "most" if sum(-0.02 < longer < -0.01 for longer in rounds) > len(rounds) / 2 else "some"
    links = {
        f"transfers, {1000 * turn:.0f} ms": (deploy, transfers(turn))
        for turn in sorted({each["turn"] for each in record("long-links")})
    }
    return {
        "Ray begins": (
            cluster,
            f"{word(min(each['begins'] for each in ray.values()))} to "
            f"{word(max(each['begins'] for each in ray.values()))} seconds later",
        ),
        "Ray places": (
            cluster,
            f"after the first exchange, takes {word(ray['mlp']['places'])} second, and the end "
            f"{word(min(each['ends'] for each in ray.values()))} or "
            f"{word(max(each['ends'] for each in ray.values()))} more than in one process",
        ),
        "rows": (hierarchical, f"at most {many['rows']:,} rows were there at once"),
        "memory": (hierarchical, f"took {many['peak_gib']:.2f} GiB"),
        "all rows": (
            hierarchical,
            f"each would be {10_000 * many['parameters'] * 4 / 1e9:.0f} GB if everybody",
        ),
        "rounds by netns": (deploy, f"{most} of these rounds are 1 to 2 % shorter than reckoned"),
        **links,
    }


def spread_by_ray(name: str) -> dict[str, float]:
    """By how many seconds round 1 begins later, what more the exchange of round 1 takes than one of the others, and
    what more passes after the last round: medians over the repeats."""
    points = [each for each in record("over-ray")["points"].values() if each["run"] == name]

    def median(way: str, of: Callable[[list[float], float], float]) -> float:
        return statistics.median(
            of(each["moments"], each["whole_s"]) for each in points if each["way"] == way
        )

    def begins(moments: list[float], _: float) -> float:
        return moments[0]

    def places(moments: list[float], _: float) -> float:
        took = [b - a for a, b in itertools.pairwise(moments)]
        return took[1] - statistics.median(took[2:-1])

    def ends(moments: list[float], whole: float) -> float:
        return whole - moments[-1]

    return {
        "begins": median("ray", begins) - median("alone", begins),
        "places": median("ray", places),
        "ends": median("ray", ends) - median("alone", ends),
    }


def transfers(turn: float) -> str:
    """A row of the table of transfers: seconds of what takes longer, to fetch or to bring a model."""
    cells = []
    for each in record("long-links"):
        if each["turn"] == turn:
            seconds = max(each["seconds"]["fetched"], each["seconds"]["brought"])
            cells.append(f"{seconds:.{3 if seconds < 0.1 else 2}f} s")
    return f"| {f'{1000 * turn:.0f} ms' if turn else 'nothing'} | {' | '.join(cells)} |"


def of_steered_movement() -> dict[str, tuple[str, str]]:
    """Sentences below the tables of what spread and knowledge are worth."""
    page, script, kept = "docs/steered-movement.md", benchmark("spread_against_dcm"), record("spread")

    def of(kind: str, rounds: int, what: str, mobile: int = 5, **more: Any) -> list[float]:
        own = {"kind": kind, "mobile": mobile, **more}
        wanted = (script.experiment(own, seed, rounds) for seed in range(script.SEEDS))
        name = {"accuracy": "learnt"}.get(what, "linked")
        return [kept[f"{name} {each.digest[:20]}"][what] for each in wanted]

    def gain(rows: tuple[list[float], list[float]]) -> list[float]:
        return [a - b for a, b in zip(*rows, strict=True)]

    over_dcm = [
        statistics.fmean(gain((of("spread", 100, "accuracy", m, base="dcm"), of("dcm", 100, "accuracy", m))))
        for m in script.MOBILE
    ]
    oracle = of("dcm", 100, "accuracy", knowledge="oracle")
    contacts, warm_up = (
        gain((of("dcm", 100, "accuracy", knowledge=k), oracle)) for k in ("contacts", "warm_up")
    )
    middle, half = statistics.fmean(contacts), stats.sem(contacts) * stats.t.ppf(0.975, len(contacts) - 1)
    near, far = (
        of(*kind, script.WORLD, "b", **base)
        for kind, base in ((("spread",), {"base": "dcm"}), (("dcm",), {}))
    )
    degrees = [
        statistics.fmean(found)
        for found in (of("spread", script.WORLD, "degree", base="dcm"), of("dcm", script.WORLD, "degree"))
    ]
    smaller = sum(a < b for a, b in zip(near, far, strict=True))
    return {
        "spread over DCM": (page, f"spread gains {word(min(over_dcm))} to {word(max(over_dcm))} points"),
        "linked sooner": (page, f"(smaller in {word(smaller)} worlds of {word(len(near))})"),
        "fewer contacts": (page, f"a mean degree of {degrees[0]:.2f} against {degrees[1]:.2f}"),
        "knowledge by contacts": (
            page,
            f"the interval of 95 % goes from {middle - half:+.1f} to {middle + half:+.1f} points".replace(
                "-", "−"
            ),
        ),
        "a warm-up": (page, f"beforehand cost DCM {word(-statistics.fmean(warm_up))} points"),
    }


SENTENCES = sentences()


@pytest.mark.parametrize("of", SENTENCES)
def test_a_sentence_has_the_numbers_of_its_record(of: str) -> None:
    page, said = SENTENCES[of]
    assert said in PAGES[page], said
