"""The benchmark of zeros: a small one is measured and kept, and the page says what the record says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.scripts import benchmark

ROOT = Path(__file__).parents[2]


def test_a_small_one_is_measured_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On samples that come with a library: those of the record are files that not everybody has."""
    pytest.importorskip("llvmlite")
    zeros, record = benchmark("zeros"), tmp_path / "record.json"
    works = {
        "small": (
            "digits",
            {"kind": "digits", "normalise": "unit"},
            {"kind": "mlp", "hidden": [8]},
            (64,),
            4,
            5,
            2,
        )
    }
    monkeypatch.setattr(zeros, "WORKS", works)
    monkeypatch.setattr(sys, "argv", ["zeros.py", "--repeats", "1", "--record", str(record)])
    monkeypatch.setenv("FEDROAM_VECTOR", "4")
    zeros.main()
    (measured,) = json.loads(record.read_text()).values()
    found = measured["works"]["small"]
    share = found.pop("zeros")
    assert 0.3 < share < 0.7  # ink on paper, 8 x 8
    assert len(found) == 4
    assert min(found.values()) > 0
    assert (
        f"| small | digits | {100 * share:.0f} % | 4 values of a wider machine |" in capsys.readouterr().out
    )


def test_the_page_says_what_the_record_says() -> None:
    zeros = benchmark("zeros")
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    shown = page.split("<!-- zeros: begin -->\n")[1].split("<!-- zeros: end -->")[0]
    assert shown == zeros.table(json.loads(zeros.RECORD.read_text(encoding="utf-8")))
