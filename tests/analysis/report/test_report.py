"""The report: self-contained, honest about what is missing, and safe against names."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedroam.analysis import variants
from fedroam.analysis.report.movement import CLIENTS, LINES, RUNS, playback
from fedroam.analysis.report.report import write_report
from fedroam.errors import InputError
from support.made_runs import made_run

pytestmark = pytest.mark.usefixtures("rough_pictures")

VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """Checks that tags are balanced and gathers ids and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("href", "src", "xlink:href", "action"):
                self.addresses.append(str(value))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}>"


def whole(text: str) -> Page:
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert all(address.startswith("#") for address in page.addresses), page.addresses
    assert not re.search(r"https?://|//[a-z]+\.[a-z]|url\((?!#)|@import", text)
    return page


def unpacked(entry: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places (m), degrees, contacts and accuracies of an entry, as the map reads them."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(entry["packed"])), dtype="<u2")
    n, frames = len(entry["clients"]), len(entry["rounds"])
    sizes = [frames * n * 2, frames * n, 2 * sum(entry["lines"]), len(entry["judged"]) * n]
    assert raw.size == sum(sizes) + entry["linked"] * frames * (n + len(entry["access_points"]))
    places, degrees, contacts, accuracy, _ = np.split(raw, np.cumsum(sizes))
    x0, y0, x1, y1 = entry["bounds"]
    metres = places.reshape(frames, n, 2) / 65534 * [x1 - x0, y1 - y0] + [x0, y0]
    return metres, degrees.reshape(frames, n), contacts.reshape(-1, 2), accuracy.reshape(-1, n) / 65534


def test_report_of_two_variants(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, variant, seed, [0.1, base, base + 0.1 + 0.01 * seed])
        for variant, base in (("static", 0.4), ("random", 0.6))
        for seed in (0, 1, 2)
    ]
    path = write_report(runs, tmp_path / "out")
    assert path == tmp_path / "out" / "report.html"
    text = path.read_text()
    page = whole(text)
    for name in ("result", "curves", "movement", "data", "settings", "environment", "map", "figure-accuracy"):
        assert name in page.ids
    assert "“random” ends highest: test accuracy 71.0\u00a0±\u00a00.6\u00a0%" in text
    assert "mobility.kind" in text
    assert 'id="notes"' not in text
    made = {p.name for p in (tmp_path / "out" / "figures").iterdir()}
    names = (
        "accuracy",
        "mean_model",
        "loss",
        "consensus",
        "degree",
        "isolated",
        "spread",
        "traffic",
        "holdings",
        "places",
    )
    assert made == {f"{name}.{end}" for name in names for end in ("png", "svg")}


def test_equal_runs_give_equal_reports(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, "", 0, [0.1, 0.5])]
    assert write_report(runs, tmp_path / "a").read_bytes() == write_report(runs, tmp_path / "b").read_bytes()


def test_one_run(tmp_path: Path) -> None:
    text = write_report([made_run(tmp_path, "", 0, [0.1, 0.5])], tmp_path / "out").read_text()
    whole(text)
    assert "test accuracy of 50.0\u00a0% (one seed)" in text
    assert "What differs between the variants" not in text


def test_unfinished_and_diverged_runs_are_named(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, "a", 0, [0.1, 0.5, 0.6], diverged_at=20),
        made_run(tmp_path, "a", 1, [0.1, 0.5], done=False, planned=20),
        made_run(tmp_path, "b", 0, [0.1], done=False, planned=20),
    ]
    text = write_report(runs, tmp_path / "out").read_text()
    whole(text)
    for note in ("a, seed 0: diverged", "a, seed 1: unfinished, at round 10 of 20", "b, seed 0: unfinished"):
        assert note in text


def test_a_variant_with_nothing_recorded(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, "a", 0, [0.1, 0.5]), made_run(tmp_path, "b", 0, [0.1], done=False, planned=10)]
    for piece in (runs[1].folder / "unfinished").iterdir():
        piece.unlink()
    for name in ("world.json", "environment.json", "partition.parquet"):
        (runs[1].folder / name).unlink()
    text = write_report(runs, tmp_path / "out").read_text()
    whole(text)
    assert "b, seed 0: unfinished" in text


def test_accuracies_that_are_no_number(tmp_path: Path) -> None:
    nan = float("nan")
    text = write_report([made_run(tmp_path, "", 0, [nan, nan])], tmp_path / "out").read_text()
    whole(text)
    assert "No run has a final accuracy" in text
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.S)[1])
    assert data["runs"][0]["accuracy"] == [None, None]


