"""A data set read in a thread of its own is read once, and whoever asks for it is told what is wrong with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fedroam import components
from fedroam.components import Part, build, register
from fedroam.data import Dataset, forget, load_dataset
from fedroam.data.ahead import read_ahead
from fedroam.data.sources.own import Arrays
from fedroam.errors import InputError


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    path = tmp_path / "own.npz"
    x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return path


def finish() -> int:
    """Wait for what is read ahead; how many threads that was."""
    reading = [thread for thread in threading.enumerate() if thread.name == "reads ahead"]
    for thread in reading:
        thread.join()
    return len(reading)


def test_it_is_read_once_though_two_ask_for_it_at_a_time(
    arrays: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = threading.Event(), threading.Event()
    read, times = Arrays._read, []

    def slowly(self: Arrays, file: Path) -> Dataset:
        times.append(threading.current_thread().name)
        asked.set()
        assert go_on.wait(60)
        return read(self, file)

    monkeypatch.setattr(Arrays, "_read", slowly)
    settings = {"kind": "arrays", "path": str(arrays)}
    read_ahead(settings)
    assert asked.wait(60)
    threading.Timer(0.05, go_on.set).start()  # while the main thread waits for it
    found = load_dataset(build("data", settings))
    finish()
    assert times == ["reads ahead"]
    assert "fingerprint" in vars(found)  # kept by then
    assert load_dataset(build("data", settings)) is found


@pytest.mark.parametrize(
    "given",
    [None, 3, {"kind": "arrays"}, {"kind": "no such"}, {"kind": "arrays", "path": "/nowhere.npz"}, []],
)
def test_what_is_wrong_is_told_to_who_asks_and_to_nobody_else(
    given: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    read_ahead(given)
    finish()
    assert capfd.readouterr() == ("", "")
    with pytest.raises(InputError):
        load_dataset(build("data", given))


def test_a_damaged_file_is_told_to_who_asks(arrays: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arrays.write_bytes(arrays.read_bytes()[:100])
    read_ahead({"kind": "arrays", "path": str(arrays)})
    assert finish() <= 1
    assert capfd.readouterr() == ("", "")
    with pytest.raises(InputError, match="damaged"):
        load_dataset(build("data", {"kind": "arrays", "path": str(arrays)}))


def test_a_source_of_ones_own_is_not_asked_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not remember what it has read, and then would read twice, at a time."""
    known = {family: dict(parts) for family, parts in components._registry.items()}
    monkeypatch.setattr(components, "_registry", known)

    @register("data", "counted", source="nobody")
    class Counted(Part):
        """Counts how often it is asked."""

        asked: ClassVar[list[str]] = []

        def load(self) -> Dataset:
            """None."""
            self.asked.append(threading.current_thread().name)
            raise InputError("nothing here")

    read_ahead("counted")
    finish()
    assert Counted.asked == []
