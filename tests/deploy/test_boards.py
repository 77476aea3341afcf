"""Real boards: files that arrive over ssh, units that name commands that there are, and what a device installs."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from fedroam.cli.entry import app, main
from fedroam.deploy.node.process import node_of
from fedroam.deploy.node.share import NO_SAMPLES, hello_of
from fedroam.deploy.site.file import FILE, KEY, NODES, read_site
from fedroam.deploy.site.identity import renew
from fedroam.deploy.site.push import push
from fedroam.deploy.site.units import DEVICE, FOLDER, write_units
from fedroam.errors import FedroamError, InputError
from fedroam.runner import run
from fedroam.scene import prepare
from support.sites import LocalSite
from support.tiny import _own_files, tiny
from support.waiting import HANGS

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SSH = """#!/bin/sh
echo "$1" > {log}
{before}
sh -c "$2"
{after}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    LocalSite.new(tmp_path / "lab", tiny(federation="fedavg", clients=2))
    return tmp_path / "lab"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """An ssh that stays on this machine, and the log of where it would have gone."""
    log = tmp_path / "ssh.log"

    def put(before: str = "", after: str = "") -> Path:
        there = tmp_path / "bin" / "ssh"
        there.parent.mkdir(exist_ok=True)
        there.write_text(SSH.format(log=log, before=before, after=after))
        there.chmod(0o755)
        monkeypatch.setenv("PATH", f"{there.parent}{os.pathsep}{os.environ['PATH']}")
        return log

    return put


def test_a_node_gets_its_files_and_its_key_alone(
    site: Path, ssh: Callable[..., Path], tmp_path: Path
) -> None:
    log, there = ssh(), tmp_path / "device" / "fedroam"
    key = (site / NODES / "client-00" / KEY).read_bytes()
    assert push(site, "client-00", "pi@192.168.1.21", str(there)) == "brought"
    assert log.read_text() == "pi@192.168.1.21\n"
    found = {str(path.relative_to(there)): path for path in there.rglob("*") if path.is_file()}
    own = {f"nodes/client-00/{name}" for name in ("key.pem", "certificate.pem")}
    assert found.keys() == {"site.toml", "experiment.toml", "authority.pem", *own}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found.values()} == {0o600}
    assert min(path.stat().st_mtime for path in found.values()) >= (site / FILE).stat().st_mtime - 2
    assert found[f"nodes/client-00/{KEY}"].read_bytes() == key
    node_of(there, "client-00", lambda line: None).close()
    assert not (site / NODES / "client-00" / KEY).exists(), "nobody but the node has it"
    assert (site / NODES / "client-01" / KEY).exists()
    # What changes later goes without it.
    text = (site / FILE).read_text().replace("chunk = 262144", "chunk = 2048")
    (site / FILE).write_text(text)
    assert push(site, "client-00", "pi@192.168.1.21", str(there)) == "there before"
    assert read_site(there / FILE).limits.chunk == 2048
    assert found[f"nodes/client-00/{KEY}"].read_bytes() == key
    renew(site, "client-00")
    assert push(site, "client-00", "192.168.1.21", str(there), keep_key=True) == "brought"
    assert (
        (site / NODES / "client-00" / KEY).read_bytes() == found[f"nodes/client-00/{KEY}"].read_bytes() != key
    )