def test_names_cannot_break_out(tmp_path: Path) -> None:
    bad = "</script><script>alert(1)</script><b id='x'>&"
    run = made_run(
        tmp_path,
        "",
        0,
        [0.1, 0.5],
        classes=[bad, "b"],
        groups=[bad, "s", "s", "s"],
        settings={"data": {"kind": bad}},
        name=bad,
        done=False,
        planned=30,
    )
    text = write_report([run], tmp_path / "out").read_text()
    whole(text)
    assert "alert(1)</script>" not in text
    assert text.count("</script>") == 7  # two of numbers, two of the library, three of our own
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.S)[1])
    assert data["runs"][0]["groups"] == [bad, "s"]


def test_no_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        write_report([], tmp_path)


def test_movement_is_packed_as_recorded(tmp_path: Path) -> None:
    run = made_run(tmp_path, "", 0, [0.1, 0.5])
    data = playback(variants([run]))
    (entry,) = data["runs"]
    assert data["notes"] == []
    places, degrees, contacts, accuracy = unpacked(entry)
    assert entry["rounds"] == list(range(11))
    assert places[:, 0, 0] == pytest.approx([1 + t % 9 for t in range(11)], abs=1e-3)
    assert places[:, 3] == pytest.approx(np.tile([1.0, 4.0], (11, 1)), abs=1e-3)
    # 0 and 1 meet while t mod 9 is below 2: rounds 0, 1, 9 and 10
    assert entry["lines"] == entry["contacts"] == [1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert contacts.tolist() == [[0, 1]] * 4
    assert degrees.sum(axis=1).tolist() == [2, 2, 0, 0, 0, 0, 0, 0, 0, 2, 2]
    assert entry["alone"] == [2, 2, 4, 4, 4, 4, 4, 4, 4, 2, 2]
    assert accuracy[1] == pytest.approx([0.485, 0.495, 0.505, 0.515], abs=1e-4)
    assert entry["holds"][1] == [11, [["dog", 11]]]
    assert (entry["accuracy"], entry["judged"]) == ([0.1, 0.5], [0, 10])


def test_the_map_starts_where_something_moves(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, "still", 0, [0.1, 0.5]), made_run(tmp_path, "walk", 0, [0.1, 0.5])]
    positions = runs[0].positions.assign(x=1.0)
    positions.to_parquet(runs[0].folder / "movement" / "positions.parquet")
    runs[0].__dict__.pop("positions")
    assert playback(variants(runs))["start"] == 1


def test_movement_that_was_not_recorded(tmp_path: Path) -> None:
    data = playback(variants([made_run(tmp_path, "", 0, [0.1, 0.5], movement=False)]))
    (entry,) = data["runs"]
    assert entry["rounds"] == [0, 10]
    assert "not recorded" in data["notes"][0]
    unpacked(entry)


def test_large_runs_are_thinned_out_and_it_is_said(tmp_path: Path) -> None:
    run = made_run(tmp_path, "", 0, [0.1] * 21, clients=50)  # 201 rounds, 50 clients
    (entry,) = (data := playback(variants([run]), values=9000))["runs"]
    assert len(entry["clients"]) == 50
    assert 40 <= len(entry["rounds"]) < 201
    assert (entry["rounds"][0], entry["rounds"][-1]) == (0, 200)
    assert f"the map shows {len(entry['rounds'])} of 201 recorded rounds" in data["notes"][0]
    places, *_ = unpacked(entry)
    assert places[:, 0, 0] == pytest.approx([1 + t % 9 for t in entry["rounds"]], abs=1e-3)
    (entry,) = (data := playback(variants([run]), values=3000))["runs"]
    assert len(entry["clients"]) < 50
    assert any("of 50 clients" in note for note in data["notes"])
    assert sum(array.size for array in unpacked(entry)[:3]) <= 3000


def test_clients_runs_and_lines_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (CLIENTS, LINES, RUNS) == (1000, 4000, 24)
    run = made_run(tmp_path, "big", 0, [0.1, 0.2], clients=CLIENTS + 500)
    (entry,) = playback(variants([run]))["runs"]
    assert len(entry["clients"]) == CLIENTS
    assert entry["all"] == CLIENTS + 500
    many = [made_run(tmp_path, v, s, [0.1, 0.2]) for v in ("a", "b") for s in range(13)]
    data = playback(variants(many))
    assert len(data["runs"]) == RUNS
    assert "24 of 26 runs are on the map" in data["notes"][0]
    monkeypatch.setattr("fedroam.analysis.report.movement.LINES", 0)
    data = playback(variants(many[:1]))
    assert data["runs"][0]["lines"] == [0] * 11
    assert data["runs"][0]["contacts"][0] == 1
