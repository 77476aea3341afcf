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
from dataclasses import dataclass
from typing import Any, Protocol

import torch

Compute = Callable[[Sequence[torch.Tensor]], tuple[torch.Tensor, ...]]
Shapes = tuple[tuple[torch.Size, tuple[int, ...], torch.dtype], ...]
RECORDINGS = 128  # of all passes of an engine
SEEN = 1024  # sizes that are known to have come once
SHARE = 0.25  # of the device's memory, for what goes into recordings and comes out of them
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


def room_on(device: torch.device) -> int | None:
    """How many bytes recordings may keep on a device; None for any number."""
    if device.type != "cuda":
        return None
    return int(SHARE * torch.cuda.get_device_properties(device).total_memory)


@dataclass
class _Kept:
    """A recording, the places of its inputs, how many bytes it keeps, and in which round it was played last."""

    recording: Recording
    places: list[torch.Tensor]
    size: int
    round: int


class Recordings:
    """What passes of an engine have recorded, for which there is room together.

    record: what records, None for nothing. most, room: how many recordings, and how many bytes of what goes into them
    and comes out of them (None: any number). Those that were played longest ago make room, but none of this round of
    training or the one before: where more sizes come in every round than there is room for, each would be recorded
    anew in every round, which takes several times as long as to compute it.
    """

    def __init__(self, record: Capture | None, most: int = RECORDINGS, room: int | None = None) -> None:
        self.record, self.most, self.room = record, most, room
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._seen: OrderedDict[Key, int] = OrderedDict()
        self._round = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """How many bytes all of them keep."""
        return sum(each.size for each in self._kept.values())

    def begin(self) -> None:
        """A round of training begins."""
        self._round += 1

    def find(self, key: Key) -> _Kept | None:
        """What is recorded of this pass and these shapes."""
        kept = self._kept.get(key)
        if kept is not None:
            kept.round = self._round
            self._kept.move_to_end(key)
        return kept

    def saw(self, key: Key, size: int) -> None:
        """These shapes have come, and take so many bytes."""
        self._seen[key] = size
        self._seen.move_to_end(key)
        while len(self._seen) > SEEN:
            self._seen.popitem(last=False)

    def made(self, key: Key, compute: Compute, given: Sequence[torch.Tensor]) -> _Kept | None:
        """Record a pass whose shapes have come before; None where they have not, or there is no room.

        Where it cannot be recorded that is told, and nothing is any more: what it did to the device is not known.
        """
        size = self._seen.get(key)
        if self.record is None or size is None or not self._make_room(size):
            return None
        try:
            places = [
                torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=each.device)
                for each in given
            ]
            for place, each in zip(places, given, strict=True):
                place.copy_(each)
            kept = self._kept[key] = _Kept(self.record(compute, places), places, size, self._round)
            return kept
        except RuntimeError as error:  # also where memory is too short for what recordings keep
            warnings.warn(
                f"a pass cannot be recorded ({error}): each of its launches is made anew, which takes longer",
                stacklevel=3,
            )
        self.stop()
        return None

    def stop(self) -> None:
        """Record no more, and give up what is recorded."""
        self.record = None
        self._kept.clear()
        self._seen.clear()

    def _make_room(self, size: int) -> bool:
        """Whether there is room for one more of so many bytes, for which some have gone."""
        over = max(0, self.size + size - self.room) if self.room is not None else 0
        crowd, going = len(self._kept) + 1 - self.most, list[Key]()
        for key, kept in self._kept.items():
            if (over <= 0 and crowd <= 0) or kept.round >= self._round - 1:
                break  # all behind it were played later
            going.append(key)
            over, crowd = over - kept.size, crowd - 1
        if over > 0 or crowd > 0:
            return False
        for key in going:
            del self._kept[key]
        return True


class RecordedPass:
    """A pass that is recorded when inputs of the same shapes come for the second time.

    The first time it is computed as it is: sizes that come once are not worth a recording. Where a pass cannot be
    recorded (it waits for the device, decides by values, or memory runs out), or there is no room, it is computed.
    """

    def __init__(self, compute: Compute, recordings: Recordings) -> None:
        self.compute, self.recordings = compute, recordings

    def __call__(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What `compute` gives for these; the next call of any pass may overwrite it. Until then it may be changed."""
        recordings = self.recordings
        if recordings.record is None:
            return self.compute(given)
        key = (self, tuple((each.shape, each.stride(), each.dtype) for each in given))
        kept = recordings.find(key) or recordings.made(key, self.compute, given)
        if kept is None:
            found = self.compute(given)
            recordings.saw(key, sum(each.nbytes for each in (*given, *found)))
            return found
        for place, each in zip(kept.places, given, strict=True):
            place.copy_(each)
        return kept.recording.play()


Key = tuple[RecordedPass, Shapes]
