"""`fedroam site`, `node`, `deploy` and `emulate`, as they are typed."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fedroam.deploy.site.file import FILE, KEY, NODES, read_site
from fedroam.deploy.site.push import _files
from fedroam.errors import InputError
from fedroam.recording import open_run
from fedroam.terminal.interrupts import STOPPED
from support.commands import TINY, Commands
from support.tiny import same_tables
from support.waiting import HANGS
from support.warm import python

pytest.importorskip("grpc")
FEDAVG = TINY.replace("clients = 4", "clients = 2") + 'federation = "fedavg"\n'
MOHAWK = (
    TINY
    + """
access_points = { kind = "uniform", number = 4 }
federation = { kind = "mohawk", k2 = 2 }
"""
)
NAMES = ("rounds", "clients", "positions", "contacts")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


@pytest.fixture
def site(call: Commands) -> Path:
    call.write("net.toml", FEDAVG)
    made = call("site", "init", "lab", "--experiment", "net.toml", "--address", "127.0.0.1:50061")
    assert made.code == 0, made.err
    assert "fedroam deploy --site lab/site.toml" in made.out
    assert "fedroam node --site lab/site.toml --name client-00" in made.out
    return call.folder / "lab"


@pytest.mark.slow
def test_emulate_is_the_simulated_run(call: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of their own, as on devices; the folder is one of a run. How much memory they have is told although the
    run is over before the thread that watches them looks."""
    monkeypatch.setattr("fedroam.deploy.emulation.watch.EVERY", HANGS)
    call.write("net.toml", MOHAWK)
    emulated = call(
        "emulate", "net.toml", "--devices", "3", "--access-points", "2", "--check", "--out", "emulated"
    )
    assert emulated.code == 0, emulated.err
    assert "run: emulated" in emulated.out
    assert emulated.out.count("the same bits") == 6
    assert "DIFFERS" not in emulated.out
    if sys.platform == "linux":
        assert re.search(r"^7 processes, \d+\.\d GiB of memory together at most$", emulated.err, re.M)
    fleet = ("--set", "clients=3", "--set", "access_points.number=2")
    assert call("run", "net.toml", *fleet, "--no-report", "--out", "simulated").code == 0
    found = [open_run(call.folder / name) for name in ("emulated", "simulated/seed-0")]
    same_tables(*({name: each.table(name) for name in NAMES} for each in found))
    assert call("compare", "emulated", "simulated").code == 0
    assert call("verify", "emulated").code == 0


@pytest.mark.slow
def test_a_server_and_its_nodes_as_typed(site: Path, call: Commands) -> None:
    """Each command in a process of its own; the server takes a port that is free, and the site is told."""
    told = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, "-m", "fedroam", "deploy", "--site", str(site / FILE), "--out", "learned",
         "--address", "127.0.0.1:0"],
        cwd=call.folder, env=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stderr is not None
    line = server.stderr.readline()
    assert line.startswith("listens at port "), line
    found = read_site(site / FILE)
    found.model_copy(update={"address": f"127.0.0.1:{line.split()[-1]}"}).write(site)
    nodes = [
        subprocess.Popen([*python(), "-m", "fedroam", "node", "--site", str(site / FILE), "--name", node.name],
                         env=told, stderr=subprocess.PIPE, text=True)
        for node in found.clients.values()
    ]  # fmt: skip
    said = server.communicate(timeout=HANGS)
    assert server.returncode == 0, said
    for node in nodes:
        _, err = node.communicate(timeout=HANGS)
        assert node.returncode == 0, err
        assert "the run is done" in err
    assert open_run(call.folder / "learned").done


HERE = """
import numpy as np
from fedroam.components import Part, register
from fedroam.mobility import Paths

@register("mobility", "all_here")
class AllHere(Part):
    def start(self, world):
        return {"position": np.ones((world.clients, 2)), "present": np.ones(world.clients, bool)}
    def step(self, state, world, round):
        return state, Paths.still(state["position"], state["present"])
    def bounds(self):
        return 0.0, 0.0, 2.0, 2.0
    def groups(self, world):
        return np.full(world.clients, "here")
"""


