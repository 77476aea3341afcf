"""Downloads: from a server on this machine, good, wrong, broken and slow."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedroam.data import fetch
from fedroam.data.sources import fetching
from fedroam.data.sources.fetching import Download
from fedroam.errors import FedroamError, InputError

CONTENT = b"some samples" * 40_000


class Handler(http.server.BaseHTTPRequestHandler):
    """/good gives the file, /other another one, /broken promises more than it sends, anything else is not there."""

    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        content = {"/good": CONTENT, "/other": b"not what was asked for", "/broken": CONTENT}.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.path == "/broken" else content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def server() -> Iterator[str]:
    Handler.asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def offer(monkeypatch: pytest.MonkeyPatch, *urls: str, algorithm: str = "sha256") -> None:
    checksum = f"{algorithm}:{hashlib.new(algorithm, CONTENT).hexdigest()}"
    monkeypatch.setitem(fetching.DOWNLOADS, "mnist", (Download("tiny.bin", checksum, urls),))


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_good_download_is_kept_and_not_repeated(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    offer(monkeypatch, f"{server}/good", algorithm=algorithm)
    folder = fetch("mnist", tmp_path, progress=False)
    assert folder == tmp_path / "mnist"
    assert [p.name for p in folder.iterdir()] == ["tiny.bin"]
    assert (folder / "tiny.bin").read_bytes() == CONTENT
    fetch("mnist", tmp_path, progress=False)
    assert Handler.asked == ["/good"]
    (folder / "tiny.bin").write_bytes(b"spoilt")
    fetch("mnist", tmp_path, progress=False)
    assert (folder / "tiny.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/other", "what came is not the published file (its checksum differs)"),
        ("/broken", "/broken: "),
        ("/missing", "404"),
    ],
)
def test_a_bad_download_leaves_nothing_behind(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch, path: str, said: str
) -> None:
    offer(monkeypatch, f"{server}{path}")
    with pytest.raises(FedroamError) as error:
        fetch("mnist", tmp_path, progress=False)
    assert not isinstance(error.value, InputError)
    assert said in str(error.value)
    assert "tiny.bin could not be downloaded" in str(error.value)
    assert "\n" not in str(error.value)
    assert list((tmp_path / "mnist").iterdir()) == []


def test_a_bad_download_does_not_replace_the_file_that_is_there(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, f"{server}/broken")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "tiny.bin").write_bytes(b"an older version")
    with pytest.raises(FedroamError):
        fetch("mnist", tmp_path, progress=False)
    assert (tmp_path / "mnist" / "tiny.bin").read_bytes() == b"an older version"


def test_the_next_place_is_tried(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "http://127.0.0.1:9/closed", f"{server}/other", f"{server}/good")
    fetch("mnist", tmp_path, progress=False)
    assert (tmp_path / "mnist" / "tiny.bin").read_bytes() == CONTENT
    assert Handler.asked == ["/other", "/good"]


def test_progress_is_shown_on_request(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(monkeypatch, f"{server}/good")
    fetch("mnist", tmp_path / "quiet", progress=False)
    assert capsys.readouterr().err == ""
    fetch("mnist", tmp_path / "loud")
    said = capsys.readouterr()
    assert "tiny.bin" in said.err
    assert "480.0/480.0 kB" in said.err
    assert said.out == ""


def test_what_cannot_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unsw_nb15 cannot be downloaded by a program: get it by hand"):
        fetch("unsw_nb15", tmp_path)
    with pytest.raises(
        InputError, match=r"unknown data set to fetch 'minst': allowed are .* did you mean 'mnist'"
    ):
        fetch("minst", tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"cannot be made"):
        fetch("mnist", tmp_path / "file", progress=False)


def test_every_offer_has_a_checksum_and_a_loader_that_finds_its_files(tmp_path: Path) -> None:
    from fedroam.components import build

    for name, downloads in fetching.DOWNLOADS.items():
        for download in downloads:
            algorithm, _, digest = download.checksum.partition(":")
            assert len(digest) == {"md5": 32, "sha256": 64}[algorithm]
            assert all(url.endswith("/" + download.name) for url in download.urls)
            assert all(url.startswith("https://") for url in download.urls)
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / download.name).write_bytes(b"")
        part = build("data", {"kind": name, "root": str(tmp_path)})
        found = part.files()  # type: ignore[attr-defined]
        assert sorted(p.name for p in found) == sorted(d.name for d in downloads)
