"""`fedroam init`, `list`, `show`, `--help`: what the code says of itself, complete and cheap to ask for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fedroam
from fedroam import Experiment, components, plan
from fedroam.cli import known_parts, reference
from fedroam.cli.describe import fields_of, summary, toml_value, type_in_words
from fedroam.cli.entry import OLD
from fedroam.components import FAMILIES, kinds
from fedroam.planning import named_experiments
from support.commands import Commands, contents
from support.warm import python

EVERY = [(family, kind) for family in FAMILIES for kind in kinds(family)]


@pytest.fixture
def fr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(tmp_path, capsys)


def words(text: str) -> str:
    """Text without the folding of tables."""
    return " ".join(text.split())


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], ["run"], ["rnu"], []])
def test_help_and_usage_errors_do_not_import_torch(arguments: list[str]) -> None:
    heavy = "'torch', 'numpy', 'pandas', 'scipy', 'matplotlib'"
    code = f"import sys; from fedroam.cli import main; main({arguments})\n"
    code += f"print([m for m in ({heavy}) if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_only_the_whole_program_puts_off_looking_for_garbage() -> None:
    """And only through all that there is: what is young is looked through as always."""
    code = """\
import gc, sys
from fedroam.cli import main
found = [gc.get_threshold()]
main(["--version"])
found.append(gc.get_threshold())
sys.argv = ["fedroam", "--version"]
for _ in range(2):
    main()
    found.append(gc.get_threshold())
