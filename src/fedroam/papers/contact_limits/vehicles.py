"""Which method wins among vehicles of Bologna and taxis of San Francisco: claims added to those on random waypoint.

They were declared when all runs of those had been read, and those of vehicles who lose what breaks at 2 and 10 s; no
run of another method on a trace had been made. How many transfers get through at each time was counted from movement
alone, as `fedroam clock` does: in Bologna 71 % at 10 s and 45 % at 20 s, of the taxis 62 % at 30 s and 27 % at 200 s.
"""

from __future__ import annotations

from collections.abc import Iterable

from fedroam.papers.contact_limits.runs import TRACE_LABELS, TRACE_REGIMES, on_trace, regime
from fedroam.study.claims import Claim, Test, all_of, order
from fedroam.study.measures import later_half

ON_TRACES = "which method wins among vehicles"
SERVERS, ALONE = ("fedavg", "fedbuff"), "local"
SERVERLESS = ("lost", "resumed", "partial", ALONE)


def beats(trace: str, winner: str, others: Iterable[str], seconds: float) -> Test:
    """A method ahead of every one of the others over the later half of the run."""
    return all_of(
        order(later_half.of(on_trace(trace, seconds, winner)), later_half.of(on_trace(trace, seconds, other)))
        for other in others
    )


def _of(trace: str) -> tuple[Claim, ...]:
    """The claims of one trace."""
    label, times = TRACE_LABELS[trace], TRACE_REGIMES[trace]
    return (
        *(
            Claim(
                f"servers-win-{trace}-{name}",
                f"{label}: where a model takes {regime(times[name])}, a server that is reached anywhere wins: FedAvg "
                "and FedBuff are both ahead of every method without one.",
                all_of(beats(trace, server, SERVERLESS, times[name]) for server in SERVERS),
                "found on random waypoint",
                ON_TRACES,
            )
            for name in ("all", "some")
        ),
        Claim(
            f"servers-lose-{trace}-beyond",
            f"{label}: where it takes {regime(times['beyond'])}, down and up more than a round, servers get none: "
            "using the parts that came from others in contact wins, ahead of both servers and of who learns alone.",
            beats(trace, "partial", (*SERVERS, ALONE), times["beyond"]),
            "found on random waypoint",
            ON_TRACES,
        ),
        Claim(
            f"meeting-beats-staying-{trace}",
            f"{label}: where it takes {regime(times['all'])}, who exchanges what fits is ahead of who learns alone.",
            beats(trace, "lost", [ALONE], times["all"]),
            "found on straight walks",
            ON_TRACES,
        ),
        Claim(
            f"parts-win-without-server-{trace}-beyond",
            f"{label}: where it takes {regime(times['beyond'])}, using the parts that came is ahead of resuming and of "
            "losing what broke.",
            beats(trace, "partial", ("resumed", "lost"), times["beyond"]),
            "Sabella et al., abstract, (ii)",
            ON_TRACES,
        ),
    )


VEHICLES = tuple(claim for trace in TRACE_REGIMES for claim in _of(trace))
