"""The package as it would be uploaded: built, checked, and installed where nothing else of it is."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import fedroam
from support.pages import ROOT

SMOKE = """\
import runpy
import sys
import fedroam as fr
assert fr.__file__.startswith(sys.prefix), fr.__file__
run = fr.run(fr.Experiment(clients=6, rounds=2, evaluate_every=1), "run")
assert list(run.rounds["round"]) == [0, 1, 2]
from fedroam.analysis.report.report import write_report
print(write_report([run], "run"))
sys.argv = ["fedroam", "list"]
runpy.run_module("fedroam", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, and the wheel made from it."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source") / "fedroam"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: which files belong to the package is not known")
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_it_holds_what_is_needed_and_no_more(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    ours = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "fedroam").rglob("*.py")}
    assert ours <= set(names)
    for needed in ("fedroam/py.typed", "fedroam/experiments/quickstart.toml"):
        assert needed in names
    assets = (ROOT / "src" / "fedroam" / "analysis" / "report" / "assets").iterdir()
    assert {f"fedroam/analysis/report/assets/{path.name}" for path in assets if path.is_file()} <= set(names)
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        assert f"fedroam-{fedroam.__version__}/README.md" in held.getnames()


def _described(wheel: Path) -> str:
    """What a package index would show of it."""
    held = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in held.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(held.read(metadata)).get_payload()


def test_its_description_needs_no_file_beside_it(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    shown = _described(wheel)
    assert shown.startswith("# fedroam\n")
    assert "<img" not in shown
    assert not re.findall(r"\]\((?!https?://|#)[^)]*\)", shown)
    assert "| Tutorial | from nothing to a judged comparison |" in shown


def test_with_the_repository_s_address_its_picture_and_links_lead_there() -> None:
    described = runpy.run_path(str(ROOT / "setup.py"))["description"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = described(readme, "https://example.org/we/fedroam")
    assert '<img src="https://example.org/we/fedroam/raw/main/docs/images/quickstart.png" width' in shown
    assert "[Tutorial](https://example.org/we/fedroam/blob/main/docs/tutorial.md)" in shown
    assert not re.findall(r"\]\((?!https?://|#)[^)]*\)|src=\"(?!https://)", shown)


def test_its_description_would_be_accepted(built: Path) -> None:
    pytest.importorskip("twine")
    files = [str(path) for path in built.iterdir()]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_runs_where_nothing_else_of_it_is(built: Path, tmp_path: Path) -> None:
    """In an environment of its own, with the dependencies of this one and without this checkout."""
    venv.create(tmp_path / "own", with_pip=False)
    python = tmp_path / "own" / ("Scripts" if os.name == "nt" else "bin") / "python"
    (wheel,) = built.glob("*.whl")
    home = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    install = ["install", "--quiet", "--no-deps", "--no-index", "--target", str(home), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    (home / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    told = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-c", SMOKE], cwd=tmp_path, env=told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").exists()
    assert "quickstart" in done.stdout
