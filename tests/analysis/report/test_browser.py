"""The report in a browser: no errors, no requests, and a map that plays."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from PIL import Image

from fedroam.analysis.report.report import write_report
from fedroam.recording import write_table
from support import chromium
from support.chromium import needs_chromium
from support.made_runs import made_run

pytestmark = needs_chromium
# What a visitor does: waits for the map, plays it for three seconds at 5 rounds a second, stops, colours by
# accuracy, chooses a client with the keyboard, changes the variant. Each state is noted in the page.
VISIT = """
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
const awake = setInterval(() => {}, 1);  // the clock is virtual: it runs away while nothing is to be done
(async () => {
  for (const [k, step] of steps.entries()) {
    await new Promise((go) => setTimeout(go, k === 1 ? 3000 : 700));
    while (map.dataset.state !== "ready") await new Promise((go) => setTimeout(go, 1));
    step();
  }
  clearInterval(awake);
})();
"""


def with_script(page: str, script: str) -> str:
    """The page with one more script, which its policy is told of: it runs no other."""
    told = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "script-src 'sha256-" in page
    page = page.replace("script-src 'sha256-", f"script-src 'sha256-{told}' 'sha256-", 1)
    return page.replace("</body>", f"<script>{script}</script></body>")


def browse(page: Path, folder: Path, *more: str) -> tuple[str, str]:
    """What the page became, and what the browser said."""
    done = chromium.browse(page.as_uri(), folder, "--virtual-time-budget=15000", *more)
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
    page.write_text(with_script(report.read_text(), VISIT))
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


# A reader of the curves: points, reads, hides a variant, and downloads what is shown then.
READ = """
const figure = document.getElementById("figure-accuracy"), saved = [];
const make = URL.createObjectURL.bind(URL);
let newest = null;
URL.createObjectURL = (blob) => { newest = blob; return make(blob); };
HTMLAnchorElement.prototype.click = function () { saved.push([this.download, newest]); };
const chart = () => figure.querySelector(".chart svg"), buttons = () => [...figure.querySelectorAll(".names button")];
const lines = () => chart().querySelectorAll('[aria-label="line"] path').length;
const values = () => buttons().map((b) => b.querySelector(".value").textContent);
const tool = (name) => [...figure.querySelectorAll(".tools button")].find((b) => b.textContent === name).click();
const wide = (node) => node.scrollWidth - node.clientWidth;
const until = async (ready) => { while (!ready()) await new Promise((go) => setTimeout(go, 1)); };
const log = {}, awake = setInterval(() => {}, 1);  // the clock is virtual: it runs away while nothing is to be done
(async () => {
  figure.scrollIntoView();
  await until(() => figure.dataset.state === "live");
  log.lines = lines(); log.pictures = figure.querySelectorAll("svg").length;
  const box = chart().getBoundingClientRect(), x = box.left + chart().scale("x").apply(10) + 2;
  figure.querySelector(".chart").dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: box.top + 99 }));
  log.hovered = values(); log.now = figure.querySelector(".now").textContent;
  const key = (key) => figure.querySelector(".chart").dispatchEvent(new KeyboardEvent("keydown", { key }));
  key("End"); log.end = values(); key("ArrowLeft"); log.back = values(); key("Escape"); log.left = values();
  buttons()[0].click();
  log.hidden = lines(); log.pressed = buttons().map((b) => b.getAttribute("aria-pressed"));
  tool("SVG"); tool("CSV"); tool("PNG");
  await until(() => saved.length === 3);
  log.saved = saved.map(([name, blob]) => [name, blob.type, blob.size]);
  log.svg = await saved[0][1].text(); log.csv = await saved[1][1].text();
  const image = await createImageBitmap(saved[2][1]);
  log.png = [image.width, image.height];
  log.table = wide(document.querySelector("#result .scroll"));
  log.wide = wide(document.documentElement);
  const out = document.createElement("pre"); out.id = "log"; out.textContent = JSON.stringify(log);
  document.body.append(out);
  clearInterval(awake);
})();
"""


@pytest.mark.parametrize("size", ["1366,768", "390,844"])
def test_the_curves_answer(report: Path, tmp_path: Path, size: str) -> None:
    page = tmp_path / "read.html"
    page.write_text(with_script(report.read_text(), READ))
    dom, said = browse(page, tmp_path, "--dump-dom", f"--window-size={size}", "--virtual-time-budget=600000")
    assert [line for line in said.splitlines() if "CONSOLE" in line] == []
    found = re.search(r'<pre id="log">(.*?)</pre>', dom, re.S)
    assert found, "the visit did not come to its end"
    log = json.loads(unescape(found[1]))
    assert (log["lines"], log["pictures"]) == (2, 1)  # the still picture made way
    assert log["hovered"] == ["30 ± 0", "30 ± 0"]
    assert log["now"] == "Communication round: 10"
    assert log["end"] == ["40.5 ± 0.5", "60.5 ± 0.5"]
    assert log["back"] == log["hovered"]
    assert log["left"] == ["", ""]
    assert (log["hidden"], log["pressed"]) == (1, ["false", "true"])
    kinds = [(name, kind) for name, kind, _ in log["saved"]]
    assert kinds[:2] == [("accuracy.svg", "image/svg+xml"), ("accuracy.csv", "text/csv")]
    assert kinds[2] == ("accuracy.png", "image/png")
    assert all(size > 200 for *_, size in log["saved"][::2])
    head, *rows = log["csv"].splitlines()
    assert head == "variant,Communication round,Clients' test accuracy (%),standard error,seeds"
    assert rows == ["random,0,10,0,2", "random,10,30,0,2", "random,20,60.5,0.5,2"]  # what is shown
    drawing = ElementTree.fromstring(log["svg"])
    assert "var(" not in log["svg"]
    assert "random" in log["svg"]
    assert "static" not in log["svg"]
    assert log["png"] == [2 * int(drawing.attrib["width"]), 2 * int(drawing.attrib["height"])]
    assert log["table"] <= 0  # every column is in sight
    assert log["wide"] <= 0


# A reader of a Gantt chart: points at a bar, zooms, goes on, chooses a client by keys, sees all again, saves the table.
GANTT = """
const figure = document.getElementById("figure-gantt"), saved = [];
const make = URL.createObjectURL.bind(URL);
let newest = null;
URL.createObjectURL = (blob) => { newest = blob; return make(blob); };
HTMLAnchorElement.prototype.click = function () { saved.push([this.download, newest]); };
const stage = () => figure.querySelector(".gantt"), chart = () => stage().querySelector("svg");
const now = () => figure.querySelector(".now").textContent;
const domain = () => chart().scale("x").domain.map((v) => +v.toFixed(6));
const bars = () => chart().querySelectorAll('[aria-label="rect"] rect').length;
const press = (name) => [...figure.querySelectorAll(".tools button")].find((b) => b.textContent === name).click();
const key = (key) => stage().dispatchEvent(new KeyboardEvent("keydown", { key }));
const at = (kind, time, lane) => {
  const box = stage().getBoundingClientRect(), x = box.left + chart().scale("x").apply(time);
  const y = box.top + chart().scale("y").apply(lane + 0.5);
  stage().dispatchEvent(new PointerEvent(kind, { clientX: x, clientY: y }));
};
const until = async (ready) => { while (!ready()) await new Promise((go) => setTimeout(go, 1)); };
const log = {}, awake = setInterval(() => {}, 1);
(async () => {
  figure.scrollIntoView();
  await until(() => figure.dataset.state === "live");
  log.mode = chart().dataset.mode; log.all = domain(); log.bars = bars();
  log.keys = figure.querySelector(".states").textContent;
  at("pointermove", 2, 0); log.over = now();
  at("pointermove", 7, 0); log.waits = now();
  at("pointerdown", 10, 1); at("pointermove", 20, 1); at("pointerup", 20, 1); 
  log.dragged = domain(); log.fewer = bars();
  stage().dispatchEvent(new PointerEvent("pointerleave"));
  press("+"); log.zoomed = domain();
  press("\u25b8"); log.later = domain();
  press("\u2212"); press("\u2212"); press("\u2212"); log.out = domain();
  key("Escape"); key("ArrowDown"); log.chosen = now(); key("ArrowRight"); log.next = now();
  key("+"); key("0"); log.keyed = domain();
  press("CSV"); log.csv = await saved[0][1].text(); log.name = saved[0][0];
  log.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const out = document.createElement("pre"); out.id = "log"; out.textContent = JSON.stringify(log);
  document.body.append(out);
  clearInterval(awake);
})();
"""


@pytest.mark.parametrize("size", ["1366,768", "390,844"])
def test_the_gantt_chart_answers(tmp_path: Path, size: str) -> None:
    run = made_run(
        tmp_path, "", 0, [0.1, 0.2, 0.3, 0.4], every=1, time=[0, 10, 20, 30], settings={"record_schedule": 3}
    )
    rows = [
        (1, 0, "training", 0, 4),
        (2, 0, "dead", 10, 20),
        (3, 1, "charging", 20, 26.25),
        (1, 2, "away", 0, 10),
    ]
    table = pd.DataFrame(rows, columns=["round", "client", "state", "begin", "end"])
    write_table(run.folder / "schedule.parquet", table)
    page = tmp_path / "gantt.html"
    page.write_text(with_script(write_report([run], tmp_path / "out").read_text(), GANTT))
    dom, said = browse(page, tmp_path, "--dump-dom", f"--window-size={size}", "--virtual-time-budget=600000")
    assert [line for line in said.splitlines() if "CONSOLE" in line] == []
    found = re.search(r'<pre id="log">(.*?)</pre>', dom, re.S)
    assert found, "the visit did not come to its end"
    log = json.loads(unescape(found[1]))
    assert (log["mode"], log["all"], log["bars"]) == ("bars", [0, 30], 3 + 4)
    assert log["keys"] == "trainingchargingdeadwaitingaway"
    assert log["over"] == "Client 0: training, 0 to 4 s (4 s); round 1"
    assert log["waits"] == "Client 0: waiting, 4 to 10 s (6 s); round 1"
    assert log["dragged"] == pytest.approx([10, 20], abs=0.05)
    assert log["fewer"] <= 3 + 2
    low, high = log["zoomed"]
    assert high - low == pytest.approx(5, abs=0.05)
    assert log["later"] == pytest.approx([low + 2.5, high + 2.5], abs=0.01)
    assert log["out"] == [0, 30]
    assert log["chosen"] == "Client 0: training, 0 to 4 s (4 s); round 1"  # from the left edge on
    assert log["next"] == "Client 0: waiting, 4 to 10 s (6 s); round 1"
    assert log["keyed"] == [0, 30]
    assert log["name"] == "gantt.csv"
    assert log["csv"].splitlines() == [
        "client,state,begin (s),end (s)",
        "Client 0,training,0,4",
        "Client 0,dead,10,20",
        "Client 1,charging,20,26.25",
        "Client 2,away,0,10",
    ]
    assert log["wide"] <= 0


def test_without_scripts_the_picture_stays(report: Path, tmp_path: Path) -> None:
    """A browser that refuses all scripts shows the drawing that is in the page."""
    page = tmp_path / "still.html"
    text = report.read_text()
    page.write_text(re.sub(r"script-src [^;]*;", "script-src 'none';", text))
    dom, _ = browse(page, tmp_path, "--dump-dom")
    figure = re.search(r'<figure id="figure-accuracy".*?</figure>', dom, re.S)
    assert figure
    assert 'role="img"' in figure[0]
    assert "<button" not in figure[0]


def test_errors_would_be_seen(report: Path, tmp_path: Path) -> None:
    """The check for console errors can fail: a broken page shows, as do a forbidden request and a forbidden script."""
    page = tmp_path / "broken.html"
    broken = '<img src="broken.png"><script>throw new Error("foreign")</script></body>'
    page.write_text(with_script(report.read_text(), 'throw new Error("boo")').replace("</body>", broken))
    _, said = browse(page, tmp_path, "--dump-dom")
    assert "boo" in said
    assert "foreign" not in said  # a script that the page was not made with does not run
    assert "Content Security Policy" in said


def test_screenshot_has_no_blank_sections(report: Path, tmp_path: Path) -> None:
    picture = tmp_path / "shot.png"
    browse(report, tmp_path, f"--screenshot={picture}", "--window-size=1366,4600")
    with Image.open(picture) as image:
        assert image.size == (1366, 4600)
        for top in range(0, 3600, 600):  # every stretch of the page carries more than background
            assert len(image.crop((0, top, 1366, top + 600)).getcolors(1 << 20) or [0] * 1000) > 20, top
