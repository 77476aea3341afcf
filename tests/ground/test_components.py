from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fedroam import components
from fedroam.components import (
    FAMILIES,
    Part,
    build,
    field,
    identity_settings,
    jsonable,
    kinds,
    lookup,
    plain,
    register,
    unit_of,
    use,
)
from fedroam.errors import FedroamError, InputError, MissingExtraError, unknown
from fedroam.experiment import Experiment


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parts registered in a test are forgotten after it, and only those."""
    components.load_rooms()
    monkeypatch.setattr(
        components, "_registry", {f: dict(known) for f, known in components._registry.items()}
    )
    return


class Halve(Part):
    """Halves."""

    factor: float = field(0.5, "what to multiply with", unit="m/s", gt=0, le=1)
    names: tuple[str, ...] = field((), "some names")
    steps: int | None = field(None, "how many", ge=1)
    threads: int = field(0, "how fast", identity=False, ge=0)

    def loss(self, module: Any, x: Any, y: Any) -> Any:
        """See `Objective.loss`."""


def halve(**settings: Any) -> Part:
    register("objective", "halve", source="nobody")(Halve)
    return build("objective", {"kind": "halve", **settings})


def test_register_names_a_class() -> None:
    part = halve(factor=0.25)
    assert isinstance(part, Halve)
    assert (Halve.kind, Halve.family, Halve.source) == ("halve", "objective", "nobody")
    assert lookup("objective", "halve") is Halve
    assert "halve" in kinds("objective")
    assert list(kinds("objective")) == sorted(kinds("objective"))
    assert unit_of(Halve.model_fields["factor"]) == "m/s"


def test_a_kind_is_taken_once_but_a_file_may_be_loaded_again() -> None:
    register("objective", "halve")(Halve)
    register("objective", "halve")(Halve)

    class Other(Halve):
        """Another."""

    with pytest.raises(InputError, match=r"objective kind 'halve' is already taken by .*Halve"):
        register("objective", "halve")(Other)


def test_register_checks_family_and_methods() -> None:
    with pytest.raises(InputError, match=r"unknown family of parts 'objectiv': .*did you mean 'objective'\?"):
        register("objectiv", "x")
    with pytest.raises(InputError, match=r"mixing 'x' \(Halve\) lacks the method\(s\) weights"):
        register("mixing", "x")(Halve)


def test_build_takes_a_part_a_name_or_a_table() -> None:
    part = halve(names=["a", "b"])
    assert build("objective", part) is part
    assert (
        build("objective", "cross_entropy")
        == build("objective", {})
        == build("objective", {"kind": "cross_entropy"})
    )
    assert part.settings() == {"kind": "halve", "factor": 0.5, "names": ("a", "b"), "threads": 0}
    assert build("objective", part.settings()) == part
    assert halve(factor=1).settings()["factor"] == 1.0  # a whole number where a fraction is wanted
    assert isinstance(halve(factor=1).settings()["factor"], float)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"kind": "halv"},
            "unknown objective kind 'halv': allowed are cross_entropy, halve; did you mean 'halve'?",
        ),
        ({"kind": 3}, "objective.kind = 3: allowed is the name of a kind"),
        (7, "[objective]: found 7, allowed is the name of a kind or a table of settings"),
        (
            {"kind": "halve", "factr": 1.0},
            "objective.factr: unknown key of objective kind 'halve' 'factr': allowed are",
        ),
        ({"kind": "halve", "factr": 1.0}, "did you mean 'factor'?"),
        ({"kind": "halve", "factor": 2.0}, "objective.factor = 2.0: input should be less than or equal to 1"),
        ({"kind": "halve", "factor": 0}, "objective.factor = 0: input should be greater than 0"),
        (
            {"kind": "halve", "factor": math.nan},
            "objective.factor = nan: allowed is a number",
        ),
        ({"kind": "halve", "factor": "0.5"}, "objective.factor = '0.5': input should be a valid number"),
        ({"kind": "halve", "factor": True}, "objective.factor = True: input should be a valid number"),
        ({"kind": "halve", "steps": 1.5}, "objective.steps = 1.5"),
        ({"kind": "halve", "steps": True}, "objective.steps = True"),
        ({"kind": "halve", "factor": 2.0}, "(what to multiply with, m/s)"),
        ({"kind": "halve", "names": "ab"}, "objective.names = 'ab'"),
        ({"kind": "halve", "names": [1]}, "objective.names.0 = 1"),
    ],
)
def test_wrong_settings_are_one_clear_line(value: Any, message: str) -> None:
    halve()
    with pytest.raises(InputError) as caught:
        build("objective", value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_part_of_another_family_cannot_stand_here() -> None:
    with pytest.raises(InputError, match=r"\[mixing\]: a objective part cannot stand here"):
        build("mixing", halve())


def test_a_required_field_is_asked_for() -> None:
    class Needs(Halve):
        """Needs a path."""

        path: str = field(..., "the file")

    register("objective", "needs")(Needs)
    with pytest.raises(
        InputError, match=r"objective.path: missing; objective kind 'needs' needs it \(the file\)"
    ):
        build("objective", "needs")


def test_parts_are_frozen() -> None:
    part = halve()
    with pytest.raises(ValidationError):
        part.factor = 0.3  # type: ignore[attr-defined]


def test_identity_leaves_out_what_cannot_change_results() -> None:
    assert identity_settings(halve(threads=4)) == identity_settings(halve(threads=1))
    assert identity_settings(halve(factor=0.25)) != identity_settings(halve())
    assert "threads" not in identity_settings(halve())


def test_a_field_that_was_added_later_changes_no_digest_at_its_default() -> None:
    class Newer(Halve):
        """With a field that others of its kind did not have."""

        how: str = field("as before", "how", later=True)

    register("objective", "newer")(Newer)
    assert set(identity_settings(Newer())) == set(identity_settings(halve()))
    assert identity_settings(Newer(how="better"))["how"] == "better"
    assert Newer().settings()["how"] == "as before"


def test_plain_and_jsonable() -> None:
    assert plain([1, [2, [3]]]) == (1, (2, (3,)))
    assert jsonable({"a": (1, math.inf), "b": {"c": -math.inf}}) == {"a": [1, "inf"], "b": {"c": "-inf"}}


def test_every_family_has_a_place_in_an_experiment() -> None:
    from fedroam.experiment import Experiment

    assert set(FAMILIES) <= set(Experiment.model_fields)
    with pytest.raises(InputError, match="unknown family of parts 'mobilty'"):
        kinds("mobilty")


# --- a user's own file --------------------------------------------------------------------------------------------

OWN = """
from fedroam.components import Part, field, register

