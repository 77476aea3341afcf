"""Whoever is killed at any instant and begun anew goes on with what it had acknowledged: nothing is lost, and nothing
is aggregated twice."""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from fedroam.cli import main
from fedroam.deploy.messages import Order, digest_of, receipt, sum_of
from fedroam.deploy.node.memory import FILE as MEMORY
from fedroam.deploy.node.memory import Memory
from fedroam.deploy.node.neighbours import Listener
from fedroam.deploy.node.process import Node, node_of
from fedroam.deploy.server import hub, journal, serving
from fedroam.deploy.server.hub import Hub
from fedroam.deploy.server.journal import Journal
from fedroam.deploy.server.sight import replay
from fedroam.deploy.site.file import FILE, NODES, checked_movement, read_site
from fedroam.errors import FedroamError, InputError
from fedroam.experiment import Experiment
from fedroam.recording import Run, open_run
from fedroam.recording.recorder import Recorder
from fedroam.runner import run
from support.losing import same_movement, same_runs, without
from support.sites import LocalSite, free_port
from support.tiny import tiny
from support.waiting import HANGS

EVERY = {"evaluate_every": 1, "test_share": 0.0, "clients": 4, "rounds": 4, "mobility": "static"}
ONE_PLACE = {"kind": "grid", "columns": 1, "rows": 1}
MOHAWK = tiny(**EVERY, federation={"kind": "mohawk", "k2": 3}, access_points=ONE_PLACE, checkpoint_every=3)
PEERS = tiny(**EVERY, contacts={"kind": "radius", "radius": float("inf")}, checkpoint_every=3)
TWO_DOORS = MOHAWK.replace(access_points={"kind": "grid", "columns": 2, "rows": 1})
SERVED = tiny(**EVERY, federation="moon", model={"kind": "mlp", "hidden": [6]}, checkpoint_every=3)
ROOMS = ("fedroam.deploy.node.process", "fedroam.deploy.server.serving", "fedroam.parts", "sklearn.datasets")
# Where a process may die, and whose method that is: before it, or after.
SERVER: dict[str, tuple[Any, str]] = {
    "an update is written": (Journal, "keep"),
    "all have answered": (Hub, "_waited"),
    "a checkpoint is made": (Recorder, "checkpoint"),
    "a round begins": (Journal, "away"),
}
Instant = tuple[str, str, int]  # before or after, what, the how manieth time


def dying(owner: Any, method: str, when: str, count: int) -> None:
    """From now on this process dies before, or after, the so-manieth call of a method."""
    honest, left, lock = getattr(owner, method), Counter(calls=count), threading.Lock()

    def call(*arguments: Any, **options: Any) -> Any:
        with lock:
            left["calls"] -= 1
            now = left["calls"] == 0
        if now and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = honest(*arguments, **options)
        if now:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, method, call)


