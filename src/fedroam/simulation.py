"""The loop: move, meet, learn, exchange, account, measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy import sparse

from fedroam.attacks import Trial
from fedroam.clock import BUSY, OWED, TIME, Supply, Timetable, first_state, free, timetable
from fedroam.components import ours
from fedroam.contacts import met
from fedroam.contacts.ragged import distinct
from fedroam.cost import Account
from fedroam.devices import battery_after, battery_at_start
from fedroam.errors import FedroamError
from fedroam.federation import AddsColumns, BringsUpdates, Distributed, Exchanged, Meeting, Round, Traffic
from fedroam.learning import clients_of
from fedroam.measurement import RoundResult
from fedroam.mobility import Paths, active_after, active_at_start, checked
from fedroam.scene import Scene, Sight
from fedroam.state import State


def begin(scene: Scene) -> State:
    """The state before round 1: start models, start places, and who is in contact there."""
    parts, clients = scene.parts, scene.experiment.clients
    mobility = scene.start_mobility()
    present = mobility.get("present")
    activity = active_at_start(parts.activity, scene.experiment.seed, clients)
    paths = Paths.still(mobility["position"], None if present is None else present.astype(bool))
    battery = battery_at_start(parts.battery, scene.experiment.seed, clients)
    meeting = _meeting(scene, paths, activity, battery, 0)
    if scene.sight is not None:
        mobility, meeting = _seen(scene, scene.sight, mobility, activity, battery, 0)
    initial = parts.federation.init(scene.context, scene.start_models, scene.learner)
    _check_state(scene, initial.state)
    clock = {} if scene.timing is None else first_state(clients, scene.timing)
    return State(
        0, initial.models, mobility, initial.state, activity, meeting, 0, Account.new(clients), clock, battery
    )


def _meeting(
    scene: Scene,
    paths: Paths,
    activity: Mapping[str, np.ndarray],
    battery: Mapping[str, np.ndarray],
    round: int,
    graph: sparse.csr_array | None = None,
) -> Meeting:
    """Who meets whom of those who are there and active, have energy, and are within reach of who asks them to learn.

    graph: who would, if that is known; otherwise the contact rule tells.
    """
    here = paths.present & activity["active"].astype(bool)
    here[scene.learner.unreachable()] = False
    paths = paths.among(here & ~battery["gone"] if battery else here)
    if graph is not None:
        return Meeting(paths, graph).without(np.flatnonzero(~paths.present))
    return Meeting(paths, met(scene.parts.contacts, round, paths))


def _seen(
    scene: Scene,
    sight: Sight,
    mobility: Mapping[str, np.ndarray],
    activity: Mapping[str, np.ndarray],
    battery: Mapping[str, np.ndarray],
    round: int,
) -> tuple[dict[str, np.ndarray], Meeting]:
    """Where everybody is by now, and who meets whom, as they find out."""
    found, graph = sight.look(mobility, round)
    state = checked(found, scene.world)
    paths = Paths.still(state["position"], state["present"])
    return state, _meeting(scene, paths, activity, battery, round, graph)


def _moved(scene: Scene, state: State) -> tuple[dict[str, np.ndarray], Paths]:
    """The next state of movement, and the way everybody takes: none where they are only where they find themselves."""
    if scene.sight is None:
        return scene.step_mobility(state.mobility, state.round + 1)
    return state.mobility, Paths.still(state.mobility["position"], state.mobility["present"])


def play_round(scene: Scene, state: State) -> tuple[State, RoundResult]:
    """One round. Returns the next state, and what the round did."""
    parts, experiment, t = scene.parts, scene.experiment, state.round + 1
    round = Round(
        t,
        state.models,
        state.federation,
        scene.context,
        state.meeting,
        scene.learner,
        aggregator=scene.aggregator,
    )
    scene.learner.begin_round(t)
    # move
    mobility, paths = _moved(scene, state)
    activity = active_after(parts.activity, state.activity, experiment.seed, experiment.clients, t)
    # meet
    after = _meeting(scene, paths, activity, state.battery, t)
    # learn
    begun = _begun(scene, round, state)
    given = parts.federation.distribute(begun)
    if not ours(parts.federation):
        _check_jobs(scene, begun, given)
    time = _time(scene, round, given, after, state, paths)
    jobs = given.jobs if time is None else time.jobs
    trial = Trial.before(parts.attack, scene.attackers, experiment.clients, given.models, jobs)
    _bring(scene, round, given, after, time)
    scene.learner.expect(None if time is None else time.loads)
    losses, lost = scene.learner.train(given.models, jobs), scene.learner.lost()
    withheld = None if trial is None else trial.send(given.models, experiment.seed, t)
    if scene.sight is not None:  # who has learnt looks whom to turn to
        mobility, after = _seen(scene, scene.sight, mobility, activity, state.battery, t)
    # exchange
    handed = replace(round, models=given.models, state=given.state, withheld=withheld, lost=lost)
    if not ours(parts.federation):
        after.paths.only_to_read()
    done = parts.federation.exchange(*_in_time(handed, after, time))
    _check_state(scene, done.state)
    if not ours(parts.federation):
        _check_told(scene, given.traffic, done)
    # account
    account, traffic = _accounted(scene, state, given, done, time, lost)
    sent = state.bytes_sent + traffic.total
    clock = {} if time is None else time.after() | {OWED: _owed(scene, state, time)}
    battery = _drained(scene, state, time, account, t)
    if battery and (battery["gone"] != state.battery["gone"]).any():  # who ran out, or came back, by the end
        after = _meeting(scene, paths, activity, battery, t)
    following = State(t, done.models, mobility, done.state, activity, after, sent, account, clock, battery)
    clients = clients_of(jobs)
    stepped = ~np.isnan(losses)
    # A loss that is no number is that of a model that exploded, or of a client without a batch.
    for k in np.flatnonzero(~stepped).tolist():
        stepped[k] = next(jobs[k].positions(scene.task), None) is not None
    told = _beside(clients, np.append(scene.attackers, lost))
    facts = done.facts if time is None else {**done.facts, **time.facts}
    learners = distinct(clients[_beside(clients, lost)])
    spans = None if time is None else time.spans
    return following, RoundResult(done.meeting, learners, losses[told], stepped[told], facts, spans)


def _beside(clients: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which clients are none of the others, bool [clients]: mostly there are no others."""
    return ~np.isin(clients, others) if len(others) else np.ones(len(clients), dtype=bool)


