"""Numbers in sentences of README and docs are those of the records beside them, reckoned here again."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from typing import Any

import pytest

from support.pages import PAGES, ROOT


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
        "rounds side by side": (
            performance,
            f"with AVX-512, {peers[f'{wide} flower round min']:.1f} times as fast as Flower's or more and "
            f"{peers[f'{wide} loop round min']:.1f} times as fast as the plain loop's or more, and "
            f"{peers[f'{narrow} loop round min']:.1f} times or more as fast as either",
        ),
        "a round on AVX2 alone": (
            performance,
            f"D, {peers[f'{old} loop round D']:.1f} times as fast as the plain",
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
        "tiny runs": (
            "docs/sweeps.md",
            f"{tiny['rounds']} rounds of {1000 * tiny['of_a_round']:.1f} ms, {100 * tiny['share_of_runs']:.0f} % is "
            f"what runs take beside their rounds and two evaluations each, and {100 * tiny['share_of_the_pool']:.0f} % "
            "the start of the processes",
        ),
        "mixing in place": (performance, f"takes {speed['AVX512 in place']} of the time with AVX512"),
        "the rest of a round": (
            performance,
            f"by the record {speed['AVX512 rest']} ms of a round of {speed['AVX512 round']} ms are neither training",
        ),
        "the rest with AVX2": (
            performance,
            f"{speed['AVX2 rest']} of {speed['AVX2 round']} ms, which is {speed['AVX2 share']}",
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


SENTENCES = sentences()


@pytest.mark.parametrize("of", SENTENCES)
def test_a_sentence_has_the_numbers_of_its_record(of: str) -> None:
    page, said = SENTENCES[of]
    assert said in PAGES[page], said
