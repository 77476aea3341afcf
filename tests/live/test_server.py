"""The live pages' server: what it answers, and whom it refuses."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedroam.errors import InputError
from fedroam.live.server import LiveServer
from fedroam.recording import write_json
from support.made_runs import made_run
from support.waiting import HANGS

BAD = "</script><script>alert(1)</script>"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    made_run(tmp_path, "a", 0, [0.1, 0.5], name=BAD)
    made_run(tmp_path, "b", 0, [0.1, 0.3], done=False, planned=40)
    with LiveServer(tmp_path, 0) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()


def ask(server: LiveServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str, Any]:
    """Status, content and headers of an answer; headers by name, `_` for `-`."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=HANGS)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content, answer.headers


def value(server: LiveServer, path: str) -> Any:
    status, content, _ = ask(server, path)
    assert status == 200, content
    return json.loads(content)


def test_runs_curves_and_map(server: LiveServer) -> None:
    first, second = value(server, "/api/runs")["runs"]
    assert (first["name"], first["state"], first["accuracy"]) == (f"{BAD}/a", "done", 0.5)
    assert (second["state"], second["round"], second["rounds"]) == ("running", 10, 40)
    found = value(server, f"/api/run/{first['id']}")
    (line,) = found["charts"]["accuracy"]["series"]
    assert (line["x"], line["mean"]) == ([0, 10], [10, 50])
    (entry,) = value(server, f"/api/map/{first['id']}")["map"]["runs"]
    assert entry["rounds"] == list(range(11))
    together = value(server, "/api/curves")["charts"]["accuracy"]["series"]
    assert [one["mean"] for one in together] == [[10, 50], [10, 30]]


def test_what_is_known_is_not_sent_again_until_it_changes(server: LiveServer) -> None:
    run = value(server, "/api/runs")["runs"][1]
    stamp = value(server, f"/api/run/{run['id']}")["stamp"]
    assert value(server, f"/api/run/{run['id']}?since={stamp}") == {"stamp": stamp}
    path = server.watcher.root / run["place"] / "run.json"
    write_json(path, {**json.loads(path.read_text()), "round": 20})
    assert "charts" in value(server, f"/api/run/{run['id']}?since={stamp}")


def test_only_loopback_and_only_by_its_own_name(server: LiveServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    port = server.server_port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert ask(server, "/api/runs", Host=host)[0] == 200
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        f"127.0.0.1:{port + 1}",
        f"127.0.0.1:{port}.evil.example",
        "",
    ):
        status, content, _ = ask(server, "/api/runs", Host=host)
        assert status == 421
        assert "alert" not in content


def test_what_other_pages_embed_is_refused(server: LiveServer) -> None:
    for site in ("cross-site", "same-site"):
        assert ask(server, "/api/runs", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")[0] == 403
    assert ask(server, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200  # a link to it
    *_, headers = ask(server, "/api/runs", Origin="http://evil.example")
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/../run.json",
        "/a/seed-0/run.json",
        "/assets/../../glance.py",
        "/assets/..%2fserver.py",
        "/assets//etc/passwd",
        "/run/../../etc/passwd",
        "/api/run/a%2fseed-0",
        "/api/run/0000000000000000",
        "/api/map/zz",
        "//evil.example/",
        "/api/run/" + "a" * 5000,
        "/%00",
    ],
)
def test_no_address_is_a_path(server: LiveServer, path: str) -> None:
    status, content, _ = ask(server, path)
    assert status == 404
    assert set(json.loads(content)) == {"error"}


def test_reading_only(server: LiveServer) -> None:
    before = {path: path.stat().st_mtime_ns for path in server.watcher.root.rglob("*")}
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ask(server, "/api/runs", method)[0] == 501
    assert ask(server, "/", "HEAD")[:2] == (200, "")
    value(server, "/api/curves")
    assert {path: path.stat().st_mtime_ns for path in server.watcher.root.rglob("*")} == before


def test_pages_carry_a_policy_and_no_name_of_a_run(server: LiveServer) -> None:
    id = value(server, "/api/runs")["runs"][0]["id"]
    for path in ("/", f"/run/{id}"):
        status, content, headers = ask(server, path)
        assert status == 200
        assert "alert" not in content
        assert "script-src 'self';" in headers["Content-Security-Policy"]
        assert "unsafe-inline" not in headers["Content-Security-Policy"].split("style-src")[0]
    for name in (
        "charts.js",
        "gantt.js",
        "map.js",
        "live.js",
        "d3.min.js",
        "plot.umd.min.js",
        "report.css",
        "live.css",
    ):
        status, content, _ = ask(server, f"/assets/{name}")
        assert status == 200
        assert len(content) > 100


def test_a_title_cannot_break_out(tmp_path: Path) -> None:
    folder = tmp_path / "<b>&amp;"
    made_run(folder, "a", 0, [0.1, 0.5])
    with LiveServer(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        _, content, _ = ask(server, "/")
        server.shutdown()
    assert "<b>" not in content
    assert "&lt;b&gt;&amp;amp;" in content


def test_a_port_that_is_taken(server: LiveServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"--port {server.server_port}"):
        LiveServer(tmp_path, server.server_port)
