"""Passes of an accelerator that are recorded once and played again: a whole pass is one launch instead of hundreds.

With small models the time of a pass is that of launching its kernels one by one. A recording (on CUDA a graph: see
"CUDA Graphs" in torch's documentation) is played with other values in the same places, so it computes the same kernels
in the same order, and gives the same bits as the pass itself.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch

Compute = Callable[[Sequence[torch.Tensor]], tuple[torch.Tensor, ...]]
Shapes = tuple[tuple[torch.Size, tuple[int, ...], torch.dtype], ...]
RECORDINGS = 32  # of each pass: those that were played longest ago go first
WARM_UP = 2  # passes before a recording on the stream that records, beside the one that was computed without


class Recording(Protocol):
    """A pass with inputs and outputs in fixed places."""

    def play(self) -> tuple[torch.Tensor, ...]:
        """Compute it again from what the inputs hold now; outputs are overwritten when any recording is played next:
        what one computes in between may lie where another one's outputs are.
        """


Capture = Callable[[Compute, Sequence[torch.Tensor]], Recording]


class CudaGraph:
    """A recording on a CUDA device. Recordings share the memory for what they compute in between: never two play at
    once.
    """

    def __init__(self, compute: Compute, inputs: Sequence[torch.Tensor]) -> None:
        device = inputs[0].device
        aside = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):  # libraries choose and set up what they launch
                compute(inputs)
        torch.cuda.current_stream(device).wait_stream(aside)
        self.graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device)
        try:
            with _uncollected(), torch.cuda.device(device), torch.cuda.graph(self.graph, pool=_pool(device)):
                self.outputs = compute(inputs)
        except BaseException:
            # torch stays on the stream that was to be recorded, and in its memory.
            with torch.cuda.device(device):
                torch.cuda.set_stream(before)
            _pool.cache_clear()
            raise

    def play(self) -> tuple[torch.Tensor, ...]:
        """Launch all of it."""
        self.graph.replay()
        return self.outputs


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's collector: recordings of others that it frees would end the one that is under way."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@functools.cache
def _pool(device: torch.device) -> Any:
    """The memory of a device that recordings share: a handle whose type torch keeps to itself."""
    with torch.cuda.device(device):
        return torch.cuda.graph_pool_handle()


def capture_on(device: torch.device) -> Capture | None:
    """What records on a device; None where nothing does."""
    return CudaGraph if device.type == "cuda" else None


class RecordedPass:
    """A pass that is recorded when inputs of the same shapes come for the second time.

    The first time it is computed as it is: sizes that come once are not worth a recording. Where a pass cannot be
    recorded (it waits for the device, decides by values, or memory runs out), that is told, and it is computed as it is
    from then on. given_up: called then.
    """

    def __init__(
        self,
        compute: Compute,
        record: Capture | None,
        most: int = RECORDINGS,
        given_up: Callable[[], None] | None = None,
    ) -> None:
        self.compute, self.record, self.most, self.given_up = compute, record, most, given_up
        self._kept: OrderedDict[Shapes, tuple[Recording, list[torch.Tensor]] | None] = OrderedDict()

    def __call__(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What `compute` gives for these; the next call of any pass may overwrite it. Until then it may be changed."""
        if self.record is None:
            return self.compute(given)
        shapes = tuple((each.shape, each.stride(), each.dtype) for each in given)
        known = shapes in self._kept
        kept = self._kept.get(shapes)
        if known and kept is None:
            kept = self._recorded(given)
        if self.record is None or kept is None:
            self._keep(shapes, None)
            return self.compute(given)
        self._keep(shapes, kept)
        recording, places = kept
        for place, each in zip(places, given, strict=True):
            place.copy_(each)
        return recording.play()

    def _recorded(self, given: Sequence[torch.Tensor]) -> tuple[Recording, list[torch.Tensor]] | None:
        assert self.record is not None
        try:
            places = [
                torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=each.device)
                for each in given
            ]
            for place, each in zip(places, given, strict=True):
                place.copy_(each)
            return self.record(self.compute, places), places
        except RuntimeError as error:  # also where memory is too short for what recordings keep
            warnings.warn(
                f"a pass cannot be recorded ({error}): each of its launches is made anew, which takes longer",
                stacklevel=2,
            )
        self.stop()
        if self.given_up is not None:
            self.given_up()
        return None

    def stop(self) -> None:
        """Record no more, and give up what is recorded."""
        self.record = None
        self._kept.clear()

    def _keep(self, shapes: Shapes, kept: tuple[Recording, list[torch.Tensor]] | None) -> None:
        self._kept[shapes] = kept
        self._kept.move_to_end(shapes)
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)
