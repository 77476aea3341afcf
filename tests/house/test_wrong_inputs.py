"""What the user gets wrong: one line that says what, what was found and what is allowed; exit code 2; no trace.

Each case prepares a folder, then gives the command line and what its one line must say. Whatever the case, the
folder must be exactly as before: nothing half-written, nothing touched.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fedroam.randomness import stream
from support.commands import TINY, Commands, contents
from support.run_folders import of_before_there_was_a_manifest
from support.warm import python

Case = Callable[[Commands], tuple[list[str], list[str]]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    CASES[make.__name__] = make
    return make


def setting(name: str, assignment: str, *wanted: str) -> None:
    """A case of one wrong `--set`."""
    CASES[name] = lambda fr: (["run", "tiny.toml", "--set", assignment], list(wanted))


# Experiment: keys, kinds, types, limits
setting(
    "misspelt_top_level_key",
    "round=3",
    "tiny.toml: round:",
    "unknown key of an experiment",
    "did you mean 'rounds'?",
)
setting("misspelt_key_in_a_part", "mobility.mobil=2", "tiny.toml: mobility.mobil:", "did you mean 'mobile'?")
setting(
    "misspelt_kind", "mobility.kind=randon", "'randon'", "allowed are", "static", "did you mean 'random'?"
)
setting("kind_is_a_number", "model.kind=3", "model.kind = 3", "name of a kind")
setting("section_is_a_number", "model=3", "[model]", "found 3", "table of settings")
setting("text_for_a_whole_number", "clients=many", "clients = 'many'", "integer")
setting("fraction_for_a_whole_number", "clients=2.5", "clients = 2.5", "integer")
setting("truth_for_a_number", "rounds=true", "rounds = True", "integer")
setting("list_for_a_number", "training.lr=[1]", "training.lr", "number")
setting("unknown_choice", "evaluate_on=mine", "evaluate_on = 'mine'", "'shared' or 'own'")
setting(
    "negative_radius", "contacts.radius=-1", "tiny.toml: contacts.radius = -1", "greater than or equal to 0"
)
setting("radius_not_a_number", "contacts.radius=nan", "contacts.radius = nan")
setting("infinite_learning_rate", "training.lr=inf", "training.lr = inf", "less than")
setting("learning_rate_not_a_number", "training.lr=nan", "training.lr = nan")
setting("weight_decay_infinite", "training.weight_decay=inf", "training.weight_decay = inf")
setting("alpha_not_a_number", "partition={kind='dirichlet',alpha=nan}", "partition.alpha = nan")
setting("alpha_infinite", "partition={kind='dirichlet',alpha=inf}", "partition.alpha = inf")
setting("no_clients", "clients=0", "clients = 0", "greater than or equal to 1")
setting("no_rounds", "rounds=0", "rounds = 0", "greater than or equal to 1")
setting("negative_seed", "seed=-1", "seed = -1", "greater than or equal to 0")
setting("more_mobile_than_clients", "mobility.mobile=9", "mobility.mobile = 9", "allowed is 0 to 4")
setting("unknown_device", "device=gpu", "device = 'gpu'", "cpu, cuda")
setting("name_with_a_slash", "name=a/b", "name = 'a/b'", "letters, digits")
setting("zero_seeds_by_set", "seeds=0", "seeds = 0", "whole number from 1")
setting("negative_width", "model={kind='mlp',hidden=[8,-8]}", "model.hidden.1 = -8", "greater than 0")
setting("own_test_without_share", "evaluate_on=own", "evaluate_on", "test_share")
setting("link_without_a_clock", "link.kind=fixed", "link.kind = 'fixed'", "clock.kind = 'seconds'")
setting("clock_without_length", "clock={kind='seconds',length=0}", "clock.length = 0", "greater than 0")
setting("minimum_without_meaning", "clock={kind='seconds',minimum=3}", "clock: minimum = 3", "leave it out")
setting("too_many_clients", "clients=5000", "5000 client", "179 training samples")


@case
def shares_leave_nothing(fr: Commands) -> tuple[list[str], list[str]]:
    shares = ["--set", "test_share=0.5", "--set", "validation_share=0.5"]
    return ["run", "tiny.toml", *shares], ["validation_share + test_share = 1", "below 1"]


@case
def steps_and_epochs(fr: Commands) -> tuple[list[str], list[str]]:
    both = ["--set", "training.steps=2", "--set", "training.epochs=3"]
    return ["run", "tiny.toml", *both], ["training", "steps = 2 and epochs = 3", "one of the two"]


@case
def image_model_on_flat_samples(fr: Commands) -> tuple[list[str], list[str]]:
    return (
        ["run", table(fr, "a,b,label\n" + "1,2,x\n3,4,y\n" * 5), "--set", "model=lenet_gn"],
        ["lenet_gn", "images", "(2,)"],
    )


@case
def dirichlet_that_cannot_be_satisfied(fr: Commands) -> tuple[list[str], list[str]]:
    part = "partition={kind='dirichlet',alpha=0.01,min_samples=30,max_tries=5}"
    return ["run", "tiny.toml", "--set", part], ["Dirichlet(0.01)", "5", "raise partition.alpha"]


@case
def dirichlet_with_too_few_samples(fr: Commands) -> tuple[list[str], list[str]]:
    part = "partition={kind='dirichlet',min_samples=1000}"
    return ["run", "tiny.toml", "--set", part], ["partition", "1000", "4 client"]


@case
def cuda_without_cuda(fr: Commands) -> tuple[list[str], list[str]]:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    return ["run", "tiny.toml", "--set", "device=cuda"], ["device = 'cuda'", "no CUDA", "'cpu'"]


@case
def mps_without_mps(fr: Commands) -> tuple[list[str], list[str]]:
    if torch.backends.mps.is_available():
        pytest.skip("this machine has MPS")
    return ["run", "tiny.toml", "--set", "device=mps"], ["device = 'mps'", "no MPS", "cpu"]


@case
def sweep_on_a_device_that_is_not_here(fr: Commands) -> tuple[list[str], list[str]]:
    words = ["sweep", "tiny.toml", "--over", "training.lr=0.1,0.2", "--set", "device=cuda:77", "--out", "new"]
    return words, ["device = 'cuda:77'", "this machine or this torch has", "cpu"]


TOO_LONG = "x" * 256
for _words in (
    ["run", "tiny.toml", "--out", TOO_LONG],
    ["run", "tiny.toml", "--out", "a/" * 3000],
    ["sweep", "tiny.toml", "--over", "training.lr=0.1,0.2", "--out", TOO_LONG],
    ["run", "tiny.toml", "--use", f"{TOO_LONG}.py"],
    ["compare", TOO_LONG],
    ["compare", ".", "--csv", TOO_LONG],
    ["report", TOO_LONG],
    ["report", ".", "--out", TOO_LONG],
    ["verify", TOO_LONG],
    ["connectivity", TOO_LONG],
    ["connectivity", "tiny.toml", "--out", TOO_LONG],
    ["reproduce", "reza", "--out", TOO_LONG],
    ["data", "info", "tiny.toml", "--out", TOO_LONG],
    ["data", "fetch", "mnist", "--root", TOO_LONG],
    ["trace", "info", TOO_LONG],
    ["trace", "import", TOO_LONG, "new.parquet"],
    ["trace", "import", "tiny.toml", f"{TOO_LONG}.parquet"],
    ["bench", "A", "--json", TOO_LONG],
    ["init", TOO_LONG],
):
    CASES[f"too_long_a_name, {_words[0]} {_words[-2]:.9}"] = lambda fr, words=_words: (
        words,
        ["a name that is too long", "255"],
    )


@case
def a_name_with_nul(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--out", "a\0b"], ["--out 'a\\x00b'", "NUL"]


setting("file_with_nul", r'data={kind="csv",path="a\u0000b"}', "data.path", "NUL")

# Settings that nobody would choose, with what stands in the line
for _assignment, *_told in (
    ("mobility={kind='random_walk',width=1e300}", "mobility.width = 1e+300", "1000000000"),
    ("mobility={kind='random_walk',width=1e-300}", "times a round", "up to 1000 times"),
    ("mobility={kind='random_walk',max_speed=1e300}", "times a round", "up to 1000 times"),
    ("mobility.grid=1_000_000_000", "mobility.grid = 1000000000", "5000"),
    ("clients=1_000_000_000", "clients = 1000000000", "1000000"),
    ("rounds=1_000_000_000", "rounds = 1000000000", "99999999"),
    ("engine={kind='cpu',workers=1_000_000_000}", "engine.workers = 1000000000", "1024"),
    ("access_points={kind='uniform',number=1_000_000_000}", "number = 1000000000", "100000"),
    ("access_points={kind='grid',columns=50_000,rows=50_000}", "50000 times 50000", "100000 in all"),
    ("model={kind='mlp',hidden=[1_000_000,1_000_000]}", "model 'mlp'", "parameters", "1000000000"),
    ("training.steps=1_000_000_000", "training.steps = 1000000000", "1000000"),
    ("contacts={kind='sampled',samples=1_000_000_000}", "contacts.samples", "10000"),
):
    setting(f"absurd: {_assignment}", _assignment, *_told)


@case
def a_billion_workers_of_a_sweep(fr: Commands) -> tuple[list[str], list[str]]:
    words = ["sweep", "tiny.toml", "--over", "training.lr=0.1,0.2", "--workers", "1000000000"]
    return words, ["workers = 1000000000", "1024"]


@case
def variant_with_a_bad_name(fr: Commands) -> tuple[list[str], list[str]]:
    fr.write("v.toml", TINY + '[variants."a b"]\nmobility.kind = "static"\n')
    return ["run", "v.toml"], ["v.toml", "variants.a b", "letters, digits"]


@case
def variant_that_is_no_table(fr: Commands) -> tuple[list[str], list[str]]:
    fr.write("v.toml", TINY + '[variants]\nstatic = "static"\n')
    return ["run", "v.toml"], ["v.toml", "variants", "tables"]


@case
def second_variant_cannot_run(fr: Commands) -> tuple[list[str], list[str]]:
    fr.write("v.toml", TINY + "[variants.few]\nrounds = 2\n[variants.many]\nmobility.mobile = 7\n")
    return ["run", "v.toml"], ["v.toml: variant 'many'", "mobility.mobile = 7", "0 to 4"]


@case
def only_run_cannot_run(fr: Commands) -> tuple[list[str], list[str]]:
    fr.write("v.toml", TINY.replace("mobile = 2", "mobile = 7"))
    return ["run", "v.toml"], ["v.toml: mobility kind 'random': mobility.mobile = 7", "0 to 4"]


@case
def second_variant_cannot_start(fr: Commands) -> tuple[list[str], list[str]]:
    fr.write(
        "late.py",
        "import numpy as np\n"
        "from fedroam import Part, register\n"
        "from fedroam.mobility import Paths\n"
        "@register('mobility', 'nowhere')\n"
        "class Nowhere(Part):\n"
        "    def start(self, world):\n"
        "        return {'position': np.full((world.clients, 2), np.nan)}\n"
        "    def step(self, state, world, round):\n"
        "        return dict(state), Paths.still(state['position'])\n"
        "    def bounds(self):\n"
        "        return 0.0, 0.0, 1.0, 1.0\n"
        "    def groups(self, world):\n"
        "        return np.full(world.clients, 'lost')\n",
    )
    fr.write("v.toml", TINY + "[variants.near]\nrounds = 2\n[variants.off]\nmobility = 'nowhere'\n")
    return ["run", "v.toml", "--use", "late.py"], [
        "v.toml: variant 'off'",
        "mobility kind 'nowhere', round 0",
        "(nan, nan)",
        "finite",
    ]


# Files
@case
def missing_file(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "other.toml"], ["other.toml", "no such experiment file", "quickstart"]


@case
def unknown_experiment(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "quikstart"], ["unknown experiment 'quikstart'", "did you mean 'quickstart'?"]


@case
def folder_for_a_file(fr: Commands) -> tuple[list[str], list[str]]:
    (fr.folder / "sub.toml").mkdir()
    return ["run", "sub.toml"], ["sub.toml: is a folder", "allowed is an experiment file"]


@case
def toml_cut_off(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", fr.write("bad.toml", "clients = 4\nrounds = \n")], ["bad.toml", "TOML", "line 2"]


@case
def toml_key_twice(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", fr.write("bad.toml", "clients = 4\nclients = 5\n")], ["bad.toml", "TOML", "line 2"]


@case
def file_not_text(fr: Commands) -> tuple[list[str], list[str]]:
    (fr.folder / "bad.toml").write_bytes(b"\xff\xfe\x00")
    return ["run", "bad.toml"], ["bad.toml, line 1: not UTF-8 text (byte 0 is 0xff)", "iconv -f UTF-16"]


# Options
@case
def set_without_value(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--set", "rounds"], ["--set rounds", "key=value"]


@case
def set_with_a_bad_key(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--set", "mobility..mobile=1"], ["--set mobility..mobile=1", "key=value"]


@case
def set_into_a_number(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--set", "rounds.more=1"], ["rounds", "{'more': 1}", "integer"]


@case
def seeds_not_a_number(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--seeds", "x"], ["--seeds", "'x'", "integer"]


@case
def seeds_given_twice(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--seeds", "1", "--seeds", "x"], ["--seeds", "'x'", "integer"]


@case
def zero_seeds(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--seeds", "0"], ["seeds = 0", "whole number from 1"]


@case
def workers_of_an_engine_without(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--workers", "2"], ["engine.workers", "unknown key", "'reference'"]


@case
def resume_and_fresh(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--resume", "--fresh"], ["--resume and --fresh", "one of the two"]


@case
def misspelt_command(fr: Commands) -> tuple[list[str], list[str]]:
    return ["rnu", "tiny.toml"], ["unknown command of fedroam 'rnu'", "did you mean 'run'?"]


@case
def misspelt_subcommand(fr: Commands) -> tuple[list[str], list[str]]:
    return ["data", "inof", "tiny.toml"], ["fedroam data 'inof'", "did you mean 'info'?"]


@case
def misspelt_option(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--seed", "3"], ["'--seed'", "did you mean '--seeds'?"]


@case
def argument_missing(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run"], ["fedroam run", "FILE|NAME", "fedroam run --help"]


@case
def argument_too_many(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "more.toml"], ["fedroam run", "more.toml"]


# Parts of one's own
PART = """\
from fedroam import Part, register
@register("mobility", "{kind}")
class Mine(Part):
    "Mine."
    def start(self, world): ...
    def bounds(self): ...
    def groups(self, world): ...