@pytest.fixture
def own(call: Commands) -> str:
    """An experiment that names a part of one's own, in another folder than the one where commands are given."""
    (call.folder / "mine").mkdir()
    call.write("mine/all_here.py", HERE)
    table = 'mobility = { kind = "random", grid = 4, mobile = 2 }'
    assert table in FEDAVG
    text = FEDAVG.replace(table, 'mobility = "all_here"')
    return call.write("mine/own.toml", 'use = ["all_here.py"]\n' + text)


@pytest.mark.slow
def test_an_experiment_that_names_parts_of_ones_own_is_emulated(own: str, call: Commands) -> None:
    emulated = call("emulate", own, "--quiet", "--out", "emulated")
    assert emulated.code == 0, emulated.err
    assert open_run(call.folder / "emulated").rounds["active"].tolist() == [0, 2, 2, 2]


def test_a_site_has_the_parts_of_ones_own_that_its_experiment_names(own: str, call: Commands) -> None:
    made = call("site", "init", "lab", "--experiment", own, "--address", "127.0.0.1:50061")
    assert made.code == 0, made.err
    lab = call.folder / "lab"
    assert (lab / "all_here.py").read_text() == HERE
    assert 'use = [\n    "all_here.py",\n]' in (lab / "experiment.toml").read_text()
    # In a process that knows nothing of it: it ends where nobody comes.
    words = ["deploy", "--site", "lab/site.toml", "--address", "127.0.0.1:0", "--patience", "0.1"]
    server = subprocess.run(
        [*python(), "-m", "fedroam", *words], cwd=call.folder, capture_output=True, text=True, check=False
    )
    assert server.returncode == 1, server.stderr
    assert "none of the 2 nodes has come within 0.1 s" in server.stderr
    assert "all_here.py" in _files(lab, "client-00")
    for wrong in ("../x.py", "a b.py", "$(x).py"):
        path = lab / "experiment.toml"
        path.write_text(f"use = ['{wrong}']\n")
        with pytest.raises(
            InputError, match=re.escape(f"{path}: use = '{wrong}': allowed are files beside it")
        ):
            _files(lab, "client-00")


def test_parts_of_ones_own_have_names_that_travel(call: Commands) -> None:
    call.write("all here.py", "")
    call.write("own.toml", 'use = ["all here.py"]\n' + FEDAVG)
    made = call("site", "init", "new", "--experiment", "own.toml", "--address", "127.0.0.1:50061")
    assert made.code == 2
    assert "all here.py: is brought to nodes by its name; allowed in it are letters" in made.err
    assert not (call.folder / "new").exists()


def test_revoked_and_renewed(site: Path, call: Commands) -> None:
    before = read_site(site / FILE).node("client-01")
    assert before is not None
    assert call("site", "revoke", "lab", "client-01").code == 0
    revoked = read_site(site / FILE).node("client-01")
    assert revoked == before.model_copy(update={"revoked": True})
    assert call("site", "renew", "lab", "client-01", "--days", "2").code == 0
    renewed = read_site(site / FILE).node("client-01")
    assert renewed is not None
    assert not renewed.revoked
    assert renewed.serial != before.serial


