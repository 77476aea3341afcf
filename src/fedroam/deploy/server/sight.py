"""Where devices are, by what they find out: after each round's learning the server has them look who answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fedroam.contacts import reach_of
from fedroam.contacts.recorded import COLUMNS as PAIR
from fedroam.deploy.messages import NO_ORDER, Order, Refused, packed, sum_of
from fedroam.deploy.server.hub import Asked, Hub
from fedroam.deploy.server.remote import RemoteLearner
from fedroam.deploy.site.file import Movement, Site
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation import access_point
from fedroam.parts import Parts
from fedroam.recording.looks import LOOKS, note_looks, read_looks
from fedroam.traces import Trace, write_trace
from fedroam.writing import write_text

TRACE, PLACES, MET = "trace.parquet", "access_points.csv", "met.csv"  # in `movement/` of the run folder


@dataclass(frozen=True)
class Turning:
    """Which access point each device belongs to, and which one it may turn to.

    near: int64 [devices], the access point that it belongs to, or did when one answered it last; -1 for none. other:
    int64 [devices], the one that answered so much quicker in the last rounds, -1 for none, and times: int64 [devices],
    in how many of them in succession. present: bool [devices], whether any answers it now.
    """

    near: np.ndarray
    other: np.ndarray
    times: np.ndarray
    present: np.ndarray

    @classmethod
    def nowhere(cls, devices: int) -> Turning:
        """Before anybody has looked."""
        none = np.full(devices, -1, np.int64)
        return cls(none, none.copy(), np.zeros(devices, np.int64), np.zeros(devices, dtype=bool))

    def after(self, seconds: np.ndarray, signal: np.ndarray, rule: Movement) -> Turning:
        """When everybody has looked: seconds, float64 [devices, access points], the time to an answer, NaN for none;
        signal: the same shape, dBm, of the access points that a device hears, NaN for all others.

        A device that has none, or whose own one does not answer, takes the quickest at once. Otherwise another one must
        be quicker by a share of `rule.quicker`, the same one `rule.times` rounds in succession. By signal, the loudest
        of those that answer is taken instead; if the own one is heard, too, it must be louder than that by
        `rule.stronger`, likewise. A device that hears only the one that it has joined turns to it at once: when to
        change that, its own system has weighed.
        """
        near, other, times = self.near.copy(), self.other.copy(), self.times.copy()
        present = np.isfinite(seconds).any(axis=1)
        for i in range(len(near)):
            took, own = np.where(np.isfinite(seconds[i]), seconds[i], np.inf), int(near[i])
            level = np.where(np.isfinite(took), signal[i], np.nan)
            best, known, better = own, False, False
            if rule.by == "signal" and np.isfinite(level).any():
                best = int(np.nanargmax(level))
                known, better = np.isfinite(level[own]), level[best] >= level[own] + rule.stronger
            elif present[i]:
                best = int(np.argmin(took))
                known, better = np.isfinite(took[own]), took[best] <= (1 - rule.quicker) * took[own]
            if own >= 0 and known and best != own:
                count = times[i] + 1 if best == other[i] else 1
                if better and count < rule.times:
                    other[i], times[i] = best, count
                    continue
                best = best if better else own
            near[i], other[i], times[i] = best, -1, 0
        return Turning(near, other, times, present)


class RemoteSight:
    """Devices that look who answers them: access points, or each other.

    Where there are access points, a device is at the place (float64 [access points, 2], m) of the one that it belongs
    to, and one that none answers is away; peers are nowhere in particular, and two meet if each has answered the other.
    Who does not tell is away. folder: of the run, which gets what was found out.
    """

    def __init__(
        self, hub: Hub, learner: RemoteLearner, site: Site, places: np.ndarray, folder: Path
    ) -> None:
        self._hub, self._learner, self._site, self._folder = hub, learner, site, folder
        self._clients = len(site.clients)
        self.peers = any(node.role == "peer" for node in site.nodes)
        self._places = np.zeros((1, 2)) if self.peers else places
        if len(np.unique(self._places, axis=0)) < len(self._places):
            raise InputError(
                f"movement.by = {self.by!r}: two access points stand at one place: devices at them cannot be told apart"
            )

    @property
    def by(self) -> str:
        """As the site says."""
        return self._site.movement.by

    def start(self) -> dict[str, np.ndarray]:
        """Everybody is away."""
        return self._state(Turning.nowhere(self._clients))

    def _state(self, turning: Turning) -> dict[str, np.ndarray]:
        near = np.maximum(turning.near, 0)
        place = np.where(turning.near[:, None] >= 0, self._places[near], self._places[0])
        return {
            "position": place,
            "present": turning.present,
            "near": turning.near,
            "other": turning.other,
            "times": turning.times,
        }

    def look(
        self, state: Mapping[str, np.ndarray], round: int
    ) -> tuple[dict[str, np.ndarray], sparse.csr_array | None]:
        """Have all who attend look, and tell what they found."""
        doors = sorted(
            self._hub.listening(), reverse=not self.peers
        )  # access points 0, 1, ... are -2, -3, ...
        told, seconds, signal = self._asked(doors, round)
        before = Turning(*(state[name] for name in ("near", "other", "times", "present")))
        if self.peers:
            answer = np.isfinite(seconds)
            # Whom nobody answers is there, if it tells so, and learns by itself.
            after, graph = replace(before, present=told), _graph(answer & answer.T)
        else:
            after, graph = before.after(seconds, signal, self._site.movement), None
        self._note(doors, seconds, signal, after, round, np.flatnonzero(told) if self.peers else ())
        return self._state(after), graph

    def _asked(self, doors: Sequence[int], round: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which client tells (bool [clients]), and what it found: float64 [clients, doors], NaN where nothing."""
        gone = np.union1d(self._hub.away(round), self._learner.lost())
        orders, ends = dict[int, Asked](), dict[int, list[int]]()
        for client in np.setdiff1d(np.arange(self._clients), gone).tolist():
            ends[client] = [k for k, door in enumerate(doors) if door != client and self._reachable(door)]
            orders[client] = self._order([doors[k] for k in ends[client]], round)
        seconds, signal = np.full((2, self._clients, len(doors)), np.nan)
        told = np.zeros(self._clients, dtype=bool)
        for client, answer in self._hub.ask(orders).items():
            if answer is not None:
                told[client] = True
                seconds[client, ends[client]] = answer["seconds"]
                signal[client, ends[client]] = answer["signal"]
        return told, seconds, signal

    def _reachable(self, door: int) -> bool:
        return self._site.movement.by == "discovery" or self._hub.found(door)[1] > 0

    def _order(self, doors: Sequence[int], round: int) -> Asked:
        rule = self._site.movement
        found = [self._hub.found(door) for door in doors]
        hosts = sorted({host for host, _ in found})
        arrays = {
            "end": np.array(doors, np.int64),
            "host": np.array([hosts.index(host) for host, _ in found], np.int64),
            "port": np.array([port for _, port in found], np.int64),
        }
        order = Order.model_validate(
            {
                "order": NO_ORDER,
                "work": "look",
                "round": round,
                "rows": len(doors),
                "hosts": hosts,
                "pings": rule.pings,
                "patience": rule.patience,
                "search": rule.by == "discovery",
            }
        )
        shape = (len(doors),)
        expected = {"seconds": ("float64", shape), "signal": ("float64", shape)}
        # What was found has been found, wherever those who listen are by now.
        about = sum_of(f"look {[*doors]}".encode())
        return Asked(order, packed(arrays), expected, _plausible, about=about)

    def _note(
        self,
        doors: Sequence[int],
        seconds: np.ndarray,
        signal: np.ndarray,
        after: Turning,
        round: int,
        peers: Iterable[int],
    ) -> None:
        names = [self._hub.name(door) for door in doors]
        clients = {i: self._hub.name(i) for i in range(self._clients)}

        def told(values: np.ndarray) -> dict[str, dict[str, float]]:
            rows = {
                name: {names[k]: float(values[i, k]) for k in np.flatnonzero(np.isfinite(values[i]))}
                for i, name in clients.items()
            }
            return {name: row for name, row in rows.items() if row}

        belongs = {
            name: self._hub.name(int(access_point(int(after.near[i]))))
            for i, name in clients.items()
            if not self.peers and after.present[i]
        }
        note_looks(
            self._folder, round, told(seconds), told(signal), belongs, [clients[int(i)] for i in peers]
        )

    def keep(self) -> None:
        """Write what was found out as a trace that replays, and access points' places or who met whom beside it, into
        `movement/` of the run folder."""
        found = read_looks(self._folder / LOOKS)
        clients = {node.name: number for number, node in self._site.clients.items()}
        doors = {node.name: node.access_point for node in self._site.nodes if node.access_point is not None}
        fixes = []
        for k, name in enumerate(sorted(clients)):
            there = {t: each.belongs.get(name, "") for t, each in found.items() if name in each.present}
            # A device that was never there comes when all is over.
            fixes += [(k, t, doors.get(door, 0)) for t, door in (there or {max(found) + 1: ""}).items()]
        if not any(each.present for each in found.values()):
            self._hub.tell("no device was ever there: no trace of where all were is kept")
            return
        device, time, place = np.array(fixes, np.int64).T
        trace = Trace(
            tuple(sorted(clients)),
            np.searchsorted(device, np.arange(len(clients) + 1)),
            time.astype(np.float64),
            self._places[place],
            {
                "source": LOOKS,
                "sha256": sum_of((self._folder / LOOKS).read_bytes()),
                "epoch": None,
                "projection": None,
                "origin": None,
                "rows": len(fixes),
                "dropped": {},
                "source_format": "looks",
            },
            tuple(doors),
            place.astype(np.int32) if doors else None,
        )
        folder = self._folder / "movement"
        folder.mkdir(exist_ok=True)
        write_trace(trace, folder / TRACE)
        if self.peers:
            pairs = [f"{t},{clients[i]},{clients[j]}" for t, each in found.items() for i, j in each.met]
            write_text(folder / MET, "\n".join([",".join(PAIR), *pairs, ""]))
        else:
            rows = [f"{x!r},{y!r}" for x, y in self._places.tolist()]
            write_text(folder / PLACES, "\n".join(["x,y", *rows, ""]))


