"""Compiled kernels that are kept: what is read back, what is refused, and that it changes no result."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedroam.learning.cpu.kernels import ConvStack, leading, stages_of
from fedroam.learning.cpu.kernels.conv1d_maxpool import Conv1dMaxPool, Conv1dSizes
from fedroam.learning.cpu.sequential import sequence
from fedroam.learning.layout import Layout
from fedroam.native import object_cache, sources, target
from fedroam.native.object_cache import MOST, ObjectCache
from fedroam.native.target import KernelSpec, Target, narrowed
from support.warm import python

pytest.importorskip("llvmlite")
COMPILING = sys.modules["fedroam.native.target"]
kernels, native = (sys.modules[f"fedroam.{name}"] for name in ("learning.cpu.kernels", "native"))
NAME, OTHER = "a" * 64, "b" * 64
CONTENT = bytes(range(256)) * 3


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "user" / "kernels")


def test_what_is_written_is_read(cache: ObjectCache) -> None:
    assert cache.read(NAME) is None
    cache.write(NAME, CONTENT)
    cache.write(OTHER, b"")
    assert cache.read(NAME) == CONTENT
    assert cache.read(OTHER) == b""
    cache.write(NAME, b"anew")
    assert cache.read(NAME) == b"anew"
    assert cache.size() == (2, 32 + 4 + 32)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in cache.folder.iterdir()} == {0o600}


def test_a_folder_that_can_only_be_read_is_used(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image of a container, where nothing can be noted either."""
    cache.write(NAME, CONTENT)

    def only_read(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", only_read)
    assert cache.read(NAME) == CONTENT


def test_no_damage_is_read(cache: ObjectCache) -> None:
    cache.write(NAME, b"machine code")
    file = cache.folder / NAME
    whole = file.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            file.write_bytes(flipped)
            assert cache.read(NAME) is None
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert cache.read(NAME) is None
    file.write_bytes(whole + b"\0")
    assert cache.read(NAME) is None
    file.write_bytes(whole)
    assert cache.read(NAME) == b"machine code"
    file.rename(cache.folder / OTHER)  # another kernel's code, itself undamaged
    assert cache.read(OTHER) is None


@given(st.binary(max_size=300))
def test_no_other_content_is_read(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    cache = ObjectCache(tmp_path_factory.mktemp("kernels") / "own")
    cache.write(NAME, b"")
    (cache.folder / NAME).write_bytes(content)
    assert cache.read(NAME) is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o750, 0o1777])
def test_folder_that_others_may_enter_is_not_used(cache: ObjectCache, mode: int) -> None:
    cache.write(NAME, CONTENT)
    cache.folder.chmod(mode)
    assert cache.read(NAME) is None
    cache.write(OTHER, CONTENT)
    assert not (cache.folder / OTHER).exists()
    with pytest.raises(PermissionError, match=f"its mode is {mode:04o}; allowed is 0700"):
        cache.size()
    cache.folder.chmod(0o700)
    assert cache.read(NAME) == CONTENT


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_file_that_others_may_write_is_not_used(cache: ObjectCache, mode: int) -> None:
    cache.write(NAME, CONTENT)
    (cache.folder / NAME).chmod(mode)
    assert cache.read(NAME) is None
    cache.write(NAME, CONTENT)  # is put in its place
    assert cache.read(NAME) == CONTENT
    assert stat.S_IMODE((cache.folder / NAME).stat().st_mode) == 0o600


