"""MoCFL: extractors blended by affinity, and a global head trained on present and past features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Arrays, Beside, Evaluated, FederationContext, Start, own_models
from fedroam.federation.server.affinity import (
    AFFINITY,
    LOSS_BEFORE,
    RECEIVED,
    UPLOADED,
    as_uploaded,
    begin_affinity,
    blend,
    distances_to,
    first_order_weights,
    held_for_validation,
    keep_uploads,
    mark_uploaded,
    nearest,
    others,
    remember_losses,
    rows_of,
    shares_of,
    validation_losses,
)
from fedroam.federation.server.fedgh import SERVER_BATCH, SERVER_EPOCHS, SERVER_LR
from fedroam.federation.server.loop import ServerLoop, ServerRound
from fedroam.federation.server.representations import (
    beside_class_means,
    class_means,
    means_bytes,
    train_head,
    widths,
)
from fedroam.learning import ClassMeans, Layout, Models
from fedroam.randomness import stream

REPLACED, MEANS, SEEN = "replaced", "means", "seen"
CANDIDATES = 256 * 1024 * 1024  # bytes of candidate models held at a time


@register("federation", "mocfl", source="Fang et al., WWW 2025, doi:10.1145/3696410.3714515, Eq. 2 to 15")
class MoCFL(Part, ServerLoop):
    """Clients keep their extractors and blend in those that help them; the server trains one head on class means.

    A round of client i with extractor phi_i and its own trained head h_i:
    (1) it gets the last uploaded extractors of the `neighbours` clients of largest affinity P[i, :];
    (2, 3) w_j = (L_i - L_i(h_i o phi_j)) / ||phi_j - phi_i||, losses on its validation samples, w~ the positive part
    over its sum; (4) phi_i += sum w~_j (phi_j - phi_i); (5) P[i, j] grows by w_j; (6) it trains phi_i and the server's
    head; (7, 8) of each class it sends f = (1 - m) f_new + m f_old, where f_new are the mean features by the trained
    extractor, f_old those by the extractor that it held when the round began, m = 1 - exp(-||f_new - f_old||^2 / (2
    s^2)), and 0 for a class seen for the first time. The server trains its head on all pairs (f, class).

    P starts as the identity. Where no client has uploaded, or no weight is positive, phi_i stays. A client's samples do
    not change in a run, so f_old is what it computed at the end of its last active round: that array [clients, classes,
    features] is all the history kept. The extractors that the server holds are those of the clients' rows.

    The width s is the median distance between the client's f_new of all pairs of classes, 1 where there is no pair or
    the median is 0. (From f_new and f_old of one class alone it would make m constant.)

    Judged with the server's head; a client's own trained head is the second. Down: the extractors received, and the
    head. Up: the extractor, the weights, and for each class held f and the class. Needs `validation_share` unless
    `neighbours = 0`; with that and `history = "none"` it is `fedgh` with the same settings of the server. The paper
    draws start models independently: `start_models = "independent"`.

    With `head = "own"` nothing is left of steps 6 to 8 but local training: each client keeps its head, no class means
    travel, the server trains nothing, and clients are judged by their own models (an ablation).

    It adds columns to the table of rounds: `replaced`, the share of active clients whose extractor was replaced, and
    `mmd`, the mean of m.
    """

    columns: ClassVar[tuple[str, ...]] = ("replaced", "mmd")

    neighbours: int = field(5, "extractors that a client is sent (k); 0 leaves out steps 1 to 5", ge=0)
    reference: Literal["present", "previous"] = field(
        "present", "L_i: loss of the client's model now, or of the one that its last training began with"
    )
    affinity: Literal["signed", "clipped", "normalised"] = field(
        "signed", "P grows by w, by its positive part, or by w~ (Eq. 9)"
    )
    history: Literal["far_counts_less", "far_counts_more", "none"] = field(
        "far_counts_less", "f = (1 - m) f_new + m f_old, the reverse, or f_new alone (Eq. 14)"
    )
    head: Literal["global", "own"] = field(
        "global",
        "the head that training begins with: the server's, or each client's own (then no steps 7 and 8)",
    )
    bandwidth: float = field(0.0, "width s of the kernel; 0 is the median distance (Eq. 13)", ge=0, lt=1e6)
    server_lr: float = field(0.01, SERVER_LR, gt=0, lt=1e6)
    server_epochs: int = field(1, SERVER_EPOCHS, ge=0)
    server_batch: int = field(64, SERVER_BATCH, unit="pairs", ge=0)

    @property
    def recorded(self) -> tuple[str, ...]:
        """P."""
        return (AFFINITY,) if self.neighbours else ()

    @override
    def shared(self, layout: Layout) -> slice:
        """The head; nothing where clients keep theirs."""
        return layout.columns("head") if self.head == "global" else slice(0, 0)

    @override
    def shared_buffers(self, layout: Layout) -> slice:
        """The head's, likewise."""
        return layout.buffer_columns("head") if self.head == "global" else slice(0, 0)

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        """The server's head, P, and no history."""
        super().begin(round, start)
        clients, classes = round.context.clients, round.context.classes
        if self.neighbours:
            round.layout.columns("extractor")  # refuse at once what has none
            begin_affinity(round, self.kind)
            round.state[RECEIVED] = np.zeros(clients, np.int64)
            round.state[REPLACED] = np.zeros(clients, bool)
            if self.reference == "previous":
                round.state[LOSS_BEFORE] = np.full(clients, np.nan)
        if self.history != "none" and self.head == "global":
            round.state[MEANS] = np.zeros((clients, classes, widths(round.layout)[0]), np.float32)
            round.state[SEEN] = np.zeros((clients, classes), bool)

    @override
    def broadcast(self, round: ServerRound) -> None:
        """Steps 1 to 6."""
        if self.neighbours:
            self._blend(round, *as_uploaded(round))
        super().broadcast(round)
        if self.neighbours and self.reference == "previous":
            remember_losses(round)

    def _blend(self, round: ServerRound, served: Models, upload: np.ndarray) -> None:
        """Steps 1 to 5 for all active clients, from the extractors as they were uploaded: those in rows `upload` (int64
        [clients]) of the models `served`."""
        models, clients, everybody = round.models, round.clients, round.context.clients
        own, own_buffers = _extractor(round.layout)
        chosen = [self._chosen(round, int(i)) for i in clients]
        owners = np.repeat(clients, [len(some) + 1 for some in chosen])
        sources = np.concatenate(
            [np.append(i, upload[some]) for i, some in zip(clients, chosen, strict=True)]
        )
        losses = _losses(round, served, owners, sources)
        affinity = round.state[AFFINITY].copy()
        received, replaced, new = np.zeros(everybody, np.int64), np.zeros(everybody, bool), []
        for i, some in zip(clients, chosen, strict=True):
            present, *found = losses[owners == i]
            reference = self._reference(round, i, present)
            mine = models.parameters[int(i), own]
            rows = rows_of(served.parameters, upload[some], own)
            weights = first_order_weights(reference, np.array(found), distances_to(mine, rows))
            shares = shares_of(weights)
            grown = {"signed": weights, "clipped": np.maximum(weights, 0.0), "normalised": shares}
            affinity[i, some] += grown[self.affinity]
            received[i], replaced[i] = len(some), shares.any()
            if replaced[i]:
                others_buffers = rows_of(served.buffers, upload[some], own_buffers)
                buffers = blend(models.buffers[int(i), own_buffers], others_buffers, shares)
                new.append((int(i), blend(mine, rows, shares), buffers))
        keep_uploads(round)
        for row, parameters, buffers in new:
            models.parameters[row, own], models.buffers[row, own_buffers] = parameters, buffers
        round.state |= {AFFINITY: affinity, RECEIVED: received, REPLACED: replaced}

    def _chosen(self, round: ServerRound, client: int) -> np.ndarray:
        """Step 1: whose extractors a client gets, int64 ascending."""
        available = others(round.context, round.state[UPLOADED], client)
        draws = stream(round.context.seed, "extractors received", round.number, client)
        return nearest(round.state[AFFINITY][client], available, self.neighbours, draws)

    def _reference(self, round: ServerRound, client: int, present: float) -> float:
        """L_i: the present loss, or that before the last training where there was one."""
        before = round.state[LOSS_BEFORE][client] if self.reference == "previous" else np.nan
        return float(before if np.isfinite(before) else present)

    @override
    def beside(self, round: ServerRound) -> Beside | None:
        """The losses of its own model and of each extractor that it got under its own head, on the validation samples;
        then that of the model that training begins with, if that is looked at; and the features of steps 7 and 8."""
        clients, found = round.clients, beside_class_means(round) if self.head == "global" else None
        if not self.neighbours:
            return found
        weighed = round.state[RECEIVED][clients] + 1 + (self.reference == "previous")
        losses = Beside.of(round.context.clients, clients, network=held_for_validation(round) * weighed)
        return losses if found is None else replace(losses, extractor=found.extractor)

    @override
    def aggregate(self, round: ServerRound) -> None:
        """Steps 7 and 8, and the server's training."""
        if self.neighbours:
            mark_uploaded(round)
            round.facts["replaced"] = float(round.state[REPLACED][round.clients].mean())
        if self.head == "own":
            return
        new = class_means(round)
        pairs = new if self.history == "none" else self._with_history(round, new)
        train_head(round, pairs, self.server_epochs, self.server_batch, self.server_lr)

    def _with_history(self, round: ServerRound, new: ClassMeans) -> ClassMeans:
        """Step 8; what is new becomes the history."""
        seen = round.state[SEEN][round.clients] & new.held
        old = np.where(seen[:, :, None], round.state[MEANS][round.clients], new.mean)
        apart = np.zeros(seen.shape)
        for k, held in enumerate(new.held):
            width = self.bandwidth or median_distance(new.mean[k, held])
            apart[k] = 1.0 - kernel(new.mean[k], old[k], width)
        if seen.any():
            round.facts["mmd"] = float(apart[seen].mean())
        # Where nothing was seen before, old is new: the weights make no difference.
        less = apart if self.history == "far_counts_less" else 1.0 - apart
        mean = (1.0 - less[:, :, None]) * new.mean + less[:, :, None] * old
        means, known = round.state[MEANS].copy(), round.state[SEEN].copy()
        # Who was lost keeps its history.
        which, c = np.nonzero(new.held)
        means[round.clients[which], c], known[round.clients[which], c] = new.mean[which, c], True
        round.state |= {MEANS: means, SEEN: known}
        return ClassMeans(mean.astype(np.float32), new.held)

    @override
    def download(self, round: ServerRound) -> np.ndarray | int:
        extractors = round.state[RECEIVED][round.clients] * _weight(round.layout) if self.neighbours else 0
        return super().download(round) + extractors

    @override
    def upload(self, round: ServerRound) -> np.ndarray:
        means = means_bytes(round) if self.head == "global" else np.zeros(len(round.clients), np.int64)
        if not self.neighbours:
            return means
        return np.asarray(means + _weight(round.layout) + 4 * round.state[RECEIVED][round.clients])

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        found = {"own_head": own_models(models)}
        if self.head == "global":
            found = {"global_head": own_models(self.after_broadcast(models, state)), **found}
        return found