def _check_state(scene: Scene, state: Mapping[str, np.ndarray]) -> None:
    """Raise FedroamError where a federation's state is not what a checkpoint holds, and would come back as something
    else."""
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            found = (
                f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
            )
            kind = scene.experiment.federation.kind
            raise FedroamError(
                f"federation kind {kind!r}: its state holds {found} under {name!r}; allowed are arrays of numbers or "
                "truth values under names, as checkpoints hold them"
            )


def _begun(scene: Scene, round: Round, state: State) -> Round:
    """The round as it begins for those who are free to begin something."""
    if scene.timing is None:
        return round
    return replace(round, before=free(round.before, scene.timing, state.clock))


def _time(
    scene: Scene, round: Round, given: Distributed, after: Meeting, state: State, paths: Paths
) -> Timetable | None:
    """The timetable of the round; None where nothing takes time."""
    timing, parts = scene.timing, scene.parts
    if timing is None:
        return None
    supply = None
    if state.battery:
        begin, places = float(state.clock[TIME][0]), scene.context.access_points
        supply = Supply(
            parts.battery,
            parts.motion,
            scene.tariff,
            state.battery,
            begin,
            paths,
            timing.length,
            places,
            state.clock[OWED],
        )
    return timetable(timing, round, given, after, state.clock, supply)


def _bring(scene: Scene, round: Round, given: Distributed, after: Meeting, time: Timetable | None) -> None:
    """Let clients bring their updates as soon as they have them, where models take their way while others train.

    Where everybody is when all have trained must be known: not where devices look for themselves, then. What attackers
    send in the place of what they train is not known before.
    """
    rule, aggregator = scene.parts.federation, scene.aggregator
    if aggregator.ahead and scene.sight is None and isinstance(rule, BringsUpdates):
        round = replace(round, models=given.models, state=given.state)
        ways = rule.brought(*_in_time(round, after, time))
        learning = distinct(clients_of(given.jobs if time is None else time.jobs))
        lie = np.intersect1d(learning, scene.attackers)
        aggregator.begin(round.models, ways.some(~np.isin(ways.sender, lie)), round.number, learning)


