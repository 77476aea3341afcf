"""A loop in a thread of its own: what is done in it, and what is still under way when it ends."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from fedroam.deploy.loop import Loop


async def nothing() -> None:
    return


def test_what_is_still_under_way_is_broken_off(caplog: pytest.LogCaptureFixture) -> None:
    """Without a word: nothing is left of it that the interpreter would find, and complain about, later."""
    loop, broken_off, begun = Loop("test"), list[str](), threading.Event()

    async def endless(name: str) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            broken_off.append(name)
            raise

    found = loop.begin(endless("one"))
    assert begun.wait()
    loop.stop(nothing)
    assert broken_off == ["one"]
    assert found.cancelled()
    gc.collect()
    assert not caplog.records


def test_who_waits_gets_what_comes_of_it_or_what_went_wrong() -> None:
    loop = Loop("test")

    async def wrong() -> None:
        raise ValueError("wrong")

    async def right() -> int:
        return threading.get_ident()

    assert loop.now(right()) != threading.get_ident()
    with pytest.raises(ValueError, match="wrong"):
        loop.now(wrong())
    loop.stop(nothing)


def test_a_loop_that_has_not_begun_ends() -> None:
    Loop("test").stop(nothing)
