"""The studies that come with fedroam: found by name, the same however modules are imported, and unchanged by use."""

from __future__ import annotations

import json
import os
import pkgutil
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import fedroam.papers
import fedroam.study
from fedroam.errors import InputError
from fedroam.papers import find_study, studies
from fedroam.study import evaluate_study
from fedroam.study.presentation.tables import as_json

MODULES = sorted(
    found.name
    for room in (fedroam.study, fedroam.papers)
    for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
)
SHOW = """
import importlib, json, sys


def told():
    "Variants with their settings, and which are needed, of each study at each scale."
    found = {}
    for study in importlib.import_module("fedroam.papers").studies().values():
        for scale in study.scales:
            changes = {v: c(scale) if callable(c) else c for v, c in study.variants.items()}
            found[f"{study.name}, {scale}"] = [list(changes.items()), study.needs(scale)]
    return found


answers = []
for order in json.load(sys.stdin):
    for name in [name for name in sys.modules if name.startswith(("fedroam.study", "fedroam.papers"))]:
        del sys.modules[name]
    for name in order:
        importlib.import_module(name)
    answers.append(told())
print(json.dumps(answers))
"""


def test_studies_are_the_same_in_whatever_order_modules_are_imported() -> None:
    orders = [[], MODULES, MODULES[::-1], random.Random(0).sample(MODULES, len(MODULES))]
    found = subprocess.run(
        [sys.executable, "-c", SHOW],
        input=json.dumps(orders),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    first, *others = json.loads(found.stdout)
    assert len(first["mohawk, full"][0]) == 135
    for other in others:
        assert other == first


def modules() -> list[ModuleType]:
    return [import_module(name) for name in MODULES]


def frozen(value: object) -> object:
    """Containers all the way down, as what can be compared later."""
    if isinstance(value, dict):
        return [(frozen(key), frozen(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [frozen(each) for each in value]
    if isinstance(value, set):
        return sorted(map(repr, value))
    return value


def containers() -> Iterator[tuple[str, object]]:
    """Every dict, list and set that a module of these rooms holds by a name of its own."""
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, dict | list | set) and not name.startswith("__"):
                yield f"{module.__name__}.{name}", frozen(value)


def test_no_module_keeps_anything_of_what_is_done_with_it() -> None:
    before = dict(containers())
    assert "fedroam.papers.mohawk.runs.TRACES" in before
    for study in studies().values():
        for scale in study.scales:
            as_json(evaluate_study(study, scale, range(2), lambda variant, seed: None))
            study.notes(scale)
        study.experiment(next(iter(study.variants)), "full", seed=1)
    assert dict(containers()) == before
    cached = [
        f"{module.__name__}.{name}"
        for module in modules()
        for name, value in vars(module).items()
        if hasattr(value, "cache_info") and value.__module__ == module.__name__
    ]
    assert cached == []


def test_a_study_file(tmp_path: Path) -> None:
    for text, words in (
        ("STUDY = 3", "must define STUDY, a fedroam.study.Study; it holds int"),
        ("1 +", "SyntaxError"),
    ):
        (tmp_path / "mine.py").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=words):
            find_study(str(tmp_path / "mine.py"))
    with pytest.raises(InputError, match=r"unknown study 'quickstrat'.*did you mean 'quickstart'"):
        find_study("quickstrat")
    taken = "from fedroam.papers import find_study\nSTUDY = find_study('quickstart')[0]\n"
    (tmp_path / "mine.py").write_text(taken, encoding="utf-8")
    with pytest.raises(InputError, match="the name 'quickstart' is taken"):
        find_study(str(tmp_path / "mine.py"))
    assert replace(find_study("quickstart")[0], name="mine").name == "mine"
    assert find_study("quickstart")[0].command == "fedroam reproduce quickstart"
    path = tmp_path / "my own.py"
    own = "from dataclasses import replace\nfrom fedroam.papers import find_study\n"
    path.write_text(f"{own}STUDY = replace(find_study('quickstart')[0], name='own')\n", encoding="utf-8")
    assert find_study(str(path))[0].command == f"fedroam reproduce '{path}'"  # not by its name


@pytest.mark.parametrize("name", studies())
def test_letters_in_the_names_of_variants_are_explained(name: str) -> None:
    """Of `random,m=5,Rc=3` each of m and Rc, as `m: clients that move`."""
    study = studies()[name]
    letters = {
        part.partition("=")[0] for variant in study.variants for part in variant.split(",") if "=" in part
    }
    assert [each for each in letters if not re.search(rf"(?<!\w){re.escape(each)}: ", study.codes)] == []
