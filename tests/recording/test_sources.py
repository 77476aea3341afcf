"""The source of parts of the user's own: recorded, and compared before results are used again or gone on with."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedroam import Experiment, InputError, Interrupted, components
from fedroam.components import use
from fedroam.recording import code_facts
from fedroam.recording.sources import _definitions, _needed
from fedroam.runner import run
from support.commands import Commands
from support.run_folders import of_before_there_was_a_manifest
from support.tiny import tiny
from support.warm import python

MINE = """\
import numpy as np
from fedroam import register, Part
from fedroam.mobility import Paths
import {0}_helper


@register("mobility", "{0}")
class Mine(Part):
    "Everybody drifts east."

    def start(self, world):
        return {{"position": np.zeros((world.clients, 2))}}

    def step(self, state, world, round):
        there = state["position"] + {0}_helper.STEP
        return {{"position": there}}, Paths.straight(state["position"], there)

    def bounds(self):
        return (0.0, 0.0, 100.0, 100.0)

    def groups(self, world):
        return np.full(world.clients, "drifter")
"""
HELPER = "from {0}_deeper import STEP  # noqa: F401\n"
DEEPER = "STEP = 1.0\n"
names = iter(range(1000))


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mobility pattern in a file of its own that imports a second one, and that a third: `NAME.py`."""
    own = f"drift{next(names)}"
    for file, text in ((own, MINE), (f"{own}_helper", HELPER), (f"{own}_deeper", DEEPER)):
        (tmp_path / f"{file}.py").write_text(text.format(own))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield own
    components._registry["mobility"].pop(own, None)
    forget(own)


def forget(own: str) -> None:
    """As in a new process: nothing of it has been imported."""
    for module in [m for m in sys.modules if own in m]:
        del sys.modules[module]
    components._registry["mobility"].pop(own, None)
    importlib.invalidate_caches()


def again(own: str, folder: Path) -> Experiment:
    """The experiment, its part loaded as a new process would."""
    forget(own)
    use(folder / f"{own}.py")
    return tiny(mobility=own, rounds=3, evaluate_every=1)


def test_a_run_tells_the_source_of_its_own_parts(name: str, tmp_path: Path) -> None:
    code = run(again(name, tmp_path), tmp_path / "run").environment["code"]
    assert list(code) == [name, f"{name}_deeper", f"{name}_helper"]
    assert code[name]["file"] == str(tmp_path / f"{name}.py")
    assert run(tiny(rounds=1), tmp_path / "plain").environment["code"] == {}


EDITS: list[tuple[str, Callable[[str], str]]] = [
    ("", lambda text: text.replace("east", "west")),
    ("_helper", lambda text: text + "# a remark\n"),
    ("_deeper", lambda text: text.replace("1.0", "2.0")),
]


@pytest.mark.parametrize(("file", "edit"), EDITS)
def test_a_finished_run_is_not_used_again_with_other_source(
    name: str, tmp_path: Path, file: str, edit: Callable[[str], str]
) -> None:
    first = run(again(name, tmp_path), tmp_path / "run")
    path = tmp_path / f"{name}{file}.py"
    before = path.read_text()
    path.write_text(edit(before))
    with pytest.raises(InputError) as error:
        run(again(name, tmp_path), tmp_path / "run")
    assert f"{path}: has changed since {tmp_path / 'run'} was computed" in str(error.value)
    assert "--fresh" in str(error.value)
    path.write_text(before)
    assert run(again(name, tmp_path), tmp_path / "run").rounds.equals(first.rounds)
    path.write_text(edit(before))
    assert run(again(name, tmp_path), tmp_path / "run", existing="replace").done


def test_an_unfinished_run_is_not_gone_on_with(name: str, tmp_path: Path) -> None:
    import signal

    def stop(now: int, rounds: int, measurement: object) -> None:
        if now == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        run(again(name, tmp_path), tmp_path / "run", observer=stop)
    path = tmp_path / f"{name}_deeper.py"
    path.write_text("STEP = 2.0\n")
    with pytest.raises(InputError, match=f"{name}_deeper.py: has changed since"):
        run(again(name, tmp_path), tmp_path / "run")
    path.write_text(DEEPER)
    assert run(again(name, tmp_path), tmp_path / "run").done


def test_one_file_more_or_less_is_a_change(name: str, tmp_path: Path) -> None:
    run(again(name, tmp_path), tmp_path / "run")
    helper = tmp_path / f"{name}_helper.py"
    helper.write_text("STEP = 1.0\n")
    (tmp_path / f"{name}_deeper.py").unlink()
    with pytest.raises(InputError, match=rf"{name}_deeper\.py: was part of the code .* and is no more"):
        run(again(name, tmp_path), tmp_path / "run")