@register("objective", "own")
class Own(Part):
    "A user's own."
    weight: float = field(1.0, "a weight", ge=0)

    def loss(self, module, x, y):
        "See `Objective.loss`."
        return self.weight * module(x).mean()
"""


def test_use_loads_a_file_once_and_again(tmp_path: Path) -> None:
    file = tmp_path / "own_part.py"
    file.write_text(OWN)
    use(file)
    assert build("objective", {"kind": "own", "weight": 2.0}).settings()["weight"] == 2.0
    file.write_text(OWN.replace("1.0", "3.0"))
    use(str(file))
    assert build("objective", "own").settings()["weight"] == 3.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n1 / 0", "line 2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "line 1: SyntaxError"),
        ("import nothing_of_this_name", "line 1: ModuleNotFoundError"),
        (OWN.replace("objective", "objektive"), "unknown family of parts 'objektive'"),
        (OWN.replace("def loss", "def lass"), "lacks the method(s) loss"),
        (
            OWN.replace("    def loss", "    needs = (1,)\n    def loss"),
            "needs = ... has no type: write needs: ClassVar = ... if it is no setting, and needs: TYPE = field(...)",
        ),
        (OWN.replace('"own"', '"nan"'), "objective kind 'nan': allowed is a name of letters"),
        (OWN.replace('"own"', '"3d"'), "objective kind '3d': allowed is a name of letters"),
        (OWN.replace('"own"', '""'), "objective kind '': allowed is a name of letters"),
        (OWN.replace('"own"', "7"), "register: kind: found 7 (int), allowed is a name of letters"),
        (OWN.replace('"own"', '"cross_entropy"'), "objective kind 'cross_entropy' is already taken"),
    ],
)
def test_a_broken_file_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "own_part.py"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        use(file)
    assert message in str(caught.value)


def test_a_file_that_ends_the_program_is_told(tmp_path: Path) -> None:
    """As a script does that reads its own command line where it is loaded."""
    file = tmp_path / "own_script.py"
    file.write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(InputError, match=r"own_script.py, line 2: SystemExit: 0"):
        use(file)


def test_a_kind_of_two_files_names_the_first(tmp_path: Path) -> None:
    """As where one file lies under two names."""
    first, second = tmp_path / "own_first.py", tmp_path / "own_second.py"
    for file in (first, second):
        file.write_text(OWN)
    use(first)
    with pytest.raises(InputError, match=rf"objective kind 'own' is already taken by .* of {first}"):
        use(second)


def test_use_needs_a_python_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        use(tmp_path / "none.py")
    (tmp_path / "part.txt").write_text("")
    with pytest.raises(InputError, match=r"not a Python file \(its name must end in .py\)"):
        use(tmp_path / "part.txt")


# --- errors -------------------------------------------------------------------------------------------------------


def test_unknown_names_list_the_known_and_the_nearest() -> None:
    assert str(unknown("colour", "gren", ["red", "green"])) == (
        "unknown colour 'gren': allowed are green, red; did you mean 'green'?"
    )
    assert str(unknown("colour", "xyz", ["red"])) == "unknown colour 'xyz': allowed are red"
    assert str(unknown("colour", "x", [])) == "unknown colour 'x': allowed are (none)"


def test_the_tree_of_errors() -> None:
    missing = MissingExtraError("Ray", "ray")
    assert isinstance(missing, InputError)
    assert isinstance(missing, FedroamError)
    assert (
        str(missing)
        == "Ray needs an optional package: in the clone of fedroam, pip install -c constraints.txt '.[ray]'"
    )


def test_a_subclass_without_a_registration_of_its_own_is_refused() -> None:
    """It inherits `kind`, so its runs would have its parent's digest, and the parent's run would be its result."""
    from fedroam.mobility.grid import Random

    class Mine(Random):
        """A pattern of one's own."""

    with pytest.raises(InputError, match=r"Mine is not registered.*@register\(\"mobility\", \"NAME\"\)"):
        Experiment(mobility=Mine())
    named = register("mobility", "test_mine")(Mine)
    try:
        assert Experiment(mobility=named()).digest != Experiment(mobility=Random()).digest
    finally:
        del components._registry["mobility"]["test_mine"]