"""


@case
def use_missing(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--use", "mine.py"], ["--use mine.py", "no such file"]


@case
def use_not_python(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--use", fr.write("mine.txt", "x")], ["--use mine.txt", ".py"]


@case
def use_with_a_syntax_error(fr: Commands) -> tuple[list[str], list[str]]:
    fr.write("mine_a.py", "x = 1\ndef f(:\n")
    return ["run", "tiny.toml", "--use", "mine_a.py"], ["--use mine_a.py", "line 2", "SyntaxError"]


@case
def use_that_raises(fr: Commands) -> tuple[list[str], list[str]]:
    fr.write("mine_b.py", "x = 1\n\ny = x / 0\n")
    return ["run", "tiny.toml", "--use", "mine_b.py"], ["--use mine_b.py", "line 3", "ZeroDivisionError"]


@case
def use_lacking_a_method(fr: Commands) -> tuple[list[str], list[str]]:
    fr.write("mine_c.py", PART.format(kind="mine"))
    return ["run", "tiny.toml", "--use", "mine_c.py"], ["mobility 'mine' (Mine)", "lacks", "step"]


@case
def use_of_a_taken_kind(fr: Commands) -> tuple[list[str], list[str]]:
    fr.write("mine_d.py", PART.format(kind="static") + "    def step(self, state, world, round): ...\n")
    return ["run", "tiny.toml", "--use", "mine_d.py"], ["mobility kind 'static'", "taken", "Static"]


@case
def use_of_an_unknown_family(fr: Commands) -> tuple[list[str], list[str]]:
    text = PART.format(kind="mine").replace('"mobility"', '"mobilty"')
    fr.write("mine_e.py", text)
    return ["run", "tiny.toml", "--use", "mine_e.py"], ["'mobilty'", "did you mean 'mobility'?"]


# Data
def table(fr: Commands, text: str) -> str:
    """An experiment on a CSV table; returns the experiment's file."""
    fr.write("rows.csv", text)
    lines = [line for line in TINY.splitlines() if not line.startswith("data =")]
    data = 'data = { kind = "csv", path = "rows.csv" }'
    return fr.write("table.toml", "\n".join([*lines, data]).replace("clients = 4", "clients = 2"))


