"""Which worker computes which client: those who meet belong together, and every worker gets its share of the work."""

from __future__ import annotations

import numpy as np
from scipy import sparse

REMEMBERED = 5  # exchanges by which is judged who meets whom
PERIOD = 10  # exchanges between two looks; the first comes after the first exchange
HORIZON = 50  # rounds for which a placement is taken to be good, at most
TOLERANCE = 1.05  # of the mean load of a worker
PASSES = 4  # over the clients at the borders of parts


class Meetings:
    """Who needed whose model in the last exchanges."""

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self._recent: list[sparse.csr_array] = []
        self._next = 1  # exchanges until the next look

    def note(self, receiver: np.ndarray, sender: np.ndarray) -> None:
        """In one exchange, clients `receiver` needed the models of clients `sender` (int64, each)."""
        met = sparse.coo_array(
            (np.ones(len(receiver), np.float32), (receiver, sender)), shape=(self.clients, self.clients)
        )
        self._recent = [*self._recent[-REMEMBERED + 1 :], met.tocsr()]
        self._next -= 1

    def better(
        self, place: np.ndarray, load: np.ndarray, cost: np.ndarray, workers: int, rounds_left: int
    ) -> np.ndarray | None:
        """Another placement (int64 [clients]) than `place`, if it is time to look for one and it is worth the moves.

        It is where it spares more rows of models between workers, in the rounds to come, than the clients that move
        take along: cost, float64 [clients], in rows. load: float64 [clients], the work of each. What is found follows
        from these alone.
        """
        if self._next > 0 or not self._recent or workers < 2:
            return None
        self._next = PERIOD
        total = self._recent[0]
        for met in self._recent[1:]:
            total = total + met
        graph = sparse.csr_array(total + total.T)
        found = renamed(place, partition(graph, load, workers), workers, load)
        now, then = (np.mean([crossings(met, each) for met in self._recent]) for each in (place, found))
        spared = float(now - then) * min(rounds_left, HORIZON)
        return found if spared > cost[found != place].sum() else None


def shares(order: np.ndarray, load: np.ndarray, parts: int) -> np.ndarray:
    """The part of each client, int64 [clients], where this order (int64) is cut into parts of about equal load."""
    found = np.zeros(len(order), np.int64)
    ends = np.cumsum(load[order])
    if len(order):
        middle = (ends - load[order] / 2) / ends[-1]
        found[order] = np.minimum((middle * parts).astype(np.int64), parts - 1)
    return found


def partition(graph: sparse.csr_array, load: np.ndarray, parts: int) -> np.ndarray:
    """The part of each client, int64 [clients], so that few entries of a symmetric graph lie between parts.

    All are cut in two, and each half again: along the order of Cuthill and McKee (ACM 1969), which puts neighbours near
    each other. Then clients at borders go over to the part that they have most to do with, while loads allow it.
    """
    found = np.zeros(graph.shape[0], np.int64)
    _cut(graph, np.arange(len(found)), load, parts, found)
    loads = np.bincount(found, load, minlength=parts)
    limit = TOLERANCE * load.sum() / parts
    for _ in range(PASSES):
        receiver, sender = graph.tocoo().coords
        border = np.unique(receiver[found[receiver] != found[sender]])
        moved = 0
        for i in border.tolist():
            near = slice(graph.indptr[i], graph.indptr[i + 1])
            pull = np.bincount(found[graph.indices[near]], graph.data[near], minlength=parts)
            full = loads + load[i] > limit
            full[found[i]] = False
            pull[full] = -1.0
            best = int(np.argmax(pull))
            if pull[best] > pull[found[i]]:
                loads[found[i]] -= load[i]
                loads[best] += load[i]
                found[i] = best
                moved += 1
        if not moved:
            break
    return found


def _cut(
    graph: sparse.csr_array, clients: np.ndarray, load: np.ndarray, parts: int, found: np.ndarray
) -> None:
    """Give these clients (int64) parts from the one that `found` names on; graph: theirs."""
    if parts == 1 or not len(clients):
        return
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order = reverse_cuthill_mckee(sparse.csr_matrix(graph), symmetric_mode=True).astype(np.int64)
    ends = np.cumsum(load[clients[order]])
    first = ends - load[clients[order]] / 2 < ends[-1] * (parts // 2) / parts
    found[clients[order[~first]]] += parts // 2
    for some, count in ((order[first], parts // 2), (order[~first], parts - parts // 2)):
        own = np.sort(some)
        _cut(sparse.csr_array(graph[own][:, own]), clients[own], load, count, found)


def renamed(old: np.ndarray, new: np.ndarray, parts: int, weight: np.ndarray) -> np.ndarray:
    """The new parts under the names by which most of the weight stays where it is."""
    from scipy.optimize import linear_sum_assignment

    common = np.zeros((parts, parts))
    np.add.at(common, (new, old), weight)
    rows, names = linear_sum_assignment(common, maximize=True)
    name = np.zeros(parts, np.int64)
    name[rows] = names
    return np.asarray(name[new])


def crossings(met: sparse.csr_array, place: np.ndarray) -> int:
    """Rows that go from worker to worker in an exchange: each to each worker that needs it, once."""
    receiver, sender = met.tocoo().coords
    away = place[receiver] != place[sender]
    return len(np.unique(sender[away] * (int(place.max(initial=0)) + 1) + place[receiver[away]]))