def kernel(a: np.ndarray, b: np.ndarray, width: float) -> np.ndarray:
    """exp(-||a - b||^2 / (2 width^2)) over the last axis, float64.

    The squared MMD of two single points is k(a, a) + k(b, b) - 2 k(a, b) = 2 - 2 k(a, b) (Eq. 13); its half is 1 - k.
    """
    difference = a.astype(np.float64) - b.astype(np.float64)
    return np.asarray(np.exp(-np.square(difference).sum(-1) / (2 * width**2)))


def median_distance(points: np.ndarray) -> float:
    """Median Euclidean distance over all pairs of points [n, features]; 1 where there is no pair, or it is 0."""
    from scipy.spatial.distance import pdist

    distances = pdist(points.astype(np.float64)) if len(points) > 1 else np.zeros(1)
    return float(np.median(distances)) or 1.0


def _extractor(layout: Layout) -> tuple[slice, slice]:
    """Where parameters and buffers of the extractor lie in a row."""
    return layout.columns("extractor"), layout.buffer_columns("extractor")


def _weight(layout: Layout) -> int:
    """Bytes of an extractor."""
    return int(4 * sum(columns.stop - columns.start for columns in _extractor(layout)))


def _losses(round: ServerRound, served: Models, owners: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Validation loss of each candidate: the head of `owners[k]` on the extractor in row `sources[k]` (Eq. 3), float64.

    All in one evaluation, as far as memory for the candidates goes.
    """
    most, found = max(1, CANDIDATES // round.models.bytes_each), []
    for begin in range(0, len(owners), most):
        some, origin = owners[begin : begin + most], sources[begin : begin + most]
        parameters, buffers = _candidates(served, some, origin)
        candidates = Models(round.layout, parameters, buffers, None)
        found.append(validation_losses(round, candidates, range(len(some)), some.tolist()))
    return np.concatenate(found)


def _candidates(served: Models, owners: np.ndarray, sources: np.ndarray) -> Iterator[torch.Tensor]:
    """Parameters and buffers of the candidates."""
    everything = slice(None)
    for matrix, columns in zip((served.parameters, served.buffers), _extractor(served.layout), strict=True):
        candidates = rows_of(matrix, owners, everything)
        candidates[:, columns] = rows_of(matrix, sources, columns)
        yield candidates