print(found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, called, program, again = ast.literal_eval(done.stdout.splitlines()[-1])
    assert called == before
    assert program == again == (*before[:2], OLD)


def test_version_and_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedroam", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"fedroam {fedroam.__version__}\n"


def test_help_without_arguments(fr: Commands) -> None:
    answer = fr()
    assert answer.code == 0
    assert "Usage: fedroam" in answer.out
    assert answer.err == ""


def test_a_reader_that_stops_reading_is_no_error() -> None:
    listing = subprocess.Popen(
        [*python(), "-m", "fedroam", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert listing.stdout is not None
    listing.stdout.close()
    assert listing.stderr is not None
    assert listing.stderr.read() == b""
    assert listing.wait() == 0


def test_list_covers_everything(fr: Commands) -> None:
    answer = fr("list")
    assert answer.code == 0
    text = words(answer.out)
    for family, kind in EVERY:
        assert f"{kind} {summary(kinds(family)[kind])}" in text, (family, kind)
    for family, about in FAMILIES.items():
        assert f"{family}: {about.about} (default: {about.default})" in answer.out
    for name in named_experiments():
        assert f"  {name} " in answer.out


def test_list_of_one_family(fr: Commands) -> None:
    answer = fr("list", "mixing")
    assert "metropolis" in answer.out
    assert "dirichlet" not in answer.out


@pytest.fixture(scope="module")
def told() -> known_parts.KnownParts:
    """What the code tells of itself, asked once for all parts that are shown."""
    return known_parts.asked([])


@pytest.mark.parametrize(("family", "kind"), EVERY)
def test_show_explains_every_field_of_every_part(
    family: str, kind: str, fr: Commands, told: known_parts.KnownParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_parts, "asked", lambda use: told)  # other tests of `show` ask anew
    answer = fr("show", f"{family}.{kind}")
    assert answer.code == 0
    text, part = words(answer.out), kinds(family)[kind]
    assert len(summary(part)) > 10
    assert summary(part) in text
    if part.source:
        assert words(part.source) in text
    facts = fields_of(part)
    assert [one.name for one in facts] == list(part.model_fields)
    table = answer.out.partition("\n setting ")[2].splitlines()
    for one in facts:
        assert one.about, f"{family}.{kind}.{one.name} says nothing of itself"
        row = next(line for line in table if line.startswith(f" {one.name} "))
        assert one.shown_default.split()[0][:12] in row
        assert one.unit in row
        assert one.type.split()[0] in row
    alone = fr("show", kind)
    assert answer.out in alone.out


def test_show_experiment_explains_the_top_level(fr: Commands) -> None:
    answer = fr("show", "experiment")
    rows = {line.split()[0] for line in answer.out.splitlines() if line.startswith(" ") and line[1] != " "}
    assert rows - {"setting"} == set(Experiment.model_fields) - set(FAMILIES)


def test_show_family_and_named_experiment(fr: Commands) -> None:
    assert "mobility.static" in fr("show", "mobility").out
    shown = fr("show", "quickstart").out
    assert "static/seed-0" in shown
    assert named_experiments()["quickstart"].read_text().rstrip() in shown


def test_a_kind_of_two_families_is_shown_twice(fr: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    both = {**components._registry["contacts"], "metropolis": components._registry["mixing"]["metropolis"]}
    monkeypatch.setitem(components._registry, "contacts", both)
    shown = fr("show", "metropolis").out
    assert "contacts.metropolis" in shown
    assert "mixing.metropolis" in shown


def test_types_limits_and_values_in_words() -> None:
    facts = {one.name: one for one in fields_of(kinds("training")["sgd"])}
    assert facts["momentum"].allowed == "number >= 0 and < 1"
    assert facts["momentum_state"].allowed == '"kept" | "reset"'
    assert facts["steps"].shown_default == "(not set)"
    assert facts["drop_last"].shown_default == "false"
    assert facts["weight_decay"].allowed == "number >= 0 and < 1e+06"
    hidden = fields_of(kinds("model")["mlp"])[0]
    assert (hidden.allowed, hidden.shown_default) == ("list of: whole number > 0", "[64]")
    seed = next(one for one in fields_of(Experiment) if one.name == "seed")
    assert seed.allowed == "whole number >= 0 and < 2^62"
    assert type_in_words(tuple[int, float]) == "list of 2: whole number, number"
    assert type_in_words(int | None) == "whole number"


@pytest.mark.parametrize(
    "value", [1, 0.1, 1e-30, float("inf"), "a \"b'", True, [1, 2], [], {}, {"a b": [1]}, [["x"], ["y"]]]
)
def test_values_read_back_from_toml(value: object) -> None:
    assert tomllib.loads(f"v = {toml_value(value)}")["v"] == value


def test_the_starter_file_is_the_default_experiment(fr: Commands) -> None:
    answer = fr("init", "mine.toml")
    assert answer.code == 0
    (run,) = plan("mine.toml").runs
    assert run.experiment.digest == Experiment().digest
    assert run.experiment.name == "mine"
    text = (fr.folder / "mine.toml").read_text()
    raw = tomllib.loads(text)
    for name, info in Experiment.model_fields.items():
        assert name in raw or (info.default is None and f"\n# {name}" in text)  # TOML has no word for nothing
        assert name in FAMILIES or (info.description or "")[:40] in text
    for family, about in FAMILIES.items():
        assert raw[family]["kind"] == about.default
        section = words(text.partition(f"\n[{family}]\n")[2].partition("\n[")[0].replace("\n#", " "))
        for kind in kinds(family):
            assert kind in section, f"[{family}] does not mention {kind}"
        for one in fields_of(kinds(family)[about.default]):
            assert f"{one.name} =" in section
            assert one.about in section


def test_the_starter_files_comments_are_settings_that_work(fr: Commands) -> None:
    """What is commented out for later use is right when the comment sign is taken away."""
    fr("init", "mine.toml")
    lines = (fr.folder / "mine.toml").read_text().splitlines()
    tail = lines.index("# [variants.static]")
    live = [line.removeprefix("# ") if line.startswith("# seeds") else line for line in lines[:tail]]
    live += [line.removeprefix("#").removeprefix(" ") for line in lines[tail:]]
    fr.write("more.toml", "\n".join(live))
    assert len(plan("more.toml").runs) == 6


def test_init_has_a_default_name(fr: Commands) -> None:
    assert fr("init").code == 0
    assert (fr.folder / "experiment.toml").exists()


def test_the_reference_names_every_command_and_option() -> None:
    import typer

    from fedroam.cli import app

    text = reference()
    root = typer.main.get_command(app)
    found = 0
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {"": command})
        for sub, leaf in inner.items():
            found += 1
            section = text.partition(f"## fedroam {name} {sub}".rstrip() + "\n")[2].partition("\n## ")[0]
            assert section, f"{name} {sub}"
            for parameter in leaf.params:
                assert parameter.help, f"{name} {sub} {parameter.name} has no help"
                assert "[" not in parameter.help, "rich would take it for markup"
                if parameter.param_type_name == "option" and parameter.name != "help":
                    for option in parameter.opts:
                        assert option in section
    assert found == text.count("\n## fedroam")
    assert "130" in text


def test_a_full_disk_leaves_no_starter_file(fr: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    before = contents(fr.folder)
    monkeypatch.setattr("os.fsync", full)
    answer = fr("init", "own.toml")
    assert answer.code == 2
    assert answer.err == "error: own.toml: cannot be written (No space left on device)\n"
    assert contents(fr.folder) == before


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_help_says_that_an_experiment_file_is_a_program(command: str, fr: Commands) -> None:
    assert "An experiment file is a program" in fr(command, "--help").out
    docs = Path(__file__).parents[2]
    for page in ("README.md", "docs/experiment-file.md", "docs/concepts.md"):
        assert re.search(
            r"experiment \*?file\*? is a program", (docs / page).read_text(encoding="utf-8"), re.I
        ), page
    assert "Who may connect to a Ray cluster runs code on it" in (docs / "docs/sweeps.md").read_text(
        encoding="utf-8"
    )
