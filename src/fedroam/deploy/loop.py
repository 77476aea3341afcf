"""An event loop in a thread of its own, in which a node or the server answers those that call it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 1.0  # seconds that whoever is broken off has to end


class Loop:
    """A loop that begins with the first thing that is done in it. events: the loop itself."""

    def __init__(self, name: str) -> None:
        self.events = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.events.run_forever, name=name, daemon=True)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin something in the loop, from another thread; what will come of it."""
        if not self._thread.is_alive():
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self.events)

    def now(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the loop, from another thread, and wait for what comes of it."""
        return self.begin(work).result()

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End the loop; if it has begun, something is done last, and what is still under way is broken off."""
        if self._thread.is_alive():
            self.now(last())
            self.now(self._break_off())
            self.now(self.events.shutdown_default_executor())  # else its threads end some time
            self.events.call_soon_threadsafe(self.events.stop)
            self._thread.join()
        self.events.close()

    async def _break_off(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=PATIENCE)
