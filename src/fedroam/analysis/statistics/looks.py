"""Looking at a study while its seeds come in, without saying more than the evidence does.

Whoever looks after every seed and stops when a claim holds is wrong in 19 of 100 studies instead of 5. So looks are
planned: after `LOOKS` seeds, and each of the `K` looks spends a K-th of the level. The p-value of a sequence of looks
is K times the smallest one so far (Bonferroni's inequality over looks). In between nothing is looked at.

Why not sharper bounds: those of Pocock and of Lan & DeMets (Biometrika 70 (1983) 659) follow from the joint
distribution of the looks' statistics, which is known for sums of known variance, not for t of 4 to 20 seeds with
variances that are moderated anew at each look, nor for claims of several parts. Bonferroni's inequality needs none of
that, and costs little where looks are few: five looks have 1 % each, where Pocock's bound has 1.6 %. E-values
(anytime-valid t tests: Wang & Ramdas 2023) need no plan at all, but with fewer than ten seeds they hardly ever reach
the 20 times the number of claims that they have to.

A claim is **hopeless** where the chance that the last look decides it, either way, is below `FUTILE`, over all effects
that the seeds so far leave open (`chances.predicted`). That stops its runs and never says anything of it: it stays
undecided, so no error is added. `FUTILE` is a usual bound of predictive power; claims that are true lose hardly any by
it (benchmarks/null_studies.py counts them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedroam.analysis.statistics.paired import Evidence

LOOKS = (4, 6, 9, 13, 20)  # seeds
FUTILE = 0.1


def shared(found: Sequence[Evidence], planned: int = len(LOOKS)) -> Evidence:
    """The evidence of the last of several looks, with the p-values of the whole sequence and the looks they are of.

    found: of the looks so far, in their order; planned: how many there are to be.
    """
    # Of looks that say as much the last. Its kind of test need not be that of the last look of all.
    yes = min(reversed(found), key=lambda look: look.p_holds)
    no = min(reversed(found), key=lambda look: look.p_fails)
    p_holds, p_fails = (min(1.0, planned * p) for p in (yes.p_holds, no.p_fails))
    return replace(found[-1], p_holds=p_holds, p_fails=p_fails, said_by=(yes, no))


def following(seeds: int, looks: Sequence[int] = LOOKS) -> int | None:
    """The next look after so many seeds; None after the last."""
    return next((look for look in looks if look > seeds), None)
