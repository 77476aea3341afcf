"""Folders that a stranger has prepared: looking at them runs nothing that they name, and writes nowhere else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attack.targets import finished, laid, swept
from fedroam.recording import FileFacts, write_summed
from fedroam.recording.run import write_status
from support.commands import Commands
from support.run_folders import of_before_there_was_a_manifest
from support.warm import python

pytestmark = pytest.mark.usefixtures("rough_pictures")
MARKER = "pwned"
PWN = f"""\
from pathlib import Path

for folder in (Path.cwd(), Path(__file__).parent):
    (folder / {MARKER!r}).write_text("")
"""


@pytest.fixture
def fr(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def uses(folder: Path) -> None:
    text = (folder / "experiment.toml").read_text()
    (folder / "experiment.toml").write_text(f'use = "pwn.py"\n{text}')


def uses_absolutely(folder: Path) -> None:
    text = (folder / "experiment.toml").read_text()
    (folder / "experiment.toml").write_text(f'use = ["{folder / "pwn.py"}"]\n{text}')


def names_a_module(target: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / "experiment.toml").read_text()
        begin = text.index("[model]")
        end = text.index("\n[", begin)
        model = f'[model]\nkind = "torch_module"\ntarget = "{target}"\n'
        (folder / "experiment.toml").write_text(text[:begin] + model + text[end:])

    return change


def names_an_own_part(folder: Path) -> None:
    text = (folder / "experiment.toml").read_text()
    (folder / "experiment.toml").write_text(text.replace('kind = "random"', 'kind = "pwn"'))


HOSTILE = {
    "use": uses,
    "use, an absolute path": uses_absolutely,
    "os:system": names_a_module("os:system"),
    "pwn:Network": names_a_module("pwn:Network"),
    "a part of one's own": names_an_own_part,
}
COMMANDS = {
    "compare": ["compare"],
    "compare to csv": ["compare", "--csv", "out.csv"],
    "report": ["report", "--out", "page"],
    "connectivity": ["connectivity"],
    "connectivity, trained": ["connectivity", "--convergence", "--rounds", "1"],
    "verify": ["verify"],
    "data info": ["data", "info"],
    "show": ["show"],
}


def called(fr: Commands, words: list[str], folder: Path) -> None:
    """The command on the folder: it may succeed or complain in one line, and nothing of the folder has been run."""
    answer = fr(
        words[0],
        *(words[1:2] if words[0] == "data" else []),
        str(folder),
        *words[2 if words[0] == "data" else 1 :],
    )
    assert answer.code in (0, 1, 2), answer
    assert "Traceback" not in answer.err + answer.out
    if answer.code:
        assert answer.err.count("error:") == 1
    assert not list(fr.folder.rglob(MARKER))
    assert "pwn" not in sys.modules


@pytest.mark.parametrize("signed", [True, False], ids=["sums made to fit", "no sums"])
@pytest.mark.parametrize("how", HOSTILE)
def test_a_run_folder_runs_nothing(how: str, signed: bool, fr: Commands) -> None:
    folder = laid(finished(), fr.folder / "run")
    for place in (folder, fr.folder):
        (place / "pwn.py").write_text(PWN)
    HOSTILE[how](folder)
    if signed:
        sign(folder)
    else:
        of_before_there_was_a_manifest(folder)
    for name in COMMANDS if not signed else ("compare", "connectivity", "verify"):
        called(fr, COMMANDS[name], folder)


def sign(folder: Path) -> None:
    """Make the sums of `run.json` fit what lies in the folder now, as a stranger would."""
    status = json.loads((folder / "run.json").read_text())
    for name in status["files"]:
        status["files"][name] = FileFacts.on_disk(folder / name).listed()
    write_status(folder, status)


def test_the_trap_would_spring(fr: Commands) -> None:
    """An experiment file is a program, and says so: the same lines run there."""
    (fr.folder / "inner").mkdir()
    (fr.folder / "inner" / "pwn.py").write_text(PWN)
    fr.write("inner/tiny.toml", 'use = "pwn.py"\n' + (fr.folder / "tiny.toml").read_text())
    fr("data", "info", "inner/tiny.toml")
    assert (fr.folder / MARKER).exists()


def test_a_sweep_folder_runs_nothing(fr: Commands) -> None:
    folder = laid(swept(), fr.folder / "sweep")
    (folder / "pwn.py").write_text(PWN)
    for path in folder.glob("*.toml"):
        path.write_text(f'use = "pwn.py"\n{path.read_text()}')
    facts = json.loads((folder / "sweep.json").read_text())
    listed = FileFacts.on_disk(folder / "sweep.toml").listed()
    facts |= {"use": ["pwn.py"], "source": 'use = "pwn.py"', "files": {"sweep.toml": listed}}
    write_summed(folder / "sweep.json", facts)
    for run in folder.glob("runs/*"):
        uses(run)
        shutil.copy(folder / "pwn.py", run)
        sign(run)
    for words in COMMANDS.values():
        called(fr, words, folder)
    called(fr, ["compare", "--by", "training.lr"], folder)


@pytest.mark.parametrize(
    "name",
    [
        "report.html",
        "figures",
        "run.json",
        "rounds.parquet",
        "movement",
        "experiment.toml",
    ],
)
def test_links_lead_nowhere(name: str, fr: Commands) -> None:
    """A file of the folder that is a link to something precious: what it leads to stays what it was."""
    folder = laid(finished(), fr.folder / "run")
    precious = fr.folder / "precious"
    if name in ("figures", "movement"):
        shutil.rmtree(folder / name, ignore_errors=True)
        precious.mkdir()
        (precious / "letter").write_text("precious")
    else:
        (folder / name).unlink(missing_ok=True)
        precious.write_text("precious")
    (folder / name).symlink_to(precious)
    for words in (["compare"], ["verify"], ["connectivity"], ["report"]):
        called(fr, words, folder)
    if precious.is_dir():
        assert [path.name for path in precious.iterdir()] == ["letter"]
        assert (precious / "letter").read_text() == "precious"
    else:
        assert precious.read_text() == "precious"


def _no_network() -> str:
    """Why no process can be cut off from the network here; '' where it can."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    tried = subprocess.run(["unshare", "-rn", "true"], capture_output=True, text=True)
    return f"unshare -rn: {tried.stderr.strip()}" if tried.returncode else ""


NO_NETWORK = _no_network()
# What `unshare -rn` does, in a process that is there already; and whether it did.
CUT_OFF = """\
import ctypes, os, socket
own = {"setgroups": "deny", "uid_map": f"0 {os.getuid()} 1", "gid_map": f"0 {os.getgid()} 1"}
assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000 | 0x40000000) == 0, os.strerror(ctypes.get_errno())
for name, told in own.items():
    with open(f"/proc/self/{name}", "w") as file:
        file.write(told)
try:
    socket.create_connection(("192.0.2.1", 9), 1)
except OSError as error:
    print(os.strerror(error.errno))
"""


@pytest.mark.skipif(bool(NO_NETWORK), reason=NO_NETWORK or "unshare works")
def test_a_run_needs_no_network(fr: Commands) -> None:
    words = "run tiny.toml --no-report --out run", "verify run", "compare run", "report run"
    lines = [f"assert main({line.split()}) == 0" for line in words]
    rough = "from fedroam.analysis.figures import drawing; drawing.DOTS = 40"  # nobody looks at them
    code = "\n".join([CUT_OFF, "from fedroam.cli import main", rough, *lines])
    done = subprocess.run([*python(), "-c", code], capture_output=True, text=True, cwd=fr.folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Network is unreachable\n")
    assert (fr.folder / "run" / "report.html").exists()