def process(target: Callable[..., None], *arguments: Any) -> Any:
    """A process of its own, begun, that has imported everything already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(ROOMS))
    found = context.Process(target=target, args=arguments, daemon=True)
    found.start()
    return found


# --- the server ---------------------------------------------------------------------------------------------------


def serve(site: Path, out: Path, port: int, instant: Instant | None, gone: frozenset[int]) -> None:
    """The server's process, which dies at an instant. gone: the nodes that it need not wait for; for all others it
    does, however long they take."""
    torch.set_num_threads(1)
    honest = Hub.wait

    def wait(self: Hub, patience: float, still: Callable[[], None] = lambda: None) -> bool:
        while not set(self.missing()) <= gone:
            honest(self, 0.1, still)
        return not self.missing()

    Hub.wait = wait  # type: ignore[method-assign]  # of this process
    if instant is not None:
        when, what, count = instant
        dying(*SERVER[what], when, count)
    with (out.parent / "lines").open("a", buffering=1) as lines:
        serving.serve(
            site,
            out,
            address=f"127.0.0.1:{port}",
            tell=lambda line: print(line, file=lines),
        )


class Killed:
    """A site whose server is killed at instants, one after the other, and begun anew; its nodes live on."""

    def __init__(self, folder: Path, experiment: Experiment, **limits: Any) -> None:
        self.folder, self.port = folder, free_port()
        self.site = LocalSite.new(folder / "site", experiment, **limits)
        self.site.at(self.port)
        self.worked = Counter[tuple[str, str, str]]()
        for number in read_site(self.site.folder / FILE).holders:
            self.site.start(number, self.counted)

    def counted(self, node: Node) -> None:
        honest = node._work

        def work(order: Order, arrays: Any) -> Any:
            self.worked[node.name, order.work, digest_of(order)] += 1
            return honest(order, arrays)

        node._work = work  # type: ignore[method-assign]

    def play(
        self,
        instants: Sequence[Instant],
        between: Callable[[int], object] = lambda kill: None,
        gone: frozenset[int] = frozenset(),
    ) -> Run:
        """The run that comes of it. between: is called with the number of each kill after it; gone: the nodes that do
        not attend from the first kill on."""
        out = self.folder / "network"
        try:
            for kill, instant in enumerate([*instants, None]):
                waits = gone if kill else frozenset()
                server = process(serve, self.site.folder, out, self.port, instant, waits)
                server.join(HANGS)
                assert server.exitcode == (-signal.SIGKILL if instant else 0), (instant, self.lines)
                if instant:
                    between(kill)
        finally:
            self.site.end()
        return open_run(out)

    @property
    def lines(self) -> list[str]:
        return (self.folder / "lines").read_text().splitlines()


RUN = "a" * 64
UPDATES: Sequence[Instant] = (("before", "an update is written", 2), ("after", "an update is written", 3))
ANSWERS: Sequence[Instant] = (("before", "all have answered", 4), ("after", "all have answered", 6))
ROUNDS: Sequence[Instant] = (("after", "a round begins", 2), ("before", "a checkpoint is made", 1))


@pytest.mark.parametrize(
    ("experiment", "instants"),
    [
        (SERVED, (*UPDATES, ANSWERS[0])),
        (MOHAWK, (UPDATES[1], *ANSWERS, *ROUNDS)),
        (PEERS.replace(federation="push_sum"), (UPDATES[1], *ANSWERS, *ROUNDS)),
        (PEERS.replace(federation="ad_psgd"), (*UPDATES, *ANSWERS, ROUNDS[1])),
    ],
    ids=["server", "cloud", "push-sum", "pairs"],
)
def test_a_server_that_is_killed_loses_nothing_and_asks_nothing_twice(
    experiment: Experiment, instants: Sequence[Instant], tmp_path: Path
) -> None:
    killed = Killed(tmp_path, experiment)
    network = killed.play(instants)
    same_runs(network, run(experiment, tmp_path / "simulated"))
    again = {key: times for key, times in killed.worked.items() if times > 1}
    if (
        experiment is SERVED
    ):  # what clients keep for a round they are asked for again, and then to train with it
        assert {work for _, work, _ in again} <= {"represent", "train"}
    else:
        assert again == {}, "no node does a piece of work twice"
    assert len(killed.lines) >= 2
    assert all("answers arrived before the run was broken off" in line for line in killed.lines)
    assert not list(network.folder.glob(f"{journal.FILE}*")), "a run that is done needs it no more"


def test_an_update_that_was_taken_counts_when_its_sender_is_gone(tmp_path: Path) -> None:
    experiment = tiny(**{**EVERY, "clients": 3, "rounds": 3}, federation="fedavg")
    killed = Killed(tmp_path, experiment, away=0.0)
    # By then all answers of round 1 have arrived, and none of round 2.
    network = killed.play(
        [("after", "all have answered", 1)],
        between=lambda kill: killed.site.nodes[1].stop(),
        gone=frozenset({1}),
    )
    gone = {2: np.array([1]), 3: np.array([1])}
    same_runs(network, without(experiment, tmp_path / "simulated", {(2, 1)}, gone))
    assert network.rounds["active"].tolist() == [0, 3, 2, 2]


def test_a_journal_knows_what_became_of_an_order(tmp_path: Path) -> None:
    lines: list[str] = []
    one = Journal(tmp_path, RUN, lines.append)
    names = [one.order() for _ in range(3)]
    one.keep(1, 5, "a" * 64, b"an update")
    one.keep(1, 5, "a" * 64, b"the same node sends another one")
    one.keep(2, 5, "a" * 64, b"that of another node")
    one.keep(3, 5, "a" * 64, b"too late")
    one.lose(3, 5, "a" * 64)
    one.keep(3, 5, "a" * 64, b"much too late")
    assert one.away(5, np.array([4, 7])).tolist() == [4, 7]
    one.close(done=False)
    two = Journal(tmp_path, RUN, lines.append)
    assert two.found(1, 5, "a" * 64) == (True, b"an update")
    assert two.found(2, 5, "a" * 64) == (True, b"that of another node")
    assert two.found(3, 5, "a" * 64) == (True, None)
    assert (
        two.found(1, 6, "a" * 64) == two.found(1, 5, "b" * 64) == two.found(4, 5, "a" * 64) == (False, None)
    )
    assert two.away(5, np.array([1])).tolist() == [4, 7], "decided when the round began"
    assert two.away(6, np.array([1])).tolist() == [1]
    assert lines == ["rounds 5 to 5: 2 answers arrived before the run was broken off"], "the third did not"
    assert two.order() not in names
    assert two.order().partition("-")[0] == names[0].partition("-")[0], "the same run"
    (tmp_path / "checkpoints").mkdir()
    for round in (5, 8):
        (tmp_path / "checkpoints" / f"round-{round:08d}.safetensors").touch()
    two.begin_round(9)
    assert two.found(1, 5, "a" * 64) == (False, None)
    assert two.away(6, np.zeros(0, np.int64)).tolist() == [1], "the older checkpoint may be needed"
    two.keep(1, 9, "a" * 64, b"an update")
    two.lose(2, 9, "a" * 64)
    two.away(9, np.array([4]))
    two.open_again(9)
    two.keep(1, 8, "a" * 64, b"which the newest checkpoint holds")
    two.close(done=False)
    two = Journal(tmp_path, RUN, lines.append)
    assert two.found(1, 9, "a" * 64) == (True, b"an update")
    assert lines[1:] == ["rounds 9 to 9: 1 answers arrived before the run was broken off"]
    assert two.found(2, 9, "a" * 64) == (False, None)
    assert two.away(9, np.array([5])).tolist() == [5]
    two.close(done=True)
    assert not list(tmp_path.glob("arrived*"))


def test_a_damaged_update_is_asked_for_again(tmp_path: Path) -> None:
    one = Journal(tmp_path, RUN, lambda line: None)
    one.keep(1, 5, "a" * 64, b"an update" * 1000)
    one.close(done=False)
    path = tmp_path / journal.FILE
    data = path.read_bytes()
    path.write_bytes(data.replace(b"updatean", b"updateAN", 1))
    assert path.read_bytes() != data
    two = Journal(tmp_path, RUN, lambda line: None)
    assert two.found(1, 5, "a" * 64) == (False, None)
    two.close(done=False)
    lines: list[str] = []
    path.write_bytes(b"no database at all" * 1000)
    three = Journal(tmp_path, RUN, lines.append)
    assert three.found(1, 5, "a" * 64) == (False, None)
    assert len(lines) == 1
    assert "is damaged (file is not a database); it is put aside" in lines[0]
    assert (tmp_path / f"{journal.FILE}.damaged").read_bytes().startswith(b"no database")
    three.close(done=False)
    with pytest.raises(InputError, match=r"arrived.sqlite: cannot be written \(unable to open"):
        Journal(tmp_path / "nowhere", RUN, lines.append).order()


def foreign(path: Path, another: Callable[[], None]) -> dict[str, Callable[[], object]]:
    """Files in the place of one that are whole, and another's, by what is said of them."""

    def with_tables(statement: str) -> None:
        with contextlib.closing(sqlite3.connect(path)) as own:
            own.executescript(statement)

    return {
        "is that of .*, not of ": another,
        "has other tables than this version of fedroam writes": lambda: with_tables(
            "CREATE TABLE answer (x)"
        ),
        "is a link": lambda: path.symlink_to(path.parent / "elsewhere"),
    }


