"""Which method wins where, and what else was expected on random waypoint: claims that were added to the first ones.

They were declared when the runs on straight walks, traces and grids had been read, and before any run on random
waypoint: predictions are of the closed form (`passing`), of papers, or of those earlier runs, and say which. Each
claim of a winner names it, and holds only if it is ahead of every other that is compared (intersection-union test,
Berger 1982: the largest of the p-values).
"""

from __future__ import annotations

from collections.abc import Iterable

from fedroam.papers.contact_limits.measures import fit
from fedroam.papers.contact_limits.passing import closed_form
from fedroam.papers.contact_limits.runs import (
    BEYOND,
    DENSER,
    HIDDEN,
    INSTANT,
    LARGER,
    LOWEST,
    MOST_FIT,
    NONE_FITS,
    RADII,
    REGIMES,
    ROUND,
    SENDING,
    SMALLER,
    SPEEDS,
    TIMES,
    bytes_of,
    regime,
    roam,
    walk,
)
from fedroam.study.claims import Claim, Test, all_of, equal, order, over, under
from fedroam.study.measures import later_half
from fedroam.study.values import StudyVariant

WAYPOINT = "random waypoint"
WINNERS = "which method wins"
ALL, SOME, NONE = REGIMES.values()
SERVERS, ALONE = ("fedavg", "fedbuff"), "local"
MARGIN = 10.0  # points: how far the closed form may be off
CLOSE = 2.0  # points of accuracy: as good as equal


def method(name: str, seconds: float) -> StudyVariant:
    """A method that is compared, by `SERVERS`, `ALONE`, or what becomes of transfers that break: fast clients, 50 m.

    Servers are reached anywhere, and who learns alone meets nobody: how clients move makes no difference to them, and
    their runs are those of straight walks.
    """
    return walk(seconds, "fast", method=name) if name in (*SERVERS, ALONE) else roam(seconds, broken=name)


def beats(winner: str, others: Iterable[str], seconds: float) -> Test:
    """A method ahead of every one of the others over the later half of the run."""
    return all_of(
        order(later_half.of(method(winner, seconds)), later_half.of(method(other, seconds)))
        for other in others
    )


def near(first: str, second: str, seconds: float) -> Test:
    """Two methods within `CLOSE` points of each other."""
    return equal(later_half.of(method(first, seconds)), later_half.of(method(second, seconds)), margin=CLOSE)


def expected(seconds: float, speed: str, radius: float) -> float:
    """The share (%) of the contacts that the closed form says are long enough."""
    lowest, highest = LOWEST * SPEEDS[speed] / ROUND, SPEEDS[speed] / ROUND
    return closed_form(seconds, radius, (lowest, highest), ROUND)


def _off_by_less(seconds: float, speed: str, radius: float) -> Test:
    reckoned, counted = expected(seconds, speed, radius), fit.of(roam(seconds, speed, radius))
    return all_of([over(counted, round(reckoned - MARGIN, 2)), under(counted, round(reckoned + MARGIN, 2))])


def _takes(hidden: int) -> str:
    """How long a network takes at the rate at which that of `HIDDEN` units takes the time of `SOME`."""
    return regime(round(SOME * bytes_of(hidden) / bytes_of(HIDDEN), 1))


