"""Evaluation of many models by a pool of workers: equal models once, test sets in blocks that keep every core busy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedroam.learning.cpu.compiled.scores import CompiledScores
from fedroam.learning.cpu.fused_conv2d import fuse
from fedroam.learning.cpu.kernels import ConvStack, DenseLayer, DenseStack
from fedroam.learning.cpu.mlp import recognise
from fedroam.learning.cpu.sequential import SequentialModel, dense_extractor, sequential_model
from fedroam.learning.cpu.worker_model import Nature, aligned, attach, read_buffers
from fedroam.learning.engine import Indices, Rows, Scores, Task, cases, tally
from fedroam.learning.half_precision import widened
from fedroam.learning.matrix import Models
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.samples import Samples, mostly_zeros
from fedroam.models import split
from fedroam.native import target

NOTHING = np.zeros((3, 1), np.int64)  # counts of no sample
BATCH = 250  # samples computed at a time
PIECE = 2 * BATCH  # samples that one worker takes at a time
TURNS = 4  # of each worker, at least, where there is enough to do
BLOCK = 8 * BATCH  # samples whose losses are added up before they are added to those of the others


Counted = tuple[np.ndarray, list[float]]  # what `tally` counts, and the sum of losses of each batch


@dataclass(frozen=True)
class EvaluationBlock:
    """Some test samples to evaluate one row on: positions begin .. end - 1 of the row's own test samples."""

    case: int
    row: int
    part: np.ndarray | None
    begin: int
    end: int

    def index(self, begin: int, end: int) -> torch.Tensor:
        """The indices (int64) of the row's own test samples begin .. end - 1."""
        if self.part is None:
            return torch.arange(begin, end)
        return torch.from_numpy(self.part[begin:end])

    def batches(self) -> list[tuple[int, int]]:
        """From where to where each of its batches goes."""
        starts = range(self.begin, self.end, BATCH)
        return [(begin, min(begin + BATCH, self.end)) for begin in starts]


def indices(part: np.ndarray, samples: int) -> torch.Tensor:
    """Indices of samples, as kernels read them, int64 [n] side by side. Raises IndexError for one that there is not."""
    if len(part) and not 0 <= part.min() <= part.max() < samples:
        raise IndexError(f"samples from {part.min()} to {part.max()}: allowed are 0 to {samples - 1}")
    return torch.from_numpy(np.ascontiguousarray(part, dtype=np.int64))


def blocks(
    models: Models, rows: Rows, samples: int, parts: Indices | None
) -> tuple[list[EvaluationBlock], np.ndarray]:
    """The blocks to compute, and for each of `rows` the number of its case (int64)."""
    asked, found = cases(models, rows, parts), []
    for case, row in enumerate(asked.rows):
        part = None if asked.parts is None else asked.parts[case]
        size = samples if part is None else len(part)
        for begin in range(0, size, PIECE):
            found.append(EvaluationBlock(case, row, part, begin, min(begin + PIECE, size)))
    return found, asked.of


def units(found: Sequence[EvaluationBlock], workers: int, rows: int) -> list[range]:
    """Blocks that one worker takes at a time: small ones together, but so few that each worker gets several, and no
    more than so many rows."""
    ends = np.cumsum([block.end - block.begin for block in found])
    most = min(PIECE, ends[-1] / (TURNS * workers)) if len(ends) else PIECE
    cuts, begin = [0], 0
    for k, end in enumerate(ends.tolist(), 1):
        if end - begin >= most or k - cuts[-1] >= rows or k == len(ends):
            cuts.append(k)
            begin = end
    return list(itertools.starmap(range, itertools.pairwise(cuts)))