def another_journal(folder: Path) -> None:
    """One of another run."""
    other = Journal(folder, "b" * 64, print)
    other.order()
    other.close(done=False)


@pytest.mark.parametrize("which", range(3))
def test_what_is_whole_and_another_s_is_left_as_it_is(which: int, home: Path, tmp_path: Path) -> None:
    """A message that names the file, exit code 2, and the file is as it was."""
    kept = home / NODES / "peer-00" / MEMORY
    for path, another, begin in (
        (
            tmp_path / journal.FILE,
            lambda: another_journal(tmp_path),
            lambda: Journal(tmp_path, RUN, print).order(),
        ),
        (
            kept,
            lambda: Memory(kept, OWNER.replace("peer-00", "peer-01"), print).close(done=False),
            lambda: node_of(home, "peer-00", print),
        ),
    ):
        told, lay = list(foreign(path, another).items())[which]
        lay()
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(InputError, match=f"{path.name}: {told}") as caught:
            begin()
        assert "move it away to go on without it" in str(caught.value) or "delete the link" in str(
            caught.value
        )
        assert (path.read_bytes() if path.exists() else None) == before
        assert not list(path.parent.glob("*.damaged*"))
    assert main(["node", "--site", str(home / FILE), "--name", "peer-00"]) == 2


