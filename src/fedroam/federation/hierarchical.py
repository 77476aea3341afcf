"""Hierarchical federations: devices train, access points aggregate, and a cloud aggregates the access points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from typing import ClassVar, Literal

import numpy as np
import torch

from fedroam.access_points import distances, in_service
from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.federation.aggregating import averages, made_by_rule
from fedroam.federation.attention import AveragingWeights, Cosine, attention, average
from fedroam.federation.backhaul import broadcast, routes, upload
from fedroam.federation.hierarchy_state import CLOUD, COUNTED, NOBODY, HierarchyState
from fedroam.federation.holders import Aggregator, Gathered, KnownToHolders, Made, Transfers
from fedroam.federation.protocol import (
    SERVER,
    Distributed,
    EvaluationModels,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
    Traffic,
    access_point,
    one_model,
)
from fedroam.federation.selection import Assignment, Ties, assigned, chosen_few, turned, walked
from fedroam.learning import Job, Learner, Models
from fedroam.mobility import Paths
from fedroam.randomness import stream

Access = Literal["nearest", "fixed", "ring"]
Cloud = Literal["selective", "all"]
Weighting = Literal["uniform", "samples", "cosine"]
ACCESS = (
    "the access point of a device: the nearest one at every step, the same one for ever, or a walk on the ring of "
    "access points (a device, present or not, moves with probability move)"
)
CARRY_OVER = (
    "whether a device that is gone when its update is due, and comes back before the next global aggregation, is "
    "aggregated then; otherwise its update is lost"
)
CLOUD_OF = "the access points that the cloud averages: those that aggregated since the last time, or all"
WEIGHTS = (
    "weights at access points and at the cloud: equal, by training samples, or softmax of the cosine to the model that "
    "is replaced"
)


@register("federation", "hierarchical", source="Farcas et al., Alg. 1, Eqs. 4 to 6")
class Hierarchical(Part):
    """Devices train the model of their access point; access points average what comes back, the cloud averages them.

    A round: every present device (of those with data) downloads the model of its access point and trains it. The clock
    goes on, everybody moves. Then each access point averages the updates of the devices that are with it now; without
    any it keeps its model. After every `k2` rounds the cloud averages the access points, and all of them begin with the
    result; updates that still wait are lost. If no access point has aggregated anything, the cloud's model stays.

    Which access point a device turns to (`access`), whether updates of returning devices count (`carry_over`), which
    access points take part in the global average (`cloud`) and how averages are weighted (`weights`) are four
    independent switches. The defaults are MOHAWK's; the kinds `hierfavg` and `macfl` have others. The number of local
    epochs, k1, is `training.epochs`. Momentum starts at zero with each download.

    It adds columns to the table of rounds. Totals since the start: `total_present` (devices, summed over hours),
    `total_trained`, `total_aggregated`, `total_returned` (aggregated later than a round after their training),
    `total_discarded` (updates never aggregated) and `total_overwritten` (updates aggregated at an access point whose
    model was replaced, before the cloud saw it, by updates that were not trained from it). `waiting`: updates that wait
    now. `ap_distance`: mean distance of devices in service to their access points so far, in metres.

    Where access points have a range, a present device that its access point does not reach is out of service: it gets
    no model, and its update waits, as if it were away. With `access = "nearest"` a device turns to the nearest one that
    reaches it. Then `total_present` and `ap_distance` are of devices in service; `out_of_service`: how many of the
    present devices are not, in this round.
    """

    uses: ClassVar[tuple[str, ...]] = ("places",)
    holds_work: ClassVar[bool] = True
    holders: ClassVar[Literal["access_points"]] = "access_points"
    own_columns: ClassVar[tuple[str, ...]] = ()  # that a variant adds; `_taken` fills them

    k2: int = field(5, "edge aggregations between two global ones", unit="rounds", ge=1)
    access: Access = field("nearest", ACCESS)
    ties: Ties = field(
        "random", "the nearest of several at the same distance: at random, or the lowest number"
    )
    assignment: Assignment = field(
        "rank",
        "fixed, or where the walk begins: the first clients to the first access point and so on, or shuffled",
    )
    move: float = field(
        0.5, "probability that a device moves on the ring in a step, half of it to each side", ge=0, le=1
    )
    carry_over: bool = field(True, CARRY_OVER)
    cloud: Cloud = field("selective", CLOUD_OF)
    weights: Weighting = field("cosine", WEIGHTS)
    cloud_samples: Literal["assigned", "arrived"] = field(
        "assigned",
        "with weights by samples, an access point's at the cloud: those of all devices that belong to it (or turned to "
        "it last), or of those it aggregated",
    )
    sigma: float = field(0.1, "strength of the cosine weights (0: equal ones)", ge=0, allow_inf_nan=False)
    favour: Literal["different", "similar"] = field(
        "different", "the models that weigh more: softmax of -sigma cos (as printed), or of +sigma cos"
    )
    cosine: Cosine = field(
        "flat",
        "one cosine of whole models; one a tensor; one a slice along dimension 0 (the authors' code); or of whole "
        "models over squared norms (as printed)",
    )
    judge: Literal["global", "access_point"] = field(
        "global", "the model that devices are judged by: the cloud's, or that of their access point"
    )
    at_most: int | None = field(
        None,
        "devices that an access point hands its model in a round, those with the highest score; not set: all",
        ge=1,
    )
    by_distance: float = field(
        0.0, "weight of nearness in the score, 1 - d / max d", ge=0, allow_inf_nan=False
    )
    by_data: float = field(
        0.0, "weight of training samples in the score, n / max n", ge=0, allow_inf_nan=False
    )
    by_staleness: float = field(
        1.0,
        "weight of rounds s since a device's last aggregated update, s / max s",
        ge=0,
        allow_inf_nan=False,
    )
    hop_reach: float | None = field(
        None,
        "access points this close are linked, and only gateways reach the cloud directly; not set: all do",
        unit="m",
        gt=0,
    )
    gateways: int = field(
        1, "access points with a link of their own to the cloud: those nearest to the centre", ge=1
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The totals, `waiting`, `ap_distance` and `out_of_service`, and the variant's own."""
        totals = (f"total_{name}" for name in COUNTED)
        return (*totals, "waiting", "ap_distance", "out_of_service", *self.own_columns)

    @property
    def aggregates(self) -> bool:
        """By the experiment's rule, at access points and at the cloud."""
        return True

    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        """One model, the cloud's, which all access points hold; the state is a `HierarchyState`."""
        ap = self._first_access_points(context.seed, context.clients, context.access_points)
        hierarchy = HierarchyState.new(start([0]), ap, len(context.access_points))
        self._begun(hierarchy)
        return InitialState(hierarchy.models, hierarchy.arrays())

    def distribute(self, round: Round) -> Distributed:
        """Present devices download the model of their access point, to train it."""
        context, hierarchy = round.context, HierarchyState.of(round.models, round.state)
        if round.number == 1:
            self._arrive(hierarchy, context, round.before, 0)
        devices = context.available(round.before)
        devices = devices[self._served(hierarchy, context, round.before)[devices]]
        devices = devices[hierarchy.device_row[devices] == CLOUD]
        distance = self._distance(hierarchy, context, round.before, devices)
        if self.at_most is not None:
            taken = chosen_few(
                hierarchy.ap[devices],
                distance,
                context.samples[devices],
                round.number - hierarchy.served[devices],
                (self.by_distance, self.by_data, self.by_staleness),
                self.at_most,
                stream(context.seed, "equal scores", round.number).random(context.clients)[devices],
            )
            devices, distance = devices[taken], distance[taken]
        senders = np.asarray(access_point(hierarchy.ap[devices]))
        ways = Transfers(senders, devices, hierarchy.ap_row[hierarchy.ap[devices]], distance)
        arrived = round.aggregator.delivered(hierarchy.models, ways, round.number)
        devices, senders, distance = devices[arrived], senders[arrived], distance[arrived]
        rows = hierarchy.hand_out(devices)
        hierarchy.trained[devices] = round.number
        hierarchy.count("trained", len(devices))
        jobs = [
            Job(client, row, context.train[client], round.number)
            for client, row in zip(devices.tolist(), rows.tolist(), strict=True)
        ]
        jobs = self._handed_out(hierarchy, devices, jobs)
        traffic = Traffic.of(senders, devices, round.models.bytes_each, distance)
        return Distributed(jobs, traffic, hierarchy.models, hierarchy.arrays())

    def uploads(self, round: Round, after: Meeting) -> Traffic:
        """The updates that wait, from devices in service to the access points that they turn to."""
        context, hierarchy = round.context, HierarchyState.of(round.models, round.state)
        self._arrive(hierarchy, context, after, round.number)
        waiting = hierarchy.waiting()
        devices = waiting[self._served(hierarchy, context, after)[waiting]]
        distance = self._distance(hierarchy, context, after, devices)
        return Traffic.of(devices, access_point(hierarchy.ap[devices]), round.models.bytes_each, distance)

    def brought(self, round: Round, after: Meeting) -> Transfers:
        """The updates that wait, or will, from devices in service to the access points that they turn to."""
        context, hierarchy = round.context, HierarchyState.of(round.models, round.state)
        self._arrive(hierarchy, context, after, round.number)
        return self._ways(round, hierarchy, after, self._served(hierarchy, context, after))

    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """Edge aggregation, and after every k2 rounds the global one."""
        context, hierarchy = round.context, HierarchyState.of(round.models, round.state)
        hierarchy.drop(round.lost)
        self._arrive(hierarchy, context, after, round.number)
        served = self._served(hierarchy, context, after)
        ways = self._ways(round, hierarchy, after, served)
        arrived = round.aggregator.delivered(hierarchy.models, ways, round.number)
        known = context.known(after, round.number)
        devices, found = self._taken(round, hierarchy, ways.sender[arrived], known)
        receivers = access_point(hierarchy.ap[devices])
        distance = self._distance(hierarchy, context, after, devices)
        traffic = [Traffic.of(devices, receivers, round.models.bytes_each, distance)]
        hierarchy.count("aggregated", len(devices))
        hierarchy.count("returned", int((hierarchy.trained[devices] < round.number).sum()))
        np.add.at(hierarchy.arrived, hierarchy.ap[devices], context.samples[devices])
        hierarchy.served[devices] = round.number
        if round.number % self.k2 == 0:
            traffic.append(self._global(known, round.aggregator, hierarchy))
        discarded = hierarchy.waiting() if self.gives_up(round.number) else NOBODY
        hierarchy.drop(discarded)
        discarded = np.append(discarded, round.lost)
        hierarchy.compact()
        facts = {f"total_{name}": float(n) for name, n in zip(COUNTED, hierarchy.counted, strict=True)}
        facts |= {"waiting": float(len(hierarchy.waiting())), "ap_distance": hierarchy.mean_distance()}
        facts["out_of_service"] = float((after.paths.present & ~served).sum())
        facts |= found
        sent = Traffic.joined(traffic)
        return Exchanged(after, sent, hierarchy.models, hierarchy.arrays(), devices, discarded, facts)

    def _ways(self, round: Round, hierarchy: HierarchyState, after: Meeting, served: np.ndarray) -> Transfers:
        """The updates that wait and are in time, from devices in service to the access points that they turn to.

        served: which devices are in service, bool [clients].
        """
        waiting = hierarchy.waiting()
        devices = waiting[served[waiting]]
        if round.arrived is not None:
            devices = np.intersect1d(devices, round.arrived)
        to = np.asarray(access_point(hierarchy.ap[devices]))
        distance = self._distance(hierarchy, round.context, after, devices)
        return Transfers(devices, to, hierarchy.device_row[devices], distance)

    def _begun(self, hierarchy: HierarchyState) -> None:
        """Add to the state before round 1 what the variant keeps of its own."""

    def _handed_out(self, hierarchy: HierarchyState, devices: np.ndarray, jobs: list[Job]) -> list[Job]:
        """The local work of these devices (int64), whose rows hold what they were given."""
        return jobs

    def _taken(
        self, round: Round, hierarchy: HierarchyState, devices: np.ndarray, known: KnownToHolders
    ) -> tuple[np.ndarray, dict[str, float]]:
        """Let access points take the updates of these devices (int64), which have reached them: whose were taken
        (int64, ascending), and the variant's own columns."""
        gathered = [
            self._gathered(hierarchy, known, ap, devices[hierarchy.ap[devices] == ap])
            for ap in np.unique(hierarchy.ap[devices]).tolist()
        ]
        into = [hierarchy.row_to_be(int(hierarchy.ap[each.holders[0]]), each.holders) for each in gathered]
        answers = round.aggregator.replace(self, hierarchy.models, gathered, into, known)
        gathered = list(compress(gathered, answers))
        # An access point that does not answer has aggregated nothing: the updates that it was sent still wait.
        devices = np.sort(np.concatenate([NOBODY, *(each.holders for each in gathered)]))
        hierarchy.collect(devices)
        for each in gathered:
            hierarchy.merge(int(hierarchy.ap[each.holders[0]]), each.holders)
        return devices, {}

    def _renewed(self, hierarchy: HierarchyState) -> None:
        """Note that all access points get a new model of the cloud's."""

    def gives_up(self, round: int) -> bool:
        """Whether updates that still wait after the aggregations of a round are lost."""
        return not self.carry_over or round % self.k2 == 0

    def evaluation_models(
        self, models: Models, state: Mapping[str, np.ndarray], context: FederationContext
    ) -> Mapping[str, EvaluationModels]:
        """The cloud's model, or that of the access point turned to last."""
        cloud = models.rows(torch.zeros(1, dtype=torch.int64, device=models.device))
        if self.judge == "global":
            return {"global": one_model(cloud, context.clients)}
        ap = state["ap"]
        wanted = np.where(ap >= 0, state["ap_row"][ap], CLOUD)
        rows, place = np.unique(wanted, return_inverse=True)
        index = torch.from_numpy(rows).to(models.device)
        return {"access_point": EvaluationModels(models.rows(index), place.astype(np.int64), cloud)}

    def link_distances(
        self,
        seed: int,
        clients: int,
        access_points: np.ndarray,
        movement: Iterable[Paths],
        ranges: np.ndarray | None = None,
    ) -> Iterator[np.ndarray]:
        """To the nearest, the fixed or the wandering access point, as `access` says."""
        ap = self._first_access_points(seed, clients, access_points)
        for step, paths in enumerate(movement):
            ap = self._turn(ap, seed, access_points, ranges, paths, step)
            here = np.flatnonzero(in_service(paths.present, paths.end, access_points, ap, ranges))
            yield distances(paths.end[here], access_points, ap[here])

    def _first_access_points(self, seed: int, clients: int, access_points: np.ndarray) -> np.ndarray:
        """The access point of each client before anybody moves, int64 [clients]; -1 for none."""
        if not len(access_points):
            raise InputError(
                f"federation {self.kind!r} needs access points: set access_points.kind to 'points_of_interest', "
                "'file', 'grid' or 'uniform'"
            )
        if self.access == "nearest":
            return np.full(clients, -1, dtype=np.int64)
        return assigned(clients, len(access_points), self.assignment, seed)

    def _turn(
        self,
        ap: np.ndarray,
        seed: int,
        access_points: np.ndarray,
        ranges: np.ndarray | None,
        paths: Paths,
        step: int,
    ) -> np.ndarray:
        """`ap` (int64 [clients]) after step `step` of the clock: whoever is present turns to an access point."""
        if self.access == "ring" and step:
            return walked(ap, len(access_points), self.move, seed, step)
        if self.access == "nearest":

            def turn() -> np.ndarray:
                return turned(ap, paths.present, paths.end, access_points, self.ties, seed, step, ranges)

            # A clock asks beforehand what the exchange will ask.
            return paths.derived(("turned", seed, step, self.ties, ap.tobytes()), turn).copy()
        return ap

    def _arrive(
        self, hierarchy: HierarchyState, context: FederationContext, meeting: Meeting, step: int
    ) -> None:
        """Begin step `step` of the clock: everybody present turns to an access point, and who is served is counted."""
        places, ranges = context.access_points, context.ranges
        hierarchy.ap = self._turn(hierarchy.ap, context.seed, places, ranges, meeting.paths, step)
        here = np.flatnonzero(self._served(hierarchy, context, meeting))
        hierarchy.count("present", len(here))
        hierarchy.distance_total += (self._distance(hierarchy, context, meeting, here).sum(), len(here))

    def _served(self, hierarchy: HierarchyState, context: FederationContext, meeting: Meeting) -> np.ndarray:
        """Who is present and reached by the access point that it turned to, bool [clients]."""
        paths = meeting.paths
        return in_service(paths.present, paths.end, context.access_points, hierarchy.ap, context.ranges)

    def _distance(
        self, hierarchy: HierarchyState, context: FederationContext, meeting: Meeting, devices: np.ndarray
    ) -> np.ndarray:
        """Distances of these devices (int64, present) to their access points, float64 [devices], metres."""
        return distances(meeting.paths.end[devices], context.access_points, hierarchy.ap[devices])

    def _gathered(
        self, hierarchy: HierarchyState, known: KnownToHolders, ap: int, devices: np.ndarray
    ) -> Gathered:
        """The updates of these devices (int64) at access point `ap`, weighed as Eq. 5 does, over those aggregated."""
        shares = known.context.samples[devices] if self.weights == "samples" else np.ones(len(devices))
        return Gathered(
            int(access_point(ap)),
            int(hierarchy.ap_row[ap]),
            hierarchy.device_row[devices],
            devices,
            None if self.weights == "cosine" else AveragingWeights.by(shares),
        )

    def _attention(
        self, models: Models, own: int, rows: np.ndarray, counts: np.ndarray | None = None
    ) -> AveragingWeights:
        """Weights of the models in these rows (int64) by their cosine to that in row `own`."""
        strength = self.sigma if self.favour == "similar" else -self.sigma
        near, places = models.at_hand(np.append(own, rows))
        first, others = int(places[0]), places[1:]
        return attention(near.parameters, first, others, models.layout, self.cosine, strength, counts)

    def made(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        """What an access point makes of updates, or the cloud of access points' models."""
        at = self._averaged if gathered.holder == SERVER else self._at_access_point
        return at(models, gathered, known)

    def _at_access_point(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        """What an access point makes of updates."""
        return self._averaged(models, gathered, known)

    def _averaged(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        """The weighted average, or what the experiment's aggregation rule makes of the models.

        Cosine weights at an access point are its own to find. A rule is handed one weight a model: that of the whole
        model.
        """
        weights = gathered.weights or self._attention(models, gathered.own, gathered.rows)
        if averages(known.context.aggregation):
            return Made(*average(models, gathered.rows, weights, self.cosine))
        return Made(*made_by_rule(models, gathered, weights.buffers, known))

    def _global(self, known: KnownToHolders, aggregator: Aggregator, hierarchy: HierarchyState) -> Traffic:
        """The global aggregation (Eq. 6): the cloud's model is replaced, and all access points get it."""
        context = known.context
        places = context.access_points
        size, following = hierarchy.models.bytes_each, routes(places, self.hop_reach, self.gateways)
        own = np.flatnonzero(hierarchy.ap_row)
        if len(own):
            others = np.flatnonzero(hierarchy.ap_row == 0) if self.cloud == "all" else own[:0]
            # Access points without a row of their own hold equal models: one of them stands for all.
            rows = np.append(hierarchy.ap_row[own], np.full(int(len(others) > 0), CLOUD))
            weights = self._cloud_weights(hierarchy, context, rows, own, others)
            holders = np.asarray(access_point(np.append(own, others[:1])))
            # A rule counts heads: each stands for itself.
            if not averages(context.aggregation) and len(others) > 1:
                rows = np.append(rows[:-1], np.full(len(others), CLOUD))
                shares = weights.buffers
                shares = np.append(shares[:-1], np.full(len(others), shares[-1] / len(others)))
                weights = AveragingWeights.by(shares)
                holders = np.asarray(access_point(np.append(own, others)))
            cloud = [Gathered(SERVER, CLOUD, rows, holders, weights)]
            aggregator.replace(self, hierarchy.models, cloud, [CLOUD], known)
            self._renewed(hierarchy)
        hierarchy.reset()
        if self.cloud == "all":
            own = np.arange(len(places))
        if not len(own):
            return Traffic.nothing()
        return Traffic.joined([upload(own, following, places, size), broadcast(following, places, size)])

    def _cloud_weights(
        self,
        hierarchy: HierarchyState,
        context: FederationContext,
        rows: np.ndarray,
        own: np.ndarray,
        others: np.ndarray,
    ) -> AveragingWeights:
        """Weights of the models in `rows`: one for each access point in `own`, then one for all `others` together."""
        counts = np.ones(len(rows))
        counts[len(own) :] = len(others)
        if self.weights == "uniform":
            return AveragingWeights.by(counts)
        if self.weights == "cosine":
            return self._attention(hierarchy.models, CLOUD, rows, counts)
        samples = hierarchy.arrived
        if self.cloud_samples == "assigned":
            known = hierarchy.ap >= 0
            samples = np.bincount(
                hierarchy.ap[known], context.samples[known], minlength=len(hierarchy.ap_row)
            )
        shares = np.append(samples[own], [samples[others].sum()] * (len(others) > 0))
        return AveragingWeights.by(shares if shares.any() else counts)