def test_another_place_is_no_change(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(again(name, tmp_path), tmp_path / "run")
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in tmp_path.glob(f"{name}*.py"):
        path.rename(moved / path.name)
    monkeypatch.syspath_prepend(moved)
    assert run(again(name, moved), tmp_path / "run").done


def test_a_folder_of_before_sources_were_recorded_is_used_as_it_is(name: str, tmp_path: Path) -> None:
    folder = run(again(name, tmp_path), tmp_path / "run").folder
    of_before_there_was_a_manifest(folder)
    facts = json.loads((folder / "environment.json").read_text())
    del facts["code"]
    (folder / "environment.json").write_text(json.dumps(facts))
    (tmp_path / f"{name}_deeper.py").write_text("STEP = 2.0\n")
    assert run(again(name, tmp_path), tmp_path / "run").done


def test_source_that_was_edited_after_it_was_imported_is_no_source_of_this_run(
    name: str, tmp_path: Path
) -> None:
    """What is imported would run, and what lies on the disk would be recorded."""
    experiment = again(name, tmp_path)
    run(experiment, tmp_path / "run")
    (tmp_path / f"{name}_deeper.py").write_text("STEP = 2.0\n")
    with pytest.raises(InputError, match=r"deeper\.py: has changed since this process imported it"):
        run(experiment.replace(seed=1), tmp_path / "other")
    for module in (f"{name}_deeper", f"{name}_helper"):
        importlib.reload(sys.modules[module])
    assert run(experiment.replace(seed=1), tmp_path / "other").done


def test_the_module_of_a_torch_module_and_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"nets{next(names)}"
    package = tmp_path / own
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text("HIDDEN = 3\n")
    (package / "net.py").write_text(
        "import math\nfrom torch import nn\nfrom .sizes import HIDDEN\n\n\nclass Net(nn.Sequential):\n"
        "    def __init__(self, shape, classes):\n        super().__init__(nn.Flatten(), "
        "nn.Linear(math.prod(shape), HIDDEN), nn.Linear(HIDDEN, classes))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    experiment = tiny(rounds=1, model={"kind": "torch_module", "target": f"{own}.net:Net"})
    assert list(code_facts(experiment)) == [own, f"{own}.net", f"{own}.sizes"]  # found before it is imported
    assert not any(module.startswith(own) for module in sys.modules)
    run(experiment, tmp_path / "run")
    (package / "sizes.py").write_text("HIDDEN = 4\n")
    forget(own)
    with pytest.raises(InputError, match=r"sizes\.py: has changed since"):
        run(experiment, tmp_path / "run")
    forget(own)


SCRIPT = """\
import sys
import numpy as np
import fedroam as fr
from fedroam.mixing import Facts

POWER = {power}


def scaled(x):
    return x * POWER


@fr.register("objective", "scaled")
class Scaled(fr.Part):
    "Cross-entropy, scaled."

    def loss(self, module, x, y):
        from torch.nn import functional
        return scaled(functional.cross_entropy(module(x), y))


run = fr.run(fr.Experiment(clients=6, rounds=1, objective="scaled", data={{"kind": "digits", "test_share": 0.9}}),
             "out")
print({what})
"""


def test_of_a_script_only_what_its_parts_need_counts(tmp_path: Path) -> None:
    def played(power: float, what: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "study.py").write_text(SCRIPT.format(power=power, what=what))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [*python(), "study.py"], cwd=tmp_path, capture_output=True, text=True, env=environment
        )

    first = played(1.0, "'first'")
    assert first.returncode == 0, first.stderr
    other = played(1.0, "'what is done with results'")
    assert other.stdout == "what is done with results\n", other.stderr
    changed = played(2.0, "'never printed'")
    assert changed.stdout == ""
    assert "study.py: has changed since out was computed" in changed.stderr


def test_definitions_that_are_needed() -> None:
    source = "import a\nimport b\nX = a.one\nY = 2\ndef f():\n    return X\nclass C:\n    g = f\nprint(Y)\nX += 1\n"
    found = [line for line in _definitions(source, {"C"}).splitlines() if line]
    assert found == ["import a", "X = a.one", "def f():", "    return X", "class C:", "    g = f", "X += 1"]


OWN = "import a\nX = 1\nY = 2\nclass C:\n    x: 'Z' = X\nclass Z: pass\nclass D: pass\n"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("'What it is.'\n" + OWN.replace("Y = 2", "Y = 3").replace("D: pass", "D: y = 1"), True),
        (OWN.replace("X = 1", "X = 2"), False),
        (OWN.replace("Z: pass", "Z: z = 1"), False),
        (OWN + "a.switch(C)\n", False),  # it may change anything
        (OWN + "a.of = 1\n", False),
    ],
)
def test_what_parts_need_of_a_file_that_holds_more(text: str, same: bool) -> None:
    assert (_needed(text.encode(), {"C"}) == _needed(OWN.encode(), {"C"})) == same
    assert _needed(b"def f():\n    class C: pass\n", {"C"}) is None


def test_of_a_file_that_is_used_only_what_its_parts_need_counts(name: str, tmp_path: Path) -> None:
    """A study's claims stand beside its parts. In a folder of before that was told apart, all of the file counts."""
    run(again(name, tmp_path), tmp_path / "run")
    path = tmp_path / f"{name}.py"
    path.write_text(path.read_text() + "\n\nCLAIM = 'It drifts.'\n")
    assert run(again(name, tmp_path), tmp_path / "run").done
    of_before_there_was_a_manifest(tmp_path / "run")
    environment = tmp_path / "run" / "environment.json"
    facts = json.loads(environment.read_text())
    del facts["code"][name]["needed"]
    environment.write_text(json.dumps(facts))
    with pytest.raises(InputError, match=f"{name}.py: has changed since"):
        run(again(name, tmp_path), tmp_path / "run")


def test_the_command_line_says_so_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    call = Commands(tmp_path, capsys)
    words = (
        "run",
        "tiny.toml",
        "--use",
        f"{name}.py",
        "--set",
        f"mobility={name}",
        "--out",
        "out",
        "--no-report",
    )
    assert call(*words, "-q").code == 0
    assert "reused" in call(*words, "-q").out
    (tmp_path / f"{name}_deeper.py").write_text("STEP = 2.0\n")
    forget(name)
    answer = call(*words, "-q")
    assert answer.code == 2
    assert answer.err.startswith(
        f"error: {tmp_path / name}_deeper.py: has changed since out/seed-0 was computed"
    )
    assert len(answer.err.splitlines()) == 1
    forget(name)
    assert call(*words, "-q", "--fresh").code == 0
