"""`fedroam serve`: a folder's runs in a browser on this machine, read-only.

It listens on the loopback address alone. Requests whose `Host` is another name are refused, so that no web page can
reach it by a name that is made to point here (DNS rebinding); what other pages embed is refused, too. No part of an
address is ever a path: runs have ids, everything else is a list of names.
"""

from __future__ import annotations

import json
import re
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from fedroam.analysis.report.charts import curves
from fedroam.analysis.report.movement import playback
from fedroam.analysis.report.scripts import LIBRARIES, OWN, asset
from fedroam.analysis.variants import has_rounds, variants
from fedroam.errors import FedroamError, InputError, one_line
from fedroam.live.glance import Glance, Watcher
from fedroam.recording import Run

ADDRESS = "127.0.0.1"
TOGETHER = 60  # runs whose curves the list shows together
_KEPT = 8  # answers kept, so that several windows cost no more than one
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".json": "application/json"}


class LiveServer(ThreadingHTTPServer):
    """Serves the runs at or below a folder on the loopback address; `port` 0 takes a free one.

    Raises InputError where there is no such folder, or the port is taken.
    """

    daemon_threads = True

    def __init__(self, root: str | Path, port: int) -> None:
        self.watcher = Watcher(root)
        self.title = self.watcher.root.resolve().name or str(self.watcher.root)
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[str, bytes]] = {}
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise InputError(f"--port {port}: cannot be used ({error.strerror or error})") from None
        port = self.server_port
        self.hosts = {f"{name}:{port}" for name in (ADDRESS, "localhost", "[::1]")}
        if port == 80:
            self.hosts |= {ADDRESS, "localhost", "[::1]"}

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://{ADDRESS}:{self.server_port}/"

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that closed its window is no error."""

    def runs(self) -> dict[str, Any]:
        """What the list shows."""
        with self._lock:
            found = self.watcher.look()
        return {"title": self.title, "runs": [_row(glance) for glance in found]}

    def answer(self, key: str, since: str) -> bytes:
        """Curves or map as JSON; `since` is the stamp of what the page has: equal, and nothing is sent again."""
        with self._lock:
            stamp = self._stamp(key)
            if stamp == since:
                return _json({"stamp": stamp})
            kept = self._answers.get(key)
            if kept is None or kept[0] != stamp:
                kept = (stamp, _json({"stamp": stamp, **self._content(key)}))
                self._answers.pop(key, None)
                self._answers[key] = kept
                while len(self._answers) > _KEPT:
                    del self._answers[next(iter(self._answers))]
            return kept[1]

    def _stamp(self, key: str) -> str:
        _, _, id = key.partition("/")
        facts = [(one.id, one.written, one.state) for one in self.watcher.look() if not id or one.id == id]
        return str(hash(tuple(facts)))

    def _content(self, key: str) -> dict[str, Any]:
        what, _, id = key.partition("/")
        if what == "curves":
            return {"charts": self._together()}
        run = self.watcher.open(id)
        if not has_rounds(run):
            return {"charts": {}} if what == "run" else {"map": None}
        compared = variants([run])
        return {"charts": curves(compared)} if what == "run" else {"map": playback(compared)}

    def _together(self) -> dict[str, Any]:
        """The curves of all runs, by variant; those that cannot be read now are left out."""
        found: list[Run] = []
        for glance in self.watcher.look():
            if glance.id and glance.state != "unreadable" and len(found) < TOGETHER:
                try:
                    run = self.watcher.open(glance.id)
                    if has_rounds(run):
                        found.append(run)
                except InputError:
                    continue
        return curves(variants(found)) if found else {}


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = 20  # seconds that a silent client keeps a thread
    server_version = "fedroam"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer one request."""
        try:
            self._answer()
        except InputError as error:
            self._send(HTTPStatus.NOT_FOUND, _json({"error": one_line(str(error))}), ".json")
        except FedroamError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, _json({"error": one_line(str(error))}), ".json")
        except ConnectionError:
            pass
        except Exception as error:
            told = {"error": f"the run cannot be shown: {type(error).__name__}"}
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, _json(told), ".json")

    def do_HEAD(self) -> None:
        """Answer without the content."""
        self.do_GET()

    def _answer(self) -> None:
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._send(
                HTTPStatus.MISDIRECTED_REQUEST, _json({"error": "another host was asked for"}), ".json"
            )
            return
        site, mode = self.headers.get("Sec-Fetch-Site", "none"), self.headers.get("Sec-Fetch-Mode", "")
        if site not in ("same-origin", "none") and mode != "navigate":
            self._send(HTTPStatus.FORBIDDEN, _json({"error": "asked for by another page"}), ".json")
            return
        address = urlsplit(self.path)
        since = parse_qs(address.query).get("since", [""])[0]
        path = address.path
        if path == "/":
            self._page("list.html", title=self.server.title)
        elif path == "/api/runs":
            self._send(HTTPStatus.OK, _json(self.server.runs()), ".json")
        elif path == "/api/curves":
            self._send(HTTPStatus.OK, self.server.answer("curves", since), ".json")
        elif re.fullmatch(r"/run/[0-9a-f]{16}", path):
            self._page("run.html", title=self.server.title, map=asset("map.html"))
        elif found := re.fullmatch(r"/api/(run|map)/([0-9a-f]{16})", path):
            self._send(HTTPStatus.OK, self.server.answer(f"{found[1]}/{found[2]}", since), ".json")
        elif path in _FILES:
            self._send(HTTPStatus.OK, _FILES[path]().encode(), Path(path).suffix)
        else:
            self._send(HTTPStatus.NOT_FOUND, _json({"error": "no such page"}), ".json")

    def _page(self, name: str, **values: str) -> None:
        title = values.pop("title").translate(_ESCAPES)
        page = Template(_own(name)).substitute(title=title, **values)
        self._send(HTTPStatus.OK, page.encode("utf-8", "replace"), ".html")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{_TYPES[kind]}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""


def _own(name: str) -> str:
    """A file of the live pages."""
    return (resources.files("fedroam.live") / "assets" / name).read_text(encoding="utf-8")


_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;"}
_FILES = {
    f"/assets/{name.rpartition('/')[2]}": (lambda name=name: asset(name))
    for name in (*OWN, *LIBRARIES, "report.css")
} | {f"/assets/{name}": (lambda name=name: _own(name)) for name in ("live.js", "live.css")}


def _row(glance: Glance) -> dict[str, Any]:
    return {**{name: value for name, value in vars(glance).items() if name != "folder"}, "over": glance.over}


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
