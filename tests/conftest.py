"""What all tests share: one thread, compiled kernels, no flaky examples, and real data only where it is."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from support import warm

settings.register_profile("fedroam", deadline=None, derandomize=True, max_examples=40, print_blob=True)
settings.load_profile("fedroam")
HELD_BACK = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
SETS = "instruction sets"
KERNELS = "FEDROAM_KERNELS_OF_TESTS"  # names the folder of sessions that share compiled kernels
MEMORY, PLENTY = "/dev/shm", 8 * 2**30  # a file system in memory, and the bytes that are to be free there
EMPTY_PICTURE = bytes.fromhex(  # a PNG of one dot
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
)
computed_with = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Compiled kernels are kept for all workers of this session, and for what they start, but for no other; unless
    whoever starts several sessions one after the other names a folder for theirs."""
    if computes(config):
        import torch

        torch.set_num_threads(1)  # tests run in parallel processes; tests of threads set their own number
        gc.disable()  # until all tests are collected: what that imports stays
    if not hasattr(config, "workerinput"):
        if shared := os.environ.get(KERNELS):
            os.environ["FEDROAM_KERNEL_CACHE"] = shared
        else:
            folder = os.environ["FEDROAM_KERNEL_CACHE"] = tempfile.mkdtemp(prefix="fedroam-kernels-")
            config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        # Ray asks for a token from the first cluster of its own that a process begins on, and tells only processes that
        # are begun later. Here all of them know one, and none is left in the user's home.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        if not computes(config):
            keep_in_memory(config)
        warm.offer(config)
    if computes(config):
        warm.for_multiprocessing()


def keep_in_memory(config: pytest.Config) -> None:
    """What tests write goes into memory, where there is plenty, while many of them run: it is some hundred thousand
    small files, which cost a disk's journal ten times as much. Nothing of it stays; to look at the files of one test,
    run that alone."""
    chosen = "PYTEST_DEBUG_TEMPROOT" in os.environ
    if not chosen and os.path.ismount(MEMORY) and shutil.disk_usage(MEMORY).free >= PLENTY:
        folder = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.mkdtemp(prefix="fedroam-tests-", dir=MEMORY)
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Long ones begin first: none is left at the end for which all workers wait. Those that share a cluster stay with
    # one worker, as others take over what it would do last.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    root = os.environ.get("FEDROAM_DATA", "")
    if root and Path(root).is_dir():
        return
    reason = f"FEDROAM_DATA = {root}: no such folder" if root else "needs real data: set FEDROAM_DATA"
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    same_examples()
    gc.freeze()  # libraries and thousands of tests: looked through again and again, they cost a twentieth of the time
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, 100)  # what tests have left behind is looked through ten times as rarely
    gc.enable()


def same_examples() -> None:
    """Hypothesis tries constants of the code, too: of what is imported when a test runs, which depends on what ran in
    the same process before. From now on they are those of what is imported now."""
    if there := getattr(providers, "_get_local_constants", None):  # its own
        constants = there()
        providers._get_local_constants = lambda: constants


def computes(config: pytest.Config) -> bool:
    """Whether tests run in this process, rather than in workers of it."""
    return hasattr(config, "workerinput") or not config.getoption("numprocesses", None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What the numbers were computed with: what passes with one instruction set may fail with another."""
    if computes(session.config):
        session.config.stash[computed_with] = instruction_sets()
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[SETS] = session.config.stash[computed_with]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker tells: who only hands out tests need not load what they need."""
    if told := getattr(node, "workeroutput", {}).get(SETS):
        node.config.stash[computed_with] = told


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.section(SETS)
    terminalreporter.write_line(config.stash.get(computed_with, "no worker came to its end"))


def instruction_sets() -> str:
    """Those of torch, of its libraries where they are held back, and of our own kernels."""
    import torch

    from fedroam.native import target

    here = target()
    kernels = "none" if here is None else f"{here.lanes} lanes on {here.name}"
    held_back = [f"{name}={os.environ[name]}" for name in HELD_BACK if name in os.environ]
    return ", ".join([f"torch {torch.backends.cpu.get_cpu_capability()}", *held_back, f"kernels: {kernels}"])


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Tests write many small files, and no power will fail: those of a power failure look at what is to be flushed."""
    flush = os.fsync
    os.fsync = lambda handle: None
    yield
    os.fsync = flush


@pytest.fixture
def rough_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures where none is looked at: everything in them is made and drawn, once, as SVG; no places are found for it,
    and the PNG is an empty one. A third of the time that they take. Whole they are in the tests of figures, in what a
    browser is shown, and in all blocks of the documentation."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda engine, figure: None)
    monkeypatch.setattr(
        FigureCanvasAgg, "print_png", lambda canvas, file, **options: file.write(EMPTY_PICTURE)
    )
