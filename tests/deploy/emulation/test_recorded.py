"""What the page on networks says was measured is what the kept records say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.scripts import benchmark

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "records" / f"{name}.json").read_text("utf-8"))
    return found


def test_a_fleet_is_the_simulation() -> None:
    fleet = recorded("fleet")
    assert (fleet["devices"], fleet["access_points"], fleet["rounds"]) == (36, 20, 50)
    assert fleet["told"] == []
    assert all(one["identical"] and one["values"] for one in fleet["agreement"].values())
    assert f"its {fleet['processes']} processes had {fleet['gib']} GiB of memory together at most" in PAGE
    assert f"took {fleet['seconds']:.0f} seconds on two cores" in PAGE


def test_so_is_one_with_the_network_of_the_paper() -> None:
    fleet = recorded("fleet-conv5")
    assert (fleet["devices"], fleet["access_points"], fleet["model"]) == (36, 20, "conv5")
    assert fleet["told"] == []
    assert fleet["gib"] < 16
    assert all(one["identical"] and one["values"] for one in fleet["agreement"].values())
    assert (
        f"one of {fleet['rounds']} rounds with the network of Farcas et al. (`--model conv5`), whose "
        f"{fleet['processes']} processes had {fleet['gib']} GiB and took {fleet['seconds']:.0f} seconds"
    ) in PAGE


def test_an_access_point_bears_its_load() -> None:
    load = recorded("access-point-load")
    assert load["messages"] > 10_000
    memory = {int(round): value for round, value in load["memory_by_rounds"].items()}
    for told in (
        f"it took {load['updates']:,} of them, in {load['messages']:,} messages, with {load['core_seconds']:g} seconds",
        f"{load['updates_a_core_minute']:,.0f} for each minute",
        f"It had {load['handles_end']} files and connections open after 6 rounds and after {load['rounds']}",
        f"{memory[96] / 1e6:.0f} MB of memory from round 96 on, to within one, after",
        f"after {memory[30] / 1e6:.0f} MB in round 30",
        f"costs {(load['memory']['all_wait'] - load['memory']['begun']) / load['devices'] / 1e6:.1f} MB",
    ):
        assert told in PAGE
    assert load["handles_warm"] == load["handles_end"]
    late = [memory[round] for round in memory if round >= 96]
    assert max(late) - min(late) < 1e6


def test_rounds_take_as_long_as_simulated() -> None:
    record, measured = recorded("time-per-round"), benchmark("time_per_round")
    assert measured.table(record) in PAGE
    met, wider = (
        record[how]["gossip"]["agreement"]["time per round"]["difference"] for how in ("netns", "netns x 8")
    )
    assert f"such a round of gossip {100 * met:.1f} % longer" in PAGE
    assert f"as much faster, it is {100 * wider:.1f} %." in PAGE
    for how in ("paced", "netns"):
        assert record[how].keys() == set(measured.KINDS)
        for found in record[how].values():
            both = list(zip(found["network"], found["simulated"], strict=True))
            assert len(both) == 12
            apart = max(abs(took - simulated) / simulated for took, simulated in both)
            assert apart < 0.1
            assert abs(apart - found["agreement"].pop("time per round")["difference"]) < 1e-3
            assert all(one["identical"] and one["values"] for one in found["agreement"].values())
            assert all("this kernel has no netem" in line for line in found["told"])


def test_links_are_as_slow_as_they_are_told() -> None:
    record = recorded("emulated-links")
    near, far = record["delay"]
    assert all(each["told"] <= each["least"] < 1.1 * each["told"] for each in (near, far))
    assert f"take {near['least']:.1f} ms, {far['least']:.1f} ms at least (ping)" in PAGE
    longer = [100 * (each["seconds"] / each["closed_form"] - 1) for each in record["rate"]]
    assert all(0 <= each < 2 for each in longer)
    assert f"take {longer[0]:.1f}, {longer[1]:.1f} and {longer[2]:.1f} % longer" in PAGE
    assert all(each["low"] < each["told"] < each["high"] for each in record["loss"])
    few, many = (
        {name: f"{100 * each[name]:.2f}" for name in ("lost", "low", "high")} for each in record["loss"]
    )
    assert f"{few['lost']} % are lost (95 % interval {few['low']} to {few['high']})" in PAGE
    assert f"{many['lost']} % ({many['low']} to {many['high']})" in PAGE
    share = record["share"]
    assert f"takes {share['quarter']:.2f} s, and {share['whole']:.2f} s with all of it" in PAGE
    works = ("train", "open", "carry", "aggregate")
    plain, later, _ = (run["seconds"] for run in record["runs"])
    spent = [sum(run["seconds"][work][k] for work in works) for run in record["runs"] for k in (0, 1)]
    assert f"{min(spent):.1f} to {max(spent):.1f} s of it went into training" in PAGE
    took = [seconds for run in record["runs"] for seconds in run["seconds"]["network"]]
    assert f"took {min(took):.0f} to {max(took):.0f} s, 29 to 30 s simulated" in PAGE
    more = [later["carry"][k] - plain["carry"][k] for k in (0, 1)]
    assert f"models were {more[0]:.1f} and {more[1]:.1f} s longer on their way, 0.6 s simulated" in PAGE
    assert [later["simulated"][k] - plain["simulated"][k] for k in (0, 1)] == pytest.approx([0.6, 0.6])
    for run in record["runs"]:
        del run["agreement"]["time per round"]
        assert all(one["identical"] and one["values"] for one in run["agreement"].values())
