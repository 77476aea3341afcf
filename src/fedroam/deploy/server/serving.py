"""The server of a site: the loop of every run, with clients that are elsewhere, into an ordinary run folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from fedroam.cost import DistanceDistribution
from fedroam.deploy.metering.measured import Note, NotedTariff, note_updates
from fedroam.deploy.node.share import NO_SAMPLES, hello_of, samples_sum
from fedroam.deploy.pacing import Network, Rates
from fedroam.deploy.server import journal
from fedroam.deploy.server.hub import Hub
from fedroam.deploy.server.journal import Journal
from fedroam.deploy.server.remote import RemoteLearner
from fedroam.deploy.server.remote_aggregator import RemoteAggregator
from fedroam.deploy.server.sight import RemoteSight
from fedroam.deploy.site.experiment import check_fits, check_movement, experiment_of
from fedroam.deploy.site.file import FILE, Site, read_site
from fedroam.deploy.site.identity import credentials, validity
from fedroam.errors import FedroamError, InputError
from fedroam.experiment import Experiment
from fedroam.federation import AggregatesAtHolders
from fedroam.recording import NETWORK, Existing, Run
from fedroam.recording.round_times import note_round
from fedroam.runner import Observer, default_folder, run
from fedroam.scene import Scene, prepare

FAREWELL = 30.0  # seconds for which nodes are waited for that are told nothing but that all is done


@dataclass
class _Stage:
    """Sets the scene of a run on a network, once the nodes are there."""

    folder: Path
    address: str
    patience: float
    tell: Callable[[str], None]
    serving: Callable[[Hub], None]
    listening: Callable[[int], None]
    still: Callable[[], None]
    out: Path
    paced: bool
    network: Network | None
    hub: Hub | None = None
    sight: RemoteSight | None = None

    def __call__(self, experiment: Experiment) -> Scene:
        """The scene without any training sample: what was dealt is at the nodes."""
        check_fits(experiment, paced=self.paced)
        site = read_site(self.folder / FILE)
        shown = credentials(self.folder, site, site.server.name)
        ends = validity(shown, site.server.name)
        if ends is not None:
            self.tell(f"{site.server.name}: {ends}")
        scene = prepare(experiment)
        scene.learner.close()
        _check_places(site, scene)
        check_movement(experiment, site)
        hellos = {
            i: hello_of(
                experiment,
                scene.task.layout,
                NO_SAMPLES if node.client is None else samples_sum(scene, node.client),
            )
            for i, node in site.holders.items()
        }
        nothing = replace(scene.task, x=scene.task.x[:0], y=scene.task.y[:0])
        own = experiment.evaluate_on == "own"
        test = (nothing.x, nothing.y) if own else (scene.test_x, scene.test_y)
        here = scene.parts.engine.build(replace(nothing, x=test[0], y=test[1]))
        self.hub = Hub(self.folder, shown, hellos, self.tell, Journal(self.out, experiment.digest, self.tell))
        self.serving(self.hub)
        self.listening(self.hub.start(self.address or site.address))
        if not self.hub.wait(self.patience, self.still):
            missing = len(self.hub.missing())
            if missing == len(hellos) and self.patience > 0:
                raise FedroamError(
                    f"none of the {missing} nodes has come within {self.patience:g} s, and nobody would learn: start "
                    "fedroam node where they are, or wait longer (--patience)"
                )
            self.tell(f"{missing} of {len(hellos)} nodes have not come: the run begins without them")
        context = replace(scene.context, task=nothing)
        rates = Rates.of(scene, self.network) if self.paced else None
        learner = RemoteLearner(
            nothing, scene.dataset.classes, here, self.hub, direct=site.direct, rates=rates
        )
        aggregator, rule = scene.aggregator, scene.parts.federation
        if site.direct and isinstance(rule, AggregatesAtHolders):
            aggregator = RemoteAggregator(self.hub, rule, context, rates)
            learner.trained = aggregator.trained
        if site.movement.by != "experiment":
            self.sight = RemoteSight(self.hub, learner, site, context.access_points, self.out)
            if not self.sight.peers:  # as far from its access point as they all are: at its place
                known = scene.parts.radio.spread() or DistanceDistribution.of([np.zeros(1)])
                scene = replace(scene, tariff=replace(scene.tariff, distances=known))
        noting: list[Note] = []
        if any(node.meter for node in site.clients.values()):
            noting.append(lambda *settled: note_updates(self.out, learner.round, *settled))
        if scene.timing is not None:
            noting.append(partial(self._timed, self.hub, learner, scene.timing.length))
        if noting:
            tariff = scene.tariff
            scene = replace(
                scene, tariff=NotedTariff(tariff.radio, tariff.distances, tariff.passes, tuple(noting))
            )
        return replace(
            scene,
            task=nothing,
            context=context,
            learner=learner,
            aggregator=aggregator,
            sight=self.sight,
            test_x=test[0],
            test_y=test[1],
        )

    def dismiss(self, experiment: Experiment) -> None:
        """Let the nodes come that an earlier process, which was killed as the run was done, could not tell so."""
        self.tell("the run is done, and its nodes may not know: waits for them, to tell them")
        self.patience = min(self.patience, FAREWELL)
        with contextlib.suppress(FedroamError):  # none has come
            self(experiment).learner.close()

    def _timed(self, hub: Hub, learner: RemoteLearner, length: float, *settled: np.ndarray) -> None:
        """A round's exchange is over: it has its length at least, and the run folder says how long it took."""
        time.sleep(max(0.0, hub.round_began + length - time.monotonic()))
        note_round(self.out, learner.round, time.monotonic() - hub.round_began, hub.spent)