def _drained(
    scene: Scene, state: State, time: Timetable | None, account: Account, round: int
) -> dict[str, np.ndarray]:
    """The batteries after the round; nothing where nobody runs out.

    What `[radio]` charges beside what was planned (as for what a federation sends by the models' values) is drawn as
    the round ends.
    """
    if time is None or time.use is None:
        return {}
    radio = account.energy - state.account.energy - time.use.radio_joules()
    return battery_after(scene.parts.battery, state.battery, time.use.and_then(radio), round)


def _in_time(round: Round, after: Meeting, time: Timetable | None) -> tuple[Round, Meeting]:
    """What an exchange is handed: of meetings and work, what got through in time."""
    if time is None:
        return round, after
    round = replace(
        round,
        lost=np.union1d(round.lost, time.lost) if len(time.lost) else round.lost,
        arrived=time.arrived,
        finished=time.done,
        received=time.received,
        received_at=time.received_at,
        dropped=time.dropped,
        averagings=time.averagings,
        pieces=time.pieces,
        training=np.flatnonzero(time.state[BUSY]),
    )
    if time.graph is None:
        return round, after
    return replace(round, before=Meeting(round.before.paths, time.graph)), Meeting(after.paths, time.graph)


def _check_jobs(scene: Scene, round: Round, given: Distributed) -> None:
    """Raise FedroamError where a federation of one's own gives work to a client that cannot begin any: it would train
    while it is away. A server's own work is that of no client; what a clock carries over is not given again."""
    clients, before = clients_of(given.jobs), round.before
    wrong = np.setdiff1d(clients[clients >= 0], scene.context.available(before))
    if not len(wrong):
        return
    client = int(wrong[0])
    if client >= scene.experiment.clients:
        why = "is none of the run's"
    elif before.paths.present[client]:
        why = "holds no training samples"
    else:
        why = f"is away{'' if scene.timing is None else ' or busy'} when the round begins"
    raise FedroamError(
        f"federation kind {scene.experiment.federation.kind!r}, round {round.number}: distribute gives a job to client "
        f"{client}, which {why}; allowed are those of round.context.available(round.before)"
    )


def _check_told(scene: Scene, handed_out: Traffic, done: Exchanged) -> None:
    """Raise FedroamError where a federation of one's own says that something was sent which cannot be, or tells a fact
    that is none of its columns: it would be lost."""
    kind = scene.experiment.federation.kind
    for way, traffic in (("distribute", handed_out), ("exchange", done.traffic)):
        try:
            traffic.check(scene.experiment.clients, len(scene.context.access_points))
        except FedroamError as error:
            raise FedroamError(f"federation kind {kind!r}: traffic of {way}: {error}") from None
    columns = scene.parts.federation.columns if isinstance(scene.parts.federation, AddsColumns) else ()
    if unknown := [name for name in done.facts if name not in columns]:
        raise FedroamError(
            f"federation kind {kind!r}: exchange tells {unknown[0]!r}; allowed are its `columns`, {list(columns)}"
        )


def _accounted(
    scene: Scene, state: State, given: Distributed, done: Exchanged, time: Timetable | None, lost: np.ndarray
) -> tuple[Account, Traffic]:
    """The account after the round, and all that was sent in it. lost: who was asked to learn and did not answer,
    int64."""
    exchanged = done.traffic if time is None or time.already is None else done.traffic.less(time.already)
    traffic = Traffic.joined([given.traffic if time is None else time.traffic, exchanged])
    # Who has not answered, and is not said to have lost all since its last update, goes on with the model of before.
    in_vain = np.setdiff1d(lost, done.discarded) if len(lost) else lost
    if time is None:
        learnt = [*given.jobs, *given.trained] if given.trained else given.jobs
        account = scene.tariff.charge(
            state.account, learnt, traffic, done.aggregated, done.discarded, in_vain=in_vain
        )
        return account, traffic
    # Where clients send to each other they keep their models: what they learnt in earlier rounds is not lost with the
    # work of this one.
    keeps = scene.timing is not None and scene.timing.federation.neighbours is not None
    discarded = done.discarded if keeps or not len(time.dropped) else np.union1d(done.discarded, time.dropped)
    account = scene.tariff.charge(
        state.account,
        time.paid,
        traffic,
        done.aggregated,
        discarded,
        in_vain=in_vain,
        owed=state.clock[OWED],
        keeps=keeps,
    )
    return account, traffic


def _owed(scene: Scene, state: State, time: Timetable) -> np.ndarray:
    """What is still to be paid for local work after the round, J, float64 [clients]."""
    return scene.tariff.owed(time.paid, state.clock[OWED], time.unfinished)
