"""README and docs/ are run: every fenced block is executed or checked, every link and name exists.

What a block's language means:
- python: run, in order, in one namespace a page; with a first line `# some_name.py` it is saved under that name.
- bash: every `fedroam ...` line is run in this process, in the page's own folder; nothing else may stand there.
  (Reports are written in the tutorial only: their figures take a second each, and have tests of their own.)
- toml: resolved as an experiment; with a first line `# some_name.toml` it is saved, too.
- text: not run.
A comment on the line before a block changes that:
- `<!-- test: skip REASON -->`: bash only, for set-up and for what downloads; names in it are still checked.
- `<!-- test: data -->`: run where FEDROAM_DATA is set.
- `<!-- test: add WORDS -->`: these words are added to every `fedroam run` of the block, to shorten it.
- `<!-- test: exit N -->`: the commands of the block end with this code.
- `<!-- test: output -->`: text only: every line stands in what the last bash or python block printed.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer

import fedroam
from fedroam import components
from fedroam.analysis.formatting import size
from fedroam.cli import app, main
from fedroam.planning import named_experiments, plan
from house.test_flow import ORDER
from support.pages import PAGES, ROOT, Block, blocks, command_lines, prose, slug, words_of
from support.warm import python

WRITTEN = [name for name in PAGES if name != "CONTRIBUTING.md"]  # whose blocks are run
DATA = bool(os.environ.get("FEDROAM_DATA"))


class Page:
    """A page being run: its namespace, its folder, and what the last block printed."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.names: dict[str, Any] = {"__name__": "page"}
        self.folder = folder
        self.capsys = capsys
        self.printed = ""

    def play(self, block: Block) -> None:
        """Run or check one block."""
        allowed = {
            "python": {"", "data"},
            "bash": {"", "data", "skip", "add", "exit"},
            "toml": {""},
            "text": {"", "output"},
        }
        assert block.language in allowed, (
            f"{block.where}: language {block.language!r} is not one of {[*allowed]}"
        )
        assert block.action in allowed[block.language], f"{block.where}: {block.action!r} has no meaning here"
        if block.action == "skip":
            assert len(block.words) > 5, f"{block.where}: skipped without a reason"
        elif block.action != "data" or DATA:
            getattr(self, block.language)(block)

    def python(self, block: Block) -> None:
        """Run Python, or save it."""
        code = compile(block.text, block.where, "exec")
        if block.file:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
            return
        exec(code, self.names)
        self.printed = "".join(self.capsys.readouterr())

    def bash(self, block: Block) -> None:
        """Run every line, which must be a fedroam command."""
        wanted = int(block.words) if block.action == "exit" else 0
        self.printed = ""
        for line in command_lines(block.text):
            words = words_of(line)
            assert words[0] == "fedroam", f"{block.where}: {line!r} is no fedroam command; mark the block"
            if block.action == "add" and words[1] == "run":
                words += shlex.split(block.words)
            if words[1] == "run" and "tutorial" not in block.where:
                words.append("--no-report")
            code = main(words[1:])
            said = "".join(self.capsys.readouterr())
            assert code == wanted, f"{block.where}: {line!r} ends with {code}, not {wanted}:\n{said}"
            self.printed += said

    def toml(self, block: Block) -> None:
        """Resolve it as an experiment file, and save it if it has a name."""
        if block.file:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
        settings = tomllib.loads(block.text)
        (fedroam.sweep_plan if "sweep" in settings else plan)(settings)

    def text(self, block: Block) -> None:
        """Every line of an output block was printed (however it was folded)."""
        if block.action == "output":
            printed = " ".join(self.printed.split())
            for line in block.text.splitlines():
                assert " ".join(line.split()) in printed, f"{block.where}: {line!r} not in\n{self.printed}"


@pytest.fixture
def own_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parts that a page registers are forgotten afterwards, and so are the modules it made."""
    components.load_rooms()
    monkeypatch.setattr(components, "_registry", {k: dict(v) for k, v in components._registry.items()})
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("fedroam_use_") or name == "my_network":
            del sys.modules[name]


def nodes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What forks the nodes of an emulated site has loaded already what it needs."""
    from fedroam.deploy.emulation import processes

    begun = processes._begun

    def at_once(words: Sequence[str], *, heard: bool = False) -> subprocess.Popen[bytes]:
        return begun([*python(), *words[1:]], heard=heard)

    monkeypatch.setattr(processes, "_begun", at_once)


@pytest.mark.parametrize("page", WRITTEN)
@pytest.mark.usefixtures("own_parts")
def test_every_block_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    if "fedroam emulate" in PAGES[page]:
        nodes_at_once(monkeypatch)
    state = Page(tmp_path, capsys)
    for block in blocks(page):
        try:
            state.play(block)
        except Exception as error:
            raise AssertionError(f"{block.where}: {type(error).__name__}: {error}") from error


