"""The numbers behind the curves that answer, the library that draws them, and the size of a report."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from fedroam.analysis import variants
from fedroam.analysis.report.charts import POINTS, chart, curves, packed
from fedroam.analysis.report.report import write_report
from fedroam.analysis.report.scripts import LIBRARIES, OWN, asset
from support.made_runs import made_run
from support.pages import ROOT

pytestmark = pytest.mark.usefixtures("rough_pictures")


def test_curves_are_means_over_seeds_with_their_errors(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, "a", seed, [0.1, 0.5 + 0.1 * seed]) for seed in (0, 1)]
    found = curves(variants(runs))
    (line,) = found["accuracy"]["series"]
    assert line == {"label": "a", "n": 2, "x": [0, 10], "mean": [10, 55], "error": [0, 5]}
    assert found["accuracy"]["y"] == "Clients' test accuracy (%)"
    (spent,) = found["traffic"]["series"]
    assert (spent["x"], spent["mean"]) == ([0, 1], [10, 55])  # MB and %
    assert found["isolated"]["series"][0]["mean"] == [25, 25]  # 1 of 4 clients


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    found = curves(variants([made_run(tmp_path, "", 0, [0.1, math.nan])]))
    assert found["accuracy"]["series"][0]["mean"] == [10, None]
    assert found["accuracy"]["series"][0]["error"] == [None, None]
    json.dumps(found, allow_nan=False)


def test_long_lines_are_thinned_out_and_keep_their_ends() -> None:
    x = list(range(5000))
    made = chart("t", "x", "y", [("a", (x, x, x, 1)), ("b", ([1], [2], [3], 1))])
    assert made["thinned"]
    line = made["series"][0]
    assert len(line["x"]) == len(line["mean"]) == POINTS
    assert (line["x"][0], line["x"][-1]) == (0, 4999)
    assert max(np.diff(line["x"])) <= 14


def test_a_report_carries_its_numbers_packed(tmp_path: Path) -> None:
    bad = "</script><img src=x onerror=alert(1)>"
    runs = [made_run(tmp_path, "a", 0, [0.1, 0.5], name=bad)]
    text = write_report(runs, tmp_path / "out").read_text()
    found = re.search(r'<script id="charts-data" type="text/plain">([A-Za-z0-9+/=]+)</script>', text)
    assert found
    assert json.loads(zlib.decompress(base64.b64decode(found[1]))) == curves(variants(runs))
    assert "onerror=alert(1)>" not in text.replace("&gt;", "")


def test_the_policy_allows_the_scripts_of_the_page_and_no_others(tmp_path: Path) -> None:
    text = write_report([made_run(tmp_path, "", 0, [0.1, 0.5])], tmp_path / "out").read_text()
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert found
    rules = dict(rule.strip().split(" ", 1) for rule in found[1].split(";"))
    assert rules["default-src"] == "'none'"
    run = re.findall(r"<script>(.*?)</script>", text, re.S)
    held = re.findall(r"<script[^>]*data-library[^>]*>(.*?)</script>", text)
    unpacked = [zlib.decompress(base64.b64decode(one)).decode() for one in held]
    sums = {
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in run + unpacked
    }
    assert len(sums) == 5
    assert set(rules["script-src"].split()) == sums


def test_the_libraries_are_those_that_the_notice_names() -> None:
    notice = (ROOT / "NOTICE").read_text()
    folder = ROOT / "src/fedroam/analysis/report/assets/vendor"
    for name in LIBRARIES:
        path = folder / name.rpartition("/")[2]
        assert f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" in notice
        version = re.search(r"v(\d+\.\d+\.\d+)", path.read_text()[:200])
        assert version
        assert version[1] in notice
    assert {"d3.LICENSE", "plot.LICENSE"} <= {path.name for path in folder.iterdir()}


def test_our_scripts_name_no_address() -> None:
    for name in OWN:
        assert not re.search(r"https?:|innerHTML|eval\(|document\.write|new Function", asset(name))


def test_packing_holds_no_character_of_html() -> None:
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed({"a": "</script>&<\u2028"}))


@pytest.mark.slow
def test_a_report_on_thirty_long_runs_stays_below_three_megabytes(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    runs = [
        made_run(tmp_path, f"v{k // 3}", k % 3, draws.random(101).tolist(), every=4, clients=40)
        for k in range(30)
    ]
    assert write_report(runs, tmp_path / "out").stat().st_size < 3e6