def test_it_is_told_who_else_must_know(site: Path, call: Commands) -> None:
    """Who calls a node, or is called by it, goes by a site.toml of his own; so does a server that was pushed away."""
    at_once = "revoked; a server that runs with this site.toml acts on it at once"
    assert call("site", "revoke", "lab", "client-01").out == f"client-01: {at_once}\n"
    call.write("layers.toml", MOHAWK)
    assert call("site", "init", "two", "--experiment", "layers.toml", "--address", "127.0.0.1:1").code == 0
    brought = "site.toml has to be brought to {}, too: fedroam site push\n"
    for name, others in (("client-01", "access points"), ("access-point-00", "clients")):
        assert call("site", "revoke", "two", name).out == f"{name}: {at_once}; {brought.format(others)}"
    (call.folder / "two" / NODES / "server" / KEY).unlink()
    renewed = call("site", "renew", "two", "client-01").out
    assert "has a new certificate in two/nodes/client-01" in renewed
    assert renewed.endswith(brought.format("the server and access points"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["site", "init", "lab", "--experiment", "net.toml", "--address", "h:1"], "lab: is not empty"),
        (["site", "init", "new", "--experiment", "net.toml", "--address", "no port"], "address = 'no port'"),
        (["site", "init", "new", "--experiment", "net.toml", "--address", "h:1", "--name", "A b"], "name = 'A b'"),
        (
            ["site", "init", "new", "--experiment", "net.toml", "--address", "h:1", "--name", ""],
            "name = '': allowed are 1 to 40 lower-case letters",
        ),
        (["site", "init", "new", "--experiment", "net.toml", "--address", "h:1", "--days", "0"], "--days 0"),
        (["site", "init", "new", "--experiment", "net.toml", "--address", "h:1", "--set", "device=cuda"], "allowed"),
        (
            ["site", "init", "new", "--experiment", "net.toml", "--address", "h:1", "--set", "mobility.mobile=99"],
            "mobility.mobile = 99: only 2 clients",
        ),
        (["site", "revoke", "lab", "client-1"], "did you mean 'client-01'"),
        (["site", "renew", "nowhere", "client-1"], "no such file"),
        (["node", "--site", "lab/site.toml", "--name", "client-77"], "has no node 'client-77'"),
        (["node", "--site", "lab/site.toml", "--name", "server"], "fedroam deploy"),
        (["node", "--site", "lab", "--name", "client-00"], "allowed is the site.toml"),
        (["node", "--site", "empty/site.toml", "--name", "client-00"], "name: is missing: this file is empty"),
        (["deploy", "--site", "lab/site.toml", "--patience", "-1"], "--patience -1"),
        (["deploy", "--site", "lab/site.toml", "--resume", "--fresh"], "--resume and --fresh"),
        (["deploy", "--site", "lab/site.toml", "--address", "256.1.1.1:1"], "cannot be served at"),
        (["emulate", "many.toml"], "2 runs"),
        (["energy", ".", "--idle", "1e6"], "--idle 1e+06: allowed are 0 W or more, below 1e6"),
    ],
    ids=lambda words: " ".join(words)[:40] if isinstance(words, list) else "",
)  # fmt: skip
def test_wrong_input_is_one_line(words: list[str], told: str, site: Path, call: Commands) -> None:
    call.write("many.toml", FEDAVG + "seeds = 2\n")
    (call.folder / "empty").mkdir()
    call.write("empty/site.toml", "")
    answer = call(*words)
    assert answer.code == 2, answer.err
    assert told in answer.err
    assert answer.err.count("\n") == 1
    assert not (call.folder / "new").exists()


def test_a_port_that_is_taken_is_told(site: Path, call: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = call("deploy", "--site", "lab/site.toml", "--address", f"127.0.0.1:{port}")
    assert answer.code == 2
    assert answer.err == (
        f"error: address '127.0.0.1:{port}': port {port} is in use by another process; choose another port, or 0 for "
        "one that is free\n"
    )


def test_a_site_whose_experiment_was_changed_is_refused(site: Path, call: Commands) -> None:
    path = site / "experiment.toml"
    path.write_text(path.read_text().replace("rounds = 3", "rounds = 4"))
    for words in (
        ["deploy", "--site", "lab/site.toml"],
        ["node", "--site", "lab/site.toml", "--name", "client-00"],
    ):
        answer = call(*words)
        assert answer.code == 2
        assert "is another experiment than the site's" in answer.err


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("words", "played_by"),
    [
        (["deploy", "--site", "lab/site.toml"], "fedroam.deploy.server.serving.serve"),
        (["emulate", "net.toml"], "fedroam.deploy.emulation.emulate"),
    ],
    ids=["deploy", "emulate"],
)
def test_ctrl_c_tells_of_going_on_where_a_run_has_begun(
    begun: bool,
    words: list[str],
    played_by: str,
    site: Path,
    call: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(_: object, folder: Path, **__: object) -> None:
        if begun:
            folder.mkdir()
            (folder / "run.json").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(played_by, stopped)
    answer = call(*words, "--out", "played")
    assert answer.code == STOPPED
    last = answer.err.splitlines()[-1]
    if begun:
        assert last == f"go on with: fedroam {' '.join(words)} --out played --resume"
    else:
        assert last == "stopped; the same command goes on"