def test_a_push_that_fails_keeps_the_key_here(
    site: Path, ssh: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "device"
    ssh(before="echo 'Permission denied (publickey).' >&2; exit 255")
    assert main(["site", "push", str(site), "client-00", "pi"]) == 1
    assert capsys.readouterr().err.startswith(
        "error: fedroam site push failed: pi: exit code 255, it said: Perm"
    )
    with pytest.raises(FedroamError, match=r"exit code 255, it said: Permission denied \(publickey\)"):
        push(site, "client-00", "pi", str(there))
    ssh(after=f"echo damaged >> {there}/site.toml; sha256sum {there}/site.toml | sed 's# .*# site.toml#'")
    with pytest.raises(FedroamError, match=r"site.toml is not what was sent"):
        push(site, "client-00", "pi", str(there))
    assert (site / NODES / "client-00" / KEY).exists()
    (site / NODES / "client-01" / KEY).unlink()  # and it is at no device either
    ssh()
    with pytest.raises(
        FedroamError, match=r"its key is not here: fedroam site renew .* client-01 makes another"
    ):
        push(site, "client-01", "pi", str(there))
    ssh(before="echo 'Connection refused' >&2; exit 255")  # which has nothing to do with keys
    with pytest.raises(FedroamError, match=r"exit code 255, it said: Connection refused$"):
        push(site, "client-01", "pi", str(there))


def test_a_push_that_breaks_off_leaves_what_was_there(
    site: Path, ssh: Callable[..., Path], tmp_path: Path
) -> None:
    """A node that begins meanwhile finds the files of before, and no half ones."""
    there = tmp_path / "device"
    ssh()
    push(site, "client-00", "pi", str(there))
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    text = (site / FILE).read_text().replace("chunk = 262144", "chunk = 2048")
    (site / FILE).write_text(text)
    for size in (1000, 5000):
        ssh(before=f'head -c {size} | sh -c "$2"; exit 255')
        with pytest.raises(FedroamError, match="exit code 255"):
            push(site, "client-00", "pi", str(there))
        assert {path: path.read_bytes() for path in before} == before
    ssh()
    push(site, "client-00", "pi", str(there))
    assert read_site(there / FILE).limits.chunk == 2048
    assert {path for path in there.rglob("*") if path.is_file()} == before.keys()


@pytest.mark.parametrize(
    ("host", "to", "told"),
    [
        ("-oProxyCommand=reboot", "/etc/fedroam", "is no host"),
        ("pi;reboot", "/etc/fedroam", "is no host"),
        ("pi\nreboot", "/etc/fedroam", "is no host"),
        ("", "/etc/fedroam", "is no host"),
        ("pi", "/etc/$(reboot)", "allowed is a folder from the root"),
        ("pi", "/etc/../root", "allowed is a folder from the root"),
        ("pi", "etc", "allowed is a folder from the root"),
    ],
)
def test_what_would_be_another_command_is_refused(
    site: Path, ssh: Callable[..., Path], host: str, to: str, told: str
) -> None:
    log = ssh()
    with pytest.raises(InputError, match=told):
        push(site, "client-00", host, to)
    assert not log.exists()


def test_a_push_without_ssh_says_so(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="ssh: no such command"):
        push(site, "client-00", "pi")
    with pytest.raises(InputError, match="client-09"):
        push(site, "client-09", "pi")


def test_units_name_commands_that_there_are(site: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["site", "units", str(site)])
    assert done.exit_code == 0
    for name in ("fedroam-node@.service", "fedroam-server.service"):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str  # type: ignore[method-assign, assignment]
        unit.read(site / FOLDER / name)
        words = shlex.split(unit["Service"]["ExecStart"].replace("\\\n", " "))
        assert words[0] == "/opt/fedroam/current/bin/fedroam"
        told = runner.invoke(app, [words[1], "--help"], env={"COLUMNS": "200"}).output
        options = [word for word in words[2:] if word.startswith("--")]
        assert len(options) >= 4
        assert all(re.search(rf"{option}\b", told) for option in options), told
        assert unit["Service"]["Restart"] == "on-failure"
        assert unit["Service"]["User"] == "fedroam"
        told = dict(word.split("=") for word in unit["Service"].get("Environment", "").split())
        assert set(re.findall(r"\$\{(\w+)\}", unit["Service"]["ExecStart"])) == told.keys() - {
            "OMP_NUM_THREADS"
        }
    entry = re.search(r"ENTRYPOINT (\[.*\])", (site / FOLDER / "Containerfile").read_text())
    assert entry is not None
    assert tomllib.loads(f"words = {entry[1]}")["words"][:2] == ["fedroam", "node"]
    assert len(write_units(site)) == len(list((site / FOLDER).iterdir())) == 4


# --- what a device installs ---------------------------------------------------------------------------------------


def named(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[; ]", line)[0].lower() for line in requirements}


def test_a_device_installs_less() -> None:
    whole = named(PROJECT["dependencies"]) | named(PROJECT["optional-dependencies"]["deploy"])
    assert set(DEVICE) < whole
    assert whole - set(DEVICE) == {"matplotlib", "scikit-learn", "llvmlite", "pyproj"}


DEVICE_WITHOUT = """
import sys
from importlib.machinery import PathFinder
from pathlib import Path

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        missing = name.partition(".")[0] in ("matplotlib", "sklearn", "llvmlite", "numba", "pyproj")
        return None if missing else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Missing
from fedroam.cli import main
code = main(["node", "--site", sys.argv[1], "--name", "client-01"])
Path(sys.argv[2]).write_text(" ".join({module.partition(".")[0] for module in sys.modules}))
sys.exit(code)
"""


def test_a_node_works_without_what_only_whoever_looks_at_runs_needs(tmp_path: Path) -> None:
    data = {"kind": "arrays", "path": str(_own_files() / "own.npz")}
    experiment = tiny(data=data, evaluate_every=2, federation="fedavg", clients=2, rounds=2)
    site = LocalSite.new(tmp_path / "site", experiment)
    processes: list[subprocess.Popen[bytes]] = []

    def link(port: int) -> int:
        site.at(port)
        words = [sys.executable, "-c", DEVICE_WITHOUT, str(site.folder / FILE), str(tmp_path / "imported")]
        processes.append(subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        return port

    network = site.run(tmp_path / "network", clients=[0], link=link)
    assert processes[0].wait(HANGS) == 0
    (line,) = site.lines  # its last digits are others
    assert re.match(r"client-01: computes with torch .*, no kernels, the server with torch", line), line
    simulated = run(experiment, tmp_path / "simulated")
    np.testing.assert_allclose(network.rounds["loss"], simulated.rounds["loss"], rtol=1e-4)
    there = set((tmp_path / "imported").read_text().split())
    assert there >= {"torch", "grpc", "fedroam"}
    assert not there & {"matplotlib", "sklearn", "llvmlite", "pyproj"}
    assert "sympy" not in there, "torch's compiler is loaded, which takes a second and is not used"


def test_a_board_says_that_it_has_no_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = tiny(federation="fedavg", clients=2)
    layout = prepare(experiment).task.layout
    present = hello_of(experiment, layout, NO_SAMPLES)
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    board = hello_of(experiment, layout, NO_SAMPLES)
    assert board == present.model_copy(update={"version": f"{present.version}, no kernels"})