class Evaluator:
    """One worker's network for evaluation, which nobody else computes with."""

    def __init__(self, task: Task, nature: Nature, module: nn.Module) -> None:
        self.task, self.layout, self.module = task, task.layout, module.eval()
        self.native = nature.native and not nature.plain
        # Kernels of ours give the outputs too; else the network itself does.
        found, self.compiled = None, None
        if self.native:
            usual = replace(task, objective=CrossEntropy())  # the outputs are the same for any other
            found = sequential_model(self.module, usual, torch.empty(task.layout.size))
            self.compiled = _compiled(self.module, usual, found)
            self.module = fuse(self.module)  # for features, and where the sequence is not known
        self.sequential = found if found is not None and found.native else None

    def evaluate(self, models: Models, samples: Samples, some: Sequence[EvaluationBlock]) -> list[Counted]:
        """What `tally` counts in each of some blocks, and the sum of the losses of each of its batches."""
        if self.compiled is not None and self.compiled.suit(samples):
            return self._counted(self.compiled, models, samples, some)
        return [self._tallied(models, samples, block) for block in some]

    def _tallied(self, models: Models, samples: Samples, block: EvaluationBlock) -> Counted:
        row = aligned(models.parameters[block.row])
        attach(self.module, self.layout, row)
        read_buffers(self.module, self.layout, models.buffers[block.row])
        if self.sequential is not None:
            self.sequential.attach(row.data)
        counts, losses = NOTHING, []
        with torch.inference_mode():
            for begin, end in block.batches():
                if block.part is None:
                    x, y = samples.cut(begin, end)
                else:
                    x, y = samples.pick(block.index(begin, end))
                outputs = self.module(x) if self.sequential is None else self.sequential.outputs(x)
                counts = counts + tally(outputs, y)
                losses.append(float(functional.cross_entropy(outputs, y, reduction="sum")))
        return counts, losses

    @staticmethod
    def _counted(
        compiled: CompiledScores, models: Models, samples: Samples, some: Sequence[EvaluationBlock]
    ) -> list[Counted]:
        asked, found = [], []
        for block in some:
            row = widened(models.parameters[block.row])
            asked += [(row, block.index(begin, end)) for begin, end in block.batches()]
        counts, losses = compiled.count(samples, asked)
        begin = 0
        for block in some:
            end = begin + len(block.batches())
            found.append((counts[begin:end].sum(axis=0), losses[begin:end]))
            begin = end
        return found

    @cached_property
    def _extractor(self) -> DenseStack | None:
        """What computes features, where that is linear layers."""
        return dense_extractor(self.module, self.task) if self.native else None

    def features(self, models: Models, row: int, samples: Samples, part: np.ndarray) -> torch.Tensor:
        """What a row's extractor makes of samples `part`, float32 [samples, features]."""
        if self._extractor is not None:
            return self._dense_features(self._extractor, models, row, samples, part)
        attach(self.module, self.layout, aligned(models.parameters[row]))
        read_buffers(self.module, self.layout, models.buffers[row])
        extractor, _ = split(self.module)
        with torch.no_grad():
            pieces = torch.from_numpy(part).split(BATCH)
            return torch.cat([extractor(samples.pick(piece)[0]).flatten(1) for piece in pieces])

    @staticmethod
    def _dense_features(
        extractor: DenseStack, models: Models, row: int, samples: Samples, part: np.ndarray
    ) -> torch.Tensor:
        extractor.attach(widened(models.parameters[row].data))
        found, index = torch.empty(len(part), extractor.outputs), indices(part, len(samples))
        for begin in range(0, len(part), PIECE):
            piece = index[begin : begin + PIECE]
            found[begin : begin + PIECE] = extractor.forward_of(samples, piece)
        return found


def _compiled(module: nn.Module, task: Task, found: SequentialModel | None) -> CompiledScores | None:
    """Kernels for all of a network, as it is or as a known sequence; None where there are none."""
    here, layers, shape = target(), recognise(module, task), task.x.shape[1:]
    if found is not None and found.head is not None and isinstance(found.layers[0], ConvStack):
        return CompiledScores(shape, found.head.layers, found.layers[0], found.head.target)
    if here is None or layers is None:
        return None
    dense = tuple(DenseLayer.of(layer.weight, layer.bias) for layer in layers)
    return CompiledScores(shape, dense, None, here, mostly_zeros(task.x))


def scores(found: Sequence[EvaluationBlock], results: Sequence[Counted], case_of: np.ndarray) -> Scores:
    """Each row's scores from its case's blocks, added up in their order.

    Losses are added up in `BLOCK`s, whoever computed which piece of one: the sum is the same however they are cut.
    """
    several = int(case_of.max()) + 1 if len(case_of) else 0
    classes = max((counts.shape[1] for counts, _ in results), default=1)
    counted, losses = np.zeros((3, several, classes), np.int64), [list[float]() for _ in range(several)]
    for block, (counts, some) in zip(found, results, strict=True):
        counted[:, block.case] += counts
        losses[block.case] += some
    loss = np.array([_total(some) for some in losses])
    with np.errstate(invalid="ignore"):
        hits, answers, actual = counted
        return Scores(hits, answers, actual, loss / actual.sum(1)).of(case_of)


def _total(losses: list[float]) -> float:
    """The sum of all batches' losses, one after the other within a block. (`sum` rounds otherwise in some Pythons.)"""
    total = 0.0
    for first in range(0, len(losses), BLOCK // BATCH):
        block = 0.0
        for loss in losses[first : first + BLOCK // BATCH]:
            block += loss
        total += block
    return total