def test_folder_of_another_user_is_not_used(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write(NAME, CONTENT)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert cache.read(NAME) is None
    with pytest.raises(PermissionError, match=f"it belongs to user {me}; allowed is {me + 1}"):
        cache.size()


def test_file_of_another_user_is_not_used(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write(NAME, CONTENT)
    if os.geteuid() == 0:
        os.chown(cache.folder / NAME, 12345, -1)
    else:  # only root may give a file away: let the system say that somebody did
        real = os.fstat

        def told(handle: int) -> Any:
            facts = real(handle)
            if not stat.S_ISREG(facts.st_mode):
                return facts
            fields = list(facts)
            fields[stat.ST_UID] += 1
            return os.stat_result(fields)

        monkeypatch.setattr(os, "fstat", told)
    assert cache.read(NAME) is None


def test_links_are_not_followed(cache: ObjectCache, tmp_path: Path) -> None:
    cache.write(NAME, CONTENT)
    (cache.folder / NAME).rename(tmp_path / "elsewhere")
    (cache.folder / NAME).symlink_to(tmp_path / "elsewhere")
    assert cache.read(NAME) is None
    cache.write(NAME, b"anew")
    assert cache.read(NAME) == b"anew"
    assert CONTENT in (tmp_path / "elsewhere").read_bytes()  # was not written through
    (tmp_path / "link").symlink_to(cache.folder)
    assert ObjectCache(tmp_path / "link").read(NAME) is None


@pytest.mark.timeout(60)  # a pipe that was waited for would hang
def test_only_files_are_read(cache: ObjectCache) -> None:
    cache.write(OTHER, CONTENT)
    os.mkfifo(cache.folder / NAME)
    assert cache.read(NAME) is None
    (cache.folder / NAME).unlink()
    (cache.folder / NAME).mkdir()
    assert cache.read(NAME) is None
    cache.write(NAME, CONTENT)
    assert sorted(path.name for path in cache.folder.iterdir()) == [NAME, OTHER]  # nothing half-made


def test_what_cannot_be_kept_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    within = ObjectCache(tmp_path / "file" / "kernels")
    within.write(NAME, CONTENT)
    assert within.read(NAME) is None

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    there = ObjectCache(tmp_path / "kernels")
    monkeypatch.setattr(os, "replace", full)
    there.write(NAME, CONTENT)
    assert list(there.folder.iterdir()) == []


def test_those_used_longest_ago_go(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "kernels", most=10 * 132)
    names = [f"{k:064x}" for k in range(10)]
    for k, name in enumerate(names):
        cache.write(name, bytes(100))
        os.utime(cache.folder / name, (1000 + k, 1000 + k))
    strange = cache.folder / "notes.txt"
    strange.write_bytes(bytes(5000))
    assert cache.size() == (10, 1320)
    assert cache.read(names[0]) is not None  # used now
    cache.write(OTHER, bytes(100))
    left = {path.name for path in cache.folder.iterdir()}
    assert left == {names[0], *names[5:], OTHER, strange.name}  # 7 x 132 <= 3/4 of 1320


def test_small_files_are_looked_through_with_one_of_sixteen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are digests: of 800 files that are a hundredth of all there may be, those beyond are gone soon."""
    looked, sizes = [], []
    look_through = ObjectCache._trim

    def noted(cache: ObjectCache, folder: int) -> None:
        looked.append(folder)
        look_through(cache, folder)

    monkeypatch.setattr(ObjectCache, "_trim", noted)
    cache = ObjectCache(tmp_path / "kernels", most=13200)
    for k in range(800):
        cache.write(hashlib.sha256(bytes([k % 256, k // 256])).hexdigest(), bytes(100))
        sizes.append(cache.size()[0])
    assert 25 <= len(looked) <= 75
    assert 100 <= max(sizes) <= 200
    assert sizes[-1] <= 200


def test_half_written_files_of_killed_processes_go(cache: ObjectCache) -> None:
    cache.write(NAME, CONTENT)
    old, new = (cache.folder / f"{OTHER}.{k * 16}.tmp" for k in "01")
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache.write("0" * 64, CONTENT)  # a name with which all files are looked through
    assert not old.exists()
    assert new.exists()


def test_many_at_once(tmp_path: Path) -> None:
    """Writers and readers of few names in a folder that is far too small: each read is whole, or missing."""
    names = [f"{k:064x}" for k in range(8)]
    wrong: list[object] = []
    hits = [0]

    def use(seed: int) -> None:
        cache = ObjectCache(tmp_path / "kernels", most=4000)
        for step in range(150):
            name = names[(seed + step * 5) % 8]
            cache.write(name, name.encode() * 10)
            found = cache.read(names[(seed * 3 + step) % 8])
            hits[0] += found is not None
            if found is not None and found != names[(seed * 3 + step) % 8].encode() * 10:
                wrong.append(found)

    threads = [threading.Thread(target=use, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert hits[0] > 0
    count, size = ObjectCache(tmp_path / "kernels").size()
    assert size <= 4000
    assert count == len(list((tmp_path / "kernels").iterdir()))


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", "0")
    assert object_cache() is None
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", str(tmp_path / "mine"))
    assert object_cache() == ObjectCache(tmp_path / "mine", MOST)
    monkeypatch.delenv("FEDROAM_KERNEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform.startswith("linux"):
        assert object_cache() == ObjectCache(tmp_path / "fedroam" / "kernels")


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry: kernels are compiled in each process."""

    def nobody(*args: object) -> None:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("FEDROAM_KERNEL_CACHE", raising=False)
    monkeypatch.setattr(sys.modules["fedroam.native.object_cache"], "cache_folder", nobody)
    assert object_cache() is None
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", "~nobody-of-this-name/kernels")
    assert object_cache() is None


# Kernels


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[KernelSpec]:
    """What is compiled from here on: with a fresh folder, and as if no kernel were loaded yet."""
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", str(tmp_path / "kernels"))
    found: list[KernelSpec] = []
    real = COMPILING._compiled

    def counted(spec: KernelSpec, target: Target, made_for: Any) -> bytes:
        found.append(spec)
        return real(spec, target, made_for)

    monkeypatch.setattr(COMPILING, "_compiled", counted)
    COMPILING._loaded.cache_clear()
    return found


def here() -> Target:
    found = target()
    assert found is not None
    return found


def numbers(here: Target) -> torch.Tensor:
    """Outputs and gradients of a network with norm, pool, ReLU and padding, by its kernels."""
    layers = [
        nn.Conv2d(2, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(4, 3, 2),
    ]
    module = nn.Sequential(*layers)
    layout, draws = Layout.of(module), torch.Generator().manual_seed(3)
    row = torch.empty(layout.size).normal_(generator=draws)
    gradient = torch.zeros(layout.size)
    blocks = leading(sequence(module) or [])
    stages = stages_of(blocks, (2, 8, 8), {entry.name: entry for entry in layout.parameters})
    assert stages is not None
    stack = ConvStack(stages, here, lambda entry: entry.address(gradient))
    stack.attach(lambda entry: entry.address(row))
    x = torch.empty(5, 2, 8, 8).normal_(generator=draws).contiguous(memory_format=torch.channels_last)
    y = stack.forward(x).clone()
    stack.backward(torch.empty(y.shape).normal_(generator=draws), False)
    return torch.cat([y.flatten(), gradient])


def test_kept_kernels_compute_the_same(compiled: list[KernelSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    first = numbers(here())
    count = len(compiled)
    assert count >= 5
    COMPILING._loaded.cache_clear()
    assert numbers(here()).equal(first)
    assert len(compiled) == count  # all were kept
    monkeypatch.setenv("FEDROAM_KERNEL_CACHE", "0")
    COMPILING._loaded.cache_clear()
    assert numbers(here()).equal(first)
    assert len(compiled) == 2 * count


def test_damaged_kernels_are_compiled_anew(compiled: list[KernelSpec], tmp_path: Path) -> None:
    first = numbers(here())
    count = len(compiled)
    files = sorted((tmp_path / "kernels").iterdir())
    assert len(files) == count
    whole = [file.read_bytes() for file in files]
    for k, file in enumerate(files):
        code = bytearray(whole[k])
        code[32 + k * 7 % (len(code) - 32)] ^= 1 << k % 8
        file.write_bytes(code if k % 2 else whole[k][: len(code) // 2])
    COMPILING._loaded.cache_clear()
    assert numbers(here()).equal(first)
    assert len(compiled) == 2 * count
    assert [file.read_bytes() for file in files] == whole  # and kept again


def test_each_target_has_its_own(compiled: list[KernelSpec]) -> None:
    narrow = narrowed(here(), 4)
    first = numbers(narrow)
    count = len(compiled)
    others = [
        here() if here() != narrow else dataclasses.replace(narrow, vectors=1),
        dataclasses.replace(narrow, features=narrow.features + ",-fma4"),
    ]
    for k, other in enumerate(others, 2):
        numbers(other)
        assert len(compiled) == k * count
    COMPILING._loaded.cache_clear()
    assert numbers(narrow).equal(first)
    assert len(compiled) == (1 + len(others)) * count


def test_names_say_all_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def name(spec: KernelSpec | None = None) -> str:
        return COMPILING._name(spec or Conv1dMaxPool(Conv1dSizes(1, 20, 32, 3, 64, 3)), here())  # type: ignore[no-any-return]

    usual = name()
    assert len(usual) == 64
    assert name() == usual
    found = {usual, name(Conv1dMaxPool(Conv1dSizes(1, 21, 32, 3, 64, 3)))}
    for place, attribute, value in (
        (COMPILING, "SOURCES", "other"),
        (kernels, "SOURCES", "other"),
        (COMPILING.llvmlite, "__version__", "0.0.0"),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(place, attribute, value)
            found.add(name())
    assert len(found) == 5

    @dataclasses.dataclass(frozen=True)
    class Foreign(Conv1dMaxPool):
        """A kernel whose source is not among ours: what would change its code is not known."""

    assert name(Foreign(Conv1dSizes(1, 20, 32, 3, 64, 3))) == ""
    for place in (kernels, COMPILING):
        monkeypatch.setattr(place, "SOURCES", "")
        assert name() == ""


def test_sources_are_those_of_the_kernels(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("a")
    one = sources(tmp_path)
    (tmp_path / "one.py").write_text("b")
    assert len({one, sources(tmp_path), COMPILING.SOURCES}) == 3
    (tmp_path / "one.py").unlink()
    assert sources(tmp_path) == ""
    for module in (kernels, COMPILING):
        assert sources(Path(str(module.__file__)).parent) == module.SOURCES


@pytest.mark.slow
def test_two_processes_at_once(tmp_path: Path) -> None:
    """Two processes begin with one empty folder: both give the numbers of one without, and nothing half-made stays."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from native.test_object_cache import here, numbers\n"
        "print(numbers(here()).numpy().tobytes().hex())"
    )
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "FEDROAM_KERNEL_CACHE": str(tmp_path / "kernels")}
    both = [
        subprocess.Popen([*python(), "-c", script, tests], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    found = [process.communicate()[0].strip() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    expected = numbers(here()).numpy().tobytes().hex()
    assert found == [expected, expected]
    assert all(len(path.name) == 64 for path in (tmp_path / "kernels").iterdir())