def test_a_server_that_finds_another_run_s_journal_ends_and_loses_nothing(tmp_path: Path) -> None:
    experiment = tiny(**{**EVERY, "clients": 2, "rounds": 3}, federation="fedavg", checkpoint_every=1)
    site, out = LocalSite.new(tmp_path / "site", experiment, retry=1.0), tmp_path / "network"

    def stop(round: int, rounds: int, measurement: object) -> None:
        if round == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        site.run(out, observer=stop)
    (out / journal.FILE).replace(tmp_path / "ours.sqlite")
    another_journal(out)
    with pytest.raises(InputError, match=r"network/arrived.sqlite: is that of run b{64}, not of run "):
        site.run(out, existing="resume")
    (out / journal.FILE).rename(tmp_path / "theirs.sqlite")
    (tmp_path / "ours.sqlite").replace(out / journal.FILE)
    same_runs(site.run(out, existing="resume"), run(experiment, tmp_path / "simulated"))


def test_every_damaged_file_is_kept(tmp_path: Path) -> None:
    lines: list[str] = []
    for k in range(3):
        (tmp_path / journal.FILE).write_bytes(b"no database" * (k + 100))
        one = Journal(tmp_path, RUN, lines.append)
        one.order()
        one.close(done=True)
    kept = [tmp_path / f"{journal.FILE}.damaged{end}" for end in ("", "-2", "-3")]
    assert [len(path.read_bytes()) for path in kept] == [1100, 1111, 1122]
    assert [path.name in line for path, line in zip(kept, lines, strict=True)] == [True] * 3


@pytest.mark.parametrize("change", ["UPDATE begun SET away = '[1]'", "UPDATE begun SET round = 6",
                                    "UPDATE answer SET round = 6", "UPDATE answer SET digest = 'x'",
                                    "UPDATE answer SET node = 7", "UPDATE orders SET number = 1",
                                    "INSERT INTO begun VALUES (9, '[]', 'x')", "DELETE FROM owner"])  # fmt: skip