def replay(folder: Path, experiment: Experiment) -> dict[str, dict[str, Any]]:
    """The settings by which an experiment simulates what was found out in a run's folder: its mobility replays the
    trace, round by round; access points stand where they stood, and peers meet whom they met. Empty where nothing was
    kept.
    """
    movement = folder / "movement"
    if not (movement / TRACE).exists():
        return {}
    trace = {
        "kind": "trace",
        "file": str(movement / TRACE),
        "interval": 1.0,
        "begin": 0.0,
        "length": experiment.rounds + 2.0,
        "devices": "names",
    }
    if not (movement / MET).exists():
        return {"mobility": trace, "access_points": {"kind": "file", "path": str(movement / PLACES)}}
    reach = reach_of(Parts.of(experiment).contacts)
    near = {"range": reach} if np.isfinite(reach) else {}
    return {"mobility": trace, "contacts": {"kind": "recorded", "file": str(movement / MET), **near}}


def _plausible(answer: Mapping[str, np.ndarray]) -> None:
    """Refuses times and levels that cannot be."""
    for name, low, high in (("seconds", 0.0, 60.0), ("signal", -200.0, 0.0)):
        values = answer[name][~np.isnan(answer[name])]
        if not ((values >= low) & (values <= high)).all():
            raise Refused(f"{name} that cannot be")


def _graph(answer: np.ndarray) -> sparse.csr_array:
    """Who meets whom (bool CSR), of a matrix that says so."""
    graph = sparse.csr_array(answer)
    graph.sort_indices()
    return graph