@functools.cache  # pages ask one after another
def commands() -> set[str]:
    """Every command, such as 'run' and 'data info', and every group, such as 'data'."""

    def below(group: Any, path: str) -> Iterator[str]:
        for name, command in group.commands.items():
            yield f"{path} {name}".strip()
            if hasattr(command, "commands"):
                yield from below(command, f"{path} {name}".strip())

    return set(below(typer.main.get_command(app), ""))


def code_of(page: str) -> list[str]:
    """What a page says in code: the lines of its bash blocks and its inline code."""
    inline = re.findall(r"`([^`\n]+)`", prose(page))
    return [*inline, *(line for b in blocks(page) if b.language == "bash" for line in command_lines(b.text))]


@pytest.mark.parametrize("page", PAGES)
def test_commands_experiments_and_targets_that_are_named_exist(page: str) -> None:
    targets = set(
        re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    known, experiments = commands(), named_experiments()
    for text in code_of(page):
        for make in re.finditer(r"(?:^|&& |bin/)make((?: [a-z]+)+)", text):
            assert set(make[1].split()) <= targets, f"{page}: {text}: targets are {sorted(targets)}"
        for call in re.finditer(r"(?:^|[ /])fedroam ([a-z]+)(?: (\S+))?", text):
            first, second = call[1], call[2] or ""
            second = second if re.fullmatch(r"[a-z][a-z-]*", second) else ""
            if any(name.startswith(f"{first} ") for name in known):
                assert not second or f"{first} {second}" in known, (
                    f"{page}: {text}: commands are {sorted(known)}"
                )
            else:
                assert first in known, f"{page}: {text}: commands are {sorted(known)}"
            if first == "run" and second:
                assert second in experiments, f"{page}: {text}: experiments are {[*experiments]}"


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_resolve(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", prose(page)):
        link = "".join(target)
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        path = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        assert path.exists(), f"{page}: {link} leads nowhere"
        assert path.is_relative_to(ROOT), f"{page}: {link} leads out of the project"
        if anchor:
            anchors = [
                slug(h) for h in re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            ]
            assert anchor in anchors, f"{page}: {link}: anchors are {anchors}"


def test_every_page_is_linked_from_the_readme() -> None:
    """Those of a folder from its index."""
    for name in PAGES:
        folder, _, file = name.rpartition("/")
        index = f"{folder}/index.md"
        if index in PAGES and name != index:
            assert f"({file})" in PAGES[index], f"{index} does not link {name}"
        else:
            assert name == "README.md" or f"({name})" in PAGES["README.md"], f"README.md does not link {name}"


def test_every_public_name_is_documented() -> None:
    text = "\n".join(PAGES.values())
    missing = [name for name in fedroam.__all__ if not re.search(rf"(?:`|fr\.|fedroam\.){name}\b", text)]
    assert not missing, f"no page tells of {missing}"


NAMED = ("device", "site")  # columns of runs whose clients have names, as this one's have not


def test_every_column_of_a_run_is_documented(tmp_path: Path) -> None:
    run = fedroam.run(fedroam.Experiment(rounds=1, clients=4, mobility="static"), tmp_path / "run")
    concepts = PAGES["docs/concepts.md"]
    for table in ("rounds", "clients", "positions", "contacts", "partition", "matrices"):
        section = re.search(rf"^#+ `[\w/]*{table}\.parquet`\n(.*?)(?=^#)", concepts, re.DOTALL | re.MULTILINE)
        assert section, f"docs/concepts.md lacks a section on {table}.parquet"
        told = re.findall(r"^\| `(\w+)` \|", section[1], re.MULTILINE)
        there = [name for name in told if name not in NAMED]
        assert there == list(getattr(run, table).columns), f"docs/concepts.md: columns of {table}"
    for path in run.folder.rglob("*"):
        if path.is_file() and path.suffix != ".safetensors" and path.name != ".lock":
            assert path.name in concepts, f"docs/concepts.md does not tell of {path.name}"


def test_contributing_draws_the_flow_that_the_code_is_held_to() -> None:
    drawn = re.search(r"```text\n(errors.*?)```", PAGES["CONTRIBUTING.md"], re.DOTALL)
    assert drawn
    assert tuple(re.findall(r"\w+", drawn[1])) == tuple(name for name in ORDER if name != "__main__")


def script(name: str) -> ModuleType:
    """A program of `docs/`, as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date() -> None:
    module = script("generate")
    for name, make in module.GENERATED.items():  # those of kept runs: see test_results.py
        page = PAGES.get(f"docs/{name}", "")
        assert make(page) == page, f"docs/{name} is out of date: run `make docs`"


def test_the_readme_tells_what_the_quickstart_gave() -> None:
    """Its means and standard errors are those of the kept runs, which are of the quickstart as it is."""
    kept = json.loads((ROOT / "docs" / "records" / "quickstart.json").read_text(encoding="utf-8"))
    assert {line["digest"] for line in kept} == {run.experiment.digest for run in plan("quickstart").runs}

    def of(variant: str, what: str) -> np.ndarray:
        return np.array([line[what] for line in kept if line["variant"] == variant], dtype=np.float64)

    def told(values: np.ndarray, sign: str = "") -> str:
        return f"{values.mean():{sign}.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"

    readme = PAGES["README.md"].replace("\xa0", " ")
    rows = readme[readme.index("<!-- quickstart: begin -->") :].splitlines()[1:7]
    assert len(rows[2:]) == len({line["variant"] for line in kept})
    best = max(of(line["variant"], "final").mean() for line in kept)
    assert f"| Rounds to {90 * best:.1f} % |" in rows[0]
    for row, variant in zip(rows[2:], ("static", "random", "dam", "dcm"), strict=True):
        gains = 100 * (of(variant, "final") - of("static", "final"))
        rounds = of(variant, "rounds")
        assert row.strip("| ").split(" | ") == [
            variant,
            told(100 * of(variant, "final")),
            "–" if variant == "static" else told(gains, "+"),
            told(100 * of(variant, "mean_model")),
            "never" if np.isnan(rounds).all() else told(rounds),
            size(of(variant, "bytes").mean()).replace("\xa0", " "),
        ], "run `python docs/quickstart.py`"
    gains = of("random", "final") - of("static", "final")
    assert gains.mean() > 4.3 * gains.std(ddof=1) / np.sqrt(3)  # t, 2 degrees of freedom, 95 %


@pytest.mark.slow
def test_the_quickstart_gives_what_it_gave(tmp_path: Path) -> None:
    """Its first seed, within a point and a half: other processors round differently, and training magnifies that."""
    kept = json.loads((ROOT / "docs" / "records" / "quickstart.json").read_text(encoding="utf-8"))
    planned = plan("quickstart", seeds=1)
    runs = fedroam.run_plan(planned, tmp_path / "quickstart")
    assert len(runs) == len(kept) / 3 == 4
    for one, run in zip(planned.runs, runs, strict=True):
        (line,) = (line for line in kept if line["digest"] == one.experiment.digest)
        assert run.rounds["accuracy"].iloc[-1] == pytest.approx(line["final"], abs=0.015), line["variant"]


def test_the_page_on_attacks_tells_what_the_record_says() -> None:
    module = script("byzantine")
    kept = json.loads(module.RECORD.read_text(encoding="utf-8"))
    assert len(kept["seeds"]) >= 4
    page = module.PAGE.read_text(encoding="utf-8")
    assert module.tables(kept["accuracy"]) in page
    assert module.written(page, kept["accuracy"]) == page


def test_the_tutorial_tells_what_the_record_says() -> None:
    """Which is of its file as it is; its means and differences by hand."""
    module = script("tutorial")
    kept = json.loads(module.RECORD.read_text(encoding="utf-8"))
    page = module.PAGE.read_text(encoding="utf-8")
    digests = [run.experiment.digest for run in module.planned(page).runs]
    assert [line["digest"] for line in kept] == digests, "another file: run `python docs/tutorial.py`"
    assert module.written(page, kept) == page
    final = {(line["variant"], line["seed"]): 100 * line["final"] for line in kept}
    gains = np.array([final["three", seed] - final["nobody", seed] for seed in range(5)])
    error = gains.std(ddof=1) / np.sqrt(5)
    assert f"| {gains.mean():+.1f} ± {error:.1f} |" in module.table(kept)
    assert gains.mean() > 2.8 * error  # t, 4 degrees of freedom, 95 %: the page's verdict


def test_the_page_on_claims_tells_what_the_record_says() -> None:
    module = script("judged")
    kept = json.loads(module.RECORD.read_text(encoding="utf-8"))
    page = module.PAGE.read_text(encoding="utf-8")
    assert kept["study"] == module.digest(page), "another study was judged: run `python docs/judged.py`"
    assert module.written(page, kept["claims"]) == page
    assert f"from {kept['claims'][0]['n']} seeds" in page


def test_the_picture_is_small_and_shown() -> None:
    picture = ROOT / "docs" / "images" / "quickstart.png"
    assert picture.stat().st_size < 300_000
    assert "docs/images/quickstart.png" in PAGES["README.md"].split("## ")[0], "not on the first screen"
