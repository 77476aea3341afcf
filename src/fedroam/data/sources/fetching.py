"""Downloads of public data: only when asked for, checked, and never half there."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedroam.data.sources.places import cache_folder
from fedroam.data.sources.unsw_nb15 import BY_HAND
from fedroam.errors import FedroamError, InputError, unknown

SECONDS = 60.0  # without an answer, before a place is given up


@dataclass(frozen=True)
class Download:
    """One file: its name, its checksum (`md5:...` or `sha256:...`) and the places that hold it, best first."""

    name: str
    checksum: str
    urls: tuple[str, ...]


def _files(places: tuple[str, ...], files: dict[str, str]) -> tuple[Download, ...]:
    return tuple(
        Download(name, checksum, tuple(place + name for place in places)) for name, checksum in files.items()
    )


DOWNLOADS: dict[str, tuple[Download, ...]] = {
    "mnist": _files(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        {
            "train-images-idx3-ubyte.gz": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ),
    "fashion_mnist": _files(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
        ),
        {
            "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "cifar10": _files(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
    ),
}


def fetch(name: str, root: str | Path | None = None, *, progress: bool = True) -> Path:
    """Download a public data set into ROOT/NAME and return that folder; files already there are kept.

    `root` is the platform's cache folder if left out, where every source looks by itself. Each file is
    written beside its place and moved there only once its checksum is right, so a broken download leaves
    nothing behind. Raises InputError for a name that cannot be fetched (the message says where to get it by
    hand), FedroamError where every place failed.
    """
    if name == "unsw_nb15":
        raise InputError(
            f"data unsw_nb15 cannot be downloaded by a program: {BY_HAND}; put UNSW_NB15_training-set.csv or "
            "UNSW_NB15_testing-set.csv (.gz) into a folder unsw_nb15/ below FEDROAM_DATA or data.root"
        )
    if name not in DOWNLOADS:
        raise unknown("data set to fetch", name, DOWNLOADS)
    folder = (Path(root).expanduser() if root else cache_folder()) / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror or error}") from None
    for download in DOWNLOADS[name]:
        _fetch(download, folder, progress)
    return folder


def _fetch(download: Download, folder: Path, progress: bool) -> None:
    import pooch

    target = folder / download.name
    if target.is_file() and pooch.hashes.hash_matches(str(target), download.checksum):
        return
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # pooch tells where it writes; the progress line tells more
    failures = []
    try:
        for url in download.urls:
            with _Bar(download.name, progress) as bar:
                get = pooch.HTTPDownloader(progressbar=bar if progress else False, timeout=SECONDS)
                try:
                    pooch.retrieve(url, download.checksum, download.name, folder, downloader=get)
                    return
                # Whatever a transport raises: the next place may still answer.
                except (OSError, ValueError) as error:
                    failures.append(f"{url}: {_short(error)}")
    finally:
        logger.setLevel(level)
    raise FedroamError(
        f"{download.name} could not be downloaded to {folder}: {'; '.join(failures)}; if this machine has no "
        "network, copy the file there by hand"
    )


def _short(error: Exception) -> str:
    """An error of the network in one short line."""
    text = " ".join(str(error).split())
    if "does not match" in text or "hash" in text.lower():
        return "what came is not the published file (its checksum differs)"
    return f"{type(error).__name__}: {text[:160]}"


class _Bar:
    """Progress on the terminal, through the interface that pooch expects (that of tqdm)."""

    def __init__(self, label: str, shown: bool) -> None:
        self.label, self.shown = label, shown
        self.total = 0
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> _Bar:
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True))
            self._progress.start()
            self._task = self._progress.add_task(self.label, total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, size: int) -> None:
        """So many more bytes have come."""
        self._progress.update(self._task, advance=size, total=self.total or None)

    def reset(self) -> None:
        """Back to nothing (pooch then reports the whole at once)."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """The download is over."""
