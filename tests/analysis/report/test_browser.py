"""The report in a browser: no errors, no requests, and a map that plays."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from PIL import Image

from fedroam.analysis import write_report
from support.made_runs import made_run
from support.waiting import HANGS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs headless Chromium (apt install chromium)"),
]
# What a visitor does: waits for the map, plays it for three seconds at 5 rounds a second, stops, colours by
# accuracy, chooses a client with the keyboard, changes the variant. Each state is noted in the page.
VISIT = """<script>
const map = document.getElementById("map"), get = (id) => document.getElementById("map-" + id), log = {};
const note = (name) => { log[name] = { ...map.dataset, play: get("play").textContent, ink: ink() }; };
const ink = () => {  // a number that tells pictures apart
  let sum = 0;
  for (const c of get("canvas").toDataURL()) sum = (31 * sum + c.charCodeAt(0)) % 1000000007;
  return sum;
};
const key = (key) => get("canvas").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const steps = [
  () => { note("opened"); get("speed").value = "5"; get("play").click(); },
  () => { note("playing"); get("play").click(); },
  () => { note("paused"); },
  () => { note("later"); get("colour").value = "accuracy"; get("colour").onchange(); key("n"); key("ArrowRight"); },
  () => { note("chosen"); log.client = get("client-name").textContent; log.facts = get("client").textContent;
          key("End"); key(" "); },
  () => { note("again"); key(" "); get("variant").value = "static"; get("variant").onchange(); },
  () => { note("other"); log.variants = [...get("variant").options].map((o) => o.text);
          log.requests = performance.getEntriesByType("resource").map((e) => e.name);
          log.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
          const out = document.createElement("pre"); out.id = "log"; out.textContent = JSON.stringify(log);
          document.body.append(out); },
];
let at = 500;
steps.forEach((step, k) => { at += k === 1 ? 3000 : 700; setTimeout(step, at); });
</script></body>"""


def browse(page: Path, folder: Path, *more: str) -> tuple[str, str]:
    """What the page became, and what the browser said."""
    flags = [*FLAGS, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=15000", *more]
    done = subprocess.run(
        [str(CHROMIUM), *flags, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=True,
        env={**os.environ, "HOME": str(folder)},
    )
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    bad = "<script>throw 1</script>"
    runs = [
        made_run(folder, variant, seed, [0.1, 0.3, base + 0.01 * seed], groups=[bad, "s", "s", "s"])
        for variant, base in (("static", 0.4), ("random", 0.6))
        for seed in (0, 1)
    ]
    return write_report(runs, folder / "out")


def visited(report: Path, folder: Path, size: str) -> dict:
    page = folder / "visit.html"
    page.write_text(report.read_text().replace("</body>", VISIT))
    dom, said = browse(page, folder, "--dump-dom", f"--window-size={size}")
    assert [line for line in said.splitlines() if "CONSOLE" in line] == []
    found = re.search(r'<pre id="log">(.*?)</pre>', dom, re.S)
    assert found, "the visit did not come to its end"
    return json.loads(unescape(found[1]))


@pytest.mark.parametrize("size", ["1366,768", "500,900"])
def test_the_map_plays(report: Path, tmp_path: Path, size: str) -> None:
    log = visited(report, tmp_path, size)
    assert log["opened"]["state"] == "ready"
    assert (log["opened"]["round"], log["opened"]["play"]) == ("0", "Play")
    assert (log["playing"]["playing"], log["playing"]["play"]) == ("true", "Pause")
    assert 10 <= int(log["playing"]["round"]) <= 16  # three seconds, five rounds a second
    assert log["paused"]["round"] == log["later"]["round"] == log["playing"]["round"]
    assert log["paused"]["playing"] == "false"
    assert len({log[name]["ink"] for name in ("opened", "paused", "chosen")}) == 3  # the picture changed
    assert int(log["chosen"]["round"]) == int(log["later"]["round"]) + 1
    assert log["client"] == "Client 0 (<script>throw 1</script>)"
    assert "Training samples10" in log["facts"]
    assert log["again"]["playing"] == "true"  # played from the start again after the end
    assert int(log["again"]["round"]) < 20
    assert log["variants"] == ["static", "random"]
    assert log["other"]["state"] == "ready"
    assert log["requests"] == []
    assert log["wide"] <= 0  # nothing wider than the screen


def test_errors_would_be_seen(report: Path, tmp_path: Path) -> None:
    """The check for console errors can fail: a broken page and a forbidden request both show."""
    page = tmp_path / "broken.html"
    broken = '<img src="broken.png"><script>throw new Error("boo")</script></body>'
    page.write_text(report.read_text().replace("</body>", broken))
    _, said = browse(page, tmp_path, "--dump-dom")
    assert "boo" in said
    assert "Content Security Policy" in said


def test_screenshot_has_no_blank_sections(report: Path, tmp_path: Path) -> None:
    picture = tmp_path / "shot.png"
    browse(report, tmp_path, f"--screenshot={picture}", "--window-size=1366,4600")
    with Image.open(picture) as image:
        assert image.size == (1366, 4600)
        for top in range(0, 3600, 600):  # every stretch of the page carries more than background
            assert len(image.crop((0, top, 1366, top + 600)).getcolors(1 << 20) or [0] * 1000) > 20, top
