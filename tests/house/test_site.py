"""The documentation as pages: built without a warning, whole, and without an address outside."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fedroam
from fedroam.components import kinds, load_rooms
from support.chromium import browse, needs_chromium
from support.pages import PAGES, ROOT

DOCS = ROOT / "docs"
# What has formulas of its own; sources of data, networks, engines and places have none.
FAMILIES = (
    "mobility", "activity", "contacts", "mixing", "aggregation", "attack", "federation", "partition", "radio",
    "link", "compute", "motion", "battery", "clock", "training", "objective"
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make site` builds it: a warning is an error."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    told = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_it_and_in_its_contents(site: Path) -> None:
    contents = (site / "index.html").read_text(encoding="utf-8")
    for page in PAGES:
        beside = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
        name = beside.get(page, page.removeprefix("docs/"))
        built = name.replace(".md", ".html")
        assert (site / built).exists(), f"{page} is not built"
        assert f'href="{built}"' in contents or built == "index.html", f"{page} is not in nav of mkdocs.yml"


def test_nothing_is_loaded_from_outside(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*(?:src|href)="(https?:[^"]*)"', text)
        assert not [each for each in loaded if "canonical" not in each], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", style.read_text(encoding="utf-8")), style.name


def test_formulas_are_maths_and_pictures_are_there(site: Path) -> None:
    rules = (site / "rules.html").read_text(encoding="utf-8")
    assert rules.count("<math") > 100
    assert "$" not in re.sub(r"<(script|code)\b.*?</\1>", "", rules, flags=re.DOTALL)
    for page in site.rglob("*.html"):
        for picture in re.findall(r'<img[^>]*src="([^"]+)"', page.read_text(encoding="utf-8")):
            assert (page.parent / picture).exists(), f"{page.name}: {picture}"


def test_the_reference_has_every_public_name(site: Path) -> None:
    built = (site / "python.html").read_text(encoding="utf-8")
    for name in fedroam.__all__:
        if name != "__version__":
            assert re.search(rf'id="fedroam\.[\w.]*\b{name}"', built), f"docs/python.md lacks {name}"
    assert "Explanation" in (site / "index.html").read_text(encoding="utf-8")


MEASURED = """<iframe src="results/index.html" width="1366" height="900" onload="
  const right = (what) => this.contentDocument.querySelector(what).getBoundingClientRect().right;
  document.title = `cut: ${right('.counts th:last-child') > right('.counts') + 1}`"></iframe>"""


@needs_chromium[0]
@needs_chromium[1]
def test_the_table_of_all_results_fits_a_screen(site: Path, tmp_path: Path) -> None:
    (site / "measured.html").write_text(MEASURED, encoding="utf-8")
    more = (
        "--allow-file-access-from-files",
        "--virtual-time-budget=5000",
        "--window-size=1400,1000",
        "--dump-dom",
    )
    shown = browse((site / "measured.html").as_uri(), tmp_path, *more).stdout
    assert "<title>cut: false</title>" in shown, re.findall("<title>.*?</title>", shown)


def test_every_rule_has_its_maths() -> None:
    load_rooms()
    headings = re.findall(r"^### (.+)$", PAGES["docs/rules.md"], re.MULTILINE)
    told = {name.strip() for heading in headings for name in heading.split(",")}
    ours = {
        f"{family}.{kind}"
        for family in FAMILIES
        for kind, cls in kinds(family).items()
        if cls.__module__.startswith("fedroam.")
    }
    assert told == ours


def test_the_notebook_runs_as_it_stands() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    traitlets = pytest.importorskip("traitlets.config")
    kept = nbformat.read(DOCS / "first-steps.ipynb", 4)
    again = nbformat.from_dict(json.loads(json.dumps(kept)))
    # Sockets in the file system: ports would be found free some seconds before the kernel opens them.
    own = traitlets.Config({"KernelManager": {"transport": "ipc"}})
    nbclient.NotebookClient(again, timeout=1200, kernel_name="python3", config=own).execute()
    for before, after in zip(kept.cells, again.cells, strict=True):
        if before.cell_type == "code":
            # Last digits are the processor's; what kind of thing a cell shows is not.
            assert [_shape(output) for output in before.outputs] == [
                _shape(output) for output in after.outputs
            ]


def _shape(output: Any) -> tuple[str, tuple[str, ...]]:
    return output.output_type, tuple(sorted(output.get("data", {})))


@pytest.fixture
def gallery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_gallery", DOCS / "gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gallery_is_its_record_of_the_very_files(gallery: ModuleType) -> None:
    record = json.loads((DOCS / "gallery" / "record.json").read_text(encoding="utf-8"))
    assert PAGES["docs/gallery.md"] == gallery.page(record)
    assert {path.stem for path in (DOCS / "gallery").glob("*.toml")} == set(record["studies"])
    for name, found in record["studies"].items():
        assert gallery.digest(fedroam.plan(str(gallery.source(name)))) == found["digest"], name
        assert (DOCS / "images" / f"gallery-{name}.png").exists()
