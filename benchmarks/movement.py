"""What a round of movement, contacts and mixing weights costs: points kept in a record.

    python benchmarks/movement.py                             # every kind, 1,000 and 10,000 clients
    python benchmarks/movement.py --clients 1000 --kinds dam spread
    python benchmarks/movement.py --show                      # the record as a table

Random walks: 48 clients in the world of de Heredia (500 m, R = 45 m, p = 0.2), more at a density that gives a mean
degree of about 10 (by the closest approach). Steered kinds: half of the clients fly, the others stand, over a grid of 5
points a client along each side's square root (500 x 500 for 10,000) or a rectangle of that size, with a reach of 9 m: a
mean degree of about 10 at the end of a round. Each holds 0 to 5 samples of each of ten classes.

Flyers move 10 m a round at most. The first round, in which everybody draws a destination, is told by itself; then they
are put somewhere on their ways, so that as many arrive in a round as in the middle of a run. `unbounded`: every flight
ends in its round, and everybody draws anew in each. `half explored` (knowledge = "contacts"): everybody knows half of
the world beforehand; else it begins with what is in reach.

Medians over rounds, in a process for each point; processor time, beside the clock, of movement.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from kept_points import measured, this_machine, when_and_where

from fedroam.components import build
from fedroam.contacts import degrees
from fedroam.mixing import Facts
from fedroam.mobility import World
from fedroam.randomness import stream

RECORD = Path(__file__).parents[1] / "docs" / "records" / "movement.json"
KINDS: dict[str, dict[str, Any]] = {
    "random_walk": {"kind": "random_walk"},
    "dam": {"kind": "dam"},
    "dcm": {"kind": "dcm"},
    "spread over dam": {"kind": "spread", "base": "dam"},
    "spread over dcm": {"kind": "spread", "base": "dcm"},
    "dam_continuous": {"kind": "dam_continuous"},
    "dcm_continuous": {"kind": "dcm_continuous"},
    "spread_continuous over dam": {"kind": "spread_continuous", "base": "dam"},
    "spread_continuous over dcm": {"kind": "spread_continuous", "base": "dcm"},
}
HOW = ("oracle", "contacts", "half explored", "unbounded")
WALKED = 45.0  # m: the radio range of random walks
REACH, STEP, SPACE = 9.0, 10.0, 5.0  # m: of steered kinds, and the root of the room of a client


def parts(kind: str, how: str, clients: int) -> tuple[Any, Any, World]:
    """The mobility, the contacts and the world of a point."""
    if kind == "random_walk":
        side, counts = 500.0 if clients == 48 else 36.0 * math.sqrt(clients), np.ones((clients, 1), np.int64)
        chosen = {**KINDS[kind], "width": side, "height": side}
        contacts = build("contacts", {"kind": "closest_approach", "radius": WALKED})
        return build("mobility", chosen), contacts, World(0, clients, counts, WALKED)
    side = round(SPACE * math.sqrt(clients))
    chosen = {
        **KINDS[kind],
        "mobile": clients // 2,
        "knowledge": "contacts" if how == "half explored" else "oracle" if how == "unbounded" else how,
        "max_step": math.inf if how == "unbounded" else STEP,
    }
    chosen |= {"width": side, "height": side} if "continuous" in kind else {"grid": side}
    counts = stream(0, "benchmark counts").integers(0, 6, size=(clients, 10))
    mobility, contacts = build("mobility", chosen), build("contacts", {"kind": "radius", "radius": REACH})
    return mobility, contacts, World(0, clients, counts, REACH)


def half_explored(mobility: Any, state: dict[str, np.ndarray], world: World) -> dict[str, np.ndarray]:
    """The same where everybody knows all that lies left of the middle."""
    terrain, (left, _, right, _) = mobility.terrain(world), mobility.bounds()
    seen, known = state["seen"], state["known"]
    survey = np.array([terrain.survey_point(k)[0] for k in range(terrain.survey_points)])
    seen |= np.packbits(survey < (left + right) / 2, bitorder="little")
    known[:, terrain.coverage.places[:, 0] < (left + right) / 2] = True
    return {**state, "seen": seen, "known": known}


def under_way(
    before: dict[str, np.ndarray], state: dict[str, np.ndarray], mobility: Any
) -> dict[str, np.ndarray]:
    """The same where everybody who flies is anywhere on its first flight."""
    position, mobile = state["position"].copy(), len(state["destination"])
    share = stream(0, "benchmark ways").random((mobile, 1))
    place = before["position"][:mobile] * (1 - share) + state["destination"] * share
    position[:mobile] = place if "continuous" in mobility.kind else np.round(place)
    return {**state, "position": position}


def play(kind: str, how: str, clients: int, rounds: int) -> dict[str, Any]:
    """A point, in this process."""
    mobility, contacts, world = parts(kind, how, clients)
    mixing: Any = build("mixing", "mobility_aware")
    begun = time.perf_counter()
    state, seconds, cpu, degree, drawn = mobility.start(world), [], [], [], []
    started = time.perf_counter() - begun
    if how == "half explored":
        state = half_explored(mobility, state, world)
    for t in range(1, rounds + 2):
        begin, used = state, time.process_time()
        clock = [time.perf_counter()]
        state, paths = mobility.step(state, world, t)
        clock.append(time.perf_counter())
        cpu.append(time.process_time() - used)
        graph = contacts.meet(paths)
        clock.append(time.perf_counter())
        mixing.weights(graph, Facts(samples=world.class_counts.sum(axis=1), speed=paths.length))
        clock.append(time.perf_counter())
        seconds.append(np.diff(clock))
        degree.append(degrees(graph).mean())
        if "destination" in state:
            drawn.append((state["destination"] != begin["destination"]).any(axis=1).sum())
        if t == 1 and "destination" in state and how != "unbounded":
            state = under_way(begin, state, mobility)
    move, meet, mix = np.median(seconds[1:], axis=0)
    return {
        "kind": kind,
        "how": how,
        "clients": clients,
        "degree": float(np.mean(degree[1:])),
        "drawn": float(np.mean(drawn[1:])) if drawn else 0.0,
        "movement_ms": 1e3 * move,
        "movement_cpu_ms": 1e3 * float(np.median(cpu[1:])),
        "contacts_ms": 1e3 * meet,
        "mixing_ms": 1e3 * mix,
        "first_s": started + float(seconds[0][0]),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def sizes(kind: str, how: str, asked: list[int]) -> list[int]:
    """For how many clients a point is measured."""
    if kind == "random_walk":
        return sorted({*asked, 48, 100_000} if 10_000 in asked else {*asked, 48}) if how == "oracle" else []
    return [n for n in asked if how in ("oracle", "contacts") or n == max(asked)]


def table(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    lines = [
        "| kind |  | clients | neighbours | new destinations | movement | processor time | contacts | "
        "mixing weights | a round | start and first round | peak memory |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    order = {name: k for k, name in enumerate(KINDS)}
    for p in sorted(
        record["points"].values(), key=lambda p: (order[p["kind"]], HOW.index(p["how"]), p["clients"])
    ):
        walks = p["kind"] == "random_walk"
        of_parts = [p[f"{part}_ms"] for part in ("movement", "contacts", "mixing")]
        told = " | ".join(milliseconds(value) for value in (of_parts[0], p["movement_cpu_ms"], *of_parts[1:]))
        lines.append(
            f"| {p['kind']} | {'' if walks else p['how']} | {p['clients']:,} | {p['degree']:.1f} | "
            f"{'' if walks else format(p['drawn'], ',.0f')} | {told} | {milliseconds(sum(of_parts))} | "
            f"{p['first_s']:.2f} s | {p['peak_bytes'] / 2**30:.2f} GiB |"
        )
    return "\n".join([*lines, "", when_and_where(record)])


def milliseconds(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--how", nargs="*", choices=HOW, default=list(HOW))
    parser.add_argument("--clients", nargs="*", type=int, default=[1000, 10_000])
    parser.add_argument("--rounds", type=int, default=15, help="rounds to take the median of")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--show", action="store_true", help="only print the record")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.point:
        print(json.dumps(play(**json.loads(chosen.point))))
        return 0
    commands = {}
    for kind in [] if chosen.show else chosen.kinds:
        for how in chosen.how:
            for clients in sizes(kind, how, chosen.clients):
                point = {"kind": kind, "how": how, "clients": clients}
                given = json.dumps({**point, "rounds": chosen.rounds})
                commands[f"{kind} {how} {clients}"] = [sys.executable, __file__, "--point", given]
    record = measured(chosen.record, commands, this_machine())
    print(table(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