def serve(
    folder: Path,
    out: str | Path | None = None,
    *,
    address: str = "",
    existing: Existing = "resume",
    patience: float = 600.0,
    observer: Observer | None = None,
    on_interrupt: Callable[[], None] | None = None,
    tell: Callable[[str], None] = lambda line: None,
    serving: Callable[[Hub], None] = lambda hub: None,
    listening: Callable[[int], None] = lambda port: None,
    still: Callable[[], None] = lambda: None,
    use: Sequence[str] = (),
    paced: bool = False,
    network: Network | None = None,
) -> Run:
    """Run the experiment of a site with its nodes, into the folder `out`, as `fedroam.run` does.

    address: where to serve, by default what the site says; `serving(hub)` is called before the server does so, and
    `listening(port)` once it does. The first round begins when all nodes attend, or after `patience` seconds with those
    that do, and a later one when one of the clients is there, likewise; `still()` is called meanwhile, and may raise
    what makes waiting vain. `tell` is told, a line each, what
    goes wrong on the way; `use` are files with the user's own parts. paced: transfers take as long as the run's
    `[radio]` says; network: what makes links slow, where it is not whoever sends. Raises what `fedroam.run` does.
    """
    site = read_site(folder / FILE)
    experiment = experiment_of(folder, site, use)
    if experiment.clients != len(site.clients):
        raise InputError(
            f"{folder / FILE}: has {len(site.clients)} clients, its experiment {experiment.clients}"
        )
    out = default_folder(experiment) if out is None else Path(out)
    stage, done = (
        _Stage(folder, address, patience, tell, serving, listening, still, out, paced, network),
        False,
    )

    def interrupted() -> None:
        if stage.hub is not None:
            stage.hub.hurry.set()
        if on_interrupt is not None:
            on_interrupt()

    try:
        found = run(
            experiment,
            out,
            existing=existing,
            observer=observer,
            on_interrupt=interrupted,
            stage=stage,
            where=NETWORK,
        )
        done = True
        if stage.sight is not None:
            stage.sight.keep()
        if stage.hub is None and (out / journal.FILE).exists():
            stage.dismiss(experiment)
    finally:
        if stage.hub is not None:
            stage.hub.stop(done=done)
    return found


def _check_places(site: Site, scene: Scene) -> None:
    """Refuse a site whose nodes are not those of the experiment. Raises InputError."""
    rule = scene.parts.federation
    wanted = rule.holders if site.direct and isinstance(rule, AggregatesAtHolders) else ""
    peers = sum(node.role == "peer" for node in site.nodes)
    found = sum(node.role == "access_point" for node in site.nodes)
    expected = len(scene.context.access_points) if wanted == "access_points" else 0
    if found != expected or (peers > 0) != (wanted == "clients"):
        raise InputError(
            f"{FILE}: has {peers} peers and {found} access points, its experiment "
            f"{scene.experiment.clients if wanted == 'clients' else 0} and {expected}: make the site anew"
        )
