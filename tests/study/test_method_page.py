"""The page on how claims are judged says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedroam.analysis.statistics.looks import FUTILE, LOOKS
from fedroam.analysis.statistics.moderated import FEWEST, SHARE
from fedroam.analysis.statistics.verdicts import ALPHA
from fedroam.study.claims import STEP_BACK
from fedroam.study.study import MOST_PRIMARY

PAGE = (Path(__file__).parents[2] / "docs" / "how-claims-are-judged.md").read_text(encoding="utf-8")
LISTED = f"{', '.join(map(str, LOOKS[:-1]))} and {LOOKS[-1]}"


@pytest.mark.parametrize(
    "sentence",
    [
        f"goes back by less than {STEP_BACK:g} of the whole rise",
        f"of the degrees of freedom gained, a share of {SHARE:g} is used",
        f"With fewer than {FEWEST} seeds, or fewer than {FEWEST} contrasts of a unit, nothing is moderated",
        f"names at most {MOST_PRIMARY} primary claims. They are tested in a fixed order, each at {ALPHA:.0%}".replace(
            "5%", "5 %"
        ),
        f"after {LISTED} seeds, each at a fifth of the level. The p-value is five times the smallest",
        f"with a chance below {FUTILE:g}",
    ],
)
def test_the_page_has_the_constants_of_the_code(sentence: str) -> None:
    assert sentence in PAGE


def test_a_fifth_is_one_of_the_looks() -> None:
    assert len(LOOKS) == 5