def test_a_row_that_was_changed_on_the_disk_counts_for_nothing(change: str, tmp_path: Path) -> None:
    one = Journal(tmp_path, RUN, print)
    one.keep(1, 5, "a" * 64, b"an update")
    one.away(5, np.array([4, 7]))
    one.order()
    one.close(done=False)
    with contextlib.closing(sqlite3.connect(tmp_path / journal.FILE)) as own:
        own.execute(change)
        own.commit()
    lines: list[str] = []
    two = Journal(tmp_path, RUN, lines.append)
    assert (
        two.found(1, 5, "a" * 64) == two.found(1, 6, "a" * 64) == two.found(7, 5, "a" * 64) == (False, None)
    )
    assert two.away(5, np.array([3])).tolist() == [3]
    (line,) = lines
    assert "is damaged" in line
    two.close(done=True)


def test_a_full_disk_ends_the_run_with_a_message(tmp_path: Path) -> None:
    one = Journal(tmp_path, RUN, lambda line: None)
    one.order()
    assert one._opened is not None
    one._opened._own.execute("PRAGMA max_page_count = 20")
    with pytest.raises(FedroamError, match=r"arrived.sqlite: cannot be written \(database or disk is full\)"):
        one.keep(1, 5, "a" * 64, bytes(1_000_000))
    one.close(done=False)


# --- access points and peers --------------------------------------------------------------------------------------

HERE = ("127.0.0.1",)  # the loopback alone: nothing of a test goes on a network
HOLDER = {
    "holding": ("open", "take", "piece", "keep", "say", "aggregate", "begin"),
    "node": ("_arrived", "_put"),
}


def live(folder: Path, name: str, after: int, port: int) -> None:
    """A node's process that dies before or after a message or piece of work: the one of this number, 0 for none. port:
    where it listens, if it does, as an earlier process of it did."""
    torch.set_num_threads(1)
    with (folder / "heard").open("a", buffering=1) as heard:
        node = node_of(folder, name, lambda line: print(line, file=heard))
        if node.holding.memory is not None:
            node.holding.memory.said.setdefault("port", str(port))
        left, lock = Counter(calls=after), threading.Lock()

        def strike() -> None:
            with lock:
                left["calls"] -= 1
                if left["calls"] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        def struck(owner: Any, method: str) -> None:
            honest = getattr(owner, method)

            def call(*arguments: Any, **options: Any) -> Any:
                strike()  # nothing is done yet
                found = honest(*arguments, **options)
                strike()  # what was done is done, and nobody has been told
                return found

            async def answer(*arguments: Any) -> Any:
                strike()
                found = await honest(*arguments)
                strike()
                return found

            setattr(owner, method, answer if inspect.iscoroutinefunction(honest) else call)

        for owner, methods in HOLDER.items():
            for method in methods:
                struck(node.holding if owner == "holding" else node, method)
        if node.site.movement.by != "experiment":
            struck(node, "_work")  # looks are among it
            struck(Listener, "_ping")
        if node.site.movement.by == "discovery":
            node.on_the_network(HERE)
        node.run()
        node.close()


def nothing(node: Node) -> None:
    """No change to a node."""


def here(node: Node) -> None:
    """It looks for others at the loopback alone."""
    node.on_the_network(HERE)


