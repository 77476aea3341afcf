"""The live pages in a browser: curves and map are drawn from what the server says, without a complaint."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from fedroam.live.server import LiveServer
from support.chromium import browse, needs_chromium
from support.made_runs import made_run

BAD = "<img src=x onerror=alert(1)>"
pytestmark = needs_chromium


def visited(url: str, folder: Path) -> str:
    """What the page became after some rounds of asking; it said nothing to its console."""
    done = browse(url, folder, "--window-size=1366,3000", "--virtual-time-budget=20000", "--dump-dom")
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


def test_the_pages_draw_what_is_there(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    made_run(root, "a", 0, [0.1, 0.5], name=BAD)
    made_run(root, "b", 0, [0.1, 0.3], done=False, planned=40, name=BAD)
    with LiveServer(root, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        first = server.runs()["runs"][0]
        listed = visited(server.url, tmp_path)
        shown = visited(f"{server.url}run/{first['id']}", tmp_path)
        server.shutdown()
    assert re.search(r'id="facts"[^>]*>1 done · 1 running<', listed)
    assert f'href="/run/{first["id"]}"' in listed
    for page in (listed, shown):
        assert "<img src=x" not in page
        assert "&lt;img src=x" in page
        figure = re.search(r'<figure id="figure-accuracy" data-state="(\w+)">.*?</figure>', page, re.S)
        assert figure
        assert figure[1] == "live"
        assert 'aria-label="line"' in figure[0]
    assert 'id="map" data-state="ready"' in shown
    assert "accuracy 50.0 %" in shown