NEEDED_BY_FEW = (
    "pandas", "scipy.spatial", "scipy.special", "scipy.linalg", "scipy.sparse.csgraph", "PIL", "pooch", "sklearn"
)  # fmt: skip


def test_a_part_is_looked_up_without_loading_the_rooms_behind_its_own() -> None:
    """In a process of its own. Reading data can begin before most of fedroam is there."""
    code = """\
import sys
import fedroam.components
print(fedroam.components.lookup("data", "mnist").kind, "fedroam.federation" in sys.modules)
print(fedroam.components.lookup("federation", "fedavg").kind, "fedroam.execution" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["mnist False", "fedavg False"]


def test_while_the_rooms_are_loaded_nothing_is_collected_and_what_few_parts_need_is_not_loaded() -> None:
    """Afterwards the collector works as before; where somebody has taken it in hand, it is left alone.

    In a process of its own, which forgets our modules between the three: libraries are loaded but once. What one part
    of many imports where it needs it keeps no start of any other waiting.
    """
    code = f"""\
import gc, sys
import fedroam.components
fedroam.components.load_rooms()
print([name for name in {NEEDED_BY_FEW} if name in sys.modules])
for begin in ("", "gc.disable()", "gc.freeze()"):
    for name in [each for each in sys.modules if each.partition(".")[0] == "fedroam"]:
        del sys.modules[name]
    from fedroam.components import load_rooms
    gc.collect()
    gc.enable()
    exec(begin)
    seen = []
    watch = lambda phase, facts: seen.append(phase)
    gc.callbacks.append(watch)
    anew = "fedroam.mobility.grid" not in sys.modules
    load_rooms()
    gc.callbacks.remove(watch)
    print(anew and "fedroam.mobility.grid" in sys.modules, bool(seen), gc.isenabled(), min(gc.get_freeze_count(), 1))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Whether it was loaded anew; whether anything was collected; whether the collector works; what is frozen.
    told = ["True False True 0", "True False False 0", "True True True 1"]
    assert done.stdout.splitlines() == ["[]", *told]


@pytest.mark.parametrize(
    "load",
    [
        "import fedroam.sweep.loading",
        "import fedroam; fedroam.run_sweep",
        "import fedroam; fedroam.Experiment",
    ],
)
def test_what_a_worker_or_a_script_loads_is_not_looked_through_for_garbage(load: str) -> None:
    """In a process of its own; afterwards the collector works, and what was loaded counts as old."""
    code = f"""\
import gc, sys
import fedroam.components
gc.collect()
seen = []
watch = lambda phase, facts: seen.append("torch" in sys.modules)
gc.callbacks.append(watch)
{load}
gc.callbacks.remove(watch)
print("torch" in sys.modules, any(seen), gc.isenabled(), gc.get_freeze_count(), len(gc.get_objects(0)) < 1000)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{not load.endswith('Experiment')} False True 0 True\n"


def test_a_run_needs_pandas_at_no_time_and_little_else_before_its_first_round(tmp_path: Path) -> None:
    """In a process of its own, by the command: only its last table, which is none of the run's, asks for pandas.
    pyarrow would load it with the first table that is written, and did."""
    code = f"""\
import sys
from fedroam import runner
from fedroam.cli import main
def told(name):
    known = getattr(runner, name)
    def tell(*given):
        print(name, [each for each in {NEEDED_BY_FEW} if each in sys.modules])
        return known(*given)
    setattr(runner, name, tell)
told("play_round")
told("open_run")
sys.exit(main(["run", "tiny.toml", "--no-report", "--quiet", "--set", "clock.kind=seconds"]))
"""
    settings = "rounds = 1\nfederation = 'fedavg'\nmodel = 'softmax_regression'\n"
    (tmp_path / "tiny.toml").write_text(settings, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[:2] == ["play_round []", "open_run []"]