def nursed(
    site: LocalSite,
    victim: int,
    instants: Sequence[int],
    out: Path,
    change: Callable[[Node], None] = nothing,
) -> tuple[Run, list[int]]:
    """The run of a site of which one node is a process that is killed at these instants, and begun anew each time; at
    which of them it was."""
    nodes = read_site(site.folder / FILE).holders
    kills: list[int] = []
    over = threading.Event()
    running: list[Any] = []
    port = free_port()

    def nurse() -> None:
        for after in [*instants, 0]:
            running[:] = [process(live, site.folder, nodes[victim].name, after, port)]
            running[0].join()
            if over.is_set() or running[0].exitcode != -signal.SIGKILL:
                return
            kills.append(after)

    nursing = threading.Thread(target=nurse, daemon=True)

    def listening(port: int) -> None:
        site.at(port)
        nursing.start()
        for number in nodes:
            if number != victim:
                site.start(number, change)

    try:
        network = serving.serve(
            site.folder,
            out,
            address="127.0.0.1:0",
            patience=HANGS,
            tell=site.lines.append,
            listening=listening,
        )
    finally:
        over.set()
        site.end()
        running[0].join(60)
        running[0].kill()
        nursing.join(HANGS)
    return network, kills


@pytest.mark.parametrize(("experiment", "instants"), [(MOHAWK, (3, 14, 9, 22, 6)), (PEERS, (4, 11, 17, 8, 21)),
                          (PEERS.replace(federation="push_sum"), (9, 12, 15, 10, 13)),
                          (PEERS.replace(federation="cached"), (20, 5, 33, 12, 18)),
                          (PEERS.replace(federation="ad_psgd"), (25, 7, 40, 13, 30)),
                          (MOHAWK.replace(federation={"kind": "hierarchical_fedbuff", "k2": 3, "size": 3}),
                           (12, 5, 21, 8, 16)),
                          (MOHAWK.replace(federation={"kind": "hierarchical_fedasync", "k2": 2}), (10, 4, 19, 7, 13)),
                          (MOHAWK.replace(federation={"kind": "delayed_mohawk", "k2": 2}), (6, 11, 4, 17, 8)),
                          (PEERS.replace(federation="gossip_learning"), (9, 12, 15, 10, 13))],
                         ids=["access point", "peer", "push-sum", "caches", "pairs", "fedbuff", "fedasync", "delayed",
                              "gossip learning"])  # fmt: skip
def test_whoever_is_killed_and_begun_anew_changes_nothing(
    experiment: Experiment, instants: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "NOTICED", HANGS)
    site = LocalSite.new(tmp_path / "site", experiment, chunk=1024, away=HANGS)
    nodes = read_site(site.folder / FILE).holders
    victim = next(number for number, node in nodes.items() if node.listens)
    network, kills = nursed(site, victim, instants, tmp_path / "network")
    assert kills == list(instants)
    assert site.lines == site.heard == []
    assert not list(site.folder.rglob(f"{MEMORY}*")), "a run that is done needs it no more"
    told = (site.folder / "heard").read_text().splitlines()
    assert any("goes on where an earlier process of it was broken off" in line for line in told)
    same_runs(network, run(experiment, tmp_path / "simulated"))


