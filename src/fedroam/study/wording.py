"""How a claim was tested, in words: one test in full, many in short, with each of them to be unfolded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedroam.analysis.statistics.paired import Evidence
from fedroam.study.claims import Beyond, Claim, Every, Test, Within
from fedroam.study.values import Value

FEW = 3  # tests that are told in full
_NAMED = 4  # of those that point the other way, how many are named


@dataclass(frozen=True)
class Part:
    """One test of a claim and what the runs say of it."""

    test: Test
    evidence: Evidence

    @property
    def label(self) -> str:
        """What is compared, without the measure where there is only one: `fedgh,n=10 − fedavg,n=10`."""
        names = _measures(self.test)
        if len(names) != 1:
            return self.test.words
        name = names.pop()
        return self._value.replace(f"{name} of ", "").replace(f"{name}, mean of", "mean of")

    @property
    def asked(self) -> str:
        """The bound, `> 0 points`; empty for a test of another form."""
        if isinstance(self.test, Beyond | Within):
            return self.test.words.removeprefix(self._value).strip()
        return ""

    @property
    def _value(self) -> str:
        value = getattr(self.test, "value", None)
        return "" if value is None else str(value.words)

    @property
    def size(self) -> str:
        """`+1.2 ± 0.3`."""
        return f"{self.evidence.estimate:+.1f} ± {self.evidence.error:.1f}".replace("-", "−")

    @property
    def tested(self) -> bool:
        """Whether at least two seeds have run."""
        return self.evidence.n > 1 and self.evidence.estimate == self.evidence.estimate


def parts_of(test: Test, evidence: Evidence) -> list[Part]:
    """The tests that a claim is made of, with what the runs say of each (see `Verdict.evidence`)."""
    return list(_walk(test, evidence))


def _walk(test: Test, evidence: Evidence) -> Iterator[Part]:
    if isinstance(test, Every) and len(evidence.parts) == len(test.tests):
        for part, found in zip(test.tests, evidence.parts, strict=True):
            yield from _walk(part, found)
    else:
        yield Part(test, evidence)


def _measures(test: Test) -> set[str]:
    """The names of the measures of a test of one value; none of another."""
    value = getattr(test, "value", None)
    return {term.measure.name for term in value.terms} if isinstance(value, Value) else set()


def in_short(claim: Claim, evidence: Evidence | None) -> str:
    """What was tested, in one or two sentences.

    Of more than `FEW` tests: how many, the smallest and the largest estimate, and those that point the other way
    (an estimate on the wrong side of its bound: not yet evidence against it), the farthest first.
    """
    parts = [] if evidence is None else parts_of(claim.test, evidence)
    count = len(parts) or (len(claim.test.tests) if isinstance(claim.test, Every) else 1)
    if count <= FEW:
        return claim.test.words
    asked = {part.asked for part in parts}
    measures = {frozenset(_measures(part.test)) for part in parts}
    said = f"{count} comparisons"
    said += f" of {next(iter(names))}" if len(measures) == 1 and len(names := measures.pop()) == 1 else ""
    said += f", each {asked.pop()}" if len(asked) == 1 and "" not in asked else ""
    known = sorted((part for part in parts if part.tested), key=lambda part: part.evidence.estimate)
    if known and claim.test.unit:
        low, high = known[0], known[-1]
        said += f"; smallest {low.size} {claim.test.unit} ({low.label}), largest {high.size} ({high.label})"
    wrong = sorted(
        (part for part in known if part.evidence.p_holds > 0.5), key=lambda part: -part.evidence.p_holds
    )
    if known:
        said += f". On the wrong side: {len(wrong) or 'none'}"
    if wrong:
        said += " (" + "; ".join(f"{part.label}: {part.size}" for part in wrong[:_NAMED])
        said += f"; and {len(wrong) - _NAMED} more)" if len(wrong) > _NAMED else ")"
    missing = len(parts) - len(known)
    return said + (f". Without two seeds yet: {missing}" if missing else "")


def weakest(claim: Claim, evidence: Evidence) -> str:
    """Which of several tests the shown numbers are of; empty where there is one."""
    parts = parts_of(claim.test, evidence)
    for part in parts if len(parts) > 1 else []:
        found = part.evidence
        if (found.p_holds, found.estimate, found.values) == (
            evidence.p_holds,
            evidence.estimate,
            evidence.values,
        ):
            return part.label
    return ""