@case
def missing_data_set(fr: Commands) -> tuple[list[str], list[str]]:
    (fr.folder / "empty").mkdir()
    return (
        ["run", "tiny.toml", "--set", "data={kind='mnist',root='empty'}"],
        ["data mnist", "not found in empty", "FEDROAM_DATA", "fedroam data fetch mnist"],
    )


@case
def data_root_missing(fr: Commands) -> tuple[list[str], list[str]]:
    root = "data={kind='mnist',root='nowhere'}"
    return ["run", "tiny.toml", "--set", root], ["data.root = 'nowhere'", "no such folder"]


@case
def csv_with_a_hole(fr: Commands) -> tuple[list[str], list[str]]:
    file = table(fr, "a,b,label\n1,2,x\n3,,y\n")
    return ["run", file], ["rows.csv", "line 3", "column 'b'", "empty"]


@case
def csv_with_a_ragged_row(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", table(fr, "a,b,label\n1,2,x\n3,4\n")], ["rows.csv", "line 3", "2 cells", "header has 3"]


@case
def csv_with_text_among_numbers(fr: Commands) -> tuple[list[str], list[str]]:
    file = table(fr, "a,b,label\n1,2,x\n3,red,y\n")
    return ["run", file], ["rows.csv", "line 3", "column 'b'", "'red'", "number"]


@case
def csv_without_the_label(fr: Commands) -> tuple[list[str], list[str]]:
    file = table(fr, "a,b,lable\n1,2,x\n3,4,y\n")
    return ["run", file], ["column of", "rows.csv", "'label'", "did you mean 'lable'?"]


@case
def csv_missing(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", table(fr, ""), "--set", "data.path=no.csv"], ["data.path = 'no.csv'", "no such file"]


@case
def csv_empty(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", table(fr, "")], ["rows.csv", "header"]


@case
def partition_by_an_unknown_column(fr: Commands) -> tuple[list[str], list[str]]:
    file = table(fr, "a,place,label\n" + "1,p,x\n3,q,y\n4,q,x\n5,p,y\n" * 3)
    change = ["--set", "data.columns=['place']", "--set", "partition={kind='column',column='plaza'}"]
    return ["run", file, *change], ["partition.column", "'plaza'", "did you mean 'place'?"]


@case
def partition_by_column_without_columns(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--set", "partition={kind='column',column='w'}"], ["digits", "columns"]


def arrays(fr: Commands, **content: np.ndarray) -> list[str]:
    np.savez(fr.folder / "own.npz", **content)  # type: ignore[arg-type]
    return ["run", "tiny.toml", "--set", "data={kind='arrays',path='own.npz'}"]


X, Y = np.zeros((40, 3), np.float32), np.arange(40) % 2


@case
def npz_damaged(fr: Commands) -> tuple[list[str], list[str]]:
    command = arrays(fr, x_train=X, y_train=Y)
    whole = (fr.folder / "own.npz").read_bytes()
    (fr.folder / "own.npz").write_bytes(whole[: len(whole) // 2])
    return command, ["own.npz", "damaged"]


@case
def npz_with_one_byte_changed(fr: Commands) -> tuple[list[str], list[str]]:
    command = arrays(fr, x_train=X, y_train=Y)
    damaged = bytearray((fr.folder / "own.npz").read_bytes())
    damaged[300] ^= 0xFF
    (fr.folder / "own.npz").write_bytes(bytes(damaged))
    return command, ["own.npz", "damaged"]


@case
def npz_with_objects(fr: Commands) -> tuple[list[str], list[str]]:
    objects = np.array([{}] * 40, dtype=object)
    return arrays(fr, x_train=X, y_train=objects), ["own.npz", "y_train", "Python objects"]


@case
def npz_without_classes(fr: Commands) -> tuple[list[str], list[str]]:
    return arrays(fr, x_train=X), ["own.npz", "no y_train"]


@case
def npz_of_different_lengths(fr: Commands) -> tuple[list[str], list[str]]:
    return arrays(fr, x_train=X, y_train=Y[:-1]), ["own.npz", "y_train", "(39,)", "40 samples"]


@case
def npz_with_a_value_not_finite(fr: Commands) -> tuple[list[str], list[str]]:
    x = X.copy()
    x[7, 1] = np.nan
    return arrays(fr, x_train=x, y_train=Y, x_test=X, y_test=Y), ["own.npz", "7", "not finite"]


@case
def fetch_unknown(fr: Commands) -> tuple[list[str], list[str]]:
    return ["data", "fetch", "mnst"], ["'mnst'", "did you mean 'mnist'?"]


# Run folders
def unfinished(fr: Commands) -> Path:
    """A run stopped after round 2 of 3, in `out/seed-0`."""
    from fedroam import Interrupted, plan
    from fedroam.runner import run_plan

    def stop(round: int, *_: object) -> None:
        if round == 3:
            raise Interrupted("stopped by the test")

    with pytest.raises(Interrupted):
        run_plan(plan("tiny.toml"), "out", observer=lambda planned: stop)
    return fr.folder / "out" / "seed-0"


def finished(fr: Commands) -> Path:
    """A finished run, in `out/seed-0`."""
    assert fr.run("--out", "out").code == 0
    return fr.folder / "out" / "seed-0"


def newest_checkpoint(folder: Path) -> Path:
    return sorted((folder / "checkpoints").glob("*.safetensors"))[-1]


@case
def unfinished_without_resume(fr: Commands) -> tuple[list[str], list[str]]:
    unfinished(fr)
    return ["run", "tiny.toml", "--out", "out"], ["out/seed-0", "round 2 of 3", "--resume", "--fresh"]


@case
def checkpoint_cut_off(fr: Commands) -> tuple[list[str], list[str]]:
    path = newest_checkpoint(unfinished(fr))
    path.write_bytes(path.read_bytes()[:-100])
    return (
        ["run", "tiny.toml", "--out", "out", "--resume"],
        ["round-00000002.safetensors", "damaged checkpoint", "round-00000001.safetensors"],
    )


@case
def checkpoint_empty(fr: Commands) -> tuple[list[str], list[str]]:
    newest_checkpoint(unfinished(fr)).write_bytes(b"")
    return ["run", "tiny.toml", "--out", "out", "--resume"], ["round-00000002", "damaged checkpoint"]


@case
def checkpoint_with_one_bit_flipped(fr: Commands) -> tuple[list[str], list[str]]:
    path = newest_checkpoint(unfinished(fr))
    damaged = bytearray(path.read_bytes())
    damaged[int(stream(0, "test").integers(len(damaged) // 2, len(damaged)))] ^= 4
    path.write_bytes(bytes(damaged))
    return ["run", "tiny.toml", "--out", "out", "--resume"], ["round-00000002", "check sum does not match"]


@case
def checkpoint_of_another_experiment(fr: Commands) -> tuple[list[str], list[str]]:
    path = newest_checkpoint(unfinished(fr))
    from fedroam.recording import checkpoint

    digest, other = json.loads((path.parents[1] / "run.json").read_text())["digest"], "0" * 64
    found = checkpoint.load(path, digest)
    checkpoint.save(path.parent, found.round, other, found.arrays)
    return ["run", "tiny.toml", "--out", "out", "--resume"], ["another experiment", other[:12], digest[:12]]


@case
def folder_of_another_experiment(fr: Commands) -> tuple[list[str], list[str]]:
    finished(fr)
    change = ["--set", "contacts.radius=2.0"]
    return (
        ["run", "tiny.toml", "--out", "out", *change],
        ["out/seed-0", "contacts.radius = 3.0 there, 2.0 here", "--out"],
    )


@case
def folder_of_somebody_else(fr: Commands) -> tuple[list[str], list[str]]:
    (fr.folder / "thesis").mkdir()
    fr.write("thesis/chapter.txt", "My life's work.")
    return ["run", "tiny.toml", "--out", "thesis"], ["thesis", "not empty", "--out"]


@case
def folder_of_somebody_else_with_fresh(fr: Commands) -> tuple[list[str], list[str]]:
    (fr.folder / "thesis" / "seed-0").mkdir(parents=True)
    fr.write("thesis/seed-0/chapter.txt", "My life's work.")
    return ["run", "tiny.toml", "--out", "thesis", "--fresh"], ["thesis/seed-0", "not a run folder"]


@case
def out_is_a_run_folder(fr: Commands) -> tuple[list[str], list[str]]:
    finished(fr)
    return ["run", "tiny.toml", "--out", "out/seed-0"], ["out/seed-0", "single run", "--out"]


@case
def out_is_a_file(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--out", "tiny.toml"], ["tiny.toml", "is a file", "folder"]


@case
def out_below_a_file(fr: Commands) -> tuple[list[str], list[str]]:
    return ["run", "tiny.toml", "--out", "tiny.toml/out"], ["tiny.toml/out", "cannot be written"]


@case
def out_that_cannot_be_made(fr: Commands) -> tuple[list[str], list[str]]:
    if not Path("/proc/self").is_dir():
        pytest.skip("needs /proc, where nobody can make a folder")
    return ["run", "tiny.toml", "--out", "/proc/fedroam"], ["/proc/fedroam", "cannot be written"]


@case
def run_json_damaged_on_resume(fr: Commands) -> tuple[list[str], list[str]]:
    (unfinished(fr) / "run.json").write_text("{")
    return ["run", "tiny.toml", "--out", "out", "--resume"], ["run.json", "damaged"]


# Reading results
@case
def compare_missing_folder(fr: Commands) -> tuple[list[str], list[str]]:
    return ["compare", "nowhere"], ["nowhere", "no such folder"]


@case
def compare_empty_folder(fr: Commands) -> tuple[list[str], list[str]]:
    (fr.folder / "empty").mkdir()
    return ["compare", "empty"], ["empty", "no run folder", "run.json"]


@case
def compare_run_json_damaged(fr: Commands) -> tuple[list[str], list[str]]:
    (finished(fr) / "run.json").write_text('{"format": 1')
    return ["compare", "out"], ["out/seed-0/run.json", "damaged", "line 1"]


@case
def compare_run_json_of_something_else(fr: Commands) -> tuple[list[str], list[str]]:
    (finished(fr) / "run.json").write_text('{"digest": "x", "format": 1}')
    return ["compare", "out"], ["out/seed-0/run.json", "damaged, or written by another version"]


@case
def compare_table_damaged(fr: Commands) -> tuple[list[str], list[str]]:
    path = finished(fr) / "rounds.parquet"
    path.write_bytes(path.read_bytes()[:200])
    return ["compare", "out"], ["out/seed-0/rounds.parquet", "damaged"]


@case
def compare_table_missing(fr: Commands) -> tuple[list[str], list[str]]:
    (finished(fr) / "rounds.parquet").unlink()
    return ["compare", "out"], ["out/seed-0/rounds.parquet", "missing"]


@case
def compare_threshold_above_one(fr: Commands) -> tuple[list[str], list[str]]:
    finished(fr)
    return ["compare", "out", "--threshold", "80"], ["threshold = 80", "0.8 is 80 %"]


@case
def compare_last_of_nothing(fr: Commands) -> tuple[list[str], list[str]]:
    finished(fr)
    return ["compare", "out", "--last", "0"], ["last = 0", "at least 1"]


@case
def compare_csv_that_cannot_be_written(fr: Commands) -> tuple[list[str], list[str]]:
    finished(fr)
    return ["compare", "out", "--csv", "nowhere/table.csv"], ["nowhere/table.csv", "cannot be written"]


@case
def report_settings_damaged(fr: Commands) -> tuple[list[str], list[str]]:
    folder = finished(fr)
    of_before_there_was_a_manifest(folder)  # otherwise its size is told
    (folder / "experiment.toml").write_text("clients = \n")
    return ["report", "out"], ["out/seed-0/experiment.toml", "damaged", "line 1"]


@case
def report_table_damaged(fr: Commands) -> tuple[list[str], list[str]]:
    (finished(fr) / "clients.parquet").write_bytes(b"PAR1 nonsense PAR1")
    return ["report", "out"], ["out/seed-0/clients.parquet", "damaged"]


@case
def report_into_a_file(fr: Commands) -> tuple[list[str], list[str]]:
    finished(fr)
    return ["report", "out", "--out", "tiny.toml"], ["tiny.toml", "cannot be written"]


# The rest
@case
def init_over_a_file(fr: Commands) -> tuple[list[str], list[str]]:
    return ["init", "tiny.toml"], ["tiny.toml", "exists already"]


@case
def init_into_a_missing_folder(fr: Commands) -> tuple[list[str], list[str]]:
    return ["init", "nowhere/new.toml"], ["nowhere/new.toml", "cannot be written"]


@case
def list_unknown_family(fr: Commands) -> tuple[list[str], list[str]]:
    return ["list", "mobilities"], ["'mobilities'", "did you mean 'mobility'?"]


@case
def show_unknown(fr: Commands) -> tuple[list[str], list[str]]:
    return ["show", "metropolus"], ["unknown name 'metropolus'", "did you mean 'metropolis'?"]


@case
def show_unknown_kind_of_a_family(fr: Commands) -> tuple[list[str], list[str]]:
    return ["show", "mixing.random"], ["unknown mixing kind 'random'", "metropolis"]


@case
def data_info_into_a_file(fr: Commands) -> tuple[list[str], list[str]]:
    return ["data", "info", "tiny.toml", "--out", "tiny.toml"], ["tiny.toml", "cannot be written"]


@pytest.fixture
def fr(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Commands:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDROAM_DATA", raising=False)
    monkeypatch.setattr("fedroam.data.sources.places.cache_folder", lambda: tmp_path / "no-cache")
    return Commands(tmp_path, capsys)


@pytest.mark.parametrize("name", CASES)
def test_one_clear_line_and_nothing_touched(name: str, fr: Commands) -> None:
    arguments, wanted = CASES[name](fr)
    before = contents(fr.folder)
    answer = fr(*arguments)
    assert answer.code == 2, answer
    assert "Traceback" not in answer.out + answer.err
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.endswith("\n")
    assert answer.err.startswith("error: ")
    missing = [text for text in wanted if text not in answer.err]
    assert not missing, answer.err
    assert contents(fr.folder) == before


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 35


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["run", "tiny.toml", "--set", "contacts.radius=-1"], "contacts.radius = -1"),
        (["run", "--sets", "x=1", "tiny.toml"], "did you mean '--set'?"),
        (["compare", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_also_as_a_program(arguments: list[str], wanted: str, fr: Commands) -> None:
    done = subprocess.run(
        [*python(), "-m", "fedroam", *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert wanted in done.stderr