@pytest.mark.parametrize(
    ("by", "experiment", "role", "instants"),
    [
        ("answers", TWO_DOORS, "access_point", (5, 12, 19)),
        ("answers", TWO_DOORS, "client", (2, 5, 8)),
        ("discovery", PEERS, "peer", (3, 16, 9)),
    ],
    ids=["access point", "device", "peer"],
)
def test_whoever_is_killed_while_devices_find_out_where_they_are_is_looked_for_again(
    by: str,
    experiment: Experiment,
    role: str,
    instants: Sequence[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who was not answered meanwhile was away or elsewhere, and that is what is simulated again: nothing else is lost,
    and nothing counts twice."""
    monkeypatch.setattr(hub, "NOTICED", HANGS)
    site = LocalSite.new(tmp_path / "site", experiment, chunk=1024, away=HANGS)
    found = read_site(site.folder / FILE)
    how = checked_movement({"by": by, "pings": 1, "patience": 5.0}, "test")
    found.model_copy(update={"movement": how}).write(site.folder)
    victim = next(number for number, node in found.holders.items() if node.role == role)
    network, kills = nursed(
        site, victim, instants, tmp_path / "network", here if by == "discovery" else nothing
    )
    assert kills == list(instants)
    assert site.lines == site.heard == []
    same_movement(
        network, run(experiment.replace(**replay(network.folder, experiment)), tmp_path / "simulated")
    )
    assert network.rounds["active"].iloc[-1] > 0


OWNER = f"peer-00 of site site in run {PEERS.digest}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    LocalSite.new(tmp_path / "site", PEERS)
    return tmp_path / "site"


def test_what_was_kept_is_there_and_a_damaged_model_is_not(home: Path) -> None:
    path, good = home / NODES / "peer-00" / MEMORY, b"a model"
    memory = Memory(path, OWNER, lambda line: None)
    memory.begin(f"{'a' * 16} 3")
    memory.keep(sum_of(good), good, "made")
    memory.keep("0" * 64, b"another")
    memory.allow([(2, sum_of(good), True)])
    memory.say("secret", "5" * 64)
    memory.close(done=False)
    lines: list[str] = []
    node = node_of(home, "peer-00", lines.append)
    assert lines == ["round 3: goes on where an earlier process of it was broken off"]
    assert node.holding.lacks([sum_of(good), "0" * 64]) == ["0" * 64]
    assert node.holding.piece(2, 3, sum_of(good), 0, 10) is None, "it may bring it, not fetch it"
    assert node.holding.take(2, 3, sum_of(good), 0, b"") == (node.holding.size, True)
    assert node.holding.receipt(2, sum_of(good)) == receipt("5" * 64, 2, sum_of(good))
    node.close()
    path.write_bytes(b"no database at all" * 100)
    lines.clear()
    node = node_of(home, "peer-00", lines.append)
    assert node.holding.lacks([sum_of(good)]) == [sum_of(good)]
    (line,) = lines
    assert "is damaged" in line
    node.close()


def test_what_one_thread_writes_is_not_undone_by_another(home: Path) -> None:
    """As where the door is open already, and a model is taken, while the node writes down where it listens."""
    path = home / NODES / "peer-00" / MEMORY
    memory = Memory(path, OWNER, lambda line: None)
    other = threading.Thread(target=memory.say, args=("port", "50061"))

    def grants() -> Iterator[tuple[int, str, bool]]:
        yield 1, "0" * 64, True
        other.start()  # within the transaction, which it must not end
        other.join(0.5)
        yield 2, "0" * 64, True

    memory.allow(grants())
    other.join()
    memory.close(done=False)
    left = Memory(path, OWNER, lambda line: None)
    assert left.allowed == [(1, "0" * 64, True), (2, "0" * 64, True)]
    assert left.said == {"port": "50061"}
    left.close(done=False)


def test_memory_of_a_round_goes_with_it(home: Path) -> None:
    path, own, other = home / NODES / "peer-00" / MEMORY, b"its own", b"another's"
    memory = Memory(path, OWNER, lambda line: None)
    memory.keep(sum_of(own), own, "learnt 0")
    memory.keep(sum_of(other), other)
    memory.say("secret", "5" * 64)
    memory.begin("b 2")
    memory.close(done=False)
    left = Memory(path, OWNER, lambda line: None)
    assert left.models == {sum_of(own): own}
    assert left.allowed == []
    assert left.said == {"session": "b 2"}
    left.close(done=False)


def test_a_node_listens_where_it_did(home: Path) -> None:
    ports, chosen = [], str(free_port())
    for said in ({"port": chosen}, {}):
        node = node_of(home, "peer-00", lambda line: None)
        assert node.holding.memory is not None
        node.holding.memory.said.update(said)
        door = Listener(node.own, node.callers, node.holding, node.tell)
        ports.append(node._listen(door, "127.0.0.1:0"))
        door.stop()
        node.close()
    assert ports == [int(chosen), int(chosen)]