ON_WAYPOINT = (
    Claim(
        "waypoint-regimes",
        f"On random waypoint (fast clients, 50 m) a model that takes {regime(ALL)} gets through in at least "
        f"{MOST_FIT:g} of 100 transfers, one that takes {regime(SOME)} in {NONE_FITS:g} to {MOST_FIT:g}, one that "
        f"takes {regime(NONE)} in less than {NONE_FITS:g}.",
        all_of(
            [
                over(fit.of(roam(ALL)), MOST_FIT),
                under(fit.of(roam(SOME)), MOST_FIT),
                over(fit.of(roam(SOME)), NONE_FITS),
                under(fit.of(roam(NONE)), NONE_FITS),
            ]
        ),
        "the closed form: " + ", ".join(f"{expected(one, 'fast', 50.0):.1f} %" for one in REGIMES.values()),
        WAYPOINT,
    ),
    Claim(
        "waypoint-closed-form",
        "The share of transfers that get through is what straight passes that last 2 sqrt(R² − d²) / v give, within "
        f"{MARGIN:g} points: slow or fast, near or far, at each time.",
        all_of(
            _off_by_less(seconds, speed, radius)
            for speed in SPEEDS
            for radius in RADII
            for seconds in TIMES
            if seconds != INSTANT
        ),
        "2 sqrt(R² − d²) / v, cut by rounds",
        WAYPOINT,
    ),
    *(
        Claim(
            f"waypoint-{ahead}-over-{behind}-{name}",
            f"Where a model takes {regime(REGIMES[name])} (50 m), {ahead} clients are ahead of {behind} ones{words}.",
            order(
                later_half.of(roam(REGIMES[name], ahead)),
                later_half.of(roam(REGIMES[name], behind)),
            ),
            source,
            WAYPOINT,
        )
        for name, ahead, behind, words, source in (
            (
                "all",
                "fast",
                "slow",
                ": they meet more others",
                "the closed form: four times as many exchanges",
            ),
            (
                "some",
                "fast",
                "slow",
                ", though by count they exchange no more: they meet others, not the same ones again",
                "found on straight walks, against what was expected there",
            ),
            ("none", "slow", "fast", "", "the closed form: fifteen times as many exchanges"),
        )
    ),
    Claim(
        "waypoint-meetings-decide",
        "(i) Where nearly all models get through (2 s), it is meetings that decide: fast clients are ahead of slow "
        f"ones, and a link that takes no time adds less than {CLOSE:g} points, to slow and to fast ones.",
        all_of(
            [
                order(later_half.of(roam(ALL)), later_half.of(roam(ALL, "slow"))),
                *(
                    equal(later_half.of(roam(INSTANT, speed)), later_half.of(roam(ALL, speed)), margin=CLOSE)
                    for speed in SPEEDS
                ),
            ]
        ),
        "Sabella et al., abstract, (i)",
        WAYPOINT,
    ),
    Claim(
        "waypoint-parts-are-tolerated",
        f"(ii) Where contacts are frequent and too short for most models (fast clients, 150 m, {regime(NONE)}), using "
        f"the parts that came is ahead of losing them, and within {CLOSE:g} points of a link that takes no time.",
        all_of(
            [
                order(
                    later_half.of(roam(NONE, radius=150.0, broken="partial")),
                    later_half.of(roam(NONE, radius=150.0)),
                ),
                equal(
                    later_half.of(roam(INSTANT, radius=150.0)),
                    later_half.of(roam(NONE, radius=150.0, broken="partial")),
                    margin=CLOSE,
                ),
            ]
        ),
        "Sabella et al., abstract, (ii)",
        WAYPOINT,
    ),
    Claim(
        "waypoint-dense-contacts-contend",
        "(iii) On shared air fewer of the models get through with a reach of 450 m than with 150 m, and fewer than "
        "with 450 m on air that is not shared; and that gives less accuracy than 150 m.",
        all_of(
            [
                order(
                    fit.of(roam(SENDING, radius=DENSER[1], shared=True)),
                    fit.of(roam(SENDING, radius=DENSER[2], shared=True)),
                ),
                order(
                    fit.of(roam(SENDING, radius=DENSER[2])),
                    fit.of(roam(SENDING, radius=DENSER[2], shared=True)),
                ),
                order(
                    later_half.of(roam(SENDING, radius=DENSER[1], shared=True)),
                    later_half.of(roam(SENDING, radius=DENSER[2], shared=True)),
                ),
            ]
        ),
        "Sabella et al., abstract, (iii); found on straight walks",
        WAYPOINT,
    ),
)
_SERVERLESS = ("lost", "resumed", "partial", ALONE)
_WHERE = {
    name: f"{words} ({regime(seconds)})"
    for (name, seconds), words in zip(
        REGIMES.items(),
        ("nearly all models get through", "some models get through", "hardly any model gets through"),
        strict=True,
    )
}
BEST = (
    *(
        Claim(
            f"servers-win-{name}",
            f"Where {where}, a server that is reached anywhere wins: FedAvg and FedBuff are both ahead of every method "
            "without one.",
            all_of(beats(server, _SERVERLESS, REGIMES[name]) for server in SERVERS),
            "all clients average in every round; on straight walks ahead at every time",
            WINNERS,
        )
        for name, where in _WHERE.items()
    ),
    Claim(
        "servers-lose-beyond",
        f"Where a model takes {regime(BEYOND)}, down and up more than a round's {ROUND:g} s, servers get none: using "
        "the parts that came from others in contact wins, ahead of both servers and of who learns alone.",
        beats("partial", (*SERVERS, ALONE), BEYOND),
        "the link's definition, for servers; expected by us, for parts",
        WINNERS,
    ),
    Claim(
        "no-winner-without-server-all",
        f"Without a server, where {_WHERE['all']}, nobody wins: resuming what broke, and using the parts that came, "
        f"are both within {CLOSE:g} points of losing it; and all three are ahead of who learns alone.",
        all_of(
            [
                near("resumed", "lost", ALL),
                near("partial", "lost", ALL),
                *(beats(name, [ALONE], ALL) for name in ("lost", "resumed", "partial")),
            ]
        ),
        "the closed form: one transfer in eleven breaks",
        WINNERS,
    ),
    *(
        Claim(
            f"parts-win-without-server-{name}",
            f"Without a server, where {_WHERE[name]}, using the parts that came wins: it is ahead of resuming, of "
            "losing what broke, and of who learns alone.",
            beats("partial", ("resumed", "lost", ALONE), REGIMES[name]),
            "Sabella et al., abstract, (ii)",
            WINNERS,
        )
        for name in ("some", "none")
    ),
    *(
        Claim(
            f"resumed-over-lost-{name}",
            f"Where {_WHERE[name]}, resuming what broke is ahead of losing it.",
            beats("resumed", ["lost"], REGIMES[name]),
            source,
            WINNERS,
        )
        for name, source in (
            (
                "some",
                "the closed form: half of the pairs meet again within the ten rounds that a model is kept",
            ),
            ("none", "expected by us; a model takes several meetings within ten rounds"),
        )
    ),
    Claim(
        "lost-is-like-alone-none",
        f"Where {_WHERE['none']}, who loses what breaks is less than 5 points ahead of who learns alone.",
        under(later_half.of(method("lost", NONE)) - later_half.of(method(ALONE, NONE)), 5.0),
        "the closed form: some two exchanges of a client in 200 rounds",
        WINNERS,
    ),
    Claim(
        "ranking-of-sizes-turns",
        f"The ranking of networks turns: where sending takes no time, {LARGER} hidden units are ahead of {SMALLER}; at "
        f"the rate at which these take {_takes(SMALLER)} and those {_takes(LARGER)}, it is the other way round.",
        all_of(
            [
                order(
                    later_half.of(roam(INSTANT, hidden=LARGER)), later_half.of(roam(INSTANT, hidden=SMALLER))
                ),
                order(later_half.of(roam(SOME, hidden=SMALLER)), later_half.of(roam(SOME, hidden=LARGER))),
            ]
        ),
        "expected by us",
        WINNERS,
    ),
)
ADDED = (*ON_WAYPOINT, *BEST)
